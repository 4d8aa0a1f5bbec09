package xxh3

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

type vector struct {
	Len       int
	Key       []byte
	Preview   uint64 // XXPH3, seed 0
	Hash32    uint32 // seed 397, the data block's hash index
	BloomHash uint32 // seed 0xbc9f1d34, the legacy Bloom
}

func vectors(t testing.TB) []vector {
	raw, err := os.ReadFile("testdata/xxph3_vectors.json")
	require.NoError(t, err)
	var list []struct {
		Len       int    `json:"len"`
		Key       string `json:"key_hex"`
		Preview   string `json:"xxph3_hex"`
		Hash32    string `json:"hash32_seed397_hex"`
		BloomHash string `json:"bloomhash32_hex"`
	}
	require.NoError(t, json.Unmarshal(raw, &list))
	number := func(s string) uint64 {
		n, err := strconv.ParseUint(s, 16, 64)
		require.NoError(t, err)
		return n
	}
	var out []vector
	for _, v := range list {
		key, err := hex.DecodeString(v.Key)
		require.NoError(t, err)
		out = append(out, vector{v.Len, key, number(v.Preview), uint32(number(v.Hash32)), uint32(number(v.BloomHash))})
	}
	return out
}

func TestHashesAreRocksDBs(t *testing.T) {
	list := vectors(t)
	require.NotEmpty(t, list)
	for _, v := range list {
		require.Len(t, v.Key, v.Len)
		require.Equal(t, v.Preview, Hash64Preview(v.Key), "length %d", v.Len)
		require.Equal(t, v.Preview, slowPreview(v.Key), "twin, length %d", v.Len)
		require.Equal(t, v.Hash32, Hash32(v.Key, 397), "length %d", v.Len)
		require.Equal(t, v.BloomHash, Hash32(v.Key, 0xbc9f1d34), "length %d", v.Len)
	}
}

func TestWordsOfTheSecretAreTheSecret(t *testing.T) {
	require.Equal(t, uint64(secret0), word(0))
	require.Equal(t, uint64(secret8), word(8))
	require.Equal(t, uint64(emptyHash), fold(secret0, prime64x2))
}

func TestHashesAllocateNothing(t *testing.T) {
	b := make([]byte, 2000)
	var sink uint64
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for _, n := range []int{0, 3, 8, 16, 100, 200, 2000} {
			sink += Hash64Preview(b[:n]) + uint64(Hash32(b[:n], 1))
		}
	}))
}

// FuzzPreview compares the hash of every input with the plain twin's, and reads the input at every alignment.
func FuzzPreview(f *testing.F) {
	for _, n := range []int{0, 1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 1023, 1024, 1025, 2112} {
		f.Add(make([]byte, n))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		want := slowPreview(b)
		shifted := make([]byte, len(b)+8)
		for i := range 8 {
			copy(shifted[i:], b)
			if got := Hash64Preview(shifted[i : i+len(b)]); got != want {
				t.Fatalf("length %d at %d: %016x, want %016x", len(b), i, got, want)
			}
		}
		_ = Hash32(b, 397)
	})
}

func ExampleHash64Preview() {
	fmt.Printf("%016x\n", Hash64Preview([]byte("abc")))
	// Output: d39eeb71bb5342e8
}

func ExampleHash32() {
	fmt.Printf("%08x\n", Hash32(nil, 397))
	// Output: 0000018d
}

var sink uint64

func BenchmarkHash64Preview(b *testing.B) {
	key := make([]byte, 1024)
	for _, n := range []int{8, 16, 24, 64, 200, 1024} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				sink += Hash64Preview(key[:n])
			}
		})
	}
}
