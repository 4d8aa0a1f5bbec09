package ashlar

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/vfs"
)

// prefixed returns a database with keys of prefixes of 3 bytes in a memtable, in level 0 and at the bottom, and all its
// keys in order.
func prefixed(t *testing.T, o *Options) (*DB, []string) {
	o.FS, o.DisableAutoCompactions = vfs.NewMem(), true
	db := must(Open("db", o))
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(3, 4))
	keys := map[string]bool{}
	for part := range 3 {
		for range 200 {
			key := fmt.Sprintf("%03d", rng.IntN(60)*5)
			switch rng.IntN(5) {
			case 0:
				key = key[:rng.IntN(3)]
			case 1:
			default:
				key = fmt.Sprintf("%s%02d", key, rng.IntN(30))
			}
			if rng.IntN(6) == 0 {
				require.NoError(t, db.Delete([]byte(key), nil))
				delete(keys, key)
				continue
			}
			mustPut(t, db.DefaultColumnFamily(), key, key, nil)
			keys[key] = true
		}
		if part == 0 {
			require.NoError(t, db.DeleteRange([]byte("100"), []byte("110"), nil))
			for k := range keys {
				if k >= "100" && k < "110" {
					delete(keys, k)
				}
			}
			require.NoError(t, db.CompactRange(ctx, nil, nil, nil))
		} else if part == 1 {
			require.NoError(t, db.Flush(ctx, nil))
		}
	}
	var sorted []string
	for k := range keys {
		sorted = append(sorted, k)
	}
	slices.Sort(sorted)
	return db, sorted
}

// prefixOptions are every way to filter by prefixes.
func prefixOptions() map[string]func(o *Options) {
	return map[string]func(o *Options){
		"no filter":       func(o *Options) {},
		"keys and prefix": func(o *Options) { o.Table.FilterPolicy = filter.Bloom(10) },
		"prefixes":        func(o *Options) { o.Table.FilterPolicy, o.Table.NoWholeKeyFiltering = filter.StandardBloom(10), true },
		"Ribbon in partitions": func(o *Options) {
			o.Table.FilterPolicy, o.Table.PartitionFilters, o.Table.IndexType = filter.Ribbon(10), true, TwoLevelIndexSearch
			o.Table.MetadataBlockSize, o.Table.BlockSize = 100, 200
		},
		"memtable": func(o *Options) { o.MemtablePrefixBloomSizeRatio = 0.1 },
		"everything": func(o *Options) {
			o.Table.FilterPolicy, o.Table.BlockSize, o.Table.DataBlockIndexType = filter.Bloom(10), 200, DataBlockBinaryAndHash
			o.MemtablePrefixBloomSizeRatio, o.MemtableWholeKeyFiltering = 0.1, true
		},
	}
}

// A sorted slice says what an iterator shows: with PrefixSameAsStart the part with the prefix, otherwise all.
func TestIteratorsKeepToThePrefixAndToNothingElse(t *testing.T) {
	for name, set := range prefixOptions() {
		for _, x := range []SliceTransform{FixedPrefixTransform(3), CappedPrefixTransform(3)} {
			t.Run(name+" "+x.Name(), func(t *testing.T) {
				o := &Options{}
				o.PrefixExtractor = x
				set(o)
				db, keys := prefixed(t, o)
				has := func(a, b string) bool {
					return x.InDomain([]byte(a)) && bytes.Equal(x.Transform([]byte(a)), x.Transform([]byte(b)))
				}
				for _, same := range []bool{false, true} {
					for _, total := range []bool{false, true} {
						it := db.NewIterator(&ReadOptions{PrefixSameAsStart: same, TotalOrderSeek: total})
						for n := 0; n < 300; n += 4 {
							start := fmt.Sprintf("%03d%02d", n, n%31)[:3+2*(n/4%2)]
							if n%5 == 0 {
								start = start[:3]
							}
							if n%7 == 0 {
								start = start[:2]
							}
							within := func(all []string) []string { // what is shown of a walk from start on
								if !same || total || !x.InDomain([]byte(start)) {
									return all[:min(len(all), 20)]
								}
								for i, k := range all {
									if !has(k, start) {
										return all[:i]
									}
								}
								return all
							}
							at := sort.SearchStrings(keys, start)
							want := within(keys[at:])
							ok := it.Seek([]byte(start))
							for i, k := range want {
								require.True(t, ok, "%s: %d of %v", start, i, want)
								require.Equal(t, k, string(it.Key()))
								ok = it.Next()
							}
							if len(want) < 20 && same && !total && x.InDomain([]byte(start)) {
								require.False(t, ok)
								require.False(t, it.Next() || it.Prev(), "an end that it stays at")
							}
							if at < len(keys) && keys[at] == start {
								at++
							}
							back := slices.Clone(keys[:at])
							slices.Reverse(back)
							want = within(back)
							ok = it.SeekForPrev([]byte(start))
							for _, k := range want {
								require.True(t, ok, "%s", start)
								require.Equal(t, k, string(it.Key()))
								ok = it.Prev()
							}
							require.NoError(t, it.Error())
						}
						first := 0
						for ok := it.SeekToFirst(); ok; ok = it.Next() {
							require.Equal(t, keys[first], string(it.Key()))
							first++
						}
						if same && !total && x.InDomain([]byte(keys[0])) {
							require.True(t, first == 1 || has(keys[first-1], keys[0]))
							require.False(t, has(keys[first], keys[0]))
						} else {
							require.Equal(t, len(keys), first)
						}
						require.NoError(t, it.Close())
					}
				}
				for p := 0; p < 300; p += 3 {
					prefix := fmt.Appendf(nil, "%03d", p)
					var want []string
					for _, k := range keys {
						if strings.HasPrefix(k, string(prefix)) {
							want = append(want, k)
						}
					}
					it := db.DefaultColumnFamily().Prefix(prefix, nil)
					require.Equal(t, want, shown(it, false), "%s", prefix)
					require.Equal(t, slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(shown(it, true))))
					require.NoError(t, it.Close())
				}
				for n := range 300 {
					key := fmt.Sprintf("%03d%02d", n%300, n%31)
					_, err := db.Get([]byte(key), nil)
					if _, there := slices.BinarySearch(keys, key); there {
						require.NoError(t, err)
					} else {
						require.ErrorIs(t, err, ErrNotFound)
					}
				}
				checkClean(t, db)
				require.NoError(t, db.Close())
			})
		}
	}
}

// asked is a filter policy that keeps count of how often each of its filters is asked, and says yes.
type asked struct {
	mu    *sync.Mutex
	built *int
	asks  *int
}

func newAsked() asked                              { return asked{new(sync.Mutex), new(int), new(int)} }
func (asked) Name() string                         { return "test.Asked" }
func (a asked) NewBuilder(int) filter.Builder      { return a }
func (a asked) Open([]byte) (filter.Reader, error) { return a, nil }
func (asked) Add([]byte)                           {}
func (a asked) Finish(dst []byte) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	*a.built++
	return append(dst, "a filter"...)
}

func (a asked) MayContain([]byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	*a.asks++
	return true
}

func (a asked) take() (built, asks int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	built, asks = *a.built, *a.asks
	*a.built, *a.asks = 0, 0
	return built, asks
}

func TestSeeksAskForPrefixesOnlyWhereTheyMay(t *testing.T) {
	a := newAsked()
	o := &Options{FS: vfs.NewMem()}
	o.PrefixExtractor, o.Table.FilterPolicy = FixedPrefixTransform(3), a
	db := must(Open("db", o))
	mustPut(t, db.DefaultColumnFamily(), "abc1", "v", nil)
	mustPut(t, db.DefaultColumnFamily(), "abd1", "v", nil)
	require.NoError(t, db.Flush(context.Background(), nil))
	for _, c := range []struct {
		name string
		o    ReadOptions
		seek string
		asks int
	}{
		{"nothing that keeps it to a prefix", ReadOptions{}, "abc", 0},
		{"kept to the prefix", ReadOptions{PrefixSameAsStart: true}, "abc", 1},
		{"total order", ReadOptions{PrefixSameAsStart: true, TotalOrderSeek: true}, "abc", 0},
		{"a key without a prefix", ReadOptions{PrefixSameAsStart: true}, "ab", 0},
		{"an upper bound with the same prefix", ReadOptions{IterateUpperBound: []byte("abc9")}, "abc0", 1},
		{"an upper bound right behind the prefix", ReadOptions{IterateUpperBound: []byte("abd")}, "abc0", 1},
		{"an upper bound in total order", ReadOptions{IterateUpperBound: []byte("abd"), TotalOrderSeek: true}, "abc0", 0},
		{"an upper bound further on", ReadOptions{IterateUpperBound: []byte("abd1")}, "abc0", 0},
		{"a lower bound with another prefix", ReadOptions{PrefixSameAsStart: true, IterateLowerBound: []byte("abd")}, "abc0", 0},
	} {
		it := db.NewIterator(&c.o)
		a.take()
		it.Seek([]byte(c.seek))
		_, asks := a.take()
		require.Equal(t, c.asks, asks, c.name)
		require.NoError(t, it.Close())
	}
	it := db.DefaultColumnFamily().Prefix([]byte("abc"), nil)
	require.True(t, it.SeekToFirst())
	_, asks := a.take()
	require.Equal(t, 1, asks, "Prefix")
	require.NoError(t, it.Close())
	require.NoError(t, db.Close())
}

// The rule of OptimizeFiltersForHits, both halves: which tables get a filter, and which filters are asked.
func TestOptimizeFiltersForHitsLeavesOutTheBottomAndNothingElse(t *testing.T) {
	ctx := context.Background()
	for _, hits := range []bool{false, true} {
		a := newAsked()
		o := &Options{FS: vfs.NewMem()}
		o.OptimizeFiltersForHits, o.Table.FilterPolicy, o.DisableAutoCompactions = hits, a, true
		o.PrefixExtractor = FixedPrefixTransform(1)
		db := must(Open("db", o))
		cf := db.DefaultColumnFamily()
		get := func(key string) (asks int) {
			a.take()
			_, err := db.Get([]byte(key), nil)
			if err != nil {
				require.ErrorIs(t, err, ErrNotFound)
			}
			_, asks = a.take()
			return asks
		}
		off := func(without, with int) int {
			if hits {
				return with
			}
			return without
		}
		mustPut(t, cf, "a", "1", nil)
		mustPut(t, cf, "z", "1", nil)
		require.NoError(t, db.Flush(ctx, nil))
		built, _ := a.take()
		require.Equal(t, 1, built, "a flush never counts as bottom, be there nothing below")
		mustPut(t, cf, "a", "2", nil)
		mustPut(t, cf, "z", "2", nil)
		require.NoError(t, db.Close())
		db = must(Open("db", o))
		cf = db.DefaultColumnFamily()
		require.NoError(t, db.Flush(ctx, nil))
		built, _ = a.take()
		require.Equal(t, 1, built, "nor does recovery")
		require.Equal(t, off(2, 1), get("b"), "in level 0, the last level, all are asked but that of the oldest file")
		require.NoError(t, db.CompactRange(ctx, nil, nil, nil))
		built, _ = a.take()
		require.Equal(t, off(1, 0), built, "the bottom of its range")
		require.Equal(t, off(1, 0), get("b"))
		mustPut(t, cf, "a", "3", nil)
		mustPut(t, cf, "z", "3", nil)
		require.NoError(t, db.Flush(ctx, nil))
		built, _ = a.take()
		require.Equal(t, 1, built)
		require.Equal(t, off(2, 1), get("b"), "a filter above the last level is asked")

		it := db.NewIterator(&ReadOptions{PrefixSameAsStart: true})
		a.take()
		it.Seek([]byte("b"))
		_, asks := a.take()
		require.Equal(t, off(2, 1), asks, "so is it by seeks")
		require.NoError(t, it.Close())

		// With filters written before the option was set, or by another database, the last level is passed by all the same.
		require.NoError(t, db.Close())
		for _, now := range []bool{false, true} {
			o.OptimizeFiltersForHits = now
			db = must(Open("db", o))
			asks := get("b")
			it := db.NewIterator(&ReadOptions{PrefixSameAsStart: true})
			it.Seek([]byte("b"))
			_, seeks := a.take()
			require.NoError(t, it.Close())
			require.Equal(t, asks, seeks, "a seek asks as many as a lookup")
			if now {
				require.Equal(t, 1, asks)
			} else {
				require.Equal(t, off(2, 1), asks)
			}
			require.NoError(t, db.Close())
		}
	}
}

// filterSize is how RocksDB's tool says whether there is a filter in a table.
var filterSize = regexp.MustCompile(`filter block size: (\d+)`)

func TestRocksDBSeesFiltersEverywhereButAtTheBottom(t *testing.T) {
	if !needTools(t) {
		return
	}
	ctx := context.Background()
	for name, set := range prefixOptions() {
		dir := filepath.Join(t.TempDir(), "db")
		o := &Options{}
		o.PrefixExtractor, o.OptimizeFiltersForHits, o.DisableAutoCompactions = FixedPrefixTransform(3), true, true
		set(o)
		if o.Table.FilterPolicy == nil {
			continue
		}
		db := mustOpen(t, dir, o)
		fill := func() {
			for i := range 500 {
				mustPut(t, db.DefaultColumnFamily(), fmt.Sprintf("%03d/%d", i%100, i), strings.Repeat("v", 50), nil)
			}
			require.NoError(t, db.Flush(ctx, nil))
		}
		tables := func() (with, without int) {
			mustClose(t, db) // what is obsolete is gone then
			defer func() { db = mustOpen(t, dir, o) }()
			files, err := filepath.Glob(filepath.Join(dir, "*.sst"))
			require.NoError(t, err)
			for _, f := range files {
				out := tool(t, "sst_dump", "--file="+f, "--command=verify", "--verify_checksum")
				require.Contains(t, out, "The file is ok", name)
				out = tool(t, "sst_dump", "--file="+f, "--command=check", "--show_properties")
				m := filterSize.FindStringSubmatch(out)
				require.NotNil(t, m, out)
				if m[1] == "0" {
					without++
				} else {
					with++
				}
			}
			return with, without
		}
		fill()
		with, without := tables()
		require.True(t, with == 1 && without == 0, name)
		require.NoError(t, db.CompactRange(ctx, nil, nil, nil))
		with, without = tables()
		require.True(t, with == 0 && without == 1, name)
		fill()
		with, without = tables()
		require.True(t, with == 1 && without == 1, name)
		mustClose(t, db)
	}
}

// The option is changed while the database is open, for every kind of filter, and RocksDB's tool is asked after each step
// which tables have one: new ones follow at once, old ones as they are rewritten.
func TestEveryKindOfFilterFollowsItsOptionAtOnce(t *testing.T) {
	if !needTools(t) {
		return
	}
	ctx := context.Background()
	for name, set := range prefixOptions() {
		o := &Options{}
		o.PrefixExtractor, o.DisableAutoCompactions = FixedPrefixTransform(3), true
		set(o)
		if o.Table.FilterPolicy == nil {
			continue
		}
		db := mustOpen(t, filepath.Join(t.TempDir(), "db"), o)
		cf := db.DefaultColumnFamily()
		fill := func(from string) {
			for i := range 300 {
				mustPut(t, cf, fmt.Sprintf("%s%02d/%d", from, i%100, i), strings.Repeat("v", 50), nil)
			}
			require.NoError(t, db.Flush(ctx, nil))
		}
		force := func() {
			require.NoError(t, db.CompactRange(ctx, nil, nil, &CompactRangeOptions{ForceBottommost: true}))
		}
		turn := func(on string) { require.NoError(t, db.SetOptions(map[string]string{"optimize_filters_for_hits": on})) }
		// tables is a letter for each, from the top: F with a filter, and a dot without.
		tables := func() (all string) {
			sv := cf.tree.Acquire()
			defer sv.Release()
			for _, f := range sv.Version().All() {
				out := tool(t, "sst_dump", "--file="+db.path(fname.Table, f.Num), "--command=check", "--show_properties")
				m := filterSize.FindStringSubmatch(out)
				require.NotNil(t, m, out)
				if m[1] == "0" {
					all += "."
				} else {
					all += "F"
				}
			}
			require.Len(t, valueOf(t, cf, "a00/0"), 50)
			require.Empty(t, valueOf(t, cf, "a00/1"))
			return all
		}
		fill("a")
		force()
		require.Equal(t, "F", tables(), name)
		turn("true")
		require.Equal(t, "F", tables(), "%s: an old table keeps its own", name)
		fill("b")
		require.Equal(t, "FF", tables(), "%s: a flush makes one", name)
		require.NoError(t, db.CompactRange(ctx, []byte("b"), nil, nil))
		require.Equal(t, "F.", tables(), "%s: a new table at the bottom has none", name)
		force()
		require.Equal(t, ".", strings.ReplaceAll(tables(), "..", "."), name)
		turn("false")
		fill("c")
		require.NoError(t, db.CompactRange(ctx, []byte("c"), nil, nil))
		require.Equal(t, ".F", strings.ReplaceAll(tables(), "..", "."), name)
		force()
		require.NotContains(t, tables(), ".", name)
		mustClose(t, db)
	}
}

// RocksDB reads databases with every kind of filter and index, through the filters, and finds every key and no other.
func TestRocksDBsBenchmarkAsksEveryKindOfOurFilters(t *testing.T) {
	if !needTools(t) {
		return
	}
	const n = 1000
	for name, set := range prefixOptions() {
		if name == "no filter" || name == "memtable" {
			continue
		}
		dir := filepath.Join(t.TempDir(), "db")
		o := &Options{}
		o.PrefixExtractor = FixedPrefixTransform(8)
		set(o)
		db := mustOpen(t, dir, o)
		for i := range n {
			key := append(make([]byte, 6), byte(i>>8), byte(i))
			mustPut(t, db.DefaultColumnFamily(), string(append(key, "00000000"...)), strings.Repeat("x", 100), nil)
		}
		require.NoError(t, db.Flush(context.Background(), nil))
		want := readForward(t, db.DefaultColumnFamily())
		mustClose(t, db)
		require.Equal(t, want, ldbScan(t, dir, "default"), name)
		require.Contains(t, tool(t, "ldb", "--db="+dir, "--hex", "get", "0x00000000000000073030303030303030"), strings.Repeat("78", 100), name)

		args := []string{"--db=" + dir, fmt.Sprintf("--num=%d", n), "--seed=3", "--use_existing_db=1", "--prefix_size=8", "--bloom_bits=10",
			"--benchmarks=readrandom,readmissing", "--statistics"}
		if o.Table.NoWholeKeyFiltering {
			args = append(args, "--whole_key_filtering=false")
		}
		if o.Table.PartitionFilters {
			args = append(args, "--partition_index_and_filters=true")
		}
		out := tool(t, "db_bench", args...)
		m := found.FindAllStringSubmatch(out, -1)
		require.Len(t, m, 2, out)
		require.Equal(t, fmt.Sprint(n), m[0][1], "%s: every key is found", name)
		require.Equal(t, "0", m[1][1], name)
		useful := ticker(t, out, "rocksdb.bloom.filter.useful") + ticker(t, out, "rocksdb.bloom.filter.prefix.useful")
		if p := o.Table.FilterPolicy; p != nil && p.Name() == filter.Bloom(1).Name() {
			require.Greater(t, useful, n*9/10, "%s: our filters say no to RocksDB", name)
		} else {
			require.Zero(t, useful, name)
		}
	}
}

// ldb writes with a Ribbon filter, prefixes and partitions; all of it is found through RocksDB's filters.
func TestRocksDBsFiltersOfEveryKindAnswerHere(t *testing.T) {
	if !needTools(t) {
		return
	}
	const n = 1000
	for _, args := range [][]string{
		{"--prefix_size=8"}, {"--partition_index_and_filters=true", "--metadata_block_size=500"},
		{"--partition_index_and_filters=true", "--prefix_size=8", "--whole_key_filtering=false", "--metadata_block_size=500", "--use_ribbon_filter=true"},
		{"--use_data_block_hash_index=true", "--use_ribbon_filter=true"},
	} {
		dir := filepath.Join(t.TempDir(), "db")
		tool(t, "db_bench", append([]string{"--db=" + dir, fmt.Sprintf("--num=%d", n), "--seed=5", "--bloom_bits=10", "--benchmarks=fillrandom,compact"}, args...)...)
		o, err := LoadOptions(dir)
		require.NoError(t, err)
		require.Equal(t, slices.Contains(args, "--prefix_size=8"), o.PrefixExtractor != nil)
		require.Equal(t, slices.Contains(args, "--partition_index_and_filters=true"), o.Table.PartitionFilters && o.Table.IndexType == TwoLevelIndexSearch)
		require.Equal(t, slices.Contains(args, "--use_data_block_hash_index=true"), o.Table.DataBlockIndexType == DataBlockBinaryAndHash)
		require.NoError(t, os.Remove(filepath.Join(dir, "LOCK")))
		db := mustOpen(t, dir, o)
		all := readForward(t, db.DefaultColumnFamily())
		require.NotEmpty(t, all)
		for _, kv := range all {
			_, err := db.Get(mustGet(hex.DecodeString(kv[0])), nil)
			require.NoError(t, err)
		}
		mustClose(t, db)
	}
}
