package groupsim

import (
	"container/heap"
	"iter"
	"time"
)

// sim is the clock and the cores.
//
//  1. A process runs only when it has a core, and gives it up only in sleep.
//  2. Nothing happens between two events: a process that runs goes on until it spends time or sleeps.
//  3. Events of the same time happen in the order in which they were scheduled; so a run can be repeated.
type sim struct {
	machine Machine
	now     time.Duration
	events  events
	order   uint64
	line    []*process // woken, and waiting for a core
	idle    int        // cores that nobody has
	coming  bool       // a core was woken and has not arrived
}

// event is that a process goes on, or, without one, that a woken core arrives.
type event struct {
	at    time.Duration
	order uint64
	p     *process
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// process is a simulated thread. What it does is a function that calls spend and sleep.
type process struct {
	s     *sim
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	since time.Duration // when it began to wait
	waits bool
	woken bool // while it slept or was about to
}

// start makes a process that has a core from the beginning, or waits for one.
func (s *sim) start(do func(*process)) *process {
	p := &process{s: s}
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		p.yield = yield
		do(p)
		s.release()
	})
	s.line = append(s.line, p)
	if s.idle > 0 {
		s.idle--
		s.take()
	}
	return p
}

// run lets the time pass until nothing is left to happen.
func (s *sim) run() {
	for len(s.events) > 0 {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		if e.p != nil {
			e.p.next()
			continue
		}
		s.coming = false
		if len(s.line) == 0 {
			s.idle++
			continue
		}
		s.take()
		s.wakeCore()
	}
}

func (s *sim) at(t time.Duration, p *process) {
	s.order++
	heap.Push(&s.events, event{t, s.order, p})
}

// take gives a core to the first in the line.
func (s *sim) take() {
	p := s.line[0]
	s.line = s.line[1:]
	s.at(s.now+s.machine.Switch, p)
}

// release gives up the caller's core.
func (s *sim) release() {
	if len(s.line) > 0 {
		s.take()
	} else {
		s.idle++
	}
}

// wakeCore lets an idle core come if the line needs one and none is under way.
func (s *sim) wakeCore() {
	if s.idle > 0 && len(s.line) > 0 && !s.coming {
		s.idle--
		s.coming = true
		s.at(s.now+s.machine.Hop, nil)
	}
}

// spend lets d pass; p keeps its core.
func (p *process) spend(d time.Duration) {
	if d > 0 {
		p.s.at(p.s.now+d, p)
		p.yield(struct{}{})
	}
}

// sleep ends when somebody has woken p.
func (p *process) sleep() {
	p.since, p.waits = p.s.now, true
	for !p.woken {
		if p.s.machine.Look == 0 {
			p.s.release()
		}
		p.yield(struct{}{})
	}
	p.waits, p.woken = false, false
}

// wake wakes q, at the cost of p.
func (p *process) wake(q *process) {
	s := p.s
	looks := s.machine.Look > 0 && s.now-q.since <= s.machine.Look
	if !q.waits {
		panic("groupsim: woken is who does not wait")
	}
	if looks {
		p.spend(s.machine.Touch)
		q.woken = true
		s.at(s.now, q)
		return
	}
	p.spend(s.machine.Wake)
	q.woken = true
	switch {
	case s.machine.Look > 0: // it has a core to itself
		s.at(s.now+s.machine.Hop+s.machine.Switch, q)
	case !s.machine.Chain && s.idle > 0: // the kernel sends it to an idle core
		s.idle--
		s.at(s.now+s.machine.Hop+s.machine.Switch, q)
	default:
		s.line = append(s.line, q)
		s.wakeCore()
	}
}
