package writegroup

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// One writer leads at a time: the one whose seat is oldest in the queue. What becomes of a group when its works are
// inserted is in settle.go; what is different in a pipelined queue, in pipeline.go.
//
//  1. newest is nil exactly when nobody leads. Seats are pushed at newest by compare-and-swap, and nowhere else.
//  2. The seats of the running group, then those who wait, form one chain from newest along older. A seat leaves the
//     chain before its goroutine is woken for the last time.
//  3. The links from older to newer, and leaving the chain, need mu, unless the seats that leave are all there are. So
//     who is behind somebody, or leads, may walk the chain under mu: nobody older than itself leaves meanwhile.
//  4. A group is published before it leaves the chain, or joins the list of unsettled groups (settle.go) or the line
//     (pipeline.go) before; so groups are published in the order of the log.

// Stages are what a Queue cannot do by itself. W is any work; the Queue never looks inside. A stage that panics has
// failed with a *PanicError; a stage must not call runtime.Goexit.
type Stages[W any] interface {
	// Prepare makes room for lead before its group is formed, so that those who come while it waits ride along. When
	// it fails, lead fails alone, and the next writer leads.
	Prepare(lead W) error
	// Admit tells whether next joins the group of lead, which has n works of size bytes in all. It only looks: the
	// queue's lock is held.
	Admit(lead, next W, n, size int) Admission
	// Size returns the size of w, for Admit's sum. It only looks.
	Size(w W) int
	// Log writes the group to the log, alone, in the order of the queue. With spread, every member inserts its own
	// work, at the same time as the others; without, the leader inserts all of them, in order. An error fails the
	// group, and nothing is inserted. Log may ask for a sync (Group.NeedSync).
	Log(g *Group[W]) (spread bool, err error)
	// Insert makes w readable, once Publish says so. An error fails the whole group.
	Insert(g *Group[W], w W) error
	// Sync makes all safe that was logged before the call. There is one at a time, while later groups go through
	// Prepare, Log and Insert. An error fails the groups that it was for, and those that had begun after them.
	Sync() error
	// Publish ends the group: once for each group, alone, after every Insert and the Sync that Log asked for, in the
	// order of the log. Where there was a Sync, later groups may be in Prepare, Log or Insert meanwhile; in a pipelined
	// queue always, and Insert too runs beside Prepare and Log of later groups. err is what failed the group as a whole,
	// or nil; works that Log failed have their own errors.
	Publish(g *Group[W], err error)
}

// Admission is what becomes of a writer whom a leader finds behind it.
type Admission uint8

const (
	// Join takes it into the group.
	Join Admission = iota
	// PassOver leaves it in the queue, and goes on with those behind it. The oldest of those passed over leads the next
	// group, so that nobody is passed over for ever.
	PassOver
	// CloseGroup leaves it and all behind it in the queue.
	CloseGroup
)

// PanicError is the result of a work or a group whose stage panicked.
type PanicError struct {
	Stage string // "Insert", say
	Value any    // what panic was given
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic in %s: %v", e.Stage, e.Value) }

// Unwrap returns the value of the panic when that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// How a writer waits: it yields so often, if there are no more than so many for each processor that do, and then sleeps. The
// figures are in doc.go.
const (
	defaultYields   = 32
	yieldersPerProc = 8
)

// Queue forms groups of works and runs them through its stages. Make one with New.
type Queue[W any] struct {
	stages Stages[W]
	// To be set before the first Commit. Pipelined has the next group logged while this one is inserted (pipeline.go).
	// Yields is how often a waiting writer lets others run and looks at its state before it sleeps. Wake says who wakes
	// whom. Trace, if set, is given the times of each group by the goroutine that ended it, after it has told the others; so
	// it may be called by many at once. The times are valid during the call. It costs ten looks at the clock a group, and
	// one a member.
	Pipelined bool
	Yields    int
	Wake      Wake
	Trace     func(*Times)

	// The pools are the queue's own: a channel made inside a testing/synctest bubble must not be used outside it.
	seats  sync.Pool
	groups sync.Pool

	_      [64]byte
	newest atomic.Pointer[seat[W]]
	_      [56]byte

	stall atomic.Pointer[func(W) error] // of the stall that has begun and not ended
	mu    sync.Mutex                    // a leaf

	line      line[W]
	unsettled unsettled[W]

	counts counters

	yielders int32 // that may be at it at once
	_        [64]byte
	yielding atomic.Int32
}

// New returns a queue with nobody in it.
func New[W any](s Stages[W]) *Queue[W] {
	q := &Queue[W]{stages: s, Yields: defaultYields, yielders: int32(yieldersPerProc * runtime.GOMAXPROCS(0))}
	q.unsettled.empty, q.line.empty = sync.NewCond(&q.unsettled.mu), sync.NewCond(&q.line.mu)
	return q
}

// Commit runs w through the stages, in a group with others. It returns when w is published or has failed.
func (q *Queue[W]) Commit(w W) error { return q.commit(nil, w) }

// CommitContext is Commit for a writer that may give up. While w waits in the queue, the end of ctx takes it out at
// once. When w leads, ctx is looked at before and after Prepare, which may look at a context of its own in w. From the
// moment its group is formed, ctx does not count any more: the result is that of the group.
func (q *Queue[W]) CommitContext(ctx context.Context, w W) error {
	if ctx.Done() == nil {
		return q.commit(nil, w)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return q.commit(ctx, w)
}

func (q *Queue[W]) commit(ctx context.Context, w W) error {
	if refuse := q.stall.Load(); refuse != nil {
		if err := (*refuse)(w); err != nil {
			return err
		}
	}
	s := q.seat()
	s.work, s.ctx = w, ctx
	var err error
	if q.push(s) {
		err = q.lead(s)
	} else {
		err = q.follow(s)
	}
	q.release(s)
	return err
}

// Exclusive runs fn at the head of the queue, alone: every work committed before is published, and none that comes after
// has begun. It returns fn's error. A stall does not refuse it, and fn must not call Commit or Exclusive.
func (q *Queue[W]) Exclusive(fn func() error) error {
	s := q.seat()
	s.run = fn
	if !q.push(s) {
		q.await(s) // can only be leading
	}
	q.Drain()
	err := exclusive(fn)
	q.handOver(s)
	q.release(s)
	return err
}

// BeginStall lets works that refuse has an error for leave with that error: those who wait now, and those who come before
// EndStall. It is for a leader that is going to wait, and to be called by Prepare, or by the function of an Exclusive. A
// work that leads is not asked. One stall at a time; refuse only looks, since the queue's lock is held.
func (q *Queue[W]) BeginStall(refuse func(w W) error) {
	q.stall.Store(&refuse)
	// Who links after the Store asks for itself, in follow; all others are in the chain.
	q.mu.Lock()
	defer q.mu.Unlock()
	for s := q.newest.Load(); s != nil && s.older != nil && !s.taken; {
		older := s.older
		if s.run == nil {
			if err := refuse(s.work); err != nil {
				q.unlinkLocked(s)
				s.taken, s.err = true, err
				s.set(done)
			}
		}
		s = older
	}
}

// EndStall ends what BeginStall began.
func (q *Queue[W]) EndStall() { q.stall.Store(nil) }

func (q *Queue[W]) seat() *seat[W] {
	if s, _ := q.seats.Get().(*seat[W]); s != nil {
		return s
	}
	return &seat[W]{wake: make(chan struct{}, 1)}
}

func (q *Queue[W]) release(s *seat[W]) {
	if s.state.Load() != waiting {
		s.state.Store(waiting)
	}
	s.index, s.group, s.older, s.newer, s.taken = 0, nil, nil, nil, false
	var none W
	s.work, s.run, s.ctx, s.err, s.handed = none, nil, nil, nil, 0
	q.seats.Put(s)
}

// push links s as the newest and tells whether it is the only one, and so leads.
func (q *Queue[W]) push(s *seat[W]) (leads bool) {
	for {
		newest := q.newest.Load()
		s.older = newest
		if q.newest.CompareAndSwap(newest, s) {
			return newest == nil
		}
	}
}

// linkLocked completes the links from older to newer along the whole chain. Links that are there were made by an earlier
// call, and so were all those further back.
func (q *Queue[W]) linkLocked() {
	for s := q.newest.Load(); s != nil && s.older != nil && s.older.newer == nil; s = s.older {
		s.older.newer = s
	}
}

// unlinkLocked takes s, which waits behind somebody, out of the chain.
func (q *Queue[W]) unlinkLocked(s *seat[W]) {
	q.linkLocked()
	if s.newer == nil {
		// Before the swap: after it, s.older may be alone, leave without mu, and be somebody else's seat.
		s.older.newer = nil
		if q.newest.CompareAndSwap(s, s.older) {
			return
		}
		q.linkLocked() // somebody came
	}
	s.older.newer, s.newer.older = s.newer, s.older
}

// withdraw takes s out of the queue unless a leader has it, or it has been made leader.
func (q *Queue[W]) withdraw(s *seat[W]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.taken {
		return false
	}
	q.unlinkLocked(s)
	return true
}

// follow waits for what becomes of s, and does its part.
func (q *Queue[W]) follow(s *seat[W]) error {
	if refuse := q.stall.Load(); refuse != nil {
		if err := (*refuse)(s.work); err != nil && q.withdraw(s) {
			return err
		}
	}
	var now state
	if s.ctx == nil {
		now = q.await(s)
	} else {
		var err error
		if now, err = q.awaitContext(s); err != nil {
			return err
		}
	}
	switch now {
	case leading:
		return q.lead(s)
	case helping:
		q.help(s, inserting)
		return q.join(s)
	case inserting:
		return q.join(s)
	}
	return q.end(s, now)
}

// lead runs a group from its beginning. s is at the head of the queue.
func (q *Queue[W]) lead(s *seat[W]) error {
	elected, begun := q.clock(), q.unsettled.last.Load()
	err := contextErr(s.ctx)
	if err == nil {
		err = q.prepare(s.work)
	}
	if err == nil {
		err = contextErr(s.ctx)
	}
	if err != nil { // alone
		q.handOver(s)
		return err
	}

	prepared := q.clock()
	g := q.gather(s)
	g.begun = begun
	if q.Trace != nil {
		g.times.begin(s.handed, elected, prepared)
	}
	if q.logAndInsert(g) {
		return q.spread(g)
	}
	return q.close(g, s, false)
}

// logAndInsert logs g, and inserts its works in order unless the group is to be spread, which it tells.
func (q *Queue[W]) logAndInsert(g *Group[W]) (spread bool) {
	if g.err() != nil {
		return false
	}
	stage, err := "Log", error(nil)
	defer func() {
		contain(recover(), stage, &err)
		if err != nil {
			spread = false
			g.failAll(err)
		}
	}()
	spread, err = q.stages.Log(g)
	q.stamp(&g.times.Logged)
	if err != nil {
		return false
	}
	g.logged = true
	if q.Pipelined {
		q.queueUp(g)
	}
	if spread && len(g.seats) > 1 {
		return true
	}
	stage = "Insert"
	for i, s := range g.seats {
		if s.err == nil { // else Log has failed it
			if err = q.stages.Insert(g, g.works[i]); err != nil {
				break
			}
		}
	}
	return false
}

func contextErr(ctx context.Context) error {
	if ctx == nil {
		return nil
	}
	return ctx.Err()
}

// gather forms the group that s leads.
func (q *Queue[W]) gather(s *seat[W]) *Group[W] {
	if q.newest.Load() == s {
		g := &s.own
		g.works, g.seats = append(g.works, s.work), append(g.seats, s)
		return g
	}
	g, _ := q.groups.Get().(*Group[W])
	if g == nil {
		g = new(Group[W])
	}
	g.works, g.seats = append(g.works, s.work), append(g.seats, s)
	s.group = g
	if err := q.admit(g); err != nil {
		g.failAll(err)
	}
	return g
}

// admit takes those behind the leader into g, oldest first. Members go to the front of the queue, before those who are
// passed over; an Exclusive is not passed over.
func (q *Queue[W]) admit(g *Group[W]) (err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer func() { contain(recover(), "Admit", &err) }()
	q.linkLocked()
	lead := g.seats[0]
	size := q.stages.Size(lead.work)
	last := lead
	for s, next := lead.newer, (*seat[W])(nil); s != nil && s.run == nil; s = next {
		next = s.newer
		switch q.stages.Admit(lead.work, s.work, len(g.works), size) {
		case PassOver:
			continue
		case CloseGroup:
			return nil
		}
		size += q.stages.Size(s.work)
		s.taken, s.group, s.index = true, g, len(g.seats)
		g.works, g.seats = append(g.works, s.work), append(g.seats, s)
		if last.newer != s {
			q.unlinkLocked(s)
			s.older, s.newer = last, last.newer
			s.newer.older, last.newer = s, s
		}
		last = s
	}
	return nil
}

// spread wakes the members of g to insert, and does the leader's part.
func (q *Queue[W]) spread(g *Group[W]) error {
	g.running.Store(int32(len(g.seats)))
	if q.Trace != nil {
		g.times.spread(len(g.seats))
	}
	q.wake(g, helping, inserting)
	q.stamp(&g.times.Launched)
	return q.join(g.seats[0])
}

// join inserts s's work. Whoever of the group is the last to do so ends it; the others wait for that.
func (q *Queue[W]) join(s *seat[W]) error {
	g := s.group
	if q.Trace != nil {
		q.stamp(&g.times.Starts[s.index])
	}
	if s.err == nil { // else Log has failed it
		if err := q.insert(g, g.works[s.index]); err != nil {
			g.failAll(err)
		}
	}
	s.state.Store(waiting)
	if g.running.Add(-1) > 0 {
		return q.end(s, q.await(s))
	}
	return q.close(g, s, true)
}

// end is what a member does when its group is done.
func (q *Queue[W]) end(s *seat[W], now state) error {
	if now == sharing {
		q.help(s, done)
		q.leave(s.group)
	}
	return s.err
}

// finish tells the members of g that they are done. The group has left the queue, and s is the caller's seat in it.
func (q *Queue[W]) finish(g *Group[W], s *seat[W]) {
	if g == &s.own {
		q.traced(g, 1)
		g.reset()
		return
	}
	// The caller has the leader's part in the cascade that says done, and the leader has its.
	leader := g.seats[0]
	g.seats[0], g.seats[s.index] = s, leader
	leader.index, s.index = s.index, 0
	for _, s := range g.seats[1:] {
		s.err = g.result(s)
	}
	// Every helper looks at the group until it has done its share, and so does the caller.
	stride := q.Wake.Stride(len(g.seats))
	g.holders.Store(int32(stride))
	q.wake(g, sharing, done)
	q.traced(g, stride)
	q.leave(g)
}

// wake is member 0's part of the cascade.
func (q *Queue[W]) wake(g *Group[W], helper, member state) {
	stride := q.Wake.Stride(len(g.seats))
	helpers, slept := stride-1, 0
	for _, s := range g.seats[1 : 1+helpers] {
		if s.set(helper) {
			slept++
		}
	}
	n, m := g.pass(0, stride, member)
	q.counts.leaderWakes.Add(uint64(helpers + n))
	q.counts.waits(helpers+n, slept+m)
}

// help is a helper's part of the cascade.
func (q *Queue[W]) help(s *seat[W], member state) {
	g := s.group
	n, slept := g.pass(s.index, q.Wake.Stride(len(g.seats)), member)
	q.counts.helperWakes.Add(uint64(n))
	q.counts.waits(n, slept)
}

// handOver takes all seats up to last out of the queue, and makes the next one leader.
func (q *Queue[W]) handOver(last *seat[W]) {
	if q.newest.CompareAndSwap(last, nil) {
		return
	}
	q.mu.Lock()
	if q.newest.CompareAndSwap(last, nil) { // all others have withdrawn
		q.mu.Unlock()
		return
	}
	q.linkLocked()
	next := last.newer
	next.older, next.taken = nil, true
	q.mu.Unlock()
	q.stamp(&next.handed)
	slept := 0
	if next.set(leading) {
		slept = 1
	}
	q.counts.waits(1, slept)
}

// leave gives up one hold on g.
func (q *Queue[W]) leave(g *Group[W]) {
	if g.holders.Add(-1) == 0 {
		q.recycle(g)
	}
}

func (q *Queue[W]) recycle(g *Group[W]) {
	g.reset()
	q.groups.Put(g)
}

func (q *Queue[W]) prepare(w W) (err error) {
	defer func() { contain(recover(), "Prepare", &err) }()
	return q.stages.Prepare(w)
}

func (q *Queue[W]) insert(g *Group[W], w W) (err error) {
	defer func() { contain(recover(), "Insert", &err) }()
	return q.stages.Insert(g, w)
}

// publish ends g. A panic in Publish still fails the members, whatever readers see of them.
func (q *Queue[W]) publish(g *Group[W]) {
	if last := q.unsettled.last.Load(); last != g.begun {
		g.failAll(last.err)
	}
	defer func() {
		var err error
		if contain(recover(), "Publish", &err); err != nil {
			g.failAll(err)
		}
		q.stamp(&g.times.Published)
	}()
	err := g.err()
	q.stages.Publish(g, err)
	if err != nil && g.logged {
		q.unsettled.last.Store(&failure{err})
	}
}

func exclusive(fn func() error) (err error) {
	defer func() { contain(recover(), "Exclusive", &err) }()
	return fn()
}

// contain makes v, what recover has returned, the error of the stage that it happened in.
func contain(v any, stage string, err *error) {
	if v != nil {
		*err = &PanicError{Stage: stage, Value: v, Stack: debug.Stack()}
	}
}
