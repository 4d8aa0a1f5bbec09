package main

import (
	"strings"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/internal/writelab"
)

// defineTree defines the flags about the database's options.
func (c *config) defineTree() {
	f := &c.flags
	f.Int(&c.cacheSize, "cache_size", 32<<20, "bytes of the block cache").want(atLeast[int64](0))
	f.String(&c.cacheType, "cache_type", "clock_cache", "db_bench's names are accepted; there is one cache, a clock").
		want(oneOf("clock_cache", "lru_cache", "hyper_clock_cache", "fixed_hyper_clock_cache", "auto_hyper_clock_cache"))
	f.Int(&c.blockSize, "block_size", 4096, "bytes of a block before compression; of a piece for crc32c and the like").want(atLeast[int64](1))
	f.Int(&c.blockRestart, "block_restart_interval", 16, "keys between full keys in a block").want(atLeast[int64](1))
	f.Int(&c.formatVersion, "format_version", 5, "of tables, 2 to 7").want(between(2, 7))
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
	f.Int(&c.keepMemtables, "max_write_buffer_size_to_maintain", 0, "bytes of memtables kept, flushed ones included; -1: as many as there may be").
		want(atLeast[int64](-1))
	f.Int(&c.maxSuccessiveMerges, "max_successive_merges", 0, "merge operands of a key in the memtable that make the next one a value; 0: never").
		want(atLeast[int64](0))
	f.Uint(&c.targetFile, "target_file_size_base", 64<<20, "bytes of a table").want(atLeast[uint64](1))
	f.Int(&c.targetMultiplier, "target_file_size_multiplier", 1, "how much larger the next level's are").want(atLeast[int64](1))
	f.Uint(&c.levelBase, "max_bytes_for_level_base", 256<<20, "bytes of the first level below 0").want(atLeast[uint64](1))
	f.Float(&c.levelMultiplier, "max_bytes_for_level_multiplier", 10, "how much larger the next level is").want(func(v any) string {
		if v.(float64) <= 1 {
			return "want more than 1"
		}
		return ""
	})
	f.Int(&c.levels, "num_levels", 7, "levels, 2 to 7").want(between(2, 7))
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
	f.Bool(&c.pipelined, "enable_pipelined_write", false, "the log of one write group is written while the one before is inserted")
	f.Bool(&c.concurrentMemtable, "allow_concurrent_memtable_write", true, "the members of a write group insert in parallel")
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

var mappings = map[string]ashlar.MappedWAL{
	"default": ashlar.DefaultMappedWAL, "off": ashlar.MappedWALOff, "on": ashlar.MappedWALOn,
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
			MaxSuccessiveMerges:             int(c.maxSuccessiveMerges),
			MaxWriteBufferSizeToMaintain:    c.keepMemtables,
			MergeOperator:                   mergeOperators[c.mergeOperator],
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
		WALMapped:                 mappings[strings.ToLower(c.walMapped)],
		EnablePipelinedWrite:      c.pipelined,
		NoConcurrentMemtableWrite: !c.concurrentMemtable,
		DelayedWriteRate:          c.delayedRate,
	}
	c.tables.apply(&o.ColumnFamilyOptions)
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
