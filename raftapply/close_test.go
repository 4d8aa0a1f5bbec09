package raftapply

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestCloseLeavesNoGoroutine and answers everybody, with many configurations, half-way in the work.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	e := newEngine(t)
	for i := range 100 {
		c := DefaultConfig()
		c.ApplyPoolSize, c.ApplyLowPriorityPoolSize = 1+i%4, i%3
		c.MaxBatchKeys, c.ApplyYieldWriteSize = 1+i%7, Size(i%2)*KiB
		c.ApplyMaxBatchSize = 1 + i%5
		s, err := Open(e, &Options{Config: &c, Logger: quiet()})
		require.NoError(t, err)
		f := &fixture{System: s, db: e, t: t, next: map[RegionID]uint64{}}
		var all []*results
		for id := RegionID(i*8 + 1); id < RegionID(i*8+5); id++ {
			f.add(id)
			all = append(all, f.send(id, append(repeat(20, opAdd, 0, 50), command(opLowly, 0, 0), command(opConf, 0, 0))...))
		}
		if i%3 == 0 {
			require.NoError(t, s.Update(func(c *Config) { c.ApplyPoolSize, c.ApplyLowPriorityPoolSize = 1+i%3, i%2 }))
		}
		require.NoError(t, s.Close(background))
		for j, r := range all {
			id := RegionID(i*8 + 1 + j)
			applied := f.stored(id).Applied
			for k, res := range r.once(t, nil) {
				if uint64(k) < applied {
					require.NoError(t, res.Err)
				} else {
					require.ErrorIs(t, res.Err, ErrClosed)
				}
			}
		}
		require.NoError(t, s.Close(background), "again")
	}
	stacks := make([]byte, 1<<20)
	require.NotContains(t, string(stacks[:runtime.Stack(stacks, true)]), "raftapply.(*worker)")
}

// TestAfterClose everything says so.
func TestAfterClose(t *testing.T) {
	f := newFixture(t, newEngine(t), nil)
	f.add(1)
	require.NoError(t, f.Close(background))
	_, err := f.Register(2, newAdder(f.db.DB, 2), nil)
	require.ErrorIs(t, err, ErrClosed)
	_, err = f.Snapshot(background, 1)
	require.ErrorIs(t, err, ErrClosed)
	_, err = f.AppliedLag(1)
	require.ErrorIs(t, err, ErrClosed)
	_, err = f.State(1)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, f.Send(Task{Region: 1}), ErrClosed)
	require.ErrorIs(t, f.Remove(background, 1), ErrClosed)
	require.ErrorIs(t, f.WaitApplied(background, 1, 1), ErrClosed)
	require.ErrorIs(t, f.Set("apply-pool-size", "1"), ErrClosed)
}

// TestCloseDoesNotWaitForAStateMachineThatHangs longer than its context lasts; nor does Remove.
func TestCloseDoesNotWaitForAStateMachineThatHangs(t *testing.T) {
	e := newEngine(t)
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(e, &Options{Logger: quiet()})
		require.NoError(t, err)
		f := &fixture{System: s, db: e, t: t, next: map[RegionID]uint64{}}
		a := f.add(1)
		hang := make(chan struct{})
		a.before = func(Entry) { <-hang }
		res := f.send(1, repeat(3, opAdd, 0, 0)...)
		synctest.Wait()
		require.Error(t, f.Remove(canceled(), 1))
		require.ErrorIs(t, s.Close(canceled()), canceled().Err())
		res.none(t)
		waits := make(chan error)
		go func() { waits <- f.WaitApplied(background, 1, 3) }()
		require.ErrorIs(t, <-waits, ErrClosed)
		close(hang)
		require.NoError(t, s.Close(background))
		all := res.once(t, nil)
		require.NoError(t, all[0].Err, "an entry that has begun is finished")
		require.Error(t, all[1].Err)
		require.Error(t, all[2].Err)
	})
}

// TestPoolsChangeWhileTheyWork: no region is stranded, and as many workers are there as asked for.
func TestPoolsChangeWhileTheyWork(t *testing.T) {
	e := newEngine(t)
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(e, &Options{Logger: quiet()})
		require.NoError(t, err)
		f := &fixture{System: s, db: e, t: t, next: map[RegionID]uint64{}}
		var all []*results
		for id := RegionID(1); id <= 6; id++ {
			f.add(id)
		}
		var change sync.WaitGroup
		change.Go(func() {
			for i := range 40 {
				if err := s.Update(func(c *Config) { c.ApplyPoolSize, c.ApplyLowPriorityPoolSize = 1+i%5, i%4 }); err != nil {
					t.Error(err)
				}
			}
		})
		for range 20 {
			for id := RegionID(1); id <= 6; id++ {
				all = append(all, f.send(id, command(opAdd, 0, 0), command(opLowly, 1, 0), command(opAdd, 1, 0)))
			}
		}
		change.Wait()
		require.NoError(t, s.Update(func(c *Config) { c.ApplyPoolSize, c.ApplyLowPriorityPoolSize = 3, 2 }))
		synctest.Wait()
		for _, r := range all {
			for _, res := range r.once(t, nil) {
				require.NoError(t, res.Err)
			}
		}
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		require.Equal(t, 5, strings.Count(string(stacks), "raftapply.(*worker).run("))
		require.NoError(t, s.Close(background))
	})
}

// TestClientsFromAllSides is for the race detector: everything at once.
func TestClientsFromAllSides(t *testing.T) {
	e := newEngine(t)
	s, err := Open(e, &Options{Logger: quiet(), OnApplied: func([]Applied) {}})
	require.NoError(t, err)
	var clients sync.WaitGroup
	for id := RegionID(1); id <= 6; id++ {
		_, err := s.Register(id, newAdder(e.DB, id), nil)
		require.NoError(t, err)
		clients.Go(func() {
			for i := uint64(1); i <= 200; i++ {
				data := command([]int{opAdd, opAdd, opLowly, opRead, opConf}[i%5], byte(i%5), 100)
				err := s.Send(Task{Region: id, Entries: []Entry{{Index: i, Term: 1, Data: data}}})
				if err != nil && !errors.Is(err, ErrBusy) {
					t.Error(err)
				}
				switch i % 10 {
				case 0:
					if err := s.WaitApplied(background, id, i); err != nil {
						t.Error(err)
					}
				case 3:
					snap, err := s.Snapshot(background, id)
					if err != nil {
						t.Error(err)
						continue
					}
					if got, _, err := ReadApplyState(s.states, id, readAt(snap)); err != nil || got != snap.State {
						t.Error(got, snap.State, err)
					}
					snap.Release()
				case 5:
					s.Stats()
				case 7:
					if err := s.Set("apply-yield-write-size", []string{"0", "1KiB", "off"}[i%3]); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	clients.Wait()
	require.NoError(t, s.Remove(background, 3))
	require.NoError(t, s.Close(background))
	for id := RegionID(1); id <= 6; id++ {
		got, _, err := ReadApplyState(s.states, id, nil)
		require.NoError(t, err)
		require.EqualValues(t, 200, got.Applied)
	}
}
