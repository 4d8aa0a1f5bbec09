package sstable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/sstable/block"
	"github.com/ashlardb/ashlar/vfs"
)

// sparse makes entries with prefixes of 6 bytes, of which one in three is there, with up to 40 keys each, and keys that
// are too short to have one.
func sparse(n int) twin {
	tw := twin{cmp: kv.Bytewise}
	rng := rand.New(rand.NewPCG(uint64(n), 9))
	for p := range n {
		if p%10 == 0 {
			tw.entries = append(tw.entries, kv.Entry{Key: kv.MakeKey(fmt.Appendf(nil, "p%04d", 3*p), 1, kv.KindValue), Value: []byte("short")})
		}
		for k := range 1 + rng.IntN(40) {
			key := fmt.Appendf(nil, "p%05d/%02d", 30*p+1, k)
			if k == 0 {
				key = key[:6] // the prefix itself
			}
			tw.entries = append(tw.entries, kv.Entry{Key: kv.MakeKey(key, 1, kv.KindValue), Value: []byte("value")})
		}
	}
	slices.SortFunc(tw.entries, func(a, b kv.Entry) int { return bytes.Compare(a.Key.User, b.Key.User) })
	return tw
}

// filterNo is how often a filter has ended a lookup or a seek.
func filterNo(s *Stats) uint64 {
	var n stats.Counts
	s.AddTo(&n)
	return n[stats.LevelUseful] + n[stats.BloomFilterPrefixUseful]
}

func TestASeekWithAPrefixFindsEveryKeyThatHasItAndSkipsTheTableWhereNoneHas(t *testing.T) {
	tw := sparse(60)
	for name, o := range filterKinds() {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			o.BlockSize = 150
			tw.write(t, fs, "t", o)
			var counted Stats
			r := open(t, fs, "t", ReaderOptions{PrefixExtractor: kv.FixedPrefix(6), Cache: testCache(), Stats: &counted})
			defer r.Close()
			i := r.NewIter(IterOptions{})
			defer i.Close()
			absent := 0
			for p := range 1800 {
				prefix := fmt.Appendf(nil, "p%05d", p)
				for _, user := range [][]byte{prefix, fmt.Appendf(nil, "%s/%02d", prefix, p%41), append(bytes.Clone(prefix), 0xff)} {
					k := kv.SeekKey(user, kv.MaxSeq)
					want := tw.seekGE(k)
					e := i.SeekGE(k, prefix)
					require.NoError(t, i.Err())
					switch {
					case want < len(tw.entries) && bytes.HasPrefix(tw.entries[want].Key.User, prefix):
						require.NotNil(t, e, "%s", user)
						same(t, tw.entries[want], e)
					case e != nil:
						require.False(t, bytes.HasPrefix(e.Key.User, prefix))
					}
				}
				if p%30 != 1 {
					absent += 3
				}
			}
			no := filterNo(&counted)
			if o.PrefixExtractor == nil {
				require.Zero(t, no)
				return
			}
			require.Greater(t, no, uint64(absent)*9/10, "%d seeks where there is nothing", absent)
		})
	}
}

func TestAPartitionOfTheFilterKnowsTheFirstPrefixOfTheNext(t *testing.T) {
	for _, whole := range []bool{false, true} {
		var f filterWriter
		f.init(&WriterOptions{
			Filter: filter.Bloom(20), PrefixExtractor: kv.FixedPrefix(2), NoWholeKeyFiltering: !whole, PartitionFilters: true, MetadataBlockSize: 64,
		})
		f.add([]byte("aa1"))
		f.cut([]byte("bb1"), true)
		f.add([]byte("bb1"))
		f.add([]byte("bb2"))
		f.cut(nil, false)
		require.Len(t, f.blocks, 2)
		has := func(n int, what string) bool {
			yes, err := filter.Bloom(20).(filter.Prober).MayContain(f.blocks[n], []byte(what))
			require.NoError(t, err)
			return yes
		}
		require.True(t, has(0, "aa") && has(0, "bb") && has(1, "bb"))
		require.False(t, has(1, "aa"))
		require.Equal(t, []bool{whole, false, whole, whole}, []bool{has(0, "aa1"), has(0, "bb1"), has(1, "bb1"), has(1, "bb2")})
	}
}

func TestEveryKeyIsFoundThroughEveryKindOfFilterAndMostOthersAreNot(t *testing.T) {
	tw := sparse(60)
	for name, o := range filterKinds() {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			o.BlockSize = 150
			tw.write(t, fs, "t", o)
			var counted Stats
			r := open(t, fs, "t", ReaderOptions{PrefixExtractor: kv.FixedPrefix(6), Cache: testCache(), Stats: &counted})
			defer r.Close()
			get := func(user []byte) lookup.State {
				g := lookup.Get{User: user, Seq: kv.MaxSeq}
				require.NoError(t, r.Get(&g, false))
				g.Tally.Flush(&counted.Set, 0, 0)
				defer g.Release()
				return g.State
			}
			for _, e := range tw.entries {
				require.Equal(t, lookup.Found, get(e.Key.User), "%s", e.Key.User)
			}
			require.Zero(t, filterNo(&counted))
			for p := range 1800 {
				if p%30 != 1 {
					require.Equal(t, lookup.Pending, get(fmt.Appendf(nil, "p%05d/00", p)))
				}
			}
			require.Greater(t, filterNo(&counted), uint64(1740*9/10))
		})
	}
}

func TestTheFilterOfAnotherExtractorIsNotAsked(t *testing.T) {
	tw := sparse(20)
	for _, whole := range []bool{false, true} {
		fs := vfs.NewMem()
		tw.write(t, fs, "t", WriterOptions{Filter: filter.Bloom(10), PrefixExtractor: kv.FixedPrefix(6), NoWholeKeyFiltering: !whole})
		for _, e := range []kv.SliceTransform{nil, kv.FixedPrefix(5), kv.CappedPrefix(6), kv.FixedPrefix(6)} {
			var counted Stats
			r := open(t, fs, "t", ReaderOptions{PrefixExtractor: e, Stats: &counted})
			ours := e != nil && e.Name() == "rocksdb.FixedPrefix.6"
			require.Equal(t, whole || ours, r.HasFilter())
			i := r.NewIter(IterOptions{})
			i.SeekGE(kv.SeekKey([]byte("p00007/1"), kv.MaxSeq), []byte("p00007"))
			require.Equal(t, ours, filterNo(&counted) == 1)
			require.NoError(t, i.Close())
			g := lookup.Get{User: []byte("p00007/1"), Seq: kv.MaxSeq}
			require.NoError(t, r.Get(&g, false))
			g.Tally.Flush(&counted.Set, 0, 0)
			require.Equal(t, whole || ours, filterNo(&counted) > map[bool]uint64{true: 1}[ours])
			require.NoError(t, r.Close())
		}
	}
}

func TestPartitionsComeThroughTheCache(t *testing.T) {
	tw := sparse(100)
	fs := vfs.NewMem()
	o := WriterOptions{Filter: filter.Bloom(10), BlockSize: 150, TwoLevelIndex: true, PartitionFilters: true, MetadataBlockSize: 200}
	tw.write(t, fs, "t", o)
	f, err := fs.Open("t")
	require.NoError(t, err)
	writes, reads := 0, 0
	c := testCache()
	r, err := Open(counted{f, &writes, &reads}, "t", ReaderOptions{Cache: c})
	require.NoError(t, err)
	defer r.Close()
	require.Greater(t, r.index.len(), 10)
	require.Equal(t, r.index.len(), r.filter.parts.len(), "a partition of the filter ends with one of the index")
	require.Equal(t, uint64(r.index.len()), r.Properties().IndexPartitions)
	require.Less(t, r.MemoryUsage(), int64(r.Properties().IndexSize+r.Properties().FilterSize)/2, "the upper levels alone")

	key := tw.entries[len(tw.entries)/2].Key.User
	get := func(cold bool) error {
		g := lookup.Get{User: key, Seq: kv.MaxSeq, CacheOnly: cold}
		defer g.Release()
		err := r.Get(&g, false)
		require.Equal(t, err == nil, g.State == lookup.Found)
		return err
	}
	i := r.NewIter(IterOptions{CacheOnly: true})
	require.Nil(t, i.First())
	require.ErrorIs(t, i.Close(), ErrNotCached)
	require.ErrorIs(t, get(true), ErrNotCached)
	reads = 0
	require.NoError(t, get(false))
	require.Equal(t, 3, reads, "a partition of the filter, one of the index, a data block")
	require.NoError(t, get(false))
	require.NoError(t, get(true))
	require.Equal(t, 3, reads)
	require.Zero(t, testing.AllocsPerRun(100, func() { require.NoError(t, get(true)) }))
	i = r.NewIter(IterOptions{})
	for e, n := i.First(), 0; e != nil; e, n = i.Next(), n+1 {
		same(t, tw.entries[n], e)
	}
	require.NoError(t, i.Close())
	require.Zero(t, c.PinnedUsage(), "walks and lookups give back what they held")
}

func TestAPartitionThatCannotBeReadIsReportedAndNeverMeansNotFound(t *testing.T) {
	tw := sparse(30)
	fs := vfs.NewMem()
	tw.write(t, fs, "t", WriterOptions{
		Filter: filter.Bloom(10), PrefixExtractor: kv.FixedPrefix(6), BlockSize: 150, TwoLevelIndex: true, PartitionFilters: true, MetadataBlockSize: 100,
	})
	whole := fileBytes(t, fs, "t")
	r, err := openBytes(whole, ReaderOptions{})
	require.NoError(t, err)
	filters, indexes := r.filter.parts.handles, r.index.handles
	for _, h := range append(append([]block.Handle{}, filters...), indexes...) {
		b := bytes.Clone(whole)
		b[h.Offset+h.Size/2] ^= 4
		r, err := openBytes(b, ReaderOptions{Cache: testCache(), PrefixExtractor: kv.FixedPrefix(6)})
		require.NoError(t, err, "partitions are not read by Open")
		failed := 0
		for _, e := range tw.entries {
			g := lookup.Get{User: e.Key.User, Seq: kv.MaxSeq}
			if err := r.Get(&g, false); err != nil {
				c, ok := err.(*corrupt.Error)
				require.True(t, ok)
				require.Equal(t, int64(h.Offset), c.Offset)
				failed++
			} else {
				require.Equal(t, lookup.Found, g.State)
			}
			g.Release()
			i := r.NewIter(IterOptions{})
			if found := i.SeekGE(e.Key, e.Key.User[:min(6, len(e.Key.User))]); found == nil {
				require.Error(t, i.Err())
			}
			i.Close()
		}
		require.NotZero(t, failed)
		require.Error(t, r.VerifyChecksums(t.Context()))
	}
}

func TestHashIndexesAreRocksDBsBytes(t *testing.T) {
	files, err := filepath.Glob(goldenDir + "/78-56-block-hash-index/db/*.sst")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	blocks := 0
	for _, file := range files {
		r := open(t, vfs.OS, file, ReaderOptions{})
		for _, h := range r.index.handles {
			v, err := r.block(h, cache.Data, fetch{})
			require.NoError(t, err)
			var i block.Iter
			require.NoError(t, i.Init(kv.Bytewise, v.Bytes(), 0))
			var b block.Builder
			b.InitHashed(4, 0.75)
			for e := i.First(); e != nil; e = i.Next() {
				b.Add(e.Key, e.Value)
			}
			require.True(t, bytes.Equal(v.Bytes(), b.Finish()), file)
			v.Release()
			blocks++
		}
		require.NoError(t, r.Close())
	}
	require.NotZero(t, blocks)
}

func TestAnIndexIsTheSameInItsImage(t *testing.T) {
	for _, cmp := range []*kv.Comparer{kv.Bytewise, kv.ReverseBytewise} {
		for _, userKeys := range []bool{false, true} {
			tw := some(rand.New(rand.NewPCG(31, 1)), cmp, 200)
			var x index
			x.reset(cmp, userKeys)
			for n, e := range tw.entries {
				key := e.Key.User
				if !userKeys {
					key = e.Key.Append(nil)
				}
				require.True(t, x.add(key, block.Handle{Offset: uint64(n), Size: 1}))
			}
			x.finish()
			c := testCache()
			v := c.Alloc(x.imageSize())
			x.store(v.Bytes())
			var y index
			y.view(v.Bytes(), cmp, userKeys)
			require.Equal(t, x.handles, y.handles)
			rng := rand.New(rand.NewPCG(32, 1))
			for range 2000 {
				k := tw.target(rng)
				require.Equal(t, x.seek(k), y.seek(k))
			}
			v.Release()
		}
	}
}

func BenchmarkGetOfAbsentKeys(b *testing.B) {
	fs := vfs.NewMem()
	for _, c := range []struct {
		name string
		o    WriterOptions
	}{
		{"no filter", WriterOptions{}},
		{"whole", WriterOptions{Filter: filter.Bloom(10)}},
		{"partitions", WriterOptions{Filter: filter.Bloom(10), TwoLevelIndex: true, PartitionFilters: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			f, err := fs.Create("t")
			require.NoError(b, err)
			plain(b, f, 100_000, c.o)
			r := open(b, fs, "t", ReaderOptions{Cache: cache.New(64 << 20)})
			defer r.Close()
			var key [16]byte
			n := 0
			for b.Loop() {
				n++
				g := lookup.Get{User: fmt.Appendf(key[:0], "%016d", 2*(n*7919%100_000)+1), Seq: kv.MaxSeq}
				if err := r.Get(&g, false); err != nil || g.State != lookup.Pending {
					b.Fatal(err)
				}
				g.Release()
			}
		})
	}
}
