package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
	"github.com/ashlardb/ashlar/raftapply/kvsm"
)

// applymix and applyuniform feed package raftapply as a raft node would, without raft and without a network.
//
// applymix has small writes beside bulk ones: regions to which single entries come at random moments (an open loop:
// latency counts from the moment at which an entry should have been sent), and a client that hands the regions of a table
// all entries of a batch of rows, waits for them, pauses and does it again. applyuniform has clients that all do the same.
//
// What is measured does not include making entries: those of the bulk are made before. A worker that has always something
// to do keeps a processor, so with as many workers as processors the clients' goroutines wait for one, which shows as
// latency; keep --apply_workers below GOMAXPROCS.

// applyFlags are the flags of these benchmarks.
type applyFlags struct {
	yield                           raftapply.Size
	entry, small                    raftapply.Size
	workers, bulkRegions, rows      int64
	smallRegions, uniform, inFlight int64
	rate                            float64
	length, pause                   time.Duration
	pairs                           int64
}

// parsed is a flag whose text parse reads.
func parsed[T any](f *flagSet, p *T, name, def, help string, parse func(string) (T, error)) {
	d := f.String(new(string), name, def, help).want(func(v any) string {
		if _, err := parse(v.(string)); err != nil {
			return err.Error()
		}
		return ""
	})
	d.own = true
	d.store = func(v any) {
		if x, err := parse(v.(string)); err == nil {
			*p = x
		}
	}
	d.store(def)
}

// defineApply defines the flags of applymix and applyuniform.
func (c *config) defineApply() {
	f, a := &c.flags, &c.apply
	whole := func(p *int64, name string, def, least int64, help string) {
		f.Int(p, name, def, help).want(atLeast(least)).own = true
	}
	parsed(f, &a.yield, "apply_yield_write_size", "32KiB", "apply benchmarks: what a region may write in one turn; off: anything", raftapply.ParseSize)
	parsed(f, &a.entry, "apply_entry_size", "16KiB", "applymix: bytes of an entry of the bulk load", raftapply.ParseSize)
	parsed(f, &a.small, "apply_small_size", "512", "apply benchmarks: bytes of a small entry, of four pairs", raftapply.ParseSize)
	parsed(f, &a.length, "apply_duration", "10s", "apply benchmarks: how long one runs; the first sixth is not counted", time.ParseDuration)
	parsed(f, &a.pause, "apply_pause", "100ms", "applymix: from the end of one bulk batch to the next", time.ParseDuration)
	whole(&a.workers, "apply_workers", 1, 1, "apply benchmarks: workers")
	whole(&a.bulkRegions, "apply_bulk_regions", 1, 0, "applymix: regions that the bulk load writes to; 0: there is none")
	whole(&a.rows, "apply_bulk_rows", 1500, 1, "applymix: rows of a bulk batch, four pairs each")
	whole(&a.smallRegions, "apply_small_regions", 10, 1, "applymix: regions with small writes")
	f.Float(&a.rate, "apply_small_rate", 50, "applymix: small writes a second for each of them").want(func(v any) string {
		if v.(float64) <= 0 {
			return "want more than 0"
		}
		return ""
	}).own = true
	whole(&a.uniform, "apply_uniform_regions", 32, 1, "applyuniform: regions")
	whole(&a.inFlight, "apply_in_flight", 4, 1, "applyuniform: entries that each region's client keeps going")
	whole(&a.pairs, "apply_pairs", 0, 0, "apply benchmarks: so many pairs of runs, off and --apply_yield_write_size in turns, each on an "+
		"empty database, and the medians; 0: one run")
}

// applyRun is one run on an empty database.
type applyRun struct {
	*bench
	flags applyFlags
	sys   *raftapply.System
	cf    *ashlar.ColumnFamily
	began time.Time

	mu      sync.Mutex
	small   []time.Duration
	foreign []uint64
	bulk    []time.Duration
	err     error
}

// applyOnce runs one load with one yield size.
func (b *bench) applyOnce(yield raftapply.Size, load func(*applyRun)) (*applyResult, error) {
	b.counted.add(b.db.Metrics())
	if err := b.close(); err != nil {
		return nil, err
	}
	if err := destroy(b.fs, b.cfg.db, b.cfg.walDir); err != nil {
		return nil, err
	}
	if err := b.open(); err != nil {
		return nil, err
	}
	if _, err := b.db.CreateColumnFamily(raftapply.DefaultStateFamily, nil); err != nil {
		return nil, err
	}
	c := raftapply.DefaultConfig()
	c.ApplyYieldWriteSize, c.ApplyPoolSize = yield, int(b.cfg.apply.workers)
	r := &applyRun{bench: b, flags: b.cfg.apply, cf: b.db.DefaultColumnFamily()}
	var err error
	r.sys, err = raftapply.Open(b.db, &raftapply.Options{
		Config: &c, OnFatal: r.fail, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return nil, err
	}
	load(r)
	took := r.now().Sub(r.began)
	st := r.sys.Stats()
	if err := r.sys.Close(context.Background()); err != nil {
		return nil, err
	}
	if r.err != nil {
		return nil, r.err
	}
	return newApplyResult(yield, r, st, took, b.db.Metrics().StallMicros), nil
}

func (r *applyRun) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(r.err, err)
}

// start begins what is measured, and returns a context that lasts as long.
func (r *applyRun) start() (context.Context, context.CancelFunc) {
	r.began = r.now()
	return context.WithTimeout(context.Background(), r.flags.length)
}

// warm says whether a moment is counted.
func (r *applyRun) warm(at time.Time) bool { return at.Sub(r.began) >= r.flags.length/6 }

// pairs makes a command of n puts that take size bytes, keys being of 24.
func pairs(region, from uint64, n, size int, rng *rand.Rand) []byte {
	var c kvsm.Command
	value := make([]byte, max(size/n-24, 1))
	for i := range n {
		for j := range value {
			value[j] = byte(rng.Uint32())
		}
		c.Put(0, fmt.Appendf(nil, "%08d%016d", region, from+uint64(i)), value)
	}
	return c.Bytes()
}

// feeder sends a region's entries.
type feeder struct {
	*applyRun
	region raftapply.RegionID
	next   uint64
}

func (r *applyRun) feeder(id uint64) *feeder {
	f := &feeder{applyRun: r, region: raftapply.RegionID(id), next: 1}
	if _, err := r.sys.Register(f.region, kvsm.New(r.cf), nil); err != nil {
		r.fail(err)
	}
	return f
}

// send sends entries; done is called for the last.
func (f *feeder) send(data [][]byte, done func(raftapply.Result)) error {
	t := raftapply.Task{Region: f.region, Entries: make([]raftapply.Entry, len(data))}
	for i, d := range data {
		t.Entries[i] = raftapply.Entry{Index: f.next + uint64(i), Term: 1, Data: d}
	}
	t.Proposals = []raftapply.Proposal{{Index: f.next + uint64(len(data)) - 1, Term: 1, Done: done}}
	err := f.sys.Send(t)
	if err == nil {
		f.next += uint64(len(data))
	}
	return err
}

// mix is the load of applymix.
func (r *applyRun) mix() {
	tables := r.bulkBatches()
	var clients, pending sync.WaitGroup
	ctx, cancel := r.start()
	defer cancel()
	for i := range r.flags.smallRegions {
		f := r.feeder(uint64(i) + 1)
		rng := rand.New(rand.NewPCG(r.seed, uint64(i)))
		clients.Go(func() { f.trickle(ctx, rng, &pending) })
	}
	if r.flags.bulkRegions > 0 {
		clients.Go(func() { r.load(ctx, tables) })
	}
	clients.Wait()
	pending.Wait()
}

// trickle sends small entries at random moments, however long those before take.
func (f *feeder) trickle(ctx context.Context, rng *rand.Rand, pending *sync.WaitGroup) {
	due := f.began
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := uint64(0); ; i++ {
		due = due.Add(time.Duration(rng.ExpFloat64() / f.flags.rate * float64(time.Second)))
		data := pairs(uint64(f.region), i*4%100_000, 4, int(f.flags.small), rng)
		timer.Reset(due.Sub(f.now()))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		at := due
		pending.Add(1)
		if err := f.send([][]byte{data}, func(res raftapply.Result) { f.smallDone(at, res); pending.Done() }); err != nil {
			pending.Done()
			f.fail(err)
			return
		}
	}
}

func (r *applyRun) smallDone(due time.Time, res raftapply.Result) {
	took := r.now().Sub(due)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(r.err, res.Err)
	if r.warm(due) {
		r.small = append(r.small, took)
		r.foreign = append(r.foreign, res.Foreign)
	}
}

// bulkBatches makes the entries of some batches: for each batch, those of each region.
func (r *applyRun) bulkBatches() (batches [][][][]byte) {
	const pair = 24 + 100
	perEntry := max(int(r.flags.entry)/pair, 1)
	rng := rand.New(rand.NewPCG(r.seed, 1<<40))
	for batch := range uint64(4) {
		regions := make([][][]byte, r.flags.bulkRegions)
		for i := range regions {
			keys := int(r.flags.rows * 4 / r.flags.bulkRegions)
			for from := 0; from < keys; from += perEntry {
				n := min(perEntry, keys-from)
				regions[i] = append(regions[i], pairs(uint64(i)+1000, batch*1e9+uint64(from), n, n*pair, rng))
			}
		}
		batches = append(batches, regions)
	}
	return batches
}

// load hands over batch after batch.
func (r *applyRun) load(ctx context.Context, batches [][][][]byte) {
	var feeders []*feeder
	for i := range r.flags.bulkRegions {
		feeders = append(feeders, r.feeder(uint64(i)+1000))
	}
	for n := 0; ctx.Err() == nil; n++ {
		var done sync.WaitGroup
		start := r.now()
		for i, f := range feeders {
			done.Add(1)
			err := f.send(batches[n%len(batches)][i], func(res raftapply.Result) {
				if res.Err != nil {
					r.fail(res.Err)
				}
				done.Done()
			})
			if err != nil {
				done.Done()
				r.fail(err)
				return
			}
		}
		done.Wait()
		if took := r.now().Sub(start); r.warm(start) {
			r.mu.Lock()
			r.bulk = append(r.bulk, took)
			r.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(r.flags.pause):
		}
	}
}

// even is the load of applyuniform: every region's client keeps some small entries going.
func (r *applyRun) even() {
	var clients sync.WaitGroup
	var feeders []*feeder
	for i := range r.flags.uniform {
		feeders = append(feeders, r.feeder(uint64(i)+1))
	}
	ctx, cancel := r.start()
	defer cancel()
	for i, f := range feeders {
		rng := rand.New(rand.NewPCG(r.seed, uint64(i)))
		var data [][]byte
		for j := range uint64(64) {
			data = append(data, pairs(uint64(f.region), j*4, 4, int(r.flags.small), rng))
		}
		clients.Go(func() {
			room := make(chan struct{}, r.flags.inFlight)
			var failed atomic.Bool
			for n := 0; ctx.Err() == nil && !failed.Load(); n++ {
				room <- struct{}{}
				at := r.now()
				err := f.send(data[n%len(data):n%len(data)+1], func(res raftapply.Result) { r.smallDone(at, res); <-room })
				if err != nil {
					<-room
					r.fail(err)
					failed.Store(true)
				}
			}
			for range r.flags.inFlight {
				room <- struct{}{}
			}
		})
	}
	clients.Wait()
}
