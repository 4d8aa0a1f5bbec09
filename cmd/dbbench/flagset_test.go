package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/filter"
)

func TestCommandLinesAreReadAsGflagsDoes(t *testing.T) {
	for _, c := range []struct {
		line string
		look func(*config) any
		want any
	}{
		{"--num=5", func(c *config) any { return c.num }, int64(5)},
		{"--num 5", func(c *config) any { return c.num }, int64(5)},
		{"-num=5", func(c *config) any { return c.num }, int64(5)},
		{"-num 5", func(c *config) any { return c.num }, int64(5)},
		{"--num=5 --num=6", func(c *config) any { return c.num }, int64(6)},
		{"--num=0x10", func(c *config) any { return c.num }, int64(16)},
		{"--num=010", func(c *config) any { return c.num }, int64(10)},
		{"--reads -1", func(c *config) any { return c.reads }, int64(-1)},
		{"--sync", func(c *config) any { return c.sync }, true},
		{"-sync", func(c *config) any { return c.sync }, true},
		{"--sync=yes", func(c *config) any { return c.sync }, true},
		{"--sync=0", func(c *config) any { return c.sync }, false},
		{"--sync --nosync", func(c *config) any { return c.sync }, false},
		{"--noprogress_reports", func(c *config) any { return c.progress }, false},
		{"--use-existing-db", func(c *config) any { return c.useExistingDB }, true},
		{"--compression_ratio=.25", func(c *config) any { return c.compressionRatio }, 0.25},
		{"--db=", func(c *config) any { return c.db }, ""},
		{"--db=a=b", func(c *config) any { return c.db }, "a=b"},
		{"--seed=18446744073709551615", func(c *config) any { return c.seed }, uint64(1<<64 - 1)},
		{"--benchmarks=fillrandom --threads 64 --seed 1708494134896523 --duration 60",
			func(c *config) any { return []any{c.threads, c.seed, c.duration} }, []any{int64(64), uint64(1708494134896523), int64(60)}},
		{"--benchmarks fillseq,stats", func(c *config) any { return c.benchmarks }, "fillseq,stats"},
		{"--compression_type=ZSTD", func(c *config) any { return c.compressionType() }, ashlar.ZSTDCompression},
		{"--compression_level=32767 --perf_level=1", func(c *config) any { return c.num }, int64(1_000_000)},
		{"--verify_checksum=1 --memtable_bloom_size_ratio=0.0 --nounordered_write", func(c *config) any { return c.num }, int64(1_000_000)},
		{"--stats_level=0 --cache_numshardbits=6 --total_order_seek", func(c *config) any { return c.num }, int64(1_000_000)},
	} {
		cfg := newConfig()
		require.NoError(t, cfg.flags.parse(strings.Fields(c.line)), c.line)
		require.NoError(t, cfg.validate(), c.line)
		require.Equal(t, c.want, c.look(cfg), c.line)
	}
}

func TestWrongCommandLinesAreErrors(t *testing.T) {
	for line, want := range map[string]string{
		"--nosuch=1":                       "unknown command line flag 'nosuch'",
		"--nonum":                          "unknown command line flag 'nonum'",
		"--nosync=true":                    "unknown command line flag 'nosync'",
		"--num":                            "flag '--num' is missing its argument",
		"--num=abc":                        "illegal value 'abc' specified for int64 flag 'num'",
		"--num=":                           "illegal value '' specified for int64 flag 'num'",
		"--num=99999999999999999999":       "illegal value '99999999999999999999' specified for int64 flag 'num'",
		"--sync=maybe":                     "illegal value 'maybe' specified for bool flag 'sync'",
		"--sync false":                     "unexpected argument 'false'",
		"--stddev=NaN":                     "illegal value 'NaN' specified for double flag 'stddev'",
		"num=5":                            "unexpected argument 'num=5'",
		"---num=5":                         "unexpected argument '---num=5'",
		"--":                               "unexpected argument '--'",
		"-":                                "unexpected argument '-'",
		"--threads=0":                      "--threads=0: want 1 or more",
		"--num=0":                          "--num=0: want 1 or more",
		"--format_version=8":               "--format_version=8: want 2 to 7",
		"--compression_type=x":             "--compression_type=x: want one of none, snappy, zlib, lz4, lz4hc, zstd",
		"--checksum_type=5":                "--checksum_type=5: want 0 to 4, or none, crc32c, xxhash, xxhash64 or xxh3",
		"--readonly":                       "--readonly=true is not supported: databases are opened for writing, by one process",
		"--use_blob_db":                    "--use_blob_db=true is not supported: values are in the tables; there are no blob files",
		"--merge_keys=0":                   "--merge_keys=0: want a number of keys, or -1",
		"--expire_style=compaction_filter": "--expire_style=compaction_filter: want one of none, delete",
		"--verify_checksum=0":              "--verify_checksum=0 is not supported: what is to be checked is always checked",
		"--compaction_style=1":             "--compaction_style=1 is not supported: compactions are leveled",
		"--merge_operator=sortlist":        "--merge_operator=sortlist: want put, uint64add, stringappend, stringappendtest, max or bytesxor",
		"--compression_level=3":            "--compression_level=3 is not supported: each compression has one level",
		"--write_wake=tree":                "--write_wake=tree: want one of sqrt, one_by_one",
		"--wal_mapped=maybe":               "--wal_mapped=maybe: want one of default, off, on",
		"--write_spread_from=-2":           "--write_spread_from=-2: want -1 or more",
		"--stats_level=x":                  "illegal value 'x' specified for int64 flag 'stats_level'",
	} {
		require.EqualError(t, newConfig().flags.parse(strings.Fields(line)), want, line)
	}
}

func TestFlagsThatDoNotGoTogetherAreErrors(t *testing.T) {
	for line, want := range map[string]string{
		"--compression_ratio=2":                        "compression_ratio should be between 0 and 1",
		"--prefix_size=20 --keys_per_prefix=10":        "prefix size is larger than key size",
		"--keys_per_prefix=10 --num=5":                 "keys_per_prefix is larger than num",
		"--value_size_min=10 --value_size_max=9":       "value_size_min is above value_size_max",
		"--transaction_db --optimistic_transaction_db": "optimistic_transaction_db and transaction_db are two kinds of database",
		"--transaction_db --writes_per_range_tombstone=2 --max_num_range_tombstones=1": "ranges cannot be locked: " +
			"transaction_db wants expand_range_tombstones with writes_per_range_tombstone",
		"--multiread_stride=11 --num=100 --batch_size=10": "multiread_stride times batch_size is larger than num",
		"--sync --disable_wal":                            "sync needs a log, and disable_wal is set",
	} {
		c := newConfig()
		require.NoError(t, c.flags.parse(strings.Fields(line)), line)
		require.EqualError(t, c.validate(), want, line)
	}
}

func TestEveryDefaultPassesItsOwnCheck(t *testing.T) {
	c := newConfig()
	for _, f := range c.flags.flags {
		require.NoError(t, f.set(f.def), f.name)
	}
	require.NoError(t, c.validate())
	require.NoError(t, c.options().Validate())
}

// The flags of db_bench that have to be known, with RocksDB 11.9's defaults.
const mustKnow = `num 1000000 reads -1 writes -1 deletes -1 threads 1 duration 0 seed 0 key_size 16 value_size 100
value_size_distribution_type fixed value_size_min 100 value_size_max 102400 batch_size 1 compression_ratio 0.5
compression_type snappy compression_level default sync false disable_wal false wal_dir - db - use_existing_db false
use_existing_keys false readonly false num_column_families 1 num_hot_column_families 0 numdistinct 1000 stddev 2000
use_single_deletes true transaction_sets 2 transaction_lock_timeout 100 transaction_set_snapshot false
optimistic_transaction_db false transaction_db false readwritepercent 90 mergereadpercent 70 deletepercent 2
merge_operator - merge_keys -1 seek_nexts 0 reverse_iterator false max_scan_distance 0 use_tailing_iterator false
prefix_size 0 keys_per_prefix 0 total_order_seek false prefix_same_as_start false writes_per_range_tombstone 0
range_tombstone_width 100 max_num_range_tombstones 0 bloom_bits -1 whole_key_filtering true memtable_bloom_size_ratio 0
optimize_filters_for_hits false partition_index false partition_index_and_filters false
cache_index_and_filter_blocks false pin_l0_filter_and_index_blocks_in_cache false cache_size 33554432
cache_numshardbits -1 cache_type * block_size 4096 format_version * checksum_type * write_buffer_size 67108864
max_write_buffer_number 2 min_write_buffer_number_to_merge 1 db_write_buffer_size 0 max_background_jobs 2
subcompactions 1 target_file_size_base 67108864 max_bytes_for_level_base 268435456 max_bytes_for_level_multiplier 10
num_levels 7 level0_file_num_compaction_trigger 4 level0_slowdown_writes_trigger 20 level0_stop_writes_trigger 36
compaction_style 0 disable_auto_compactions false open_files -1 enable_pipelined_write *
allow_concurrent_memtable_write true enable_write_thread_adaptive_yield true unordered_write false
manual_wal_flush false wal_compression none bytes_per_sync 0 wal_bytes_per_sync 0 rate_limiter_bytes_per_sec 0
benchmark_write_rate_limit 0 benchmark_read_rate_limit 0 verify_checksum true histogram false statistics false
stats_level 3 stats_interval 0 stats_interval_seconds 0 stats_per_interval 0 report_interval_seconds 0
report_file report.csv perf_level kDisable slow_usecs 1000000 progress_reports true options_file -
show_table_properties false`

func TestFlagsOfDbBenchAreKnownWithItsDefaults(t *testing.T) {
	c := newConfig()
	words := strings.Fields(mustKnow)
	for i := 0; i < len(words); i += 2 {
		name, want := words[i], words[i+1]
		f := c.flags.byName[name]
		require.NotNil(t, f, name)
		switch {
		case name == "db":
		case want == "-":
			require.Empty(t, f.def, name)
		case want == "*": // the header tells that it differs
			require.Contains(t, strings.Join(c.differences(), "\n"), name)
		default:
			require.Equal(t, want, f.def, name)
		}
	}
}

func TestEachFlagIsHonouredAcceptedOrRefusedAndHelpSaysWhich(t *testing.T) {
	c := newConfig()
	var help bytes.Buffer
	printHelp(&help, c)
	for _, f := range c.flags.flags {
		ways := 0
		for _, is := range []bool{f.store != nil, f.accepted != "", f.refused != ""} {
			if is {
				ways++
			}
		}
		require.Equal(t, 1, ways, f.name)
		require.Equal(t, 1, strings.Count(help.String(), "--"+f.name+" ("), f.name)
	}
	for _, b := range benchmarks {
		require.Contains(t, help.String(), "  "+b.name+" ")
		require.NotContains(t, unsupported, b.name)
	}
	require.Contains(t, help.String(), `--cpuprofile (`)
}

func TestFlagsReachTheOptions(t *testing.T) {
	c := newConfig()
	line := `--write_buffer_size=1000000 --max_write_buffer_number=3 --num_levels=5 --level0_file_num_compaction_trigger=2
		--level0_slowdown_writes_trigger=5 --level0_stop_writes_trigger=6 --target_file_size_base=2000000
		--target_file_size_multiplier=2 --max_bytes_for_level_base=3000000 --max_bytes_for_level_multiplier=4.5
		--max_compaction_bytes=4000000 --soft_pending_compaction_bytes_limit=5 --hard_pending_compaction_bytes_limit=6
		--disable_auto_compactions --level_compaction_dynamic_level_bytes=0 --compression_type=lz4 --min_level_to_compress=2
		--optimize_filters_for_hits --bloom_bits=10 --block_size=8192 --block_restart_interval=8 --format_version=7
		--checksum_type=xxh3 --max_background_jobs=5 --open_files=100 --max_total_wal_size=7 --wal_dir=w
		--allow_concurrent_memtable_write=false --delayed_write_rate=8 --manual_wal_flush --wal_mapped=on
		--enable_pipelined_write --max_write_buffer_size_to_maintain=9 --max_successive_merges=10
		--use_ribbon_filter --whole_key_filtering=false --memtable_bloom_size_ratio=0.1 --memtable_whole_key_filtering
		--prefix_size=8 --partition_index_and_filters --metadata_block_size=1000 --index_block_restart_interval=4
		--use_data_block_hash_index --data_block_hash_table_util_ratio=0.5 --cache_index_and_filter_blocks
		--pin_l0_filter_and_index_blocks_in_cache --prefix_same_as_start --total_order_seek`
	require.NoError(t, c.flags.parse(strings.Fields(line)))
	o := c.options()
	require.Equal(t, filter.Ribbon(10), o.Table.FilterPolicy)
	o.Table.FilterPolicy = nil
	require.Equal(t, &ashlar.ReadOptions{PrefixSameAsStart: true, TotalOrderSeek: true}, c.tables.readOptions())
	require.Equal(t, &ashlar.Options{
		ColumnFamilyOptions: ashlar.ColumnFamilyOptions{
			WriteBufferSize: 1000000, MaxWriteBufferNumber: 3, NumLevels: 5, Level0FileNumCompactionTrigger: 2,
			Level0SlowdownWritesTrigger: 5, Level0StopWritesTrigger: 6, TargetFileSizeBase: 2000000,
			TargetFileSizeMultiplier: 2, MaxBytesForLevelBase: 3000000, MaxBytesForLevelMultiplier: 4.5,
			MaxCompactionBytes: 4000000, SoftPendingCompactionBytesLimit: 5, HardPendingCompactionBytesLimit: 6,
			DisableAutoCompactions: true, NoDynamicLevelBytes: true, Compression: ashlar.LZ4Compression,
			CompressionPerLevel: []ashlar.Compression{ashlar.NoCompression, ashlar.NoCompression,
				ashlar.LZ4Compression, ashlar.LZ4Compression, ashlar.LZ4Compression},
			OptimizeFiltersForHits:       true,
			MaxWriteBufferSizeToMaintain: 9, MaxSuccessiveMerges: 10, PrefixExtractor: ashlar.FixedPrefixTransform(8),
			MemtablePrefixBloomSizeRatio: 0.1, MemtableWholeKeyFiltering: true,
			Table: ashlar.TableOptions{BlockSize: 8192, BlockRestartInterval: 8, FormatVersion: 7, Checksum: ashlar.XXH3,
				NoWholeKeyFiltering: true, IndexType: ashlar.TwoLevelIndexSearch, PartitionFilters: true, MetadataBlockSize: 1000,
				IndexBlockRestartInterval: 4, DataBlockIndexType: ashlar.DataBlockBinaryAndHash, DataBlockHashTableUtilRatio: 0.5,
				CacheIndexAndFilterBlocks: true, PinL0FilterAndIndexBlocksInCache: true},
		},
		MaxBackgroundJobs: 5, MaxOpenFiles: 100, MaxTotalWALSize: 7, WALDir: "w", NoConcurrentMemtableWrite: true,
		ManualWALFlush: true, EnablePipelinedWrite: true, WALMapped: ashlar.MappedWALOn,
		DelayedWriteRate: 8,
	}, o)
}

func TestHeaderTellsDefaultsThatAreNotDbBenchs(t *testing.T) {
	c := newConfig()
	require.Len(t, c.differences(), 5)
	require.NoError(t, c.flags.parse([]string{"--format_version=7", "--checksum_type=4", "--level_compaction_dynamic_level_bytes=0",
		"--enable_pipelined_write", "--cache_type=lru_cache"}))
	require.Equal(t, []string{
		"cache_type is accepted and changes nothing: there is one cache",
	}, c.differences())
}

func FuzzCommandLine(f *testing.F) {
	for _, s := range []string{"--num=5 --sync", "-num 5", "--nosync", "--", "--x=", "---", "--db a --help", "--no", "--num=0x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		c := newConfig()
		if c.flags.parse(strings.Split(line, " ")) == nil && c.validate() == nil {
			require.NoError(t, c.options().Validate())
		}
	})
}
