package ashlar

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/vfs/faultfs"
)

// A fault run is a fixed life of a database in which some call of the file system fails. Whatever it is: nothing panics
// or hangs, a write that failed is not seen, Resume helps as soon as the disk does, and nothing that was acknowledged
// is lost.

// faultRun is one such life.
type faultRun struct {
	mem   *vfs.Mem
	fs    *faultfs.FS
	story *chronicle
	rng   *rand.Rand
	// dead says that the disk stays dead. Otherwise only one call fails, and Resume has to help.
	dead bool
	mode logMode
	// gaveUp is set when Open failed, or Resume on a dead disk: what failed may then come back from the log.
	gaveUp bool
	// closeFailed is set when Close did: what ManualWALFlush had left in memory may be lost.
	closeFailed bool
}

// logMode is a way to write the log.
type logMode struct {
	mapped            MappedWAL
	manual, pipelined bool
}

var logModes = []logMode{
	{mapped: MappedWALOff}, {mapped: MappedWALOn}, {mapped: MappedWALOff, manual: true}, {mapped: MappedWALOn, manual: true},
	{mapped: MappedWALOff, pipelined: true}, {mapped: MappedWALOn, pipelined: true}, {mapped: MappedWALOff, manual: true, pipelined: true},
}

func (m logMode) set(o *Options) {
	o.WALMapped, o.ManualWALFlush, o.EnablePipelinedWrite = m.mapped, m.manual, m.pipelined
}

func newFaultRun(dead bool) *faultRun {
	m := vfs.NewMem()
	return &faultRun{mem: m, fs: faultfs.Wrap(m), story: newChronicle(), rng: rand.New(rand.NewPCG(7, 7)), dead: dead}
}

func (r *faultRun) options(fs vfs.FS) *Options {
	o := memOptions(fs)
	r.mode.set(o)
	return o
}

// step does something that may fail, and after a failure looks at what is seen and resumes. It says whether to go on.
func (r *faultRun) step(db *DB, do func() error) (bool, error) {
	err := do()
	if err == nil {
		return true, nil
	}
	if errors.Is(err, ErrClosed) || !r.fs.Fired() {
		return false, fmt.Errorf("failed without reason: %w", err)
	}
	for range 3 {
		if err = db.Resume(context.Background()); err == nil {
			break
		}
	}
	if err != nil {
		r.gaveUp = true
		if !r.dead {
			return false, fmt.Errorf("Resume does not help: %w", err)
		}
		return false, nil
	}
	if db.BackgroundError() != nil {
		return false, fmt.Errorf("resumed, and yet: %w", db.BackgroundError())
	}
	return true, nil
}

// seen checks that the open database shows what was acknowledged and nothing that failed.
func (r *faultRun) seen(db *DB) error {
	now := r.story.now()
	left, err := r.story.judge(db, now, now, true)
	if err != nil {
		if r.fs.Fired() && kindOf(err) == kindIO {
			return nil // the disk is dead, or the fault hit one of these reads
		}
		return fmt.Errorf("while open: %w", err)
	}
	acked := map[int]bool{}
	for _, d := range r.story.deeds {
		acked[d.id] = d.acked != 0
	}
	for _, d := range left.deeds {
		if !acked[d.id] {
			return fmt.Errorf("while open: deed %d failed, and is seen", d.id)
		}
	}
	return nil
}

// live lives the life as far as it goes.
func (r *faultRun) live() error {
	opened := false
	for range 2 {
		db, err := Open("db", r.options(r.fs))
		if err != nil {
			if !r.fs.Fired() {
				return err
			}
			r.gaveUp = true
			return nil
		}
		opened = true
		err = r.use(db)
		closed := db.Close()
		r.closeFailed = closed != nil
		if closed != nil && (errors.Is(closed, ErrClosed) || !r.fs.Fired()) {
			err = errors.Join(err, fmt.Errorf("close: %w", closed))
		}
		if err != nil || r.gaveUp || r.mode.manual && r.closeFailed {
			return err // what may be lost is not to be missed in another life
		}
	}
	if !opened {
		return errors.New("never opened")
	}
	return nil
}

func (r *faultRun) use(db *DB) error {
	ctx := context.Background()
	var steps []func() error
	if _, ok := db.ColumnFamily("one"); !ok {
		steps = append(steps, func() error {
			if _, ok := db.ColumnFamily("one"); ok {
				return nil
			}
			return r.story.create(db, "one")
		})
	}
	write := func(o *WriteOptions) func() error {
		return func() error {
			ids := []uint32{0}
			if cf, ok := db.ColumnFamily("one"); ok {
				ids = append(ids, cf.ID())
			}
			return r.story.do(db, 0, o, randomEdits(r.rng, 0, false, ids, 2000))
		}
	}
	for range 4 {
		steps = append(steps, write(nil), write(Sync), write(nil), func() error { return r.story.syncWAL(db) })
		for range 4 {
			steps = append(steps, write(nil))
		}
		steps = append(steps, func() error { return r.story.flush(db) })
	}
	steps = append(steps,
		func() error { return db.CompactRange(ctx, nil, nil, nil) },
		write(nil), write(Sync),
		func() error { return r.story.create(db, "two") },
		func() error {
			if cf, ok := db.ColumnFamily("two"); ok {
				return r.story.drop(db, cf)
			}
			return nil
		},
		write(nil),
	)
	for n, do := range steps {
		failed := false
		goOn, err := r.step(db, func() error {
			err := do()
			failed = err != nil
			return err
		})
		if err != nil {
			return fmt.Errorf("step %d: %w", n, err)
		}
		if failed || n == len(steps)-1 {
			if err := r.seen(db); err != nil {
				return fmt.Errorf("step %d: %w", n, err)
			}
		}
		if !goOn {
			return nil
		}
	}
	return nil
}

// after judges what is there once the disk is well: after the process ended, and after a power cut at that moment.
func (r *faultRun) after(seed uint64) error {
	r.fs.Clear()
	now := r.story.now()
	for _, c := range []struct {
		name    string
		fs      *vfs.Mem
		process bool
	}{
		{"power cut that loses all it can", r.mem.Crash(nil), false},
		{"power cut", r.mem.Crash(rand.New(rand.NewPCG(seed, 0))), false},
		{"opened again", r.mem, !(r.mode.manual && r.closeFailed)},
	} {
		db, err := Open("db", r.options(c.fs))
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		left, err := r.story.judge(db, now, now, c.process)
		if err == nil {
			err = left.do(db, 0, Sync, randomEdits(r.rng, 0, false, []uint32{0}, 100))
		}
		if err == nil {
			err = left.flush(db)
		}
		if err = errors.Join(err, db.Close()); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// faultsAt runs lives in which the n-th, and each step-th after it, call that arm makes fail does, until one passes
// through. In the short form with two ways to write the log, else with all.
func faultsAt(t *testing.T, dead bool, arm func(fs *faultfs.FS, n int)) {
	modes := logModes
	if !longRun() {
		from := rand.IntN(len(modes) - 1)
		modes = modes[from : from+2]
	}
	for _, mode := range modes {
		first, step := faultStep()
		runs := 0
		for n := first; ; n += step {
			r := newFaultRun(dead)
			r.mode = mode
			arm(r.fs, n)
			require.NoError(t, r.live(), "%+v, call %d", mode, n)
			fired := r.fs.Fired()
			require.NoError(t, r.after(uint64(n)), "%+v, call %d", mode, n)
			runs++
			if !fired {
				break
			}
		}
		t.Logf("%+v: %d runs", mode, runs)
	}
}

// faultStep spreads the runs of the short form over the whole life; together the runs of some days try every call.
func faultStep() (first, step int) {
	if longRun() {
		return 1, 1
	}
	step = 12
	if underRace {
		step = 40
	}
	return 1 + rand.IntN(step), step
}

func TestAnyCallMayFail(t *testing.T) {
	faultsAt(t, false, func(fs *faultfs.FS, n int) { fs.FailNth(int64(n)) })
}

func TestTheDiskMayDieAtAnyCall(t *testing.T) {
	faultsAt(t, true, func(fs *faultfs.FS, n int) { fs.FailFrom(int64(n)) })
}

func TestAnyCallMayBeDoneAndYetFail(t *testing.T) {
	faultsAt(t, false, func(fs *faultfs.FS, n int) {
		fs.AddRule(faultfs.Rule{Op: faultfs.Any, Pattern: "*", After: n - 1, Times: 1, Late: true})
	})
}

func TestAnyWriteMayBeDoneInPart(t *testing.T) {
	faultsAt(t, false, func(fs *faultfs.FS, n int) {
		fs.AddRule(faultfs.Rule{Op: faultfs.Write, Pattern: "*", After: n - 1, Times: 1, Partial: true})
		fs.AddRule(faultfs.Rule{Op: faultfs.Store, Pattern: "*", After: n - 1, Times: 1, Partial: true})
	})
}

// Calls fail at random under several writers, who resume and go on. Then the process dies, or the power goes.
func TestFailuresAtRandomUnderManyWriters(t *testing.T) {
	lives := 4
	if longRun() {
		lives = 300
	}
	first := newSeed()
	t.Logf("seeds from %d", first)
	for n := range lives {
		seed := first + uint64(n)
		require.NoError(t, faultStorm(seed), "seed %d", seed)
	}
}

func faultStorm(seed uint64) error {
	r := newFaultRun(false)
	r.rng = rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex
	calls, faults := 0, rand.New(rand.NewPCG(seed, 1))
	odds := []float64{0.002, 0.01, 0.05}[r.rng.IntN(3)]
	r.mode = logModes[r.rng.IntN(len(logModes))]
	on := false
	r.fs.OnCall = func(c faultfs.Call) {
		mu.Lock()
		defer mu.Unlock()
		// Reads that fail end iterators of the test's; compactions meet failing reads in other tests.
		if calls++; on && c.Op != faultfs.Read && c.Op != faultfs.Stat && faults.Float64() < odds {
			r.fs.AddRule(faultfs.Rule{
				Op: c.Op, Pattern: "*", Times: 1,
				Late: faults.IntN(3) == 0, Partial: (c.Op == faultfs.Write || c.Op == faultfs.Store) && faults.IntN(3) == 0,
			})
		}
	}
	db, err := Open("db", r.options(r.fs))
	if err != nil {
		return err
	}
	for i := range r.rng.IntN(3) {
		if err := r.story.create(db, fmt.Sprint("family", i)); err != nil {
			return err
		}
	}
	mu.Lock()
	on = true
	mu.Unlock()
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for w := range errs {
		rng := rand.New(rand.NewPCG(seed, 10+uint64(w)))
		wg.Go(func() { errs[w] = faultWriter(r, db, rng, w) })
	}
	wg.Wait()
	mu.Lock()
	on = false
	mu.Unlock()
	r.fs.Clear()
	atRest(db) // a job that met a failure may not have said so yet
	if err := errors.Join(errs...); err != nil {
		return errors.Join(err, db.Close())
	}
	if err := db.Resume(context.Background()); err != nil {
		return errors.Join(fmt.Errorf("the disk is well, and Resume: %w", err), db.Close())
	}
	if err := r.seen(db); err != nil {
		return errors.Join(err, db.Close())
	}
	if err := r.story.do(db, 0, Sync, randomEdits(r.rng, 0, false, []uint32{0}, 100)); err != nil {
		return errors.Join(err, db.Close())
	}
	if err := db.Close(); err != nil {
		return err
	}
	return r.after(seed)
}

// faultWriter is one writer of a storm.
func faultWriter(r *faultRun, db *DB, rng *rand.Rand, w int) error {
	ctx := context.Background()
	for range 60 {
		var err error
		switch kind := rng.IntN(100); {
		case kind < 3:
			err = r.story.flush(db)
		case kind < 5:
			err = db.CompactRange(ctx, nil, nil, nil)
		case kind < 8 && w == 0:
			err = r.story.dropOrMake(db, rng)
		case kind < 12:
			err = r.story.syncWAL(db)
		default:
			var ids []uint32
			for _, cf := range db.ColumnFamilies() {
				ids = append(ids, cf.ID())
			}
			err = r.story.do(db, w, &WriteOptions{Sync: rng.IntN(4) == 0}, randomEdits(rng, w, false, ids, 3000))
		}
		if err == nil || errors.Is(err, ErrColumnFamilyDropped) {
			continue
		}
		if e := db.bgError.Load(); e != nil && e.severity == severityFatal {
			return fmt.Errorf("nothing was fatal: %w", e)
		}
		for n := 0; db.Resume(ctx) != nil; n++ {
			if n == 100 {
				return fmt.Errorf("Resume helps no more: %w", db.BackgroundError())
			}
		}
	}
	return nil
}
