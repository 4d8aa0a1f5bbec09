package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ashlardb/ashlar/internal/stats"
)

// opKind is what an operation is, for histograms.
type opKind uint8

const (
	opRead opKind = iota
	opWrite
	opDelete
	opSeek
	opMerge
	opUpdate
	opCompress
	opUncompress
	opChecksum
	opHash
	opOther
	opKinds
)

func (k opKind) String() string {
	return [...]string{"read", "write", "delete", "seek", "merge", "update", "compress", "uncompress", "crc", "hash", "op"}[k]
}

// observer is what the statistics of threads tell others about. It does not change while a benchmark runs.
type observer struct {
	now          func() time.Time
	stderr       io.Writer
	terminal     bool // stderr is one
	progress     bool
	histogram    bool
	slowMicros   int64
	interval     int64         // operations between looks at the clock; 0: no reports
	intervalTime time.Duration // between reports; 0: one at each look
	perReport    func() string // for thread 0; may be nil
	reporter     *reporter     // may be nil
}

// threadStats counts what one thread does in one benchmark. It belongs to that thread until the benchmark ends.
type threadStats struct {
	*observer
	id             int
	start, finish  time.Time
	lastOp         int64 // when the operation before ended, in whole microseconds since start
	lastReport     time.Time
	seconds        float64 // summed over threads
	done, bytes    int64
	nextReport     int64 // value of done
	lastReportDone int64
	message        string
	excluded       bool // from the totals
	slowPath       bool // an operation is more than a count
	kinds          [opKinds]*stats.Histogram
	_              [64]byte // neighbours count as well
}

// Start begins, or begins anew: what was counted is forgotten.
func (s *threadStats) Start(o *observer, id int) {
	*s = threadStats{observer: o, id: id, nextReport: math.MaxInt64, slowPath: o.histogram || o.reporter != nil}
	if o.progress && o.interval > 0 {
		s.nextReport = o.interval
	} else if o.progress && o.terminal {
		s.nextReport = 100
	}
	s.start = o.now()
	s.lastReport, s.finish = s.start, s.start
}

// Finished counts n operations that were done at once.
func (s *threadStats) Finished(n int64, kind opKind) {
	if s.slowPath {
		s.measure(n, kind)
	}
	s.done += n
	if s.done >= s.nextReport {
		s.report()
	}
}

// measure takes the time since the operation before, which is that of this one and of the making of its key and value.
func (s *threadStats) measure(n int64, kind opKind) {
	if s.reporter != nil {
		s.reporter.done.Add(uint64(n))
	}
	if !s.histogram {
		return
	}
	// Whole microseconds from the start, so that what one operation loses by rounding the next one gains.
	now := s.now().Sub(s.start).Microseconds()
	took := now - s.lastOp
	s.lastOp = now
	if s.kinds[kind] == nil {
		s.kinds[kind] = new(stats.Histogram)
	}
	s.kinds[kind].Add(uint64(max(took, 0)))
	if took >= s.slowMicros && s.terminal && s.interval == 0 {
		fmt.Fprintf(s.stderr, "long op: %d micros%30s\r", took, "")
	}
}

// report tells the progress.
func (s *threadStats) report() {
	if s.interval == 0 {
		s.nextReport += step(s.nextReport)
		fmt.Fprintf(s.stderr, "... finished %d ops%30s\r", s.done, "")
		return
	}
	s.nextReport += s.interval
	now := s.now()
	since := now.Sub(s.lastReport)
	if since < s.intervalTime {
		return
	}
	total := now.Sub(s.start)
	line := fmt.Sprintf("%s  ... thread %d: (%d,%d) ops and (%.1f,%.1f) ops/second in (%.6f,%.6f) seconds\n",
		now.Format("2006/01/02-15:04:05"), s.id, s.done-s.lastReportDone, s.done,
		float64(s.done-s.lastReportDone)/since.Seconds(), float64(s.done)/total.Seconds(), since.Seconds(), total.Seconds())
	if s.id == 0 && s.perReport != nil {
		line += s.perReport() + "\n"
	}
	io.WriteString(s.stderr, line)
	s.lastReport, s.lastReportDone = now, s.done
}

// step is how far the next report of progress on a terminal is behind the one at n.
func step(n int64) int64 {
	switch {
	case n < 1000:
		return 100
	case n < 5000:
		return 500
	case n < 10_000:
		return 1000
	case n < 50_000:
		return 5000
	case n < 100_000:
		return 10_000
	case n < 500_000:
		return 50_000
	default:
		return 100_000
	}
}

// Stop ends the thread's clock.
func (s *threadStats) Stop() {
	s.finish = s.now()
	s.seconds = s.finish.Sub(s.start).Seconds()
}

// totals are the statistics of all threads of one run.
type totals struct {
	start, finish time.Time
	seconds       float64
	done, bytes   int64
	message       string // the first thread's that has one
	kinds         [opKinds]*stats.Histogram
}

func mergeStats(threads []*threadStats) (t totals) {
	for _, s := range threads {
		if s.excluded {
			continue
		}
		if t.start.IsZero() || s.start.Before(t.start) {
			t.start = s.start
		}
		if s.finish.After(t.finish) {
			t.finish = s.finish
		}
		t.seconds += s.seconds
		t.done += s.done
		t.bytes += s.bytes
		if t.message == "" {
			t.message = s.message
		}
		for kind, h := range s.kinds {
			if h == nil {
				continue
			}
			if t.kinds[kind] == nil {
				t.kinds[kind] = new(stats.Histogram)
			}
			t.kinds[kind].Merge(h)
		}
	}
	// A benchmark that counts nothing is one operation.
	t.done = max(t.done, 1)
	return t
}

// elapsed is the time by the clock on the wall.
func (t *totals) elapsed() float64 { return max(t.finish.Sub(t.start).Seconds(), 1e-9) }

func (t *totals) opsPerSecond() float64 { return float64(t.done) / t.elapsed() }

func (t *totals) megabytesPerSecond() float64 { return float64(t.bytes) / (1 << 20) / t.elapsed() }

// String is the result line of a run and, if there are any, its histograms. micros/op is what one thread needed for an
// operation; the other rates are of all threads together.
func (t *totals) String(name string) string {
	var extra string
	if t.bytes > 0 {
		extra = fmt.Sprintf(" %6.1f MB/s", t.megabytesPerSecond())
	}
	if t.message != "" {
		extra += " " + t.message
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s : %11.3f micros/op %d ops/sec %.3f seconds %d operations;%s\n",
		name, t.seconds*1e6/float64(t.done), int64(t.opsPerSecond()), t.elapsed(), t.done, extra)
	for kind, h := range t.kinds {
		if h != nil {
			fmt.Fprintf(&b, "Microseconds per %s:\n%s\n", opKind(kind), h)
		}
	}
	return b.String()
}

// repeats collects the rates of the runs of a benchmark that is repeated.
type repeats struct {
	ops, megabytes []float64
}

func (r *repeats) add(t *totals) {
	r.ops = append(r.ops, t.opsPerSecond())
	if t.bytes > 0 {
		r.megabytes = append(r.megabytes, t.megabytesPerSecond())
	}
}

// hasMegabytes says whether each run has moved bytes that were counted.
func (r *repeats) hasMegabytes() bool { return len(r.megabytes) == len(r.ops) }

// sofar is the line after each run but the first: the average with the half width of its 95 % confidence interval, or
// that interval.
func (r *repeats) sofar(name string, interval bool) string {
	n := len(r.ops)
	if n < 2 {
		return ""
	}
	ops, opsWidth := average(r.ops), confidence(r.ops)
	if interval {
		line := fmt.Sprintf("%s [CI95 %d runs] : (%d, %d) ops/sec", name, n, int64(ops-opsWidth), int64(ops+opsWidth))
		if r.hasMegabytes() {
			mb, width := average(r.megabytes), confidence(r.megabytes)
			line += fmt.Sprintf("; (%.1f, %.1f) MB/sec", mb-width, mb+width)
		}
		return line + "\n"
	}
	line := fmt.Sprintf("%s [AVG %d runs] : %d (± %d) ops/sec", name, n, int64(ops), int64(opsWidth))
	if r.hasMegabytes() {
		line += fmt.Sprintf("; %6.1f (± %.1f) MB/sec", average(r.megabytes), confidence(r.megabytes))
	}
	return line + "\n"
}

// final are the two lines after the last run.
func (r *repeats) final(name string) string {
	n, ops := len(r.ops), average(r.ops)
	avg := fmt.Sprintf("%s [AVG    %d runs] : %d (± %d) ops/sec; %.3f ms/op", name, n, int64(ops), int64(confidence(r.ops)), 1000/ops)
	mid := fmt.Sprintf("%s [MEDIAN %d runs] : %d ops/sec", name, n, int64(median(r.ops)))
	if r.hasMegabytes() {
		avg += fmt.Sprintf("; %6.1f (± %.1f) MB/sec", average(r.megabytes), confidence(r.megabytes))
		mid += fmt.Sprintf("; %6.1f MB/sec", median(r.megabytes))
	}
	return avg + "\n" + mid + "\n"
}

func average(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// confidence is half the width of the 95 % confidence interval of the average.
func confidence(x []float64) float64 {
	if len(x) < 2 {
		return 0
	}
	avg, sum := average(x), 0.0
	for _, v := range x {
		sum += (v - avg) * (v - avg)
	}
	return 1.96 * math.Sqrt(sum/float64(len(x)-1)) / math.Sqrt(float64(len(x)))
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	mid := len(x) / 2
	if len(x)%2 == 0 {
		return (x[mid-1] + x[mid]) / 2
	}
	return x[mid]
}
