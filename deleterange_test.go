package ashlar

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/vfs"
)

// What range deletes hide is tested at random, beside everything else, in internal/metamorphic. Here are the reported
// cases, and what is not about answers.

// allKeys returns what an iterator walks over, forward, after it agreed with backward and with Get.
func allKeys(t *testing.T, cf *ColumnFamily, o *ReadOptions) (keys []string) {
	t.Helper()
	it := cf.NewIterator(o)
	for k := range it.All() {
		keys = append(keys, string(k))
	}
	var back []string
	for k := range it.Backward() {
		back = append([]string{string(k)}, back...)
	}
	require.NoError(t, it.Close())
	require.Equal(t, keys, back)
	for _, k := range keys {
		_, err := cf.Get([]byte(k), o)
		require.NoError(t, err, k)
	}
	return keys
}

func putKeys(t *testing.T, cf *ColumnFamily, keys ...string) {
	t.Helper()
	for _, k := range keys {
		require.NoError(t, cf.Put([]byte(k), []byte("value of "+k), nil))
	}
}

func deleteRange(t *testing.T, cf *ColumnFamily, begin, end string) {
	t.Helper()
	require.NoError(t, cf.DeleteRange([]byte(begin), []byte(end), nil))
}

func rangeOptions() *Options {
	o := &Options{FS: vfs.NewMem()}
	o.Table.FilterPolicy = filter.Bloom(10)
	return o
}

// The range delete, and what it hides, in every pair of places.
func TestARangeDeleteHidesWhatIsOlderWhereverBothAre(t *testing.T) {
	ctx := context.Background()
	steps := []struct {
		name string
		do   func(t *testing.T, db *DB, o *Options) *DB
	}{
		{"nothing", func(t *testing.T, db *DB, o *Options) *DB { return db }},
		{"flush", func(t *testing.T, db *DB, o *Options) *DB {
			require.NoError(t, db.Flush(ctx, nil))
			return db
		}},
		{"compact", func(t *testing.T, db *DB, o *Options) *DB {
			require.NoError(t, db.CompactRange(ctx, nil, nil, nil))
			return db
		}},
		{"reopen", func(t *testing.T, db *DB, o *Options) *DB {
			mustClose(t, db)
			return mustOpen(t, "db", o)
		}},
	}
	for _, first := range steps {
		for _, second := range steps {
			for _, third := range steps {
				t.Run(first.name+", "+second.name+", "+third.name, func(t *testing.T) {
					o := rangeOptions()
					db := mustOpen(t, "db", o)
					putKeys(t, db.DefaultColumnFamily(), "a", "b", "c", "d", "e", "f")
					db = first.do(t, db, o)
					deleteRange(t, db.DefaultColumnFamily(), "b", "e")
					db = second.do(t, db, o)
					putKeys(t, db.DefaultColumnFamily(), "c", "cc")
					db = third.do(t, db, o)
					require.Equal(t, []string{"a", "c", "cc", "e", "f"}, allKeys(t, db.DefaultColumnFamily(), nil))
					for _, k := range []string{"b", "d", "bb"} {
						_, err := db.Get([]byte(k), nil)
						require.ErrorIs(t, err, ErrNotFound, k)
						require.ErrorIs(t, db.GetPinned([]byte(k), nil, nil), ErrNotFound)
					}
					values, errs := db.MultiGet([][]byte{[]byte("b"), []byte("c"), []byte("e")}, nil)
					require.ErrorIs(t, errs[0], ErrNotFound)
					require.Equal(t, "value of c", string(values[1]))
					require.Equal(t, "value of e", string(values[2]))
				})
			}
		}
	}
}

func TestRangesThatAreEmptyOrTurnedRound(t *testing.T) {
	o := rangeOptions()
	db := mustOpen(t, "db", o)
	back, err := db.CreateColumnFamily("back", &ColumnFamilyOptions{Comparator: ReverseBytewiseComparator})
	require.NoError(t, err)
	putKeys(t, back, "a", "b", "c")
	putKeys(t, db.DefaultColumnFamily(), "a", "b", "c")
	seq := db.LatestSequenceNumber()
	a, c := []byte("a"), []byte("c")

	require.ErrorIs(t, db.DeleteRange(c, a, nil), ErrInvalidArgument)
	require.ErrorIs(t, back.DeleteRange(a, c, nil), ErrInvalidArgument)
	require.NoError(t, db.DeleteRange(a, a, nil))
	require.NoError(t, db.DeleteRange(nil, nil, nil))

	var b Batch
	require.ErrorIs(t, b.DeleteRange(back, a, c), ErrInvalidArgument)
	require.NoError(t, b.DeleteRange(nil, a, a))
	require.Zero(t, b.Count())
	// Without a family its order is not known before Write.
	require.NoError(t, b.Put(nil, []byte("x"), nil))
	b.SetSavePoint()
	require.NoError(t, b.DeleteRange(nil, c, a))
	require.Equal(t, 2, b.Count())
	require.ErrorIs(t, db.Write(&b, nil), ErrInvalidArgument)
	var copied Batch
	require.NoError(t, copied.SetData(b.Data()))
	require.ErrorIs(t, db.Write(&copied, nil), ErrInvalidArgument)
	require.Equal(t, seq, db.LatestSequenceNumber(), "nothing of these was written")
	require.NoError(t, b.RollbackToSavePoint())
	require.NoError(t, db.Write(&b, nil))

	b.Clear()
	require.NoError(t, b.DeleteRange(back, c, a))
	require.NoError(t, db.Write(&b, nil))
	require.Equal(t, []string{"a"}, allKeys(t, back, nil))
	require.Equal(t, []string{"a", "b", "c", "x"}, allKeys(t, db.DefaultColumnFamily(), nil))
	mustClose(t, db)
	require.ErrorIs(t, db.DeleteRange(a, c, nil), ErrClosed)
}

// Bug bank 28, facebook/rocksdb H:1430.
func TestARefreshedIteratorSeesARangeDelete(t *testing.T) {
	db := mustOpen(t, "db", rangeOptions())
	putKeys(t, db.DefaultColumnFamily(), "a", "b", "c")
	it := db.NewIterator(nil)
	deleteRange(t, db.DefaultColumnFamily(), "a", "c")
	require.True(t, it.SeekToFirst())
	require.Equal(t, "a", string(it.Key()), "it shows the moment when it was made")
	require.NoError(t, it.Refresh(nil))
	require.True(t, it.SeekToFirst())
	require.Equal(t, "c", string(it.Key()))
	require.False(t, it.Prev())
	require.NoError(t, it.Close())
}

// Bug bank 20 and 31: facebook/rocksdb#2752, cockroachdb/cockroach#18371 and #48320. In random rounds, internal/metamorphic
// does it.
func TestASnapshotSeesThroughLaterRangeDeletes(t *testing.T) {
	ctx := context.Background()
	db := mustOpen(t, "db", rangeOptions())
	cf := db.DefaultColumnFamily()
	putKeys(t, cf, "a", "b", "c")
	before := db.NewSnapshot()
	deleteRange(t, cf, "a", "c")
	between := db.NewSnapshot()
	putKeys(t, cf, "b")
	for _, step := range []func() error{
		func() error { return nil },
		func() error { return db.Flush(ctx, &FlushOptions{NoWait: true}) },
		func() error { return db.Flush(ctx, nil) },
		func() error { return db.CompactRange(ctx, nil, nil, nil) },
		func() error { return db.CompactRange(ctx, nil, nil, &CompactRangeOptions{ForceBottommost: true}) },
	} {
		require.NoError(t, step())
		require.Equal(t, []string{"a", "b", "c"}, allKeys(t, cf, &ReadOptions{Snapshot: before}))
		require.Equal(t, []string{"c"}, allKeys(t, cf, &ReadOptions{Snapshot: between}))
		require.Equal(t, []string{"b", "c"}, allKeys(t, cf, nil))
		mustCheck(t, db)
	}
	before.Release()
	between.Release()
	require.NoError(t, db.CompactRange(ctx, nil, nil, &CompactRangeOptions{ForceBottommost: true}))
	require.Equal(t, []string{"b", "c"}, allKeys(t, cf, nil))
	sv := cf.tree.Acquire()
	defer sv.Release()
	for _, f := range sv.Version().All() {
		require.Equal(t, kv.KindValue, f.Smallest.Kind(), "nothing is left of the range delete")
		require.False(t, f.EndsExcluded())
	}
}

// hurtTables changes a byte of each table for which where, given its bytes, finds a place.
func hurtTables(t *testing.T, fs vfs.FS, where func(b []byte) int) {
	t.Helper()
	names, err := fs.List("db")
	require.NoError(t, err)
	hurt := 0
	for _, name := range names {
		if kind, _, ok := fname.Parse(name); !ok || kind != fname.Table {
			continue
		}
		path := filepath.Join("db", name)
		f, err := fs.Open(path)
		require.NoError(t, err)
		size, err := f.Size()
		require.NoError(t, err)
		b := make([]byte, size)
		_, err = f.ReadAt(b, 0)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		at := where(b)
		if at < 0 {
			continue
		}
		hurt++
		b[at] ^= 1
		f, err = fs.Create(path)
		require.NoError(t, err)
		_, err = f.Write(b)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	require.NotZero(t, hurt)
}

// Bug bank 26, facebook/rocksdb H:2525.
func TestDamagedRangeDeletesAreCorruptionToReadsBelow(t *testing.T) {
	ctx := context.Background()
	o := rangeOptions()
	db := mustOpen(t, "db", o)
	putKeys(t, db.DefaultColumnFamily(), "a", "b", "c")
	require.NoError(t, db.CompactRange(ctx, nil, nil, nil))
	deleteRange(t, db.DefaultColumnFamily(), "aaa-begin", "bbb-end")
	require.NoError(t, db.Flush(ctx, nil))
	mustClose(t, db)
	hurtTables(t, o.FS, func(b []byte) int { return strings.Index(string(b), "bbb-end") })

	_, err := Open("db", o)
	require.ErrorIs(t, err, ErrCorruption, "it looks at every table")
	o.MaxOpenFiles = 10
	db, err = Open("db", o)
	require.NoError(t, err)
	var c *CorruptionError
	_, err = db.Get([]byte("b"), nil)
	require.ErrorIs(t, err, ErrCorruption)
	require.ErrorAs(t, err, &c)
	it := db.NewIterator(nil)
	require.False(t, it.SeekToFirst())
	require.ErrorIs(t, it.Error(), ErrCorruption)
	require.False(t, it.SeekForPrev([]byte("b")))
	require.ErrorIs(t, it.Close(), ErrCorruption)
	require.Error(t, db.VerifyChecksum(ctx))
	require.NoError(t, db.Close())
}

// Bug bank 25, facebook/rocksdb#11786.
func TestAFailedReadUnderARangeDeleteEndsTheWalk(t *testing.T) {
	ctx := context.Background()
	o := rangeOptions()
	o.DisableAutoCompactions = true
	o.Compression = NoCompression
	db := mustOpen(t, "db", o)
	cf := db.DefaultColumnFamily()
	putKeys(t, cf, "m")
	require.NoError(t, db.CompactRange(ctx, nil, nil, nil))
	putKeys(t, cf, "a", "zz-hurt-me")
	require.NoError(t, db.Flush(ctx, nil))
	deleteRange(t, cf, "b", "n")
	require.NoError(t, db.Flush(ctx, nil))
	mustClose(t, db)
	hurtTables(t, o.FS, func(b []byte) int { return strings.Index(string(b), "value of zz-hurt-me") })
	db, err := Open("db", o)
	require.NoError(t, err)
	for _, back := range []bool{false, true} {
		it := db.NewIterator(nil)
		all := it.All()
		if back {
			all = it.Backward()
		}
		for k := range all {
			require.NotEqual(t, "m", string(k))
		}
		require.ErrorIs(t, it.Close(), ErrCorruption)
	}
	require.NoError(t, db.Close())
}

// A walk over what a newer part deleted costs a seek, not a step for each key.
func TestAWalkPassesOverADeletedRangeWithoutReadingIt(t *testing.T) {
	ctx := context.Background()
	o := rangeOptions()
	o.DisableAutoCompactions = true
	o.BlockCache = NewCache(16 << 20)
	db := mustOpen(t, "db", o)
	cf := db.DefaultColumnFamily()
	var b Batch
	for i := range 20000 {
		require.NoError(t, b.Put(cf, fmt.Appendf(nil, "k%05d", i), []byte("some value of some length")))
	}
	require.NoError(t, db.Write(&b, nil))
	require.NoError(t, db.CompactRange(ctx, nil, nil, nil))
	for i := 100; i < 19900; i += 100 {
		deleteRange(t, cf, fmt.Sprintf("k%05d", i), fmt.Sprintf("k%05d", i+100)) // side by side
	}
	// loaded is how much of the table a walk read.
	loaded := func(walk func()) int64 {
		o.BlockCache.SetCapacity(0)
		o.BlockCache.SetCapacity(16 << 20)
		walk()
		return o.BlockCache.Usage()
	}
	const all = 20000 * 30
	for _, flushed := range []bool{false, true} {
		if flushed {
			require.NoError(t, db.Flush(ctx, nil))
		}
		require.Less(t, loaded(func() { require.Len(t, readForward(t, cf), 200) }), int64(all/4))
		require.Less(t, loaded(func() { require.Len(t, readBackward(t, cf), 200) }), int64(all/4))
		it := cf.NewIterator(&ReadOptions{IterateUpperBound: []byte("k10300"), IterateLowerBound: []byte("k10000")})
		require.Less(t, loaded(func() {
			require.False(t, it.SeekToFirst())
			require.False(t, it.SeekToLast())
			require.False(t, it.Seek([]byte("k10100")))
		}), int64(all/15))
		require.NoError(t, it.Close())
	}
}

// Bug bank 32, cockroachdb/cockroach#89777: the outputs' bounds are in the middle of a range delete; one of them goes further down.
func TestARangeDeleteOverManyTablesNeverWidens(t *testing.T) {
	ctx := context.Background()
	o := rangeOptions()
	o.DisableAutoCompactions, o.NoDynamicLevelBytes = true, true
	o.TargetFileSizeBase, o.Compression = 2000, NoCompression
	db := mustOpen(t, "db", o)
	cf := db.DefaultColumnFamily()
	write := func(from, to int) {
		for i := from; i < to; i++ {
			require.NoError(t, db.Put(fmt.Appendf(nil, "k%03d", i), []byte(strings.Repeat("v", 100)), nil))
		}
	}
	write(0, 200)
	s := db.NewSnapshot()
	defer s.Release()
	deleteRange(t, cf, "k050", "k150")
	write(60, 70)
	want := allKeys(t, cf, nil)
	require.Len(t, want, 110)
	require.NoError(t, db.Flush(ctx, nil))
	for range 4 {
		for i := 0; i < 200; i += 30 {
			require.NoError(t, cf.CompactRange(ctx, fmt.Appendf(nil, "k%03d", i), fmt.Appendf(nil, "k%03d", i+3), nil))
			require.Equal(t, want, allKeys(t, cf, nil))
			require.Len(t, allKeys(t, cf, &ReadOptions{Snapshot: s}), 200)
			mustCheck(t, db)
		}
	}
}

// Bug bank 19, dgraph-io/badger#2313.
func TestRangeDeletesBesideSyncedWritersLoseNothing(t *testing.T) {
	o := rangeOptions()
	db := mustOpen(t, "db", o)
	const writers, each = 8, 40
	var wg sync.WaitGroup
	for n := range writers {
		wg.Go(func() {
			for i := range each {
				if err := db.Put(fmt.Appendf(nil, "keep%d-%03d", n, i), []byte("v"), Sync); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for i := range each {
				if err := errors.Join(db.Put(fmt.Appendf(nil, "drop%03d", i), nil, nil),
					db.DeleteRange([]byte("drop"), []byte("drop~"), nil)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, allKeys(t, db.DefaultColumnFamily(), nil), writers*each)
	mustClose(t, db)
	db = mustOpen(t, "db", o)
	require.Len(t, allKeys(t, db.DefaultColumnFamily(), nil), writers*each)
}

func TestRangeDeletesAloneFillAMemtable(t *testing.T) {
	o := rangeOptions()
	o.WriteBufferSize = 64 << 10
	db := mustOpen(t, "db", o)
	for i := range 2000 {
		deleteRange(t, db.DefaultColumnFamily(), "a", fmt.Sprintf("b%05d", i)) // each reaches further than the one before
	}
	require.NoError(t, db.WaitForCompact(context.Background()))
	require.NotZero(t, db.counters.flushes.Load())
	require.Less(t, db.counters.flushBytes.Load(), uint64(64<<10), "one is left of each memtable")
}

// A read under range deletes allocates no more than one without.
func TestReadsUnderRangeDeletesAllocateNothing(t *testing.T) {
	db := mustOpen(t, "db", rangeOptions())
	cf := db.DefaultColumnFamily()
	putKeys(t, cf, "a", "b", "c")
	deleteRange(t, cf, "b", "c")
	require.NoError(t, db.Flush(context.Background(), nil))
	for i := range 40 {
		deleteRange(t, cf, fmt.Sprintf("x%02d", i), fmt.Sprintf("x%02d", i+2))
	}
	key, gone, buf := []byte("a"), []byte("b"), make([]byte, 0, 100)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := db.AppendGet(buf, key, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := db.AppendGet(buf, gone, nil); err != ErrNotFound {
			t.Fatal(err)
		}
	}))
}

func TestRocksDBReadsOurRangeDeletesAndWeReadItsOwn(t *testing.T) {
	if !needTools(t) {
		return
	}
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "db")
	o := &Options{}
	o.TargetFileSizeBase, o.Compression = 3000, NoCompression
	db := mustOpen(t, dir, o)
	cf := db.DefaultColumnFamily()
	rng := rand.New(rand.NewPCG(1, 2))
	write := func() {
		for range 300 {
			i := rng.IntN(1000)
			require.NoError(t, cf.Put(fmt.Appendf(nil, "key%04d", i), fmt.Appendf(nil, "%d", rng.Uint64()), nil))
			if rng.IntN(10) == 0 {
				i = rng.IntN(1000)
				deleteRange(t, cf, fmt.Sprintf("key%04d", i), fmt.Sprintf("key%04d", i+rng.IntN(40)))
			}
		}
	}
	write()
	s := db.NewSnapshot() // so that range deletes come to the lower levels
	write()
	require.NoError(t, db.CompactRange(ctx, nil, nil, nil))
	write()
	require.NoError(t, db.Flush(ctx, nil))
	write()
	s.Release()
	want := readForward(t, cf)
	mustClose(t, db)
	requireToolsAgree(t, dir, map[string]pairs{"default": want})
	out := tool(t, "ldb", "--db="+dir, "list_file_range_deletes")
	require.Contains(t, out, "start: ")

	tool(t, "ldb", "--db="+dir, "deleterange", "key0100", "key0200")
	want = ldbScan(t, dir, "default")
	db = mustOpen(t, dir, o)
	requireContents(t, db.DefaultColumnFamily(), want)
	putKeys(t, db.DefaultColumnFamily(), "key0150")
	deleteRange(t, db.DefaultColumnFamily(), "key0900", "key1000")
	want = readForward(t, db.DefaultColumnFamily())
	mustClose(t, db)
	tool(t, "ldb", "--db="+dir, "compact")
	require.Equal(t, want, ldbScan(t, dir, "default"))
	db = mustOpen(t, dir, o)
	requireContents(t, db.DefaultColumnFamily(), want)
}

// Bug bank 14, facebook/rocksdb H:2436, and #4698: only the operands older than the range delete go, and what they stood on.
func TestMergesBehindARangeDeleteBeginAnew(t *testing.T) {
	ctx := context.Background()
	flush := func(db *DB) error { return db.Flush(ctx, nil) }
	compact := func(db *DB) error {
		return db.CompactRange(ctx, nil, nil, &CompactRangeOptions{ForceBottommost: true})
	}
	nothing := func(*DB) error { return nil }
	for _, first := range []func(*DB) error{nothing, flush, compact} {
		for _, second := range []func(*DB) error{nothing, flush, compact} {
			for _, snapshot := range []bool{false, true} {
				o := rangeOptions()
				o.MergeOperator = StringAppendOperator(",")
				db := mustOpen(t, "db", o)
				cf := db.DefaultColumnFamily()
				merge := func(operand string) { require.NoError(t, db.Merge([]byte("k"), []byte(operand), nil)) }
				expect := func(want string, o *ReadOptions) {
					t.Helper()
					v, err := db.Get([]byte("k"), o)
					require.NoError(t, err)
					require.Equal(t, want, string(v))
					it := db.NewIterator(o)
					require.True(t, it.SeekToFirst())
					require.Equal(t, want, string(it.Value()))
					require.True(t, it.SeekToLast())
					require.Equal(t, want, string(it.Value()))
					require.NoError(t, it.Close())
				}
				merge("1")
				merge("2")
				require.NoError(t, first(db))
				merge("3")
				var s *Snapshot
				if snapshot {
					s = db.NewSnapshot()
				}
				deleteRange(t, cf, "a", "z")
				require.NoError(t, second(db))
				merge("4")
				merge("5")
				for _, step := range []func(*DB) error{nothing, flush, compact, compact} {
					require.NoError(t, step(db))
					expect("4,5", nil)
					if snapshot {
						expect("1,2,3", &ReadOptions{Snapshot: s})
					}
					mustCheck(t, db)
				}
				if snapshot {
					s.Release()
				}
				mustClose(t, db)
			}
		}
	}
}
