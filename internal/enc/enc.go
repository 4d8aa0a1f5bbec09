// Package enc reads and writes the small encodings of RocksDB's files: varints, fixed-width little-endian numbers and
// length-prefixed strings. A reader never trusts a length: it is checked against what is left before it is used.
package enc

import (
	"encoding/binary"
	"math"
)

// AppendBytes appends p behind its length as a varint.
func AppendBytes(dst, p []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(p))), p...)
}

// Uvarint reads a varint of up to 64 bits from the front of b and returns it with what is left. ok is false when b
// ends inside it or it is longer than 64 bits.
func Uvarint(b []byte) (v uint64, rest []byte, ok bool) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), b[1:], true
	}
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, b, false
	}
	return v, b[n:], true
}

// Uvarint32 is Uvarint for numbers that must fit 32 bits.
func Uvarint32(b []byte) (v uint32, rest []byte, ok bool) {
	w, rest, ok := Uvarint(b)
	if !ok || w > math.MaxUint32 {
		return 0, b, false
	}
	return uint32(w), rest, true
}

// Bytes reads a length-prefixed string from the front of b. p shares b's memory.
func Bytes(b []byte) (p, rest []byte, ok bool) {
	n, rest, ok := Uvarint(b)
	if !ok || n > uint64(len(rest)) {
		return nil, b, false
	}
	return rest[:n:n], rest[n:], true
}

// Fixed32 reads 4 bytes, little-endian.
func Fixed32(b []byte) (v uint32, rest []byte, ok bool) {
	if len(b) < 4 {
		return 0, b, false
	}
	return binary.LittleEndian.Uint32(b), b[4:], true
}

// Fixed64 reads 8 bytes, little-endian.
func Fixed64(b []byte) (v uint64, rest []byte, ok bool) {
	if len(b) < 8 {
		return 0, b, false
	}
	return binary.LittleEndian.Uint64(b), b[8:], true
}

// Zigzag folds a signed number into an unsigned one so that small magnitudes stay short as varints.
func Zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }

// Unzigzag is Zigzag's inverse.
func Unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }
