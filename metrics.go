package ashlar

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/writegroup"
)

// counters are what the database counts since Open.
type counters struct {
	groups, writes, keysWritten, walBytes, walSyncs    atomic.Uint64
	flushes, flushBytes                                atomic.Uint64
	compactions, compactBytesRead, compactBytesWritten atomic.Uint64
	stallMicros                                        atomic.Uint64
	bytesWritten, walWrites                            atomic.Uint64
	lowPriHeld, lowPriNanos                            atomic.Uint64
}

// Metrics are the numbers of a database at one moment. Counts are since Open.
type Metrics struct {
	// WriteGroups is the number of groups in which Writes were done; KeysWritten counts the entries of their batches.
	WriteGroups, Writes, KeysWritten uint64
	// WriteQueue says how those groups came about: their sizes, and who woke whom.
	WriteQueue WriteQueueStats
	// WALBytes were written to logs, in WALSyncs times synced.
	WALBytes, WALSyncs uint64
	// Flushes wrote FlushBytes to level 0.
	Flushes, FlushBytes uint64
	// Compactions, moves included, read and wrote these bytes.
	Compactions, CompactionBytesRead, CompactionBytesWritten uint64
	// StallMicros is how long writers were held back, in microseconds.
	StallMicros uint64
	// LowPriHeld is how many writes with LowPri were held back to make way, and LowPriHeldFor for how long together.
	LowPriHeld    uint64
	LowPriHeldFor time.Duration
	// BlockCacheUsage is what the block cache holds of its BlockCacheCapacity, in bytes. BlockCachePinned is what is in use,
	// and BlockCacheResident the memory that blocks take, room for the next ones included. Several databases may share the
	// cache: these are its numbers.
	BlockCacheUsage, BlockCacheCapacity, BlockCachePinned, BlockCacheResident int64
	// BlockCacheEntries are what it holds, by class.
	BlockCacheEntries BlockCacheEntries
	// Reads sums up the families', dropped ones included.
	Reads ReadMetrics
	// Tickers are RocksDB's, in the order of its list; Ticker finds one.
	Tickers []Ticker
	// WALSize is the size of the logs that are still needed.
	WALSize int64
	// Snapshots and open handles.
	Snapshots, OpenIterators int64
	// Families in the order in which they were made.
	Families []FamilyMetrics
}

// WriteQueueStats are the counts of the queue in which writers form groups.
type WriteQueueStats = writegroup.Stats

// FamilyMetrics are the numbers of one family.
type FamilyMetrics struct {
	Name string
	// MemtableBytes is what all memtables that are not flushed take, full ones and filters included; ImmutableMemtables counts
	// the full ones. MemtableHistoryBytes is what flushed ones take that are kept (MaxWriteBufferSizeToMaintain).
	MemtableBytes        int64
	MemtableHistoryBytes int64
	ImmutableMemtables   int
	// TableReaderBytes is the memory of open tables' index and filter blocks.
	TableReaderBytes int64
	// PendingCompactionBytes is an estimate of what compactions have to rewrite.
	PendingCompactionBytes uint64
	// Stall is "normal", "pressure", "delayed" or "stopped", and StallCause the rule.
	Stall, StallCause string
	// WriteStalls are what has held writes back, by rule.
	WriteStalls WriteStalls
	// Reads of this family.
	Reads  ReadMetrics
	Levels []LevelMetrics
}

// BlockCacheEntries are the blocks that a cache holds.
type BlockCacheEntries struct{ Data, Index, Filter, Dictionary CacheEntries }

// CacheEntries are the blocks of one class, and their bytes with overhead.
type CacheEntries struct {
	Count int
	Bytes int64
}

// ReadMetrics are what reads have met.
type ReadMetrics struct {
	// KeysRead is the number of Gets, and of keys in MultiGets. Memtables answered MemtableHits of them.
	KeysRead, MemtableHits, MemtableMisses uint64
	// BytesRead are those of the values found. Those that iterators showed, with their keys, are IteratorBytesRead, which
	// is counted when an iterator is closed, as are Seeks, Nexts and Prevs.
	BytesRead, IteratorBytesRead uint64
	Seeks, Nexts, Prevs          uint64
	// BlockCache counts what reads asked the block cache for, by class of block.
	BlockCache struct{ Data, Index, Filter, Dictionary HitsAndMisses }
	// FilterUseful is how often a filter spared a Get the search of a table. FilterFullPositive is how often it did not, and
	// FilterFullTruePositive how often the key was there then.
	FilterUseful, FilterFullPositive, FilterFullTruePositive uint64
}

// HitsAndMisses count what was looked for.
type HitsAndMisses struct{ Hits, Misses uint64 }

// Ratio is the part of hits, 0 if nothing was looked for.
func (h HitsAndMisses) Ratio() float64 {
	if h.Hits+h.Misses == 0 {
		return 0
	}
	return float64(h.Hits) / float64(h.Hits+h.Misses)
}

// LevelMetrics are the numbers of one level.
type LevelMetrics struct {
	Files int
	Bytes uint64
	// Hits is how many Gets found their key here. They searched tables here TableReads times, and were spared that
	// FilterUseful times by filters.
	Hits, TableReads, FilterUseful uint64
	// Score from 1 on asks for a compaction.
	Score float64
}

// Metrics returns the numbers of now. After Close they are the last ones.
func (d *DB) Metrics() *Metrics {
	c := &d.counters
	m := &Metrics{
		WriteGroups: c.groups.Load(), Writes: c.writes.Load(), KeysWritten: c.keysWritten.Load(),
		WALBytes: c.walBytes.Load(), WALSyncs: c.walSyncs.Load(),
		Flushes: c.flushes.Load(), FlushBytes: c.flushBytes.Load(),
		Compactions: c.compactions.Load(), CompactionBytesRead: c.compactBytesRead.Load(),
		CompactionBytesWritten: c.compactBytesWritten.Load(), StallMicros: c.stallMicros.Load(),
		BlockCacheUsage: d.cache.Usage(), BlockCacheCapacity: d.cache.Capacity(), WALSize: int64(d.wals.TotalSize()),
		LowPriHeld: c.lowPriHeld.Load(), LowPriHeldFor: time.Duration(c.lowPriNanos.Load()),
		OpenIterators: d.handles.open[handleIterator].Load(), WriteQueue: d.writes.Stats(),
	}
	m.readCache(d.cache)
	n := d.tickerCounts()
	m.Reads, m.Tickers = readMetrics(&n), tickers(n)
	d.snapshots.mu.Lock()
	m.Snapshots = int64(len(d.snapshots.seqs))
	d.snapshots.mu.Unlock()
	for _, cf := range d.ColumnFamilies() {
		if f, ok := cf.metrics(); ok {
			m.Families = append(m.Families, f)
		}
	}
	return m
}

func (c *ColumnFamily) metrics() (FamilyMetrics, bool) {
	sv := c.tree.Acquire()
	if sv == nil {
		return FamilyMetrics{}, false
	}
	defer sv.Release()
	f := FamilyMetrics{Name: c.name, ImmutableMemtables: len(sv.Mems()) - 1}
	for _, m := range sv.Mems() {
		f.MemtableBytes += m.MemoryUsage()
	}
	for _, m := range sv.History() {
		f.MemtableHistoryBytes += m.MemoryUsage()
	}
	var n stats.Counts
	c.counts.AddTo(&n)
	n.Sum()
	f.Reads = readMetrics(&n)
	v := sv.Version()
	for _, file := range v.All() {
		if h, ok := c.db.tables.Reader(file.Num); ok {
			f.TableReaderBytes += h.Reader().MemoryUsage()
			h.Release()
		}
	}
	scores := c.live.Load().picker.Scores(v)
	for i := range v.NumLevels() {
		k := stats.Ticker(i)
		l := LevelMetrics{Files: len(v.Level(i)), Bytes: v.Size(i), Hits: n[stats.LevelHit+k],
			TableReads: n[stats.LevelRead+k], FilterUseful: n[stats.LevelUseful+k]}
		if i < len(scores) {
			l.Score = scores[i]
		}
		f.Levels = append(f.Levels, l)
	}
	c.db.mu.Lock()
	f.PendingCompactionBytes, f.Stall, f.StallCause = c.pending, c.stall.kind.String(), string(c.stall.cause)
	f.WriteStalls = c.stalls.at(c.stall, time.Now())
	c.db.mu.Unlock()
	return f, true
}

func (m *Metrics) readCache(c *Cache) {
	m.BlockCachePinned, m.BlockCacheResident = c.PinnedUsage(), c.Resident()
	of := c.Stats().Entries
	e := &m.BlockCacheEntries
	for class, to := range map[cache.Class]*CacheEntries{
		cache.Data: &e.Data, cache.Index: &e.Index, cache.Filter: &e.Filter, cache.Dictionary: &e.Dictionary,
	} {
		*to = CacheEntries{of[class].Count, of[class].Bytes}
	}
}

func readMetrics(n *stats.Counts) ReadMetrics {
	m := ReadMetrics{
		KeysRead: n[stats.MemtableHit] + n[stats.MemtableMiss], MemtableHits: n[stats.MemtableHit], MemtableMisses: n[stats.MemtableMiss],
		BytesRead: n[stats.BytesRead] + n[stats.NumberMultiGetBytesRead], IteratorBytesRead: n[stats.IterBytesRead],
		Seeks: n[stats.NumberDBSeek], Nexts: n[stats.NumberDBNext], Prevs: n[stats.NumberDBPrev],
		FilterUseful: n[stats.BloomFilterUseful], FilterFullPositive: n[stats.BloomFilterFullPositive],
		FilterFullTruePositive: n[stats.BloomFilterFullTruePositive],
	}
	m.BlockCache.Data = HitsAndMisses{n[stats.BlockCacheDataHit], n[stats.BlockCacheDataMiss]}
	m.BlockCache.Index = HitsAndMisses{n[stats.BlockCacheIndexHit], n[stats.BlockCacheIndexMiss]}
	m.BlockCache.Filter = HitsAndMisses{n[stats.BlockCacheFilterHit], n[stats.BlockCacheFilterMiss]}
	m.BlockCache.Dictionary = HitsAndMisses{n[stats.BlockCacheDictionaryHit], n[stats.BlockCacheDictionaryMiss]}
	return m
}

// Ticker returns a ticker by RocksDB's name, such as "rocksdb.block.cache.hit"; false for one that is not counted here.
func (m *Metrics) Ticker(name string) (uint64, bool) {
	for _, t := range m.Tickers {
		if t.Name == name {
			return t.Count, true
		}
	}
	return 0, false
}

// String returns the tickers in the form of RocksDB's statistics, one line each.
func (m *Metrics) String() string {
	var b strings.Builder
	for _, t := range m.Tickers {
		fmt.Fprintf(&b, "%s COUNT : %d\n", t.Name, t.Count)
	}
	return b.String()
}

// Property returns a property by RocksDB's name, false for a name that is not known or after Close. PropertyNames lists
// those there are.
func (c *ColumnFamily) Property(name string) (string, bool) {
	if c.usable() != nil {
		return "", false
	}
	for prefix, get := range levelProperties {
		if n, ok := strings.CutPrefix(name, prefix); ok {
			level, err := strconv.Atoi(n)
			f, ok := c.metrics()
			if err != nil || !ok || level < 0 || level >= len(f.Levels) {
				return "", false
			}
			return get(c, &f, level), true
		}
	}
	get, ok := properties[name]
	if !ok {
		return "", false
	}
	f, ok := c.metrics()
	if !ok {
		return "", false
	}
	return get(c, &f), true
}

// PropertyNames returns the names that Property knows, sorted. Those that end in "<N>" take a level's number there.
func PropertyNames() []string {
	var names []string
	for prefix := range levelProperties {
		names = append(names, prefix+"<N>")
	}
	for name := range properties {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

var properties map[string]func(*ColumnFamily, *FamilyMetrics) string

func init() {
	num := numberProperty
	flag := func(b bool) uint64 {
		if b {
			return 1
		}
		return 0
	}
	properties = map[string]func(*ColumnFamily, *FamilyMetrics) string{
		"rocksdb.stats":      (*ColumnFamily).statsText,
		"rocksdb.levelstats": func(_ *ColumnFamily, f *FamilyMetrics) string { return f.levelStats() },
		"rocksdb.cur-size-all-mem-tables": num(func(_ *ColumnFamily, f *FamilyMetrics) uint64 {
			return uint64(f.MemtableBytes)
		}),
		"rocksdb.size-all-mem-tables": num(func(_ *ColumnFamily, f *FamilyMetrics) uint64 {
			return uint64(f.MemtableBytes + f.MemtableHistoryBytes)
		}),
		"rocksdb.num-immutable-mem-table": num(func(_ *ColumnFamily, f *FamilyMetrics) uint64 {
			return uint64(f.ImmutableMemtables)
		}),
		"rocksdb.estimate-table-readers-mem": num(func(_ *ColumnFamily, f *FamilyMetrics) uint64 {
			return uint64(f.TableReaderBytes)
		}),
		"rocksdb.estimate-pending-compaction-bytes": num(func(_ *ColumnFamily, f *FamilyMetrics) uint64 {
			return f.PendingCompactionBytes
		}),
		"rocksdb.total-sst-files-size": num(func(_ *ColumnFamily, f *FamilyMetrics) (n uint64) {
			for _, l := range f.Levels {
				n += l.Bytes
			}
			return n
		}),
		"rocksdb.estimate-num-keys": num(func(c *ColumnFamily, _ *FamilyMetrics) uint64 { return c.estimateKeys() }),
		"rocksdb.is-write-stopped": num(func(c *ColumnFamily, _ *FamilyMetrics) uint64 {
			return flag(stallKind(c.db.stalled.Load()) == stallStop)
		}),
		"rocksdb.actual-delayed-write-rate": num(func(c *ColumnFamily, _ *FamilyMetrics) uint64 { return c.db.actualDelayedWriteRate() }),
		"rocksdb.cf-write-stall-stats":      func(c *ColumnFamily, f *FamilyMetrics) string { return c.sinceReset(f).WriteStalls.String() },
		"rocksdb.db-write-stall-stats":      func(*ColumnFamily, *FamilyMetrics) string { return dbWriteStallStats },
		"rocksdb.background-errors": num(func(c *ColumnFamily, _ *FamilyMetrics) uint64 {
			return flag(c.db.bgError.Load() != nil)
		}),
	}
}

func (f *FamilyMetrics) levelStats() string {
	var b strings.Builder
	b.WriteString("Level Files Size(MB)\n--------------------\n")
	for n, l := range f.Levels {
		fmt.Fprintf(&b, "%3d %8d %8.0f\n", n, l.Files, float64(l.Bytes)/(1<<20))
	}
	return b.String()
}

// estimateKeys counts entries, tombstones as minus two: each hides one, and is none itself.
func (c *ColumnFamily) estimateKeys() uint64 {
	sv := c.tree.Acquire()
	if sv == nil {
		return 0
	}
	defer sv.Release()
	n := int64(0)
	for _, m := range sv.Mems() {
		n += int64(m.Entries()) - 2*int64(m.Deletes())
	}
	for _, f := range sv.Version().All() {
		if h, ok := c.db.tables.Reader(f.Num); ok {
			p := h.Reader().Properties()
			n += int64(p.Entries) - 2*int64(p.Deletions)
			h.Release()
		}
	}
	return uint64(max(n, 0))
}

// statsText is the property rocksdb.stats: the family's and the database's.
func (c *ColumnFamily) statsText(f *FamilyMetrics) string { return c.familyStats(f) + c.db.dbStats() }

// familyStats is the property rocksdb.cfstats: the levels of the family.
func (c *ColumnFamily) familyStats(f *FamilyMetrics) string {
	var b strings.Builder
	f = c.sinceReset(f)
	fmt.Fprintf(&b, "\n** Compaction Stats [%s] **\nLevel    Files   Size       Score     Gets found  searched  by filter not\n", c.name)
	files, size := 0, uint64(0)
	for n, l := range f.Levels {
		if l.Files > 0 {
			fmt.Fprintf(&b, "  L%d %8d %8.2f MB %6.2f %13d %9d %13d\n", n, l.Files, float64(l.Bytes)/(1<<20), l.Score, l.Hits,
				l.TableReads, l.FilterUseful)
		}
		files, size = files+l.Files, size+l.Bytes
	}
	fmt.Fprintf(&b, " Sum %8d %8.2f MB\n", files, float64(size)/(1<<20))
	fmt.Fprintf(&b, "Memtables: %.2f MB, %d immutable, and %.2f MB of flushed ones; table readers: %.2f MB\n",
		float64(f.MemtableBytes)/(1<<20), f.ImmutableMemtables, float64(f.MemtableHistoryBytes)/(1<<20), float64(f.TableReaderBytes)/(1<<20))
	fmt.Fprintf(&b, "Write stall: %s %s; estimated pending compaction bytes: %d\n", f.Stall, f.StallCause, f.PendingCompactionBytes)
	return b.String()
}

// dbStats is the property rocksdb.dbstats.
func (d *DB) dbStats() string {
	var b strings.Builder
	m := d.sinceReset(d.Metrics())
	fmt.Fprintf(&b, "\n** DB Stats **\n")
	fmt.Fprintf(&b, "Writes: %d, keys: %d, groups: %d; WAL: %d bytes, %d syncs, %d bytes live\n",
		m.Writes, m.KeysWritten, m.WriteGroups, m.WALBytes, m.WALSyncs, m.WALSize)
	fmt.Fprintf(&b, "Flushes: %d, %d bytes; compactions: %d, %d bytes read, %d bytes written\n",
		m.Flushes, m.FlushBytes, m.Compactions, m.CompactionBytesRead, m.CompactionBytesWritten)
	fmt.Fprintf(&b, "Stalled: %d us; block cache: %d of %d bytes; snapshots: %d; open iterators: %d\n",
		m.StallMicros, m.BlockCacheUsage, m.BlockCacheCapacity, m.Snapshots, m.OpenIterators)
	return b.String()
}
