package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/txn"
	"github.com/ashlardb/ashlar/vfs"
)

// bench runs benchmarks on one database, one after the other.
type bench struct {
	cfg         *config
	fs          vfs.FS
	stdout      io.Writer
	stderr      io.Writer
	terminal    bool             // stderr is one
	now         func() time.Time // the clock
	checksummed int64            // bytes that a thread of crc32c and its like goes through
	compressed  int64            // and of compress and uncompress
	loads       int              // how many operations acquireload does

	cache      *ashlar.Cache
	statistics *ashlar.Statistics // nil unless they are asked for
	db         *ashlar.DB         // what is read; nil while none is open
	txns       *txn.DB            // on top of it; nil without a flag for transactions
	store      store              // what is written through
	families   families
	counted    tickers // of databases that are closed
	seed       uint64
	made       uint64 // threads so far
	texts      texts
	work       work // of the benchmark that runs
}

// newBench returns one whose volumes are db_bench's.
func newBench(c *config, fsys vfs.FS, stdout, stderr io.Writer) *bench {
	return &bench{
		cfg: c, fs: fsys, stdout: stdout, stderr: stderr, terminal: isTerminal(stderr), now: time.Now,
		checksummed: 5000 << 20, compressed: 1 << 30, loads: 100_000,
	}
}

// work is what a benchmark may change of what the flags say.
type work struct {
	num                             uint64 // size of the key space that is written
	mergeKeys                       uint64 // of the key space that is merged into
	reads, writes, deletes, updates int64  // per thread
	batch                           int64
	keySize, valueSize              int
	write                           ashlar.WriteOptions
}

// work returns what the flags say.
func (c *config) work() work {
	orNum := func(n int64) int64 {
		if n < 0 {
			return c.num
		}
		return n
	}
	w := work{
		num: uint64(c.num), mergeKeys: uint64(orNum(c.mergeKeys)), reads: orNum(c.reads), writes: orNum(c.writes), deletes: orNum(c.deletes), updates: c.num,
		batch: c.batchSize, keySize: int(c.keySize), valueSize: int(c.valueSize),
		write: ashlar.WriteOptions{Sync: c.sync, DisableWAL: c.disableWAL},
	}
	if c.reads >= 0 || c.writes >= 0 {
		w.updates = max(c.reads, c.writes)
	}
	return w
}

// runAll opens the database, runs the tasks and closes it.
func (b *bench) runAll(tasks []task) (err error) {
	if b.seed = b.cfg.seed; b.seed == 0 {
		b.seed = uint64(b.now().UnixMicro())
		fmt.Fprintf(b.stdout, "Set seed to %d because --seed was 0\n", b.seed)
	}
	b.cache = b.cfg.newCache()
	switch {
	case b.cfg.statistics:
		level := ashlar.StatsExceptDetailedTimers
		switch b.cfg.statsLevel {
		case 0, 1:
			level = ashlar.StatsExceptHistogramOrTimers
		case 2:
			level = ashlar.StatsExceptTimers
		}
		b.statistics = ashlar.NewStatisticsWithLevel(level)
	case b.cfg.writePathStats: // which has clocks of its own
		b.statistics = ashlar.NewStatisticsWithLevel(ashlar.StatsExceptHistogramOrTimers)
	}
	if !b.cfg.useExistingDB {
		if err := destroy(b.fs, b.cfg.db, b.cfg.walDir); err != nil {
			return err
		}
	}
	if err := b.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	b.printHeader()
	for _, t := range tasks {
		if err := b.runTask(t); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	if b.statistics != nil {
		b.counted.add(b.db.Metrics())
		fmt.Fprintf(b.stdout, "STATISTICS:\n%s%s%s\n", b.statistics, &b.counted, &b.cfg.gauges)
	}
	return nil
}

func (b *bench) runTask(t task) error {
	b.work = b.cfg.work()
	if t.prepare != nil {
		t.prepare(&b.work)
	}
	if t.fresh {
		if b.cfg.useExistingDB {
			fmt.Fprintf(b.stdout, "%-12s : skipped (--use_existing_db is true)\n", t.name)
			return nil
		}
		b.counted.add(b.db.Metrics())
		if err := b.close(); err != nil {
			return err
		}
		if err := destroy(b.fs, b.cfg.db, b.cfg.walDir); err != nil {
			return err
		}
		if err := b.open(); err != nil {
			return err
		}
	}
	if t.action != nil {
		return t.action(b)
	}
	fmt.Fprintf(b.stdout, "DB path: [%s]\n", b.cfg.db)
	if t.warmups > 0 {
		fmt.Fprintf(b.stdout, "Warming up benchmark by running %d times\n", t.warmups)
	}
	for range t.warmups {
		if _, err := b.runOnce(t.benchmark); err != nil {
			return err
		}
	}
	if t.repeats > 1 {
		fmt.Fprintf(b.stdout, "Running benchmark for %d times\n", t.repeats)
	}
	var all repeats
	for range t.repeats {
		sum, err := b.runOnce(t.benchmark)
		if err != nil {
			return err
		}
		all.add(sum)
		io.WriteString(b.stdout, all.sofar(t.name, b.cfg.confidenceOnly))
	}
	if t.repeats > 1 {
		io.WriteString(b.stdout, all.final(t.name))
	}
	if t.after != nil {
		return t.after(b)
	}
	return nil
}

// thread is one of the threads of a run.
type thread struct {
	*bench
	crew  *crew
	id    int
	rand  *mersenne
	stats threadStats
	notes string // lines that are printed before the result line
}

// pickDatabase draws the number by which db_bench picks one of its databases, where it does so: before each batch of
// writes, say. There is one database, but the keys drawn next have to be db_bench's.
func (t *thread) pickDatabase() { t.rand.Next() }

// crew is what the threads of a run share.
type crew struct {
	size      int
	done      atomic.Int64 // threads that have ended
	failed    atomic.Bool  // one of them with an error: the others end soon
	writeRate *limiter     // nil: no limit
	readRate  *limiter
	ticks     atomic.Uint64 // the time of timeseries: its writes so far
}

// runOnce runs a benchmark in its threads and prints the result line.
func (b *bench) runOnce(m *benchmark) (*totals, error) {
	o := &observer{
		now: b.now, stderr: b.stderr, terminal: b.terminal, progress: b.cfg.progress, histogram: b.cfg.histogram,
		slowMicros: b.cfg.slowMicros, interval: b.cfg.statsInterval,
		intervalTime: time.Duration(b.cfg.statsIntervalSeconds) * time.Second,
	}
	if b.cfg.statsPerInterval > 0 {
		o.perReport = b.statsProperty
	}
	if b.cfg.reportIntervalSeconds > 0 {
		var err error
		if o.reporter, err = startReporter(b.cfg.reportFile, time.Duration(b.cfg.reportIntervalSeconds)*time.Second); err != nil {
			return nil, err
		}
	}
	size := int(b.cfg.threads)
	if m.single {
		size = 1
	}
	c := &crew{size: size + m.extra, writeRate: newLimiter(b.cfg.writeRate), readRate: newLimiter(b.cfg.readRate)}
	b.texts.of(b.cfg.values(b.work.valueSize)) // before the clock runs
	var wg sync.WaitGroup
	start := make(chan struct{})
	all := make([]*thread, c.size)
	threads := make([]*threadStats, c.size)
	errs := make([]error, c.size)
	for i := range c.size {
		b.made++
		t := &thread{bench: b, crew: c, id: i, rand: newMersenne(b.seed + b.made)}
		all[i], threads[i] = t, &t.stats
		wg.Go(func() {
			<-start
			t.stats.Start(o, i)
			errs[i] = m.run(t)
			t.stats.Stop()
			if errs[i] != nil {
				c.failed.Store(true)
			}
			c.done.Add(1)
		})
	}
	close(start)
	wg.Wait()
	err := errors.Join(errs...)
	if o.reporter != nil {
		err = errors.Join(err, o.reporter.stop())
	}
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		io.WriteString(b.stdout, t.notes)
	}
	sum := mergeStats(threads)
	io.WriteString(b.stdout, sum.String(m.name))
	return &sum, nil
}

// family returns the one that key v is in.
func (b *bench) family(v uint64) *ashlar.ColumnFamily { return b.families.of(v) }

func (b *bench) statsProperty() string {
	s, _ := b.db.Property("rocksdb.stats")
	return s
}

// turns is the loop of a thread: for a number of operations, or for a time.
type turns struct {
	t        *thread
	deadline time.Time // zero: none
	every    int64     // operations between looks at the clock
	limit    int64
	done     int64
}

// turns returns a loop of --duration, if that is set, and otherwise of ops operations.
func (t *thread) turns(ops int64) *turns { return t.turnsFor(t.cfg.duration, ops) }

func (t *thread) turnsFor(seconds, ops int64) *turns {
	l := &turns{t: t, limit: ops, every: t.cfg.checkEvery}
	if seconds > 0 {
		l.deadline = t.now().Add(time.Duration(seconds) * time.Second)
	}
	return l
}

// Next says whether there is a turn of n operations. Operations that do not fill it are not done.
func (l *turns) Next(n int64) bool {
	if l.t.crew.failed.Load() {
		return false
	}
	l.done += n
	if l.deadline.IsZero() {
		return l.done <= l.limit
	}
	return l.done/l.every == (l.done-n)/l.every || l.t.now().Before(l.deadline)
}

// limiter spaces out what many threads do, to a rate per second.
type limiter struct {
	rate uint64
	mu   sync.Mutex
	next time.Time // when what comes next may begin
}

func newLimiter(rate uint64) *limiter {
	if rate == 0 {
		return nil
	}
	return &limiter{rate: rate}
}

// wait returns when n more units may be done. A nil limiter does not wait.
func (l *limiter) wait(n int64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	now := time.Now()
	if l.next.Before(now) {
		l.next = now
	}
	pause := l.next.Sub(now)
	l.next = l.next.Add(time.Duration(float64(n) / float64(l.rate) * float64(time.Second)))
	l.mu.Unlock()
	time.Sleep(pause)
}
