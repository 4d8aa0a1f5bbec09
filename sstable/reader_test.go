package sstable

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/compress"
	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
	"github.com/ashlardb/ashlar/sstable/block"
	"github.com/ashlardb/ashlar/vfs"
)

func encodeProperties(p *Properties) []byte {
	var b block.Builder
	return p.encode(&b)
}

// counted is a file that counts calls.
type counted struct {
	vfs.File
	writes, reads *int
}

func (c counted) Write(b []byte) (int, error) { *c.writes++; return c.File.Write(b) }
func (c counted) ReadAt(b []byte, off int64) (int, error) {
	*c.reads++
	return c.File.ReadAt(b, off)
}

// plain writes n keys of 16 bytes with values of 100 that do not compress much, as the benchmarks do.
func plain(tb testing.TB, f vfs.File, n int, o WriterOptions) {
	w := NewWriter(f, "t", o)
	rng := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, 100)
	for j := range n {
		for x := 0; x < 56; x += 8 {
			binary.LittleEndian.PutUint64(value[x:], rng.Uint64())
		}
		require.NoError(tb, w.Add(kv.MakeKey(fmt.Appendf(nil, "%016d", 2*j), kv.Seq(1+rng.IntN(n)), kv.KindValue), value))
	}
	_, err := w.Finish()
	require.NoError(tb, err)
}

func TestLargeReadsAndWrites(t *testing.T) {
	fs := vfs.NewMem()
	f, err := fs.Create("t")
	require.NoError(t, err)
	writes, reads := 0, 0
	plain(t, counted{f, &writes, &reads}, 40000, WriterOptions{Compression: compress.None})
	f, err = fs.Open("t")
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	require.LessOrEqual(t, writes, int(size/writeSize)+1)
	r, err := Open(counted{f, &writes, &reads}, "t", ReaderOptions{Cache: testCache()})
	require.NoError(t, err)
	defer r.Close()
	for _, c := range []struct {
		o     IterOptions
		limit int
	}{{IterOptions{Readahead: 1 << 20}, 7}, {IterOptions{}, 40}} {
		for _, back := range []bool{false, true} {
			if back && c.o.Readahead == 0 {
				continue // reading ahead through the cache goes forwards only
			}
			reads = 0
			i := r.NewIter(c.o)
			n := 0
			if back {
				for e := i.Last(); e != nil; e = i.Prev() {
					n++
				}
			} else {
				for e := i.First(); e != nil; e = i.Next() {
					n++
				}
			}
			require.NoError(t, i.Close())
			require.Equal(t, 40000, n)
			require.LessOrEqual(t, reads, c.limit)
		}
	}
}

func TestGetAndNextAllocateNothing(t *testing.T) {
	for _, cmp := range []*kv.Comparer{kv.Bytewise, kv.ReverseBytewise} {
		tw := some(rand.New(rand.NewPCG(1, 1)), cmp, 500)
		fs := vfs.NewMem()
		tw.write(t, fs, "t", WriterOptions{Filter: filter.Bloom(10)})
		r := open(t, fs, "t", ReaderOptions{Comparer: cmp, Cache: testCache()})
		get := func() {
			for n := 0; n < len(tw.entries); n += 5 {
				g := lookup.Get{User: tw.entries[n].Key.User, Seq: tw.entries[n].Key.Seq()}
				if err := r.Get(&g, false); err != nil || g.State == lookup.Pending && !g.Merging() {
					panic("not found")
				}
				g.Release()
			}
		}
		get()
		get()
		if allocs := testing.AllocsPerRun(20, get); !raceEnabled {
			require.Less(t, allocs, 2.0, "the pool may be emptied once in a while")
		}
		i := r.NewIter(IterOptions{})
		walk := func() {
			for e := i.First(); e != nil; e = i.Next() {
			}
			for e := i.Last(); e != nil; e = i.Prev() {
			}
			for n := 0; n < len(tw.entries); n += 5 {
				i.SeekGE(tw.entries[n].Key, nil)
				i.SeekLT(tw.entries[n].Key)
			}
		}
		walk()
		if allocs := testing.AllocsPerRun(5, walk); !raceEnabled { // its pools forget, and its collector allocates
			require.Zero(t, allocs)
		}
		require.NoError(t, i.Close())
		require.NoError(t, r.Close())
	}
}

func TestVersionsThatGoOverSeveralBlocksAreFound(t *testing.T) {
	tw := twin{cmp: kv.Bytewise}
	for seq := kv.Seq(500); seq > 0; seq-- {
		tw.entries = append(tw.entries, kv.Entry{Key: kv.MakeKey([]byte("k"), seq, kv.KindValue), Value: fmt.Appendf(nil, "v%d", seq)})
	}
	fs := vfs.NewMem()
	tw.write(t, fs, "t", WriterOptions{BlockSize: 100})
	r := open(t, fs, "t", ReaderOptions{})
	defer r.Close()
	require.False(t, r.Properties().IndexKeyIsUserKey)
	for seq := kv.Seq(1); seq <= 510; seq++ {
		g := lookup.Get{User: []byte("k"), Seq: seq}
		require.NoError(t, r.Get(&g, false))
		require.Equal(t, fmt.Sprintf("v%d", min(seq, 500)), string(g.Value))
		g.Release()
	}
}

func TestIndexOfUserKeysWhereNoKeyIsSplit(t *testing.T) {
	fs := vfs.NewMem()
	f, err := fs.Create("t")
	require.NoError(t, err)
	plain(t, f, 1000, WriterOptions{})
	r := open(t, fs, "t", ReaderOptions{})
	defer r.Close()
	require.True(t, r.Properties().IndexKeyIsUserKey)
	require.Greater(t, r.index.len(), 10)
	last := uint64(0)
	for n := range 1000 {
		off := r.ApproximateOffset(fmt.Appendf(nil, "%016d", 2*n))
		require.GreaterOrEqual(t, off, last)
		last = off
	}
	require.Equal(t, r.props.DataSize, r.ApproximateOffset([]byte("9")))
}

func TestReadsFromMemoryOnlyDoNoIO(t *testing.T) {
	fs := vfs.NewMem()
	f, err := fs.Create("t")
	require.NoError(t, err)
	plain(t, f, 200, WriterOptions{})
	f, err = fs.Open("t")
	require.NoError(t, err)
	writes, reads := 0, 0
	r, err := Open(counted{f, &writes, &reads}, "t", ReaderOptions{Cache: testCache()})
	require.NoError(t, err)
	defer r.Close()
	reads = 0
	key := fmt.Appendf(nil, "%016d", 100)
	get := func(g lookup.Get) (lookup.State, error) {
		g.User, g.Seq = key, kv.MaxSeq
		err := r.Get(&g, false)
		g.Release()
		return g.State, err
	}
	_, err = get(lookup.Get{CacheOnly: true})
	require.ErrorIs(t, err, ErrNotCached)
	i := r.NewIter(IterOptions{CacheOnly: true})
	require.Nil(t, i.First())
	require.ErrorIs(t, i.Err(), ErrNotCached)
	require.Zero(t, reads)

	state, err := get(lookup.Get{DontFillCache: true})
	require.NoError(t, err)
	require.Equal(t, lookup.Found, state)
	_, err = get(lookup.Get{CacheOnly: true})
	require.ErrorIs(t, err, ErrNotCached)
	_, err = get(lookup.Get{})
	require.NoError(t, err)
	state, err = get(lookup.Get{CacheOnly: true})
	require.NoError(t, err)
	require.Equal(t, lookup.Found, state)
	require.NotNil(t, i.SeekGE(kv.SeekKey(key, kv.MaxSeq), nil))
	require.ErrorIs(t, i.Close(), nil)
	require.Equal(t, 2, reads)
}

func TestAWalkEndsWithItsContext(t *testing.T) {
	fs := vfs.NewMem()
	f, err := fs.Create("t")
	require.NoError(t, err)
	plain(t, f, 200, WriterOptions{})
	r := open(t, fs, "t", ReaderOptions{})
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	i := r.NewIter(IterOptions{Context: ctx})
	require.NotNil(t, i.First())
	cancel() // nothing is cached
	for i.Next() != nil {
	}
	require.ErrorIs(t, i.Close(), context.Canceled)
	require.ErrorIs(t, r.VerifyChecksums(ctx), context.Canceled)
}

func TestTablesStayOpenUpToTheLimit(t *testing.T) {
	fs := vfs.NewMem()
	require.NoError(t, fs.MkdirAll("db"))
	sizes := map[uint64]uint64{}
	for num := uint64(1); num <= 100; num++ {
		tw := twin{cmp: kv.Bytewise, entries: []kv.Entry{{Key: kv.MakeKey([]byte("k"), 1, kv.KindValue), Value: fmt.Append(nil, num)}}}
		sizes[num] = tw.write(t, fs, fs.Join("db", fname.Make(fname.Table, num)), WriterOptions{}).Size
	}
	for _, limit := range []int{-1, 0, 32} {
		tables := NewTables(fs, "db", limit, testCache())
		var o FamilyOptions
		var wg sync.WaitGroup
		for worker := range 4 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(worker), 1))
				for range 200 {
					num := 1 + rng.Uint64N(100)
					h, err := tables.Get(num, sizes[num], 1, &o)
					if err != nil {
						panic(err)
					}
					g := lookup.Get{User: []byte("k"), Seq: 9}
					if err := h.Reader().Get(&g, false); err != nil || string(g.Value) != fmt.Sprint(num) {
						panic(fmt.Sprint(num, g, err))
					}
					g.Release()
					if rng.IntN(20) == 0 {
						tables.Evict(num)
					}
					h.Release()
				}
			})
		}
		wg.Wait()
		for num := range sizes {
			h, err := tables.Get(num, sizes[num], 1, &o)
			require.NoError(t, err)
			h.Release()
		}
		if limit < 0 {
			require.Equal(t, 100, tables.Open())
			require.NotZero(t, tables.MemoryUsage())
		} else {
			require.LessOrEqual(t, tables.Open(), limit+tableShards)
		}
		h, err := tables.Get(1, sizes[1], 1, &o)
		require.NoError(t, err)
		tables.Close()
		require.Zero(t, tables.Open())
		require.NoError(t, h.Reader().VerifyChecksums(t.Context()), "a handle outlives Close")
		h.Release()
	}
}

func TestMissingAndWrongTablesAreNamed(t *testing.T) {
	fs := vfs.NewMem()
	require.NoError(t, fs.MkdirAll("db"))
	tables := NewTables(fs, "db", -1, testCache())
	defer tables.Close()
	var o FamilyOptions
	_, err := tables.Get(7, 100, 1, &o)
	require.ErrorContains(t, err, "000007.sst")
	require.Zero(t, tables.Open())
	m := twin{cmp: kv.Bytewise}.write(t, fs, "db/000007.sst", WriterOptions{})
	_, err = tables.Get(7, m.Size+1, 1, &o)
	require.ErrorContains(t, err, fmt.Sprintf("file has %d bytes, and %d in the manifest", m.Size, m.Size+1))
	h, err := tables.Get(7, m.Size, 1, &o)
	require.NoError(t, err, "the failure is not remembered")
	h.Release()
}

func TestIndexSeekIsALinearSearch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, cmp := range []*kv.Comparer{kv.Bytewise, kv.ReverseBytewise} {
		for round := range 200 {
			tw := some(rng, cmp, 1+rng.IntN(40))
			x := index{cmp: cmp, userKeys: round%2 == 0}
			for n, e := range tw.entries {
				if x.userKeys {
					if n == 0 || string(tw.entries[n-1].Key.User) != string(e.Key.User) {
						require.True(t, x.add(e.Key.User, block.Handle{}))
					}
				} else {
					require.True(t, x.add(e.Key.Append(nil), block.Handle{}))
				}
			}
			x.finish()
			for range 50 {
				k := tw.target(rng)
				want := 0
				for want < x.len() {
					c := cmp.Compare(x.user(want), k.User)
					if c > 0 || c == 0 && (x.userKeys || x.trailers[want] <= k.Trailer) {
						break
					}
					want++
				}
				require.Equal(t, want, x.seek(k), "%v", k)
			}
		}
	}
}

func Example() {
	fs := vfs.NewMem()
	f, _ := fs.Create("fruit.sst")
	w := NewWriter(f, "fruit.sst", WriterOptions{Filter: filter.Bloom(10)})
	w.Add(kv.MakeKey([]byte("apple"), 1, kv.KindValue), []byte("red"))
	w.Add(kv.MakeKey([]byte("pear"), 2, kv.KindValue), []byte("green"))
	if _, err := w.Finish(); err != nil {
		panic(err)
	}

	f, _ = fs.Open("fruit.sst")
	r, err := Open(f, "fruit.sst", ReaderOptions{})
	if err != nil {
		panic(err)
	}
	defer r.Close()
	g := lookup.Get{User: []byte("pear"), Seq: kv.MaxSeq}
	if err := r.Get(&g, false); err != nil {
		panic(err)
	}
	fmt.Printf("pear is %s\n", g.Value)
	g.Release()
	i := r.NewIter(IterOptions{})
	for e := i.First(); e != nil; e = i.Next() {
		fmt.Println(e.Key)
	}
	i.Close()
	// Output:
	// pear is green
	// "apple"#1,SET
	// "pear"#2,SET
}

func BenchmarkGet(b *testing.B) {
	fs := vfs.NewMem()
	f, _ := fs.Create("t")
	plain(b, f, 100000, WriterOptions{Filter: filter.Bloom(10)})
	r := open(b, fs, "t", ReaderOptions{Cache: cache.New(64 << 20)})
	i := r.NewIter(IterOptions{}) // fills the cache
	var keys [][]byte
	for e := i.First(); e != nil; e = i.Next() {
		keys = append(keys, e.Key.Clone().User)
	}
	i.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		g := lookup.Get{User: keys[rng.IntN(len(keys))], Seq: kv.MaxSeq}
		if r.Get(&g, false) != nil || g.State != lookup.Found {
			b.Fatal()
		}
		g.Release()
	}
}

func BenchmarkNext(b *testing.B) {
	fs := vfs.NewMem()
	f, _ := fs.Create("t")
	plain(b, f, 40000, WriterOptions{})
	r := open(b, fs, "t", ReaderOptions{Cache: testCache()})
	for name, o := range map[string]IterOptions{"cached": {}, "readahead": {Readahead: 1 << 20}} {
		b.Run(name, func(b *testing.B) {
			i := r.NewIter(o)
			for b.Loop() {
				if i.Next() == nil {
					i.First()
				}
			}
			i.Close()
		})
	}
}

func BenchmarkAdd(b *testing.B) {
	for _, pack := range []compress.Type{compress.None, compress.Snappy} {
		b.Run(pack.String(), func(b *testing.B) {
			fs := vfs.NewMem()
			f, _ := fs.Create("t")
			w := NewWriter(f, "t", WriterOptions{Compression: pack, Filter: filter.Bloom(10)})
			key := make([]byte, 16)
			value := make([]byte, 100)
			rng := rand.New(rand.NewPCG(1, 1))
			n := uint64(0)
			for b.Loop() {
				n++
				binary.BigEndian.PutUint64(key[8:], n)
				for x := 0; x < 56; x += 8 {
					binary.LittleEndian.PutUint64(value[x:], rng.Uint64())
				}
				if err := w.Add(kv.MakeKey(key, 7, kv.KindValue), value); err != nil {
					b.Fatal(err)
				}
			}
			w.Abandon()
		})
	}
}
