package ashlar

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/vfs/faultfs"
)

// logCalls counts what is done to logs.
type logCalls struct{ writes, syncs atomic.Int64 }

func countLogCalls(m *vfs.Mem) (*faultfs.FS, *logCalls) {
	fs, n := faultfs.Wrap(m), new(logCalls)
	fs.OnCall = func(c faultfs.Call) {
		switch {
		case !strings.HasSuffix(c.Name, ".log"):
		case c.Op == faultfs.Write:
			n.writes.Add(1)
		case c.Op == faultfs.Sync:
			n.syncs.Add(1)
		}
	}
	return fs, n
}

// take returns how many calls there were since it was last asked.
func (n *logCalls) take() (writes, syncs int64) { return n.writes.Swap(0), n.syncs.Swap(0) }

// afterKill returns what a database shows that is opened on what a killed process leaves.
func afterKill(t *testing.T, m *vfs.Mem, keys string) (found string) {
	t.Helper()
	db := mustOpen(t, "db", memOptions(m.Clone()))
	for _, k := range strings.Fields(keys) {
		if valueOf(t, db.family, k) != "" {
			found += k + " "
		}
	}
	return strings.TrimSpace(found)
}

func TestManualWALFlushLeavesTheLogInMemoryUntilItIsAsked(t *testing.T) {
	m := vfs.NewMem()
	fs, n := countLogCalls(m)
	o := memOptions(fs)
	o.ManualWALFlush = true
	db := mustOpen(t, "db", o)
	n.take()
	const keys = "a b c d e f g"
	want := func(what string, writes, syncs int64, left string) {
		t.Helper()
		w, s := n.take()
		require.Equal(t, []int64{writes, syncs}, []int64{w, s}, "writes and syncs of %s", what)
		require.Equal(t, left, afterKill(t, m, keys), what)
	}
	mustPut(t, db.family, "a", "1", nil)
	mustPut(t, db.family, "b", "1", nil)
	want("writes", 0, 0, "")
	require.NoError(t, db.SyncWAL(context.Background()))
	want("SyncWAL", 0, 1, "")
	require.NoError(t, db.FlushWAL(false))
	want("FlushWAL(false)", 1, 0, "a b")
	require.NoError(t, db.FlushWAL(false))
	want("another", 0, 0, "a b")
	mustPut(t, db.family, "c", "1", nil)
	require.NoError(t, db.FlushWAL(true))
	want("FlushWAL(true)", 1, 1, "a b c")
	mustPut(t, db.family, "d", "1", nil)
	mustPut(t, db.family, "e", "1", Sync)
	want("a write with Sync", 1, 1, "a b c d e")
	mustPut(t, db.family, "f", "1", nil)
	require.NoError(t, db.Flush(context.Background(), &FlushOptions{NoWait: true}))
	atRest(db)
	require.Equal(t, "a b c d e f", afterKill(t, m, keys))
	mustPut(t, db.family, "g", "1", nil)
	mustClose(t, db)
	require.Equal(t, keys, afterKill(t, m.Crash(nil), keys), "Close writes and syncs what is left")
}

func TestFlushWALAgainstABrokenLogStopsWritesUntilResume(t *testing.T) {
	m := vfs.NewMem()
	fs := faultfs.Wrap(m)
	o := memOptions(fs)
	o.ManualWALFlush = true
	db := mustOpen(t, "db", o)
	mustPut(t, db.family, "a", "1", nil)
	require.NoError(t, fs.Add("fail write *.log once partial"))
	require.Error(t, db.FlushWAL(true))
	require.Error(t, db.FlushWAL(false))
	require.Error(t, db.Put([]byte("b"), []byte("1"), nil))
	require.NoError(t, db.Resume(context.Background()))
	mustPut(t, db.family, "c", "1", nil)
	require.NoError(t, db.FlushWAL(true))
	require.Equal(t, "a c", afterKill(t, m.Crash(nil), "a b c"))
}

func TestAQuietFamilyIsFlushedBeforeItPinsTooManyLogs(t *testing.T) {
	o := memOptions(vfs.NewMem())
	o.MaxTotalWALSize = 200 << 10
	db := mustOpen(t, "db", o)
	quiet, err := db.CreateColumnFamily("quiet", nil)
	require.NoError(t, err)
	mustPut(t, quiet, "k", "v", nil)
	most := int64(0)
	for i := range 3000 {
		mustPut(t, db.family, "key", strings.Repeat(string(rune('a'+i%26)), 1000), nil)
		most = max(most, db.wals.TotalSize())
	}
	sv := quiet.tree.Acquire()
	require.Len(t, sv.Mems(), 1)
	require.True(t, quiet.mem.Empty(), "its write was flushed")
	sv.Release()
	atRest(db)
	// A log that flushes let go of goes with the next look; the memtable's own logs count too.
	require.Less(t, most, int64(o.MaxTotalWALSize+4*o.WriteBufferSize))
	require.Equal(t, "v", valueOf(t, quiet, "k"))
}

// The system calls of an unsynced write: none with a mapped log, one for each group without.
func TestAnUnsyncedWriteToAMappedLogMakesNoCall(t *testing.T) {
	for _, mode := range logModes {
		var calls atomic.Int64
		fs := faultfs.Wrap(vfs.NewMem())
		fs.OnCall = func(c faultfs.Call) {
			if c.Op != faultfs.Store { // a copy
				calls.Add(1)
			}
		}
		o := memOptions(fs)
		o.WriteBufferSize = 16 << 20
		mode.set(o)
		db := mustOpen(t, "db", o)
		db.waitClean()
		before, groups := calls.Load(), db.counters.groups.Load()
		const writers, n = 4, 500
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				for range n {
					if err := db.Put([]byte("key"), []byte("value"), nil); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		want := int64(db.counters.groups.Load() - groups)
		if mode.manual || mode.mapped == MappedWALOn {
			want = 0
		}
		require.Equal(t, want, calls.Load()-before, "%+v", mode)
	}
}

// Every log says where the one before ended, so that a new one needs no fsync of the old. While no flush gets on, there is
// none at all, whatever the writers begin.
func TestNobodySyncsWhenANewLogBegins(t *testing.T) {
	for _, mode := range logModes {
		var syncs atomic.Int64
		gate := make(chan bool)
		fs := faultfs.Wrap(vfs.NewMem())
		fs.OnCall = func(c faultfs.Call) {
			switch {
			case c.Op == faultfs.Create && strings.HasSuffix(c.Name, ".sst"):
				<-gate
			case c.Op == faultfs.Sync || c.Op == faultfs.SyncDir:
				syncs.Add(1)
			}
		}
		o := memOptions(fs)
		o.MaxWriteBufferNumber = 6
		mode.set(o)
		db := mustOpen(t, "db", o)
		letFlush := sync.OnceFunc(func() { close(gate) })
		t.Cleanup(letFlush)
		db.waitClean()
		before, log := syncs.Load(), db.wals.Current()
		for n := 0; len(db.wals.Numbers()) < 5; n++ {
			mustPut(t, db.family, fmt.Sprint("key", n), strings.Repeat("v", 1000), nil)
		}
		require.Greater(t, db.wals.Current(), log)
		require.Equal(t, before, syncs.Load(), "%+v", mode)
		letFlush()
	}
}
