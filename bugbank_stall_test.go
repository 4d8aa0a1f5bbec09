package ashlar

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/vfs/faultfs"
)

// Scenarios of other engines' bug reports: stalls, and reads and calls that may not wait. The number is that of our list; the first line of each says whose
// report it is.

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
		fsys, hold := holdingTables(vfs.NewMem())
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
