package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/ashlardb/ashlar/internal/writelab"
	"github.com/ashlardb/ashlar/writegroup"
)

// defineWork defines the flags about what is done.
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
	f.Int(&c.readPercent, "readwritepercent", 90, "reads in a hundred operations of readrandomwriterandom and randomwithverify").want(percent)
	f.Int(&c.deletePercent, "deletepercent", 2, "deletes in a hundred operations of randomwithverify").want(percent)
	f.Int(&c.mergePercent, "mergereadpercent", 70, "merges in a hundred operations of readrandommergerandom").want(percent)
	f.Bool(&c.transactionDB, "transaction_db", false, "open a database with transactions that lock; every write locks its keys")
	f.Bool(&c.optimisticDB, "optimistic_transaction_db", false, "open a database with transactions that do not wait, for randomtransaction")
	f.Int(&c.transactionSets, "transaction_sets", 2, "keys that randomtransaction changes at a time").want(between(1, 9999))
	f.Bool(&c.transactionSnapshot, "transaction_set_snapshot", false, "each transaction reads as of its beginning")
	f.Int(&c.lockTimeout, "transaction_lock_timeout", 100, "milliseconds that a transaction waits for a lock").want(atLeast[int64](0))
	f.Int(&c.transactionSleep, "transaction_sleep", 0, "most microseconds that randomtransaction sleeps between a read and a write").want(atLeast[int64](0))
	f.Int(&c.seekNexts, "seek_nexts", 0, "steps after each seek").want(atLeast[int64](0))
	f.Bool(&c.reverse, "reverse_iterator", false, "the steps go backward")
	f.Int(&c.maxScan, "max_scan_distance", 0, "bound iterators of seekrandom this far from the key; 0: no bound").want(atLeast[int64](0))
	f.Float(&c.skew, "read_random_exp_range", 0, "how skewed the keys of readrandom and multireadrandom are; 0: not").want(atLeast(0.0))
	f.Int(&c.stride, "multiread_stride", 0, "how far apart the keys of a batch are that readrandom and multireadrandom read; 0: each is drawn").
		want(atLeast[int64](0))
	f.Bool(&c.finishAfterWrites, "finish_after_writes", false, "the writer beside readers ends after its writes")
	f.String(&c.truthDB, "truth_db", "/dev/shm/truth_db/dbbench", "the database that verify compares with; it is opened for writing")
}

// defineEntries defines the flags about keys and values.
func (c *config) defineEntries() {
	f := &c.flags
	f.Int(&c.keySize, "key_size", 16, "bytes of a key").want(atLeast[int64](1))
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
	f.Int(&c.hotFamilies, "num_hot_column_families", 0, "how many of the families are in use at a time: fills make the next ones "+
		"as they go; 0: all").want(atLeast[int64](0))
	f.Int(&c.distinct, "numdistinct", 1000, "ids of randomreplacekeys, keys of randomwithverify").want(atLeast[int64](1))
	f.Float(&c.stddev, "stddev", 2000, "deviation of the ids of randomreplacekeys").want(atLeast(0.0))
	f.Bool(&c.singleDeletes, "use_single_deletes", true, "randomreplacekeys uses SingleDelete, not Delete")
	f.String(&c.mergeOperator, "merge_operator", "", "put, uint64add, stringappend, stringappendtest, max or bytesxor; none: merges are refused").
		want(func(v any) string {
			if name := v.(string); name != "" && mergeOperators[name] == nil {
				return "want put, uint64add, stringappend, stringappendtest, max or bytesxor"
			}
			return ""
		})
	f.Int(&c.mergeKeys, "merge_keys", -1, "size of the key space that is merged into; negative: num").want(func(v any) string {
		if v.(int64) == 0 {
			return "want a number of keys, or -1"
		}
		return ""
	})
	f.Int(&c.rangesAfter, "writes_before_delete_range", 0, "entries of a thread before its first range deletion").want(atLeast[int64](0))
	f.Int(&c.rangeEvery, "writes_per_range_tombstone", 0, "entries between range deletions of a thread; 0: none").want(atLeast[int64](0))
	f.Int(&c.ranges, "max_num_range_tombstones", 0, "most range deletions of a thread; fills draw from a key space larger by this").want(atLeast[int64](0))
	f.Int(&c.rangeWidth, "range_tombstone_width", 100, "keys of a range deletion").want(atLeast[int64](1))
	f.Bool(&c.expandRanges, "expand_range_tombstones", false, "delete the ranges key by key")
	f.Int(&c.idRange, "key_id_range", 100000, "ids of timeseries").want(atLeast[int64](1))
	f.Int(&c.timeRange, "time_range", 100000, "writes after which an entry of timeseries is too old").want(atLeast[int64](0))
	f.String(&c.expireStyle, "expire_style", "none", "what timeseries does about old entries: none; delete, by those that read").
		want(oneOf("none", "delete"))
	f.Int(&c.deletionThreads, "num_deletion_threads", 1, "how many of timeseries' threads delete, with expire_style=delete").want(atLeast[int64](0))
}

// defineReports defines the flags about rates and about what is printed.
func (c *config) defineReports() {
	f := &c.flags
	f.Uint(&c.writeRate, "benchmark_write_rate_limit", 0, "bytes a second that all threads write; 0: no limit")
	f.Uint(&c.readRate, "benchmark_read_rate_limit", 0, "reads a second of all threads; 0: no limit")
	f.Bool(&c.histogram, "histogram", false, "print how long operations took")
	f.Bool(&c.statistics, "statistics", false, "print tickers and histograms at the end")
	f.Int(&c.statsLevel, "stats_level", 3, "what statistics have: below 2 tickers only, 2 sizes too, above that times").want(between(0, 5))
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
	f.Int(&c.writeYields, "write_yields", 0, "how often a waiting writer lets others run before it sleeps; -1: never; 0: the engine's choice").
		want(atLeast[int64](-1)).own = true
	f.Int(&c.writeSpreadFrom, "write_spread_from", 0, "members of a write group insert for themselves from this size on; "+
		"-1: never; 0: the engine's choice").want(atLeast[int64](-1)).own = true
	f.String(&c.walMapped, "wal_mapped", "default", "logs are written through memory: on; off; default, where that is known to be safe").
		want(oneOf("default", "off", "on")).own = true
	f.Bool(&c.writePathStats, "write_path_stats", false, "measure each step of each write group, and print it at the end").own = true
}

// dials are what these flags say. Gauges are the process's.
func (c *config) dials() writelab.Dials {
	d := writelab.Dials{Yields: int(c.writeYields), SpreadFrom: int(c.writeSpreadFrom)}
	if strings.EqualFold(c.writeWake, writegroup.WakeOneByOne.String()) {
		d.Wake = writegroup.WakeOneByOne
	}
	if c.writePathStats {
		d.Gauges = &c.gauges
	}
	return d
}
