package txn

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ashlardb/ashlar"
)

// The lock table.
//
//  1. A lock is held by one owner, exclusively, or by any number who share it. Who cannot have it joins its queue, and the
//     queue is served in order, so that nobody starves; but who holds a share and wants the lock for itself (an upgrade)
//     goes to the front, since nobody else can be served before it anyway.
//  2. A stripe's mutex guards its locks and their queues. The graph's mutex comes after it and is a leaf.
//  3. The graph has, for each owner that waits, those it waits for, as they are now: whoever changes a lock's holders or
//     queue tells the graph before it lets go of the stripe. An owner waits for one lock at a time.
//  4. Edges appear only when someone joins a queue, and it looks for a circle in the same step. So a circle is found when it
//     closes, and by one of its members only.

// lockKey is what a lock is for.
type lockKey struct {
	family uint32
	key    string
}

// owner is who may hold locks: a transaction, or a plain write.
type owner struct {
	id      uint64
	expires time.Time // zero: never
	life    atomic.Int32
}

// The life of an owner. An expired one has lost its locks to whoever wanted them.
const (
	active int32 = iota
	ending       // it commits, or has prepared: too late to expire
	expired
)

// lost says whether the owner's locks are free for others to take.
func (o *owner) lost(now time.Time) bool {
	if o.expires.IsZero() || now.Before(o.expires) {
		return false
	}
	return o.life.CompareAndSwap(active, expired) || o.life.Load() == expired
}

type lock struct {
	holders   []*owner // one, if exclusive
	exclusive bool
	queue     []*waiter
}

// waiter is an owner in the queue of a lock.
type waiter struct {
	owner     *owner
	key       lockKey
	exclusive bool
	upgrade   bool          // it holds a share
	granted   chan struct{} // one slot
}

type stripe struct {
	mu    sync.Mutex
	locks map[lockKey]*lock
}

type lockTable struct {
	seed    maphash.Seed
	stripes []stripe
	graph   waitGraph
	closing chan struct{}
}

func newLockTable(stripes int) *lockTable {
	t := &lockTable{seed: maphash.MakeSeed(), stripes: make([]stripe, stripes), closing: make(chan struct{})}
	for i := range t.stripes {
		t.stripes[i].locks = map[lockKey]*lock{}
	}
	t.graph.waits = map[*owner]wait{}
	return t
}

func (t *lockTable) stripe(k lockKey) *stripe {
	return &t.stripes[maphash.Comparable(t.seed, k)%uint64(len(t.stripes))]
}

func (l *lock) heldBy(o *owner) bool { return slices.Contains(l.holders, o) }

// request is a wish for a lock.
type request struct {
	owner     *owner
	key       lockKey
	exclusive bool
	timeout   time.Duration // below 0: none
	detect    bool
}

// lock takes a lock, or waits for it. Taking one again, or a share of one that is held exclusively, is nothing. The error
// is ErrTimedOut, ErrClosed, ctx's, or a *DeadlockError.
func (t *lockTable) lock(ctx context.Context, r request) error {
	s := t.stripe(r.key)
	s.mu.Lock()
	l := s.locks[r.key]
	if l == nil {
		l = &lock{}
		s.locks[r.key] = l
	}
	held := l.heldBy(r.owner)
	if held && (l.exclusive || !r.exclusive) {
		s.mu.Unlock()
		return nil
	}
	if len(l.queue) == 0 && (len(l.holders) == 0 || !r.exclusive && !l.exclusive) {
		l.holders, l.exclusive = append(l.holders, r.owner), r.exclusive
		s.mu.Unlock()
		return nil
	}
	w := &waiter{owner: r.owner, key: r.key, exclusive: r.exclusive, upgrade: held, granted: make(chan struct{}, 1)}
	at := len(l.queue)
	if w.upgrade {
		at = 0
		for at < len(l.queue) && l.queue[at].upgrade {
			at++
		}
	}
	l.queue = slices.Insert(l.queue, at, w)
	t.serve(s, r.key, l, time.Now())
	select {
	case <-w.granted:
		s.mu.Unlock()
		return nil
	default:
	}
	if r.detect {
		if cycle := t.graph.cycle(r.owner); cycle != nil {
			t.leave(s, l, w)
			s.mu.Unlock()
			return &DeadlockError{Cycle: cycle}
		}
	}
	s.mu.Unlock()
	return t.wait(ctx, s, l, w, r.timeout)
}

// wait returns when w has its lock, or gives up.
func (t *lockTable) wait(ctx context.Context, s *stripe, l *lock, w *waiter, timeout time.Duration) error {
	var deadline time.Time
	if timeout >= 0 {
		deadline = time.Now().Add(timeout)
	}
	for {
		until := deadline
		s.mu.Lock()
		for _, h := range l.holders {
			if !h.expires.IsZero() && h.life.Load() != ending && (until.IsZero() || h.expires.Before(until)) {
				until = h.expires
			}
		}
		s.mu.Unlock()
		var alarm <-chan time.Time
		if !until.IsZero() {
			timer := time.NewTimer(time.Until(until))
			defer timer.Stop()
			alarm = timer.C
		}
		var err error
		select {
		case <-w.granted:
			return nil
		case <-alarm:
		case <-ctx.Done():
			err = ctx.Err()
		case <-t.closing:
			err = ashlar.ErrClosed
		}
		now := time.Now()
		s.mu.Lock()
		t.serve(s, w.key, l, now)
		select {
		case <-w.granted: // at the last moment
			s.mu.Unlock()
			return nil
		default:
		}
		if err == nil && !deadline.IsZero() && !now.Before(deadline) {
			err = fmt.Errorf("lock of key %q: %w", w.key.key, ashlar.ErrTimedOut)
		}
		if err != nil {
			t.leave(s, l, w)
			s.mu.Unlock()
			return err
		}
		s.mu.Unlock()
	}
}

// leave takes w out of the queue, and serves those who stood behind it. The stripe is locked.
func (t *lockTable) leave(s *stripe, l *lock, w *waiter) {
	l.queue = slices.DeleteFunc(l.queue, func(x *waiter) bool { return x == w })
	t.graph.forget(w.owner)
	t.serve(s, w.key, l, time.Now())
}

// serve gives the lock to those in the queue whose turn it is, tells the graph what the others wait for, and forgets a
// lock that nobody holds. The stripe is locked.
func (t *lockTable) serve(s *stripe, k lockKey, l *lock, now time.Time) {
	if len(l.queue) > 0 {
		l.holders = slices.DeleteFunc(l.holders, func(h *owner) bool { return h.lost(now) })
	}
	for len(l.queue) > 0 {
		w := l.queue[0]
		alone := len(l.holders) == 0 || len(l.holders) == 1 && l.holders[0] == w.owner
		if !alone && (w.exclusive || l.exclusive) {
			break
		}
		l.queue = l.queue[1:]
		if !l.heldBy(w.owner) {
			l.holders = append(l.holders, w.owner)
		}
		l.exclusive = w.exclusive
		t.graph.forget(w.owner)
		w.granted <- struct{}{}
	}
	t.graph.update(l)
	if len(l.holders) == 0 {
		delete(s.locks, k)
	}
}

// unlock gives a lock back. One that was lost is not there any more.
func (t *lockTable) unlock(o *owner, k lockKey) {
	s := t.stripe(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.locks[k]
	if l == nil || !l.heldBy(o) {
		return
	}
	l.holders = slices.DeleteFunc(l.holders, func(h *owner) bool { return h == o })
	t.serve(s, k, l, time.Now())
}

// held counts the locks that somebody holds.
func (t *lockTable) held() (n int) {
	for i := range t.stripes {
		s := &t.stripes[i]
		s.mu.Lock()
		n += len(s.locks)
		s.mu.Unlock()
	}
	return n
}

// waitGraph has who waits for whom.
type waitGraph struct {
	mu    sync.Mutex
	waits map[*owner]wait
}

type wait struct {
	key       lockKey
	exclusive bool
	blockers  []*owner
}

// update says what those in a lock's queue wait for: the holders, but for themselves, and those before them in the queue,
// where not both would share.
func (g *waitGraph) update(l *lock) {
	if len(l.queue) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for n, w := range l.queue {
		wt := wait{key: w.key, exclusive: w.exclusive}
		for _, h := range l.holders {
			if h != w.owner && (w.exclusive || l.exclusive) {
				wt.blockers = append(wt.blockers, h)
			}
		}
		for _, x := range l.queue[:n] {
			if w.exclusive || x.exclusive {
				wt.blockers = append(wt.blockers, x.owner)
			}
		}
		g.waits[w.owner] = wt
	}
}

func (g *waitGraph) forget(o *owner) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.waits, o)
}

// cycle returns the circle that an owner stands in, itself first; nil if there is none.
func (g *waitGraph) cycle(from *owner) []Wait {
	g.mu.Lock()
	defer g.mu.Unlock()
	var path []*owner
	seen := map[*owner]bool{}
	var visit func(o *owner) bool
	visit = func(o *owner) bool {
		if seen[o] {
			return false
		}
		seen[o] = true
		path = append(path, o)
		for _, next := range g.waits[o].blockers {
			if next == from || visit(next) {
				return true
			}
		}
		path = path[:len(path)-1]
		return false
	}
	if !visit(from) {
		return nil
	}
	var cycle []Wait
	for _, o := range path {
		w := g.waits[o]
		cycle = append(cycle, Wait{Txn: o.id, family: w.key.family, Key: []byte(w.key.key), Exclusive: w.exclusive})
	}
	return cycle
}

// DeadlockError is what the transaction gets whose wait would close a circle of waits. It matches ErrBusy. The others of
// the circle go on waiting; Rollback of this one lets them.
type DeadlockError struct {
	// Cycle are the waits of the circle, that of the transaction with the error first. Each is for a lock that the next
	// one's transaction holds, or is to have before it; the last is for one of the first's.
	Cycle []Wait
}

// Wait is one transaction's wait for a lock.
type Wait struct {
	// Txn is the transaction's ID.
	Txn uint64
	// ColumnFamily and Key are what it wants to lock, exclusively or for a share.
	ColumnFamily string
	Key          []byte
	Exclusive    bool

	family uint32
}

func (e *DeadlockError) Error() string {
	var b strings.Builder
	b.WriteString("deadlock")
	for i, w := range e.Cycle {
		mark := ";"
		if i == 0 {
			mark = ":"
		}
		fmt.Fprintf(&b, "%s transaction %d waits for key %q of column family %q and transaction %d", mark, w.Txn, w.Key, w.ColumnFamily,
			e.Cycle[(i+1)%len(e.Cycle)].Txn)
	}
	return b.String()
}

// Is makes it match ErrBusy.
func (e *DeadlockError) Is(target error) bool { return target == ashlar.ErrBusy }

// compare orders lock keys: whoever takes several at once takes them in order.
func (k lockKey) compare(x lockKey) int {
	if k.family != x.family {
		return int(int64(k.family) - int64(x.family))
	}
	return strings.Compare(k.key, x.key)
}
