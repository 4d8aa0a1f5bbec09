package ashlar

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/vfs/faultfs"
)

// A crash test runs a random life of a database in memory, and takes what a power cut would leave at every sync and
// before many other calls. Each of these is opened and judged, lives on a little, and some crash again while they are
// opened. Long with ASHLAR_LONG=1: "go test -run TestCrashes . -v" then does at least 10,000 crashes.

// crashLife is one life.
type crashLife struct {
	rng     *rand.Rand
	seed    uint64
	writers int
	deeds   int // of each writer
	opts    Options
	story   *chronicle

	mu      sync.Mutex
	picker  *rand.Rand // guarded by mu: crashes come from many goroutines
	crashes []crash
	most    int
	other   float64 // odds of a crash before a call that is no sync
}

// crash is what the disk holds after a crash that came between two moments.
type crash struct {
	fs            *vfs.Mem
	before, after int
	at            string
	seed          uint64
}

func newCrashLife(seed uint64, deeds, most int) *crashLife {
	rng := rand.New(rand.NewPCG(seed, 1))
	l := &crashLife{
		rng: rng, seed: seed, writers: 1, deeds: deeds, most: most, other: 0.02,
		story: newChronicle(), picker: rand.New(rand.NewPCG(seed, 2)),
	}
	if rng.IntN(3) == 0 {
		l.writers = 2 + rng.IntN(4)
		l.deeds = deeds / l.writers
	}
	l.opts = *memOptions(nil)
	if rng.IntN(3) == 0 {
		l.opts.WALDir = "logs"
	}
	if rng.IntN(2) == 0 {
		l.opts.Table.FilterPolicy = filter.Bloom(10)
		l.opts.OptimizeFiltersForHits = rng.IntN(2) == 0
	}
	l.opts.Table.FormatVersion = []int{0, 2, 4, 6, 7}[rng.IntN(5)]
	l.opts.NoDynamicLevelBytes = rng.IntN(2) == 0
	l.opts.NoConcurrentMemtableWrite = rng.IntN(4) == 0
	l.opts.ManualWALFlush = rng.IntN(4) == 0
	l.opts.WALMapped = []MappedWAL{MappedWALOff, MappedWALOn}[rng.IntN(2)]
	l.opts.EnablePipelinedWrite = rng.IntN(2) == 0
	if rng.IntN(3) == 0 {
		l.opts.MaxTotalWALSize = 100 << 10
	}
	return l
}

func (l *crashLife) options(fs vfs.FS) *Options {
	o := l.opts
	o.FS = fs
	return &o
}

// crashNow takes a crash, as long as there is room for more.
func (l *crashLife) crashNow(m *vfs.Mem, at string, odds float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.crashes) >= l.most || l.picker.Float64() >= odds {
		return
	}
	before := l.story.now()
	seed := l.picker.Uint64()
	left := m.Crash(rand.New(rand.NewPCG(seed, 3)))
	l.crashes = append(l.crashes, crash{left, before, l.story.now(), at, seed})
}

// run lives the life, and leaves its crashes.
func (l *crashLife) run() error {
	m := vfs.NewMem()
	m.OnSync = func(op vfs.Op) { l.crashNow(m, op.String(), 1) }
	fs := faultfs.Wrap(m)
	fs.OnCall = func(c faultfs.Call) {
		switch c.Op {
		case faultfs.Create, faultfs.Write, faultfs.Rename, faultfs.Remove, faultfs.Truncate, faultfs.Store:
			l.crashNow(m, fmt.Sprintf("before %s %s", c.Op, c.Name), l.other)
		}
	}
	db, err := Open("db", l.options(fs))
	if err != nil {
		return err
	}
	for i := range l.rng.IntN(3) {
		if err := l.story.create(db, fmt.Sprint("family", i)); err != nil {
			return err
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, l.writers)
	for w := range l.writers {
		rng := rand.New(rand.NewPCG(l.seed, 10+uint64(w)))
		wg.Go(func() { errs[w] = l.write(db, rng, w) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if l.rng.IntN(2) == 0 {
		l.mu.Lock()
		l.most = 0 // no more crashes: what is not safe by now is made safe by Close
		l.mu.Unlock()
	}
	if err := db.Close(); err != nil {
		return err
	}
	l.story.synced(l.story.now(), true)
	l.most = len(l.crashes) + 1
	l.crashNow(m, "after Close", 1)
	return nil
}

// write is one writer's part. The first also does what concerns the whole database.
func (l *crashLife) write(db *DB, rng *rand.Rand, w int) error {
	for range l.deeds {
		err := error(nil)
		kind := rng.IntN(100)
		switch {
		case kind < 3 && w == 0:
			err = l.story.flush(db)
		case kind < 5 && w == 0:
			err = db.CompactRange(context.Background(), nil, nil, &CompactRangeOptions{ForceBottommost: rng.IntN(2) == 0})
		case kind < 7 && w == 0:
			err = l.story.dropOrMake(db, rng)
		case kind < 10:
			err = l.story.syncWAL(db)
		default:
			var ids []uint32
			for _, cf := range db.ColumnFamilies() {
				ids = append(ids, cf.ID())
			}
			o := &WriteOptions{Sync: rng.IntN(6) == 0}
			o.DisableWAL = !o.Sync && rng.IntN(8) == 0
			err = l.story.do(db, w, o, randomEdits(rng, w, o.DisableWAL, ids, 3000))
			if errors.Is(err, ErrColumnFamilyDropped) {
				err = nil // by the first writer, just now
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// judge opens what each crash left. It returns how many crashes there were, those of the second order included.
func (l *crashLife) judge() (crashes int, err error) {
	for _, c := range l.crashes {
		l.story.mu.Lock()
		after := c.after
		l.story.mu.Unlock()
		n, err := l.reopen(c, l.story, c.before, after, 2)
		crashes += n
		if err != nil {
			return crashes, fmt.Errorf("crash at %q (seed %d): %w", c.at, c.seed, err)
		}
	}
	return crashes, nil
}

// reopen opens what a crash left, judges it, and lives on. Up to depth more crashes come while it does.
func (l *crashLife) reopen(c crash, story *chronicle, before, after, depth int) (crashes int, err error) {
	rng := rand.New(rand.NewPCG(c.seed, 4))
	var again []crash
	var left *chronicle
	if depth > 0 && rng.IntN(3) == 0 {
		odds := []float64{0.1, 0.5}[rng.IntN(2)]
		var mu sync.Mutex
		c.fs.OnSync = func(op vfs.Op) {
			mu.Lock()
			defer mu.Unlock()
			if len(again) < 3 && rng.Float64() < odds {
				moment := 0
				if left != nil {
					moment = left.now()
				}
				seed := rng.Uint64()
				fs := c.fs.Crash(rand.New(rand.NewPCG(seed, 3)))
				if left != nil {
					again = append(again, crash{fs, moment, left.now(), op.String(), seed})
				} else {
					again = append(again, crash{fs, 0, 0, op.String() + " of recovery", seed})
				}
			}
		}
		defer func() { c.fs.OnSync = nil }()
		db, err := Open("db", l.options(c.fs))
		if err != nil {
			return 1, err
		}
		mu.Lock()
		left, err = story.judge(db, before, after, false)
		mu.Unlock()
		if err != nil {
			return 1, errors.Join(err, db.Close())
		}
		if err := l.liveOn(db, left, rand.New(rand.NewPCG(c.seed, 5))); err != nil {
			return 1, fmt.Errorf("living on: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		crashes = 1
		for _, second := range again {
			// A crash during recovery leaves what the first one did.
			from, to := second.before, second.after
			if from == 0 {
				from, to = 1, 1
				for _, d := range left.deeds {
					to = max(to, min(d.began, after))
				}
			}
			n, err := l.reopen(second, left, from, to, depth-1)
			crashes += n
			if err != nil {
				return crashes, fmt.Errorf("a second crash at %q (seed %d): %w", second.at, second.seed, err)
			}
		}
		return crashes, nil
	}
	db, err := Open("db", l.options(c.fs))
	if err != nil {
		return 1, err
	}
	left, err = story.judge(db, before, after, false)
	if err == nil {
		err = l.liveOn(db, left, rng)
	} else {
		err = errors.Join(err, db.Close())
	}
	return 1, err
}

// liveOn writes a little more, closes, opens again, and finds everything.
func (l *crashLife) liveOn(db *DB, story *chronicle, rng *rand.Rand) error {
	var ids []uint32
	for _, cf := range db.ColumnFamilies() {
		ids = append(ids, cf.ID())
	}
	for range 1 + rng.IntN(5) {
		o := &WriteOptions{Sync: rng.IntN(2) == 0}
		if err := story.do(db, 0, o, randomEdits(rng, 0, false, ids, 3000)); err != nil {
			return errors.Join(err, db.Close())
		}
	}
	if rng.IntN(3) == 0 {
		if err := story.flush(db); err != nil {
			return errors.Join(err, db.Close())
		}
	}
	if err := db.Close(); err != nil {
		return err
	}
	if rng.IntN(4) != 0 {
		return nil
	}
	db, err := Open("db", &Options{FS: db.fs, WALDir: l.opts.WALDir, ColumnFamilyOptions: l.opts.ColumnFamilyOptions})
	if err != nil {
		return err
	}
	now := story.now()
	_, err = story.judge(db, now, now, true)
	return errors.Join(err, db.Close())
}

func TestCrashesLeaveAPrefixWithEverythingThatWasSynced(t *testing.T) {
	lives, deeds, most, want := 4, 150, 60, 0
	if underRace {
		lives = 1
	}
	if longRun() {
		lives, deeds, most, want = 1000, 250, 150, 10_000
	}
	first := newSeed()
	crashes, n := 0, 0
	for ; n < lives && (!longRun() || crashes < want); n++ {
		seed := first + uint64(n)
		l := newCrashLife(seed, deeds, most)
		require.NoError(t, l.run(), "seed %d", seed)
		done, err := l.judge()
		crashes += done
		require.NoError(t, err, "seed %d, %d writers, options %+v", seed, l.writers, l.opts)
	}
	t.Logf("%d crashes in %d lives, seeds from %d", crashes, n, first)
}
