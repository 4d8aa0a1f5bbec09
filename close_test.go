package ashlar

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/offheap"
	"github.com/ashlardb/ashlar/vfs"
)

// requireGoroutines waits until there are no more goroutines than before. One that has done its work may still be about
// to end.
func requireGoroutines(t *testing.T, before int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, before there were %d\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}

// filled returns a database with keys in tables and in the memtable.
func filled(t *testing.T, fs vfs.FS) *DB {
	t.Helper()
	db := openMem(t, fs)
	for i := range 300 {
		mustPut(t, db.DefaultColumnFamily(), fmt.Sprintf("k%03d", i), fmt.Sprintf("v%d", i), nil)
		if i%100 == 50 {
			require.NoError(t, db.Flush(context.Background(), nil))
		}
	}
	return db
}

// requireClosed tries every call of a closed database.
func requireClosed(t *testing.T, db *DB, cf *ColumnFamily, old *Snapshot) {
	t.Helper()
	ctx := context.Background()
	k := []byte("k001")
	var b Batch
	require.NoError(t, b.Put(nil, k, k))
	ro := &ReadOptions{Snapshot: old}
	_, err := cf.Get(k, nil)
	_, err2 := cf.Get(k, ro)
	_, err3 := cf.AppendGet(nil, k, nil)
	_, errs := cf.MultiGet([][]byte{k, k}, nil)
	s := db.NewSnapshot()
	_, err4 := cf.Get(k, &ReadOptions{Snapshot: s})
	s.Release()
	_, err5 := db.CreateColumnFamily("new", nil)
	var checked error
	for err := range db.Check(ctx) {
		checked = err
	}
	it := cf.NewIterator(nil)
	require.False(t, it.SeekToFirst())
	require.False(t, it.Next())
	require.False(t, it.Valid())
	for i, err := range []error{
		err, err2, err3, errs[0], errs[1], err4, err5, checked, it.Error(), it.Close(), it.Refresh(nil),
		cf.GetPinned(k, nil, func([]byte) error { return errors.New("called") }),
		cf.Put(k, k, nil), cf.Put(k, k, Sync), cf.Delete(k, nil), cf.SingleDelete(k, nil),
		db.Write(&b, nil), db.WriteContext(ctx, &b, nil), db.Flush(ctx, nil), db.Flush(ctx, nil, cf),
		cf.CompactRange(ctx, nil, nil, nil), db.WaitForCompact(ctx), db.SyncWAL(ctx), db.FlushWAL(true), db.FlushWAL(false),
		db.DropColumnFamily(cf), db.Resume(ctx), db.VerifyChecksum(ctx), db.ResetStats(), cf.Prefix([]byte("k"), nil).Error(),
		cf.Range(nil, nil, nil).Error(), db.Close(),
	} {
		require.ErrorIs(t, err, ErrClosed, "call %d", i)
	}
	require.NoError(t, db.BackgroundError())
	require.NotNil(t, db.Metrics())
	_, ok := cf.Property("rocksdb.stats")
	require.False(t, ok)
	require.NotEmpty(t, cf.Name())
	require.NotZero(t, cf.Options().WriteBufferSize)
}

func TestEveryCallAfterCloseGivesErrClosed(t *testing.T) {
	goroutines, live := runtime.NumGoroutine(), offheap.Live()
	o := memOptions(vfs.NewMem())
	o.BlockCache = NewCache(1 << 20)
	db, err := Open("db", o)
	require.NoError(t, err)
	cf, err := db.CreateColumnFamily("users", nil)
	require.NoError(t, err)
	mustPut(t, cf, "k001", "v", nil)
	s := db.NewSnapshot()
	it := cf.NewIterator(nil)
	require.True(t, it.SeekToFirst())
	require.NoError(t, it.Close())
	require.NoError(t, db.Close())
	requireClosed(t, db, cf, s)
	s.Release()
	require.False(t, it.Next())
	requireGoroutines(t, goroutines)
	require.Zero(t, o.BlockCache.PinnedUsage())
	o.BlockCache.SetCapacity(0)
	require.LessOrEqual(t, offheap.Live(), live, "caches of tests before may be collected meanwhile")
}

func TestCloseWithOpenHandlesIsBusyAndTheLastHandleFinishesIt(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	fs := vfs.NewMem()
	o := memOptions(fs)
	o.TrackHandles = true
	db, err := Open("db", o)
	require.NoError(t, err)
	for i := range 200 {
		mustPut(t, db.DefaultColumnFamily(), fmt.Sprintf("k%03d", i), "value", nil)
	}
	require.NoError(t, db.Flush(context.Background(), nil))
	one, two := db.NewIterator(nil), db.NewIterator(nil)
	require.True(t, one.SeekToFirst())
	value := one.Value()
	err = db.GetPinned([]byte("k007"), nil, func(pinned []byte) error {
		err := db.Close()
		require.ErrorIs(t, err, ErrBusy)
		require.NotErrorIs(t, err, ErrClosed)
		require.ErrorContains(t, err, "2 open iterator(s) 1 open pinned value(s)")
		require.ErrorContains(t, err, "close_test.go", "with the place that made it")
		requireClosed(t, db, db.DefaultColumnFamily(), nil)
		require.Equal(t, "value", string(pinned))
		return err
	})
	require.ErrorIs(t, err, ErrBusy)
	require.Equal(t, "value", string(value), "it is not taken away")
	require.False(t, one.Next())
	require.ErrorIs(t, one.Error(), ErrClosed)
	require.ErrorIs(t, one.Close(), ErrClosed)
	_, err = Open("db", o)
	require.ErrorIs(t, err, ErrLocked, "one handle is open")
	require.NoError(t, two.Close())
	requireGoroutines(t, goroutines)
	db, err = Open("db", o)
	require.NoError(t, err, "the last handle let go of the lock")
	require.Equal(t, "value", valueOf(t, db.DefaultColumnFamily(), "k199"))
	require.NoError(t, db.Close())
}

func TestAPinnedValueMayCloseTheDatabase(t *testing.T) {
	for _, tables := range []bool{false, true} {
		db := filled(t, vfs.NewMem())
		if tables {
			require.NoError(t, db.Flush(context.Background(), nil))
		}
		require.ErrorIs(t, db.GetPinned([]byte("k299"), nil, func(v []byte) error {
			err := db.Close()
			require.Equal(t, "v299", string(v))
			return err
		}), ErrBusy)
		requireClosed(t, db, db.DefaultColumnFamily(), nil)
	}
}

func TestAnIteratorOfADroppedFamilyKeepsItsDataThroughClose(t *testing.T) {
	db := openMem(t, vfs.NewMem())
	cf, err := db.CreateColumnFamily("x", nil)
	require.NoError(t, err)
	mustPut(t, cf, "a", "1", nil)
	require.NoError(t, db.Flush(context.Background(), nil))
	it := cf.NewIterator(nil)
	require.True(t, it.SeekToFirst())
	require.NoError(t, db.DropColumnFamily(cf))
	require.ErrorIs(t, db.Close(), ErrBusy)
	require.Equal(t, "1", string(it.Value()))
	require.NoError(t, it.Close())
}

func TestAListenerMayUseTheDatabaseWhileItCloses(t *testing.T) {
	var db *DB
	made, gate := make(chan struct{}), make(chan struct{})
	o := memOptions(vfs.NewMem())
	var got error
	o.Listener.OnFlushCompleted = func(FlushInfo) {
		it := db.NewIterator(nil)
		close(made)
		<-gate
		got = it.Close()
		it = db.NewIterator(nil)
		it.SeekToFirst()
		it.Close()
	}
	db, err := Open("db", o)
	require.NoError(t, err)
	mustPut(t, db.DefaultColumnFamily(), "a", "1", nil)
	require.NoError(t, db.Flush(context.Background(), nil))
	<-made
	done := make(chan error)
	go func() { done <- db.Close() }()
	for !db.closed.Load() {
		runtime.Gosched()
	}
	close(gate)
	require.NoError(t, <-done)
	require.NoError(t, got)
}

func TestCloseEndsWhatWaits(t *testing.T) {
	o := memOptions(vfs.NewMem())
	o.DisableAutoCompactions = true
	db, err := Open("db", o)
	require.NoError(t, err)
	ctx := context.Background()
	db.mu.Lock()
	db.opened = false // nothing in the background begins
	db.mu.Unlock()
	mustPut(t, db.DefaultColumnFamily(), "a", "1", nil)
	errs := make(chan error)
	go func() { errs <- db.Flush(ctx, nil) }()
	go func() { errs <- db.CompactRange(ctx, nil, nil, nil) }()
	for {
		db.mu.Lock()
		waits := len(db.family.tree.ImmLocked()) > 0
		db.mu.Unlock()
		if waits {
			break
		}
		runtime.Gosched()
	}
	go func() { errs <- db.WaitForCompact(ctx) }()
	require.NoError(t, db.Close())
	for range 3 {
		require.ErrorIs(t, <-errs, ErrClosed)
	}
}

// Bug bank 137 (cockroachdb/pebble#998, #27237): Close in the middle of 64 goroutines.
func TestBugBank137CloseAmidCalls(t *testing.T) {
	rounds, calls := 200, 64
	if underRace {
		rounds = 40
	}
	goroutines := runtime.NumGoroutine()
	fs := vfs.NewMem()
	db := filled(t, fs)
	require.NoError(t, db.Close())
	for round := range rounds {
		db := openMem(t, fs)
		var wg sync.WaitGroup
		start := make(chan struct{})
		errs := make(chan error, calls+1)
		for g := range calls {
			wg.Add(1)
			go func() {
				defer wg.Done()
				<-start
				for i := 0; ; i++ {
					if err := oneCall(db, g, i); err != nil {
						if !errors.Is(err, ErrClosed) {
							errs <- err
						}
						return
					}
				}
			}()
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			<-start
			for range round * 20 {
				runtime.Gosched()
			}
			if err := db.Close(); err != nil && !errors.Is(err, ErrBusy) {
				errs <- err
			}
		}()
		close(start)
		wg.Wait()
		close(errs)
		for err := range errs {
			require.NoError(t, err)
		}
		<-db.finished
	}
	requireGoroutines(t, goroutines)
	db = openMem(t, fs)
	checkClean(t, db)
	require.NoError(t, db.Close())
}

// oneCall does one of many things. Each succeeds or gives ErrClosed.
func oneCall(db *DB, g, i int) error {
	k := fmt.Appendf(nil, "k%03d", (g*31+i)%300)
	switch (g + i) % 8 {
	case 0, 1:
		return db.Put(k, k, nil)
	case 2:
		return db.Put(k, k, &WriteOptions{DisableWAL: true})
	case 3, 4:
		_, err := db.Get(k, nil)
		return err
	case 5:
		it := db.NewIterator(nil)
		ok := it.Seek(k)
		for n := 0; ok && n < 5; n++ {
			ok = it.Next()
		}
		return it.Close()
	case 6:
		s := db.NewSnapshot()
		defer s.Release()
		return db.GetPinned(k, &ReadOptions{Snapshot: s}, func([]byte) error { return nil })
	}
	if i%40 == 7 {
		return db.Flush(context.Background(), nil)
	}
	return db.SyncWAL(context.Background())
}
