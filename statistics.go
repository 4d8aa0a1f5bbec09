// Statistics, RocksDB's object of that name: what one or several databases have counted, and histograms, which cost a look
// at the clock and are taken only where somebody asks for them.
//
//  1. Each family counts for itself, and the database what is nobody's family. Counting goes on without a Statistics too:
//     Metrics shows it.
//  2. A Statistics knows the databases that have it in their options, and adds them up when it is asked. What a database
//     has counted stays in it after Close.
//  3. Histograms are the Statistics' own: all databases add to them.

package ashlar

import (
	"fmt"
	"strings"
	"sync"

	"github.com/ashlardb/ashlar/internal/stats"
)

// StatsLevel says what a Statistics measures beside the tickers, which are always counted.
type StatsLevel uint8

const (
	// DefaultStatsLevel is StatsExceptDetailedTimers, RocksDB's default.
	DefaultStatsLevel StatsLevel = iota
	// StatsExceptHistogramOrTimers takes no histogram.
	StatsExceptHistogramOrTimers
	// StatsExceptTimers takes histograms of sizes, and looks at no clock.
	StatsExceptTimers
	// StatsExceptDetailedTimers takes histograms of sizes and of times. Each read and write looks at the clock twice. RocksDB's
	// timers beyond that, of mutexes and compression, are not built.
	StatsExceptDetailedTimers
)

// Statistics sums up what the databases count that have it in Options.Statistics. Make it with NewStatistics. Its methods
// may be called from many goroutines, also while and after databases are open.
type Statistics struct {
	histograms *stats.Histograms // nil: none

	mu   sync.Mutex // taken before DB.mu
	open map[*DB]struct{}
	past stats.Counts // of closed databases
	base stats.Counts // at Reset
}

// NewStatistics returns a Statistics of DefaultStatsLevel.
func NewStatistics() *Statistics { return NewStatisticsWithLevel(DefaultStatsLevel) }

// NewStatisticsWithLevel returns a Statistics of a level, which does not change.
func NewStatisticsWithLevel(l StatsLevel) *Statistics {
	s := &Statistics{open: map[*DB]struct{}{}}
	if l != StatsExceptHistogramOrTimers {
		s.histograms = stats.NewHistograms(l != StatsExceptTimers)
	}
	return s
}

// hist is what the databases add to.
func (s *Statistics) hist() *stats.Histograms {
	if s == nil {
		return nil
	}
	return s.histograms
}

func (s *Statistics) add(d *DB) {
	if s != nil {
		s.mu.Lock()
		s.open[d] = struct{}{}
		s.mu.Unlock()
	}
}

// remove keeps what d has counted, which counts no more.
func (s *Statistics) remove(d *DB) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.open[d]; ok {
		delete(s.open, d)
		d.addCounts(&s.past)
	}
}

func (s *Statistics) allLocked() stats.Counts {
	c := s.past
	for d := range s.open {
		d.addCounts(&c)
	}
	return c
}

// counts returns the tickers since Reset.
func (s *Statistics) counts() stats.Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.allLocked()
	for i, n := range s.base {
		c[i] -= n
	}
	c.Sum()
	return c
}

// Reset makes all tickers and histograms zero. Metrics of databases are not touched.
func (s *Statistics) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base = s.allLocked()
	if s.histograms != nil {
		s.histograms.Reset()
	}
}

// Ticker returns a ticker by RocksDB's name, such as "rocksdb.block.cache.hit"; false for one that is not counted here.
func (s *Statistics) Ticker(name string) (uint64, bool) { return findTicker(s.counts(), name) }

// Tickers returns all tickers, in the order of RocksDB's list.
func (s *Statistics) Tickers() []Ticker { return tickers(s.counts()) }

// Ticker is the count of one thing.
type Ticker struct {
	// Name is RocksDB's.
	Name  string
	Count uint64
}

func tickers(c stats.Counts) []Ticker {
	all := make([]Ticker, stats.Named)
	for k := range all {
		all[k] = Ticker{stats.Ticker(k).Name(), c[k]}
	}
	return all
}

func findTicker(c stats.Counts, name string) (uint64, bool) {
	for k := range stats.Named {
		if k.Name() == name {
			return c[k], true
		}
	}
	return 0, false
}

// HistogramData is what is known of one measure: microseconds or, where the name says so, bytes or numbers.
type HistogramData struct {
	// Name is RocksDB's.
	Name                                    string
	Count, Sum, Min, Max                    uint64
	Median, P95, P99, Average, StdDeviation float64
}

// Histograms returns all histograms, in the order of RocksDB's list. Nil if the level takes none.
func (s *Statistics) Histograms() (all []HistogramData) {
	if s.histograms == nil {
		return nil
	}
	for m := range stats.Measures {
		h := s.histograms.Load(m)
		all = append(all, HistogramData{
			Name: m.Name(), Count: h.Count(), Sum: h.Sum(), Min: h.Min(), Max: h.Max(),
			Median: h.Percentile(50), P95: h.Percentile(95), P99: h.Percentile(99), Average: h.Average(), StdDeviation: h.StdDev(),
		})
	}
	return all
}

// String returns one line for each ticker and each histogram, in the form of RocksDB's Statistics::ToString and of
// db_bench --statistics.
func (s *Statistics) String() string {
	var b strings.Builder
	writeTickers(&b, s.counts())
	for _, h := range s.Histograms() {
		fmt.Fprintf(&b, "%s P50 : %f P95 : %f P99 : %f P100 : %f COUNT : %d SUM : %d\n",
			h.Name, h.Median, h.P95, h.P99, float64(h.Max), h.Count, h.Sum)
	}
	return b.String()
}

func writeTickers(b *strings.Builder, c stats.Counts) {
	for k := range stats.Named {
		fmt.Fprintf(b, "%s COUNT : %d\n", k.Name(), c[k])
	}
}

// addCounts adds to c what the database has counted.
func (d *DB) addCounts(c *stats.Counts) {
	d.mu.Lock()
	for _, cf := range *d.families.Load() {
		if cf != nil {
			cf.counts.AddTo(c)
		}
	}
	for k, n := range d.dropped {
		c[k] += n
	}
	d.mu.Unlock()
	d.counts.AddTo(c)
	n := &d.counters
	groups, writes := n.groups.Load(), n.writes.Load()
	for k, v := range map[stats.Ticker]uint64{
		stats.NumberKeysWritten: n.keysWritten.Load(), stats.BytesWritten: n.bytesWritten.Load(),
		stats.WALFileBytes: n.walBytes.Load(), stats.WALFileSynced: n.walSyncs.Load(),
		stats.WriteDoneBySelf: groups, stats.WriteDoneByOther: max(writes, groups) - groups, stats.WriteWithWAL: n.walWrites.Load(),
		stats.StallMicros: n.stallMicros.Load(), stats.FlushWriteBytes: n.flushBytes.Load(),
		stats.CompactReadBytes: n.compactBytesRead.Load(), stats.CompactWriteBytes: n.compactBytesWritten.Load(),
	} {
		c[k] += v
	}
}

// tickerCounts returns what the database has counted, sums included.
func (d *DB) tickerCounts() (c stats.Counts) {
	d.addCounts(&c)
	c.Sum()
	return c
}
