package ashlar

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// WritePrometheus writes the numbers in Prometheus' text format, version 0.0.4, for a handler that serves /metrics:
//
//	# HELP ashlar_level_files Tables of a level.
//	# TYPE ashlar_level_files gauge
//	ashlar_level_files{family="default",level="0"} 3
//
// Every ticker of RocksDB's is a counter of its own: rocksdb.block.cache.hit is rocksdb_block_cache_hit_total. Numbers
// that belong to a family, a level or a class of blocks have them as labels. Counters are since Open. Errors are w's.
func (m *Metrics) WritePrometheus(w io.Writer) error {
	p := prometheus{w: bufio.NewWriter(w)}
	p.database(m)
	p.families(m)
	for _, t := range m.Tickers {
		name := strings.NewReplacer(".", "_", "-", "_").Replace(t.Name) + "_total"
		p.metric(name, "counter", "RocksDB's ticker "+t.Name+".", sample{value: float64(t.Count)})
	}
	return p.w.Flush()
}

// prometheus writes one metric after the other. An error of the writer is kept by it until Flush.
type prometheus struct{ w *bufio.Writer }

// sample is one line: pairs of a label's name and value, and the number.
type sample struct {
	labels []string
	value  float64
}

// metric writes a metric with all its samples. help has no line break and no backslash.
func (p *prometheus) metric(name, kind, help string, samples ...sample) {
	fmt.Fprintf(p.w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	for _, s := range samples {
		p.w.WriteString(name)
		for i := 0; i < len(s.labels); i += 2 {
			p.w.WriteByte("{,"[min(i, 1)])
			fmt.Fprintf(p.w, `%s="%s"`, s.labels[i], labelEscaper.Replace(s.labels[i+1]))
		}
		if len(s.labels) > 0 {
			p.w.WriteByte('}')
		}
		fmt.Fprintf(p.w, " %s\n", strconv.FormatFloat(s.value, 'g', -1, 64))
	}
}

// labelEscaper writes what may not stand in a label's value. Families' names are any bytes; those that are not UTF-8 are
// replaced, as the format wants it.
var labelEscaper = escaper{strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)}

type escaper struct{ *strings.Replacer }

func (e escaper) Replace(s string) string {
	return e.Replacer.Replace(strings.ToValidUTF8(s, "\ufffd"))
}

func (p *prometheus) database(m *Metrics) {
	for _, g := range []struct {
		name, kind, help string
		value            float64
	}{
		{"ashlar_write_groups_total", "counter", "Groups in which writes were done.", float64(m.WriteGroups)},
		{"ashlar_writes_total", "counter", "Batches written.", float64(m.Writes)},
		{"ashlar_flushes_total", "counter", "Memtables flushed.", float64(m.Flushes)},
		{"ashlar_compactions_total", "counter", "Compactions, moves included.", float64(m.Compactions)},
		{"ashlar_stall_seconds_total", "counter", "Time that writers were held back.", float64(m.StallMicros) / 1e6},
		{"ashlar_wal_bytes", "gauge", "Size of the logs that are still needed.", float64(m.WALSize)},
		{"ashlar_snapshots", "gauge", "Snapshots held.", float64(m.Snapshots)},
		{"ashlar_open_iterators", "gauge", "Iterators open.", float64(m.OpenIterators)},
		{"ashlar_block_cache_capacity_bytes", "gauge", "Bytes that the block cache may hold.", float64(m.BlockCacheCapacity)},
		{"ashlar_block_cache_usage_bytes", "gauge", "Bytes that the block cache holds.", float64(m.BlockCacheUsage)},
		{"ashlar_block_cache_pinned_bytes", "gauge", "Bytes of blocks in use.", float64(m.BlockCachePinned)},
		{"ashlar_block_cache_resident_bytes", "gauge", "Memory of the block cache.", float64(m.BlockCacheResident)},
	} {
		p.metric(g.name, g.kind, g.help, sample{value: g.value})
	}
	e := &m.BlockCacheEntries
	var counts, bytes []sample
	for _, c := range []struct {
		class string
		of    CacheEntries
	}{{"data", e.Data}, {"index", e.Index}, {"filter", e.Filter}, {"dictionary", e.Dictionary}} {
		labels := []string{"class", c.class}
		counts = append(counts, sample{labels, float64(c.of.Count)})
		bytes = append(bytes, sample{labels, float64(c.of.Bytes)})
	}
	p.metric("ashlar_block_cache_entries", "gauge", "Blocks that the block cache holds.", counts...)
	p.metric("ashlar_block_cache_entry_bytes", "gauge", "Bytes of blocks that the block cache holds.", bytes...)
}

func (p *prometheus) families(m *Metrics) {
	type column struct {
		name, kind, help string
		get              func(*FamilyMetrics) float64
	}
	for _, c := range []column{
		{"ashlar_memtable_bytes", "gauge", "Bytes of all memtables.", func(f *FamilyMetrics) float64 { return float64(f.MemtableBytes) }},
		{"ashlar_memtable_history_bytes", "gauge", "Bytes of flushed memtables that are kept.",
			func(f *FamilyMetrics) float64 { return float64(f.MemtableHistoryBytes) }},
		{"ashlar_immutable_memtables", "gauge", "Memtables that wait for their flush.",
			func(f *FamilyMetrics) float64 { return float64(f.ImmutableMemtables) }},
		{"ashlar_table_readers_bytes", "gauge", "Indexes and filters that open tables hold beside the block cache.",
			func(f *FamilyMetrics) float64 { return float64(f.TableReaderBytes) }},
		{"ashlar_pending_compaction_bytes", "gauge", "Estimate of what compactions have to rewrite.",
			func(f *FamilyMetrics) float64 { return float64(f.PendingCompactionBytes) }},
		{"ashlar_keys_read_total", "counter", "Keys asked for.", func(f *FamilyMetrics) float64 { return float64(f.Reads.KeysRead) }},
		{"ashlar_memtable_hits_total", "counter", "Keys that memtables answered.",
			func(f *FamilyMetrics) float64 { return float64(f.Reads.MemtableHits) }},
		{"ashlar_filter_useful_total", "counter", "Searches of tables that filters spared.",
			func(f *FamilyMetrics) float64 { return float64(f.Reads.FilterUseful) }},
		{"ashlar_filter_full_positive_total", "counter", "Searches of tables that filters let pass.",
			func(f *FamilyMetrics) float64 { return float64(f.Reads.FilterFullPositive) }},
		{"ashlar_filter_full_true_positive_total", "counter", "Of these, those that found their key.",
			func(f *FamilyMetrics) float64 { return float64(f.Reads.FilterFullTruePositive) }},
	} {
		var samples []sample
		for i := range m.Families {
			f := &m.Families[i]
			samples = append(samples, sample{[]string{"family", f.Name}, c.get(f)})
		}
		p.metric(c.name, c.kind, c.help, samples...)
	}
	var hits, misses []sample
	for i := range m.Families {
		f := &m.Families[i]
		b := &f.Reads.BlockCache
		for _, c := range []struct {
			class string
			of    HitsAndMisses
		}{{"data", b.Data}, {"index", b.Index}, {"filter", b.Filter}, {"dictionary", b.Dictionary}} {
			labels := []string{"family", f.Name, "class", c.class}
			hits = append(hits, sample{labels, float64(c.of.Hits)})
			misses = append(misses, sample{labels, float64(c.of.Misses)})
		}
	}
	p.metric("ashlar_block_cache_hits_total", "counter", "Blocks that were in the block cache.", hits...)
	p.metric("ashlar_block_cache_misses_total", "counter", "Blocks that were not in the block cache.", misses...)
	for _, c := range []struct {
		name, kind, help string
		get              func(*LevelMetrics) float64
	}{
		{"ashlar_level_files", "gauge", "Tables of a level.", func(l *LevelMetrics) float64 { return float64(l.Files) }},
		{"ashlar_level_bytes", "gauge", "Bytes of a level's tables.", func(l *LevelMetrics) float64 { return float64(l.Bytes) }},
		{"ashlar_level_score", "gauge", "From 1 on the level asks for a compaction.", func(l *LevelMetrics) float64 { return l.Score }},
		{"ashlar_level_hits_total", "counter", "Keys that were found in a level.", func(l *LevelMetrics) float64 { return float64(l.Hits) }},
		{"ashlar_level_table_reads_total", "counter", "Searches of a level's tables.",
			func(l *LevelMetrics) float64 { return float64(l.TableReads) }},
		{"ashlar_level_filter_useful_total", "counter", "Searches of a level's tables that filters spared.",
			func(l *LevelMetrics) float64 { return float64(l.FilterUseful) }},
	} {
		var samples []sample
		for i := range m.Families {
			f := &m.Families[i]
			for n := range f.Levels {
				samples = append(samples, sample{[]string{"family", f.Name, "level", strconv.Itoa(n)}, c.get(&f.Levels[n])})
			}
		}
		p.metric(c.name, c.kind, c.help, samples...)
	}
}
