package xxh3

import "encoding/binary"

// Hash32 is LevelDB's and RocksDB's 32-bit hash of b. Bytes of an unfinished last word are added as signed numbers, as
// the compilers of the first implementation did: the values are on disk and stay as they are.
func Hash32(b []byte, seed uint32) uint32 {
	const m = 0xC6A4A793
	h := seed ^ uint32(len(b))*m
	for len(b) >= 4 {
		h += binary.LittleEndian.Uint32(b)
		h *= m
		h ^= h >> 16
		b = b[4:]
	}
	if len(b) == 0 {
		return h
	}
	switch len(b) {
	case 3:
		h += uint32(int8(b[2])) << 16
		fallthrough
	case 2:
		h += uint32(int8(b[1])) << 8
		fallthrough
	case 1:
		h += uint32(int8(b[0]))
	}
	h *= m
	return h ^ h>>24
}
