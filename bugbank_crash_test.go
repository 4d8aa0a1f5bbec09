package ashlar

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/vfs/faultfs"
)

// Scenarios of other engines' bug reports: damaged and missing logs, and recoveries that crash. The number is that of our
// list; the first line of each says whose report it is.

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
	fsys, hold := holdingTables(m)
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
	fsys, hold := holdingTables(m)
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
	fsys, hold := holdingTables(m)
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
