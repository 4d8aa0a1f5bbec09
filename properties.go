package ashlar

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/lsm"
	"github.com/ashlardb/ashlar/manifest"
	"github.com/ashlardb/ashlar/sstable"
)

// Properties of a family and its database, under RocksDB's names and with RocksDB's meaning. The texts (stats, cfstats,
// dbstats, levelstats) are for people and in a form of our own.

// levelProperties take a level's number behind their names.
var levelProperties = map[string]func(*ColumnFamily, *FamilyMetrics, int) string{
	"rocksdb.num-files-at-level": func(_ *ColumnFamily, f *FamilyMetrics, level int) string {
		return strconv.Itoa(f.Levels[level].Files)
	},
	"rocksdb.compression-ratio-at-level": func(c *ColumnFamily, _ *FamilyMetrics, level int) string {
		return c.compressionRatio(level)
	},
	"rocksdb.aggregated-table-properties-at-level": func(c *ColumnFamily, _ *FamilyMetrics, level int) string {
		return c.aggregated(level).String()
	},
}

// numberProperty makes a property of a number.
func numberProperty(get func(*ColumnFamily, *FamilyMetrics) uint64) func(*ColumnFamily, *FamilyMetrics) string {
	return func(c *ColumnFamily, f *FamilyMetrics) string { return strconv.FormatUint(get(c, f), 10) }
}

func init() {
	for name, get := range map[string]func(c *ColumnFamily, f *FamilyMetrics) uint64{
		// Memtables.
		"rocksdb.cur-size-active-mem-table":    ofMems(0, 1, memoryOf),
		"rocksdb.num-entries-active-mem-table": ofMems(0, 1, func(m *lsm.Mem) int64 { return int64(m.Entries()) }),
		"rocksdb.num-entries-imm-mem-tables":   ofMems(1, -1, func(m *lsm.Mem) int64 { return int64(m.Entries()) }),
		"rocksdb.num-deletes-active-mem-table": ofMems(0, 1, func(m *lsm.Mem) int64 { return int64(m.Deletes()) }),
		"rocksdb.num-deletes-imm-mem-tables":   ofMems(1, -1, func(m *lsm.Mem) int64 { return int64(m.Deletes()) }),
		"rocksdb.mem-table-flush-pending": locked(func(c *ColumnFamily) uint64 {
			return oneIf(len(c.tree.ImmLocked()) > 0 && !c.flushing)
		}),
		// Files.
		"rocksdb.live-sst-files-size":       func(_ *ColumnFamily, f *FamilyMetrics) uint64 { return f.tableBytes() },
		"rocksdb.estimate-live-data-size":   func(c *ColumnFamily, _ *FamilyMetrics) uint64 { return c.estimateLiveData() },
		"rocksdb.min-log-number-to-keep":    func(c *ColumnFamily, _ *FamilyMetrics) uint64 { return c.db.versions.MinLogToKeep() },
		"rocksdb.is-file-deletions-enabled": func(*ColumnFamily, *FamilyMetrics) uint64 { return 1 },
		// Of all families together: versions are kept alive by what reads them.
		"rocksdb.num-live-versions": func(c *ColumnFamily, _ *FamilyMetrics) uint64 { return uint64(c.db.superversions.Load()) },
		"rocksdb.base-level":        locked((*ColumnFamily).baseLevelLocked),
		// Background work.
		"rocksdb.compaction-pending":      func(_ *ColumnFamily, f *FamilyMetrics) uint64 { return oneIf(f.wantsCompaction()) },
		"rocksdb.num-running-flushes":     locked(func(c *ColumnFamily) uint64 { return uint64(c.db.flushes) }),
		"rocksdb.num-running-compactions": locked(func(c *ColumnFamily) uint64 { return uint64(c.db.compactions) }),
		// Snapshots.
		"rocksdb.num-snapshots": func(c *ColumnFamily, _ *FamilyMetrics) uint64 {
			n, _, _ := c.db.snapshots.describe()
			return uint64(n)
		},
		"rocksdb.oldest-snapshot-time": func(c *ColumnFamily, _ *FamilyMetrics) uint64 {
			_, _, at := c.db.snapshots.describe()
			return at
		},
		"rocksdb.oldest-snapshot-sequence": func(c *ColumnFamily, _ *FamilyMetrics) uint64 {
			_, seq, _ := c.db.snapshots.describe()
			return uint64(seq)
		},
		// The block cache.
		"rocksdb.block-cache-usage":        func(c *ColumnFamily, _ *FamilyMetrics) uint64 { return uint64(c.db.cache.Usage()) },
		"rocksdb.block-cache-capacity":     func(c *ColumnFamily, _ *FamilyMetrics) uint64 { return uint64(c.db.cache.Capacity()) },
		"rocksdb.block-cache-pinned-usage": func(c *ColumnFamily, _ *FamilyMetrics) uint64 { return uint64(c.db.cache.PinnedUsage()) },
	} {
		properties[name] = numberProperty(get)
	}
	properties["rocksdb.cfstats"] = (*ColumnFamily).familyStats
	properties["rocksdb.dbstats"] = func(c *ColumnFamily, _ *FamilyMetrics) string { return c.db.dbStats() }
	properties["rocksdb.aggregated-table-properties"] = func(c *ColumnFamily, _ *FamilyMetrics) string {
		return c.aggregated(-1).String()
	}
	properties["rocksdb.sstables"] = func(c *ColumnFamily, _ *FamilyMetrics) string { return c.listTables() }
	properties["rocksdb.block-cache-entry-stats"] = func(c *ColumnFamily, _ *FamilyMetrics) string { return c.db.cacheEntryStats() }
	properties["rocksdb.options-statistics"] = func(c *ColumnFamily, _ *FamilyMetrics) string {
		if s := c.db.opts.Statistics; s != nil {
			return s.String()
		}
		return "" // as RocksDB without a Statistics
	}
}

func oneIf(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// locked makes a property that is read under db.mu.
func locked(get func(*ColumnFamily) uint64) func(*ColumnFamily, *FamilyMetrics) uint64 {
	return func(c *ColumnFamily, _ *FamilyMetrics) uint64 {
		c.db.mu.Lock()
		defer c.db.mu.Unlock()
		return get(c)
	}
}

func memoryOf(m *lsm.Mem) int64 { return m.MemoryUsage() }

// ofMems sums up over the memtables from one to another, newest first; to -1 is all.
func ofMems(from, to int, get func(*lsm.Mem) int64) func(*ColumnFamily, *FamilyMetrics) uint64 {
	return func(c *ColumnFamily, _ *FamilyMetrics) uint64 {
		sv := c.tree.Acquire()
		if sv == nil {
			return 0
		}
		defer sv.Release()
		mems := sv.Mems()
		if to >= 0 {
			mems = mems[:to]
		}
		n := int64(0)
		for _, m := range mems[from:] {
			n += get(m)
		}
		return uint64(n)
	}
}

func (f *FamilyMetrics) tableBytes() (n uint64) {
	for _, l := range f.Levels {
		n += l.Bytes
	}
	return n
}

// wantsCompaction says whether a level asks for a compaction.
func (f *FamilyMetrics) wantsCompaction() bool {
	for _, l := range f.Levels {
		if l.Score >= 1 {
			return true
		}
	}
	return false
}

// baseLevelLocked is the level that level 0 is compacted into.
func (c *ColumnFamily) baseLevelLocked() uint64 {
	base, _ := c.live.Load().picker.Targets(c.tree.VersionLocked())
	return uint64(base)
}

// describe returns how many snapshots there are, and of the oldest its number and time; zeros if there is none.
func (l *snapshotList) describe() (n int, seq kv.Seq, at uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n = len(l.seqs); n > 0 {
		seq, at = l.seqs[0], l.times[0]
	}
	return n, seq, at
}

// estimateLiveData is the size of the deepest level with files and of those files above it that do not overlap what was
// counted: what would be left if all were compacted into one level.
func (c *ColumnFamily) estimateLiveData() (n uint64) {
	sv := c.tree.Acquire()
	if sv == nil {
		return 0
	}
	defer sv.Release()
	v := sv.Version()
	var counted []*manifest.File
	for level := v.NumLevels() - 1; level >= 0; level-- {
		var free []*manifest.File
		for _, f := range v.Level(level) {
			if !c.overlapsAny(f, counted) && !c.overlapsAny(f, free) {
				free = append(free, f)
				n += f.Size
			}
		}
		counted = append(counted, free...)
	}
	return n
}

func (c *ColumnFamily) overlapsAny(f *manifest.File, files []*manifest.File) bool {
	cmp := c.opts.Comparator
	for _, g := range files {
		if cmp.CompareUser(f.Smallest.User, g.Largest.User) <= 0 && cmp.CompareUser(g.Smallest.User, f.Largest.User) <= 0 {
			return true
		}
	}
	return false
}

// aggregate sums up tables' properties.
type aggregate struct {
	tables                                               int
	dataBlocks, entries, deletions, merges, rangeDeletes uint64
	rawKey, rawValue, data, index, filter, filterEntries uint64
}

// aggregated sums up the tables of a level, -1 for all.
func (c *ColumnFamily) aggregated(level int) (a aggregate) {
	sv := c.tree.Acquire()
	if sv == nil {
		return a
	}
	defer sv.Release()
	for n, f := range sv.Version().All() {
		if level >= 0 && n != level {
			continue
		}
		c.withTable(f, n, func(r *sstable.Reader) {
			p := r.Properties()
			a.tables++
			a.dataBlocks += p.DataBlocks
			a.entries += p.Entries
			a.deletions += p.Deletions
			a.merges += p.MergeOperands
			a.rangeDeletes += p.RangeDeletions
			a.rawKey += p.RawKeySize
			a.rawValue += p.RawValueSize
			a.data += p.DataSize
			a.index += p.IndexSize
			a.filter += p.FilterSize
			a.filterEntries += p.FilterEntries
		})
	}
	return a
}

// withTable calls f with the reader of a table, opening it if need be. One that cannot be opened is passed over.
func (c *ColumnFamily) withTable(file *manifest.File, level int, f func(*sstable.Reader)) {
	if h, err := c.db.tables.Get(file.Num, file.Size, file.LargestSeq, c.tablesAt(level)); err == nil {
		f(h.Reader())
		h.Release()
	}
}

// String is RocksDB's form of table properties in one line.
func (a aggregate) String() string {
	per := func(n, of uint64) float64 {
		if of == 0 {
			return 0
		}
		return float64(n) / float64(of)
	}
	var b strings.Builder
	for _, p := range []struct {
		name  string
		value uint64
	}{{"# data blocks", a.dataBlocks}, {"# entries", a.entries}, {"# deletions", a.deletions},
		{"# merge operands", a.merges}, {"# range deletions", a.rangeDeletes}, {"raw key size", a.rawKey}} {
		fmt.Fprintf(&b, "%s=%d; ", p.name, p.value)
	}
	fmt.Fprintf(&b, "raw average key size=%f; raw value size=%d; raw average value size=%f; ", per(a.rawKey, a.entries),
		a.rawValue, per(a.rawValue, a.entries))
	fmt.Fprintf(&b, "data block size=%d; index block size=%d; filter block size=%d; # entries for filter=%d; "+
		"(estimated) table size=%d; ", a.data, a.index, a.filter, a.filterEntries, a.data+a.index+a.filter)
	return b.String()
}

// compressionRatio is what the data of a level's tables was, uncompressed, to what it is in the files; -1 without files.
func (c *ColumnFamily) compressionRatio(level int) string {
	a := c.aggregated(level)
	if a.data == 0 {
		return "-1.000000"
	}
	return strconv.FormatFloat(float64(a.rawKey+a.rawValue)/float64(a.data), 'f', 6, 64)
}

// listTables is a line for each table, by level.
func (c *ColumnFamily) listTables() string {
	sv := c.tree.Acquire()
	if sv == nil {
		return ""
	}
	defer sv.Release()
	var b strings.Builder
	last := -1
	for level, f := range sv.Version().All() {
		if level != last {
			fmt.Fprintf(&b, "--- level %d ---\n", level)
			last = level
		}
		fmt.Fprintf(&b, " %d:%d[%d .. %d][%v .. %v]\n", f.Num, f.Size, f.SmallestSeq, f.LargestSeq, f.Smallest, f.Largest)
	}
	return b.String()
}

// cacheEntryStats are the block cache's entries by class.
func (d *DB) cacheEntryStats() string {
	var m Metrics
	m.readCache(d.cache)
	var b strings.Builder
	capacity := max(d.cache.Capacity(), 1)
	fmt.Fprintf(&b, "Block cache capacity: %d usage: %d pinned: %d resident: %d\n", d.cache.Capacity(), d.cache.Usage(),
		m.BlockCachePinned, m.BlockCacheResident)
	b.WriteString("Block cache entry stats(count,size,portion):")
	e := &m.BlockCacheEntries
	for _, class := range []struct {
		name string
		of   CacheEntries
	}{{"DataBlock", e.Data}, {"IndexBlock", e.Index}, {"FilterBlock", e.Filter}, {"CompressionDictionary", e.Dictionary}} {
		if class.of.Count > 0 {
			fmt.Fprintf(&b, " %s(%d,%.2f KB,%.4g%%)", class.name, class.of.Count, float64(class.of.Bytes)/1024,
				100*float64(class.of.Bytes)/float64(capacity))
		}
	}
	b.WriteString("\n")
	return b.String()
}
