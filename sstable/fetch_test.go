package sstable

import (
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/vfs"
)

// Tables whose index, filter and dictionary are left to the cache, which keeps all, little or nothing of them, say what
// the slice beside them says.
func TestTablesWithoutBlocksOfTheirOwnReadTheSame(t *testing.T) {
	for round := range uint64(24) {
		rng := rand.New(rand.NewPCG(round, 2))
		cmp := []*kv.Comparer{kv.Bytewise, kv.ReverseBytewise}[round%2]
		tw := some(rng, cmp, 1+rng.IntN(300))
		fs := vfs.NewMem()
		tw.write(t, fs, "t", WriterOptions{Filter: filter.Bloom(10), BlockSize: 100, FormatVersion: 2 + int(round%6)})
		c := cache.NewWith(cache.Options{Capacity: []int64{8 << 20, 16 << 10, 0}[round%3], HighPriorityPoolRatio: 0.3})
		var s Stats
		r := open(t, fs, "t", ReaderOptions{
			Comparer: cmp, Cache: c, CacheMeta: true, HighPriority: round%4 < 2, Pin: round%5 == 0, Stats: &s,
		})
		require.True(t, r.HasFilter())
		for _, io := range []IterOptions{{}, {Readahead: 1 << 10}, {DontFillCache: true}} {
			i := r.NewIter(io)
			tw.checkWalks(t, rng, i, 60)
			require.NoError(t, i.Close())
		}
		tw.checkGets(t, rng, r, 200)
		tw.checkMultiGet(t, rng, r, 200)
		require.NoError(t, r.VerifyChecksums(t.Context()))
		require.Less(t, r.MemoryUsage(), int64(100), "the reader has nothing to speak of")
		var n stats.Counts
		s.AddTo(&n)
		require.NotZero(t, n[stats.BlockCacheIndexHit]+n[stats.BlockCacheIndexMiss])
		require.NotZero(t, n[stats.BlockCacheFilterHit]+n[stats.BlockCacheFilterMiss])
		if round%3 == 0 {
			require.EqualValues(t, 1, n[stats.BlockCacheIndexAdd], "all of it fits")
			require.EqualValues(t, 1, n[stats.BlockCacheFilterAdd])
			require.Equal(t, 1, c.Stats().Entries[cache.Index].Count)
		}
		require.NoError(t, r.Close())
		c.SetCapacity(0)
		require.Zero(t, c.Usage(), "nothing is held")
	}
}

// RocksDB's tables, partitioned ones and those with dictionaries among them, say the same with and without blocks of
// their own.
func TestRocksDBsTablesReadTheSameOutOfTheCache(t *testing.T) {
	names, err := filepath.Glob(goldenDir + "/*/db/*.sst")
	require.NoError(t, err)
	read := 0
	for _, name := range names {
		all := func(meta bool) (keys, values []string, err error) {
			f, err := vfs.OS.Open(name)
			require.NoError(t, err)
			c := cache.New(64 << 10)
			r, err := Open(f, name, ReaderOptions{Cache: c, CacheMeta: meta, LargestSeq: 1000})
			if err != nil {
				return nil, nil, err
			}
			defer r.Close()
			i := r.NewIter(IterOptions{})
			defer i.Close()
			for e := i.First(); e != nil; e = i.Next() {
				keys, values = append(keys, e.Key.String()), append(values, string(e.Value))
				g := lookup.Get{User: e.Key.User, Seq: kv.MaxSeq}
				if err := r.Get(&g, false); err != nil {
					return nil, nil, err
				}
				if g.State == lookup.Pending && !g.Merging() {
					require.Fail(t, "not found", "%s: %v", name, e.Key)
				}
				g.Release()
			}
			return keys, values, i.Err()
		}
		keys, values, err := all(false)
		require.NoError(t, err, name)
		read++
		k, v, err := all(true)
		require.NoError(t, err, name)
		require.Equal(t, keys, k, name)
		require.Equal(t, values, v, name)
	}
	require.NotZero(t, read)
}

// gate is a file whose reads are counted and wait.
type gate struct {
	vfs.File
	mu    sync.Mutex
	reads int
	enter chan struct{}
	leave chan struct{}
}

func (g *gate) ReadAt(b []byte, off int64) (int, error) {
	g.mu.Lock()
	g.reads++
	enter, leave := g.enter, g.leave
	g.mu.Unlock()
	if enter != nil {
		enter <- struct{}{}
		<-leave
	}
	return g.File.ReadAt(b, off)
}

func TestReadersOfOneBlockReadTheFileOnce(t *testing.T) {
	fs := vfs.NewMem()
	tw := twin{cmp: kv.Bytewise, entries: []kv.Entry{{Key: kv.MakeKey([]byte("k"), 1, kv.KindValue), Value: []byte("v")}}}
	tw.write(t, fs, "t", WriterOptions{})
	f, err := fs.Open("t")
	require.NoError(t, err)
	g := &gate{File: f}
	r, err := Open(g, "t", ReaderOptions{Cache: testCache()})
	require.NoError(t, err)
	g.reads, g.enter, g.leave = 0, make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			l := lookup.Get{User: []byte("k"), Seq: 9}
			if err := r.Get(&l, false); err != nil || string(l.Value) != "v" {
				t.Error("not the value")
			}
			l.Release()
		})
	}
	<-g.enter // one reads; were there a second one, it would wait here
	close(g.leave)
	all.Wait()
	require.Equal(t, 1, g.reads)
	require.NoError(t, r.Close())
}

// While all of a strict cache is in use, what has to be kept in it is an error, and nothing else is.
func TestStrictCacheRefusesWhatItCannotKeep(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	tw := some(rng, kv.Bytewise, 300)
	fs := vfs.NewMem()
	tw.write(t, fs, "t", WriterOptions{BlockSize: 100})
	for _, strict := range []bool{true, false} {
		c := cache.NewWith(cache.Options{Capacity: 4 << 10, StrictCapacityLimit: strict})
		r := open(t, fs, "t", ReaderOptions{Cache: c})
		var held []*Iterator
		var failed error
		for range 20 {
			i := r.NewIter(IterOptions{})
			held = append(held, i)
			if i.SeekGE(tw.entries[len(held)*10].Key, nil) == nil {
				failed = i.Err()
				break
			}
		}
		if strict {
			require.ErrorIs(t, failed, ErrCacheFull)
			require.ErrorContains(t, failed, "t: data block of")
			i := r.NewIter(IterOptions{DontFillCache: true})
			require.NotNil(t, i.First(), "what is not to be kept needs no room")
			require.NoError(t, i.Close())
			require.ErrorIs(t, held[len(held)-1].Close(), ErrCacheFull)
			held = held[:len(held)-1]
			require.NoError(t, held[0].Close())
			held = held[1:]
			i = r.NewIter(IterOptions{})
			require.NotNil(t, i.First(), "there is room again")
			require.NoError(t, i.Close())
		} else {
			require.NoError(t, failed)
		}
		for _, i := range held {
			require.NoError(t, i.Close())
		}
		require.NoError(t, r.Close())
		c.SetCapacity(0)
		require.Zero(t, c.PinnedUsage(), "what was not kept has gone back too")
	}
}

// A filter or an index that cannot be read is told, each time, and never an answer.
func TestDamageInTheCachesOwnBlocksIsToldEachTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	tw := some(rng, kv.Bytewise, 300)
	fs := vfs.NewMem()
	tw.write(t, fs, "t", WriterOptions{Filter: filter.Bloom(10)})
	for _, which := range []string{"index", "filter"} {
		f, err := fs.Open("t")
		require.NoError(t, err)
		bad := &flipped{File: f, at: -1}
		r, err := Open(bad, "t", ReaderOptions{Cache: testCache(), CacheMeta: true})
		require.NoError(t, err)
		bad.at = int64(r.index.handles[0].Offset)
		if which == "filter" {
			bad.at = int64(r.filter.parts.handles[0].Offset)
		}
		for range 3 {
			g := lookup.Get{User: tw.entries[50].Key.User, Seq: kv.MaxSeq}
			require.ErrorContains(t, r.Get(&g, false), "checksum", which)
			require.Equal(t, lookup.Pending, g.State)
			g.Release()
		}
		require.Error(t, r.VerifyChecksums(t.Context()), which)
		bad.at = -1
		tw.checkGets(t, rng, r, 50)
		tw.checkMultiGet(t, rng, r, 50)
		require.NoError(t, r.Close())
	}
}

// flipped is a file with one wrong byte.
type flipped struct {
	vfs.File
	at int64
}

func (f *flipped) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	if i := f.at - off; f.at >= 0 && i >= 0 && i < int64(n) {
		b[i] ^= 1
	}
	return n, err
}
