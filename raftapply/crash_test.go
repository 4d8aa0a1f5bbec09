package raftapply

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/vfs/faultfs"
	"github.com/stretchr/testify/require"
)

// The claim of these tests: wherever a run ends, what is in the database afterwards is what the entries up to
// ApplyState.Applied make, each once and all of them; and applying the rest gives the same as a run that was not
// disturbed.

// crashLogs are the logs of some regions, of entries of all sorts over three families.
func crashLogs() map[RegionID][]Entry {
	rng := rand.New(rand.NewPCG(7, 7))
	logs := map[RegionID][]Entry{}
	for id := RegionID(1); id <= 4; id++ {
		for i := range 60 {
			e := Entry{Index: uint64(i) + 1, Term: 1}
			switch k := byte(rng.IntN(5)); rng.IntN(12) {
			case 0:
				e.Kind = Empty
			case 1:
				e.Kind, e.Data = ConfChange, command(opConf, k, 0)
			case 2:
				e.Data = command(opRefuse, k, 3)
			case 3:
				e.Data = command(opLowly, k, 0)
			case 4:
				e.Data = command(opRead, k, 0)
			case 5:
				e.Data = command(opAdd|opSynced, k, 0)
			default:
				e.Data = command(opAdd, k, rng.IntN(100))
			}
			logs[id] = append(logs[id], e)
		}
	}
	return logs
}

// applyLogs registers the regions, sends what is due in pieces, and applies until all is done or the engine fails.
func applyLogs(t *testing.T, e *testEngine, logs map[RegionID][]Entry) *fixture {
	f := newFixture(t, e, func(c *Config) {
		c.ApplyPoolSize, c.ApplyLowPriorityPoolSize = 2, 1
		c.MaxBatchKeys, c.ApplyYieldWriteSize, c.ApplyMaxBatchSize = 6, 200, 3
	})
	due := map[RegionID][]Entry{}
	for id := range RegionID(len(logs)) {
		f.add(id + 1)
		due[id+1] = logs[id+1][f.next[id+1]-1:]
	}
	for rest := true; rest && f.failure() == nil; {
		rest = false
		for id := RegionID(1); id <= RegionID(len(logs)); id++ {
			if n := min(7, len(due[id])); n > 0 && f.failure() == nil {
				require.NoError(t, f.Send(Task{Region: id, Entries: due[id][:n]}))
				due[id], rest = due[id][n:], true
				f.workers[int(id)%2].step(false)
			}
		}
	}
	f.run()
	return f
}

// checkPrefix holds what regions have in the database against their states, and returns how many entries are in.
func checkPrefix(t *testing.T, db *ashlar.DB, logs map[RegionID][]Entry) (in uint64) {
	t.Helper()
	states, _ := db.ColumnFamily(DefaultStateFamily)
	for id, log := range logs {
		s, _, err := ReadApplyState(states, id, nil)
		require.NoError(t, err)
		require.Equal(t, model(log[:s.Applied]), readSums(db, id, nil), "region %d at %d", id, s.Applied)
		in += s.Applied
	}
	return in
}

// TestNoEntryIsAppliedTwiceOrLost ends a run at each write of a batch: the write fails or the machine loses its power,
// with the batch written or not.
func TestNoEntryIsAppliedTwiceOrLost(t *testing.T) {
	logs := crashLogs()
	writes := 0
	for k := 1; ; k++ {
		end := false
		for _, done := range []bool{false, true} {
			for _, power := range []bool{false, true} {
				fs := vfs.NewMem()
				e := &testEngine{DB: openDB(t, fs)}
				e.onWrite = func(n int) (error, bool) {
					if n == k {
						return errors.New("the end"), done
					}
					return nil, false
				}
				f := applyLogs(t, e, logs)
				end = f.failure() == nil
				left := fs.Clone()
				if power {
					left = fs.Crash(rand.New(rand.NewPCG(uint64(k), 1)))
				}
				require.NoError(t, e.Close())
				e = &testEngine{DB: openDB(t, left)}
				checkPrefix(t, e.DB, logs)
				f = applyLogs(t, e, logs)
				require.NoError(t, f.failure())
				require.EqualValues(t, 4*60, checkPrefix(t, e.DB, logs))
				require.NoError(t, e.Close())
			}
		}
		if end {
			writes = k - 1
			break
		}
	}
	require.Greater(t, writes, 50)
}

// TestNoEntryIsAppliedTwiceOrLostWhenTheDiskFails does it at each call of the file system, and cuts the power then.
func TestNoEntryIsAppliedTwiceOrLostWhenTheDiskFails(t *testing.T) {
	logs := crashLogs()
	stride := int64(3)
	if long() > 1 {
		stride = 1
	}
	for n := int64(1); ; n += stride {
		mem := vfs.NewMem()
		require.NoError(t, openDB(t, mem).Close())
		fs := faultfs.Wrap(mem)
		db, err := ashlar.Open("db", &ashlar.Options{FS: fs})
		require.NoError(t, err)
		fs.FailFrom(n)
		e := &testEngine{DB: db}
		f := applyLogs(t, e, logs)
		failed := f.failure()
		fs.Clear()
		_ = e.Close() // it may tell what failed
		e = &testEngine{DB: openDB(t, mem.Crash(rand.New(rand.NewPCG(uint64(n), 2))))}
		checkPrefix(t, e.DB, logs)
		f = applyLogs(t, e, logs)
		require.NoError(t, f.failure())
		require.EqualValues(t, 4*60, checkPrefix(t, e.DB, logs))
		require.NoError(t, e.Close())
		if failed == nil {
			require.Greater(t, n, int64(50), "calls")
			return
		}
		require.ErrorIs(t, failed, ErrFailed, fmt.Sprint("call ", n))
	}
}

// TestTheTestsOfCrashesSeeADoubleApply: an ApplyState that is not in the data's batch is found out.
func TestTheTestsOfCrashesSeeADoubleApply(t *testing.T) {
	logs := crashLogs()
	e := newEngine(t)
	f := newFixture(t, e, nil)
	f.add(1)
	require.NoError(t, f.Send(Task{Region: 1, Entries: logs[1][:20]}))
	f.run()
	b := new(ashlar.Batch)
	require.NoError(t, PutApplyState(b, f.states, 1, ApplyState{Applied: 10, Commit: 10}))
	require.NoError(t, e.DB.Write(b, nil))
	require.NotEqual(t, model(logs[1][:10]), readSums(e.DB, 1, nil))
	f = newFixture(t, e, nil)
	f.add(1)
	require.NoError(t, f.Send(Task{Region: 1, Entries: logs[1][10:20]}))
	f.run()
	require.NotEqual(t, model(logs[1][:20]), readSums(e.DB, 1, nil))
}
