package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/internal/writelab"
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
	keySize, keysPerPrefix                  int64
	batchSize                               int64
	valueSize, valueSizeMin, valueSizeMax   int64
	valueSizeKind                           string
	compressionRatio                        float64
	sync, disableWAL, manualWALFlush        bool
	families, hotFamilies                   int64
	distinct                                int64
	stddev                                  float64
	singleDeletes                           bool
	transactionDB, optimisticDB             bool
	transactionSnapshot                     bool
	transactionSets, transactionSleep       int64
	lockTimeout                             int64
	mergeOperator                           string
	mergeKeys, mergePercent                 int64
	readPercent, deletePercent              int64
	rangesAfter, rangeEvery                 int64
	ranges, rangeWidth                      int64
	expandRanges                            bool
	stride                                  int64
	idRange, timeRange, deletionThreads     int64
	expireStyle, truthDB                    string
	mix                                     mixModel
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
	tables                                  tableFlags
	maxSuccessiveMerges, keepMemtables      int64
	statsLevel                              int64
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
	writeWake, walMapped                    string
	writeYields, writeSpreadFrom            int64
	writePathStats                          bool
	gauges                                  writelab.Gauges
	apply                                   applyFlags
}

// newConfig returns one with every flag at its default.
func newConfig() *config {
	c := &config{}
	c.defineWork()
	c.defineEntries()
	c.defineReports()
	c.defineMix()
	c.defineWritePath()
	c.defineApply()
	c.defineTree()
	c.defineTables()
	c.defineAccepted()
	c.defineRefused()
	return c
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
	if c.keysPerPrefix > 0 && c.tables.prefixSize > c.keySize {
		bad("prefix size is larger than key size")
	}
	if c.keysPerPrefix > c.num {
		bad("keys_per_prefix is larger than num")
	}
	if c.sync && c.disableWAL {
		bad("sync needs a log, and disable_wal is set")
	}
	if c.transactionDB && c.optimisticDB {
		bad("optimistic_transaction_db and transaction_db are two kinds of database")
	}
	if c.transactionDB && c.rangeEvery > 0 && c.ranges > 0 && !c.expandRanges {
		bad("ranges cannot be locked: transaction_db wants expand_range_tombstones with writes_per_range_tombstone")
	}
	if c.stride > c.num/c.batchSize {
		bad("multiread_stride times batch_size is larger than num")
	}
	if c.statsIntervalSeconds > 0 {
		c.statsInterval = 1000
	}
	return errors.Join(errs...)
}

func (c *config) compressionType() ashlar.Compression {
	return compressions[strings.ToLower(c.compression)]
}

// values returns what values look like.
func (c *config) values(size int) valueShape {
	kinds := map[string]sizeKind{"fixed": fixedSize, "uniform": uniformSize, "normal": normalSize}
	return valueShape{
		kind: kinds[strings.ToLower(c.valueSizeKind)], size: size,
		min: int(c.valueSizeMin), max: int(c.valueSizeMax), ratio: c.compressionRatio,
	}
}

// keys returns how keys of a size are made, of which there are num.
func (c *config) keys(size int, num uint64) keyMaker {
	k := keyMaker{size: size, prefixSize: int(c.tables.prefixSize)}
	if c.keysPerPrefix > 0 {
		k.prefixes = max(num/uint64(c.keysPerPrefix), 1)
	}
	return k
}

// theirs are the defaults of db_bench that are not ours, and why.
var theirs = []struct{ flag, value, why string }{
	{"enable_pipelined_write", "true", "ours is the library's default"},
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
		case t.flag == "cache_type":
			lines = append(lines, fmt.Sprintf("%s is accepted and changes nothing: %s", t.flag, t.why))
		}
	}
	return lines
}
