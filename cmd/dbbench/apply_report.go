package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ashlardb/ashlar/raftapply"
)

// applyResult is what came out of a run.
type applyResult struct {
	yield   raftapply.Size
	took    time.Duration // what is counted
	ops     int
	small   [5]time.Duration // average, p50, p99, p99.9, max
	foreign [4]uint64        // p50, p99, p99.9, max
	batches int
	bulk    time.Duration // average
	stats   raftapply.Stats
	stalls  time.Duration
}

// ranked is the value that a share of all does not exceed.
func ranked[T cmp.Ordered](sorted []T, share float64) (v T) {
	if len(sorted) > 0 {
		v = sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
	}
	return v
}

func meanOf(all []time.Duration) (sum time.Duration) {
	for _, d := range all {
		sum += d
	}
	return sum / time.Duration(max(len(all), 1))
}

func newApplyResult(yield raftapply.Size, r *applyRun, st raftapply.Stats, took time.Duration, stallMicros uint64) *applyResult {
	slices.Sort(r.small)
	slices.Sort(r.foreign)
	a := &applyResult{
		yield: yield, took: took - r.flags.length/6, ops: len(r.small), batches: len(r.bulk), bulk: meanOf(r.bulk), stats: st,
		stalls: time.Duration(stallMicros) * time.Microsecond,
	}
	a.small[0] = meanOf(r.small)
	for i, share := range []float64{0.5, 0.99, 0.999, 1} {
		a.small[i+1], a.foreign[i] = ranked(r.small, share), ranked(r.foreign, share)
	}
	return a
}

func (a *applyResult) throughput() float64 { return float64(a.ops) / a.took.Seconds() }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// print writes the result.
func (b *bench) printApply(name string, a *applyResult) {
	out := func(format string, args ...any) { fmt.Fprintf(b.stdout, format, args...) }
	out("%-12s : yield %v, %d worker(s); %d small writes, %.0f ops/sec\n", name, a.yield, b.cfg.apply.workers, a.ops, a.throughput())
	s := a.small
	out("  small ms   : avg %.3f p50 %.3f p99 %.3f p99.9 %.3f max %.3f\n", millis(s[0]), millis(s[1]), millis(s[2]), millis(s[3]), millis(s[4]))
	f := a.foreign
	out("  keys of others before the callback: p50 %d p99 %d p99.9 %d max %d\n", f[0], f[1], f[2], f[3])
	if name == "applymix" {
		out("  bulk       : %d batches, avg %.3f ms, %d region(s)\n", a.batches, millis(a.bulk), b.cfg.apply.bulkRegions)
	}
	st := &a.stats
	out("  yields     :")
	for r := raftapply.YieldBytes; r <= raftapply.YieldPriority; r++ {
		out(" %v %d", r, st.Yields[r])
	}
	out("\n  flushes    :")
	for r := raftapply.FlushKeys; r <= raftapply.FlushEnd; r++ {
		out(" %v %d", r, st.Flushes[r])
	}
	out("; keys per flush %.1f, flush avg %.3f ms\n", st.FlushKeys.Average(), st.Flush.Average()/1e6)
	out("  turns      : %d in %d rounds; stalled %.3f s\n", st.Turn.Count, st.RoundTurns.Count, a.stalls.Seconds())
}

// applyMix and applyUniform are the benchmarks.
func (b *bench) applyMix() error { return b.apply("applymix", (*applyRun).mix) }

func (b *bench) applyUniform() error { return b.apply("applyuniform", (*applyRun).even) }

func (b *bench) apply(name string, load func(*applyRun)) error {
	if b.cfg.useExistingDB {
		fmt.Fprintf(b.stdout, "%-12s : skipped (--use_existing_db is true)\n", name)
		return nil
	}
	yields := []raftapply.Size{b.cfg.apply.yield}
	if b.cfg.apply.pairs > 0 {
		yields = []raftapply.Size{raftapply.NoYield, b.cfg.apply.yield}
	}
	results := make([][]*applyResult, len(yields))
	for range max(b.cfg.apply.pairs, 1) {
		for i, y := range yields {
			a, err := b.applyOnce(y, load)
			if err != nil {
				return err
			}
			b.printApply(name, a)
			results[i] = append(results[i], a)
		}
	}
	if b.cfg.apply.pairs > 0 {
		b.printPairs(name, results[0], results[1])
	}
	return nil
}

// middleOf is the middle one of what of gives, the mean of the middle two if there are two.
func middleOf(all []*applyResult, of func(*applyResult) float64) float64 {
	var v []float64
	for _, a := range all {
		v = append(v, of(a))
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// printPairs writes the medians of runs without yields and with, and what the first are of the second.
func (b *bench) printPairs(name string, off, on []*applyResult) {
	fmt.Fprintf(b.stdout, "%-12s : medians of %d pairs, yield off and %v\n", name, len(off), on[0].yield)
	row := func(what string, of func(*applyResult) float64) {
		x, y := middleOf(off, of), middleOf(on, of)
		ratio := "-"
		if y != 0 {
			ratio = fmt.Sprintf("%.2f", x/y)
		}
		fmt.Fprintf(b.stdout, "  %-26s off %12.3f  on %12.3f  off/on %s\n", what, x, y, ratio)
	}
	for i, q := range []string{"avg", "p50", "p99", "p99.9", "max"} {
		row("small "+q+" ms", func(a *applyResult) float64 { return millis(a.small[i]) })
	}
	for i, q := range []string{"p50", "p99", "p99.9", "max"} {
		row("keys of others "+q, func(a *applyResult) float64 { return float64(a.foreign[i]) })
	}
	row("small ops/sec", (*applyResult).throughput)
	if name == "applymix" {
		row("bulk avg ms", func(a *applyResult) float64 { return millis(a.bulk) })
	}
	row("keys per flush", func(a *applyResult) float64 { return a.stats.FlushKeys.Average() })
}
