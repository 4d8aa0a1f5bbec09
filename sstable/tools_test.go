package sstable

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
