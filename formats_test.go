package ashlar

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/vfs"
)

// What has to hold in every form that a table can have.

// tableFormats are the forms that tables are written in: each kind of index, of data blocks and of filters.
func tableFormats() map[string]func(*Options) {
	inBlocks := func(set func(*Options)) func(*Options) {
		return func(o *Options) {
			o.Table.IndexType, o.Table.PartitionFilters, o.Table.MetadataBlockSize = TwoLevelIndexSearch, true, 100
			set(o)
		}
	}
	filtered := func(p filter.Policy) func(*Options) { return func(o *Options) { o.Table.FilterPolicy = p } }
	return map[string]func(*Options){
		"plain":         func(*Options) {},
		"old":           func(o *Options) { o.Table.FormatVersion, o.Table.FilterPolicy = 2, filter.Bloom(10) },
		"new":           func(o *Options) { o.Table.FormatVersion, o.Table.FilterPolicy = 7, filter.Bloom(10) },
		"StandardBloom": filtered(filter.StandardBloom(10)),
		"Ribbon":        filtered(filter.Ribbon(10)),
		"in the cache": func(o *Options) {
			o.Table.FilterPolicy, o.Table.CacheIndexAndFilterBlocks = filter.Ribbon(10), true
		},
		"pinned": func(o *Options) {
			o.Table.FilterPolicy, o.Table.CacheIndexAndFilterBlocks, o.Table.PinL0FilterAndIndexBlocksInCache = filter.Bloom(10), true, true
		},
		"hash indexes":            func(o *Options) { o.Table.DataBlockIndexType = DataBlockBinaryAndHash },
		"short keys in the index": func(o *Options) { o.Table.IndexBlockRestartInterval = 8 },
		"two levels":              func(o *Options) { o.Table.IndexType, o.Table.MetadataBlockSize = TwoLevelIndexSearch, 100 },
		"partitions":              inBlocks(filtered(filter.Bloom(10))),
		"partitions of Ribbon":    inBlocks(filtered(filter.Ribbon(10))),
		"partitions of others":    inBlocks(filtered(filter.StandardBloom(10))),
		"partitions of prefixes":  inBlocks(func(o *Options) { o.Table.FilterPolicy, o.PrefixExtractor = filter.Bloom(10), FixedPrefixTransform(3) }),
		"prefixes and nothing else": func(o *Options) {
			o.Table.FilterPolicy, o.PrefixExtractor, o.Table.NoWholeKeyFiltering = filter.Ribbon(10), FixedPrefixTransform(3), true
		},
	}
}

// formatted opens a database of one of the forms.
func formatted(t *testing.T, fs vfs.FS, set func(*Options)) *DB {
	t.Helper()
	o := &Options{FS: fs, MaxOpenFiles: 1000}
	o.WriteBufferSize, o.DisableAutoCompactions, o.Table.BlockSize = 128<<10, true, 300
	set(o)
	db, err := Open("db", o)
	require.NoError(t, err)
	return db
}

// copyOfRocksDBs opens a copy of a golden database, with the options that were its own.
func copyOfRocksDBs(t *testing.T, name string) (*DB, pairs) {
	t.Helper()
	from := filepath.Join("testdata", "rocksdb", name)
	dir := filepath.Join(t.TempDir(), "db")
	copyDir(t, filepath.Join(from, "db"), dir)
	o, err := LoadOptions(dir)
	if err != nil {
		o = nil // it has none
	}
	return mustOpen(t, dir, o), readExpected(t, filepath.Join(from, "expected.txt"))[DefaultColumnFamilyName]
}
