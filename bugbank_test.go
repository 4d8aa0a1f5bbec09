package ashlar

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/vfs"
)

// Reports about other engines, tried on this one: each test has the number of its entry in the bug bank. Those that need
// a crash, or damage, are in bugbank_crash_test.go; those about iterators, snapshots and closing are beside the other
// tests of these.

func countKeys(t *testing.T, cf *ColumnFamily, prefix string) (n int) {
	t.Helper()
	it := cf.Prefix([]byte(prefix), nil)
	for range it.All() {
		n++
	}
	require.NoError(t, it.Close())
	return n
}

// google/leveldb#184.
func TestBugBank001DeletedKeysStayDeleted(t *testing.T) {
	n := 15_000
	switch {
	case longRun():
		n = 1_100_000
	case underRace:
		n = 3000
	}
	db := openMem(t, vfs.NewMem())
	value := make([]byte, 100)
	for _, family := range []string{"A", "B"} {
		for i := range n {
			require.NoError(t, db.Put(fmt.Appendf(nil, "%s%019d", family, i), value, nil))
		}
	}
	for i := range n {
		require.NoError(t, db.Delete(fmt.Appendf(nil, "B%019d", i), nil))
	}
	require.NoError(t, db.CompactRange(context.Background(), nil, nil, nil))
	require.Zero(t, countKeys(t, db.DefaultColumnFamily(), "B"))
	require.Equal(t, n, countKeys(t, db.DefaultColumnFamily(), "A"))
	checkClean(t, db)
	require.NoError(t, db.Close())
}

// dgraph-io/badger#2143: the base level must not skip a level that is not empty.
func TestBugBank005ADeleteAboveALevelThatWasLeftEmpty(t *testing.T) {
	for _, static := range []bool{false, true} {
		o := memOptions(vfs.NewMem())
		o.NoDynamicLevelBytes = static
		o.DisableAutoCompactions = true
		db, err := Open("db", o)
		require.NoError(t, err)
		cf := db.DefaultColumnFamily()
		ctx := context.Background()
		mustPut(t, cf, "k", "old", nil)
		for i := range 200 {
			mustPut(t, cf, fmt.Sprintf("a%03d", i), strings.Repeat("x", 400), nil)
		}
		require.NoError(t, cf.CompactRange(ctx, nil, nil, &CompactRangeOptions{ForceBottommost: true}))
		for i := range 200 {
			mustPut(t, cf, fmt.Sprintf("z%03d", i), strings.Repeat("x", 400), nil)
		}
		require.NoError(t, cf.CompactRange(ctx, []byte("z"), nil, nil))
		require.NoError(t, db.Delete([]byte("k"), nil))
		require.NoError(t, db.Flush(ctx, nil))
		require.Empty(t, valueOf(t, cf, "k"))
		require.NoError(t, cf.CompactRange(ctx, []byte("k"), []byte("k"), nil))
		require.Empty(t, valueOf(t, cf, "k"))
		require.NoError(t, cf.CompactRange(ctx, nil, nil, &CompactRangeOptions{ForceBottommost: true}))
		require.Empty(t, valueOf(t, cf, "k"))
		require.NotContains(t, cf.Levels(), "k#")
		checkClean(t, db)

		// The same with automatic compactions, and the levels they choose.
		require.NoError(t, db.Close())
		o.DisableAutoCompactions = false
		db, err = Open("db", o)
		require.NoError(t, err)
		cf = db.DefaultColumnFamily()
		for i := range 40 {
			mustPut(t, cf, "k", fmt.Sprint(i), nil)
			mustPut(t, cf, fmt.Sprintf("a%03d", i), strings.Repeat("y", 3000), nil)
			require.NoError(t, db.Flush(ctx, nil))
			require.NoError(t, db.Delete([]byte("k"), nil))
			require.NoError(t, db.Flush(ctx, nil))
			require.Empty(t, valueOf(t, cf, "k"))
		}
		require.NoError(t, db.WaitForCompact(ctx))
		require.Empty(t, valueOf(t, cf, "k"))
		checkClean(t, db)
		require.NoError(t, db.Close())
	}
}

// facebook/rocksdb H:2775: merging inside level 0 drops no tombstone that older files may need.
func TestBugBank007TombstonesOutliveMergesInsideLevel0(t *testing.T) {
	o := memOptions(vfs.NewMem())
	o.Level0FileNumCompactionTrigger = 2
	o.Compression, o.MaxBytesForLevelBase = NoCompression, 1<<20
	inside := 0 // read after Close
	o.Listener.OnCompactionCompleted = func(c CompactionInfo) {
		if c.OutputLevel == 0 {
			inside++
		}
	}
	db, err := Open("db", o)
	require.NoError(t, err)
	cf := db.DefaultColumnFamily()
	ctx := context.Background()
	// Level 0 is small against what lies below it: it is merged in itself.
	for i := range 100 {
		mustPut(t, cf, fmt.Sprintf("k%02d", i), strings.Repeat("x", 2000), nil)
	}
	require.NoError(t, cf.CompactRange(ctx, nil, nil, nil))
	for i := range 100 {
		k := fmt.Sprintf("k%02d", i)
		require.NoError(t, cf.Delete([]byte(k), nil))
		require.NoError(t, db.Flush(ctx, nil))
		require.Empty(t, valueOf(t, cf, k))
	}
	require.NoError(t, db.WaitForCompact(ctx))
	require.Zero(t, countKeys(t, cf, "k"))
	checkClean(t, db)
	require.NoError(t, db.Close())
	require.Positive(t, inside, "there were such merges")
}

// facebook/rocksdb H:2114, in leveled style: with many jobs at once no file is an input of two. Busy sees to it, and with
// -tags invariants panics.
func TestBugBank008NoFileIsCompactedTwice(t *testing.T) {
	o := memOptions(vfs.NewMem())
	o.MaxBackgroundJobs, o.TargetFileSizeBase = 8, 4<<10
	var mu sync.Mutex
	taken := map[uint64]bool{}
	twice := 0
	o.Listener.OnCompactionCompleted = func(c CompactionInfo) {
		mu.Lock()
		defer mu.Unlock()
		moved := len(c.Outputs) == 0 && c.BytesRead == 0
		for _, n := range c.Inputs {
			if taken[n] {
				twice++
			}
			taken[n] = !moved
		}
	}
	db, err := Open("db", o)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 400 {
				_ = db.Put(fmt.Appendf(nil, "k%05d", (i*7919+w*31)%4000), make([]byte, 300), nil)
			}
		})
	}
	wg.Wait()
	require.NoError(t, db.WaitForCompact(context.Background()))
	checkClean(t, db)
	require.NoError(t, db.Close())
	require.Zero(t, twice)
	require.NotEmpty(t, taken)
}

// facebook/rocksdb H:2776: the key is in a memtable that waits for its flush, the range delete that covers it in the next.
func TestBugBank029ARangeDeleteInTheNextMemtable(t *testing.T) {
	db, letGo := held(t, nil)
	cf := db.DefaultColumnFamily()
	putKeys(t, cf, "a", "b", "c")
	require.NoError(t, db.Flush(context.Background(), &FlushOptions{NoWait: true}))
	deleteRange(t, cf, "b", "c")
	for range 2 {
		_, err := cf.Get([]byte("b"), nil)
		require.ErrorIs(t, err, ErrNotFound)
		_, errs := cf.MultiGet([][]byte{[]byte("b"), []byte("a")}, nil)
		require.ErrorIs(t, errs[0], ErrNotFound)
		require.NoError(t, errs[1])
		require.Equal(t, []string{"a", "c"}, allKeys(t, cf, nil))
		letGo()
		atRest(db)
	}
	mustClose(t, db)
}

// facebook/rocksdb#10293: an order in which different bytes are equal would have filters miss keys. It is refused.
func TestBugBank064AnOrderThatHoldsDifferentKeysForEqualIsRefused(t *testing.T) {
	fold := *BytewiseComparator
	fold.Name = "test.IgnoreCase"
	fold.Compare = func(a, b []byte) int { return bytes.Compare(bytes.ToLower(a), bytes.ToLower(b)) }
	o := memOptions(vfs.NewMem())
	o.Comparator = &fold
	_, err := Open("db", o)
	require.ErrorIs(t, err, ErrInvalidArgument)
	require.ErrorContains(t, err, fold.Name)
	db := openMem(t, vfs.NewMem())
	_, err = db.CreateColumnFamily("x", &ColumnFamilyOptions{Comparator: &fold})
	require.ErrorIs(t, err, ErrInvalidArgument)
	require.NoError(t, db.Close())
}

// facebook/rocksdb#9888 as far as the contract of SingleDelete goes.
func TestBugBank058SingleDeleteAmongOthers(t *testing.T) {
	db := openMem(t, vfs.NewMem())
	cf := db.DefaultColumnFamily()
	ctx := context.Background()
	for round := range 8 {
		flush := func(bit int) {
			if round>>bit&1 == 1 {
				require.NoError(t, db.Flush(ctx, nil))
			}
		}
		mustPut(t, cf, "k", "1", nil)
		flush(0)
		require.NoError(t, cf.Delete([]byte("k"), nil))
		flush(1)
		require.NoError(t, cf.SingleDelete([]byte("k"), nil))
		mustPut(t, cf, "k", "2", nil)
		flush(2)
		require.NoError(t, cf.SingleDelete([]byte("k"), nil))
		for range 2 {
			require.Empty(t, valueOf(t, cf, "k"), "round %d", round)
			require.NoError(t, cf.CompactRange(ctx, nil, nil, nil))
		}
		require.NoError(t, db.BackgroundError())
	}
	require.Empty(t, cf.Levels())
	require.NoError(t, db.Close())
}

// syndtr/goleveldb#346, cockroachdb/pebble#1691: very many files of level 0. A compaction's input is bounded where it may
// choose, and what it reads is not held in memory.
func TestBugBank136ManyFilesOfLevel0(t *testing.T) {
	n := 600
	switch {
	case longRun():
		n = 20_000
	case underRace:
		n = 150
	}
	fs := vfs.NewMem()
	o := memOptions(fs)
	o.DisableAutoCompactions = true
	db, err := Open("db", o)
	require.NoError(t, err)
	ctx := context.Background()
	for i := range n {
		mustPut(t, db.DefaultColumnFamily(), fmt.Sprintf("k%03d", i%100), fmt.Sprint(i), nil)
		require.NoError(t, db.Flush(ctx, nil))
	}
	require.Len(t, db.family.tree.VersionLocked().Level(0), n)
	require.NoError(t, db.Close())
	o.DisableAutoCompactions = false
	db, err = Open("db", o)
	require.NoError(t, err)
	require.NoError(t, db.WaitForCompact(ctx))
	require.Less(t, len(db.family.tree.VersionLocked().Level(0)), 4)
	for i := range 100 {
		require.Equal(t, fmt.Sprint(n-100+(i-n%100+100)%100), valueOf(t, db.DefaultColumnFamily(), fmt.Sprintf("k%03d", i)))
	}
	db.waitClean()
	tables := 0
	for range db.family.tree.VersionLocked().All() {
		tables++
	}
	require.Len(t, namesOf(t, fs, fname.Table), tables, "the others are deleted")
	checkClean(t, db)
	require.NoError(t, db.Close())
}

// cockroachdb/pebble#1777.
func TestBugBank140ALockedDirectoryIsToldAtOnce(t *testing.T) {
	fs := vfs.NewMem()
	db := openMem(t, fs)
	for range 5 {
		_, err := Open("db", memOptions(fs))
		require.ErrorIs(t, err, ErrLocked)
	}
	mustPut(t, db.DefaultColumnFamily(), "k", "v", nil)
	require.NoError(t, db.Close())
	require.NoError(t, openMem(t, fs).Close())
}

// facebook/rocksdb H:510 (#13009), H:2008: a CompactRange that fails leaves its files eligible.
func TestBugBank148ACompactRangeThatWasGivenUpMayBeRepeated(t *testing.T) {
	db := openMem(t, vfs.NewMem())
	cf := db.DefaultColumnFamily()
	for i := range 100 {
		mustPut(t, cf, fmt.Sprintf("k%02d", i), "v", nil)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, cf.CompactRange(ctx, nil, nil, nil), context.Canceled)
	db.mu.Lock()
	require.Zero(t, db.manual)
	require.Zero(t, cf.busy.Len())
	db.mu.Unlock()
	require.NoError(t, cf.CompactRange(context.Background(), nil, nil, nil))
	require.NotContains(t, cf.Levels(), "L0")
	require.NoError(t, db.Close())
}
