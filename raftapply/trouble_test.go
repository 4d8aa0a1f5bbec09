package raftapply

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestARefusedEntryLeavesNoTrace between good ones, also at the edge of a write.
func TestARefusedEntryLeavesNoTrace(t *testing.T) {
	for keys := 1; keys <= 4; keys++ {
		f := newFixture(t, newEngine(t), func(c *Config) { c.MaxBatchKeys = keys })
		f.add(1)
		res := f.send(1, command(opAdd, 0, 0), command(opRefuse, 1, 0), command(opAdd, 0, 0),
			command(opRefuse, 0, 0), command(opAdd|opRead, 0, 0)).once(t, f.run)
		require.Equal(t, []any{uint64(1), nil, uint64(2), nil, uint64(3)}, []any{
			res[0].Value, res[1].Value, res[2].Value, res[3].Value, res[4].Value,
		})
		require.ErrorIs(t, res[1].Err, errRefused)
		require.Equal(t, map[byte]uint64{0: 3}, readSums(f.db.DB, 1, nil))
		require.EqualValues(t, 5, f.stored(1).Applied)
	}
}

// TestAPoisonedRegionStandsStill, with what came before the bad entry, and others go on.
func TestAPoisonedRegionStandsStill(t *testing.T) {
	for what, bad := range map[string][]byte{
		"error": command(opBreak, 1, 0), "panic": command(opPanic, 1, 0), "panic in Hint": {0},
	} {
		f := newFixture(t, newEngine(t), nil)
		f.add(1)
		f.add(2)
		other := f.send(2, command(opAdd, 0, 0))
		mine := f.send(1, command(opAdd, 0, 0), bad, command(opAdd, 0, 0))
		f.run()
		require.NoError(t, other.once(t, nil)[0].Err)
		res := mine.once(t, nil)
		require.NoError(t, res[0].Err)
		require.ErrorIs(t, res[1].Err, ErrPoisoned, what)
		require.ErrorIs(t, res[2].Err, ErrPoisoned)
		require.Equal(t, map[byte]uint64{0: 1}, readSums(f.db.DB, 1, nil))
		require.EqualValues(t, 1, f.stored(1).Applied)
		require.ErrorIs(t, f.said[len(f.said)-1].Err, ErrPoisoned)
		require.Contains(t, f.log.String(), "poisoned")
		require.Equal(t, 1, f.Stats().Poisoned)
		require.ErrorIs(t, f.Send(Task{Region: 1}), ErrPoisoned)
		require.ErrorIs(t, f.WaitApplied(background, 1, 2), ErrPoisoned)
		require.NoError(t, f.WaitApplied(background, 1, 1))
		require.NoError(t, f.send(2, command(opAdd, 0, 0)).once(t, f.run)[0].Err)
	}
}

// TestEntriesThatAreInAreSkipped, and missing ones poison the region.
func TestEntriesThatAreInAreSkipped(t *testing.T) {
	e := newEngine(t)
	f := newFixture(t, e, nil)
	f.add(1)
	log := f.entries(1, repeat(6, opAdd, 0, 0)...)
	require.NoError(t, f.Send(Task{Region: 1, Entries: log[:4]}))
	f.run()
	f = newFixture(t, e, nil)
	f.add(1)
	require.EqualValues(t, 5, f.next[1])
	require.NoError(t, f.Send(Task{Region: 1, Entries: log[1:]}))
	f.run()
	require.Equal(t, map[byte]uint64{0: 6}, readSums(e.DB, 1, nil))
	require.EqualValues(t, 3, f.Stats().Skipped)
	require.Zero(t, f.Stats().Pending)

	require.NoError(t, f.Send(Task{Region: 1, Entries: []Entry{{Index: 8, Term: 1}}}))
	f.run()
	err := f.Send(Task{Region: 1})
	require.ErrorIs(t, err, ErrGap)
	require.ErrorIs(t, err, ErrPoisoned)
	require.EqualValues(t, 6, f.stored(1).Applied)
}

// TestAFailedWriteFailsTheSystem: no callback of it ran with success, everybody gets ErrFailed once, and what the database
// holds is what it held before, or all of the batch.
func TestAFailedWriteFailsTheSystem(t *testing.T) {
	disk := errors.New("disk on fire")
	for _, done := range []bool{false, true} {
		e := newEngine(t)
		f := newFixture(t, e, func(c *Config) { c.ApplyPoolSize, c.MaxBatchKeys = 2, 10 })
		f.add(1)
		f.add(2)
		f.add(3)
		f.send(3, repeat(3, opAdd, 0, 0)...)
		f.workers[1].step(false) // it holds three entries of region 3
		one, two := f.send(1, repeat(3, opAdd, 0, 0)...), f.send(2, repeat(20, opAdd, 0, 0)...)
		e.onWrite = func(int) (error, bool) { return disk, done }
		f.run()
		for _, r := range append(one.once(t, nil), two.once(t, nil)...) {
			require.ErrorIs(t, r.Err, ErrFailed)
			require.ErrorIs(t, r.Err, disk)
		}
		require.Len(t, f.fatal, 1)
		require.ErrorIs(t, f.fatal[0], disk)
		require.Empty(t, f.said)
		require.Equal(t, 1, e.writes, "the other worker does not write any more")
		task, res := f.task(1, command(opAdd, 0, 0))
		require.ErrorIs(t, f.Send(task), ErrFailed)
		res.none(t)
		_, err := f.Register(9, newAdder(e.DB, 9), nil)
		require.ErrorIs(t, err, ErrFailed)

		e.onWrite = nil
		f = newFixture(t, e, nil)
		for id, want := range map[RegionID]uint64{1: 3, 2: 8, 3: 0} {
			f.add(id)
			if !done {
				want = 0
			}
			require.Equal(t, want, f.stored(id).Applied)
			require.Equal(t, want, readSums(e.DB, id, nil)[0])
		}
	}
}

// TestProposalsThatLostTheirPlaceAreToldSo when the log passes them.
func TestProposalsThatLostTheirPlaceAreToldSo(t *testing.T) {
	f := newFixture(t, newEngine(t), nil)
	f.add(1)
	got := map[[2]uint64][]Result{}
	propose := func(index, term uint64) Proposal {
		return Proposal{index, term, func(r Result) { got[[2]uint64{index, term}] = append(got[[2]uint64{index, term}], r) }}
	}
	entry := func(index, term uint64) Entry { return Entry{Index: index, Term: term, Data: command(opAdd, 0, 0)} }
	// An old leader had proposed 1 to 3 in term 2; a new one has won, and this node proposed again in term 4.
	require.NoError(t, f.Send(Task{Region: 1, Proposals: []Proposal{propose(1, 2), propose(2, 2), propose(3, 2)}}))
	require.NoError(t, f.Send(Task{Region: 1, Proposals: []Proposal{propose(3, 4), propose(4, 4)}}))
	require.NoError(t, f.Send(Task{Region: 1, Entries: []Entry{entry(1, 2), entry(2, 3), entry(3, 4)}}))
	f.run()
	var ok, stale [][2]uint64
	for _, k := range [][2]uint64{{1, 2}, {2, 2}, {3, 2}, {3, 4}, {4, 4}} {
		require.LessOrEqual(t, len(got[k]), 1)
		for _, r := range got[k] {
			if r.Err == nil {
				ok = append(ok, k)
			} else {
				require.ErrorIs(t, r.Err, ErrStale)
				stale = append(stale, k)
			}
		}
	}
	require.Equal(t, [][2]uint64{{1, 2}, {3, 4}}, ok)
	require.Equal(t, [][2]uint64{{2, 2}, {3, 2}}, stale)
	require.NoError(t, f.Close(background))
	require.ErrorIs(t, got[[2]uint64{4, 4}][0].Err, ErrClosed, "it waits still")
	require.Len(t, got[[2]uint64{4, 4}], 1)
}

// TestAnOldLeadersProposalFartherOnDoesNotHideANewOne: the term tells, where the index does not.
func TestAnOldLeadersProposalFartherOnDoesNotHideANewOne(t *testing.T) {
	f := newFixture(t, newEngine(t), nil)
	f.add(1)
	var old, young []Result
	require.NoError(t, f.Send(Task{Region: 1, Proposals: []Proposal{{2, 2, func(r Result) { old = append(old, r) }}}}))
	require.NoError(t, f.Send(Task{
		Region:    1,
		Entries:   []Entry{{Index: 1, Term: 4, Data: command(opAdd, 0, 0)}},
		Proposals: []Proposal{{1, 4, func(r Result) { young = append(young, r) }}},
	}))
	f.run()
	require.Equal(t, []Result{{Value: uint64(1)}}, young)
	require.Equal(t, []Result{{Err: ErrStale}}, old)
}

// TestCallbacksThatPanicHurtNobody.
func TestCallbacksThatPanicHurtNobody(t *testing.T) {
	f := newFixture(t, newEngine(t), nil)
	f.add(1)
	f.onApplied = func([]Applied) { f.guarded(1, "OnApplied", func() { panic("said") }) }
	task, res := f.task(1, repeat(3, opAdd, 0, 0)...)
	task.Proposals[1].Done = func(Result) { panic("done") }
	require.NoError(t, f.Send(task))
	f.run()
	require.Len(t, res.all[0], 1)
	require.Len(t, res.all[2], 1)
	require.EqualValues(t, 2, f.Stats().Panics)
	require.Contains(t, f.log.String(), "Done panicked: done")
	require.EqualValues(t, 3, f.stored(1).Applied)
}

// TestTooMuchWaiting: Send refuses, and takes again once something is written.
func TestTooMuchWaiting(t *testing.T) {
	f := newFixture(t, newEngine(t), func(c *Config) { c.MaxPendingBytes = KiB })
	f.add(1)
	f.add(2)
	f.send(1, command(opAdd, 0, 5000))
	lag, err := f.AppliedLag(1)
	require.NoError(t, err)
	require.Equal(t, Lag{1, 5003}, lag)
	require.Equal(t, lag, f.Stats().Pending)
	task, res := f.task(1, command(opAdd, 0, 0))
	require.ErrorIs(t, f.Send(task), ErrBusy)
	res.none(t)
	f.send(2, command(opAdd, 0, 0))
	f.run()
	require.NoError(t, f.Send(task))
	require.NoError(t, res.once(t, f.run)[0].Err)
	require.Zero(t, f.Stats().Pending)
}

// TestTasksThatDoNotHangTogetherAreRefused as a whole.
func TestTasksThatDoNotHangTogetherAreRefused(t *testing.T) {
	f := newFixture(t, newEngine(t), nil)
	f.add(1)
	require.ErrorIs(t, f.Send(Task{Region: 1, Entries: []Entry{{Index: 1}, {Index: 3}}}), ErrInvalidArgument)
	require.ErrorIs(t, f.Send(Task{Region: 1, Entries: []Entry{{Index: 1, Kind: 9}}}), ErrInvalidArgument)
	require.ErrorIs(t, f.Send(Task{Region: 7}), ErrNoRegion)
	_, err := f.Register(8, nil, nil)
	require.ErrorIs(t, err, ErrInvalidArgument)
	_, err = Open(f.db, &Options{StateFamily: "none"})
	require.ErrorIs(t, err, ErrInvalidArgument)
	_, err = Open(f.db, &Options{Config: &Config{}})
	require.ErrorIs(t, err, ErrInvalidArgument)
}

// TestTheCommitIndexGoesForwardOnly, whatever order tasks claim.
func TestTheCommitIndexGoesForwardOnly(t *testing.T) {
	f := newFixture(t, newEngine(t), func(c *Config) { c.MaxBatchKeys, c.ApplyYieldWriteSize = 2, 0 })
	f.add(1)
	require.NoError(t, f.Send(Task{Region: 1, Commit: 50, CommitTerm: 3, Entries: f.entries(1, repeat(4, opAdd, 0, 0)...)}))
	require.NoError(t, f.Send(Task{Region: 1, Commit: 40, CommitTerm: 2, Entries: f.entries(1, repeat(4, opAdd, 0, 0)...)}))
	f.run()
	for _, a := range f.said {
		require.EqualValues(t, 50, a.State.Commit)
	}
	require.Equal(t, ApplyState{8, 1, 50, 3}, f.stored(1))
	require.NoError(t, f.Send(Task{Region: 1, Entries: f.entries(1, repeat(60, opAdd, 0, 0)...)}))
	f.run()
	require.Equal(t, ApplyState{68, 1, 68, 1}, f.stored(1), "it is never behind Applied")
}

// TestASnapshotIsOfItsState, while the region has yielded with work left.
func TestASnapshotIsOfItsState(t *testing.T) {
	e := newEngine(t)
	synctest.Test(t, func(t *testing.T) { snapshotOfAYieldedRegion(t, e) })
}

func snapshotOfAYieldedRegion(t *testing.T, e *testEngine) {
	f := newFixture(t, e, func(c *Config) { c.MaxBatchKeys, c.ApplyYieldWriteSize = 2, 0 })
	f.add(1)
	f.send(1, repeat(10, opAdd, 0, 0)...)
	f.workers[0].step(false)
	type got struct {
		*Snapshot
		err error
	}
	snap := make(chan got, 1)
	go func() {
		s, err := f.Snapshot(background, 1)
		snap <- got{s, err}
	}()
	synctest.Wait() // it has asked
	f.run()
	s := <-snap
	require.NoError(t, s.err)
	defer s.Release()
	require.EqualValues(t, 3, s.State.Applied)
	o := readAt(s.Snapshot)
	require.Equal(t, map[byte]uint64{0: 3}, readSums(f.db.DB, 1, o))
	stored, _, err := ReadApplyState(f.states, 1, o)
	require.NoError(t, err)
	require.Equal(t, s.State, stored)
	require.EqualValues(t, 10, f.stored(1).Applied)

	_, err = f.Snapshot(canceled(), 1)
	require.ErrorIs(t, err, canceled().Err())
	require.Empty(t, f.regions[1].snapshots)
}

// TestRangeDeletesTakeTheLowPriorityLane, in order, and not with a write for each change of kind.
func TestRangeDeletesTakeTheLowPriorityLane(t *testing.T) {
	f := newFixture(t, newEngine(t), func(c *Config) { c.ApplyLowPriorityPoolSize = 1 })
	f.add(1)
	put, del := command(opAdd, 0, 0), command(opLowly, 0, 0)
	res := f.send(1, put, put, del, put, del, put, put, put)
	for f.workers[0].step(false) {
	}
	require.EqualValues(t, 2, f.stored(1).Applied, "the worker of the normal lane leaves it")
	require.EqualValues(t, 1, f.Stats().Yields[YieldPriority])
	require.EqualValues(t, 1, f.Stats().Flushes[FlushPriority])
	for f.slow[0].step(false) {
	}
	require.EqualValues(t, 8, f.stored(1).Applied)
	require.Equal(t, map[byte]uint64{0: 3}, readSums(f.db.DB, 1, nil))
	require.EqualValues(t, 3, res.once(t, nil)[7].Value)
	require.Equal(t, 2, f.db.writes, "one for each lane")

	f.send(1, del)
	f.workers[0].step(false)
	require.Equal(t, 1, f.queue.length(low))
	require.NoError(t, f.Set("apply-low-priority-pool-size", "0"))
	require.Equal(t, 0, f.queue.length(low))
	f.run()
	require.EqualValues(t, 9, f.stored(1).Applied, "without the lane, its regions are served in the other")
}

// TestARegionOnItsWayToTheLaneLeavesOthersWithTheirWorker: what is in the batch of another region keeps that one there.
func TestARegionOnItsWayToTheLaneLeavesOthersWithTheirWorker(t *testing.T) {
	f := newFixture(t, newEngine(t), func(c *Config) { c.ApplyPoolSize, c.ApplyLowPriorityPoolSize = 2, 1 })
	f.add(1)
	f.add(2)
	f.send(1, command(opAdd, 0, 0))
	f.send(2, command(opLowly, 0, 0))
	f.workers[0].step(false)
	f.workers[0].step(false)
	f.send(1, command(opAdd, 0, 0))
	require.False(t, f.workers[1].step(false), "region 1 is with the first worker")
	f.run()
	require.Equal(t, map[byte]uint64{0: 2}, readSums(f.db.DB, 1, nil))
}
