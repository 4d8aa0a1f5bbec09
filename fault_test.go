package ashlar

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/vfs/faultfs"
)

// What a failing call of the file system does, one kind of call at a time. fault_run_test.go tries all calls of a run.

// A failed fsync is never tried again on the same file, so Resume has to get rid of the log, also when no memtable
// holds anything that a flush would carry past it.
func TestResumeLetsGoOfALogThatFailedBeforeAnythingWasWritten(t *testing.T) {
	fs := faultfs.Wrap(vfs.NewMem())
	db := openMem(t, fs)
	_, err := db.CreateColumnFamily("other", nil)
	require.NoError(t, err)
	require.NoError(t, fs.Add("fail sync *.log once"))
	require.Error(t, db.Put([]byte("a"), []byte("1"), Sync))
	require.Equal(t, "", valueOf(t, db.family, "a"))
	require.Error(t, db.BackgroundError())
	require.NoError(t, db.Resume(context.Background()))
	mustPut(t, db.family, "b", "2", Sync)
	require.Len(t, db.wals.Numbers(), 1)
	require.NoError(t, db.Close())
	db = openMem(t, fs)
	require.Equal(t, "", valueOf(t, db.family, "a"))
	require.Equal(t, "2", valueOf(t, db.family, "b"))
	require.NoError(t, db.Close())
}

// With several families a flush syncs the closed logs first, and one that failed cannot be synced. So Resume flushes all
// families into one edit, and what a batch wrote to two of them does not come apart (RocksDB 12995, 13903).
func TestResumeAfterAFailedSyncFlushesAllFamiliesAtOnce(t *testing.T) {
	m := vfs.NewMem()
	fs := faultfs.Wrap(m)
	db := openMem(t, fs)
	one, err := db.CreateColumnFamily("one", nil)
	require.NoError(t, err)
	b := db.NewBatch()
	require.NoError(t, b.Put(nil, []byte("k"), []byte("default")))
	require.NoError(t, b.Put(one, []byte("k"), []byte("one")))
	require.NoError(t, db.Write(b, nil))
	require.NoError(t, fs.Add("fail sync *.log once"))
	require.Error(t, db.SyncWAL(context.Background()))
	var crashes []*vfs.Mem
	m.OnSync = func(vfs.Op) { crashes = append(crashes, m.Crash(nil)) }
	require.NoError(t, db.Resume(context.Background()))
	m.OnSync = nil
	require.NoError(t, db.Close())
	crashes = append(crashes, m.Crash(nil))
	both := 0
	for _, c := range crashes {
		db := openMem(t, c)
		one, _ := db.ColumnFamily("one")
		a, b := valueOf(t, db.family, "k"), valueOf(t, one, "k")
		require.Equal(t, a == "", b == "")
		if a != "" {
			both++
		}
		require.NoError(t, db.Close())
	}
	require.Positive(t, both)
	require.Less(t, both, len(crashes))
}

// fill writes until a write fails, and returns how many keys were written before. Values do not compress.
func fill(db *DB, most int) (n int, err error) {
	rng := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, 1000)
	for ; n < most; n++ {
		for i := range value {
			value[i] = byte(rng.Uint32())
		}
		if err := db.Put(fmt.Appendf(nil, "fill%05d", n), value, nil); err != nil {
			return n, err
		}
	}
	return n, nil
}

// requireFilled checks that exactly the first n keys of fill are there.
func requireFilled(t *testing.T, db *DB, n int) {
	t.Helper()
	it := db.Prefix([]byte("fill"), nil)
	found := 0
	for k := range it.All() {
		require.Equal(t, fmt.Sprintf("fill%05d", found), string(k))
		found++
	}
	require.NoError(t, it.Close())
	require.Equal(t, n, found)
}

// A full disk that only the foreground write meets (bug bank 130), and one that a flush meets.
func TestBugBank130AFullDiskStopsWritesUntilThereIsRoom(t *testing.T) {
	for _, room := range []int64{0, 3_000, 60_000, 95_000, 130_000, 200_000} {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			fs := faultfs.Wrap(vfs.NewMem())
			db := openMem(t, fs)
			mustPut(t, db.family, "before", "1", Sync)
			fs.LimitSpace(room)
			n, err := fill(db, 1000)
			require.ErrorIs(t, err, ErrNoSpace)
			require.ErrorIs(t, db.BackgroundError(), ErrNoSpace)
			require.ErrorIs(t, db.Put([]byte("x"), nil, nil), ErrNoSpace)
			require.ErrorIs(t, db.Flush(context.Background(), nil), ErrNoSpace)
			requireFilled(t, db, n)
			require.Equal(t, "1", valueOf(t, db.family, "before"))
			require.ErrorIs(t, db.Resume(context.Background()), ErrNoSpace, "as long as the disk is full")
			require.Error(t, db.BackgroundError())

			fs.Free()
			require.NoError(t, db.Resume(context.Background()))
			require.NoError(t, db.BackgroundError())
			mustPut(t, db.family, "after", "2", Sync)
			requireFilled(t, db, n)
			require.NoError(t, db.Close())
			db = openMem(t, fs)
			requireFilled(t, db, n)
			require.Equal(t, "1", valueOf(t, db.family, "before"))
			require.Equal(t, "2", valueOf(t, db.family, "after"))
			checkClean(t, db)
			require.NoError(t, db.Close())
		})
	}
}

// The same without a call of Resume: it is tried every second.
func TestBugBank130AFullDiskIsNoticedToHaveRoomAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.Wrap(vfs.NewMem())
		db := openMem(t, fs)
		fs.LimitSpace(100_000)
		n, err := fill(db, 1000)
		require.ErrorIs(t, err, ErrNoSpace)
		time.Sleep(10 * retryEvery)
		require.ErrorIs(t, db.Put([]byte("x"), nil, nil), ErrNoSpace)
		fs.Free()
		time.Sleep(2 * retryEvery)
		synctest.Wait()
		require.NoError(t, db.BackgroundError())
		mustPut(t, db.family, "after", "2", nil)
		requireFilled(t, db, n)
		require.NoError(t, db.Close())
	})
}

// A flush that failed is run again, and who waits for it gets the error and not a hang (RocksDB 15030).
func TestAFlushThatFailedIsDoneAgain(t *testing.T) {
	for _, rule := range []string{
		"fail create *.sst once", "fail write *.sst once", "fail sync *.sst once", "fail syncdir db once", "fail open *.sst once",
		"fail write MANIFEST-* once", "fail sync MANIFEST-* once late",
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := faultfs.Wrap(vfs.NewMem())
				db := openMem(t, fs)
				mustPut(t, db.family, "k", "v", Sync)
				require.NoError(t, fs.Add(rule))
				require.Error(t, db.Flush(context.Background(), nil))
				require.Error(t, db.Put([]byte("x"), nil, nil))
				require.Equal(t, "v", valueOf(t, db.family, "k"))
				time.Sleep(2 * retryEvery)
				synctest.Wait()
				require.NoError(t, db.BackgroundError())
				mustPut(t, db.family, "k2", "v", nil)
				require.NoError(t, db.Flush(context.Background(), nil))
				atRest(db)
				require.ElementsMatch(t, liveTables(db), namesOf(t, fs, fname.Table), "nothing is left behind")
				require.Len(t, namesOf(t, fs, fname.Manifest), 1)
				require.NoError(t, db.Close())
				db = openMem(t, fs)
				require.Equal(t, "v", valueOf(t, db.family, "k"))
				require.Equal(t, "v", valueOf(t, db.family, "k2"))
				require.NoError(t, db.Close())
			})
		})
	}
}

// namesOf lists the numbers of the files of a kind in "db".
func namesOf(t *testing.T, fs vfs.FS, kind fname.Kind) (nums []uint64) {
	t.Helper()
	names, err := fs.List("db")
	require.NoError(t, err)
	for _, name := range names {
		if k, num, ok := fname.Parse(name); ok && k == kind {
			nums = append(nums, num)
		}
	}
	slices.Sort(nums)
	return nums
}

// liveTables lists the tables that the current versions name.
func liveTables(db *DB) (nums []uint64) {
	for _, cf := range db.ColumnFamilies() {
		v := db.versions.Current(cf.id)
		for _, f := range v.All() {
			nums = append(nums, f.Num)
		}
		v.Unref()
	}
	return nums
}

// A write that its group could not make safe is not seen, by nobody and never: not before its fsync, not after it has
// failed, not after Resume, and not after the next Open (decision 13).
func TestAWriteWhoseSyncFailsIsNeverSeen(t *testing.T) {
	m := vfs.NewMem()
	fs := faultfs.Wrap(m)
	var db *DB
	during := 0
	fs.OnCall = func(c faultfs.Call) {
		if c.Op == faultfs.Sync && db != nil && !db.closed.Load() && strings.HasSuffix(c.Name, ".log") {
			during++
			_, err := db.Get([]byte("k"), nil)
			require.ErrorIs(t, err, ErrNotFound, "before its sync has returned")
		}
	}
	db = openMem(t, fs)
	mustPut(t, db.family, "first", "1", nil)
	require.NoError(t, fs.Add("fail sync *.log once"))
	before := db.LatestSequenceNumber()
	require.ErrorIs(t, db.Put([]byte("k"), []byte("v"), Sync), syscall.EIO)
	require.Equal(t, 1, during)
	require.Equal(t, before, db.LatestSequenceNumber())
	require.Equal(t, "", valueOf(t, db.family, "k"))
	require.ErrorIs(t, db.Put([]byte("k"), []byte("v"), Sync), syscall.EIO, "the log takes no more")
	require.NoError(t, db.Resume(context.Background()))
	require.Equal(t, "", valueOf(t, db.family, "k"))
	require.NoError(t, db.Close())
	db2 := openMem(t, m)
	require.Equal(t, "", valueOf(t, db2.family, "k"))
	require.Equal(t, "1", valueOf(t, db2.family, "first"))
	require.NoError(t, db2.Close())
}

// Every member of a group whose record failed gets the error, not only its leader, and so does every group that a failed
// sync was for (RocksDB 3096, 3201).
func TestEveryMemberOfAFailedGroupGetsTheError(t *testing.T) {
	for _, rule := range []string{"fail write *.log once", "fail write *.log once partial", "fail sync *.log once"} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := faultfs.Wrap(vfs.NewMem())
				op := faultfs.Op(strings.Fields(rule)[1])
				hold, held, calls := make(chan bool), false, 0
				fs.OnCall = func(c faultfs.Call) {
					if c.Op != op || !strings.HasSuffix(c.Name, ".log") {
						return
					}
					calls++
					if held {
						held = false
						<-hold
					}
				}
				db := openMem(t, fs)
				held, calls = true, 0
				first := make(chan error, 1)
				go func() { first <- db.Put([]byte("first"), nil, Sync) }()
				synctest.Wait() // it is in its write or fsync
				const n = 10
				errs := make([]error, n)
				var wg sync.WaitGroup
				for i := range n {
					wg.Go(func() { errs[i] = db.Put(fmt.Appendf(nil, "k%d", i), nil, Sync) })
				}
				synctest.Wait()                             // they wait behind it for one write, or one fsync
				require.NoError(t, fs.Add(rule+" after 1")) // the first one's passes
				close(hold)
				wg.Wait()
				require.NoError(t, <-first)
				for _, err := range errs {
					require.ErrorIs(t, err, syscall.EIO)
				}
				require.Equal(t, 2, calls, "the first one's and one other")
				require.Equal(t, map[string]string{"first": ""}, must(contentOf(db.family)))
				require.NoError(t, db.Resume(t.Context()))
				for i := range n {
					mustPut(t, db.family, fmt.Sprintf("k%d", i), "", Sync)
				}
				require.NoError(t, db.Close())
				db = openMem(t, fs)
				require.Len(t, must(contentOf(db.family)), n+1)
				checkClean(t, db) // no key has two versions of one number (RocksDB 12448, 12873)
				require.NoError(t, db.Close())
			})
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// After a failed append the manifest's end is not known: the next edit begins a new one (RocksDB 6316, 6331; 41).
func TestAManifestThatFailedIsReplaced(t *testing.T) {
	for _, rule := range []string{"fail write MANIFEST-* once partial", "fail write MANIFEST-* once late", "fail sync MANIFEST-* once with ENOSPC"} {
		t.Run(rule, func(t *testing.T) {
			fs := faultfs.Wrap(vfs.NewMem())
			db := openMem(t, fs)
			mustPut(t, db.family, "a", "1", nil)
			before := db.versions.ManifestNumber()
			require.NoError(t, fs.Add(rule))
			require.Error(t, db.Flush(context.Background(), nil))
			require.NoError(t, db.Resume(context.Background()))
			require.Greater(t, db.versions.ManifestNumber(), before)
			atRest(db)
			require.Equal(t, []uint64{db.versions.ManifestNumber()}, namesOf(t, fs, fname.Manifest))
			require.NoError(t, db.Close())
			db = openMem(t, fs)
			require.Equal(t, "1", valueOf(t, db.family, "a"))
			require.NoError(t, db.Close())
		})
	}
}

// When the rename to CURRENT fails nobody knows which manifest it names. Both stay, until one that is known takes over
// from both (RocksDB 8192; 42).
func TestBothManifestsStayWhenCurrentIsInDoubt(t *testing.T) {
	for _, rule := range []string{"fail rename CURRENT once", "fail rename CURRENT once late"} {
		t.Run(rule, func(t *testing.T) {
			m := vfs.NewMem()
			fs := faultfs.Wrap(m)
			db := openMem(t, fs)
			mustPut(t, db.family, "a", "1", Sync)
			require.NoError(t, fs.Add("fail write MANIFEST-* once"))
			require.Error(t, db.Flush(context.Background(), nil))
			require.NoError(t, fs.Add(rule))
			require.Error(t, db.Resume(context.Background()))
			atRest(db)
			require.Len(t, namesOf(t, fs, fname.Manifest), 2)
			for _, c := range []*vfs.Mem{m.Clone(), m.Crash(nil)} {
				db := openMem(t, c)
				require.Equal(t, "1", valueOf(t, db.family, "a"))
				checkClean(t, db)
				require.NoError(t, db.Close())
			}
			require.NoError(t, db.Resume(context.Background()))
			atRest(db)
			require.Len(t, namesOf(t, fs, fname.Manifest), 1)
			require.NoError(t, db.Close())
			db = openMem(t, m)
			require.Equal(t, "1", valueOf(t, db.family, "a"))
			require.NoError(t, db.Close())
		})
	}
}

// fjall has lost writes whose log could not be made (bug bank 104): here the Put that wanted it says so.
func TestBugBank104ALogThatCannotBeMadeIsAnErrorOfPut(t *testing.T) {
	for _, rule := range []string{"fail create *.log once", "fail write *.log once"} {
		t.Run(rule, func(t *testing.T) {
			fs := faultfs.Wrap(vfs.NewMem())
			db := openMem(t, fs)
			created := 0
			fs.OnCall = func(c faultfs.Call) {
				if c.Op == faultfs.Create && strings.HasSuffix(c.Name, ".log") {
					if created++; created == 1 {
						require.NoError(t, fs.Add(rule))
					}
				}
			}
			n, err := fill(db, 1000)
			require.ErrorIs(t, err, syscall.EIO)
			require.Equal(t, 1, created)
			require.ErrorIs(t, db.BackgroundError(), syscall.EIO)
			require.NoError(t, db.Resume(context.Background()))
			mustPut(t, db.family, "after", "", nil)
			requireFilled(t, db, n)
			require.NoError(t, db.Close())
			db = openMem(t, fs)
			requireFilled(t, db, n)
			require.NoError(t, db.Close())
		})
	}
}

// A damaged table stops compactions and writes for good, and nothing else: reads of other keys go on, and what the
// compaction would have replaced stays.
func TestACompactionThatMeetsDamageStopsWritesAndKeepsItsInputs(t *testing.T) {
	m := vfs.NewMem()
	o := memOptions(m)
	o.DisableAutoCompactions = true
	db, err := Open("db", o)
	require.NoError(t, err)
	for range 3 {
		_, err := fill(db, 20)
		require.NoError(t, err)
		require.NoError(t, db.Flush(context.Background(), nil))
	}
	tables := liveTables(db)
	require.NoError(t, db.Close())
	damage(t, m, db.path(fname.Table, tables[1]), func(b []byte) []byte { b[1000] ^= 1; return b })
	db, err = Open("db", o)
	require.NoError(t, err)
	err = db.CompactRange(context.Background(), nil, nil, nil)
	require.ErrorIs(t, err, ErrCorruption)
	require.ErrorContains(t, err, fname.Make(fname.Table, tables[1]))
	require.ErrorIs(t, db.Put([]byte("x"), nil, nil), ErrCorruption)
	require.ErrorIs(t, db.Resume(context.Background()), ErrCorruption, "only a new Open helps")
	_, err = db.Get([]byte("fill00000"), nil)
	require.NoError(t, err)
	atRest(db)
	require.ElementsMatch(t, tables, namesOf(t, m, fname.Table))
	require.NoError(t, db.Close())
}

// damage rewrites a file.
func damage(t testing.TB, fs vfs.FS, path string, change func([]byte) []byte) {
	t.Helper()
	b, err := vfs.ReadFile(fs, path)
	require.NoError(t, err)
	f, err := fs.Create(path)
	require.NoError(t, err)
	_, err = f.Write(change(b))
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

// A compaction that failed stops no writes, and so it must not keep Close from flushing what no log holds and syncing
// the log; an error that does stop them must not pass for a clean Close.
func TestCloseAfterABackgroundError(t *testing.T) {
	unlogged := &WriteOptions{DisableWAL: true}
	m := vfs.NewMem()
	fs := faultfs.Wrap(m)
	o := memOptions(fs)
	o.DisableAutoCompactions = true
	db, err := Open("db", o)
	require.NoError(t, err)
	for range 2 {
		mustPut(t, db.family, "a", "1", nil)
		require.NoError(t, db.Flush(context.Background(), nil))
	}
	require.NoError(t, fs.Add("fail create *.sst once"))
	require.Error(t, db.CompactRange(context.Background(), nil, nil, nil))
	require.Error(t, db.BackgroundError())
	mustPut(t, db.family, "b", "2", nil)
	mustPut(t, db.family, "c", "3", unlogged)
	require.NoError(t, db.Close())

	m = m.Crash(nil)
	fs = faultfs.Wrap(m)
	db = openMem(t, fs)
	require.Equal(t, "a b c", keysOf(t, db.family))
	mustPut(t, db.family, "d", "4", Sync)
	mustPut(t, db.family, "e", "5", unlogged)
	require.NoError(t, fs.Add("fail write *.log"))
	require.Error(t, db.Put([]byte("f"), nil, nil))
	require.ErrorIs(t, db.Close(), syscall.EIO, "e is lost")
	db = openMem(t, m.Crash(nil))
	require.Equal(t, "a b c d", keysOf(t, db.family))
	require.NoError(t, db.Close())
}

// A flush that fails while Close waits for it is an error of Close, and not tried for ever.
func TestCloseOnADeadDiskReturns(t *testing.T) {
	for _, rule := range []string{"fail create *.sst", "fail sync *.sst", "fail write MANIFEST-*", "fail create *.log", "fail sync *.log", "fail any *"} {
		t.Run(rule, func(t *testing.T) {
			fs := faultfs.Wrap(vfs.NewMem())
			db := openMem(t, fs)
			other, err := db.CreateColumnFamily("other", nil)
			require.NoError(t, err)
			mustPut(t, db.family, "a", "1", nil)
			mustPut(t, other, "b", "2", &WriteOptions{DisableWAL: true})
			require.NoError(t, fs.Add(rule))
			require.ErrorIs(t, db.Close(), syscall.EIO)
			fs.Clear()
			db = openMem(t, fs)
			require.Equal(t, "1", valueOf(t, db.family, "a"))
			require.NoError(t, db.Close())
		})
	}
}
