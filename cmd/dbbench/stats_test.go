package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// tick is a clock that each look at moves on by a step.
type tick struct {
	now  time.Time
	step time.Duration
}

func newTick(step time.Duration) *tick {
	return &tick{now: time.Date(2026, 11, 30, 15, 10, 37, 0, time.UTC), step: step}
}

func (c *tick) Now() time.Time {
	now := c.now
	c.now = c.now.Add(c.step)
	return now
}

func (c *tick) pass(d time.Duration) { c.now = c.now.Add(d) }

func TestResultLineHasDbBenchsForm(t *testing.T) {
	start := time.Unix(1000, 0)
	one := &threadStats{start: start, finish: start.Add(3 * time.Second), seconds: 3, done: 100_000, bytes: 10 << 20}
	two := &threadStats{start: start, finish: start.Add(3028 * time.Millisecond), seconds: 3.028, done: 50_998, bytes: 7 << 20}
	sum := mergeStats([]*threadStats{one, two})
	require.Equal(t, "fillrandom   :      39.921 micros/op 49867 ops/sec 3.028 seconds 150998 operations;    5.6 MB/s\n",
		sum.String("fillrandom"))
	one.message, two.message = "(5 of 9 found)\n", "(6 of 9 found)\n"
	sum = mergeStats([]*threadStats{one, two})
	require.Equal(t, "readrandomwriterandom :      39.921 micros/op 49867 ops/sec 3.028 seconds 150998 operations;    5.6 MB/s (5 of 9 found)\n\n",
		sum.String("readrandomwriterandom"), "the first thread's message")
	one.bytes, two.bytes = 0, 0
	sum = mergeStats([]*threadStats{one, two})
	require.Equal(t, "readmissing  :      39.921 micros/op 49867 ops/sec 3.028 seconds 150998 operations; (5 of 9 found)\n\n",
		sum.String("readmissing"))
	one.message, two.message = "", ""
	sum = mergeStats([]*threadStats{one, two})
	require.Equal(t, "deleteseq    :      39.921 micros/op 49867 ops/sec 3.028 seconds 150998 operations;\n", sum.String("deleteseq"))
}

func TestWhatCountsNothingIsOneOperation(t *testing.T) {
	start := time.Unix(1000, 0)
	sum := mergeStats([]*threadStats{{start: start, finish: start.Add(102 * time.Millisecond), seconds: 0.102}})
	require.Equal(t, "compact      :  102000.000 micros/op 9 ops/sec 0.102 seconds 1 operations;\n", sum.String("compact"))
}

func TestExcludedThreadIsInNoTotal(t *testing.T) {
	start := time.Unix(1000, 0)
	writer := &threadStats{excluded: true, start: start.Add(-time.Hour), finish: start.Add(time.Hour), done: 7, bytes: 7, message: "w"}
	reader := &threadStats{start: start, finish: start.Add(time.Second), seconds: 1, done: 4, message: "r"}
	sum := mergeStats([]*threadStats{writer, reader})
	require.Equal(t, totals{start: start, finish: start.Add(time.Second), seconds: 1, done: 4, message: "r"}, sum)
}

func TestHistogramMeasuresFromOperationToOperation(t *testing.T) {
	clock := newTick(0)
	o := &observer{now: clock.Now, stderr: io.Discard, histogram: true, slowMicros: 1_000_000}
	var s threadStats
	s.Start(o, 0)
	for range 10 {
		clock.pass(1500 * time.Nanosecond) // 1, 3, 4, 6, … µs after the start: 1 and 2 in turns
		s.Finished(1, opRead)
	}
	clock.pass(7 * time.Microsecond)
	s.Finished(1, opWrite)
	s.Stop()
	sum := mergeStats([]*threadStats{&s, &s})
	text := sum.String("x")
	read, write := sum.kinds[opRead], sum.kinds[opWrite]
	require.Equal(t, []uint64{20, 30, 1, 2}, []uint64{read.Count(), read.Sum(), read.Min(), read.Max()})
	require.Equal(t, []uint64{2, 14}, []uint64{write.Count(), write.Sum()})
	require.Contains(t, text, "operations;\nMicroseconds per read:\nCount: 20 Average: 1.5000  StdDev: 0.50\n")
	require.Contains(t, text, "\n\nMicroseconds per write:\nCount: 2 ")
	require.True(t, strings.HasSuffix(text, "\n\n"), "a blank line behind each")
}

func TestProgressOnATerminalGrowsItsSteps(t *testing.T) {
	var out bytes.Buffer
	clock := newTick(time.Microsecond)
	o := &observer{now: clock.Now, stderr: &out, terminal: true, progress: true}
	var s threadStats
	s.Start(o, 0)
	for range 12_000 {
		s.Finished(1, opWrite)
	}
	var at []string
	for part := range strings.SplitSeq(strings.TrimSuffix(out.String(), "\r"), "\r") {
		number, ok := strings.CutSuffix(strings.TrimPrefix(part, "... finished "), " ops"+strings.Repeat(" ", 30))
		require.True(t, ok, "%q", part)
		at = append(at, number)
	}
	require.Equal(t, strings.Fields("100 200 300 400 500 600 700 800 900 1000 1500 2000 2500 3000 3500 4000 4500 5000 "+
		"6000 7000 8000 9000 10000"), at)
}

func TestNoProgressWhereThereIsNoTerminal(t *testing.T) {
	var out bytes.Buffer
	for _, o := range []*observer{
		{progress: true},
		{terminal: true},
		{interval: 10},
	} {
		o.now, o.stderr = newTick(0).Now, &out
		var s threadStats
		s.Start(o, 0)
		for range 1000 {
			s.Finished(1, opWrite)
		}
	}
	require.Empty(t, out.String())
}

func TestIntervalReportsHaveDbBenchsForm(t *testing.T) {
	var out bytes.Buffer
	clock := newTick(0)
	o := &observer{now: clock.Now, stderr: &out, progress: true, interval: 1000, intervalTime: time.Second,
		perReport: func() string { return "properties" }}
	var zero, one threadStats
	zero.Start(o, 0)
	one.Start(o, 1)
	for range 3 {
		clock.pass(600 * time.Millisecond)
		one.Finished(1000, opWrite)
	}
	clock.pass(time.Second)
	zero.Finished(5000, opWrite)
	require.Equal(t, "2026/11/30-15:10:38  ... thread 1: (2000,2000) ops and (1666.7,1666.7) ops/second in (1.200000,1.200000) seconds\n"+
		"2026/11/30-15:10:39  ... thread 0: (5000,5000) ops and (1785.7,1785.7) ops/second in (2.800000,2.800000) seconds\n"+
		"properties\n", out.String())
	out.Reset()
	one.Finished(1000, opWrite)
	require.Equal(t, "2026/11/30-15:10:39  ... thread 1: (2000,4000) ops and (1250.0,1428.6) ops/second in (1.600000,2.800000) seconds\n",
		out.String())
}

// The rates are those of a run of db_bench 7.8.3 with [X3], whose lines these are.
func TestRepeatLinesHaveDbBenchsForm(t *testing.T) {
	var r repeats
	add := func(ops, mb float64) {
		r.ops = append(r.ops, ops)
		if mb > 0 {
			r.megabytes = append(r.megabytes, mb)
		}
	}
	add(28080, 3.106)
	require.Empty(t, r.sofar("fillrandom", false), "one run has no average")
	add(30990, 3.428)
	require.Equal(t, "fillrandom [AVG 2 runs] : 29535 (± 2851) ops/sec;    3.3 (± 0.3) MB/sec\n", r.sofar("fillrandom", false))
	require.Equal(t, "fillrandom [CI95 2 runs] : (26683, 32386) ops/sec; (3.0, 3.6) MB/sec\n", r.sofar("fillrandom", true))
	add(30278, 3.349)
	require.Equal(t, "fillrandom [AVG 3 runs] : 29782 (± 1716) ops/sec;    3.3 (± 0.2) MB/sec\n", r.sofar("fillrandom", false))
	require.Equal(t, "fillrandom [AVG    3 runs] : 29782 (± 1716) ops/sec; 0.034 ms/op;    3.3 (± 0.2) MB/sec\n"+
		"fillrandom [MEDIAN 3 runs] : 30278 ops/sec;    3.3 MB/sec\n", r.final("fillrandom"))

	r = repeats{}
	for _, ops := range []float64{22410, 22344, 22672, 16714} {
		add(ops, 0)
	}
	require.Equal(t, "readmissing [AVG 4 runs] : 21035 (± 2826) ops/sec\n", r.sofar("readmissing", false))
	require.Equal(t, "readmissing [AVG    4 runs] : 21035 (± 2826) ops/sec; 0.048 ms/op\n"+
		"readmissing [MEDIAN 4 runs] : 22377 ops/sec\n", r.final("readmissing"))
}

type closeBuffer struct {
	bytes.Buffer
	closed bool
}

func (b *closeBuffer) Close() error {
	b.closed = true
	return nil
}

func TestReportFileHasALineForEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var file closeBuffer
		r := newReporter(&file, 2*time.Second)
		r.done.Add(10)
		time.Sleep(2500 * time.Millisecond)
		r.done.Add(5)
		time.Sleep(2 * time.Second)
		r.done.Add(99)
		require.NoError(t, r.stop())
		require.Equal(t, "secs_elapsed,interval_qps\n2,10\n4,5\n", file.String())
		require.True(t, file.closed)
	})
}

func TestLimiterSpacesOutWhatThreadsDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := newLimiter(100)
		for range 10 {
			l.wait(20)
		}
		require.Equal(t, 1800*time.Millisecond, time.Since(start), "the last one may begin after nine")
		newLimiter(0).wait(1 << 40)
	})
}

func TestProcessorAndMemoryAreReadFromProc(t *testing.T) {
	cpus, model, cache := parseProcessor(strings.NewReader(
		"processor\t: 0\nmodel name\t: A CPU\ncache size\t: 512 KB\n\nprocessor\t: 1\nmodel name\t: A CPU\ncache size\t: 512 KB\n"))
	require.Equal(t, []any{2, "A CPU", "512 KB"}, []any{cpus, model, cache})
	require.Equal(t, int64(16<<30), parseMemTotal("MemFree: 1 kB\nMemTotal:       16777216 kB\n"))
	require.Zero(t, parseMemTotal("nonsense"))
	c := newConfig()
	require.Equal(t, int64(12<<30-32<<20-3*64<<20), heapLimit(16<<30, c))
	require.Equal(t, int64(leastHeap), heapLimit(1<<20, c))
}
