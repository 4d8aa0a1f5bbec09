package raftapply

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/stretchr/testify/require"
)

// long is how much longer than usual tests run: ASHLAR_LONG, or 1.
func long() int {
	n, err := strconv.Atoi(os.Getenv("ASHLAR_LONG"))
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// TestRandomProgramsAgreeWithAModel runs programs of everything that can be done to a System, with its workers stepped in
// a random order, regions taken from the run queue in a random order, and a clock that jumps. The model knows nothing of
// turns: an entry's result follows from those before it. 100 programs, and ASHLAR_LONG=100 makes them 10,000.
func TestRandomProgramsAgreeWithAModel(t *testing.T) {
	const perDatabase = 50
	for base := 0; base < 100*long(); base += perDatabase {
		e := &testEngine{DB: openDB(t, vfs.NewMem())}
		for i := range perDatabase {
			p := &program{t: t, e: e, seed: uint64(base + i), rng: rand.New(rand.NewPCG(uint64(base+i), 3))}
			p.main()
			if t.Failed() {
				t.Fatalf("seed %d", p.seed)
			}
		}
		require.NoError(t, e.Close())
	}
}

// program is one run. Its regions' ids are its own, so that many can share a database.
type program struct {
	t       *testing.T
	e       *testEngine
	seed    uint64
	rng     *rand.Rand
	f       *fixture
	regions []*modelRegion
	failing bool // the engine has refused, or will
}

// modelRegion is what a region should be.
type modelRegion struct {
	p        *program
	id       RegionID
	log      []Entry // all that there are
	results  []Result
	sums     map[byte]uint64 // after all of log
	sent     uint64          // the index up to which was sent
	said     uint64
	poisoned uint64 // the index of an entry that breaks, 0 if there is none
	removing bool   // Remove was called, or an entry removes
	gone     bool
	promises []*modelPromise
}

type modelPromise struct {
	index uint64
	stale bool
	got   []Result
}

func (p *program) main() {
	p.open()
	for range 3 + p.rng.IntN(2) {
		r := &modelRegion{p: p, id: RegionID(p.seed*16 + uint64(len(p.regions)) + 1), sums: map[byte]uint64{}}
		p.regions = append(p.regions, r)
		p.register(r)
	}
	for range 60 {
		p.act()
	}
	if p.rng.IntN(2) == 0 {
		p.drain()
	}
	p.close()
	// Open anew, and apply everything that is left.
	p.e.onWrite = nil
	p.failing = false
	p.open()
	for _, r := range p.regions {
		if r.poisoned > 0 {
			continue
		}
		p.register(r)
		p.send(r, len(r.log))
	}
	p.drain()
	for _, r := range p.regions {
		p.check(r, nil, p.f.stored(r.id))
		if r.poisoned == 0 && !r.gone {
			require.EqualValues(p.t, len(r.log), p.f.stored(r.id).Applied, "seed %d: region %d", p.seed, r.id)
		}
	}
	p.close()
}

func (p *program) open() {
	p.f = newFixture(p.t, p.e, p.configure)
	p.f.queue.pick = p.rng.IntN
	p.f.System.onApplied = func(all []Applied) {
		for _, a := range all {
			p.region(a.Region).heard(a)
		}
	}
	for len(p.f.workers) < 3 { // those above the pool's size find that they are too many
		p.f.workers = append(p.f.workers, p.f.newWorker(normal, len(p.f.workers)))
	}
	p.f.slow = append(p.f.slow[:0], p.f.newWorker(low, 0), p.f.newWorker(low, 1))
	p.f.queue.resize(normal, 3)
	p.f.queue.resize(low, 2)
	p.resize()
}

// resize brings the queue to the configuration, without starting anybody.
func (p *program) resize() {
	c := p.f.Config()
	p.f.queue.resize(normal, c.ApplyPoolSize)
	p.f.queue.resize(low, c.ApplyLowPriorityPoolSize)
}

func (p *program) configure(c *Config) {
	pick := func(all ...int) int { return all[p.rng.IntN(len(all))] }
	c.ApplyYieldWriteSize = []Size{0, 100, 1000, NoYield}[p.rng.IntN(4)]
	c.ApplyYieldDuration = time.Duration(pick(0, 1, 100))
	c.NoYieldWhenAlone = p.rng.IntN(4) == 0
	c.MessagesPerTick = pick(1, 2, 4096)
	c.ApplyMaxBatchSize = pick(1, 2, 256)
	c.MaxBatchKeys = pick(1, 3, 8, 256)
	c.MaxBatchBytes = Size(pick(0, 50, 500))
	c.ApplyPoolSize = pick(1, 2, 3)
	c.ApplyLowPriorityPoolSize = pick(0, 1, 2)
	c.MaxPendingBytes = Size(pick(20, 1<<20))
}

func (p *program) region(id RegionID) *modelRegion { return p.regions[id-RegionID(p.seed*16)-1] }

func (p *program) register(r *modelRegion) {
	state, err := p.f.Register(r.id, newAdder(p.e.DB, r.id), nil)
	require.NoError(p.t, err)
	require.Equal(p.t, p.f.stored(r.id), state)
	r.sent, r.said = state.Applied, state.Applied
	r.removing, r.gone = false, false
}

// act does something.
func (p *program) act() {
	r := p.regions[p.rng.IntN(len(p.regions))]
	p.f.clock = p.f.clock.Add(time.Duration(p.rng.IntN(50)))
	switch p.rng.IntN(30) {
	case 0:
		require.NoError(p.t, p.f.update(func(c *Config) error {
			pools := *c
			p.configure(c)
			c.ApplyPoolSize, c.ApplyLowPriorityPoolSize = pools.ApplyPoolSize, pools.ApplyLowPriorityPoolSize
			return nil
		}))
	case 1:
		err := p.f.Remove(canceled(), r.id)
		require.Error(p.t, err)
		r.removing = r.removing || !r.gone
	case 2:
		if r.gone && r.poisoned == 0 && !p.failing {
			p.register(r)
		}
	case 3:
		p.snapshot(r)
	case 4:
		if p.rng.IntN(8) == 0 {
			p.poison(r)
		}
	case 5:
		if p.rng.IntN(8) == 0 && !p.failing {
			p.failing = true
			at, done := p.e.writes+1+p.rng.IntN(4), p.rng.IntN(2) == 0
			p.e.onWrite = func(n int) (error, bool) {
				if n >= at {
					return errors.New("the end"), done && n == at
				}
				return nil, false
			}
		}
	case 6:
		p.check(r, nil, p.f.stored(r.id))
	case 7, 8, 9, 10, 11, 12:
		p.extend(r, 1+p.rng.IntN(6))
		p.send(r, 1+p.rng.IntN(8))
	default:
		for range 1 + p.rng.IntN(3) {
			all := append(p.f.workers, p.f.slow...)
			all[p.rng.IntN(len(all))].step(false)
		}
	}
}

// extend makes the log longer.
func (p *program) extend(r *modelRegion, n int) {
	if r.poisoned > 0 {
		return
	}
	for range n {
		e := Entry{Index: uint64(len(r.log)) + 1, Term: 2}
		k := byte(p.rng.IntN(4))
		switch p.rng.IntN(14) {
		case 0:
			e.Kind = Empty
		case 1:
			e.Kind, e.Data = ConfChange, command(opConf, k, 0)
		case 2:
			e.Data = command(opRefuse, k, p.rng.IntN(20))
		case 3, 4:
			e.Data = command(opLowly, k, 0)
		case 5:
			e.Data = command(opRead, k, 0)
		case 6:
			e.Data = command(opAfter, k, 0)
		default:
			e.Data = command(opAdd, k, p.rng.IntN(60))
		}
		p.append(r, e)
	}
}

func (p *program) append(r *modelRegion, e Entry) {
	res := Result{}
	r.log = append(r.log, e)
	if e.Kind != Empty {
		ops := int(e.Data[0]) | int(e.Data[1])<<8
		k := e.Data[2]
		switch {
		case ops&opRefuse != 0:
			res.Err = errRefused
		case ops&(opBreak|opPanic) != 0:
			r.poisoned = e.Index
		case ops&opLowly != 0:
			delete(r.sums, k)
			res.Value = uint64(0)
		default:
			r.sums[k]++
			res.Value = r.sums[k]
		}
	}
	r.results = append(r.results, res)
}

func (p *program) poison(r *modelRegion) {
	if r.poisoned == 0 {
		p.append(r, Entry{Index: uint64(len(r.log)) + 1, Term: 2, Data: command([]int{opBreak, opPanic}[p.rng.IntN(2)], 0, 9)})
	}
}

// send sends up to n of the entries that were not sent, and sometimes some of those that were.
func (p *program) send(r *modelRegion, n int) {
	if r.gone {
		return
	}
	from, to := r.sent, min(r.sent+uint64(n), uint64(len(r.log)))
	fresh := from
	if p.rng.IntN(4) == 0 {
		from -= min(from, uint64(p.rng.IntN(3)))
	}
	task := Task{Region: r.id, Commit: to, CommitTerm: 2, Entries: r.log[from:to]}
	var promises []*modelPromise
	for i := fresh + 1; i <= to; i++ {
		if p.rng.IntN(3) == 0 {
			continue
		}
		m := &modelPromise{index: i, stale: p.rng.IntN(5) == 0}
		term := uint64(2)
		if m.stale {
			term = 1
		}
		task.Proposals = append(task.Proposals, Proposal{i, term, func(res Result) { r.answered(m, res) }})
		promises = append(promises, m)
	}
	before := *r
	err := p.f.Send(task)
	switch {
	case err == nil:
		require.False(p.t, before.removing, "a region being removed takes nothing")
		r.sent = to
		r.promises = append(r.promises, promises...)
	case errors.Is(err, ErrRegionRemoved):
		require.True(p.t, r.removing)
	case errors.Is(err, ErrPoisoned):
		require.NotZero(p.t, r.poisoned)
	case errors.Is(err, ErrFailed):
		require.True(p.t, p.failing)
	default:
		require.ErrorIs(p.t, err, ErrBusy)
		require.NotZero(p.t, p.f.regions[r.id].lag)
	}
}

// answered is every Done.
func (r *modelRegion) answered(m *modelPromise, res Result) {
	p := r.p
	m.got = append(m.got, res)
	in := p.f.stored(r.id).Applied >= m.index
	where := fmt.Sprintf("seed %d, region %d, entry %d", p.seed, r.id, m.index)
	switch {
	case errors.Is(res.Err, ErrStale):
		require.True(p.t, m.stale, where)
	case errors.Is(res.Err, ErrRegionRemoved):
		require.True(p.t, r.removing && (!in || m.stale), where)
	case errors.Is(res.Err, ErrPoisoned):
		require.True(p.t, r.poisoned > 0 && m.index >= r.poisoned, where)
	case errors.Is(res.Err, ErrFailed):
		require.True(p.t, p.failing, where)
	case errors.Is(res.Err, ErrClosed):
		require.True(p.t, p.f.closing.Load(), where)
	default:
		require.True(p.t, in, "%s: no callback before the write", where)
		require.False(p.t, m.stale, where)
		want := r.results[m.index-1]
		require.Equal(p.t, want.Value, orNil(res.Value, want.Err), where)
		require.ErrorIs(p.t, res.Err, want.Err, where)
	}
}

func orNil(v any, err error) any {
	if err != nil {
		return nil
	}
	return v
}

// heard is every Applied.
func (r *modelRegion) heard(a Applied) {
	p := r.p
	where := fmt.Sprintf("seed %d: %+v", p.seed, a)
	require.Equal(p.t, r.said+a.Entries, a.State.Applied, where)
	if p.f.failure() == nil {
		require.Equal(p.t, a.State, p.f.stored(r.id), where)
	}
	var confs []Entry
	for _, e := range r.log[r.said:a.State.Applied] {
		if e.Kind == ConfChange {
			confs = append(confs, e)
		}
	}
	require.Equal(p.t, confs, a.ConfChanges, where)
	r.said = a.State.Applied
	if a.Removed {
		require.True(p.t, r.removing, where)
		r.gone = true
		for _, m := range r.promises {
			require.Len(p.t, m.got, 1, "%s: promise %d of %d, stale %v; sent %d; failing %v", where, m.index, len(r.promises), m.stale, r.sent, p.failing)
		}
	}
	if a.Err != nil {
		require.Equal(p.t, r.poisoned, a.State.Applied+1, where)
	}
}

// snapshot asks for one and steps until it comes.
func (p *program) snapshot(r *modelRegion) {
	if r.gone {
		return
	}
	done := make(chan snapshotResult, 1)
	one := p.f.regions[r.id]
	one.mu.Lock()
	if one.err == nil {
		one.snapshots = append(one.snapshots, &snapshotRequest{done})
		one.wakeLocked()
	} else {
		done <- snapshotResult{err: one.err}
	}
	one.mu.Unlock()
	if p.rng.IntN(2) == 0 {
		p.act()
	}
	p.drain()
	got := <-done
	if got.err != nil {
		require.True(p.t, r.removing || r.poisoned > 0 || p.failing, "%v", got.err)
		return
	}
	p.check(r, readAt(got.snapshot), got.snapshot.State)
	got.snapshot.Release()
}

// check holds what the database has of a region against the model.
func (p *program) check(r *modelRegion, o *ashlar.ReadOptions, s ApplyState) {
	got := readSums(p.e.DB, r.id, o)
	if want := model(r.log[:s.Applied]); !maps.Equal(want, got) {
		require.Equal(p.t, want, got, "seed %d: region %d at %d", p.seed, r.id, s.Applied)
	}
	require.GreaterOrEqual(p.t, s.Commit, s.Applied)
}

// drain steps workers until there is nothing to do.
func (p *program) drain() {
	all := append(p.f.workers, p.f.slow...)
	for idle := 0; idle < 200; idle++ {
		if all[p.rng.IntN(len(all))].step(false) {
			idle = 0
		}
	}
	require.Zero(p.t, p.f.queue.length(normal)+p.f.queue.length(low))
}

// close ends the System as Close does: workers finish their rounds first.
func (p *program) close() {
	p.f.closing.Store(true)
	for _, w := range append(p.f.workers, p.f.slow...) {
		if w.round != 0 {
			w.endRound()
		}
	}
	for _, r := range p.f.all() {
		r.finish(ErrClosed)
	}
	for _, r := range p.regions {
		for _, m := range r.promises {
			require.Len(p.t, m.got, 1, "seed %d: region %d: every proposal is answered once: entry %d", p.seed, r.id, m.index)
		}
		r.promises = nil
		p.check(r, nil, p.f.stored(r.id))
	}
}
