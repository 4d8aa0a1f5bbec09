package checksum

import (
	"encoding/binary"
	"math/bits"
)

const (
	xxh32x1 uint32 = 0x9E3779B1
	xxh32x2 uint32 = 0x85EBCA77
	xxh32x3 uint32 = 0xC2B2AE3D
	xxh32x4 uint32 = 0x27D4EB2F
	xxh32x5 uint32 = 0x165667B1
)

// xxh32 returns XXH32, seed 0, of data with last behind it. The last byte comes apart because a block's type is not in
// the block's buffer, and joining them would copy the block.
func xxh32(data []byte, last byte) uint32 {
	total := uint32(len(data)) + 1
	// The four lanes begin at x1+x2, x2, 0 and -x1.
	v1, v2, v3, v4 := uint32(0x24234428), xxh32x2, uint32(0), ^xxh32x1+1
	for len(data) >= 16 {
		v1 = xxh32Round(v1, binary.LittleEndian.Uint32(data))
		v2 = xxh32Round(v2, binary.LittleEndian.Uint32(data[4:]))
		v3 = xxh32Round(v3, binary.LittleEndian.Uint32(data[8:]))
		v4 = xxh32Round(v4, binary.LittleEndian.Uint32(data[12:]))
		data = data[16:]
	}
	// What is left is at most 15 bytes and the last one: with it, it may be a whole round.
	var room [16]byte
	n := copy(room[:], data)
	room[n] = last
	tail := room[:n+1]
	if len(tail) == 16 {
		v1 = xxh32Round(v1, binary.LittleEndian.Uint32(tail))
		v2 = xxh32Round(v2, binary.LittleEndian.Uint32(tail[4:]))
		v3 = xxh32Round(v3, binary.LittleEndian.Uint32(tail[8:]))
		v4 = xxh32Round(v4, binary.LittleEndian.Uint32(tail[12:]))
		tail = tail[:0]
	}
	h := xxh32x5
	if total >= 16 {
		h = bits.RotateLeft32(v1, 1) + bits.RotateLeft32(v2, 7) + bits.RotateLeft32(v3, 12) + bits.RotateLeft32(v4, 18)
	}
	h += total
	for len(tail) >= 4 {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(tail)*xxh32x3, 17) * xxh32x4
		tail = tail[4:]
	}
	for _, b := range tail {
		h = bits.RotateLeft32(h+uint32(b)*xxh32x5, 11) * xxh32x1
	}
	h = (h ^ h>>15) * xxh32x2
	h = (h ^ h>>13) * xxh32x3
	return h ^ h>>16
}

func xxh32Round(v, word uint32) uint32 { return bits.RotateLeft32(v+word*xxh32x2, 13) * xxh32x1 }
