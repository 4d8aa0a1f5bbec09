package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/writelab"
	"github.com/ashlardb/ashlar/writegroup"
)

// config holds what the flags say. It does not change once the benchmarks run.
type config struct {
	flags flagSet

	benchmarks                              string
	db, walDir                              string
	useExistingDB                           bool
	num, reads, writes, deletes             int64
	threads, duration, checkEvery           int64
	seed                                    uint64
	keySize, prefixSize, keysPerPrefix      int64
	batchSize                               int64
	valueSize, valueSizeMin, valueSizeMax   int64
	valueSizeKind                           string
	compressionRatio                        float64
	sync, disableWAL, manualWALFlush        bool
	families                                int64
	distinct                                int64
	stddev                                  float64
	singleDeletes                           bool
	transactionSets                         int64
	readPercent                             int64
	seekNexts, maxScan                      int64
	reverse                                 bool
	skew                                    float64
	finishAfterWrites                       bool
	writeRate, readRate                     uint64
	histogram, statistics                   bool
	statsInterval, statsIntervalSeconds     int64
	statsPerInterval                        int64
	reportIntervalSeconds                   int64
	reportFile                              string
	progress, confidenceOnly                bool
	slowMicros                              int64
	blockSize, blockRestart, formatVersion  int64
	checksum, compression, cacheType        string
	bloomBits                               float64
	filtersForHits                          bool
	cacheSize                               int64
	writeBuffer, targetFile, levelBase      uint64
	writeBuffers, levels, targetMultiplier  int64
	levelMultiplier                         float64
	l0Trigger, l0Slowdown, l0Stop           int64
	noAuto, dynamicLevels, pipelined        bool
	concurrentMemtable                      bool
	backgroundJobs, openFiles               int64
	softPending, hardPending, maxCompaction uint64
	delayedRate, maxTotalWAL                uint64
	minLevelToCompress                      int64
	cpuProfile, memProfile                  string
	writeWake                               string
	writeSpins, writeSpreadFrom             int64
	writePathStats                          bool
	gauges                                  writelab.Gauges
	apply                                   applyFlags
}

// newConfig returns one with every flag at its default.
func newConfig() *config {
	c := &config{}
	c.defineWork()
	c.defineWritePath()
	c.defineApply()
	c.defineTree()
	c.defineAccepted()
	c.defineRefused()
	return c
}

// defineWork defines the flags about what is done and what is printed.
func (c *config) defineWork() {
	f := &c.flags
	f.String(&c.benchmarks, "benchmarks", defaultBenchmarks, "comma-separated list, done in this order; name[X3] repeats one, "+
		"name[W1] does it once beforehand, name[W1-X3] both")
	f.String(&c.db, "db", filepath.Join(os.TempDir(), "dbbench"), "directory of the database")
	f.String(&c.walDir, "wal_dir", "", "directory of the logs, if another")
	f.Bool(&c.useExistingDB, "use_existing_db", false, "keep the database that is there; benchmarks that want a fresh one are skipped")
	f.Int(&c.num, "num", 1_000_000, "size of the key space, and operations per thread").want(atLeast[int64](1))
	f.Int(&c.reads, "reads", -1, "reads per thread; negative: num")
	f.Int(&c.writes, "writes", -1, "writes per thread; negative: num")
	f.Int(&c.deletes, "deletes", -1, "deletes per thread; negative: num")
	f.Int(&c.threads, "threads", 1, "threads").want(atLeast[int64](1))
	f.Int(&c.duration, "duration", 0, "seconds to run random benchmarks, instead of a number of operations").want(atLeast[int64](0))
	f.Int(&c.checkEvery, "ops_between_duration_checks", 1000, "operations between looks at the clock").want(atLeast[int64](1))
	f.Uint(&c.seed, "seed", 0, "thread i of the process draws with seed+i; 0: the time")
	f.Int(&c.keySize, "key_size", 16, "bytes of a key").want(atLeast[int64](1))
	f.Int(&c.prefixSize, "prefix_size", 0, "bytes of a key's prefix, where keys have one (keys_per_prefix)").want(atLeast[int64](0))
	f.Int(&c.keysPerPrefix, "keys_per_prefix", 0, "keys with the same prefix; 0: keys have none").want(atLeast[int64](0))
	f.Int(&c.batchSize, "batch_size", 1, "entries of a batch").want(atLeast[int64](1))
	f.Int(&c.valueSize, "value_size", 100, "bytes of a value").want(atLeast[int64](0))
	f.Int(&c.valueSizeMin, "value_size_min", 100, "smallest value, if sizes are not fixed").want(atLeast[int64](0))
	f.Int(&c.valueSizeMax, "value_size_max", 102400, "largest value, if sizes are not fixed").want(atLeast[int64](0))
	f.String(&c.valueSizeKind, "value_size_distribution_type", "fixed", "fixed, uniform or normal").want(oneOf("fixed", "uniform", "normal"))
	f.Float(&c.compressionRatio, "compression_ratio", 0.5, "values compress to this part of their size").want(atLeast(0.0))
	f.Bool(&c.sync, "sync", false, "every write is synced")
	f.Bool(&c.disableWAL, "disable_wal", false, "writes are in no log")
	f.Bool(&c.manualWALFlush, "manual_wal_flush", false, "the log stays in memory until it is flushed")
	f.Int(&c.families, "num_column_families", 1, "column families; key v is in number v modulo this").want(atLeast[int64](1))
	f.Int(&c.distinct, "numdistinct", 1000, "ids of randomreplacekeys").want(atLeast[int64](1))
	f.Float(&c.stddev, "stddev", 2000, "deviation of the ids of randomreplacekeys").want(atLeast(0.0))
	f.Bool(&c.singleDeletes, "use_single_deletes", true, "randomreplacekeys uses SingleDelete, not Delete")
	f.Int(&c.transactionSets, "transaction_sets", 2, "keys that randomtransaction changes at a time").want(func(v any) string {
		if n := v.(int64); n < 1 || n > 9999 {
			return "want 1 to 9999"
		}
		return ""
	})
	f.Int(&c.readPercent, "readwritepercent", 90, "reads in a hundred operations of readrandomwriterandom").want(func(v any) string {
		if n := v.(int64); n < 0 || n > 100 {
			return "want 0 to 100"
		}
		return ""
	})
	f.Int(&c.seekNexts, "seek_nexts", 0, "steps after each seek").want(atLeast[int64](0))
	f.Bool(&c.reverse, "reverse_iterator", false, "the steps go backward")
	f.Int(&c.maxScan, "max_scan_distance", 0, "bound iterators of seekrandom this far from the key; 0: no bound").want(atLeast[int64](0))
	f.Float(&c.skew, "read_random_exp_range", 0, "how skewed the keys of readrandom and multireadrandom are; 0: not").want(atLeast(0.0))
	f.Bool(&c.finishAfterWrites, "finish_after_writes", false, "the writer beside readers ends after its writes")
	f.Uint(&c.writeRate, "benchmark_write_rate_limit", 0, "bytes a second that all threads write; 0: no limit")
	f.Uint(&c.readRate, "benchmark_read_rate_limit", 0, "reads a second of all threads; 0: no limit")
	f.Bool(&c.histogram, "histogram", false, "print how long operations took")
	f.Bool(&c.statistics, "statistics", false, "print the database's counters at the end")
	f.Int(&c.statsInterval, "stats_interval", 0, "operations of a thread between reports of its progress to stderr").want(atLeast[int64](0))
	f.Int(&c.statsIntervalSeconds, "stats_interval_seconds", 0, "seconds between such reports").want(atLeast[int64](0))
	f.Int(&c.statsPerInterval, "stats_per_interval", 0, "above 0: those reports have the property rocksdb.stats").want(atLeast[int64](0))
	f.Int(&c.reportIntervalSeconds, "report_interval_seconds", 0, "seconds between lines of report_file; 0: no file").want(atLeast[int64](0))
	f.String(&c.reportFile, "report_file", "report.csv", "file for operations per interval; each benchmark starts it anew")
	f.Bool(&c.progress, "progress_reports", true, "report progress: on a terminal as it goes, else by stats_interval only")
	f.Int(&c.slowMicros, "slow_usecs", 1_000_000, "with histogram, on a terminal: tell operations that take longer")
	f.Bool(&c.confidenceOnly, "confidence_interval_only", false, "while a benchmark is repeated print the 95% confidence interval, not the average")

	f.String(&c.cpuProfile, "cpuprofile", "", "file for a CPU profile of the benchmarks").own = true
	f.String(&c.memProfile, "memprofile", "", "file for a profile of the allocations").own = true
}

// defineWritePath defines the flags about how writers form a group, which db_bench does not have.
func (c *config) defineWritePath() {
	f := &c.flags
	f.String(&c.writeWake, "write_wake", "sqrt", "who wakes the members of a write group: sqrt, the leader and its helpers; "+
		"one_by_one, the leader alone").want(oneOf(writegroup.WakeSquareRoot.String(), writegroup.WakeOneByOne.String())).own = true
	f.Int(&c.writeSpins, "write_spins", 0, "looks of a waiting writer before it sleeps; 0: the engine's choice").
		want(atLeast[int64](0)).own = true
	f.Int(&c.writeSpreadFrom, "write_spread_from", 0, "members of a write group insert for themselves from this size on; "+
		"-1: never; 0: the engine's choice").want(atLeast[int64](-1)).own = true
	f.Bool(&c.writePathStats, "write_path_stats", false, "measure each step of each write group, and print it at the end").own = true
}

// dials are what these flags say. Gauges are the process's.
func (c *config) dials() writelab.Dials {
	d := writelab.Dials{Spins: int(c.writeSpins), SpreadFrom: int(c.writeSpreadFrom)}
	if strings.EqualFold(c.writeWake, writegroup.WakeOneByOne.String()) {
		d.Wake = writegroup.WakeOneByOne
	}
	if c.writePathStats {
		d.Gauges = &c.gauges
	}
	return d
}

// defineTree defines the flags about the database's options.
func (c *config) defineTree() {
	f := &c.flags
	f.Float(&c.bloomBits, "bloom_bits", -1, "bits per key of the filter; 0 and less: none")
	f.Bool(&c.filtersForHits, "optimize_filters_for_hits", false, "no filters in the last level")
	f.Int(&c.cacheSize, "cache_size", 32<<20, "bytes of the block cache").want(atLeast[int64](0))
	f.String(&c.cacheType, "cache_type", "clock_cache", "db_bench's names are accepted; there is one cache, a clock").
		want(oneOf("clock_cache", "lru_cache", "hyper_clock_cache", "fixed_hyper_clock_cache", "auto_hyper_clock_cache"))
	f.Int(&c.blockSize, "block_size", 4096, "bytes of a block before compression; of a piece for crc32c and the like").want(atLeast[int64](1))
	f.Int(&c.blockRestart, "block_restart_interval", 16, "keys between full keys in a block").want(atLeast[int64](1))
	f.Int(&c.formatVersion, "format_version", 5, "of tables, 2 to 7").want(func(v any) string {
		if n := v.(int64); n < 2 || n > 7 {
			return "want 2 to 7"
		}
		return ""
	})
	f.String(&c.checksum, "checksum_type", "3", "of blocks, by number or name: 0 none, 1 crc32c, 2 xxhash, 3 xxhash64, 4 xxh3").
		want(func(v any) string {
			if _, ok := checksums[strings.ToLower(v.(string))]; !ok {
				return "want 0 to 4, or none, crc32c, xxhash, xxhash64 or xxh3"
			}
			return ""
		})
	f.String(&c.compression, "compression_type", "snappy", "none, snappy, zlib, lz4, lz4hc (written as lz4) or zstd").
		want(oneOf("none", "snappy", "zlib", "lz4", "lz4hc", "zstd"))
	f.Int(&c.minLevelToCompress, "min_level_to_compress", -1, "levels above this one are not compressed; negative: all are")
	f.Uint(&c.writeBuffer, "write_buffer_size", 64<<20, "bytes of a memtable").want(atLeast[uint64](1))
	f.Int(&c.writeBuffers, "max_write_buffer_number", 2, "memtables of a family").want(atLeast[int64](1))
	f.Uint(&c.targetFile, "target_file_size_base", 64<<20, "bytes of a table").want(atLeast[uint64](1))
	f.Int(&c.targetMultiplier, "target_file_size_multiplier", 1, "how much larger the next level's are").want(atLeast[int64](1))
	f.Uint(&c.levelBase, "max_bytes_for_level_base", 256<<20, "bytes of the first level below 0").want(atLeast[uint64](1))
	f.Float(&c.levelMultiplier, "max_bytes_for_level_multiplier", 10, "how much larger the next level is").want(func(v any) string {
		if v.(float64) <= 1 {
			return "want more than 1"
		}
		return ""
	})
	f.Int(&c.levels, "num_levels", 7, "levels, 2 to 7").want(func(v any) string {
		if n := v.(int64); n < 2 || n > 7 {
			return "want 2 to 7"
		}
		return ""
	})
	f.Bool(&c.dynamicLevels, "level_compaction_dynamic_level_bytes", true, "sizes of levels from the bottom up")
	f.Int(&c.l0Trigger, "level0_file_num_compaction_trigger", 4, "files of level 0 that start a compaction").want(atLeast[int64](1))
	f.Int(&c.l0Slowdown, "level0_slowdown_writes_trigger", 20, "files of level 0 that slow writes down").want(atLeast[int64](1))
	f.Int(&c.l0Stop, "level0_stop_writes_trigger", 36, "files of level 0 that stop writes").want(atLeast[int64](1))
	f.Bool(&c.noAuto, "disable_auto_compactions", false, "no compactions but those asked for")
	f.Uint(&c.softPending, "soft_pending_compaction_bytes_limit", 64<<30, "bytes to be compacted that slow writes down; 0: the library's default")
	f.Uint(&c.hardPending, "hard_pending_compaction_bytes_limit", 128<<30, "bytes to be compacted that stop writes; 0: the library's default")
	f.Uint(&c.maxCompaction, "max_compaction_bytes", 0, "bytes of a compaction; 0: 25 tables")
	f.Uint(&c.delayedRate, "delayed_write_rate", 8<<20, "bytes a second where slowed writes start; 0: the library's default")
	f.Uint(&c.maxTotalWAL, "max_total_wal_size", 0, "bytes of logs; 0: four times the memtables")
	f.Int(&c.backgroundJobs, "max_background_jobs", 2, "flushes and compactions at a time").want(atLeast[int64](1))
	f.Int(&c.openFiles, "open_files", -1, "tables kept open; -1: all").want(func(v any) string {
		if n := v.(int64); n < -1 || n == 0 {
			return "want -1, or 1 or more"
		}
		return ""
	})
	f.Bool(&c.pipelined, "enable_pipelined_write", false, "accepted either way: writes are not pipelined")
	f.Bool(&c.concurrentMemtable, "allow_concurrent_memtable_write", true, "the members of a write group insert in parallel")
}

// defineAccepted defines the flags that cannot change anything here.
func (c *config) defineAccepted() {
	f := &c.flags
	f.accept(intFlag, "cache_numshardbits", "-1", "the cache chooses its shards")
	f.accept(boolFlag, "pin_l0_filter_and_index_blocks_in_cache", "false", "every open table keeps its index and filter in memory")
	f.accept(boolFlag, "enable_write_thread_adaptive_yield", "true", "how a writer waits is up to the engine")
	f.accept(boolFlag, "total_order_seek", "false", "without a prefix extractor every seek is in total order")
	f.accept(intFlag, "stats_level", "3", "counters are always on, and nothing else is")
	f.accept(boolFlag, "multiread_batched", "false", "there is one MultiGet")
	f.accept(intFlag, "range_tombstone_width", "100", "of range deletions, which there are none of")
	f.accept(intFlag, "merge_keys", "-1", "of benchmarks with merges")
	f.accept(intFlag, "mergereadpercent", "70", "of benchmarks with merges")
	f.accept(intFlag, "deletepercent", "2", "of randomwithverify")
	f.accept(uintFlag, "transaction_lock_timeout", "100", "of transactions with locks")
	f.accept(boolFlag, "transaction_set_snapshot", "false", "of transactions")
}

// defineRefused defines the flags of which there is only the default.
func (c *config) defineRefused() {
	f := &c.flags
	const (
		noPrefix = "there is no prefix extractor"
		noIndex  = "tables have one index and one filter, which stay in memory"
		noTxn    = "transactions are not benchmarked"
		noHint   = "the engine does not smooth its writing"
		noDirect = "files are read and written through the page cache"
	)
	f.refuse(stringFlag, "compression_level", "default", "each compression has one level").also("32767")
	f.refuse(stringFlag, "perf_level", "kDisable", "there is no perf context").also("1")
	f.refuse(boolFlag, "use_existing_keys", "false", "keys are drawn, not read")
	f.refuse(boolFlag, "readonly", "false", "databases are opened for writing")
	f.refuse(intFlag, "num_hot_column_families", "0", "all families are hot")
	f.refuse(intFlag, "num_multi_db", "0", "there is one database")
	f.refuse(boolFlag, "optimistic_transaction_db", "false", noTxn)
	f.refuse(boolFlag, "transaction_db", "false", noTxn)
	f.refuse(stringFlag, "merge_operator", "", "merges are not benchmarked")
	f.refuse(boolFlag, "use_tailing_iterator", "false", "there are no tailing iterators")
	f.refuse(intFlag, "readahead_size", "0", "iterators choose how far they read ahead")
	f.refuse(boolFlag, "prefix_same_as_start", "false", noPrefix)
	f.refuse(boolFlag, "whole_key_filtering", "true", noPrefix)
	f.refuse(floatFlag, "memtable_bloom_size_ratio", "0", noPrefix)
	f.refuse(intFlag, "writes_per_range_tombstone", "0", "range deletions are not benchmarked")
	f.refuse(intFlag, "max_num_range_tombstones", "0", "range deletions are not benchmarked")
	f.refuse(boolFlag, "partition_index", "false", noIndex)
	f.refuse(boolFlag, "partition_index_and_filters", "false", noIndex)
	f.refuse(boolFlag, "cache_index_and_filter_blocks", "false", noIndex)
	f.refuse(intFlag, "index_block_restart_interval", "1", noIndex)
	f.refuse(boolFlag, "use_ribbon_filter", "false", "Ribbon filters are read, not written")
	f.refuse(intFlag, "row_cache_size", "0", "there is no row cache")
	f.refuse(intFlag, "min_write_buffer_number_to_merge", "1", "each memtable is flushed when it is full")
	f.refuse(intFlag, "db_write_buffer_size", "0", "memtables are bounded by family")
	f.refuse(stringFlag, "memtablerep", "skip_list", "memtables are skip lists")
	f.refuse(intFlag, "subcompactions", "1", "a compaction is not split")
	f.refuse(intFlag, "compaction_style", "0", "compactions are leveled")
	f.refuse(intFlag, "compaction_pri", "3", "compactions take the file with the least overlap")
	f.refuse(boolFlag, "unordered_write", "false", "writes are ordered")
	f.refuse(stringFlag, "wal_compression", "none", "logs are not compressed")
	f.refuse(uintFlag, "bytes_per_sync", "0", noHint)
	f.refuse(uintFlag, "wal_bytes_per_sync", "0", noHint)
	f.refuse(uintFlag, "rate_limiter_bytes_per_sec", "0", "background work has no limit")
	f.refuse(boolFlag, "verify_checksum", "true", "checksums are always verified")
	f.refuse(boolFlag, "use_direct_reads", "false", noDirect)
	f.refuse(boolFlag, "use_direct_io_for_flush_and_compaction", "false", noDirect)
	f.refuse(boolFlag, "mmap_read", "false", noDirect)
	f.refuse(boolFlag, "mmap_write", "false", noDirect)
	f.refuse(stringFlag, "options_file", "", "options come from flags")
	f.refuse(boolFlag, "show_table_properties", "false", "there is no such property")
}

// validate finds what is wrong between flags.
func (c *config) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.compressionRatio > 1 {
		bad("compression_ratio should be between 0 and 1")
	}
	if c.valueSizeMin > c.valueSizeMax {
		bad("value_size_min is above value_size_max")
	}
	if c.keysPerPrefix > 0 && c.prefixSize > c.keySize {
		bad("prefix size is larger than key size")
	}
	if c.keysPerPrefix > c.num {
		bad("keys_per_prefix is larger than num")
	}
	if c.sync && c.disableWAL {
		bad("sync needs a log, and disable_wal is set")
	}
	if c.statsIntervalSeconds > 0 {
		c.statsInterval = 1000
	}
	return errors.Join(errs...)
}

var checksums = map[string]ashlar.ChecksumType{
	"0": ashlar.NoChecksum, "none": ashlar.NoChecksum,
	"1": ashlar.CRC32cChecksum, "crc32c": ashlar.CRC32cChecksum,
	"2": ashlar.XXHashChecksum, "xxhash": ashlar.XXHashChecksum,
	"3": ashlar.XXHash64, "xxhash64": ashlar.XXHash64,
	"4": ashlar.XXH3, "xxh3": ashlar.XXH3,
}

var compressions = map[string]ashlar.Compression{
	"none": ashlar.NoCompression, "snappy": ashlar.SnappyCompression, "zlib": ashlar.ZlibCompression,
	"lz4": ashlar.LZ4Compression, "lz4hc": ashlar.LZ4Compression, "zstd": ashlar.ZSTDCompression,
}

func (c *config) compressionType() ashlar.Compression {
	return compressions[strings.ToLower(c.compression)]
}

// options returns the database's options, file system and cache left open.
func (c *config) options() *ashlar.Options {
	o := &ashlar.Options{
		ColumnFamilyOptions: ashlar.ColumnFamilyOptions{
			WriteBufferSize:                 c.writeBuffer,
			MaxWriteBufferNumber:            int(c.writeBuffers),
			NumLevels:                       int(c.levels),
			Level0FileNumCompactionTrigger:  int(c.l0Trigger),
			Level0SlowdownWritesTrigger:     int(c.l0Slowdown),
			Level0StopWritesTrigger:         int(c.l0Stop),
			TargetFileSizeBase:              c.targetFile,
			TargetFileSizeMultiplier:        int(c.targetMultiplier),
			MaxBytesForLevelBase:            c.levelBase,
			MaxBytesForLevelMultiplier:      c.levelMultiplier,
			MaxCompactionBytes:              c.maxCompaction,
			SoftPendingCompactionBytesLimit: c.softPending,
			HardPendingCompactionBytesLimit: c.hardPending,
			DisableAutoCompactions:          c.noAuto,
			NoDynamicLevelBytes:             !c.dynamicLevels,
			Compression:                     c.compressionType(),
			OptimizeFiltersForHits:          c.filtersForHits,
			Table: ashlar.TableOptions{
				BlockSize:            int(c.blockSize),
				BlockRestartInterval: int(c.blockRestart),
				FormatVersion:        int(c.formatVersion),
				Checksum:             checksums[strings.ToLower(c.checksum)],
			},
		},
		MaxBackgroundJobs:         int(c.backgroundJobs),
		MaxOpenFiles:              int(c.openFiles),
		MaxTotalWALSize:           c.maxTotalWAL,
		WALDir:                    c.walDir,
		ManualWALFlush:            c.manualWALFlush,
		NoConcurrentMemtableWrite: !c.concurrentMemtable,
		DelayedWriteRate:          c.delayedRate,
	}
	if c.bloomBits > 0 {
		o.Table.FilterPolicy = filter.Bloom(c.bloomBits)
	}
	if c.minLevelToCompress >= 0 {
		for level := range c.levels {
			one := ashlar.NoCompression
			if level >= c.minLevelToCompress {
				one = o.Compression
			}
			o.CompressionPerLevel = append(o.CompressionPerLevel, one)
		}
	}
	writelab.Set(o, c.dials())
	return o
}

// values returns what values look like.
func (c *config) values(size int) valueShape {
	kinds := map[string]sizeKind{"fixed": fixedSize, "uniform": uniformSize, "normal": normalSize}
	return valueShape{
		kind: kinds[strings.ToLower(c.valueSizeKind)], size: size,
		min: int(c.valueSizeMin), max: int(c.valueSizeMax), ratio: c.compressionRatio,
	}
}

// keys returns how keys of a size are made.
func (c *config) keys(size int) keyMaker {
	k := keyMaker{size: size, prefixSize: int(c.prefixSize)}
	if c.keysPerPrefix > 0 {
		k.prefixes = uint64(c.num / c.keysPerPrefix)
	}
	return k
}

// theirs are the defaults of db_bench that are not ours, and why.
var theirs = []struct{ flag, value, why string }{
	{"enable_pipelined_write", "true", "writes are not pipelined"},
	{"level_compaction_dynamic_level_bytes", "false", "ours is the library's default"},
	{"format_version", "7", "every RocksDB since 6.6 reads 5"},
	{"checksum_type", "4 (xxh3)", "3 is xxhash64"},
	{"cache_type", "hyper_clock_cache", "there is one cache"},
}

// differences are the lines of the header about defaults that are not db_bench's: of flags that were not given, and of
// those that were given a value that changes nothing.
func (c *config) differences() (lines []string) {
	for _, t := range theirs {
		f := c.flags.byName[t.flag]
		switch {
		case !f.given:
			lines = append(lines, fmt.Sprintf("%s is %s by default, db_bench's is %s: %s", t.flag, f.def, t.value, t.why))
		case t.flag == "enable_pipelined_write" && c.pipelined, t.flag == "cache_type":
			lines = append(lines, fmt.Sprintf("%s is accepted and changes nothing: %s", t.flag, t.why))
		}
	}
	return lines
}
