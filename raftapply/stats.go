package raftapply

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/internal/stats"
)

// FlushReason says why a worker wrote its batch.
type FlushReason uint8

const (
	// FlushKeys is a batch with more than Config.MaxBatchKeys keys.
	FlushKeys FlushReason = iota
	// FlushBytes is a batch of Config.MaxBatchBytes.
	FlushBytes
	// FlushCommand is an entry that asked for it.
	FlushCommand
	// FlushConf is a change of the group's members.
	FlushConf
	// FlushPriority is a region on its way to the low-priority lane.
	FlushPriority
	// FlushRemove is a region that was removed or poisoned.
	FlushRemove
	// FlushEnd is the end of a round.
	FlushEnd

	flushReasons
	noFlush
)

// String returns the word under which the reason is counted.
func (r FlushReason) String() string {
	return [...]string{"keys", "bytes", "command", "conf", "priority", "remove", "end"}[r]
}

// Distribution sums up what a histogram holds. Percentiles are within half of their value.
type Distribution struct {
	Count, Sum, Max uint64
	P50, P99, P999  float64
}

// Average returns the mean, 0 of nothing.
func (d Distribution) Average() float64 {
	if d.Count == 0 {
		return 0
	}
	return float64(d.Sum) / float64(d.Count)
}

// Stats is what a System has counted since Open, and what it holds now. Times are in nanoseconds. Wait and QueueWait high
// with Flush low is a matter of who has his turn when; Flush high is the engine's write queue or the disk.
type Stats struct {
	// Wait is from Send to the turn that takes the task, QueueWait that of a region for a worker.
	Wait, QueueWait Distribution
	// Turn is the time of a turn, TurnBytes what it wrote, its ApplyStates too.
	Turn, TurnBytes Distribution
	// Flush is the time of a write of a batch, FlushKeys and FlushBytes its size, its ApplyStates too.
	Flush, FlushKeys, FlushBytes Distribution
	// RoundTurns is how many turns a worker made before the last write of a round.
	RoundTurns Distribution
	// Flushes are the writes by FlushReason, Yields the yields by YieldReason.
	Flushes [flushReasons]uint64
	Yields  [YieldPriority + 1]uint64
	// Applied are the entries written, EntryErrors those that the state machine refused, Skipped those that were in already.
	Applied, EntryErrors, Skipped uint64
	// PrefixAcks are the Applied of regions with work left.
	PrefixAcks uint64
	// Keys are those written, ApplyStates not counted.
	Keys uint64
	// SlowTurns are those longer than Config.SlowTurn, Panics those of callbacks.
	SlowTurns, Panics uint64

	// Now: regions, those of them poisoned, those that wait for a worker, and what was sent and is not written.
	Regions, Poisoned, RunQueue int
	Pending                     Lag
}

// counts gathers Stats. mu is a leaf.
type counts struct {
	mu sync.Mutex
	Stats
	wait, queueWait, turnTime, turnBytes    stats.Histogram
	flushTime, flushKeys, flushBytes, turns stats.Histogram
}

func (c *counts) do(fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fn()
}

func (c *counts) queued(d time.Duration) { c.do(func() { c.queueWait.Add(uint64(max(d, 0))) }) }
func (c *counts) waited(d time.Duration) { c.do(func() { c.wait.Add(uint64(max(d, 0))) }) }
func (c *counts) round(turns int)        { c.do(func() { c.turns.Add(uint64(turns)) }) }
func (c *counts) skipped()               { c.do(func() { c.Skipped++ }) }
func (c *counts) refused()               { c.do(func() { c.EntryErrors++ }) }
func (c *counts) prefix()                { c.do(func() { c.PrefixAcks++ }) }
func (c *counts) applied(n uint64)       { c.do(func() { c.Applied += n }) }
func (c *counts) panicked()              { c.do(func() { c.Panics++ }) }

func (c *counts) flush(why FlushReason, took time.Duration, b *ashlar.Batch) {
	c.do(func() {
		c.Flushes[why]++
		c.flushTime.Add(uint64(max(took, 0)))
		c.flushKeys.Add(uint64(b.Count()))
		c.flushBytes.Add(uint64(b.Len()))
	})
}

// turnEnded counts a turn, and logs a slow one.
func (w *worker) turnEnded(r *region, v verdict) {
	took := w.s.now().Sub(r.turnStart)
	slow := w.cfg.SlowTurn > 0 && took > w.cfg.SlowTurn
	c := &w.s.count
	c.do(func() {
		c.turnTime.Add(uint64(max(took, 0)))
		c.turnBytes.Add(r.turnBytes)
		c.Yields[v.yielded]++
		if slow {
			c.SlowTurns++
		}
	})
	if slow {
		w.s.log.Warn("raftapply: slow turn", slog.Uint64("region", uint64(r.id)), slog.Duration("took", took),
			slog.Uint64("keys", r.turnKeys), slog.Uint64("bytes", r.turnBytes), slog.String("yielded", v.yielded.String()),
			slog.Uint64("applied", r.applied.Applied))
	}
}

func sumUp(h *stats.Histogram) Distribution {
	return Distribution{
		Count: h.Count(), Sum: h.Sum(), Max: h.Max(),
		P50: h.Percentile(50), P99: h.Percentile(99), P999: h.Percentile(99.9),
	}
}

// Stats returns what was counted since Open.
func (s *System) Stats() Stats {
	all := s.all()
	c := &s.count
	c.mu.Lock()
	t := c.Stats
	t.Wait, t.QueueWait, t.Turn, t.TurnBytes = sumUp(&c.wait), sumUp(&c.queueWait), sumUp(&c.turnTime), sumUp(&c.turnBytes)
	t.Flush, t.FlushKeys, t.FlushBytes = sumUp(&c.flushTime), sumUp(&c.flushKeys), sumUp(&c.flushBytes)
	t.RoundTurns = sumUp(&c.turns)
	c.mu.Unlock()
	t.Yields[NotYielded] = 0
	t.Keys = s.written.Load()
	t.Regions = len(all)
	t.RunQueue = s.queue.length(normal) + s.queue.length(low)
	for _, r := range all {
		r.mu.Lock()
		t.Pending.Entries += r.lag.Entries
		t.Pending.Bytes += r.lag.Bytes
		if isPoison(r.err) {
			t.Poisoned++
		}
		r.mu.Unlock()
	}
	return t
}

// WritePrometheus writes the statistics in Prometheus' text format, times in seconds.
func (t *Stats) WritePrometheus(out io.Writer) error {
	p := printer{out: out}
	const seconds = 1e-9
	p.summary("wait_seconds", "From Send to the turn that takes the task.", t.Wait, seconds)
	p.summary("runqueue_wait_seconds", "Of a region for a worker.", t.QueueWait, seconds)
	p.summary("turn_seconds", "Of a turn.", t.Turn, seconds)
	p.summary("turn_bytes", "Written in a turn.", t.TurnBytes, 1)
	p.summary("flush_seconds", "Of a write of a batch.", t.Flush, seconds)
	p.summary("flush_keys", "In a batch.", t.FlushKeys, 1)
	p.summary("flush_bytes", "Of a batch.", t.FlushBytes, 1)
	p.summary("round_regions", "Turns in a round.", t.RoundTurns, 1)
	p.head("flush_total", "counter", "Writes by reason.")
	for why, n := range t.Flushes {
		p.line("raftapply_flush_total{reason=%q} %d\n", FlushReason(why).String(), n)
	}
	p.head("yield_total", "counter", "Yields by reason.")
	for why, n := range t.Yields[YieldBytes:] {
		p.line("raftapply_yield_total{reason=%q} %d\n", (YieldBytes + YieldReason(why)).String(), n)
	}
	p.one("applied_total", "counter", "Entries written.", t.Applied)
	p.one("entry_errors_total", "counter", "Entries that the state machine refused.", t.EntryErrors)
	p.one("replayed_skipped_total", "counter", "Entries that were in already.", t.Skipped)
	p.one("ack_prefix_total", "counter", "Reports of regions with work left.", t.PrefixAcks)
	p.one("keys_total", "counter", "Keys written.", t.Keys)
	p.one("slow_turns_total", "counter", "Turns that took longer than slow-turn.", t.SlowTurns)
	p.one("callback_panics_total", "counter", "Panics of callbacks.", t.Panics)
	p.one("regions", "gauge", "Regions registered.", uint64(t.Regions))
	p.one("poisoned_regions", "gauge", "Regions that stand still.", uint64(t.Poisoned))
	p.one("runqueue_len", "gauge", "Regions that wait for a worker.", uint64(t.RunQueue))
	p.one("pending_entries", "gauge", "Entries sent and not written.", t.Pending.Entries)
	p.one("pending_bytes", "gauge", "Bytes of those.", t.Pending.Bytes)
	return p.err
}

// printer keeps the first error.
type printer struct {
	out io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format, args...)
	}
}

func (p *printer) head(name, kind, help string) {
	p.line("# HELP raftapply_%s %s\n# TYPE raftapply_%s %s\n", name, help, name, kind)
}

func (p *printer) one(name, kind, help string, v uint64) {
	p.head(name, kind, help)
	p.line("raftapply_%s %d\n", name, v)
}

func (p *printer) summary(name, help string, d Distribution, scale float64) {
	p.head(name, "summary", help)
	for _, q := range []struct {
		q string
		v float64
	}{{"0.5", d.P50}, {"0.99", d.P99}, {"0.999", d.P999}, {"1", float64(d.Max)}} {
		p.line("raftapply_%s{quantile=%q} %g\n", name, q.q, q.v*scale)
	}
	p.line("raftapply_%s_sum %g\nraftapply_%s_count %d\n", name, float64(d.Sum)*scale, name, d.Count)
}
