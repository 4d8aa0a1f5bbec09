package main

import (
	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/filter"
)

// tableFlags are what filters, indexes and prefixes are made of, where blocks of them lie, and what reads make of them.
type tableFlags struct {
	bloomBits, memtableBloom, hashRatio, highPriority       float64
	ribbon, forHits, wholeKeys, memtableWholeKeys           bool
	partitionIndex, partitionAll, hashIndex, cacheMeta, pin bool
	prefixSize, metadataBlock, indexRestart                 int64
	prefixSame, totalOrder                                  bool
}

// defineTables defines the flags about filters, indexes and prefixes.
func (c *config) defineTables() {
	f, t := &c.flags, &c.tables
	f.Float(&t.bloomBits, "bloom_bits", -1, "bits per key of the filter; 0 and less: none")
	f.Bool(&t.ribbon, "use_ribbon_filter", false, "filters are Ribbon, not Bloom")
	f.Bool(&t.forHits, "optimize_filters_for_hits", false, "no filters in the last level")
	f.Bool(&t.wholeKeys, "whole_key_filtering", true, "filters have whole keys, besides prefixes")
	f.Float(&t.memtableBloom, "memtable_bloom_size_ratio", 0, "part of a memtable's size that its filter has, at most 0.25; 0: none").
		want(func(v any) string {
			if r := v.(float64); !(r >= 0 && r <= 0.25) {
				return "want 0 to 0.25"
			}
			return ""
		})
	f.Bool(&t.memtableWholeKeys, "memtable_whole_key_filtering", false, "memtables' filters have whole keys, besides prefixes")
	f.Int(&t.prefixSize, "prefix_size", 0, "bytes of a key's prefix: where keys have one (keys_per_prefix), and for filters of prefixes").
		want(atLeast[int64](0))
	f.Bool(&t.prefixSame, "prefix_same_as_start", false, "iterators keep to the prefix that they sought")
	f.Bool(&t.totalOrder, "total_order_seek", false, "iterators do not mind prefixes")
	f.Bool(&t.partitionIndex, "partition_index", false, "indexes are in partitions, with an index of them")
	f.Bool(&t.partitionAll, "partition_index_and_filters", false, "indexes and filters are in partitions")
	f.Int(&t.metadataBlock, "metadata_block_size", 4096, "bytes of a partition").want(atLeast[int64](1))
	f.Int(&t.indexRestart, "index_block_restart_interval", 1, "keys between full keys in an index").want(atLeast[int64](1))
	f.Bool(&t.hashIndex, "use_data_block_hash_index", false, "data blocks have a hash index")
	f.Float(&t.hashRatio, "data_block_hash_table_util_ratio", 0.75, "keys in a bucket of it").want(func(v any) string {
		if r := v.(float64); !(r > 0 && r <= 1) {
			return "want more than 0, and 1 at most"
		}
		return ""
	})
	f.Bool(&t.cacheMeta, "cache_index_and_filter_blocks", false, "indexes and filters are in the block cache, not held by tables")
	f.Bool(&t.pin, "pin_l0_filter_and_index_blocks_in_cache", false, "those of level 0 stay there")
	f.Float(&t.highPriority, "cache_high_pri_pool_ratio", 0, "part of the cache that is kept for them").want(func(v any) string {
		if r := v.(float64); !(r >= 0 && r <= 1) {
			return "want 0 to 1"
		}
		return ""
	})
}

// apply sets the options that the flags are about.
func (t *tableFlags) apply(o *ashlar.ColumnFamilyOptions) {
	o.OptimizeFiltersForHits = t.forHits
	o.MemtablePrefixBloomSizeRatio, o.MemtableWholeKeyFiltering = t.memtableBloom, t.memtableWholeKeys
	if t.prefixSize > 0 {
		o.PrefixExtractor = ashlar.FixedPrefixTransform(int(t.prefixSize))
	}
	b := &o.Table
	switch {
	case t.bloomBits > 0 && t.ribbon:
		b.FilterPolicy = filter.Ribbon(t.bloomBits)
	case t.bloomBits > 0:
		b.FilterPolicy = filter.Bloom(t.bloomBits)
	}
	b.NoWholeKeyFiltering = !t.wholeKeys
	if t.partitionIndex || t.partitionAll {
		b.IndexType = ashlar.TwoLevelIndexSearch
	}
	b.PartitionFilters = t.partitionAll
	b.MetadataBlockSize, b.IndexBlockRestartInterval = int(t.metadataBlock), int(t.indexRestart)
	if t.hashIndex {
		b.DataBlockIndexType = ashlar.DataBlockBinaryAndHash
	}
	b.DataBlockHashTableUtilRatio = t.hashRatio
	b.CacheIndexAndFilterBlocks, b.PinL0FilterAndIndexBlocksInCache = t.cacheMeta, t.pin
}

// readOptions are those of iterators.
func (t *tableFlags) readOptions() *ashlar.ReadOptions {
	return &ashlar.ReadOptions{PrefixSameAsStart: t.prefixSame, TotalOrderSeek: t.totalOrder}
}

// newCache makes the block cache.
func (c *config) newCache() *ashlar.Cache {
	return ashlar.NewCacheWithOptions(ashlar.CacheOptions{Capacity: c.cacheSize, HighPriorityPoolRatio: c.tables.highPriority})
}
