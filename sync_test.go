package ashlar

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/vfs/faultfs"
)

// heldSync is a database in memory whose next fsync of a log waits.
type heldSync struct {
	db    *DB
	mem   *vfs.Mem
	fs    *faultfs.FS
	syncs int
	gate  chan bool
	mu    sync.Mutex
	done  map[string]error // of the writes that have returned
}

// holdSync is to be called in a synctest bubble. The write "first" is in its fsync when it returns.
func holdSync(t *testing.T) *heldSync {
	h := &heldSync{mem: vfs.NewMem(), gate: make(chan bool), done: map[string]error{}}
	h.fs = faultfs.Wrap(h.mem)
	hold := false
	h.fs.OnCall = func(c faultfs.Call) {
		if c.Op == faultfs.Sync && strings.HasSuffix(c.Name, ".log") {
			h.syncs++
			if hold {
				hold = false
				<-h.gate
			}
		}
	}
	h.db = openMem(t, h.fs)
	hold, h.syncs = true, 0
	h.put("first", "", Sync)
	return h
}

// put starts a write, and returns when it can get no further.
func (h *heldSync) put(key, value string, o *WriteOptions) {
	go func() {
		err := h.db.Put([]byte(key), []byte(value), o)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.done[key] = err
	}()
	synctest.Wait()
}

func (h *heldSync) release() {
	close(h.gate)
	synctest.Wait()
}

func TestOneFsyncAnswersAllWhoCameDuringAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := holdSync(t)
		const n = 50
		for i := range n {
			h.put(fmt.Sprint("synced", i), "v", Sync)
		}
		h.put("unsynced", "v", nil)
		require.Empty(t, h.done)
		require.Empty(t, must(contentOf(h.db.family)), "nothing is visible before it is as safe as was asked")
		require.EqualValues(t, n+2, h.db.counters.groups.Load(), "all are in the log")
		h.release()
		require.Len(t, h.done, n+2)
		for key, err := range h.done {
			require.NoError(t, err, key)
		}
		require.Equal(t, 2, h.syncs)
		require.EqualValues(t, 2, h.db.Metrics().WALSyncs)
		after := openMem(t, h.mem.Crash(nil))
		require.Len(t, must(contentOf(after.family)), n+2)
		require.NoError(t, after.Close())
		require.NoError(t, h.db.Close())
	})
}

func TestAFailedFsyncFailsWhatWaitedForItAndWhatCameBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := holdSync(t)
		h.put("unsynced", "v", nil) // nothing before it fails
		h.put("second", "v", Sync)
		h.put("behind", "v", nil)
		deleted := errors.New("not yet")
		go func() { deleted = h.db.DeleteRange([]byte("a"), []byte("z"), nil) }()
		synctest.Wait()
		require.NoError(t, h.fs.Add("fail sync *.log once after 1"))
		h.release()
		require.NoError(t, h.done["first"])
		require.NoError(t, h.done["unsynced"])
		require.ErrorIs(t, h.done["second"], syscall.EIO)
		require.ErrorIs(t, h.done["behind"], syscall.EIO)
		require.ErrorIs(t, deleted, syscall.EIO)
		left := map[string]string{"first": "", "unsynced": "v"}
		require.Equal(t, left, must(contentOf(h.db.family)))
		require.ErrorIs(t, h.db.Put([]byte("k"), nil, nil), syscall.EIO)
		require.NoError(t, h.db.Resume(t.Context()))
		require.Equal(t, left, must(contentOf(h.db.family)))
		mustPut(t, h.db.family, "later", "v", Sync)
		left["later"] = "v"
		require.Equal(t, left, must(contentOf(h.db.family)), "what failed does not become visible with what comes later")
		checkClean(t, h.db)
		require.NoError(t, h.db.Close())
		for _, m := range []*vfs.Mem{h.mem, h.mem.Crash(nil)} {
			db := openMem(t, m)
			require.Equal(t, left, must(contentOf(db.family)))
			checkClean(t, db)
			require.NoError(t, db.Close())
		}
	})
}

// What failed does not come back from a log that a crash during Resume leaves, once the next log was begun.
func TestAFailedFsyncIsNotUndoneByACrashDuringResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := holdSync(t)
		h.put("second", "v", Sync)
		require.NoError(t, h.fs.Add("fail sync *.log once after 1\nfail create *.sst"))
		h.release()
		require.ErrorIs(t, h.done["second"], syscall.EIO)
		require.Error(t, h.db.Resume(t.Context()))
		db := openMem(t, h.mem.Clone())
		require.Equal(t, map[string]string{"first": ""}, must(contentOf(db.family)))
		require.NoError(t, db.Close())
		h.db.Close()
	})
}

// A memtable is switched when everything in it is published: its flush must not make a table of what fails later.
func TestAMemtableIsSwitchedOnlyAfterThePendingFsync(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := holdSync(t)
			h.put("second", "v", Sync)
			for i := range 80 { // more than a memtable takes
				h.put(fmt.Sprint("unsynced", i), strings.Repeat("v", 1000), nil)
			}
			log := h.db.wals.Current()
			if fails {
				require.NoError(t, h.fs.Add("fail sync *.log once after 1"))
			}
			require.Less(t, h.db.counters.groups.Load(), uint64(82), "the leader waits for the fsync")
			h.release()
			require.Len(t, h.done, 82)
			if !fails {
				require.Greater(t, h.db.wals.Current(), log)
				require.Len(t, must(contentOf(h.db.family)), 82)
				atRest(h.db)
				require.NoError(t, h.db.Close())
				return
			}
			require.Equal(t, log, h.db.wals.Current())
			require.NoError(t, h.db.Resume(t.Context()))
			mustPut(t, h.db.family, "later", "v", nil)
			require.Equal(t, map[string]string{"first": "", "later": "v"}, must(contentOf(h.db.family)))
			require.NoError(t, h.db.Flush(context.Background(), nil))
			require.Equal(t, map[string]string{"first": "", "later": "v"}, must(contentOf(h.db.family)))
			require.NoError(t, h.db.Close())
		})
	}
}
