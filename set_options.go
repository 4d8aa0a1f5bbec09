package ashlar

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ashlardb/ashlar/compaction"
	"github.com/ashlardb/ashlar/lsm"
	"github.com/ashlardb/ashlar/sstable"
)

// Options that change while the database is open.
//
//  1. What a family has now is one value behind one pointer, which never changes: SetOptions publishes another, under mu.
//     Who decides by options loads the pointer once for each decision; a job keeps for all its tables what it began with.
//  2. A call changes all that it names or nothing: a copy is changed, checked as a whole and put right as Open does, and
//     then published.
//  3. Before mu is released, everything that was decided by the old options is decided anew: stalls, compactions, the
//     limit of the logs, what reads skip and how much memtable history is kept. So raising a trigger lets stopped
//     writers go.
//  4. The OPTIONS file is written after that, from what is published then. So of two calls at a time the later file has
//     both changes. Close waits for it.

// fixedOptions are the options of a family that its whole code may look at without asking what they are now.
type fixedOptions struct {
	Comparator      *Comparator
	MergeOperator   MergeOperator
	PrefixExtractor SliceTransform
}

// liveOptions are a family's options of one moment, with what follows from them.
type liveOptions struct {
	ColumnFamilyOptions
	picker *compaction.Leveled
	tables [2]sstable.FamilyOptions // tablesAt
}

// newLiveOptions takes options with the defaults filled in, and where the family's tables count what they do.
func newLiveOptions(o *ColumnFamilyOptions, counts *sstable.Stats) *liveOptions {
	t := &o.Table
	deep := sstable.FamilyOptions{
		Comparer: o.Comparator, Filter: t.FilterPolicy, PrefixExtractor: o.PrefixExtractor, Stats: counts,
		CacheMeta: t.CacheIndexAndFilterBlocks, HighPriority: !t.CacheIndexAndFilterBlocksWithoutPriority,
	}
	level0 := deep
	level0.Pin = t.PinL0FilterAndIndexBlocksInCache
	return &liveOptions{
		ColumnFamilyOptions: *o,
		picker: compaction.NewLeveled(o.Comparator, compaction.LeveledOptions{
			NumLevels:                o.NumLevels,
			L0Trigger:                o.Level0FileNumCompactionTrigger,
			MaxBytesForLevelBase:     o.MaxBytesForLevelBase,
			Multiplier:               o.MaxBytesForLevelMultiplier,
			TargetFileSizeBase:       o.TargetFileSizeBase,
			TargetFileSizeMultiplier: o.TargetFileSizeMultiplier,
			MaxCompactionBytes:       o.MaxCompactionBytes,
			DynamicLevelBytes:        !o.NoDynamicLevelBytes,
		}),
		tables: [2]sstable.FamilyOptions{level0, deep},
	}
}

// tablesAt is how tables of a level are opened.
func (o *liveOptions) tablesAt(level int) *sstable.FamilyOptions { return &o.tables[min(level, 1)] }

// treeSettings is what the family's tree has to know.
func (o *liveOptions) treeSettings() lsm.Settings {
	s := lsm.Settings{Family: o.tablesAt(1), Family0: o.tablesAt(0), OptimizeFiltersForHits: o.OptimizeFiltersForHits}
	if n := o.MaxWriteBufferSizeToMaintain; n >= 0 {
		s.History = uint64(n)
	} else {
		s.History = o.WriteBufferSize * uint64(o.MaxWriteBufferNumber)
	}
	return s
}

// The options that may change. The others of their sections stay as they were when the database, or the family, was
// opened.
var (
	liveDBOptions = []string{
		"max_background_jobs", "max_open_files", "max_total_wal_size", "delayed_write_rate",
	}
	liveFamilyOptions = []string{
		"write_buffer_size", "max_write_buffer_number", "max_write_buffer_size_to_maintain", "max_successive_merges",
		"memtable_max_range_deletions", "level0_file_num_compaction_trigger", "level0_slowdown_writes_trigger",
		"level0_stop_writes_trigger", "target_file_size_base", "target_file_size_multiplier", "max_bytes_for_level_base",
		"max_bytes_for_level_multiplier", "max_compaction_bytes", "soft_pending_compaction_bytes_limit",
		"hard_pending_compaction_bytes_limit", "disable_auto_compactions", "optimize_filters_for_hits", "compression",
		"compression_per_level", "bottommost_compression",
	}
	liveTableOptions = []string{
		"block_size", "block_restart_interval", "index_block_restart_interval", "metadata_block_size", "index_type",
		"partition_filters", "whole_key_filtering", "data_block_index_type", "data_block_hash_table_util_ratio",
		"format_version", "checksum", "filter_policy",
	}
)

// tableFactory is under which name SetOptions takes options of the table format, as {name=value;name=value}.
const tableFactory = "block_based_table_factory"

// SetOptions changes options of the family while the database is open: kv has values by RocksDB's names, spelled as in
// an OPTIONS file, numbers with k, M, G or T behind them if one likes. Options of the table format come as one value:
//
//	cf.SetOptions(map[string]string{
//		"write_buffer_size":         "128M",
//		"block_based_table_factory": "{block_size=16k;filter_policy=bloomfilter:10:false}",
//	})
//
// All of kv is done or, with an error, nothing: ErrInvalidArgument for a name that there is not or that may not change,
// and for a value that makes no sense. A number that is 0 means the default, except the limits of pending compaction
// bytes, where it means none. What was asked for holds when the call returns: writers that the new options would not
// hold back go on, compactions that they ask for begin. Tables that are there keep their form until they are rewritten.
//
// The change is in a new OPTIONS file; it lasts beyond Close for who opens with LoadOptions.
func (c *ColumnFamily) SetOptions(kv map[string]string) error {
	err := c.db.setOptions(kv, func() error {
		if err := c.usable(); err != nil {
			return err
		}
		o, err := c.live.Load().with(c.name, kv)
		if err != nil {
			return err
		}
		c.live.Store(o)
		c.applyLocked()
		return nil
	})
	return during(err, "set options of column family %q", c.name)
}

// SetDBOptions is SetOptions for the options of the database.
func (d *DB) SetDBOptions(kv map[string]string) error {
	err := d.setOptions(kv, func() error {
		if d.closed.Load() {
			return ErrClosed
		}
		o, err := d.dbOpts.Load().with(kv)
		if err != nil {
			return err
		}
		old := d.dbOpts.Swap(o)
		if o.DelayedWriteRate != old.DelayedWriteRate {
			d.delays.limit(o.DelayedWriteRate)
		}
		if o.MaxOpenFiles != old.MaxOpenFiles {
			d.tables.Limit(o.MaxOpenFiles) // the cleaner closes, when it has freed the superversions that are replaced below
		}
		for _, cf := range d.ColumnFamilies() {
			cf.applyLocked()
		}
		return nil
	})
	return during(err, "set options")
}

// setOptions runs change under mu, and has what it changed written to the OPTIONS file.
func (d *DB) setOptions(kv map[string]string, change func() error) error {
	if len(kv) == 0 {
		return invalid("no options to set")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := change(); err != nil {
		return err
	}
	d.limitLogsLocked()
	d.scheduleLocked()
	d.manual++ // Close waits
	d.mu.Unlock()
	d.log.Info("set options", "options", kv)
	d.writeOptionsFile()
	d.mu.Lock()
	d.manual--
	d.cond.Broadcast()
	return nil
}

// applyLocked makes what was decided by other options follow those of now.
func (c *ColumnFamily) applyLocked() {
	c.tree.SetLocked(c.live.Load().treeSettings())
	c.db.updateStallLocked(c)
}

// limitLogsLocked is max_total_wal_size's rule: 4 times what all memtables may hold, unless there is a figure.
func (d *DB) limitLogsLocked() {
	limit := d.dbOpts.Load().MaxTotalWALSize
	if limit == 0 {
		for _, cf := range d.ColumnFamilies() {
			o := cf.live.Load()
			limit += 4 * o.WriteBufferSize * uint64(o.MaxWriteBufferNumber)
		}
	}
	d.maxTotalWAL.Store(limit)
}

// with returns the options with changes to them.
func (o *liveOptions) with(family string, kv map[string]string) (*liveOptions, error) {
	c := o.ColumnFamilyOptions
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(kv)) {
		if name != tableFactory {
			errs = append(errs, change(familySettings, liveFamilyOptions, &c, name, kv[name]))
			continue
		}
		table, err := parseBraces(kv[name])
		if err != nil {
			errs = append(errs, invalid("%s: %v", name, err))
		}
		for _, t := range table {
			errs = append(errs, change(tableSettings, liveTableOptions, &c.Table, t.name, t.value))
		}
	}
	if err := errors.Join(append(errs, c.validate(family))...); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	return newLiveOptions(&c, o.tables[0].Stats), nil
}

func (o *Options) with(kv map[string]string) (*Options, error) {
	c := *o
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(kv)) {
		errs = append(errs, change(dbSettings, liveDBOptions, &c, name, kv[name]))
	}
	if err := errors.Join(append(errs, c.Validate())...); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	return &c, nil
}

// change sets one option that may change.
func change[O any](settings []setting[O], live []string, o *O, name, value string) error {
	i := slices.IndexFunc(settings, func(s setting[O]) bool { return s.name == name })
	switch {
	case i < 0:
		return invalid("there is no option %q", name)
	case !slices.Contains(live, name):
		return invalid("option %q cannot change while the database is open", name)
	}
	if err := settings[i].set(o, strings.TrimSpace(value)); err != nil {
		return invalid("option %q: %v", name, err)
	}
	return nil
}

type nameValue struct{ name, value string }

// parseBraces splits {name=value;name={…};…}. The braces around it all may be left out.
func parseBraces(s string) (all []nameValue, err error) {
	s = strings.TrimSpace(s)
	if inner, ok := strings.CutPrefix(s, "{"); ok {
		if s, ok = strings.CutSuffix(inner, "}"); !ok {
			return nil, fmt.Errorf("%q has no end", s)
		}
	}
	for depth, from, i := 0, 0, 0; i <= len(s); i++ {
		switch {
		case i < len(s) && s[i] == '{':
			depth++
		case i < len(s) && s[i] == '}':
			if depth--; depth < 0 {
				return nil, fmt.Errorf("%q closes a brace too many", s)
			}
		case i == len(s) && depth > 0:
			return nil, fmt.Errorf("%q does not close its braces", s)
		case i == len(s) || s[i] == ';' && depth == 0:
			part := strings.TrimSpace(s[from:i])
			from = i + 1
			if part == "" {
				continue
			}
			name, value, ok := strings.Cut(part, "=")
			if !ok {
				return nil, fmt.Errorf("%q has no value", part)
			}
			all = append(all, nameValue{strings.TrimSpace(name), strings.TrimSpace(value)})
		}
	}
	return all, nil
}
