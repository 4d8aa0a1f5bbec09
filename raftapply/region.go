package raftapply

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// region is a region on its way. It is idle, or scheduled: in the run queue once, or with one worker. Who has it
// scheduled owns it: the fields below "owned" need no lock, since the run queue's lock passes them on.
//
// The rule against lost wake-ups: whoever gives it something to do locks mu, leaves the thing, and schedules the region if
// it is idle. Whoever makes it idle locks mu and looks whether there is something to do.
type region struct {
	id  RegionID
	s   *System
	sm  StateMachine
	end atomic.Bool // it is being removed: a turn stops at the next entry. Set with mu held

	// mu comes before the run queue's and behind the System's.
	mu        sync.Mutex
	scheduled bool
	mailbox   fifo[mail]
	lag       Lag
	state     ApplyState // in the database
	keys      uint64     // written, of this region
	err       error      // why nothing is taken any more
	waiters   []*waiter
	snapshots []*snapshotRequest
	gone      chan struct{} // closed once it is removed

	// Owned.
	queued    time.Time // when it came into the run queue
	round     uint64    // in which it had its last turn
	work      fifo[mail]
	next      int // entry of the first of work
	proposals fifo[promise]
	ended     bool // finish was called

	// What the turn has done so far.
	turnStart           time.Time
	turnBytes, turnKeys uint64

	// What is in the worker's batch.
	staged  bool // there is something
	applied ApplyState
	passed  Lag // of the entries that applied went over, and are still in lag
	done    []outcome
	part    Applied // Entries, Keys, Bytes and ConfChanges

	// What is written and not yet in an Applied.
	written bool
	report  Applied
}

// mail is a task in the mailbox.
type mail struct {
	Task
	sent  time.Time
	stamp int64 // keys of other regions written before
}

// promise is a proposal that waits for its entry.
type promise struct {
	Proposal
	stamp int64
}

// outcome is a Done that waits for the write.
type outcome struct {
	promise
	result Result
}

// waiter waits in WaitApplied.
type waiter struct {
	index uint64
	done  chan error // one place
}

type snapshotRequest struct {
	done chan snapshotResult // one place
}

type snapshotResult struct {
	snapshot *Snapshot
	err      error
}

// dueLocked says whether the region has something to do.
func (r *region) dueLocked() bool {
	if r.ended {
		return r.end.Load() && !r.removedLocked()
	}
	return r.work.len() > 0 || r.mailbox.len() > 0 || len(r.snapshots) > 0 || r.end.Load() || r.s.failure() != nil
}

func (r *region) removedLocked() bool {
	select {
	case <-r.gone:
		return true
	default:
		return false
	}
}

// wakeLocked schedules the region if it is idle.
func (r *region) wakeLocked() {
	if !r.scheduled {
		r.scheduled = true
		r.s.queue.push(r, normal)
	}
}

// release gives the region up: into the run queue if there is something to do, else it is idle. Nothing of it is in
// a batch.
func (r *region) release(to lane) {
	r.mu.Lock()
	r.settleLocked()
	r.scheduled = r.dueLocked()
	again := r.scheduled
	r.mu.Unlock()
	if again {
		r.s.queue.push(r, to)
	}
}

// settleLocked takes what has been passed out of the lag.
func (r *region) settleLocked() {
	r.lag.Entries -= r.passed.Entries
	r.lag.Bytes -= r.passed.Bytes
	r.passed = Lag{}
}

// collect takes mail for a turn, and what waits beside it.
func (r *region) collect(limit int, took func(mail)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.mailbox.len() > 0 && r.work.len() < limit {
		m := r.mailbox.pop()
		took(m)
		for _, p := range m.Proposals {
			r.proposals.push(promise{p, m.stamp})
		}
		m.Proposals = nil
		r.work.push(m)
	}
}

// answerSnapshots gives snapshots to who asked. Nothing of the region is in a batch, and no other worker has it, so what
// the database holds of it is its state.
func (r *region) answerSnapshots() {
	r.mu.Lock()
	asked, state := r.snapshots, r.state
	r.snapshots = nil
	r.mu.Unlock()
	for _, a := range asked {
		a.done <- snapshotResult{snapshot: &Snapshot{r.s.engine.NewSnapshot(), state}}
	}
}

// peek returns the next entry, which stays.
func (r *region) peek() (Entry, bool) {
	for r.work.len() > 0 {
		m := r.work.front()
		if r.next < len(m.Entries) {
			return m.Entries[r.next], true
		}
		r.noteCommit(m)
		r.work.pop()
		r.next = 0
	}
	return Entry{}, false
}

// noteCommit moves the commit index. A task that has no entries may do so without anything being written for it.
func (r *region) noteCommit(m *mail) {
	if m.Commit > r.applied.Commit {
		r.applied.Commit, r.applied.CommitTerm = m.Commit, m.CommitTerm
	}
}

// pass goes over the next entry.
func (r *region) pass(e Entry) {
	r.next++
	r.passed.Entries++
	r.passed.Bytes += uint64(len(e.Data))
}

// advance says that e is in the batch.
func (r *region) advance(e Entry) {
	r.noteCommit(r.work.front())
	r.pass(e)
	r.applied.Applied, r.applied.AppliedTerm = e.Index, e.Term
	if r.applied.Commit < e.Index {
		r.applied.Commit, r.applied.CommitTerm = e.Index, e.Term
	}
	r.part.Entries++
}

// claim finds the proposal of e. Those that e shows to have lost their place are moved to done with ErrStale. An entry's
// term and index together only grow along a log, and so do those of what a node proposes.
func (r *region) claim(e Entry) (promise, bool) {
	for r.proposals.len() > 0 {
		p := r.proposals.front()
		switch {
		case p.Index == e.Index && p.Term == e.Term:
			return r.proposals.pop(), true
		case p.Index <= e.Index || p.Term < e.Term:
			r.done = append(r.done, outcome{r.proposals.pop(), Result{Err: ErrStale}})
		default:
			return promise{}, false
		}
	}
	return promise{}, false
}

// answer calls the Dones of what is written.
func (r *region) answer(foreign int64) {
	for i := range r.done {
		o := &r.done[i]
		o.result.Foreign = uint64(max(foreign-o.stamp, 0))
		r.s.complete(r.id, o.Done, o.result)
	}
	clear(r.done)
	r.done = r.done[:0]
}

// lose answers what was in a batch that is given up.
func (r *region) lose(err error) {
	for i := range r.done {
		if res := &r.done[i].result; res.Err != ErrStale {
			*res = Result{Err: err}
		}
	}
	r.answer(0)
	r.staged, r.part = false, Applied{}
}

// finish ends the region: whatever waits in it gets err, and nothing is taken any more. What it had in a batch has been
// written or given up. The caller owns it.
func (r *region) finish(err error) {
	r.ended = true
	r.mu.Lock()
	r.err = err
	r.lag, r.passed = Lag{}, Lag{}
	mailbox, waiters, snapshots := r.mailbox, r.waiters, r.snapshots
	r.mailbox, r.waiters, r.snapshots = fifo[mail]{}, nil, nil
	r.mu.Unlock()

	for r.proposals.len() > 0 {
		r.s.complete(r.id, r.proposals.pop().Done, Result{Err: err})
	}
	for mailbox.len() > 0 {
		for _, p := range mailbox.pop().Proposals {
			r.s.complete(r.id, p.Done, Result{Err: err})
		}
	}
	for _, w := range waiters {
		w.done <- err
	}
	for _, a := range snapshots {
		a.done <- snapshotResult{err: err}
	}
	r.work, r.next = fifo[mail]{}, 0
}

// guard calls fn and returns what it panics with as an error.
func guard(what string, fn func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("raftapply: %s panicked: %v", what, p)
		}
	}()
	fn()
	return nil
}
