package raftapply

import (
	"sync"
	"time"
)

// A lane is a line of regions and the workers that serve it.
type lane uint8

const (
	normal lane = iota
	low
	lanes
)

// runQueue holds the regions that have something to do and are with no worker, each once, first come first served. It
// also says how many workers each lane has, so that one who waits here learns that he is not needed any more.
//
// mu is a leaf.
type runQueue struct {
	now  func() time.Time
	pick func(n int) int // nil but in tests: which of n is next

	mu   sync.Mutex
	lane [lanes]struct {
		waiting fifo[*region]
		more    sync.Cond
		want    int    // workers
		running []bool // by id
	}
}

func newRunQueue(now func() time.Time) *runQueue {
	q := &runQueue{now: now}
	for i := range q.lane {
		q.lane[i].more.L = &q.mu
	}
	return q
}

// push puts r, which is scheduled, at the end of a lane; of the normal one if the other has no workers.
func (q *runQueue) push(r *region, to lane) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.queued = q.now()
	q.pushLocked(r, to)
}

func (q *runQueue) pushLocked(r *region, to lane) {
	if q.lane[to].want == 0 {
		to = normal
	}
	q.lane[to].waiting.push(r)
	q.lane[to].more.Signal()
}

// pop takes the next region for the lane's worker id. If there is none, it waits or returns nil. It also returns nil,
// stop then being true, if the worker is one too many: it has been struck off the list and must end.
func (q *runQueue) pop(from lane, id int, wait bool) (r *region, stop bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := &q.lane[from]
	for id < l.want && wait && l.waiting.len() == 0 {
		l.more.Wait()
	}
	switch {
	case id >= l.want:
		if wait { // between rounds
			l.running[id] = false
			stop = true
		}
		return nil, stop
	case l.waiting.len() == 0:
		return nil, false
	}
	if q.pick != nil {
		l.waiting.toFront(q.pick(l.waiting.len()))
	}
	return l.waiting.pop(), false
}

// length returns how many regions wait in a lane.
func (q *runQueue) length(of lane) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lane[of].waiting.len()
}

// resize sets how many workers a lane has and returns the ids of those to be started. Regions of a lane that has none any
// more go to the normal one, unless that is it.
func (q *runQueue) resize(of lane, n int) (start []int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := &q.lane[of]
	l.want = n
	for id := range n {
		if id == len(l.running) {
			l.running = append(l.running, false)
		}
		if !l.running[id] {
			l.running[id] = true
			start = append(start, id)
		}
	}
	for of != normal && n == 0 && l.waiting.len() > 0 {
		q.pushLocked(l.waiting.pop(), normal)
	}
	l.more.Broadcast() // all, so that no wake-up for a region is spent on a worker that ends
	return start
}
