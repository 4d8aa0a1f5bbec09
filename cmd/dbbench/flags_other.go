package main

import (
	"iter"
	"strings"
)

// The flags of db_bench that have no variable here.

// flagGroup has flags for which the same is true, each with its kind and its default: "bool readonly=false, …".
type flagGroup struct{ why, flags string }

// accepted are those that cannot change anything here.
var accepted = []flagGroup{
	{"the cache chooses its shards",
		"int cache_numshardbits=-1"},
	{"how a writer waits is up to the engine",
		"bool enable_write_thread_adaptive_yield=true, uint write_thread_max_yield_usec=100, " +
			"uint write_thread_slow_yield_usec=3"},
	{"there is one MultiGet",
		"bool multiread_batched=false"},
	{"mixgraph does as many operations as reads say",
		"int mix_accesses=-1"},
	{"of backup and restore, which are not built",
		"string backup_dir=, uint backup_rate_limit=0, string restore_dir=, uint restore_rate_limit=0"},
	{"of replay, which is not built",
		"float trace_replay_fast_forward=1, int trace_replay_threads=1"},
	{"tables hold the top levels of partitioned indexes and filters",
		"bool pin_top_level_index_and_filter=false"},
}

func (c *config) defineAccepted() {
	for _, g := range accepted {
		for f := range g.all() {
			c.flags.accept(f.kind, f.name, f.def, g.why)
		}
	}
}

// refused are those of which there is only the default.
var refused = []flagGroup{
	{"each compression has one level",
		"string compression_level=default"},
	{"there is no perf context",
		"string perf_level=kDisable"},
	{"keys are drawn, not read",
		"bool use_existing_keys=false"},
	{"databases are opened for writing, by one process",
		"bool readonly=false, bool use_secondary_db=false, string secondary_path=, " +
			"int secondary_update_interval=5"},
	{"a key is in the family of its number",
		"string column_family_distribution="},
	{"there is one database",
		"int num_multi_db=0"},
	{"there are no tailing iterators",
		"bool use_tailing_iterator=false"},
	{"reads choose how far they read ahead",
		"int readahead_size=0, bool adaptive_readahead=false, bool async_io=false, " +
			"uint initial_auto_readahead_size=8192, uint max_auto_readahead_size=262144, " +
			"uint num_file_reads_for_auto_readahead=2, int log_readahead_size=0, int compaction_readahead_size=0, " +
			"bool optimize_multiget_for_io=true, bool io_uring_enabled=true"},
	{"values are in the tables; there are no blob files",
		"int blob_cache_numshardbits=6, uint blob_cache_size=8388608, uint blob_compaction_readahead_size=0, " +
			"string blob_compression_type=none, uint blob_db_bytes_per_sync=524288, " +
			"string blob_db_compression_type=snappy, bool blob_db_enable_gc=false, " +
			"uint blob_db_file_size=268435456, float blob_db_gc_cutoff=0.25, bool blob_db_is_fifo=false, " +
			"uint blob_db_max_db_size=0, uint blob_db_max_ttl_range=0, uint blob_db_min_blob_size=0, " +
			"uint blob_db_ttl_range_secs=3600, uint blob_file_size=268435456, int blob_file_starting_level=0, " +
			"float blob_garbage_collection_age_cutoff=0.25, float blob_garbage_collection_force_threshold=1, " +
			"bool charge_blob_cache=false, bool enable_blob_files=false, " +
			"bool enable_blob_garbage_collection=false, uint min_blob_size=0, int prepopulate_blob_cache=0, " +
			"bool use_blob_cache=false, bool use_blob_db=false, bool use_shared_block_and_blob_cache=true"},
	{"there is one cache of blocks, in memory",
		"float cache_low_pri_pool_ratio=0, " +
			"bool charge_compression_dictionary_building_buffer=false, bool charge_file_metadata=false, " +
			"bool charge_filter_construction=false, bool charge_table_reader=false, int compressed_cache_size=-1, " +
			"string compressed_secondary_cache_compression_type=lz4, " +
			"float compressed_secondary_cache_high_pri_pool_ratio=0, " +
			"float compressed_secondary_cache_low_pri_pool_ratio=0, " +
			"int compressed_secondary_cache_numshardbits=6, int compressed_secondary_cache_size=8388608, " +
			"bool cost_write_buffer_to_cache=false, int prepopulate_block_cache=0, " +
			"bool read_cache_direct_read=true, bool read_cache_direct_write=true, string read_cache_path=, " +
			"int read_cache_size=4294967296, int row_cache_size=0, string secondary_cache_uri=, " +
			"int simcache_size=-1, bool use_cache_jemalloc_no_dump_allocator=false, " +
			"bool use_cache_memkind_kmem_allocator=false, bool use_compressed_secondary_cache=false"},
	{"nothing is traced",
		"string block_cache_trace_file=, int block_cache_trace_max_trace_file_size_in_bytes=68719476736, " +
			"int block_cache_trace_sampling_frequency=1, bool report_file_operations=false, string trace_file="},
	{"a memtable is flushed when it is full, and then goes",
		"int min_write_buffer_number_to_merge=1, float experimental_mempurge_threshold=0"},
	{"memtables that are kept are counted in bytes",
		"int max_write_buffer_number_to_maintain=0"},
	{"iterators use prefixes where that cannot be seen",
		"bool auto_prefix_mode=false, bool seek_missing_prefix=false"},
	{"indexes have no hash, and their keys are as short as can be",
		"bool use_hash_search=false, bool index_with_first_key=false, int index_shortening_mode=2"},
	{"memtables are bounded by family",
		"int db_write_buffer_size=0"},
	{"memtables are skip lists of one kind",
		"string memtablerep=skip_list, int hash_bucket_count=1048576, int skip_list_lookahead=0, " +
			"int memtable_insert_with_hint_prefix_size=0, bool memtable_use_huge_page=false, " +
			"int arena_block_size=0, bool inplace_update_support=false, uint inplace_update_num_locks=10000, " +
			"int bloom_locality=0"},
	{"tables are block-based",
		"bool use_plain_table=false, bool use_cuckoo_table=false, " +
			"float cuckoo_hash_ratio=0.90000000000000002, bool identity_as_first_hash=false, " +
			"bool enable_index_compression=true, bool block_align=false, " +
			"int read_amp_bytes_per_bit=0, bool optimize_filters_for_memory=false"},
	{"a compaction is not split, and all run at one priority",
		"uint subcompactions=1, int num_bottom_pri_threads=0, int num_high_pri_threads=0, " +
			"int num_low_pri_threads=0, bool enable_cpu_prio=false, bool enable_io_prio=false, " +
			"bool enable_numa=false"},
	{"flushes and compactions share max_background_jobs",
		"int max_background_compactions=-1, int max_background_flushes=-1"},
	{"compactions are leveled",
		"int compaction_style=0, uint fifo_age_for_warm=0, bool fifo_compaction_allow_compaction=true, " +
			"uint fifo_compaction_max_table_files_size_mb=0, uint fifo_compaction_ttl=0, " +
			"bool universal_allow_trivial_move=false, int universal_compression_size_percent=-1, " +
			"bool universal_incremental=false, int universal_max_merge_width=0, " +
			"int universal_max_size_amplification_percent=0, int universal_min_merge_width=0, " +
			"int universal_size_ratio=0"},
	{"compactions take the file with the least overlap",
		"int compaction_pri=3, string max_bytes_for_level_multiplier_additional=, " +
			"int disable_seek_compaction=0"},
	{"nothing expires, and compactions drop what is deleted only",
		"uint ttl_seconds=18446744073709551614, uint periodic_compaction_seconds=18446744073709551614, " +
			"bool use_keep_filter=false, int preclude_last_level_data_seconds=0, " +
			"int preserve_internal_time_seconds=0"},
	{"writes are ordered",
		"bool unordered_write=false"},
	{"the log is flushed when it is full, or by hand",
		"bool rate_limit_auto_wal_flush=false"},
	{"logs are not compressed, and go when their memtables are flushed",
		"string wal_compression=none, uint wal_ttl_seconds=0, uint wal_size_limit_MB=0, " +
			"bool track_and_verify_wals_in_manifest=false"},
	{"what is not flushed when the database is opened is kept in memtables",
		"bool avoid_flush_during_recovery=false"},
	{"the engine does not smooth its writing",
		"uint bytes_per_sync=0, uint wal_bytes_per_sync=0"},
	{"background work has no limit",
		"bool rate_limit_bg_reads=false, bool rate_limit_user_ops=false, bool rate_limiter_auto_tuned=false, " +
			"uint rate_limiter_bytes_per_sec=0, int rate_limiter_refill_period_us=100000"},
	{"rates do not change",
		"bool sine_mix_rate=false, uint sine_mix_rate_interval_milliseconds=10000, float sine_mix_rate_noise=0, " +
			"float sine_a=1, float sine_b=1, float sine_c=0, float sine_d=1, bool sine_write_rate=false, " +
			"uint sine_write_rate_interval_milliseconds=10000"},
	{"fills write each key anew",
		"uint disposable_entries_batch_size=0, uint disposable_entries_delete_delay=0, " +
			"int disposable_entries_value_size=64, float overwrite_probability=0, uint overwrite_window_size=1, " +
			"uint persistent_entries_batch_size=0, int persistent_entries_value_size=64"},
	{"what is to be checked is always checked",
		"bool verify_checksum=true, bool paranoid_checks=true, bool force_consistency_checks=true, " +
			"bool check_flush_compaction_key_order=true"},
	{"entries have no checksums of their own, and tables none of the whole file",
		"uint memtable_protection_bytes_per_key=0, uint write_batch_protection_bytes_per_key=0, " +
			"bool file_checksum=false"},
	{"a compression has no dictionary and no settings",
		"uint compression_max_dict_buffer_bytes=0, int compression_max_dict_bytes=0, " +
			"int compression_parallel_threads=1, bool compression_use_zstd_dict_trainer=true, " +
			"int compression_zstd_max_train_bytes=0, int sample_for_compression=0"},
	{"files are the operating system's, read and written through the page cache",
		"bool advise_random_on_open=true, string compaction_fadvice=NORMAL, string env_uri=, " +
			"int file_opening_threads=16, string fs_uri=, bool mmap_read=false, bool mmap_write=false, " +
			"int random_access_max_buffer_size=1048576, bool simulate_hdd=false, string simulate_hybrid_fs_file=, " +
			"int simulate_hybrid_hdd_multipliers=1, bool use_direct_io_for_flush_and_compaction=false, " +
			"bool use_direct_reads=false, bool use_fsync=false, int writable_file_max_buffer_size=1048576"},
	{"keys have no timestamps, and are in bytewise order",
		"int user_timestamp_size=0, bool read_with_latest_user_timestamp=true, " +
			"bool use_uint64_comparator=false"},
	{"options come from flags",
		"string options_file="},
	{"statistics are printed at the end, and the log has its own",
		"bool build_info=false, bool dump_malloc_stats=true, bool persist_stats_to_disk=false, " +
			"bool print_malloc_stats=false, bool report_bg_io_stats=false, bool report_open_timing=false, " +
			"bool show_table_properties=false, string statistics_string=, uint stats_dump_period_sec=600, " +
			"uint stats_history_buffer_size=1048576, uint stats_persist_period_sec=600, " +
			"int thread_status_per_interval=0, bool use_stderr_info_logger=false"},
	{"there is one way to do it",
		"bool allow_data_in_errors=false, uint delete_obsolete_files_period_micros=0, " +
			"int table_cache_numshardbits=4, bool use_adaptive_mutex=false"},
}

func (c *config) defineRefused() {
	c.flags.refuseAll(refused)
	c.flags.byName["compression_level"].also("32767")
	c.flags.byName["perf_level"].also("1")
}

func (s *flagSet) refuseAll(groups []flagGroup) {
	for _, g := range groups {
		for f := range g.all() {
			s.refuse(f.kind, f.name, f.def, g.why)
		}
	}
}

// all yields the flags of a group: kind, name and default.
func (g *flagGroup) all() iter.Seq[flagDef] {
	return func(yield func(flagDef) bool) {
		for item := range strings.SplitSeq(g.flags, ", ") {
			kind, flag, _ := strings.Cut(item, " ")
			name, def, _ := strings.Cut(flag, "=")
			if !yield(flagDef{kind: flagKinds[kind], name: name, def: def}) {
				return
			}
		}
	}
}

var flagKinds = map[string]flagKind{"bool": boolFlag, "int": intFlag, "uint": uintFlag, "float": floatFlag, "string": stringFlag}
