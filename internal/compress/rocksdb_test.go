package compress

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/checksum"
)

const rocksdb = "../../testdata/rocksdb/"

// table is a table file of RocksDB, taken apart without an index: a block ends where its checksum says so.
type table struct {
	version int
	blocks  []storedBlock
	dict    []byte
}

type storedBlock struct {
	typ  byte
	data []byte
}

func readTable(t *testing.T, path string) (out table) {
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	sum, footer := checksum.CRC32C, 48
	if binary.LittleEndian.Uint64(file[len(file)-8:]) == 0x88e241b785f4cff7 {
		footer = 53
		out.version = int(binary.LittleEndian.Uint32(file[len(file)-12:]))
		var ok bool
		sum, ok = checksum.FromDisk(file[len(file)-footer])
		require.True(t, ok)
	}
	body := file[:len(file)-footer]
	for len(body) > 0 {
		n := 0
		for checksum.Block(sum, body[:n], body[n]) != binary.LittleEndian.Uint32(body[n+1:]) {
			n++
		}
		out.blocks = append(out.blocks, storedBlock{body[n], body[:n]})
		body = body[n+5:]
	}
	if name := []byte("rocksdb.compression_dict"); bytes.Contains(file, name) {
		handle := file[bytes.Index(file, name)+len(name):]
		offset, w := binary.Uvarint(handle)
		size, _ := binary.Uvarint(handle[w:])
		out.dict = file[offset : offset+size]
	}
	return out
}

func TestRocksDBsBlocksAreRead(t *testing.T) {
	for _, c := range []struct {
		tables, listing string
		typ             byte
		dict            bool
	}{
		{"testdata/old/v0-zlib.sst", "testdata/old", diskZlib, false},
		{"testdata/old/v0-bzip2.sst", "testdata/old", diskBZip2, false},
		{"testdata/old/v0-lz4.sst", "testdata/old", diskLZ4, false},
		{"testdata/old/v0-zstd.sst", "testdata/old", diskZSTD, false},
		{"testdata/old/v1-zlib.sst", "testdata/old", diskZlib, false},
		{"testdata/old/v1-bzip2.sst", "testdata/old", diskBZip2, false},
		{"testdata/old/v1-lz4.sst", "testdata/old", diskLZ4, false},
		{rocksdb + "78-20-format-v0/db/*.sst", rocksdb + "78-20-format-v0", diskSnappy, false},
		{rocksdb + "78-40-compression-none/db/*.sst", rocksdb + "78-40-compression-none", diskNone, false},
		{rocksdb + "78-40-compression-snappy/db/*.sst", rocksdb + "78-40-compression-snappy", diskSnappy, false},
		{rocksdb + "78-40-compression-zlib/db/*.sst", rocksdb + "78-40-compression-zlib", diskZlib, false},
		{rocksdb + "78-40-compression-bzip2/db/*.sst", rocksdb + "78-40-compression-bzip2", diskBZip2, false},
		{rocksdb + "78-40-compression-lz4/db/*.sst", rocksdb + "78-40-compression-lz4", diskLZ4, false},
		{rocksdb + "78-40-compression-lz4hc/db/*.sst", rocksdb + "78-40-compression-lz4hc", diskLZ4HC, false},
		{rocksdb + "78-40-compression-zstd/db/*.sst", rocksdb + "78-40-compression-zstd", diskZSTD, false},
		{rocksdb + "78-41-compression-zstd-dict/db/*.sst", rocksdb + "78-41-compression-zstd-dict", diskZSTD, true},
		{rocksdb + "78-42-compression-lz4-dict/db/*.sst", rocksdb + "78-42-compression-lz4-dict", diskLZ4, true},
		{rocksdb + "78-43-compression-zlib-dict/db/*.sst", rocksdb + "78-43-compression-zlib-dict", diskZlib, true},
	} {
		t.Run(c.tables, func(t *testing.T) {
			paths, err := filepath.Glob(c.tables)
			require.NoError(t, err)
			require.NotEmpty(t, paths)
			var content []byte
			seen := map[byte]bool{}
			for _, path := range paths {
				table := readTable(t, path)
				require.Equal(t, c.dict, table.dict != nil)
				for _, b := range table.blocks {
					seen[b.typ] = true
					got, err := Decompress(b.typ, table.version, b.data, table.dict)
					require.NoError(t, err, "type %d", b.typ)
					n, err := DecompressedLen(b.typ, table.version, b.data)
					require.NoError(t, err)
					if n >= 0 {
						require.Len(t, got, n)
					} else {
						require.Less(t, table.version, 2)
					}
					content = append(content, got...)
				}
			}
			require.True(t, seen[c.typ], "%v", seen)
			listing, err := os.ReadFile(c.listing + "/expected.txt")
			require.NoError(t, err)
			for line := range strings.Lines(string(listing)) {
				if fields := strings.Fields(line); fields[0] != "#" {
					value, err := hex.DecodeString(fields[1])
					require.NoError(t, err)
					require.True(t, bytes.Contains(content, value), "value of %s", fields[0])
				}
			}
		})
	}
}

func TestTrainedDictionaryIsWrittenAndRead(t *testing.T) {
	table := readTable(t, rocksdb+"78-41-compression-zstd-dict/db/000010.sst")
	require.True(t, bytes.HasPrefix(table.dict, trainedMagic))
	block, err := Decompress(diskZSTD, table.version, table.blocks[0].data, table.dict)
	require.NoError(t, err)
	stored := ZSTD.Compress(nil, block, table.dict)
	got, err := Decompress(diskZSTD, table.version, stored, table.dict)
	require.NoError(t, err)
	require.Equal(t, block, got)
	_, err = Decompress(diskZSTD, table.version, table.blocks[0].data, nil)
	require.Error(t, err)
	for i := range 2 * maxDicts { // more dictionaries than are remembered
		zstdCoders(append(bytes.Clone(block[:100]), byte(i)))
	}
	require.LessOrEqual(t, len(zstdDicts.coders), maxDicts)
	got, err = Decompress(diskZSTD, table.version, stored, table.dict)
	require.NoError(t, err)
	require.Equal(t, block, got)
}
