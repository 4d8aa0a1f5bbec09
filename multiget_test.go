package ashlar_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/metamorphic"
	"github.com/ashlardb/ashlar/vfs"
)

// multiGetLife is a database with a random set of options and a random past.
type multiGetLife struct {
	t         *testing.T
	rng       *rand.Rand
	fs        *vfs.Mem
	db        *ashlar.DB
	snapshots []*ashlar.Snapshot
	words     []string
	still     bool // nothing is written or compacted
}

// cacheIsSteady tells whether a read from the cache only finds what the one before has found: nothing else brings blocks in,
// and none go because of others or with a table that is closed.
func (l *multiGetLife) cacheIsSteady() bool {
	words := strings.Join(l.words, " ")
	return l.still && !strings.Contains(words, "open-files=") && !strings.Contains(words, "cache=")
}

func (l *multiGetLife) open() error {
	o := &ashlar.Options{FS: l.fs}
	require.NoError(l.t, metamorphic.SetOptions(o, l.words), l.words)
	o.DisableAutoCompactions = l.still
	db, err := ashlar.Open("db", o)
	l.db = db
	return err
}

func (l *multiGetLife) key() []byte {
	k := fmt.Appendf(nil, "%04d", l.rng.IntN(500))
	return k[:1+l.rng.IntN(4)]
}

func (l *multiGetLife) write(n int) {
	ctx, cf := context.Background(), l.db.DefaultColumnFamily()
	for range n {
		var err error
		switch k := l.key(); l.rng.IntN(40) {
		case 0:
			end := append(slices.Clone(k), '5')
			err = cf.DeleteRange(k, end, nil)
		case 1, 2, 3, 4:
			err = cf.Delete(k, nil)
		case 5, 6, 7, 8, 9, 10:
			err = cf.Merge(k, fmt.Append(nil, l.rng.IntN(100)), nil)
		case 11:
			if l.rng.IntN(8) == 0 {
				err = l.db.Flush(ctx, nil)
			}
		case 12:
			if l.rng.IntN(30) == 0 {
				err = l.db.CompactRange(ctx, nil, nil, nil)
			}
		case 13:
			if l.rng.IntN(4) == 0 {
				l.snapshots = append(l.snapshots, l.db.NewSnapshot())
			}
		default:
			err = cf.Put(k, []byte(strings.Repeat(fmt.Sprint(l.rng.IntN(1000)), 1+l.rng.IntN(20))), nil)
		}
		require.NoError(l.t, err)
	}
}

// damage changes a byte in some of the blocks of some tables.
func (l *multiGetLife) damage() {
	names, err := l.fs.List("db")
	require.NoError(l.t, err)
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") || l.rng.IntN(3) == 0 {
			continue
		}
		path := "db/" + name
		f, err := l.fs.Open(path)
		require.NoError(l.t, err)
		size, err := f.Size()
		require.NoError(l.t, err)
		b := make([]byte, size)
		if _, err := f.ReadAt(b, 0); err != io.EOF {
			require.NoError(l.t, err)
		}
		require.NoError(l.t, f.Close())
		for range 1 + l.rng.IntN(4) {
			b[l.rng.IntN(1+len(b)*2/3)] ^= 0x10
		}
		f, err = l.fs.Create(path)
		require.NoError(l.t, err)
		_, err = f.Write(b)
		require.NoError(l.t, err)
		require.NoError(l.t, f.Sync())
		require.NoError(l.t, f.Close())
	}
}

// check gets keys in both ways.
func (l *multiGetLife) check() (found, failed int) {
	var o *ashlar.ReadOptions
	if l.rng.IntN(2) == 0 {
		o = &ashlar.ReadOptions{DontFillCache: l.rng.IntN(3) == 0}
		if l.cacheIsSteady() && l.rng.IntN(3) == 0 {
			o.ReadTier = ashlar.BlockCacheTier
		}
		if len(l.snapshots) > 0 && l.rng.IntN(2) == 0 {
			o.Snapshot = l.snapshots[l.rng.IntN(len(l.snapshots))]
		}
	}
	keys := make([][]byte, l.rng.IntN(60))
	for i := range keys {
		keys[i] = l.key()
	}
	if l.rng.IntN(3) == 0 {
		slices.SortFunc(keys, func(a, b []byte) int { return strings.Compare(string(a), string(b)) })
	}
	get := func() (all []string) {
		for _, k := range keys {
			v, err := l.db.Get(k, o)
			all = append(all, fmt.Sprintf("%s=%s %v", k, v, err))
			if err == nil {
				found++
			} else if !errors.Is(err, ashlar.ErrNotFound) {
				failed++
			}
		}
		return all
	}
	multi := func() (all []string) {
		values, errs := l.db.MultiGet(keys, o)
		for i, k := range keys {
			all = append(all, fmt.Sprintf("%s=%s %v", k, values[i], errs[i]))
		}
		return all
	}
	if l.rng.IntN(2) == 0 {
		require.Equal(l.t, get(), multi(), "%v %v", l.words, o)
	} else {
		got := multi()
		require.Equal(l.t, get(), got, "%v %v", l.words, o)
	}
	return found, failed
}

func (l *multiGetLife) close() {
	for _, s := range l.snapshots {
		s.Release()
	}
	l.snapshots = nil
	require.NoError(l.t, l.db.Close())
}

// TestMultiGetIsAsManyGets compares values and errors under random options, also where tables are damaged.
func TestMultiGetIsAsManyGets(t *testing.T) {
	found, failed := 0, 0
	for seed := range uint64(25) {
		l := &multiGetLife{t: t, rng: rand.New(rand.NewPCG(seed, 0)), fs: vfs.NewMem()}
		l.words = metamorphic.RandomOptions(l.rng, nil)
		require.NoError(t, l.open())
		for range 10 {
			l.write(150)
			for range 6 {
				n, _ := l.check()
				found += n
			}
		}
		l.close()
		l.damage()
		l.still = true
		if err := l.open(); err != nil {
			require.ErrorIs(t, err, ashlar.ErrCorruption) // a table's properties, say
			continue
		}
		for range 30 {
			_, n := l.check()
			failed += n
		}
		l.close()
	}
	// How many tables there are to be damaged depends on when flushes and compactions end.
	require.Greater(t, found, 1_000)
	require.NotZero(t, failed)
}

// sparseDB has one table of 2000 keys in blocks of five, and has counted nothing of them yet.
func sparseDB(t *testing.T, set func(*ashlar.Options)) (*ashlar.DB, *ashlar.Statistics) {
	s := ashlar.NewStatistics()
	o := &ashlar.Options{FS: vfs.NewMem(), Statistics: s}
	o.Compression, o.Table.BlockSize, o.Table.FilterPolicy = ashlar.NoCompression, 500, filter.Bloom(20)
	set(o)
	db, err := ashlar.Open("db", o)
	require.NoError(t, err)
	for i := range 2000 {
		require.NoError(t, db.Put(fmt.Appendf(nil, "%04d", 2*i), make([]byte, 90), nil))
	}
	require.NoError(t, db.CompactRange(context.Background(), nil, nil, nil))
	_, err = db.Get([]byte("0000"), nil)
	require.NoError(t, err)
	s.Reset()
	return db, s
}

func ticker(t *testing.T, s *ashlar.Statistics, name string) int {
	n, ok := s.Ticker("rocksdb." + name)
	require.True(t, ok, name)
	return int(n)
}

func reads(s *ashlar.Statistics) int {
	for _, h := range s.Histograms() {
		if h.Name == "rocksdb.sst.read.micros" {
			return int(h.Count)
		}
	}
	return -1
}

func TestMultiGetReadsABlockOnceAndNeighboursTogether(t *testing.T) {
	for _, partitions := range []bool{false, true} {
		db, s := sparseDB(t, func(o *ashlar.Options) {
			o.BlockCache = ashlar.NewCache(0)
			if partitions {
				o.Table.IndexType, o.Table.PartitionFilters, o.Table.MetadataBlockSize = ashlar.TwoLevelIndexSearch, true, 100
			}
		})
		var keys [][]byte
		for _, from := range []int{3000, 1000} {
			for i := range 100 {
				keys = append(keys, fmt.Appendf(nil, "%04d", from+99-i)) // every second one is there
			}
		}
		_, errs := db.MultiGet(keys, nil)
		for i, err := range errs {
			require.Equal(t, i%2 == 0, err != nil, "%s: %v", keys[i], err)
		}
		blocks := ticker(t, s, "block.cache.data.miss")
		require.Less(t, blocks, 2*(50/4+3), "a block has some five keys")
		require.GreaterOrEqual(t, blocks, 2*50/5)
		require.Equal(t, 200, ticker(t, s, "bloom.filter.useful")+ticker(t, s, "bloom.filter.full.positive"))
		require.Equal(t, 100, ticker(t, s, "bloom.filter.full.true.positive"))
		require.Equal(t, 1, ticker(t, s, "number.multiget.get"))
		require.Equal(t, 200, ticker(t, s, "number.multiget.keys.read"))
		require.Equal(t, 100, ticker(t, s, "number.multiget.keys.found"))
		require.Equal(t, 9000, ticker(t, s, "number.multiget.bytes.read"))
		require.Zero(t, ticker(t, s, "number.keys.read"))
		if partitions {
			// Of each part of the index and of the filter one read is enough too.
			parts := ticker(t, s, "block.cache.index.miss") + ticker(t, s, "block.cache.filter.miss")
			require.Positive(t, parts)
			require.Less(t, parts, 60)
			require.Equal(t, 2+parts, reads(s))
		} else {
			require.Equal(t, 2, reads(s), "two places, each read at once")
		}
		require.NoError(t, db.Close())
	}
}

func TestMultiGetReadsFarBlocksAloneAndKeepsEachForItself(t *testing.T) {
	db, s := sparseDB(t, func(o *ashlar.Options) {})
	keys := [][]byte{[]byte("0000"), []byte("0500"), []byte("0502"), []byte("1500"), []byte("1530")}
	_, errs := db.MultiGet(keys, nil)
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, 2, reads(s), "one block was cached; of the others two are near each other, and two as well")
	adds := ticker(t, s, "block.cache.data.add")
	require.GreaterOrEqual(t, adds, 3)
	_, errs = db.MultiGet(keys, &ashlar.ReadOptions{ReadTier: ashlar.BlockCacheTier})
	require.NoError(t, errors.Join(errs...))
	for _, k := range keys {
		_, err := db.Get(k, &ashlar.ReadOptions{ReadTier: ashlar.BlockCacheTier})
		require.NoError(t, err)
	}
	require.Equal(t, adds, ticker(t, s, "block.cache.data.add"))
	require.NoError(t, db.Close())
}
