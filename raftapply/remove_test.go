package raftapply

import (
	"testing"

	"github.com/ashlardb/ashlar"
	"github.com/stretchr/testify/require"
)

// TestARegionIsRemovedInAnyState, every proposal is answered once, and the name can be used again.
func TestARegionIsRemovedInAnyState(t *testing.T) {
	remove := func(f *fixture) { require.ErrorIs(t, f.Remove(canceled(), 1), canceled().Err()) }
	for name, one := range map[string]struct {
		when    func(f *fixture, a *adder)
		applied uint64 // of 20
	}{
		"idle":    {func(f *fixture, a *adder) { f.run(); remove(f) }, 20},
		"queued":  {func(f *fixture, a *adder) { remove(f) }, 0},
		"running": {func(f *fixture, a *adder) { a.before = at(13, func() { remove(f) }) }, 13},
		"yielded": {func(f *fixture, a *adder) { f.workers[0].step(false); remove(f) }, 6},
		"during a write": {func(f *fixture, a *adder) {
			f.db.onWrite = func(n int) (error, bool) {
				if n == 2 {
					remove(f)
				}
				return nil, false
			}
		}, 12},
		"in a Done": {func(f *fixture, a *adder) {
			f.regions[1].mailbox.front().Proposals[0].Done = func(Result) { remove(f) }
		}, 6},
		"poisoned": {func(f *fixture, a *adder) {
			a.before = at(9, func() { panic("now") })
			f.run()
			remove(f)
		}, 8},
		"running in the low-priority lane": {func(f *fixture, a *adder) {
			f.regions[1].mailbox.front().Entries[0].Data = command(opLowly, 2, 0)
			a.before = at(13, func() { remove(f) })
		}, 13},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newEngine(t), func(c *Config) {
				c.ApplyYieldWriteSize, c.MaxBatchKeys, c.ApplyLowPriorityPoolSize = 0, 5, 1
			})
			a := f.add(1)
			f.add(2)
			all := f.send(1, repeat(20, opAdd, 0, 0)...)
			one.when(f, a)
			later := make(chan error, 1)
			go func() { later <- f.WaitApplied(background, 1, 100) }()
			f.run()
			require.Error(t, <-later)

			for i, r := range all.all {
				if name == "in a Done" && i == 0 {
					continue
				}
				require.Len(t, r, 1)
				switch {
				case uint64(i) < one.applied:
					require.NoError(t, r[0].Err)
				case name == "poisoned":
					require.ErrorIs(t, r[0].Err, ErrPoisoned)
				default:
					require.ErrorIs(t, r[0].Err, ErrRegionRemoved)
				}
			}
			require.Equal(t, one.applied, f.stored(1).Applied)
			require.True(t, f.said[len(f.said)-1].Removed)
			require.ErrorIs(t, f.Send(Task{Region: 1}), ErrNoRegion)

			f.db.onWrite = nil
			b := new(ashlar.Batch)
			require.NoError(t, DeleteApplyState(b, f.states, 1))
			require.NoError(t, b.DeleteRange(f.db.DefaultColumnFamily(), adderKey(1, 0), adderKey(1, 255)))
			require.NoError(t, f.db.DB.Write(b, nil))
			f.add(1)
			require.EqualValues(t, 1, f.next[1], "wiped, it begins anew")
			res := f.send(1, command(opAdd, 0, 0)).once(t, f.run)
			require.Equal(t, Result{Value: uint64(1)}, res[0])
			require.NoError(t, f.Close(background))
		})
	}
}

// at returns a hook for Apply that calls fn at one entry.
func at(index uint64, fn func()) func(Entry) {
	return func(e Entry) {
		if e.Index == index {
			fn()
		}
	}
}

// TestARegionBeingRemovedTakesNothing from the moment on that Remove was called.
func TestARegionBeingRemovedTakesNothing(t *testing.T) {
	f := newFixture(t, newEngine(t), nil)
	f.add(1)
	require.Error(t, f.Remove(canceled(), 1))
	task, res := f.task(1, command(opAdd, 0, 0))
	require.ErrorIs(t, f.Send(task), ErrRegionRemoved)
	_, err := f.Snapshot(background, 1)
	require.ErrorIs(t, err, ErrRegionRemoved)
	_, err = f.Register(1, newAdder(f.db.DB, 1), nil)
	require.ErrorIs(t, err, ErrRegionExists)
	f.run()
	res.none(t)
	_, err = f.Register(1, newAdder(f.db.DB, 1), nil)
	require.NoError(t, err)
}
