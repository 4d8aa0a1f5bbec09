package writegroup

import (
	"sync"
	"sync/atomic"
)

// A group whose Log asked for a sync is published after one that began when the group was in the log. It does not lead
// meanwhile: it joins the list of unsettled groups, and the next writer leads. A member of one unsettled group syncs for
// all of them.
//
//  1. The list is in the order of the log. A group joins it before its leadership is handed over, if it waits for a sync
//     or the list is not empty: so groups are published in the order of the log.
//  2. While the list is not empty, its oldest group waits for a sync, and that group's closer (the member that had the
//     leadership last) runs settle. Only settle takes groups out.
//  3. A sync answers for the groups that were in the list when it began. Those that came meanwhile, up to the first that
//     waits for a sync of its own, are published with them; that one's closer runs settle next.
//  4. A group that fails after it was logged fails every group that had begun before that was published: none may be seen
//     without it. Prepare has to refuse those that begin later, for as long as this is so.

// failure is what failed a logged group. Its address tells one from another.
type failure struct{ err error }

// unsettled are the groups that are logged and inserted and not published.
type unsettled[W any] struct {
	_    [64]byte
	some atomic.Bool             // the list is not empty; set by who leads, cleared by settle, both with mu
	last atomic.Pointer[failure] // stored by who publishes, before the group that failed leaves the list
	_    [48]byte

	// mu is also held during the Publish of groups that came during a sync and wait for none.
	mu             sync.Mutex
	empty          *sync.Cond
	oldest, newest *Group[W]
}

// Drain returns when every group before is published. It is for Prepare; the function of an Exclusive finds it done.
func (q *Queue[W]) Drain() {
	q.AwaitInserts()
	u := &q.unsettled
	if !u.some.Load() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.oldest != nil {
		u.empty.Wait()
	}
}

// waits tells whether g has to wait for a sync that begins after now.
func (u *unsettled[W]) waits(g *Group[W]) bool {
	return g.sync && g.err() == nil && g.begun == u.last.Load()
}

// enlist puts g, whose closer leads, into the list if it has to wait. settles says that the closer is to run settle.
func (u *unsettled[W]) enlist(g *Group[W]) (listed, settles bool) {
	if !u.some.Load() && !u.waits(g) {
		return false, false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.oldest != nil:
		u.newest.next, u.newest = g, g
		return true, false
	case u.waits(g):
		u.oldest, u.newest = g, g
		u.some.Store(true)
		return true, true
	}
	return false, false // the list has become empty just now
}

// close ends g. s leads, or has the turn, and is a member of g.
func (q *Queue[W]) close(g *Group[W], s *seat[W], spread bool) error {
	q.counts.group(len(g.seats), spread)
	if q.Pipelined && !g.lined { // Log has failed
		q.queueUp(g)
	}
	g.closer = s
	if s.state.Load() != waiting {
		s.state.Store(waiting)
	}
	q.stamp(&g.times.Inserted)
	listed, settles := q.unsettled.enlist(g)
	g.times.Waited = listed || q.Pipelined
	if !listed {
		q.publish(g)
	}
	err := g.result(s)
	if q.Pipelined {
		q.passOn(g)
	} else {
		q.handOver(g.seats[len(g.seats)-1])
		q.stamp(&g.times.HandedOver)
	}
	if listed {
		if settles || q.await(s) == settling {
			q.settle(g)
		}
		err = g.result(s)
	}
	q.finish(g, s)
	return err
}

// settle makes the unsettled groups safe, publishes them, and lets their closers say so. oldest is the caller's.
func (q *Queue[W]) settle(oldest *Group[W]) {
	u := &q.unsettled
	u.mu.Lock()
	last := u.newest
	u.mu.Unlock()
	err := q.sync()
	for g := oldest; ; g = g.next {
		if err != nil {
			g.failAll(err)
		}
		q.publish(g)
		if g == last {
			break
		}
	}
	u.mu.Lock()
	for last.next != nil && !u.waits(last.next) {
		last = last.next
		q.publish(last)
	}
	next := last.next
	last.next = nil
	if u.oldest = next; next == nil {
		u.newest = nil
		u.some.Store(false)
		u.empty.Broadcast()
	}
	u.mu.Unlock()

	wakes, slept := 0, 0
	wake := func(s *seat[W], to state) {
		wakes++
		if s.set(to) {
			slept++
		}
	}
	if next != nil {
		wake(next.closer, settling)
	}
	for g := oldest.next; g != nil; {
		after := g.next // g is its closer's from now on
		wake(g.closer, settled)
		g = after
	}
	q.counts.waits(wakes, slept)
}

func (q *Queue[W]) sync() (err error) {
	defer func() { contain(recover(), "Sync", &err) }()
	q.counts.syncs.Add(1)
	return q.stages.Sync()
}
