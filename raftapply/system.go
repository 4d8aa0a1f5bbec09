package raftapply

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ashlardb/ashlar"
)

// Engine is what a System needs of a database. *ashlar.DB is one.
type Engine interface {
	Write(b *ashlar.Batch, o *ashlar.WriteOptions) error
	NewSnapshot() *ashlar.Snapshot
	ColumnFamily(name string) (*ashlar.ColumnFamily, bool)
}

var _ Engine = (*ashlar.DB)(nil)

// DefaultStateFamily is the name of the column family that holds the ApplyStates.
const DefaultStateFamily = "raft"

// Options of a System. The zero value is ready.
type Options struct {
	// Config is nil for DefaultConfig.
	Config *Config
	// StateFamily is the name of the column family that holds the ApplyStates; "" for DefaultStateFamily. It must exist.
	StateFamily string
	// OnApplied, if not nil, is told how far regions are, once per write at most. It is called on workers, perhaps on
	// several at a time, but for a region in order. It must not block. The slice is the callee's.
	OnApplied func([]Applied)
	// OnFatal, if not nil, is told once, and then nothing is applied any more: the engine refused a write. The error matches
	// ErrFailed and the engine's. It runs on a worker and must not wait for Close.
	OnFatal func(error)
	// Logger gets a line for slow turns, poisoned regions and panics. nil for slog.Default().
	Logger *slog.Logger
}

// System applies the logs of many regions with few workers. All methods may be called from many goroutines.
//
// Lock order: mu, then a region's mu, then the run queue's.
type System struct {
	engine    Engine
	states    *ashlar.ColumnFamily
	onApplied func([]Applied)
	onFatal   func(error)
	log       *slog.Logger
	now       func() time.Time
	queue     *runQueue

	config  atomic.Pointer[Config]
	failed  atomic.Pointer[error]
	closing atomic.Bool
	rounds  atomic.Uint64 // numbers of rounds
	written atomic.Uint64 // keys of all regions
	count   counts
	workers sync.WaitGroup
	done    chan struct{} // closed when Close is through

	mu      sync.RWMutex
	regions map[RegionID]*region
}

// Open starts the workers.
func Open(e Engine, o *Options) (*System, error) {
	s, err := newSystem(e, o, time.Now)
	if err == nil {
		c := s.config.Load()
		s.resize(normal, c.ApplyPoolSize)
		s.resize(low, c.ApplyLowPriorityPoolSize)
	}
	return s, err
}

// newSystem makes a System without workers.
func newSystem(e Engine, o *Options, now func() time.Time) (*System, error) {
	if o == nil {
		o = &Options{}
	}
	c := DefaultConfig()
	if o.Config != nil {
		c = *o.Config
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	name := o.StateFamily
	if name == "" {
		name = DefaultStateFamily
	}
	states, ok := e.ColumnFamily(name)
	if !ok {
		return nil, invalid("there is no column family %q for the apply states", name)
	}
	s := &System{
		engine: e, states: states, onFatal: o.OnFatal, log: o.Logger, now: now, queue: newRunQueue(now),
		done: make(chan struct{}), regions: map[RegionID]*region{},
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.onApplied = func(all []Applied) {
		if o.OnApplied != nil && len(all) > 0 {
			s.guarded(all[0].Region, "OnApplied", func() { o.OnApplied(all) })
		}
	}
	s.config.Store(&c)
	return s, nil
}

// resize starts workers of a lane, or lets some end. mu is held, or nobody else knows s.
func (s *System) resize(l lane, n int) {
	for _, id := range s.queue.resize(l, n) {
		s.workers.Go(s.newWorker(l, id).run)
	}
}

// RegionOptions of a region. The zero value is ready.
type RegionOptions struct {
	// Initial is the state of a region of which the database holds none.
	Initial ApplyState
}

// Register makes a region known and returns its state: what the database holds, or o.Initial. The entries that follow it
// are due. A nil o is the zero value. ErrRegionExists until a region of that name is gone for good.
func (s *System) Register(id RegionID, sm StateMachine, o *RegionOptions) (ApplyState, error) {
	if sm == nil {
		return ApplyState{}, invalid("region %d without a state machine", id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return ApplyState{}, err
	}
	if s.regions[id] != nil {
		return ApplyState{}, fmt.Errorf("%w: %d", ErrRegionExists, id)
	}
	state, found, err := ReadApplyState(s.states, id, nil)
	if err != nil {
		return ApplyState{}, err
	}
	if !found && o != nil {
		state = o.Initial
		if state.Commit < state.Applied {
			state.Commit, state.CommitTerm = state.Applied, state.AppliedTerm
		}
	}
	s.regions[id] = &region{id: id, s: s, sm: sm, gone: make(chan struct{}), state: state, applied: state}
	return state, nil
}

// usable returns ErrClosed or ErrFailed if nothing more is to be done.
func (s *System) usable() error {
	if s.closing.Load() {
		return ErrClosed
	}
	return s.failure()
}

func (s *System) failure() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *System) region(id RegionID) (*region, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	r := s.regions[id]
	switch {
	case s.closing.Load():
		return nil, ErrClosed
	case r == nil:
		return nil, fmt.Errorf("%w: %d", ErrNoRegion, id)
	}
	return r, nil
}

func (s *System) all() []*region {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*region, 0, len(s.regions))
	for _, r := range s.regions {
		all = append(all, r)
	}
	return all
}

// wake schedules a region if it is idle.
func (s *System) wake(r *region) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wakeLocked()
}

// forget lets a removed region's name be free. The region stays scheduled, so that nobody schedules it again.
func (s *System) forget(r *region) {
	s.mu.Lock()
	delete(s.regions, r.id)
	s.mu.Unlock()
	close(r.gone)
}

// Send hands entries over. It never waits, and takes all of the task or, with an error, nothing: ErrBusy, ErrNoRegion,
// ErrRegionRemoved, ErrPoisoned, ErrFailed, ErrClosed; then no Done is called. Entries that are in already are skipped.
func (s *System) Send(t Task) error {
	m := mail{Task: t}
	var bytes uint64
	for i, e := range t.Entries {
		if e.Kind > ConfChange || e.Index != t.Entries[0].Index+uint64(i) {
			return invalid("region %d: entry %d of a task is of kind %d, with index %d; the first one's is %d",
				t.Region, i, e.Kind, e.Index, t.Entries[0].Index)
		}
		bytes += uint64(len(e.Data))
	}
	r, err := s.region(t.Region)
	if err == nil {
		err = s.failure()
	}
	if err != nil {
		return err
	}
	m.sent = s.now()
	r.mu.Lock()
	err = r.err
	if most := s.config.Load().MaxPendingBytes; err == nil && r.lag.Bytes > uint64(most) {
		err = fmt.Errorf("%w: %d bytes in region %d", ErrBusy, r.lag.Bytes, r.id)
	}
	if err == nil {
		r.lag.Entries += uint64(len(t.Entries))
		r.lag.Bytes += bytes
		// First into the run queue, then the stamp: what is written while this goroutine waits for the queue's lock is
		// nothing that the task waited for. Who takes the region now waits for mu.
		r.wakeLocked()
		m.stamp = int64(s.written.Load()) - int64(r.keys)
		r.mailbox.push(m)
	}
	r.mu.Unlock()
	return err
}

// Snapshot returns the database at a moment between two turns of the region.
func (s *System) Snapshot(ctx context.Context, id RegionID) (*Snapshot, error) {
	r, err := s.region(id)
	if err != nil {
		return nil, err
	}
	ask := &snapshotRequest{done: make(chan snapshotResult, 1)}
	r.mu.Lock()
	if err := r.err; err != nil {
		r.mu.Unlock()
		return nil, err
	}
	r.snapshots = append(r.snapshots, ask)
	r.mu.Unlock()
	s.wake(r)
	select {
	case got := <-ask.done:
		return got.snapshot, got.err
	case <-ctx.Done():
	}
	r.mu.Lock()
	taken := true
	for i, one := range r.snapshots {
		if one == ask {
			r.snapshots = append(r.snapshots[:i], r.snapshots[i+1:]...)
			taken = false
			break
		}
	}
	r.mu.Unlock()
	if taken { // it comes, and nobody wants it
		if got := <-ask.done; got.snapshot != nil {
			got.snapshot.Release()
		}
	}
	return nil, ctx.Err()
}

// Remove ends a region: an entry being applied is finished and written, nothing more is applied, and every proposal gets
// ErrRegionRemoved. When it returns nil, the region is gone, and its name is free. Its data stays. If ctx ends first, the
// removal goes on.
func (s *System) Remove(ctx context.Context, id RegionID) error {
	r, err := s.region(id)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.end.Store(true)
	r.err = ErrRegionRemoved
	r.mu.Unlock()
	s.wake(r)
	select {
	case <-r.gone:
		return nil
	case <-s.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WaitApplied waits until the entry at index is written and readable.
func (s *System) WaitApplied(ctx context.Context, id RegionID, index uint64) error {
	r, err := s.region(id)
	if err != nil {
		return err
	}
	w := &waiter{index, make(chan error, 1)}
	r.mu.Lock()
	if r.state.Applied >= index || r.err != nil {
		err := r.err
		if r.state.Applied >= index {
			err = nil
		}
		r.mu.Unlock()
		return err
	}
	r.waiters = append(r.waiters, w)
	r.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, one := range r.waiters {
		if one == w {
			r.waiters = append(r.waiters[:i], r.waiters[i+1:]...)
			break
		}
	}
	return ctx.Err()
}

// AppliedLag returns how much waits in a region, for who wants to refuse proposals before Send does.
func (s *System) AppliedLag(id RegionID) (Lag, error) {
	r, err := s.region(id)
	if err != nil {
		return Lag{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lag, nil
}

// State returns how far a region is in the database.
func (s *System) State(id RegionID) (ApplyState, error) {
	r, err := s.region(id)
	if err != nil {
		return ApplyState{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state, nil
}

// Config returns the configuration.
func (s *System) Config() Config { return *s.config.Load() }

// Update changes the configuration. What change makes of it is validated, and taken by each worker when its next round
// begins. With an error everything stays as it was.
func (s *System) Update(change func(*Config)) error {
	return s.update(func(c *Config) error { change(c); return nil })
}

// Set changes one setting, by its name in configuration files.
func (s *System) Set(name, value string) error {
	return s.update(func(c *Config) error { return c.Set(name, value) })
}

func (s *System) update(change func(*Config) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return ErrClosed
	}
	c := s.Config()
	if err := change(&c); err != nil {
		return err
	}
	if err := c.Validate(); err != nil {
		return err
	}
	old := s.config.Swap(&c)
	if old.ApplyPoolSize != c.ApplyPoolSize {
		s.resize(normal, c.ApplyPoolSize)
	}
	if old.ApplyLowPriorityPoolSize != c.ApplyLowPriorityPoolSize {
		s.resize(low, c.ApplyLowPriorityPoolSize)
	}
	return nil
}

// Close ends the workers: what is being applied is finished and written, and what waits gets ErrClosed. The database stays
// open. If ctx ends first, its error is returned while a state machine that hangs is left alone; Close may be called again.
func (s *System) Close(ctx context.Context) error {
	s.mu.Lock()
	if !s.closing.Swap(true) {
		s.resize(low, 0)
		s.resize(normal, 0)
		go func() {
			s.workers.Wait()
			for _, r := range s.all() {
				r.finish(ErrClosed)
			}
			close(s.done)
		}()
	}
	s.mu.Unlock()
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// complete calls a Done.
func (s *System) complete(id RegionID, done func(Result), res Result) {
	if done != nil {
		s.guarded(id, "Done", func() { done(res) })
	}
}

// guarded calls a callback of the user's. A panic is logged and counted.
func (s *System) guarded(id RegionID, what string, fn func()) {
	if err := guard(what, fn); err != nil {
		s.count.panicked()
		s.log.Error(err.Error(), slog.Uint64("region", uint64(id)))
	}
}
