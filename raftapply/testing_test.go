package raftapply

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/stretchr/testify/require"
)

// What the tests share: a database in memory whose writes can be watched and refused, a clock that stands still, workers
// that a test steps, and a state machine that adds up, so that an entry that is applied twice shows.

// testEngine is a database with a door for trouble.
type testEngine struct {
	*ashlar.DB
	mu     sync.Mutex
	writes int
	// onWrite, if set, is called with the number of the write. It returns an error to be returned, and whether the write
	// is done nevertheless.
	onWrite func(n int) (err error, done bool)
	// unwritten makes Write do nothing.
	unwritten bool
}

func (e *testEngine) Write(b *ashlar.Batch, o *ashlar.WriteOptions) error {
	e.mu.Lock()
	e.writes++
	n, hook := e.writes, e.onWrite
	e.mu.Unlock()
	if hook != nil {
		if err, done := hook(n); err != nil {
			if done {
				if err := e.DB.Write(b, o); err != nil {
					return err
				}
			}
			return err
		}
	}
	if e.unwritten {
		return nil
	}
	return e.DB.Write(b, o)
}

func openDB(t testing.TB, fs vfs.FS) *ashlar.DB {
	t.Helper()
	small := ashlar.ColumnFamilyOptions{WriteBufferSize: 1 << 20}
	db, err := ashlar.Open("db", &ashlar.Options{FS: fs, ColumnFamilyOptions: small})
	require.NoError(t, err)
	for _, name := range []string{DefaultStateFamily, "lock", "write"} {
		if _, ok := db.ColumnFamily(name); !ok {
			_, err := db.CreateColumnFamily(name, nil)
			require.NoError(t, err)
		}
	}
	return db
}

func newEngine(t testing.TB) *testEngine {
	db := openDB(t, vfs.NewMem())
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return &testEngine{DB: db}
}

// fixture is a System whose workers the test steps.
type fixture struct {
	*System
	t       testing.TB
	db      *testEngine
	clock   time.Time
	workers []*worker // of the normal lane
	slow    []*worker // of the other
	said    []Applied
	fatal   []error
	log     lines
	next    map[RegionID]uint64 // index of the next entry
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(p)
	return len(p), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

func newFixture(t testing.TB, e *testEngine, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, db: e, clock: time.Unix(0, 0), next: map[RegionID]uint64{}}
	c := DefaultConfig()
	c.ApplyPoolSize, c.ApplyLowPriorityPoolSize = 1, 0
	if change != nil {
		change(&c)
	}
	o := &Options{
		Config:    &c,
		OnApplied: func(all []Applied) { f.said = append(f.said, all...) },
		OnFatal:   func(err error) { f.fatal = append(f.fatal, err) },
		Logger:    slog.New(slog.NewTextHandler(&f.log, nil)),
	}
	var err error
	f.System, err = newSystem(e, o, func() time.Time { return f.clock })
	require.NoError(t, err)
	for _, id := range f.queue.resize(normal, c.ApplyPoolSize) {
		f.workers = append(f.workers, f.newWorker(normal, id))
	}
	for _, id := range f.queue.resize(low, c.ApplyLowPriorityPoolSize) {
		f.slow = append(f.slow, f.newWorker(low, id))
	}
	return f
}

// run steps all workers until there is nothing to do.
func (f *fixture) run() {
	for busy := true; busy; {
		busy = false
		for _, w := range append(f.workers, f.slow...) {
			for w.step(false) {
				busy = true
			}
		}
	}
}

// add makes a region with an adder.
func (f *fixture) add(id RegionID) *adder {
	f.t.Helper()
	a := newAdder(f.db.DB, id)
	state, err := f.Register(id, a, nil)
	require.NoError(f.t, err)
	f.next[id] = state.Applied + 1
	return a
}

// entries makes the region's next entries of commands.
func (f *fixture) entries(id RegionID, commands ...[]byte) (all []Entry) {
	for _, c := range commands {
		e := Entry{Index: f.next[id], Term: 1, Data: c}
		if len(c) == 0 {
			e.Kind = Empty
		} else if c[0]&opConf != 0 {
			e.Kind = ConfChange
		}
		all = append(all, e)
		f.next[id]++
	}
	return all
}

// send sends the region's next entries with a proposal for each, and returns where their results will be.
func (f *fixture) send(id RegionID, commands ...[]byte) *results {
	f.t.Helper()
	t, r := f.task(id, commands...)
	require.NoError(f.t, f.Send(t))
	return r
}

func (f *fixture) task(id RegionID, commands ...[]byte) (Task, *results) {
	t := Task{Region: id, Entries: f.entries(id, commands...)}
	r := &results{all: make([][]Result, len(commands))}
	for i, e := range t.Entries {
		t.Proposals = append(t.Proposals, Proposal{Index: e.Index, Term: e.Term, Done: func(res Result) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.all[i] = append(r.all[i], res)
		}})
	}
	return t, r
}

// state reads a region's state from the database.
func (f *fixture) stored(id RegionID) ApplyState {
	f.t.Helper()
	s, _, err := ReadApplyState(f.states, id, nil)
	require.NoError(f.t, err)
	return s
}

// results are those of a task's proposals: each may have come any number of times.
type results struct {
	mu  sync.Mutex
	all [][]Result
}

// once calls run, if not nil, and returns the results, each of which must have come once.
func (r *results) once(t testing.TB, run func()) (all []Result) {
	t.Helper()
	if run != nil {
		run()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, one := range r.all {
		require.Len(t, one, 1, "proposal %d", i)
		all = append(all, one[0])
	}
	return all
}

// none says that none has come.
func (r *results) none(t testing.TB) {
	t.Helper()
	for i, one := range r.all {
		require.Empty(t, one, "proposal %d", i)
	}
}

// An adder's command is a set of these, a key, and padding.
const (
	opAdd     = 1 << iota // add 1 to the key
	opRefuse              // then be refused
	opBreak               // fail, here alone
	opPanic               // panic
	opRead                // ask for FlushBefore, and compare what is added to with the database
	opAfter               // ask for FlushAfter
	opConf                // the entry is a ConfChange
	opRemove              // which removes this replica
	opLowly   = 1 << 8    // ask for the low-priority lane, and delete the key by a range delete
	opSynced  = 1 << 9
	opFamily2 = 1 << 10 // into another family
)

// command makes one of some ops on a key, with a value of a size.
func command(ops int, key byte, size int) []byte {
	return append(binary.LittleEndian.AppendUint16(nil, uint16(ops)), append([]byte{key}, make([]byte, size)...)...)
}

// adder counts: every key holds how often it was added to. It has the sums in memory, since what is not yet written
// cannot be read.
type adder struct {
	id     RegionID
	db     *ashlar.DB
	sums   map[byte]uint64
	before func(e Entry) // if set, is called by Apply
}

func newAdder(db *ashlar.DB, id RegionID) *adder { return &adder{id: id, db: db} }

func adderKey(id RegionID, k byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte("z"), uint64(id)), k)
}

// adderFamily spreads keys over families.
func adderFamily(db *ashlar.DB, k byte) *ashlar.ColumnFamily {
	cf, _ := db.ColumnFamily([]string{"default", "lock", "write"}[k%3])
	return cf
}

func (a *adder) Hint(e Entry) (h Hint) {
	ops := int(binary.LittleEndian.Uint16(e.Data))
	for _, one := range []struct {
		op   int
		hint Hint
	}{{opRead, FlushBefore}, {opAfter, FlushAfter}, {opLowly, LowPriority}, {opSynced, Sync}} {
		if ops&one.op != 0 {
			h |= one.hint
		}
	}
	return h
}

var (
	errRefused = errors.New("refused, as everywhere")
	errBroken  = errors.New("broken here")
)

func (a *adder) Apply(w Writer, e Entry) (Result, error) {
	if a.before != nil {
		a.before(e)
	}
	ops, k, pad := int(binary.LittleEndian.Uint16(e.Data)), e.Data[2], e.Data[3:]
	cf, key := adderFamily(a.db, k), adderKey(a.id, k)
	if a.sums == nil {
		a.sums = readSums(a.db, a.id, nil)
	}
	if ops&opRead != 0 && a.sums[k] != readSums(a.db, a.id, nil)[k] {
		return Result{}, fmt.Errorf("FlushBefore: the database is behind")
	}
	old := a.sums[k]
	value := binary.BigEndian.AppendUint64(nil, old+1)
	if ops&opLowly != 0 {
		if err := w.DeleteRange(cf, key, append(key, 0)); err != nil {
			return Result{}, err
		}
		value = nil
	} else if err := w.Put(cf, key, append(value, pad...)); err != nil {
		return Result{}, err
	}
	switch {
	case ops&opRefuse != 0:
		return Result{Err: errRefused}, nil
	case ops&opBreak != 0:
		return Result{}, errBroken
	case ops&opPanic != 0:
		panic("here")
	}
	a.sums[k] = old + 1
	if value == nil {
		delete(a.sums, k)
	}
	return Result{Value: a.sums[k], RemoveSelf: ops&opRemove != 0}, nil
}

// model does what an adder should, entry by entry.
func model(entries []Entry) map[byte]uint64 {
	sums := map[byte]uint64{}
	for _, e := range entries {
		if e.Kind == Empty {
			continue
		}
		ops := int(binary.LittleEndian.Uint16(e.Data))
		switch {
		case ops&opRefuse != 0:
		case ops&opLowly != 0:
			delete(sums, e.Data[2])
		default:
			sums[e.Data[2]]++
		}
	}
	return sums
}

// readSums reads what a region has in the database.
func readSums(db *ashlar.DB, id RegionID, o *ashlar.ReadOptions) map[byte]uint64 {
	sums := map[byte]uint64{}
	for _, name := range []string{"default", "lock", "write"} {
		cf, _ := db.ColumnFamily(name)
		it := cf.Prefix(adderKey(id, 0)[:9], o)
		for k, v := range it.All() {
			sums[k[9]] = binary.BigEndian.Uint64(v)
		}
		if err := it.Close(); err != nil {
			panic(err)
		}
	}
	return sums
}

func readAt(s *Snapshot) *ashlar.ReadOptions { return &ashlar.ReadOptions{Snapshot: s.Snapshot} }

var background = context.Background()

// canceled is a context that has ended.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(background)
	cancel()
	return ctx
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
