package main

// tableRefused are the flags for options of tables, filters and memtables that are not there: prefix extractor, bloom
// filter of memtables, index and filter blocks in the cache, partitions, index types, memtables that are kept. A flag
// leaves the list for flags_tree.go once the options have its field.
var tableRefused = []flagGroup{
	{"there is no prefix extractor",
		"bool prefix_same_as_start=false, bool auto_prefix_mode=false, bool seek_missing_prefix=false, " +
			"bool whole_key_filtering=true, float memtable_bloom_size_ratio=0, " +
			"bool memtable_whole_key_filtering=false"},
	{"tables have one index and one filter, which stay in memory",
		"bool cache_index_and_filter_blocks=false, bool pin_l0_filter_and_index_blocks_in_cache=false, " +
			"bool pin_top_level_index_and_filter=false, bool partition_index=false, " +
			"bool partition_index_and_filters=false, int metadata_block_size=4096, bool use_hash_search=false, " +
			"bool index_with_first_key=false, int index_shortening_mode=2"},
	{"data blocks have no hash index",
		"bool use_data_block_hash_index=false, " +
			"float data_block_hash_table_util_ratio=0.75"},
	{"Ribbon filters are read, not written",
		"bool use_ribbon_filter=false"},
	{"memtables go when they are flushed",
		"int max_write_buffer_number_to_maintain=0, int max_write_buffer_size_to_maintain=0"},
}

func (c *config) defineTableRefused() { c.flags.refuseAll(tableRefused) }
