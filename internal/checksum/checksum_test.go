package checksum

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/bits"
	"os"
	"strconv"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
)

func number(t *testing.T, s string) uint32 {
	n, err := strconv.ParseUint(s, 16, 32)
	require.NoError(t, err)
	return uint32(n)
}

func readVectors(t *testing.T) (v struct {
	Blocks []struct {
		Data     string `json:"data_hex"`
		TypeByte byte   `json:"type_byte"`
		CRC32C   string `json:"crc32c_masked_hex"`
		XXHash   string `json:"xxhash_hex"`
		XXHash64 string `json:"xxhash64_low32_hex"`
		XXH3     string `json:"xxh3_hex"`
	} `json:"block_checksums"`
	Contexts []struct {
		Base     string `json:"base_context_checksum_hex"`
		Offset   uint64 `json:"offset"`
		Modifier string `json:"modifier_hex"`
	} `json:"context_modifiers"`
	IDs []struct {
		DB      string `json:"db_id"`
		Session string `json:"session_id"`
		Number  uint64 `json:"orig_file_number"`
		ID      string `json:"manifest_unique_id_hex"`
	} `json:"unique_ids"`
}) {
	raw, err := os.ReadFile("testdata/checksums.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &v))
	require.NotEmpty(t, v.Blocks)
	require.NotEmpty(t, v.Contexts)
	require.NotEmpty(t, v.IDs)
	return v
}

func TestBlockChecksumsAreRocksDBs(t *testing.T) {
	for _, v := range readVectors(t).Blocks {
		data, err := hex.DecodeString(v.Data)
		require.NoError(t, err)
		require.Zero(t, Block(None, data, v.TypeByte))
		require.Equal(t, number(t, v.CRC32C), Block(CRC32C, data, v.TypeByte))
		require.Equal(t, number(t, v.XXHash), Block(XXHash, data, v.TypeByte))
		require.Equal(t, number(t, v.XXHash64), Block(XXHash64, data, v.TypeByte))
		require.Equal(t, number(t, v.XXH3), Block(XXH3, data, v.TypeByte))
		require.Equal(t, number(t, v.XXH3), Block(Default, data, v.TypeByte))
	}
}

func TestContextModifiersAreRocksDBs(t *testing.T) {
	for _, v := range readVectors(t).Contexts {
		require.Equal(t, number(t, v.Modifier), ContextModifier(number(t, v.Base), v.Offset))
	}
	// One block of a real table of format_version 6: what its trailer holds.
	require.Equal(t, uint32(0x796c3ba0), 0x3bf66109+ContextModifier(0x3d75d0c9, 2654))
}

func TestUniqueIDsAreRocksDBs(t *testing.T) {
	for _, v := range readVectors(t).IDs {
		id, ok := UniqueID(v.DB, v.Session, v.Number)
		require.True(t, ok)
		require.Equal(t, v.ID, hex.EncodeToString(id[:]))
	}
}

func TestTableOfUnknownOriginHasNoUniqueID(t *testing.T) {
	const session = "ABCDEFGH123456789XYZ"
	for _, c := range []struct {
		db, session string
		number      uint64
	}{
		{"", session, 1}, {"db", "", 1}, {"db", session, 0}, {"db", "ABCDEFGH1234", 1}, {"db", session + "ABCDE", 1},
		{"db", "abcdefgh123456789xyz", 1}, {"db", "ABCDEFGH12345678 XYZ", 1}, {"db", "00000000000000000000", 1},
	} {
		id, ok := UniqueID(c.db, c.session, c.number)
		require.False(t, ok, "%q %q %d", c.db, c.session, c.number)
		require.Zero(t, id)
	}
}

func TestTypesMapToRocksDBsNumbersAndNames(t *testing.T) {
	for i, name := range []string{"kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"} {
		typ, ok := FromDisk(byte(i))
		require.True(t, ok)
		require.Equal(t, byte(i), typ.Disk())
		require.Equal(t, name, typ.String())
	}
	_, ok := FromDisk(5)
	require.False(t, ok)
	require.Equal(t, XXH3.Disk(), Default.Disk())
	require.Equal(t, "kXXH3", Default.String())
	require.Equal(t, "checksum.Type(9)", Type(9).String())
}

func TestMaskIsUndoneByUnmask(t *testing.T) {
	require.Equal(t, uint32(0xe3069283), CRC([]byte("123456789")))
	require.Equal(t, uint32(0xe3069283), CRC([]byte("1234"), nil, []byte("56789")))
	require.Equal(t, uint32(0xc78ab0e5), Mask(0xe3069283))
	require.Equal(t, uint32(0xa282ead8), Mask(0))
	for _, crc := range []uint32{0, 1, 0xe3069283, 0xffffffff} {
		require.Equal(t, crc, Unmask(Mask(crc)))
	}
}

func TestChecksumsAllocateNothing(t *testing.T) {
	data := make([]byte, 4096)
	var sum uint32
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for typ := None; typ <= XXH3; typ++ {
			sum += Block(typ, data, 1)
		}
	}))
}

// slowXXH32 is the dumb twin: the definition over one joined buffer.
func slowXXH32(b []byte) uint32 {
	p := []uint32{0, 2654435761, 2246822519, 3266489917, 668265263, 374761393}
	le := func(b []byte) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24 }
	h, n := p[5], uint32(len(b))
	if len(b) >= 16 {
		v := []uint32{p[1] + p[2], p[2], 0, -p[1]}
		for ; len(b) >= 16; b = b[16:] {
			for i := range v {
				v[i] = bits.RotateLeft32(v[i]+le(b[4*i:])*p[2], 13) * p[1]
			}
		}
		h = 0
		for i, r := range []int{1, 7, 12, 18} {
			h += bits.RotateLeft32(v[i], r)
		}
	}
	h += n
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+le(b)*p[3], 17) * p[4]
	}
	for ; len(b) > 0; b = b[1:] {
		h = bits.RotateLeft32(h+uint32(b[0])*p[5], 11) * p[1]
	}
	h ^= h >> 15
	h *= p[2]
	h ^= h >> 13
	h *= p[3]
	return h ^ h>>16
}

// FuzzBlock compares every checksum of a block and its type byte with the plain form over the joined bytes.
func FuzzBlock(f *testing.F) {
	for _, n := range []int{0, 1, 3, 14, 15, 16, 17, 31, 32, 47, 300} {
		f.Add(make([]byte, n), byte(n))
	}
	f.Fuzz(func(t *testing.T, data []byte, typ byte) {
		joined := append(append([]byte{}, data...), typ)
		if got, want := Block(XXHash, data, typ), slowXXH32(joined); got != want {
			t.Fatalf("xxHash %08x, want %08x", got, want)
		}
		if got, want := Block(XXHash64, data, typ), uint32(xxhash.Sum64(joined)); got != want {
			t.Fatalf("xxHash64 %08x, want %08x", got, want)
		}
		if got, want := Block(CRC32C, data, typ), Mask(crc32.Checksum(joined, castagnoli)); got != want {
			t.Fatalf("CRC %08x, want %08x", got, want)
		}
	})
}

func ExampleBlock() {
	block := []byte("a block as stored")
	fmt.Printf("%08x\n", Block(CRC32C, block, 0))
	fmt.Println(Block(CRC32C, block, 0) == Mask(CRC(block, []byte{0})))
	// Output:
	// 235995e6
	// true
}

func ExampleUniqueID() {
	id, ok := UniqueID("6d7fd118-8ac3-47a3-bb6d-727696b8f50f", "ABCDEFGH123456789XYZ", 10)
	fmt.Printf("%x %v\n", id, ok)
	// Output: 3b38b0037eb7ee41264dc45e6f94bee1 true
}
