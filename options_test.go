package ashlar

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/compress"
	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/vfs"
)

// unstored are the options that an OPTIONS file does not hold: RocksDB has no name for them, they belong to one process,
// or to one place on the disk.
var unstored = map[string]bool{
	"ColumnFamilies": true, "ErrorIfMissing": true, "ErrorIfExists": true, "WALDir": true, "BlockCache": true, "FS": true,
	"Logger": true, "Statistics": true, "Listener": true, "TrackHandles": true, "WALMapped": true,
}

// legal are values for every other option. A number stands for both ends and something between.
var legal = map[string][]any{
	"MaxBackgroundJobs": {1, 2, 64}, "MaxOpenFiles": {-1, 1, 100000}, "MaxTotalWALSize": {uint64(1), uint64(1 << 40), uint64(NoLimit)},
	"WALRecoveryMode":           {TolerateCorruptedTailRecords, AbsoluteConsistency, PointInTimeRecovery, SkipAnyCorruptedRecords},
	"ManualWALFlush":            {true, false},
	"EnablePipelinedWrite":      {true, false},
	"NoConcurrentMemtableWrite": {true, false}, "MaxWriteBatchGroupSize": {uint64(1), uint64(NoLimit)},
	"DelayedWriteRate": {uint64(1), uint64(16 << 30)},

	"Comparator":      {BytewiseComparator, ReverseBytewiseComparator},
	"MergeOperator":   {MergeOperator(nil), UInt64AddOperator, MaxOperator, PutOperator, StringAppendOperator(","), StringAppendOperator(":#")},
	"WriteBufferSize": {uint64(64 << 10), uint64(1 << 20), uint64(1 << 30)}, "MaxWriteBufferNumber": {2, 3, 100},
	"MaxWriteBufferSizeToMaintain": {int64(-1), int64(0), int64(1 << 40)}, "MaxSuccessiveMerges": {1, 1000},
	"MemtableMaxRangeDeletions": {1, 1000},
	"NumLevels":                 {2, 3, 4, 5, 6, 7}, "Level0FileNumCompactionTrigger": {1, 5, 20}, "Level0SlowdownWritesTrigger": {4, 30},
	"Level0StopWritesTrigger": {20, math.MaxInt32}, "TargetFileSizeBase": {uint64(1), uint64(NoLimit)},
	"TargetFileSizeMultiplier": {1, 2, 10}, "MaxBytesForLevelBase": {uint64(1), uint64(1 << 40)},
	"MaxBytesForLevelMultiplier": {1.5, 2.0, 10.0, 1.0000001, 1e9}, "MaxCompactionBytes": {uint64(1), uint64(NoLimit)},
	"SoftPendingCompactionBytesLimit": {uint64(1), uint64(256 << 30)}, "HardPendingCompactionBytesLimit": {uint64(64 << 30), uint64(NoLimit)},
	"DisableAutoCompactions": {true, false}, "NoDynamicLevelBytes": {true, false}, "OptimizeFiltersForHits": {true, false},
	"Compression": compressions(NoCompression), "BottommostCompression": compressions(DefaultCompression),
	"CompressionPerLevel": {[]Compression(nil), []Compression{NoCompression, ZSTDCompression}, []Compression{DefaultCompression}},

	"PrefixExtractor":              {SliceTransform(nil), FixedPrefixTransform(8), CappedPrefixTransform(3), NoopTransform},
	"MemtablePrefixBloomSizeRatio": {0.0, 0.1, 0.25}, "MemtableWholeKeyFiltering": {true, false},

	"FilterPolicy":        {filter.Policy(nil), filter.Bloom(10), filter.Bloom(9.9), filter.Bloom(0.5), filter.Ribbon(10), filter.Ribbon(9.9)},
	"NoWholeKeyFiltering": {true, false}, "PartitionFilters": {true, false}, "IndexType": {BinarySearch, TwoLevelIndexSearch},
	"MetadataBlockSize": {1, 4096, 1 << 20}, "IndexBlockRestartInterval": {1, 16, 1000},
	"DataBlockIndexType": {DataBlockBinarySearch, DataBlockBinaryAndHash}, "DataBlockHashTableUtilRatio": {0.01, 0.75, 1.0},
	"BlockSize": {1, 4096, 1 << 20}, "BlockRestartInterval": {1, 16, 1000}, "FormatVersion": {2, 3, 4, 5, 6, 7},
	"CacheIndexAndFilterBlocks": {true, false}, "CacheIndexAndFilterBlocksWithoutPriority": {true, false},
	"PinL0FilterAndIndexBlocksInCache": {true, false},
	"Checksum":                         {NoChecksum, CRC32cChecksum, XXHashChecksum, XXHash64, XXH3},
}

func compressions(first Compression) (all []any) {
	for c := first; c < compress.BZip2; c++ {
		if c != DefaultCompression || first == DefaultCompression {
			all = append(all, c)
		}
	}
	return all
}

// fields calls f with each option that users see, those of families and tables included.
func fields(v reflect.Value, f func(name string, field reflect.Value)) {
	for i := range v.NumField() {
		if !v.Type().Field(i).IsExported() {
			continue // for dbbench
		}
		switch field := v.Field(i); field.Type() {
		case reflect.TypeFor[ColumnFamilyOptions](), reflect.TypeFor[TableOptions]():
			fields(field, f)
		default:
			f(v.Type().Field(i).Name, field)
		}
	}
}

func optionOf(o *Options, name string) (found reflect.Value) {
	fields(reflect.ValueOf(o).Elem(), func(n string, field reflect.Value) {
		if n == name {
			found = field
		}
	})
	return found
}

// Every option is set to every legal value, used, written to an OPTIONS file and read back.
func TestEveryOptionComesBack(t *testing.T) {
	fields(reflect.ValueOf(Options{}), func(name string, _ reflect.Value) {
		if unstored[name] {
			return
		}
		require.NotEmpty(t, legal[name], "a new option: say which values %s may have", name)
		for _, value := range legal[name] {
			o := &Options{FS: vfs.NewMem()}
			want := optionOf(o, name)
			if value == nil {
				value = reflect.Zero(want.Type()).Interface()
			} else {
				want.Set(reflect.ValueOf(value))
			}
			require.NoError(t, o.Validate(), "%s = %v", name, value)
			db, err := Open("db", o)
			require.NoError(t, err, "%s = %v", name, value)
			mustPut(t, db.DefaultColumnFamily(), "k", "v", nil)
			require.Equal(t, "v", valueOf(t, db.DefaultColumnFamily(), "k"))
			require.NoError(t, db.Close())
			loaded, err := loadOptions(o.FS, "db")
			require.NoError(t, err, "%s = %v", name, value)
			require.Equal(t, value, optionOf(loaded, name).Interface(), "%s", name)
			fields(reflect.ValueOf(db.Options()), func(n string, used reflect.Value) {
				if n == name {
					require.Equal(t, value, used.Interface(), name)
				}
			})
		}
	})
}

func TestWrongOptionsAreAllTold(t *testing.T) {
	o := &Options{ErrorIfExists: true, ErrorIfMissing: true, MaxBackgroundJobs: -1, MaxOpenFiles: -2, WALRecoveryMode: 9, WALMapped: 9}
	o.NumLevels, o.WriteBufferSize, o.MaxBytesForLevelMultiplier = 8, 1<<40, 0.5
	o.Table.FormatVersion, o.Table.BlockSize, o.Table.Checksum, o.Compression = 8, -1, 99, 99
	o.MemtablePrefixBloomSizeRatio, o.PrefixExtractor = 0.3, namelessTransform{NoopTransform}
	o.Table.IndexType, o.Table.DataBlockIndexType, o.Table.DataBlockHashTableUtilRatio = 9, 9, 2
	o.Table.MetadataBlockSize, o.Table.IndexBlockRestartInterval = -1, -1
	o.ColumnFamilies = map[string]*ColumnFamilyOptions{"x": {NumLevels: 1, Comparator: &Comparator{}}, "y": nil}
	err := o.Validate()
	require.ErrorIs(t, err, ErrInvalidArgument)
	for _, text := range []string{
		"ErrorIfExists", "MaxBackgroundJobs", "MaxOpenFiles", "WALRecoveryMode", "WALMapped", "NumLevels is 8", "WriteBufferSize",
		"MaxBytesForLevelMultiplier", "FormatVersion", "BlockSize", "Checksum", "compression",
		"MemtablePrefixBloomSizeRatio", "PrefixExtractor", "Table.IndexType", "DataBlockIndexType", "DataBlockHashTableUtilRatio",
		"MetadataBlockSize", "IndexBlockRestartInterval", `"x": NumLevels is 1`, `"x": Comparator`,
	} {
		require.ErrorContains(t, err, text)
	}
	_, opened := Open("db", o)
	require.ErrorIs(t, opened, ErrInvalidArgument)
	require.NoError(t, (*Options)(nil).Validate())
	require.NoError(t, (&Options{}).Validate())
}

type namelessTransform struct{ SliceTransform }

func (namelessTransform) Name() string { return "" }

func TestWhatOnlyRocksDBHasIsReadAsWhatIsNearest(t *testing.T) {
	o, err := parseOptions("x", []byte(`[DBOptions]
[CFOptions "default"]
  prefix_extractor=somebody.elses
[TableOptions/BlockBasedTable "default"]
  index_type=kBinarySearchWithFirstKey
  filter_policy=ribbonfilter:12.5:3
`))
	require.NoError(t, err)
	require.Nil(t, o.PrefixExtractor)
	require.Equal(t, BinarySearch, o.Table.IndexType)
	require.Equal(t, filter.Ribbon(12.5), o.Table.FilterPolicy)
}

func TestOpenKeepsToErrorIfMissingAndErrorIfExists(t *testing.T) {
	m := vfs.NewMem()
	_, err := Open("db", &Options{FS: m, ErrorIfMissing: true})
	require.ErrorIs(t, err, ErrInvalidArgument)
	require.NoError(t, must(Open("db", &Options{FS: m, ErrorIfExists: true})).Close())
	_, err = Open("db", &Options{FS: m, ErrorIfExists: true})
	require.ErrorIs(t, err, ErrInvalidArgument)
	require.NoError(t, must(Open("db", &Options{FS: m, ErrorIfMissing: true})).Close())
	_, err = Open("db", &Options{FS: m, ColumnFamilies: map[string]*ColumnFamilyOptions{"nobody": nil}})
	require.ErrorIs(t, err, ErrInvalidArgument)
	require.ErrorContains(t, err, "nobody")
}

func TestOptionsAreCopied(t *testing.T) {
	o := memOptions(vfs.NewMem())
	o.CompressionPerLevel = []Compression{NoCompression}
	db, err := Open("db", o)
	require.NoError(t, err)
	o.CompressionPerLevel[0], o.NumLevels = ZSTDCompression, 3
	require.Equal(t, NoCompression, db.Options().CompressionPerLevel[0])
	require.Equal(t, 7, db.Options().NumLevels)
	require.NoError(t, db.Close())
}

// strangeNames are names that an OPTIONS file could take for something else.
var strangeNames = []string{"x#y", `q"q`, "[z]", "ümlaut", " space ", "two\nlines", `two\nlines`, `end\`, "end\r", "a:b", "\n"}

// RocksDB's own tool finds each family by the names in our OPTIONS file, and we find them by those in its file.
func TestOptionsFilesNameFamiliesAsRocksDBDoes(t *testing.T) {
	if !needTools(t) {
		return
	}
	dir := filepath.Join(t.TempDir(), "db")
	db := mustOpen(t, dir, nil)
	for i, name := range strangeNames {
		_, err := db.CreateColumnFamily(name, &ColumnFamilyOptions{MaxWriteBufferNumber: 3 + i})
		require.NoError(t, err)
	}
	mustClose(t, db)
	for _, name := range strangeNames {
		tool(t, "ldb", "--db="+dir, "--try_load_options", "--column_family="+name, "put", "k", "v")
		require.Equal(t, "k : v\n", tool(t, "ldb", "--db="+dir, "--try_load_options", "--column_family="+name, "scan"), "%q", name)
	}
	o, err := LoadOptions(dir)
	require.NoError(t, err)
	for i, name := range strangeNames {
		require.Contains(t, o.ColumnFamilies, name)
		require.Equal(t, 3+i, o.ColumnFamilies[name].MaxWriteBufferNumber, "%q: ldb has read it, and written it", name)
	}
}

func TestOptionsFilesHoldEveryFamily(t *testing.T) {
	m := vfs.NewMem()
	db := openMem(t, m)
	names := append([]string{"a", "b c"}, strangeNames...)
	for i, name := range names {
		_, err := db.CreateColumnFamily(name, &ColumnFamilyOptions{NumLevels: 7, MaxWriteBufferNumber: 3 + i})
		require.NoError(t, err)
	}
	load := func() *Options {
		o, err := loadOptions(m, "db")
		require.NoError(t, err)
		return o
	}
	for i, name := range names {
		require.Equal(t, 3+i, load().ColumnFamilies[name].MaxWriteBufferNumber, "%q", name)
	}
	cf, _ := db.ColumnFamily("b c")
	require.NoError(t, db.DropColumnFamily(cf))
	require.NotContains(t, load().ColumnFamilies, "b c")
	require.NoError(t, db.Close())
	o := load()
	o.FS = m
	require.NoError(t, must(Open("db", o)).Close())
	atMost := 0
	list, err := m.List("db")
	require.NoError(t, err)
	for _, name := range list {
		if kind, _, ok := fname.Parse(name); ok && kind == fname.Options {
			atMost++
		}
	}
	require.LessOrEqual(t, atMost, 2)
}

func TestLoadOptionsSaysWhereAFileIsWrong(t *testing.T) {
	for _, text := range []string{
		"[CFOptions]\n", "[CFOptions x]\n", "[Version\n", "[DBOptions]\nno value\n", "[DBOptions]\nmax_open_files=many\n",
		"[DBOptions]\nmax_open_files=10X\n", "[DBOptions]\nmax_open_files=99999999T\n", "[DBOptions]\nmax_total_wal_size=-1\n", "[CFOptions \"x\"]\nnum_levels=99\n",
		"[CFOptions \"x\"]\ncompression=kNothing\n", "[TableOptions/BlockBasedTable \"x\"]\nfilter_policy=bloomfilter:many\n",
		"[CFOptions \"x\"]\nmax_bytes_for_level_multiplier=NaN\n", "[CFOptions \"x\"]\ndisable_auto_compactions=perhaps\n",
	} {
		_, err := parseOptions("OPTIONS-000007", []byte(text))
		require.ErrorIs(t, err, ErrCorruption, "%q", text)
		e, ok := errors.AsType[*CorruptionError](err)
		require.True(t, ok)
		require.Equal(t, "OPTIONS-000007", e.File)
	}
	_, err := LoadOptions(t.TempDir())
	require.ErrorIs(t, err, fs.ErrNotExist)
	o, err := parseOptions("x", []byte("# nothing\n\n[Version]\n rocksdb_version=9.9.9 # newer\n[Unknown \"x\"]\n a=b\n[DBOptions]\n what_is_this={a=1;b=2}\n max_open_files = 12 # ok\n"))
	require.NoError(t, err)
	require.Equal(t, 12, o.MaxOpenFiles)
}
