package writegroup

import "sync"

// In a pipelined queue the leader hands its lead over as soon as its group is logged. So the log of one group is written
// while the one before is inserted.
//
//  1. The line is in the order of the log: a group joins it before its leadership is handed over.
//  2. Its oldest group has the turn: that one inserts, and is published or joins the list of unsettled groups. Then it
//     leaves, and the next has the turn. So groups insert one after the other, as without pipelining, and what settle.go
//     says of the one who leads is true of the one who has the turn.
//  3. A group that failed in Log takes its turn too, and inserts nothing.

// line is the groups that are logged, and neither published nor in the list of unsettled ones.
type line[W any] struct {
	mu             sync.Mutex // a leaf
	empty          *sync.Cond
	oldest, newest *Group[W]
}

// AwaitInserts returns when every group before is inserted, or has failed. It is for Log, Prepare, and the function of an
// Exclusive, and at once true without pipelining.
func (q *Queue[W]) AwaitInserts() {
	if !q.Pipelined {
		return
	}
	l := &q.line
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.oldest != nil {
		l.empty.Wait()
	}
}

// queueUp hands the lead over and returns when g, whose leader calls it, has the turn.
func (q *Queue[W]) queueUp(g *Group[W]) {
	lead := g.seats[0]
	if lead.state.Load() != waiting {
		lead.state.Store(waiting)
	}
	l := &q.line
	l.mu.Lock()
	first := l.oldest == nil
	if first {
		l.oldest = g
	} else {
		l.newest.behind = g
	}
	l.newest, g.lined = g, true
	l.mu.Unlock()
	q.handOver(g.seats[len(g.seats)-1])
	q.stamp(&g.times.HandedOver)
	if !first {
		q.await(lead) // can only be inserting
	}
}

// passOn gives the turn to the group behind g.
func (q *Queue[W]) passOn(g *Group[W]) {
	l := &q.line
	l.mu.Lock()
	next := g.behind
	g.behind, g.lined = nil, false
	if l.oldest = next; next == nil {
		l.newest = nil
		l.empty.Broadcast()
	}
	l.mu.Unlock()
	if next == nil {
		return
	}
	slept := 0
	if next.seats[0].set(inserting) {
		slept = 1
	}
	q.counts.waits(1, slept)
}
