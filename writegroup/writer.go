package writegroup

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

// A seat belongs to its goroutine until it is linked into the queue; then to the queue, until a leader takes it, it is
// made leader, or it withdraws; and to its goroutine again when that has seen the state which ends its wait. Only its
// goroutine puts it back into the pool.
//
//  1. work, run and ctx are written before the seat is linked, and do not change until its goroutine has it back.
//  2. older is written before linking; after that, older, newer and taken are read and written under Queue.mu.
//  3. state is set by one waker at a time. A waker that finds the seat parked sends once on wake; nobody else sends.

// A state says who waits in it and what ends it.
type state = uint32

const (
	// waiting: the seat is queued, or was taken into a group, and its goroutine looks at the state again and again.
	// Ends with any of the states below; parked is set by the goroutine itself, all others by a leader, a helper, or
	// the one that refuses the work.
	waiting state = iota
	// parked: as waiting, but the goroutine sleeps on wake. Ends with any state from leading on, and one send.
	parked
	// leading: the seat is at the head of the queue; its goroutine runs the stages. Set by the previous group's last
	// one. Nobody waits in it; the goroutine ends it by leaving.
	leading
	// inserting: the seat's group is in the log, and its goroutine inserts its own work. It then sets waiting again by
	// itself, unless it is the last of the group to get there. To a leader that waits in line it says that it has the turn.
	inserting
	// helping: as inserting, but the goroutine first sets its share of the group to inserting.
	helping
	// done: the seat has left the queue and err is its result. Its goroutine returns.
	done
	// sharing: as done, but the goroutine first sets its share of the group to done.
	sharing
	// settled: the seat's group, of which it is the closer, is published, and its goroutine tells the others.
	settled
	// settling: the seat's group, of which it is the closer, is the oldest unsettled one. Its goroutine syncs and
	// publishes it, and others, and tells the others.
	settling
)

// seat is one writer's place in the queue.
type seat[W any] struct {
	state atomic.Uint32
	index int // in group
	group *Group[W]
	older *seat[W]
	newer *seat[W]
	taken bool // in a group, or leading: too late to withdraw

	work W
	run  func() error // of an Exclusive, which has no work
	ctx  context.Context
	err  error
	wake chan struct{} // one slot
	own  Group[W]      // for a leader without company, who need not ask the pool

	handed time.Duration // when it was made leader, in a traced queue
}

// set gives s a new state and wakes its goroutine when that sleeps. It tells whether it slept.
func (s *seat[W]) set(to state) (slept bool) {
	if s.state.Swap(to) != parked {
		return false
	}
	s.wake <- struct{}{}
	return true
}

// await waits until s has a state beyond parked, and returns it.
func (q *Queue[W]) await(s *seat[W]) state {
	if now := q.yield(s); now != waiting {
		return now
	}
	if s.state.CompareAndSwap(waiting, parked) {
		<-s.wake
	}
	return s.state.Load()
}

// awaitContext is await for a seat that may leave the queue when its context ends. It returns the context's error when
// the seat has left.
func (q *Queue[W]) awaitContext(s *seat[W]) (state, error) {
	if now := q.yield(s); now != waiting {
		return now, nil
	}
	if s.state.CompareAndSwap(waiting, parked) {
		select {
		case <-s.wake:
		case <-s.ctx.Done():
			if q.withdraw(s) {
				return parked, s.ctx.Err()
			}
			<-s.wake
		}
	}
	return s.state.Load(), nil
}

// yield lets other goroutines run, q.Yields times at most, until s has another state than waiting, and returns its state.
// With many at it, looking costs more than sleeping would; so those who come then do not.
func (q *Queue[W]) yield(s *seat[W]) (now state) {
	if q.yielding.Add(1) <= q.yielders {
		for range q.Yields {
			if now = s.state.Load(); now != waiting {
				break
			}
			runtime.Gosched()
		}
	}
	q.yielding.Add(-1)
	return now
}

// Group is what one leader writes to the log at once: its own work first, then those of the writers behind it, in the
// order in which they came. It lives until Publish returns; stages keep no reference to it.
type Group[W any] struct {
	works   []W
	seats   []*seat[W]
	running atomic.Int32 // members of a spread group that have not inserted yet
	holders atomic.Int32 // goroutines that still wake others from it; the last one puts it back into the pool
	failed  atomic.Pointer[error]
	times   Times // of a traced queue

	begun  *failure  // the latest when the group's leader began
	logged bool      // Log has succeeded
	sync   bool      // Log has asked for a sync
	closer *seat[W]  // the member that has the leadership at the end
	next   *Group[W] // among the unsettled
	behind *Group[W] // in the line
	lined  bool      // in it
}

// Works returns the group's works, the leader's first. The slice is the group's own.
func (g *Group[W]) Works() []W { return g.works }

// Len returns how many works the group has.
func (g *Group[W]) Len() int { return len(g.works) }

// Fail takes work i out of the group, with err as its result: it is not inserted. Only Log may call it. The other works
// go on.
func (g *Group[W]) Fail(i int, err error) { g.seats[i].err = err }

// Err returns what Fail was given for work i, or nil.
func (g *Group[W]) Err(i int) error { return g.seats[i].err }

// NeedSync has the group published only after a Sync that begins when Log has returned. Only Log may call it.
func (g *Group[W]) NeedSync() { g.sync = true }

// failAll fails the group as a whole. The first error stays.
func (g *Group[W]) failAll(err error) { g.failed.CompareAndSwap(nil, &err) }

// err returns what failed the group as a whole, or nil.
func (g *Group[W]) err() error {
	if e := g.failed.Load(); e != nil {
		return *e
	}
	return nil
}

// result returns what Commit returns for member s: its own failure, or the group's.
func (g *Group[W]) result(s *seat[W]) error {
	if s.err != nil {
		return s.err
	}
	return g.err()
}

// pass wakes member i's share of the group.
func (g *Group[W]) pass(i, stride int, to state) (wakes, slept int) {
	n := len(g.seats)
	for j := share(i, n, stride); j < n; j += stride {
		wakes++
		if g.seats[j].set(to) {
			slept++
		}
	}
	return wakes, slept
}

// reset empties the group and keeps its memory.
func (g *Group[W]) reset() {
	clear(g.works)
	clear(g.seats)
	g.works, g.seats = g.works[:0], g.seats[:0]
	if g.failed.Load() != nil {
		g.failed.Store(nil)
	}
	g.begun, g.logged, g.sync, g.closer, g.next, g.behind, g.lined = nil, false, false, nil, nil, nil, false
}
