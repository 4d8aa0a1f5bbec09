package sstable

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/checksum"
	"github.com/ashlardb/ashlar/internal/compress"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/vfs"
)

// sstDump runs RocksDB's tool on a table. ok is false, outside CI, when the tool is not there.
func sstDump(t *testing.T, file string, args ...string) (out string, ok bool) {
	tool, err := exec.LookPath("sst_dump")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("sst_dump is missing: install rocksdb-tools")
		}
		t.Log("sst_dump is not installed: RocksDB's opinion of our tables was not asked")
		return "", false
	}
	// Its exit code is 0 either way, and the tool writes files beside itself only for --command=raw.
	b, _ := exec.Command(tool, append([]string{"--file=" + file}, args...)...).CombinedOutput()
	return string(b), true
}

func TestRocksDBAcceptsOurTables(t *testing.T) {
	dir := t.TempDir()
	round := uint64(100)
	for version := 2; version <= 5; version++ {
		for _, sum := range []checksum.Type{checksum.None, checksum.CRC32C, checksum.XXHash, checksum.XXHash64, checksum.XXH3} {
			round++
			// Its build cannot write them all, but reads them.
			pack := []compress.Type{compress.None, compress.Snappy, compress.Zlib, compress.LZ4, compress.ZSTD, compress.LZ4HC}[round%6]
			rng := rand.New(rand.NewPCG(round, 1))
			tw := some(rng, kv.Bytewise, 300)
			file := filepath.Join(dir, fmt.Sprintf("%06d.sst", round))
			tw.write(t, vfs.OS, file, WriterOptions{
				FormatVersion: version, Checksum: sum, Compression: pack, Filter: filter.Bloom(10),
				BlockSize: []int{0, 200}[round%2], IndexBlockRestartInterval: []int{1, 8}[round%2],
			})
			out, ok := sstDump(t, file, "--command=verify", "--verify_checksum")
			if !ok {
				return
			}
			require.Contains(t, out, "The file is ok", "version %d, %v, %v", version, sum, pack)
			out, _ = sstDump(t, file, "--command=scan", "--output_hex")
			var want strings.Builder
			for _, e := range tw.entries {
				fmt.Fprintf(&want, "'%X' seq:%d, type:%d => %X\n", e.Key.User, e.Key.Seq(), e.Key.Kind(), e.Value)
			}
			require.Contains(t, out, want.String())
		}
	}
}

func TestRocksDBShowsOurProperties(t *testing.T) {
	tw := some(rand.New(rand.NewPCG(1, 1)), kv.Bytewise, 500)
	file := filepath.Join(t.TempDir(), "000012.sst")
	m := tw.write(t, vfs.OS, file, WriterOptions{
		Filter: filter.Bloom(10), FamilyID: 3, FamilyName: "cats", MergeOperator: "UInt64AddOperator", DBID: "6d7fd118-8ac3-47a3-bb6d-727696b8f50f",
		SessionID: "ABCDEFGH123456789XYZ", FileNumber: 10, CreationTime: 1700000000, OldestKeyTime: 1600000000, FileCreationTime: 1700000001,
	})
	require.NotZero(t, m.UniqueID)
	operands := 0
	for _, e := range tw.entries {
		if e.Key.Kind() == kv.KindMerge {
			operands++
		}
	}
	require.NotZero(t, operands)
	out, ok := sstDump(t, file, "--command=check", "--show_properties")
	if !ok {
		return
	}
	shown := map[string]string{}
	for _, f := range regexp.MustCompile(`(?m)^  ([^:\n]*): (.*)$`).FindAllStringSubmatch(out, -1) {
		shown[f[1]] = f[2]
	}
	r := open(t, vfs.OS, file, ReaderOptions{})
	defer r.Close()
	p := r.Properties()
	for name, want := range map[string]any{
		"# entries":                    len(tw.entries),
		"# deletions":                  m.Deletes,
		"# data blocks":                p.DataBlocks,
		"# entries for filter":         p.FilterEntries,
		"raw key size":                 m.RawKeySize,
		"raw value size":               m.RawValueSize,
		"data block size":              p.DataSize,
		"filter block size":            p.FilterSize,
		"filter policy name":           "bloomfilter",
		"column family ID":             3,
		"column family name":           "cats",
		"comparator name":              "leveldb.BytewiseComparator",
		"SST file compression algo":    "Snappy",
		"creation time":                1700000000,
		"time stamp of earliest key":   1600000000,
		"file creation time":           1700000001,
		"DB identity":                  "6d7fd118-8ac3-47a3-bb6d-727696b8f50f",
		"DB session identity":          "ABCDEFGH123456789XYZ",
		"original file number":         10,
		"merge operator name":          "UInt64AddOperator",
		"# range deletions":            0,
		"# merge operands":             operands,
		"SST file compression options": "window_bits=-14; level=32767; strategy=0; max_dict_bytes=0; zstd_max_train_bytes=0; enabled=0; max_dict_buffer_bytes=0; use_zstd_dict_trainer=1; ",
	} {
		require.Equal(t, fmt.Sprint(want), shown[name], name)
	}
	require.Contains(t, out, fmt.Sprintf("index block size (user-key? %d, delta-value? 1): %d", map[bool]int{true: 1}[p.IndexKeyIsUserKey], p.IndexSize))
}

// Every kind of filter and index, before RocksDB's tool: it verifies the table, sees all entries, and names what is in it.
func TestRocksDBReadsEveryKindOfFilterAndIndex(t *testing.T) {
	dir := t.TempDir()
	tw := some(rand.New(rand.NewPCG(77, 1)), kv.Bytewise, 800)
	var want strings.Builder
	for _, e := range tw.entries {
		fmt.Fprintf(&want, "'%X' seq:%d, type:%d => %X\n", e.Key.User, e.Key.Seq(), e.Key.Kind(), e.Value)
	}
	kinds := filterKinds()
	kinds["no filter, two levels"] = WriterOptions{TwoLevelIndex: true, MetadataBlockSize: 300, IndexBlockRestartInterval: 4}
	kinds["no filter, hash indexes"] = WriterOptions{HashUtilRatio: 0.75}
	num := 0
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		o := kinds[name]
		for _, bottom := range []bool{false, true} {
			num++
			file := filepath.Join(dir, fmt.Sprintf("%06d.sst", num))
			o.FormatVersion, o.BlockSize = 2+num/2%4, 300
			o.OptimizeFiltersForHits, o.Bottommost = true, bottom
			if num%3 == 0 {
				o.HashUtilRatio = 0.5
			}
			tw.write(t, vfs.OS, file, o)
			out, ok := sstDump(t, file, "--command=verify", "--verify_checksum")
			if !ok {
				return
			}
			require.Contains(t, out, "The file is ok", name)
			if bottom {
				out, _ = sstDump(t, file, "--command=none", "--show_properties")
			} else {
				out, _ = sstDump(t, file, "--command=scan", "--output_hex", "--show_properties")
				require.Contains(t, out, want.String(), name)
			}
			r := open(t, vfs.OS, file, ReaderOptions{})
			p := *r.Properties()
			r.Close()
			shown := func(name string, value any) {
				require.Contains(t, out, fmt.Sprintf("%s: %v\n", name, value))
			}
			shown("filter block size", p.FilterSize)
			shown("# entries for filter", p.FilterEntries)
			policy := "N/A"
			if o.Filter != nil && !bottom {
				policy = map[bool]string{true: "bloomfilter", false: o.Filter.Name()}[o.Filter.Name() == "rocksdb.BuiltinBloomFilter"]
				if strings.HasPrefix(name, "Ribbon") {
					policy = "ribbonfilter"
				}
				require.NotZero(t, p.FilterSize)
			} else {
				require.Zero(t, p.FilterSize)
			}
			shown("filter policy name", policy)
			extractor := "nullptr"
			if o.PrefixExtractor != nil {
				extractor = "rocksdb.FixedPrefix.6"
			}
			shown("prefix extractor name", extractor)
			digit := map[bool]string{true: "0x31", false: "0x30"}
			shown("# rocksdb.block.based.table.whole.key.filtering", digit[!o.NoWholeKeyFiltering])
			shown("# rocksdb.block.based.table.prefix.filtering", digit[o.PrefixExtractor != nil])
			if o.TwoLevelIndex {
				require.Greater(t, p.IndexPartitions, uint64(2))
				shown("# index partitions", p.IndexPartitions)
				shown("top-level index size", p.TopLevelIndexSize)
			}
		}
	}
}
