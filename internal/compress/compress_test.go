package compress

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/corrupt"
)

// written are the types that Compress makes smaller.
var written = []Type{Default, Snappy, Zlib, LZ4, LZ4HC, ZSTD}

// blocks have every character that matters: nothing, a byte, runs, text, noise, long.
func blocks() map[string][]byte {
	noise := make([]byte, 5000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	var text []byte
	for i := range 300 {
		text = fmt.Appendf(text, "key%06d value-%d ", i, i*i)
	}
	return map[string][]byte{
		"empty": {}, "byte": {7}, "run": make([]byte, 4096), "text": text, "noise": noise,
		"long": bytes.Repeat(append(bytes.Clone(text), noise[:100]...), 30),
	}
}

func TestBlocksComeBack(t *testing.T) {
	for name, src := range blocks() {
		for _, typ := range append(written, None) {
			stored := typ.Compress([]byte("before"), src, nil)
			require.True(t, bytes.HasPrefix(stored, []byte("before")))
			stored = stored[len("before"):]
			if len(src) == 0 {
				require.Empty(t, stored)
				continue
			}
			n, err := DecompressedLen(typ.Disk(), 5, stored)
			require.NoError(t, err, "%s %s", name, typ)
			require.Equal(t, len(src), n, "%s %s", name, typ)
			dst := make([]byte, n)
			require.NoError(t, DecompressInto(dst, typ.Disk(), 5, stored, nil), "%s %s", name, typ)
			require.Equal(t, src, dst, "%s %s", name, typ)
			got, err := Decompress(typ.Disk(), 5, stored, nil)
			require.NoError(t, err)
			require.Equal(t, src, got)
		}
	}
}

func TestDictionaryHelpsAndIsNeeded(t *testing.T) {
	src := blocks()["text"][:400]
	dict := bytes.Clone(src)
	for _, typ := range []Type{Zlib, ZSTD} {
		plain, stored := typ.Compress(nil, src, nil), typ.Compress(nil, src, dict)
		require.Less(t, len(stored), len(plain)/2, typ)
		got, err := Decompress(typ.Disk(), 5, stored, dict)
		require.NoError(t, err, typ)
		require.Equal(t, src, got, typ)
		got, err = Decompress(typ.Disk(), 5, stored, nil)
		require.False(t, err == nil && bytes.Equal(got, src), typ)
	}
	// LZ4 is written without one and read with one all the same.
	got, err := Decompress(LZ4.Disk(), 5, LZ4.Compress(nil, src, dict), dict)
	require.NoError(t, err)
	require.Equal(t, src, got)
}

func TestTypeThatCannotCompressStoresTheBlockItself(t *testing.T) {
	src := blocks()["text"]
	require.Equal(t, src, None.Compress(nil, src, nil))
	require.Equal(t, src, BZip2.Compress(nil, src, nil))
	damaged := append(bytes.Clone(trainedMagic), "no tables"...)
	require.Equal(t, src, ZSTD.Compress(nil, src, damaged))
}

func TestOldFormatsAreRead(t *testing.T) {
	src := blocks()["text"]
	_, lz := splitPrefix(LZ4.Compress(nil, src, nil))
	old := append(binary.LittleEndian.AppendUint64(nil, uint64(len(src))), lz...)
	for version := range 2 {
		got, err := Decompress(diskLZ4, version, old, nil)
		require.NoError(t, err)
		require.Equal(t, src, got)

		_, deflated := splitPrefix(Zlib.Compress(nil, src, nil))
		n, err := DecompressedLen(diskZlib, version, deflated)
		require.NoError(t, err)
		require.Equal(t, -1, n)
		got, err = Decompress(diskZlib, version, deflated, nil)
		require.NoError(t, err)
		require.Equal(t, src, got)

		got, err = Decompress(diskZSTD, version, ZSTD.Compress(nil, src, nil), nil)
		require.NoError(t, err)
		require.Equal(t, src, got)
	}
}

func splitPrefix(stored []byte) (uint64, []byte) {
	n, w := binary.Uvarint(stored)
	return n, stored[w:]
}

func TestStatedLengthIsNotBelieved(t *testing.T) {
	src := blocks()["text"]
	for _, typ := range []Type{Zlib, LZ4, LZ4HC, ZSTD, BZip2} {
		_, payload := splitPrefix(typ.Compress(nil, src, nil))
		for _, lie := range []uint64{1, uint64(len(src)) - 1, uint64(len(src)) + 1} {
			_, err := Decompress(typ.Disk(), 5, append(binary.AppendUvarint(nil, lie), payload...), nil)
			require.Error(t, err, "%s %d", typ, lie)
			require.NotErrorIs(t, err, corrupt.ErrNotSupported)
		}
		for _, lie := range []uint64{MaxBlockSize + 1, 1<<32 - 1, 1 << 40, 1<<64 - 1} {
			_, err := DecompressedLen(typ.Disk(), 5, append(binary.AppendUvarint(nil, lie), payload...))
			require.Error(t, err, "%s %d", typ, lie)
		}
		_, err := DecompressedLen(typ.Disk(), 5, []byte{0x80})
		require.Error(t, err)
	}
	for _, typ := range []Type{Snappy, Zlib, LZ4} { // more than these can make of six bytes
		_, err := DecompressedLen(typ.Disk(), 5, append(binary.AppendUvarint(nil, 1<<20), "abcdef"...))
		require.Error(t, err, typ)
	}
	require.Error(t, DecompressInto(make([]byte, 3), diskNone, 5, []byte("four"), nil))
}

func TestStreamWithoutALengthIsBounded(t *testing.T) {
	const limit = 64 << 10
	_, whole := splitPrefix(Zlib.Compress(nil, make([]byte, limit), nil))
	got, err := decompressUnsized(diskZlib, whole, nil, limit)
	require.NoError(t, err)
	require.Len(t, got, limit)
	_, bomb := splitPrefix(Zlib.Compress(nil, make([]byte, 10*limit), nil))
	_, err = decompressUnsized(diskZlib, bomb, nil, limit)
	require.Error(t, err)
	_, err = Decompress(diskBZip2, 0, []byte("BZh9 is no stream"), nil)
	require.Error(t, err)
	_, err = Decompress(diskZlib, 0, whole[:len(whole)/2], nil)
	require.Error(t, err)
}

func TestBytesBehindTheStreamAreDamage(t *testing.T) {
	src := blocks()["text"]
	for _, typ := range written {
		stored := typ.Compress(nil, src, nil)
		_, err := Decompress(typ.Disk(), 5, stored[:len(stored)-1], nil)
		require.Error(t, err, typ)
		if typ != Zlib { // nothing is read behind the last deflate block; the block's checksum covers it
			_, err = Decompress(typ.Disk(), 5, append(stored, 0), nil)
			require.Error(t, err, typ)
		}
	}
}

func TestUnknownTypesAreNotSupported(t *testing.T) {
	for _, b := range []byte{diskXpress, 8, 0x80, 0xfe, 0xff} {
		_, ok := FromDisk(b)
		require.False(t, ok)
		_, err := DecompressedLen(b, 7, []byte("x"))
		require.ErrorIs(t, err, corrupt.ErrNotSupported)
		_, err = Decompress(b, 7, []byte("x"), nil)
		require.ErrorIs(t, err, corrupt.ErrNotSupported)
		require.ErrorIs(t, DecompressInto(nil, b, 7, []byte("x"), nil), corrupt.ErrNotSupported)
	}
}

func TestTypesMapToRocksDBsNumbersAndNames(t *testing.T) {
	for typ, want := range map[Type]string{None: "0 NoCompression", Snappy: "1 Snappy", Zlib: "2 Zlib", BZip2: "3 BZip2",
		LZ4: "4 LZ4", LZ4HC: "5 LZ4HC", ZSTD: "7 ZSTD"} {
		require.Equal(t, want, fmt.Sprintf("%d %s", typ.Disk(), typ))
		back, ok := FromDisk(typ.Disk())
		require.True(t, ok)
		require.Equal(t, typ, back)
	}
	require.Equal(t, Snappy.Disk(), Default.Disk())
	require.Equal(t, "compress.Type(77)", Type(77).String())
}

func ExampleType_Compress() {
	block := bytes.Repeat([]byte("key=value;"), 100)
	stored := ZSTD.Compress(nil, block, nil)
	n, _ := DecompressedLen(ZSTD.Disk(), 5, stored)
	dst := make([]byte, n)
	err := DecompressInto(dst, ZSTD.Disk(), 5, stored, nil)
	fmt.Println(len(block), len(stored) < 50, bytes.Equal(dst, block), err)
	// Output: 1000 true true <nil>
}

// The LZ4 library's assembly faults on an empty destination that damage asks for.
func TestEmptyLZ4BlockIsNotWrittenTo(t *testing.T) {
	for _, payload := range [][]byte{{}, {0x10, 'a'}, {0x04, 1, 0, 0}, {0xf0, 255, 255}} {
		require.Error(t, DecompressInto(nil, diskLZ4, 5, append([]byte{0}, payload...), nil), "%x", payload)
		require.Error(t, DecompressInto([]byte{}, diskLZ4, 5, append([]byte{0}, payload...), []byte("dictionary")), "%x", payload)
	}
	require.NoError(t, DecompressInto(nil, diskLZ4, 5, []byte{0, 0}, nil))
}
