package stats

import (
	"sync"
	"time"
)

// Measure names one thing of which there is a histogram.
type Measure uint8

// The measures, in the order of RocksDB's list.
const (
	DBGet Measure = iota
	DBWrite
	CompactionTime
	WALFileSync
	TableOpenIO
	DBMultiGet
	ReadBlockGet
	NumFilesInSingleCompaction
	DBSeek
	WriteStall
	SSTRead
	BytesPerRead
	BytesPerWrite
	BytesPerMultiGet
	ReadNumMergeOperands
	FlushTime

	// Measures is how many there are.
	Measures
)

var measureNames = [Measures]string{
	DBGet:                      "rocksdb.db.get.micros",
	DBWrite:                    "rocksdb.db.write.micros",
	CompactionTime:             "rocksdb.compaction.times.micros",
	WALFileSync:                "rocksdb.wal.file.sync.micros",
	TableOpenIO:                "rocksdb.table.open.io.micros",
	DBMultiGet:                 "rocksdb.db.multiget.micros",
	ReadBlockGet:               "rocksdb.read.block.get.micros",
	NumFilesInSingleCompaction: "rocksdb.numfiles.in.singlecompaction",
	DBSeek:                     "rocksdb.db.seek.micros",
	WriteStall:                 "rocksdb.db.write.stall",
	SSTRead:                    "rocksdb.sst.read.micros",
	BytesPerRead:               "rocksdb.bytes.per.read",
	BytesPerWrite:              "rocksdb.bytes.per.write",
	BytesPerMultiGet:           "rocksdb.bytes.per.multiget",
	ReadNumMergeOperands:       "rocksdb.read.num.merge_operands",
	FlushTime:                  "rocksdb.db.flush.micros",
}

// Name returns RocksDB's name of a measure.
func (m Measure) Name() string { return measureNames[m] }

// Histograms has a histogram for each measure. Many goroutines may use it. A nil one measures nothing, at no cost.
type Histograms struct {
	clocks bool
	all    [Measures]shared
}

// shared is a histogram in parts, of which each goroutine mostly has one to itself.
type shared [stripes]struct {
	mu sync.Mutex
	h  Histogram
	_  [64]byte
}

// NewHistograms returns empty histograms. Without clocks, Start and Since do nothing.
func NewHistograms(clocks bool) *Histograms { return &Histograms{clocks: clocks} }

// Start returns the time, or the zero time where no time is measured.
func (h *Histograms) Start() time.Time {
	if h == nil || !h.clocks {
		return time.Time{}
	}
	return time.Now()
}

// Since adds the microseconds since start, which Start has returned.
func (h *Histograms) Since(m Measure, start time.Time) {
	if !start.IsZero() {
		h.Add(m, uint64(time.Since(start).Microseconds()))
	}
}

// Add adds a value.
func (h *Histograms) Add(m Measure, v uint64) {
	if h == nil {
		return
	}
	p := &h.all[m][here()]
	p.mu.Lock()
	p.h.Add(v)
	p.mu.Unlock()
}

// Load returns a copy of one histogram.
func (h *Histograms) Load(m Measure) (sum Histogram) {
	for i := range h.all[m] {
		p := &h.all[m][i]
		p.mu.Lock()
		sum.Merge(&p.h)
		p.mu.Unlock()
	}
	return sum
}

// Reset empties all of them.
func (h *Histograms) Reset() {
	for m := range h.all {
		for i := range h.all[m] {
			p := &h.all[m][i]
			p.mu.Lock()
			p.h = Histogram{}
			p.mu.Unlock()
		}
	}
}
