package compress

// One file owns the numbers, the names and the framing; codec.go has the algorithms' coders.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/enc"
)

// Type is a compression algorithm. The numbers are ours; Disk and FromDisk know those of the files.
type Type uint8

const (
	// Default is Snappy.
	Default Type = iota
	// None stores blocks as they are.
	None
	// Snappy is fast and compresses little.
	Snappy
	// Zlib is raw deflate.
	Zlib
	// LZ4 is fast, above all in reading.
	LZ4
	// LZ4HC is written slowly, is smaller than LZ4, and is read as fast.
	LZ4HC
	// ZSTD is the smallest at a fair speed.
	ZSTD
	// BZip2 can be read only.
	BZip2
)

// The numbers of the types behind stored blocks.
const (
	diskNone   = 0
	diskSnappy = 1
	diskZlib   = 2
	diskBZip2  = 3
	diskLZ4    = 4
	diskLZ4HC  = 5
	diskXpress = 6
	diskZSTD   = 7
)

// known has the number and RocksDB's property name of each Type.
var known = [...]struct {
	disk byte
	name string
}{
	Default: {diskSnappy, "Snappy"},
	None:    {diskNone, "NoCompression"},
	Snappy:  {diskSnappy, "Snappy"},
	Zlib:    {diskZlib, "Zlib"},
	LZ4:     {diskLZ4, "LZ4"},
	LZ4HC:   {diskLZ4HC, "LZ4HC"},
	ZSTD:    {diskZSTD, "ZSTD"},
	BZip2:   {diskBZip2, "BZip2"},
}

// Disk returns the number of t behind a stored block.
func (t Type) Disk() byte { return known[t].disk }

// FromDisk returns the type with the number b behind a stored block; ok is false for one that is not read here.
func FromDisk(b byte) (t Type, ok bool) {
	for t := None; int(t) < len(known); t++ {
		if known[t].disk == b {
			return t, true
		}
	}
	return Default, false
}

// String returns RocksDB's name of t, as in the property rocksdb.compression.
func (t Type) String() string {
	if int(t) >= len(known) {
		return fmt.Sprintf("compress.Type(%d)", uint8(t))
	}
	return known[t].name
}

// MaxBlockSize bounds a block before compression, in bytes. Longer ones are never compressed; one that claims to be longer
// is damage.
const MaxBlockSize = 1 << 30

// Compress appends to dst what a table of format_version 2 or later stores for src under the type byte t.Disk(), and
// returns the longer dst. dict is the table's dictionary or nil (it does not help LZ4 in writing).
//
// Where t cannot compress (None, BZip2, an empty or too long src, a dictionary that the algorithm refuses) it appends src itself. So the
// caller compares lengths, and stores src under the byte of None unless enough was gained.
func (t Type) Compress(dst, src, dict []byte) []byte {
	if len(src) == 0 || len(src) > MaxBlockSize {
		return append(dst, src...)
	}
	start := len(dst)
	ok := true
	switch t {
	case Default, Snappy:
		return compressSnappy(dst, src)
	case Zlib:
		dst = compressZlib(appendLen(dst, src), src, dict)
	case LZ4:
		dst, ok = compressLZ4(appendLen(dst, src), src)
	case LZ4HC:
		dst, ok = compressLZ4HC(appendLen(dst, src), src)
	case ZSTD:
		dst, ok = compressZSTD(appendLen(dst, src), src, dict)
	default:
		ok = false
	}
	if !ok {
		return append(dst[:start], src...)
	}
	return dst
}

func appendLen(dst, src []byte) []byte { return binary.AppendUvarint(dst, uint64(len(src))) }

var (
	errNoLength  = errors.New("compressed block ends inside its length")
	errNotWhole  = errors.New("compressed block does not have the length that it states")
	errTrailing  = errors.New("compressed block goes on behind its end")
	errSnappyLen = errors.New("Snappy block has no valid length")
)

// unknownLen is the length of a block whose frame does not state it.
const unknownLen = -1

// split takes the frame apart: the length of the block before compression (or unknownLen) and the algorithm's own bytes.
func split(diskType byte, formatVersion int, src []byte) (n int, payload []byte, err error) {
	var size uint64
	ok := true
	perByte := 1 // the most that the algorithm can make of one stored byte
	switch diskType {
	case diskNone:
		return len(src), src, nil
	case diskSnappy:
		n, err := s2.DecodedLen(src)
		if err != nil {
			return 0, nil, errSnappyLen
		}
		size, payload, perByte = uint64(n), src, 22 // three bytes copy at most 64
	case diskZlib, diskBZip2:
		if formatVersion < 2 {
			return unknownLen, src, nil
		}
		size, payload, ok = lengthPrefix(src)
		perByte = 1032
		if diskType == diskBZip2 {
			perByte = MaxBlockSize // runs of runs: no bound worth naming
		}
	case diskLZ4, diskLZ4HC:
		if formatVersion < 2 {
			size, payload, ok = enc.Fixed64(src)
		} else {
			size, payload, ok = lengthPrefix(src)
		}
		perByte = 255
	case diskZSTD:
		size, payload, ok = lengthPrefix(src)
		perByte = 128 << 10 / 3 // one run per block: a header of three bytes
	default:
		return 0, nil, fmt.Errorf("compression type %d: %w", diskType, corrupt.ErrNotSupported)
	}
	if !ok {
		return 0, nil, errNoLength
	}
	if size > MaxBlockSize || size > (uint64(len(payload))+1)*uint64(perByte) {
		return 0, nil, fmt.Errorf("compressed block of %d bytes states %d bytes", len(src), size)
	}
	if diskType == diskZSTD {
		var h zstd.Header
		if h.Decode(payload) == nil && h.HasFCS && h.FrameContentSize != size {
			return 0, nil, fmt.Errorf("compressed block states %d bytes, its zstd frame %d", size, h.FrameContentSize)
		}
	}
	return int(size), payload, nil
}

func lengthPrefix(src []byte) (size uint64, rest []byte, ok bool) {
	n, rest, ok := enc.Uvarint(src)
	return n, rest, ok && n <= math.MaxUint32
}

// DecompressedLen returns the length of the block that is stored as src under the byte diskType in a table of
// formatVersion, for sizing the buffer of DecompressInto. It is -1 when the stored form does not tell (Zlib and BZip2 in
// format versions 0 and 1): use Decompress then. A length that cannot be true is an error.
func DecompressedLen(diskType byte, formatVersion int, src []byte) (int, error) {
	n, _, err := split(diskType, formatVersion, src)
	return n, err
}

// DecompressInto writes the block that is stored as src to dst, which must have the length that DecompressedLen gave. Nothing is
// written outside dst; after an error its content is undefined. dict is the table's dictionary when src is a data block, else nil.
func DecompressInto(dst []byte, diskType byte, formatVersion int, src, dict []byte) error {
	n, payload, err := split(diskType, formatVersion, src)
	if err != nil {
		return err
	}
	if n != len(dst) {
		return errNotWhole
	}
	switch diskType {
	case diskNone:
		copy(dst, payload)
		return nil
	case diskSnappy:
		return decompressSnappy(dst, payload)
	case diskZlib:
		return decompressZlib(dst, payload, dict)
	case diskBZip2:
		return decompressBZip2(dst, payload)
	case diskLZ4, diskLZ4HC:
		return decompressLZ4(dst, payload, dict)
	default:
		return decompressZSTD(dst, payload, dict)
	}
}

// Decompress is DecompressInto with a new buffer, also for the forms that do not state their length.
func Decompress(diskType byte, formatVersion int, src, dict []byte) ([]byte, error) {
	n, payload, err := split(diskType, formatVersion, src)
	if err != nil {
		return nil, err
	}
	if n == unknownLen {
		return decompressUnsized(diskType, payload, dict, MaxBlockSize)
	}
	dst := make([]byte, n)
	if err := DecompressInto(dst, diskType, formatVersion, src, dict); err != nil {
		return nil, err
	}
	return dst, nil
}
