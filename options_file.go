package ashlar

import (
	"bytes"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/compress"
	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/merge"
	"github.com/ashlardb/ashlar/vfs"
)

// The OPTIONS file, RocksDB's INI form:
//
//	[Version]
//	  rocksdb_version=7.8.3
//	  options_file_version=1.1
//	[DBOptions]
//	  max_background_jobs=2
//	[CFOptions "default"]
//	  write_buffer_size=67108864
//	[TableOptions/BlockBasedTable "default"]
//	  block_size=4096
//
// Open and whatever changes families write a new one, OPTIONS-NNNNNN, with every family in it and names that RocksDB 7.8
// and 11 both know, as long as no option is in use that 7.8 lacks; the newest two are kept. Nothing is read from it unless the user asks (LoadOptions): RocksDB's tools
// read it to know the families.
//
// One table a section tells both how an option is written and how it is read. Names that it lacks are RocksDB's business
// and are passed over.

// setting is one option under RocksDB's name.
type setting[O any] struct {
	name string
	get  func(*O) string
	set  func(*O, string) error
}

// number is a setting of any integer field. RocksDB's "no limit" is the largest number that its type holds.
func number[O any, N int | int64 | uint64](name string, field func(*O) *N) setting[O] {
	return setting[O]{name,
		func(o *O) string { return fmt.Sprint(*field(o)) },
		func(o *O, s string) error {
			var err error
			switch p := any(field(o)).(type) {
			case *int:
				var n int64
				n, err = parseUnits(s, strconv.ParseInt)
				*p = int(n)
			case *int64:
				*p, err = parseUnits(s, strconv.ParseInt)
			case *uint64:
				*p, err = parseUnits(s, strconv.ParseUint)
			}
			return err
		}}
}

// decimal is a setting of a float64.
func decimal[O any](name string, field func(*O) *float64) setting[O] {
	return setting[O]{name,
		func(o *O) string { return strconv.FormatFloat(*field(o), 'f', -1, 64) },
		func(o *O, s string) (err error) {
			if *field(o), err = strconv.ParseFloat(s, 64); err != nil {
				return fmt.Errorf("%q is not a number", s)
			}
			return nil
		}}
}

// parseUnits reads a number that may have k, M, G or T behind it, in either case: powers of 1024, as RocksDB has it.
func parseUnits[N int64 | uint64](s string, parse func(string, int, int) (N, error)) (N, error) {
	digits, shift := s, 0
	if s != "" {
		if i := strings.IndexByte("kmgt", s[len(s)-1]|0x20); i >= 0 {
			digits, shift = s[:len(s)-1], 10*(i+1)
		}
	}
	n, err := parse(digits, 10, 64)
	if err != nil || n<<shift>>shift != n {
		return 0, fmt.Errorf("%q is not a number of this option", s)
	}
	return n << shift, nil
}

// unlessZero leaves a setting out of the file while it is off: one that RocksDB 7.8 does not know.
func unlessZero[O any](s setting[O]) setting[O] {
	get := s.get
	s.get = func(o *O) string {
		if v := get(o); v != "0" {
			return v
		}
		return ""
	}
	return s
}

// limit is a number whose 0 is no limit at all, to RocksDB.
func limit[O any](name string, field func(*O) *uint64) setting[O] {
	s := number(name, field)
	return setting[O]{name, s.get, func(o *O, text string) error {
		err := s.set(o, text)
		if p := field(o); err == nil && *p == 0 {
			*p = NoLimit
		}
		return err
	}}
}

// flag is a setting of a bool, turned round if not is set.
func flag[O any](name string, not bool, field func(*O) *bool) setting[O] {
	return setting[O]{name,
		func(o *O) string { return strconv.FormatBool(*field(o) != not) },
		func(o *O, s string) error {
			v, err := strconv.ParseBool(s)
			if err != nil {
				return fmt.Errorf("%q is not true or false", s)
			}
			*field(o) = v != not
			return nil
		}}
}

// enum is a setting whose values have names.
func enum[O any, E comparable](name string, field func(*O) *E, names []named[E]) setting[O] {
	return setting[O]{name,
		func(o *O) string {
			for _, n := range names {
				if n.value == *field(o) {
					return n.name
				}
			}
			return ""
		},
		func(o *O, s string) error {
			for _, n := range names {
				if n.name == s {
					*field(o) = n.value
					return nil
				}
			}
			return fmt.Errorf("%q is not known", s)
		}}
}

type named[E any] struct {
	value E
	name  string
}

var compressionNames = []named[Compression]{
	{NoCompression, "kNoCompression"}, {SnappyCompression, "kSnappyCompression"}, {ZlibCompression, "kZlibCompression"},
	{compress.BZip2, "kBZip2Compression"}, {LZ4Compression, "kLZ4Compression"}, {compress.LZ4HC, "kLZ4HCCompression"},
	{ZSTDCompression, "kZSTD"}, {DefaultCompression, "kDisableCompressionOption"},
}

var dbSettings = []setting[Options]{
	number("max_background_jobs", func(o *Options) *int { return &o.MaxBackgroundJobs }),
	number("max_open_files", func(o *Options) *int { return &o.MaxOpenFiles }),
	number("max_total_wal_size", func(o *Options) *uint64 { return &o.MaxTotalWALSize }),
	number("max_write_batch_group_size_bytes", func(o *Options) *uint64 { return &o.MaxWriteBatchGroupSize }),
	number("delayed_write_rate", func(o *Options) *uint64 { return &o.DelayedWriteRate }),
	flag("allow_concurrent_memtable_write", true, func(o *Options) *bool { return &o.NoConcurrentMemtableWrite }),
	flag("enable_pipelined_write", false, func(o *Options) *bool { return &o.EnablePipelinedWrite }),
	flag("manual_wal_flush", false, func(o *Options) *bool { return &o.ManualWALFlush }),
	enum("wal_recovery_mode", func(o *Options) *WALRecoveryMode { return &o.WALRecoveryMode }, []named[WALRecoveryMode]{
		{TolerateCorruptedTailRecords, "kTolerateCorruptedTailRecords"}, {AbsoluteConsistency, "kAbsoluteConsistency"},
		{PointInTimeRecovery, "kPointInTimeRecovery"}, {SkipAnyCorruptedRecords, "kSkipAnyCorruptedRecords"},
	}),
}

var familySettings = []setting[ColumnFamilyOptions]{
	{"comparator",
		func(o *ColumnFamilyOptions) string {
			if o.Comparator == BytewiseComparator || o.Comparator == ReverseBytewiseComparator {
				return o.Comparator.Name
			}
			return "" // RocksDB refuses a name that it cannot make
		},
		func(o *ColumnFamilyOptions, s string) error {
			for _, c := range []*Comparator{BytewiseComparator, ReverseBytewiseComparator} {
				if c.Name == s {
					o.Comparator = c
				}
			}
			return nil // another one has to come from the user
		}},
	{"merge_operator",
		func(o *ColumnFamilyOptions) string { return merge.Format(o.MergeOperator) },
		func(o *ColumnFamilyOptions, s string) error {
			o.MergeOperator = merge.Parse(s) // one that is not built in has to come from the user
			return nil
		}},
	number("write_buffer_size", func(o *ColumnFamilyOptions) *uint64 { return &o.WriteBufferSize }),
	number("max_write_buffer_number", func(o *ColumnFamilyOptions) *int { return &o.MaxWriteBufferNumber }),
	number("max_write_buffer_size_to_maintain", func(o *ColumnFamilyOptions) *int64 { return &o.MaxWriteBufferSizeToMaintain }),
	number("max_successive_merges", func(o *ColumnFamilyOptions) *int { return &o.MaxSuccessiveMerges }),
	unlessZero(number("memtable_max_range_deletions", func(o *ColumnFamilyOptions) *int { return &o.MemtableMaxRangeDeletions })),
	number("num_levels", func(o *ColumnFamilyOptions) *int { return &o.NumLevels }),
	number("level0_file_num_compaction_trigger", func(o *ColumnFamilyOptions) *int { return &o.Level0FileNumCompactionTrigger }),
	number("level0_slowdown_writes_trigger", func(o *ColumnFamilyOptions) *int { return &o.Level0SlowdownWritesTrigger }),
	number("level0_stop_writes_trigger", func(o *ColumnFamilyOptions) *int { return &o.Level0StopWritesTrigger }),
	number("target_file_size_base", func(o *ColumnFamilyOptions) *uint64 { return &o.TargetFileSizeBase }),
	number("target_file_size_multiplier", func(o *ColumnFamilyOptions) *int { return &o.TargetFileSizeMultiplier }),
	number("max_bytes_for_level_base", func(o *ColumnFamilyOptions) *uint64 { return &o.MaxBytesForLevelBase }),
	decimal("max_bytes_for_level_multiplier", func(o *ColumnFamilyOptions) *float64 { return &o.MaxBytesForLevelMultiplier }),
	number("max_compaction_bytes", func(o *ColumnFamilyOptions) *uint64 { return &o.MaxCompactionBytes }),
	limit("soft_pending_compaction_bytes_limit", func(o *ColumnFamilyOptions) *uint64 { return &o.SoftPendingCompactionBytesLimit }),
	limit("hard_pending_compaction_bytes_limit", func(o *ColumnFamilyOptions) *uint64 { return &o.HardPendingCompactionBytesLimit }),
	flag("disable_auto_compactions", false, func(o *ColumnFamilyOptions) *bool { return &o.DisableAutoCompactions }),
	flag("level_compaction_dynamic_level_bytes", true, func(o *ColumnFamilyOptions) *bool { return &o.NoDynamicLevelBytes }),
	flag("optimize_filters_for_hits", false, func(o *ColumnFamilyOptions) *bool { return &o.OptimizeFiltersForHits }),
	enum("compression", func(o *ColumnFamilyOptions) *Compression { return &o.Compression }, compressionNames),
	{"compression_per_level",
		func(o *ColumnFamilyOptions) string {
			var names []string
			for _, c := range o.CompressionPerLevel {
				for _, n := range compressionNames {
					if n.value == c {
						names = append(names, n.name)
					}
				}
			}
			return strings.Join(names, ":")
		},
		func(o *ColumnFamilyOptions, s string) error {
			o.CompressionPerLevel = nil
			for name := range strings.SplitSeq(s, ":") {
				found := false
				for _, n := range compressionNames {
					if n.name == name {
						o.CompressionPerLevel, found = append(o.CompressionPerLevel, n.value), true
					}
				}
				if !found && s != "" {
					return fmt.Errorf("%q is not known", name)
				}
			}
			return nil
		}},
	enum("bottommost_compression", func(o *ColumnFamilyOptions) *Compression { return &o.BottommostCompression }, compressionNames),
	{"prefix_extractor",
		func(o *ColumnFamilyOptions) string {
			if o.PrefixExtractor != nil && kv.ParseTransform(o.PrefixExtractor.Name()) == o.PrefixExtractor {
				return o.PrefixExtractor.Name()
			}
			return "nullptr" // none, or one that RocksDB cannot make
		},
		func(o *ColumnFamilyOptions, s string) error {
			o.PrefixExtractor = kv.ParseTransform(s) // one that is not built in has to come from the user
			return nil
		}},
	decimal("memtable_prefix_bloom_size_ratio", func(o *ColumnFamilyOptions) *float64 { return &o.MemtablePrefixBloomSizeRatio }),
	flag("memtable_whole_key_filtering", false, func(o *ColumnFamilyOptions) *bool { return &o.MemtableWholeKeyFiltering }),
}

var tableSettings = []setting[TableOptions]{
	number("block_size", func(o *TableOptions) *int { return &o.BlockSize }),
	number("block_restart_interval", func(o *TableOptions) *int { return &o.BlockRestartInterval }),
	number("index_block_restart_interval", func(o *TableOptions) *int { return &o.IndexBlockRestartInterval }),
	number("metadata_block_size", func(o *TableOptions) *int { return &o.MetadataBlockSize }),
	flag("whole_key_filtering", true, func(o *TableOptions) *bool { return &o.NoWholeKeyFiltering }),
	flag("partition_filters", false, func(o *TableOptions) *bool { return &o.PartitionFilters }),
	enum("index_type", func(o *TableOptions) *IndexType { return &o.IndexType }, []named[IndexType]{
		{BinarySearch, "kBinarySearch"}, {TwoLevelIndexSearch, "kTwoLevelIndexSearch"},
		{BinarySearch, "kHashSearch"}, {BinarySearch, "kBinarySearchWithFirstKey"},
	}),
	enum("data_block_index_type", func(o *TableOptions) *DataBlockIndexType { return &o.DataBlockIndexType }, []named[DataBlockIndexType]{
		{DataBlockBinarySearch, "kDataBlockBinarySearch"}, {DataBlockBinaryAndHash, "kDataBlockBinaryAndHash"},
	}),
	decimal("data_block_hash_table_util_ratio", func(o *TableOptions) *float64 { return &o.DataBlockHashTableUtilRatio }),
	number("format_version", func(o *TableOptions) *int { return &o.FormatVersion }),
	enum("checksum", func(o *TableOptions) *ChecksumType { return &o.Checksum }, []named[ChecksumType]{
		{NoChecksum, "kNoChecksum"}, {CRC32cChecksum, "kCRC32c"}, {XXHashChecksum, "kxxHash"}, {XXHash64, "kxxHash64"}, {XXH3, "kXXH3"},
	}),
	flag("cache_index_and_filter_blocks", false, func(o *TableOptions) *bool { return &o.CacheIndexAndFilterBlocks }),
	flag("cache_index_and_filter_blocks_with_high_priority", true, func(o *TableOptions) *bool {
		return &o.CacheIndexAndFilterBlocksWithoutPriority
	}),
	flag("pin_l0_filter_and_index_blocks_in_cache", false, func(o *TableOptions) *bool {
		return &o.PinL0FilterAndIndexBlocksInCache
	}),
	{"filter_policy",
		func(o *TableOptions) string {
			if p, ok := o.FilterPolicy.(interface{ OptionText() string }); ok {
				return p.OptionText()
			}
			return "nullptr" // none, or one that RocksDB does not know
		},
		func(o *TableOptions, s string) (err error) {
			o.FilterPolicy, err = filter.Parse(s)
			return err
		}},
}

const (
	sectionVersion = "Version"
	sectionDB      = "DBOptions"
	sectionFamily  = "CFOptions"
	sectionTable   = "TableOptions/BlockBasedTable"
)

// writeOptionsFile writes a new OPTIONS file and deletes all but the newest two. It runs after the families changed. The
// database does not need the file: that it cannot be written is for the LOG.
func (d *DB) writeOptionsFile() {
	d.optionsMu.Lock()
	defer d.optionsMu.Unlock()
	num := d.versions.NewFileNum()
	err := vfs.WriteFileAtomic(d.fs, d.path(fname.OptionsTemp, num), d.path(fname.Options, num), d.encodeOptions())
	if err != nil {
		d.log.Warn("write the OPTIONS file", "error", err)
		return
	}
	names, err := d.fs.List(d.dir)
	if err != nil {
		d.log.Warn("list the directory", "error", err)
		return
	}
	keep := newest(names, fname.Options, 2)
	for _, name := range names {
		if kind, num, ok := fname.Parse(name); ok && kind == fname.Options && !keep[num] {
			d.obsolete(fname.Options, num)
		}
	}
}

// nameEscapes puts a backslash, as RocksDB does, before what would be more than itself in the name of a section: so a
// family's name may hold the end of a line.
var nameEscapes = strings.NewReplacer("\n", `\n`, "\r", `\r`, `\`, `\\`, "#", `\#`, ":", `\:`)

// unescape takes the backslashes back.
func unescape(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '\\' && i+1 < len(name) {
			i++
			switch c = name[i]; c {
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}

func (d *DB) encodeOptions() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "[%s]\n  rocksdb_version=7.8.3\n  options_file_version=1.1\n\n[%s]\n", sectionVersion, sectionDB)
	writeSettings(&b, dbSettings, d.dbOpts.Load())
	if d.twoPhase {
		b.WriteString("  allow_2pc=true\n") // else RocksDB does not open logs with marks of two-phase commits
	}
	for _, cf := range d.ColumnFamilies() {
		o := &cf.live.Load().ColumnFamilyOptions
		name := nameEscapes.Replace(cf.name)
		fmt.Fprintf(&b, "\n[%s \"%s\"]\n", sectionFamily, name)
		writeSettings(&b, familySettings, o)
		fmt.Fprintf(&b, "\n[%s \"%s\"]\n", sectionTable, name)
		writeSettings(&b, tableSettings, &o.Table)
	}
	return b.Bytes()
}

func writeSettings[O any](b *bytes.Buffer, settings []setting[O], o *O) {
	for _, s := range settings {
		if v := s.get(o); v != "" {
			fmt.Fprintf(b, "  %s=%s\n", s.name, v)
		}
	}
}

// LoadOptions reads the newest OPTIONS file of a database, ours or RocksDB's: the options of the database and of every
// family, as far as there are such here. Comparators and merge operators other than the built-in ones and filter policies
// other than Bloom are left for the caller to set. It reads from the operating system's file system.
func LoadOptions(dir string) (*Options, error) { return loadOptions(vfs.OS, dir) }

func loadOptions(fsys vfs.FS, dir string) (*Options, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, during(err, "load options of %s", dir)
	}
	for num := range newest(names, fname.Options, 1) {
		path := fsys.Join(dir, fname.Make(fname.Options, num))
		b, err := vfs.ReadFile(fsys, path)
		if err != nil {
			return nil, during(err, "load options of %s", dir)
		}
		return parseOptions(path, b)
	}
	return nil, during(fs.ErrNotExist, "load options of %s: no OPTIONS file", dir)
}

// parseOptions reads an OPTIONS file.
func parseOptions(path string, b []byte) (*Options, error) {
	o := &Options{ColumnFamilies: map[string]*ColumnFamilyOptions{}}
	var section string
	var cf *ColumnFamilyOptions
	off := 0
	for raw := range strings.Lines(string(b)) {
		at := int64(off)
		off += len(raw)
		line := strings.TrimSpace(raw)
		if !strings.HasPrefix(line, "[") { // in a family's name the sign may stand without a backslash
			line = strings.TrimSpace(withoutComment(line))
		}
		switch {
		case line == "":
		case line[0] == '[':
			var name string
			var ok bool
			if section, name, ok = parseSection(line); !ok {
				return nil, corrupt.At(path, at, "section %q", line)
			}
			if section == sectionFamily || section == sectionTable {
				if cf = o.ColumnFamilies[name]; cf == nil {
					cf = &ColumnFamilyOptions{}
					o.ColumnFamilies[name] = cf
				}
			}
		default:
			name, value, ok := strings.Cut(line, "=")
			if !ok {
				return nil, corrupt.At(path, at, "line %q has no value", line)
			}
			name, value = strings.TrimSpace(name), strings.TrimSpace(value)
			var err error
			switch section {
			case sectionDB:
				err = apply(dbSettings, o, name, value)
			case sectionFamily:
				err = apply(familySettings, cf, name, value)
			case sectionTable:
				err = apply(tableSettings, &cf.Table, name, value)
			}
			if err != nil {
				return nil, corrupt.At(path, at, "%s: %w", name, err)
			}
		}
	}
	if def := o.ColumnFamilies[DefaultColumnFamilyName]; def != nil {
		o.ColumnFamilyOptions = *def
	}
	if err := o.Validate(); err != nil {
		return nil, corrupt.At(path, 0, "%w", err)
	}
	return o, nil
}

// withoutComment cuts off what stands behind a #, unless that is escaped by a backslash.
func withoutComment(line string) string {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] != '\\') {
			return line[:i]
		}
	}
	return line
}

// parseSection splits [Name] and [Name "family"].
func parseSection(line string) (section, family string, ok bool) {
	line, ok = strings.CutSuffix(line[1:], "]")
	if !ok {
		return "", "", false
	}
	section, family, named := strings.Cut(line, " ")
	if !named {
		return section, "", section != sectionFamily && section != sectionTable
	}
	family = strings.TrimSpace(family)
	if len(family) < 2 || family[0] != '"' || family[len(family)-1] != '"' {
		return "", "", false
	}
	return section, unescape(family[1 : len(family)-1]), true
}

// apply sets an option by name. One that is not known is passed over.
func apply[O any](settings []setting[O], o *O, name, value string) error {
	for _, s := range settings {
		if s.name == name {
			return s.set(o, value)
		}
	}
	return nil
}
