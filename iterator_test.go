package ashlar

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/model"
	"github.com/ashlardb/ashlar/vfs"
)

// shown returns the keys of a walk.
func shown(it *Iterator, back bool) (keys []string) {
	all := it.All()
	if back {
		all = it.Backward()
	}
	for k := range all {
		keys = append(keys, string(k))
	}
	return keys
}

// layered returns a database whose keys lie at the bottom, in level 0 and in the memtable.
func layered(t *testing.T, o *Options) *DB {
	t.Helper()
	o.DisableAutoCompactions = true
	db, err := Open("db", o)
	require.NoError(t, err)
	ctx := context.Background()
	put := func(first int) {
		for i := first; i < 90; i += 3 {
			mustPut(t, db.DefaultColumnFamily(), fmt.Sprintf("k%03d", i), fmt.Sprint(first), nil)
		}
	}
	put(0)
	require.NoError(t, db.CompactRange(ctx, nil, nil, nil))
	put(1)
	require.NoError(t, db.Flush(ctx, nil))
	put(2)
	return db
}

// Bug bank 34 and 35 (dgraph-io/badger#2108, #999, #436, #992).
func TestBugBank034And035PrefixesBothWays(t *testing.T) {
	fs := vfs.NewMem()
	db := openMem(t, fs)
	cf := db.DefaultColumnFamily()
	keys := []string{"\x00", "\x01", "\x01\x02", "\x01\xff", "\x02", "p", "p/", "p/a", "p/b", "p0", "\xff", "\xff\xff", "\xff\xff\x01"}
	for _, k := range keys {
		mustPut(t, cf, k, k, nil)
	}
	check := func() {
		for _, p := range append(keys, "", "q", "\xff\xff\xff") {
			var want []string
			for _, k := range keys {
				if bytes.HasPrefix([]byte(k), []byte(p)) {
					want = append(want, k)
				}
			}
			slices.Sort(want)
			it := db.Prefix([]byte(p), nil)
			require.Equal(t, want, shown(it, false), "%q", p)
			slices.Reverse(want)
			require.Equal(t, want, shown(it, true), "%q", p)
			require.NoError(t, it.Close())
		}
	}
	check()
	require.NoError(t, db.Flush(context.Background(), nil))
	check()
	require.NoError(t, db.Close())
	db = openMem(t, fs)
	check()
	require.NoError(t, db.Close())
}

// Bug bank 46 (cockroachdb/pebble#1069).
func TestBugBank046SeeksRepeated(t *testing.T) {
	db := layered(t, &Options{FS: vfs.NewMem()})
	it := db.NewIterator(nil)
	for range 3 {
		require.True(t, it.SeekForPrev([]byte("k010x")))
		require.Equal(t, "k010", string(it.Key()))
		require.True(t, it.Prev())
		require.Equal(t, "k009", string(it.Key()))
	}
	require.NoError(t, it.Close())
	require.NoError(t, db.Close())
}

// Bug bank 50 (cockroachdb/cockroach#50697): a scan ends at a damaged block and does not go on behind it.
func TestBugBank050AScanEndsAtADamagedBlock(t *testing.T) {
	fs := vfs.NewMem()
	o := &Options{FS: fs, ColumnFamilyOptions: ColumnFamilyOptions{
		DisableAutoCompactions: true, Compression: NoCompression, Table: TableOptions{BlockSize: 200},
	}}
	db, err := Open("db", o)
	require.NoError(t, err)
	const n = 200
	for i := range n {
		mustPut(t, db.DefaultColumnFamily(), fmt.Sprintf("k%03d", i), "some value of some length", nil)
	}
	require.NoError(t, db.Flush(context.Background(), nil))
	num := db.family.tree.VersionLocked().Level(0)[0].Num
	path := db.path(fname.Table, num)
	require.NoError(t, db.Close())
	damage(t, fs, path, func(b []byte) []byte { b[len(b)/3] ^= 1; return b })

	db, err = Open("db", o)
	require.NoError(t, err)
	it := db.NewIterator(nil)
	front, back := shown(it, false), []string(nil)
	require.ErrorIs(t, it.Error(), ErrCorruption)
	e, ok := errors.AsType[*CorruptionError](it.Error())
	require.True(t, ok)
	require.Equal(t, path, e.File)
	require.Positive(t, e.Offset)
	require.Equal(t, "default", e.ColumnFamily)
	require.False(t, it.Next())
	require.False(t, it.Prev())
	require.False(t, it.Valid())
	back = shown(it, true)
	require.ErrorIs(t, it.Error(), ErrCorruption)
	require.Less(t, len(front)+len(back), n)
	require.NotEmpty(t, front)
	require.NotEmpty(t, back)
	require.Less(t, front[len(front)-1], back[len(back)-1])
	require.True(t, it.SeekToFirst(), "a seek tries again")
	require.NoError(t, it.Error())
	require.ErrorIs(t, db.VerifyChecksum(context.Background()), ErrCorruption)
	require.NoError(t, it.Close())
	require.NoError(t, db.Close())
}

// Bug bank 52 (etcd-io/bbolt#146, boltdb/bolt#620).
func TestBugBank052DeletingWhileIterating(t *testing.T) {
	db := layered(t, &Options{FS: vfs.NewMem()})
	it := db.NewIterator(nil)
	n := 0
	for k := range it.All() {
		require.NoError(t, db.Delete(k, nil))
		if n++; n%20 == 0 {
			require.NoError(t, db.Flush(context.Background(), nil))
		}
	}
	require.NoError(t, it.Error())
	require.Equal(t, 90, n)
	require.NoError(t, it.Refresh(nil))
	require.Empty(t, shown(it, false))
	require.NoError(t, it.Close())
	require.NoError(t, db.CompactRange(context.Background(), nil, nil, nil))
	require.Empty(t, db.DefaultColumnFamily().Levels())
	require.NoError(t, db.Close())
}

// Bug bank 53: the reverse order, over index keys that may be shortened.
func TestBugBank053ReverseOrder(t *testing.T) {
	o := &Options{FS: vfs.NewMem(), ColumnFamilyOptions: ColumnFamilyOptions{
		Comparator: ReverseBytewiseComparator, Table: TableOptions{BlockSize: 64},
	}}
	db := layered(t, o)
	var want []string
	for i := range 90 {
		want = append(want, fmt.Sprintf("k%03d", 89-i))
	}
	for range 2 {
		it := db.NewIterator(nil)
		require.Equal(t, want, shown(it, false))
		back := shown(it, true)
		slices.Reverse(back)
		require.Equal(t, want, back)
		require.True(t, it.Seek([]byte("k050x")))
		require.Equal(t, "k050", string(it.Key()))
		require.True(t, it.SeekForPrev([]byte("k050x")))
		require.Equal(t, "k051", string(it.Key()))
		require.NoError(t, it.Close())
		it = db.Range([]byte("k050"), []byte("k040"), nil)
		require.Len(t, shown(it, false), 10)
		require.NoError(t, it.Close())
		require.ErrorIs(t, db.Prefix([]byte("k"), nil).Error(), ErrInvalidArgument)
		require.NoError(t, db.CompactRange(context.Background(), nil, nil, nil))
	}
	require.NoError(t, db.Close())
}

// Bug bank 56 (syndtr/goleveldb v1.0.0 says true, nil).
func TestBugBank056NextAfterClose(t *testing.T) {
	db := layered(t, &Options{FS: vfs.NewMem()})
	it := db.NewIterator(nil)
	require.True(t, it.SeekToFirst())
	require.ErrorIs(t, db.Close(), ErrBusy)
	require.False(t, it.Next())
	require.ErrorIs(t, it.Error(), ErrClosed)
	require.False(t, it.SeekToLast())
	require.ErrorIs(t, it.Close(), ErrClosed)
}

// Bug bank 55 (cockroachdb/pebble#5854, #4442): what ends a scan early leaves nothing open.
func TestBugBank055ACancelledScanLeaksNothing(t *testing.T) {
	o := &Options{FS: vfs.NewMem(), BlockCache: NewCache(0), ColumnFamilyOptions: ColumnFamilyOptions{Table: TableOptions{BlockSize: 50}}}
	db := layered(t, o)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	it := db.NewIterator(&ReadOptions{Context: ctx})
	n := 0
	for range it.All() {
		if n++; n == 10 {
			cancel()
		}
	}
	require.ErrorIs(t, it.Error(), context.Canceled)
	require.Less(t, n, 90)
	require.ErrorIs(t, it.Close(), context.Canceled)
	it = db.NewIterator(&ReadOptions{Context: ctx})
	require.False(t, it.SeekToFirst())
	require.ErrorIs(t, it.Error(), context.Canceled)
	it.Close()
	require.Zero(t, db.Metrics().OpenIterators)
	require.Zero(t, o.BlockCache.PinnedUsage())
	require.NoError(t, db.Close())
}

func TestAnIteratorKeepsCopiesOfItsBounds(t *testing.T) {
	db := layered(t, &Options{FS: vfs.NewMem()})
	lower, upper := []byte("k010"), []byte("k020")
	it := db.NewIterator(&ReadOptions{IterateLowerBound: lower, IterateUpperBound: upper})
	clear(lower)
	clear(upper)
	require.Len(t, shown(it, false), 10)
	require.NoError(t, it.Refresh(nil))
	require.Len(t, shown(it, true), 10)
	require.NoError(t, it.Close())
	require.NoError(t, db.Close())
}

func TestALoopMayBeLeftInTheMiddle(t *testing.T) {
	db := layered(t, &Options{FS: vfs.NewMem()})
	it := db.NewIterator(nil)
	for k := range it.All() {
		if string(k) == "k010" {
			break
		}
	}
	require.Equal(t, "k010", string(it.Key()))
	require.True(t, it.Next())
	require.Equal(t, "k011", string(it.Key()))
	for k := range it.Backward() {
		if string(k) == "k080" {
			break
		}
	}
	require.True(t, it.Prev())
	require.Equal(t, "k079", string(it.Key()))
	require.NoError(t, it.Close())
	require.NoError(t, db.Close())
}

func TestAnIteratorOfASnapshotOfAnotherDatabaseIsRefused(t *testing.T) {
	one, two := openMem(t, vfs.NewMem()), openMem(t, vfs.NewMem())
	s := two.NewSnapshot()
	it := one.NewIterator(&ReadOptions{Snapshot: s})
	require.False(t, it.SeekToFirst())
	require.ErrorIs(t, it.Error(), ErrInvalidArgument)
	require.ErrorIs(t, it.Close(), ErrInvalidArgument)
	_, err := one.Get([]byte("a"), &ReadOptions{Snapshot: s})
	require.ErrorIs(t, err, ErrInvalidArgument)
	s.Release()
	require.NoError(t, one.Close())
	require.NoError(t, two.Close())
}

// Bug bank 17 (facebook/rocksdb H:2089): superversion and sequence number are taken in the right order.
func TestBugBank017AnIteratorIsOneMoment(t *testing.T) {
	db := openMem(t, vfs.NewMem())
	cf := db.DefaultColumnFamily()
	keys := []string{"a", "b", "c", "d"}
	write := func(n int) error {
		var b Batch
		for _, k := range keys {
			if err := b.Put(nil, []byte(k), fmt.Appendf(nil, "%08d", n)); err != nil {
				return err
			}
		}
		return db.Write(&b, nil)
	}
	require.NoError(t, write(0))
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Add(1)
	var failed error
	go func() {
		defer wg.Done()
		for n := 1; !stop.Load() && failed == nil; n++ {
			if failed = write(n); failed == nil && n%7 == 0 {
				failed = db.Flush(context.Background(), nil, cf)
			}
		}
	}()
	last := ""
	for range 1500 {
		it := cf.NewIterator(nil)
		var values []string
		for _, v := range it.All() {
			values = append(values, string(v))
		}
		require.NoError(t, it.Close())
		require.Len(t, values, len(keys))
		require.Equal(t, values[0], values[len(values)-1])
		require.LessOrEqual(t, last, values[0], "time does not go back")
		last = values[0]
		runtime.Gosched()
	}
	stop.Store(true)
	wg.Wait()
	require.NoError(t, failed)
	checkClean(t, db)
	require.NoError(t, db.Close())
}

// Seeks and steps, in both directions, over many layouts, beside the model's copy.
func TestIteratorsWalkAsACopyDoes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 6 {
		o := memOptions(vfs.NewMem())
		o.Table.BlockSize = 1 << rng.IntN(12)
		o.TargetFileSizeBase = 1 << (8 + rng.IntN(6))
		o.MaxBytesForLevelBase = 4 << 10
		db, err := Open("db", o)
		require.NoError(t, err)
		twin := model.New()
		family := twin.Family("default")
		for i := range 400 {
			k := fmt.Sprintf("%x", rng.IntN(3000))
			w := model.Write{Family: family, Key: k, Value: k}
			if rng.IntN(4) == 0 {
				w.Kind = model.Delete
				require.NoError(t, db.Delete([]byte(k), nil))
			} else {
				mustPut(t, db.DefaultColumnFamily(), k, k, nil)
			}
			twin.Apply([]model.Write{w})
			if i%60 == 59 {
				require.NoError(t, db.Flush(context.Background(), nil))
			}
		}
		it, want := db.NewIterator(nil), family.NewIter(twin.Seq(), nil, nil)
		for range 3000 {
			k := fmt.Sprintf("%x", rng.IntN(3000))
			ok := false
			switch rng.IntN(8) {
			case 0:
				ok = it.Seek([]byte(k))
				want.Seek(k)
			case 1:
				ok = it.SeekForPrev([]byte(k))
				want.SeekForPrev(k)
			case 2, 3, 4:
				ok = it.Next()
				want.Next()
			default:
				ok = it.Prev()
				want.Prev()
			}
			e, there := want.Entry()
			require.Equal(t, there, ok)
			if ok {
				require.Equal(t, e, model.Entry{Key: string(it.Key()), Value: string(it.Value())})
			}
		}
		require.NoError(t, it.Close())
		checkClean(t, db)
		require.NoError(t, db.Close())
	}
}
