package ashlar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/vfs/faultfs"
)

// Public reports about other engines, about families, logs, recovery, full disks, stalls and locks, tried here. The
// number is that of our list of them; the first line of each says whose report it is.

// crashesOf returns what power cuts may leave at every sync of do, three for each: the least, and two by chance.
func crashesOf(t *testing.T, m *vfs.Mem, do func()) (left []*vfs.Mem) {
	t.Helper()
	seed := newSeed()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	m.OnSync = func(vfs.Op) {
		left = append(left, m.Crash(nil), m.Crash(rng), m.Crash(rng))
	}
	do()
	m.OnSync = nil
	return append(left, m.Crash(nil))
}

// facebook/rocksdb#5856, and a damaged log recovered twice, #H:2211.
func TestBugBank068And094CrashesWhileADamagedLogIsRecovered(t *testing.T) {
	base, logs, ends := twoLogs(t)
	for name, change := range map[string]func(b []byte) []byte{
		"in the middle": func(b []byte) []byte { b[ends[1][1]+50] ^= 1; return b },
		"torn tail":     func(b []byte) []byte { return b[:ends[1][3]-1] },
	} {
		t.Run(name, func(t *testing.T) {
			m := base.Clone()
			damage(t, m, logs[1], change)
			m = m.Crash(nil)
			var want string
			for i, m := range crashesOf(t, m, func() {
				db := openMem(t, m)
				want = keysOf(t, db.family)
				require.NoError(t, db.Close())
			}) {
				db := openMem(t, m)
				other, _ := db.ColumnFamily("other")
				require.Equal(t, want, keysOf(t, db.family), "crash %d", i)
				require.Equal(t, want, keysOf(t, other), "crash %d", i)
				checkClean(t, db)
				require.NoError(t, db.Close())
			}
		})
	}
}

// facebook/rocksdb#7784: a family has flushed past a log whose tail is bad, with nothing that came after the cut.
func TestBugBank070AFamilyPastADamagedLogIsNotAheadOfIt(t *testing.T) {
	m := vfs.NewMem()
	db := openMem(t, m)
	other, err := db.CreateColumnFamily("other", nil)
	require.NoError(t, err)
	mustPut(t, other, "a", "1", nil)
	mustPut(t, db.family, "b", "2", nil)
	mustPut(t, db.family, "c", "3", nil)
	log := db.path(fname.Log, db.wals.Current())
	require.NoError(t, db.Flush(context.Background(), nil, other))
	require.NotEqual(t, log, db.path(fname.Log, db.wals.Current()))
	require.NoError(t, db.Close())
	damage(t, m, log, func(b []byte) []byte { return b[:len(b)-2] })
	db = openMem(t, m)
	other, _ = db.ColumnFamily("other")
	require.Equal(t, "a", keysOf(t, other))
	require.Equal(t, "b", keysOf(t, db.family))
	mustPut(t, db.family, "d", "4", Sync)
	require.NoError(t, db.Close())
	db = openMem(t, m)
	require.Equal(t, "b d", keysOf(t, db.family))
	require.NoError(t, db.Close())
}

// facebook/rocksdb#8207: a family made while a flush runs is empty, and so not ahead of anything.
func TestBugBank071AFamilyMadeDuringAFlushIsNoFalseAlarm(t *testing.T) {
	m := vfs.NewMem()
	fsys := faultfs.Wrap(m)
	hold := make(chan bool)
	fsys.OnCall = func(c faultfs.Call) {
		if c.Op == faultfs.Create && strings.HasSuffix(c.Name, ".sst") {
			<-hold
		}
	}
	db := openMem(t, fsys)
	mustPut(t, db.family, "a", "1", nil)
	mustPut(t, db.family, "b", "2", nil)
	log := db.path(fname.Log, db.wals.Current())
	require.NoError(t, db.Flush(context.Background(), &FlushOptions{NoWait: true}))
	_, err := db.CreateColumnFamily("new", nil)
	require.NoError(t, err)
	dead := m.Clone()
	close(hold)
	require.NoError(t, db.Close())
	damage(t, dead, log, func(b []byte) []byte { return b[:len(b)-2] })
	db = openMem(t, dead)
	require.Equal(t, "a", keysOf(t, db.family))
	family, ok := db.ColumnFamily("new")
	require.True(t, ok)
	require.Empty(t, keysOf(t, family))
	require.NoError(t, db.Close())
}

// facebook/rocksdb#11719: the log still has records of a family that was dropped.
func TestBugBank074LogRecordsOfADroppedFamilyAreSkipped(t *testing.T) {
	for _, more := range []bool{false, true} {
		for _, mode := range []WALRecoveryMode{PointInTimeRecovery, AbsoluteConsistency} {
			m := vfs.NewMem()
			db := openMem(t, m)
			family, err := db.CreateColumnFamily("gone", nil)
			require.NoError(t, err)
			b := db.NewBatch()
			require.NoError(t, b.Put(family, []byte("k"), []byte("v")))
			require.NoError(t, b.Put(nil, []byte("both"), []byte("v")))
			require.NoError(t, db.Write(b, nil))
			require.NoError(t, db.DropColumnFamily(family))
			want := "both"
			if more {
				mustPut(t, db.family, "more", "v", nil)
				want = "both more"
			}
			require.NoError(t, db.Close())
			o := memOptions(m)
			o.WALRecoveryMode = mode
			db, err = Open("db", o)
			require.NoError(t, err)
			require.Equal(t, want, keysOf(t, db.family))
			_, ok := db.ColumnFamily("gone")
			require.False(t, ok)
			mustPut(t, db.family, "after", "v", nil)
			require.NoError(t, db.Close())
		}
	}
}

// facebook/rocksdb#1295, and fjall-rs/fjall#241: a family dropped and made again under its name is a new one.
func TestBugBank076And085AFamilyMadeAgainHasNothingOfTheOldOne(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		m := vfs.NewMem()
		db := openMem(t, m)
		old, err := db.CreateColumnFamily("x", nil)
		require.NoError(t, err)
		mustPut(t, old, "old", "1", Sync)
		mustPut(t, old, "both", "1", Sync)
		if flushed {
			require.NoError(t, db.Flush(context.Background(), nil))
		}
		require.NoError(t, db.DropColumnFamily(old))
		again, err := db.CreateColumnFamily("x", nil)
		require.NoError(t, err)
		require.NotEqual(t, old.ID(), again.ID())
		empty := m.Crash(nil)
		mustPut(t, again, "both", "2", Sync)
		for _, c := range []struct {
			m    *vfs.Mem
			want map[string]string
		}{
			{empty, map[string]string{}},
			{m.Crash(nil), map[string]string{"both": "2"}},
			{m.Clone(), map[string]string{"both": "2"}},
		} {
			db := openMem(t, c.m)
			x, ok := db.ColumnFamily("x")
			require.True(t, ok)
			require.Equal(t, c.want, must(contentOf(x)))
			require.NoError(t, db.Close())
		}
		require.ErrorIs(t, old.Put([]byte("k"), nil, nil), ErrColumnFamilyDropped)
		require.NoError(t, db.Close())
	}
}

// facebook/rocksdb#4280: what a dropped family held is given back at once, tables, logs and memory.
func TestBugBank077ADroppedFamilyGivesBackWhatItHeld(t *testing.T) {
	m := vfs.NewMem()
	db := openMem(t, m)
	x, err := db.CreateColumnFamily("x", nil)
	require.NoError(t, err)
	for i := range 300 {
		mustPut(t, x, fmt.Sprint(i), strings.Repeat("v", 2000), nil)
	}
	mustPut(t, x, "in the memtable", "v", nil)
	it := x.NewIterator(nil)
	require.True(t, it.SeekToFirst())
	require.NoError(t, db.DropColumnFamily(x))
	atRest(db)
	require.NotEmpty(t, namesOf(t, m, fname.Table), "an iterator still reads them")
	n := 1
	for it.Next() {
		n++
	}
	require.NoError(t, it.Close())
	require.Equal(t, 301, n)
	atRest(db)
	require.Empty(t, namesOf(t, m, fname.Table))
	require.Len(t, namesOf(t, m, fname.Log), 1)
	require.EqualValues(t, 1, db.superversions.Load(), "the default family's")
	require.NoError(t, db.Close())
}

// facebook/rocksdb#10138, walrus#2265.
func TestBugBank079TheDefaultFamilyStaysAndAllFamiliesOpen(t *testing.T) {
	m := vfs.NewMem()
	db := openMem(t, m)
	require.ErrorIs(t, db.DropColumnFamily(db.DefaultColumnFamily()), ErrInvalidArgument)
	x, err := db.CreateColumnFamily("x", nil)
	require.NoError(t, err)
	mustPut(t, x, "k", "v", nil)
	require.NoError(t, db.Close())
	db, err = Open("db", &Options{FS: m})
	require.NoError(t, err)
	x, ok := db.ColumnFamily("x")
	require.True(t, ok)
	require.Equal(t, "v", valueOf(t, x, "k"))
	require.Equal(t, db.Options(), x.Options())
	require.NoError(t, db.Close())
	require.Equal(t, []string{"default", "x"}, must(ListColumnFamilies("db", &Options{FS: m})))
}

// rust-rocksdb#430: another order than the one that the family was made with is refused, and nothing is touched.
func TestBugBank080AnotherComparatorIsRefused(t *testing.T) {
	byLength := *BytewiseComparator
	byLength.Name = "test.ByLength"
	byLength.Compare = func(a, b []byte) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(string(a), string(b)))
	}
	byLength.Separator = func(dst, a, b []byte) []byte { return append(dst, a...) }
	byLength.Successor = func(dst, a []byte) []byte { return append(dst, a...) }
	orders := []*Comparator{&byLength, BytewiseComparator}
	for i, made := range orders {
		other := orders[1-i]
		for _, name := range []string{"x", DefaultColumnFamilyName} {
			m := vfs.NewMem()
			o := memOptions(m)
			if name == DefaultColumnFamilyName {
				o.Comparator = made
			}
			db, err := Open("db", o)
			require.NoError(t, err)
			if name == "x" {
				_, err = db.CreateColumnFamily("x", &ColumnFamilyOptions{Comparator: made})
				require.NoError(t, err)
			}
			x, _ := db.ColumnFamily(name)
			mustPut(t, x, "bb", "1", nil)
			mustPut(t, x, "a", "2", nil)
			require.NoError(t, db.Flush(context.Background(), nil))
			require.NoError(t, db.Close())

			before := dataFiles(t, m)
			o = memOptions(m)
			o.ColumnFamilies = map[string]*ColumnFamilyOptions{name: {Comparator: other}}
			if name == DefaultColumnFamilyName {
				o.ColumnFamilies, o.Comparator = nil, other
			}
			_, err = Open("db", o)
			require.ErrorIs(t, err, ErrInvalidArgument)
			require.ErrorContains(t, err, made.Name)
			require.ErrorContains(t, err, other.Name)
			require.Equal(t, before, dataFiles(t, m))

			o = memOptions(m)
			o.ColumnFamilies = map[string]*ColumnFamilyOptions{name: {Comparator: made}}
			if name == DefaultColumnFamilyName {
				o.ColumnFamilies, o.Comparator = nil, made
			}
			db, err = Open("db", o)
			require.NoError(t, err)
			x, _ = db.ColumnFamily(name)
			require.Len(t, must(contentOf(x)), 2)
			checkClean(t, db)
			require.NoError(t, db.Close())
		}
	}
}

// cockroachdb/cockroach#68319: an Open that made its log and then failed leaves two logs, the older with a torn tail.
func TestBugBank086AnOpenThatEndsBeforeItsManifestCanBeRepeated(t *testing.T) {
	base, logs, ends := twoLogs(t)
	damage(t, base, logs[1], func(b []byte) []byte { return b[:ends[1][3]-7] })
	for _, mode := range []WALRecoveryMode{PointInTimeRecovery, TolerateCorruptedTailRecords, SkipAnyCorruptedRecords, AbsoluteConsistency} {
		m := base.Clone()
		for range 3 { // again and again
			fsys := faultfs.Wrap(m)
			require.NoError(t, fsys.Add("fail create MANIFEST-*"))
			o := memOptions(fsys)
			if mode != AbsoluteConsistency { // to which the torn tail is settled once another mode has made the next log
				o.WALRecoveryMode = mode
			}
			_, err := Open("db", o)
			require.Error(t, err)
		}
		require.Greater(t, len(namesOf(t, m, fname.Log)), 2)
		o := memOptions(m)
		o.WALRecoveryMode = mode
		db, err := Open("db", o)
		require.NoError(t, err)
		require.Equal(t, "1 2 3 4 5", keysOf(t, db.family))
		mustPut(t, db.family, "6", "again", Sync)
		require.NoError(t, db.Close())
		db = openMem(t, m)
		require.Equal(t, "1 2 3 4 5 6", keysOf(t, db.family))
		require.Equal(t, "again", valueOf(t, db.family, "6"))
		require.NoError(t, db.Close())
	}
}

// facebook/rocksdb H:1282: a log that was synced is missing, or cut, and that is noticed as long as a later one is there.
func TestBugBank091AMissingLogIsNoticed(t *testing.T) {
	base, logs, ends := twoLogs(t)
	for name, change := range map[string]func(m *vfs.Mem){
		"missing": func(m *vfs.Mem) { require.NoError(t, m.Remove(logs[0])) },
		"cut":     func(m *vfs.Mem) { damage(t, m, logs[0], func(b []byte) []byte { return b[:ends[0][2]] }) },
	} {
		m := base.Clone()
		change(m)
		o := memOptions(m)
		o.WALRecoveryMode = AbsoluteConsistency
		_, err := Open("db", o)
		require.ErrorIs(t, err, ErrCorruption, name)
	}
}

// facebook/rocksdb H:1286: what was never synced may be missing, and no mode takes that for damage.
func TestBugBank091WhatWasNotSyncedMayBeMissing(t *testing.T) {
	for mode := TolerateCorruptedTailRecords; mode <= SkipAnyCorruptedRecords; mode++ {
		m := vfs.NewMem()
		db := openMem(t, m)
		mustPut(t, db.family, "synced", "v", Sync)
		mustPut(t, db.family, "unsynced", "v", nil)
		left := m.Crash(nil)
		require.NoError(t, db.Close())
		o := memOptions(left)
		o.WALRecoveryMode = mode
		db, err := Open("db", o)
		require.NoError(t, err, "%v", mode)
		require.Equal(t, "synced", keysOf(t, db.family))
		require.NoError(t, db.Close())
	}
}

// facebook/rocksdb#12467: the newer log came to the disk and the older one's tail did not.
func TestBugBank092ALostTailOfAnEarlierLogIsTheEnd(t *testing.T) {
	m := vfs.NewMem()
	fsys := faultfs.Wrap(m)
	hold := make(chan bool)
	fsys.OnCall = func(c faultfs.Call) {
		if c.Op == faultfs.Create && strings.HasSuffix(c.Name, ".sst") {
			<-hold
		}
	}
	db := openMem(t, fsys)
	mustPut(t, db.family, "1", "", Sync)
	mustPut(t, db.family, "2", "", nil)
	require.NoError(t, db.Flush(context.Background(), &FlushOptions{NoWait: true}))
	mustPut(t, db.family, "3", "", nil)
	seed := newSeed()
	t.Logf("seed %d", seed)
	found := map[string]int{}
	for i := range 200 {
		left := m.Crash(rand.New(rand.NewPCG(seed, uint64(i))))
		db := openMem(t, left)
		found[keysOf(t, db.family)]++
		require.NoError(t, db.Close())
	}
	close(hold)
	require.NoError(t, db.Close())
	for keys := range found {
		require.Contains(t, []string{"1", "1 2", "1 2 3"}, keys)
	}
	require.Len(t, found, 3, "all of them can happen: %v", found)
}

// syndtr/goleveldb PR 351: a power cut while CURRENT changes over to a new manifest.
func TestBugBank097CrashesWhileCurrentChanges(t *testing.T) {
	m := vfs.NewMem()
	db := openMem(t, m)
	mustPut(t, db.family, "k", "v", Sync)
	require.NoError(t, db.Close())
	before := namesOf(t, m, fname.Manifest)
	crashes := crashesOf(t, m.Clone(), func() {})
	crashes = append(crashes, crashesOf(t, m, func() {
		db := openMem(t, m)
		require.NoError(t, db.Close())
	})...)
	require.NotEqual(t, before, namesOf(t, m, fname.Manifest))
	for _, m := range crashes {
		db := openMem(t, m)
		require.Equal(t, "v", valueOf(t, db.family, "k"))
		require.NoError(t, db.Close())
	}
}

// fjall-rs/fjall#257: more memtables' worth of logs than there may be memtables.
func TestBugBank101ManyRecoveredMemtablesDoNotStall(t *testing.T) {
	m := vfs.NewMem()
	fsys := faultfs.Wrap(m)
	hold := make(chan bool)
	fsys.OnCall = func(c faultfs.Call) {
		if c.Op == faultfs.Create && strings.HasSuffix(c.Name, ".sst") {
			<-hold
		}
	}
	o := memOptions(fsys)
	o.MaxWriteBufferNumber = 10
	db, err := Open("db", o)
	require.NoError(t, err)
	n, err := fill(db, 500)
	require.NoError(t, err)
	require.Greater(t, len(db.wals.Numbers()), 5)
	dead := m.Clone()
	close(hold)
	require.NoError(t, db.Close())
	db = openMem(t, dead)
	requireFilled(t, db, n)
	for i := range 500 {
		mustPut(t, db.family, fmt.Sprint("more", i), strings.Repeat("v", 1000), nil)
	}
	require.NoError(t, db.WaitForCompact(context.Background()))
	checkClean(t, db)
	require.NoError(t, db.Close())
}

// fjall-rs/fjall#317: without its newest log a database has lost the writes in it, and none after.
func TestBugBank103WritesAfterALogWasLostAreKept(t *testing.T) {
	m := vfs.NewMem()
	db := openMem(t, m)
	mustPut(t, db.family, "a", "1", Sync)
	require.NoError(t, db.Flush(context.Background(), nil))
	mustPut(t, db.family, "b", "2", Sync)
	log := db.path(fname.Log, db.wals.Current())
	require.NoError(t, db.Close())
	require.NoError(t, m.Remove(log))
	db = openMem(t, m)
	require.Equal(t, "a", keysOf(t, db.family))
	mustPut(t, db.family, "c", "3", Sync)
	for _, m := range []*vfs.Mem{m.Crash(nil), m.Clone()} {
		db := openMem(t, m)
		require.Equal(t, "a c", keysOf(t, db.family))
		require.NoError(t, db.Close())
	}
	require.NoError(t, db.Close())
}

// facebook/rocksdb H:1774: the copy of a database, opened with its OPTIONS file, leaves the original alone.
func TestBugBank113ACopyOpenedWithItsOptionsFileLeavesTheOriginalAlone(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	db, err := Open(from, nil)
	require.NoError(t, err)
	mustPut(t, db.family, "k", "v", nil)
	require.NoError(t, db.Close())
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	list := func(dir string) (names []string) {
		require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
			info, _ := e.Info()
			names = append(names, fmt.Sprint(path, info.Size(), info.ModTime()))
			return err
		}))
		return names
	}
	before := list(from)
	o, err := LoadOptions(to)
	require.NoError(t, err)
	db, err = Open(to, o)
	require.NoError(t, err)
	mustPut(t, db.family, "k2", "v", Sync)
	require.NoError(t, db.Flush(context.Background(), nil))
	mustPut(t, db.family, "k3", "v", Sync)
	require.NoError(t, db.Close())
	require.Equal(t, before, list(from))
}

// facebook/rocksdb#10257, #11764: writes stop for level 0 although nothing compacts it yet.
func TestBugBank133AStallStartsTheCompactionThatEndsIt(t *testing.T) {
	m := vfs.NewMem()
	o := memOptions(m)
	o.Level0FileNumCompactionTrigger, o.Level0SlowdownWritesTrigger, o.Level0StopWritesTrigger = 2, 2, 2
	o.MaxWriteBufferNumber = 2
	db, err := Open("db", o)
	require.NoError(t, err)
	for i := range 20 {
		mustPut(t, db.family, fmt.Sprint(i), strings.Repeat("v", 100), nil)
		require.NoError(t, db.Flush(context.Background(), nil))
	}
	require.NoError(t, db.WaitForCompact(context.Background()))
	require.NoError(t, db.Close())
}

// facebook/rocksdb H:2245, #4475, #6322, #7508: writers who will not wait, among writers who do.
func TestBugBank134WritersWhoWillNotWaitLeaveAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := faultfs.Wrap(vfs.NewMem())
		hold := make(chan bool)
		fsys.OnCall = func(c faultfs.Call) {
			if c.Op == faultfs.Create && strings.HasSuffix(c.Name, ".sst") {
				<-hold
			}
		}
		db := openMem(t, fsys)
		var wg sync.WaitGroup
		var mu sync.Mutex
		var waited []error
		wg.Go(func() {
			_, err := fill(db, 300)
			mu.Lock()
			defer mu.Unlock()
			waited = append(waited, err)
		})
		synctest.Wait() // it waits for its flush
		refused := 0
		for i := range 30 {
			wg.Go(func() {
				quick := i%3 == 0
				err := db.Put(fmt.Appendf(nil, "k%02d", i), nil, &WriteOptions{NoSlowdown: quick})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case quick && errors.Is(err, ErrIncomplete):
					refused++
				case quick:
					waited = append(waited, fmt.Errorf("%d was not refused: %w", i, err))
				default:
					waited = append(waited, err)
				}
			})
		}
		synctest.Wait()
		mu.Lock()
		require.Equal(t, 10, refused, "at once")
		require.Empty(t, waited)
		mu.Unlock()
		close(hold)
		wg.Wait()
		require.Len(t, waited, 21)
		require.NoError(t, errors.Join(waited...))
		require.NoError(t, db.Put([]byte("quick"), nil, &WriteOptions{NoSlowdown: true}))
		require.Len(t, must(contentOf(db.family)), 300+20+1)
		require.NoError(t, db.Close())
	})
}

// facebook/rocksdb H:210, H:634: Close does not wait for manual compactions that wait for others.
func TestBugBank145CloseEndsManualCompactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := faultfs.Wrap(vfs.NewMem())
		hold := make(chan bool)
		var holding atomic.Bool
		fsys.OnCall = func(c faultfs.Call) {
			if holding.Load() && c.Op == faultfs.Create && strings.HasSuffix(c.Name, ".sst") {
				<-hold
			}
		}
		o := memOptions(fsys)
		o.DisableAutoCompactions = true
		db, err := Open("db", o)
		require.NoError(t, err)
		for range 3 {
			_, err := fill(db, 50)
			require.NoError(t, err)
			require.NoError(t, db.Flush(context.Background(), nil))
		}
		holding.Store(true)
		errs := make(chan error, 4)
		for range cap(errs) {
			go func() {
				errs <- db.CompactRange(context.Background(), nil, nil, &CompactRangeOptions{ForceBottommost: true})
			}()
		}
		synctest.Wait() // one runs, the others wait for it
		closed := make(chan error, 1)
		go func() { closed <- db.Close() }()
		synctest.Wait()
		require.Len(t, errs, cap(errs)-1, "those that wait return at once")
		close(hold)
		require.NoError(t, <-closed)
		done := 0
		for range cap(errs) {
			switch err := <-errs; {
			case err == nil:
				done++ // its last job was running
			case !errors.Is(err, context.Canceled):
				require.ErrorIs(t, err, ErrClosed)
			}
		}
		require.LessOrEqual(t, done, 1)
		db = openMem(t, fsys)
		requireFilled(t, db, 50)
		checkClean(t, db)
		require.NoError(t, db.Close())
	})
}

// facebook/rocksdb H:668: a read that must not read files says so, and does not say that there is no such key.
func TestBugBank149AReadThatMayNotReadFilesIsIncomplete(t *testing.T) {
	m := vfs.NewMem()
	db := openMem(t, m)
	mustPut(t, db.family, "k", "v", nil)
	require.NoError(t, db.Flush(context.Background(), nil))
	require.NoError(t, db.Close())
	db = openMem(t, m)
	cached := &ReadOptions{ReadTier: BlockCacheTier}
	v, err := db.Get([]byte("k"), cached)
	require.ErrorIs(t, err, ErrIncomplete)
	require.Nil(t, v)
	require.Equal(t, "v", valueOf(t, db.family, "k"))
	v, err = db.Get([]byte("k"), cached)
	require.NoError(t, err)
	require.Equal(t, "v", string(v))
	mustPut(t, db.family, "m", "v", nil)
	v, err = db.Get([]byte("m"), cached)
	require.NoError(t, err)
	require.Equal(t, "v", string(v))
	require.NoError(t, db.Close())
}

// facebook/rocksdb#3145, #1903: a family that is hardly written to does not keep every log for ever, and a log goes only
// when no family needs it.
func TestAQuietFamilyDoesNotKeepTheLogs(t *testing.T) {
	m := vfs.NewMem()
	o := memOptions(m)
	o.MaxTotalWALSize = 200 << 10
	db, err := Open("db", o)
	require.NoError(t, err)
	quiet, err := db.CreateColumnFamily("quiet", nil)
	require.NoError(t, err)
	mustPut(t, quiet, "k", "v", nil)
	first := db.wals.Numbers()[0]
	for i := range 1000 {
		mustPut(t, db.family, fmt.Sprint(i%50), strings.Repeat("v", 1000), nil)
		require.Less(t, db.wals.TotalSize(), int64(600<<10))
		if i%200 == 0 {
			left := openMem(t, m.Clone())
			quiet, _ := left.ColumnFamily("quiet")
			require.Equal(t, "v", valueOf(t, quiet, "k"))
			require.NoError(t, left.Close())
		}
	}
	atRest(db)
	require.Greater(t, namesOf(t, m, fname.Log)[0], first)
	require.NoError(t, db.Close())
}
