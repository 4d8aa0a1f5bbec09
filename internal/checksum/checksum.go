package checksum

// One file owns the mapping between our numbers, RocksDB's numbers and RocksDB's names, and the rule of each type.

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"

	"github.com/cespare/xxhash/v2"
	"github.com/zeebo/xxh3"
)

// Type says how the checksum of a block is computed. The numbers are ours; Disk and FromDisk know those of the files.
type Type uint8

const (
	// Default is XXH3, as in RocksDB 7.8 and 11.9.
	Default Type = iota
	// None stores zeros and verifies nothing.
	None
	// CRC32C is the masked Castagnoli CRC, the oldest of them.
	CRC32C
	// XXHash is XXH32.
	XXHash
	// XXHash64 is the low half of XXH64.
	XXHash64
	// XXH3 is the low half of the final 64-bit XXH3, the fastest of them.
	XXH3
)

// Disk returns the number of t in a table's footer.
func (t Type) Disk() byte {
	if t == Default {
		t = XXH3
	}
	return byte(t - None)
}

// FromDisk returns the type with the number b in a table's footer; ok is false for a number that RocksDB does not
// assign.
func FromDisk(b byte) (t Type, ok bool) {
	if b > byte(XXH3-None) {
		return Default, false
	}
	return Type(b) + None, true
}

// String returns RocksDB's name of t, as in its OPTIONS files.
func (t Type) String() string {
	switch t {
	case None:
		return "kNoChecksum"
	case CRC32C:
		return "kCRC32c"
	case XXHash:
		return "kxxHash"
	case XXHash64:
		return "kxxHash64"
	case XXH3, Default:
		return "kXXH3"
	}
	return fmt.Sprintf("checksum.Type(%d)", uint8(t))
}

// typeByteFactor spreads the compression type over the 32 bits of an XXH3 checksum.
const typeByteFactor = 0x6B9083D9

// Block returns the checksum that is stored behind a block: of data as stored, and of the compression type that
// follows it. It is without context: a table of format_version 6 and up adds ContextModifier.
//
// For a checksum over bytes that are all in one buffer (a footer) pass the last of them as typeByte.
func Block(t Type, data []byte, typeByte byte) uint32 {
	switch t {
	case None:
		return 0
	case CRC32C:
		return Mask(crcByte(CRC(data), typeByte))
	case XXHash:
		return xxh32(data, typeByte)
	case XXHash64:
		var d xxhash.Digest
		d.Reset()
		_, _ = d.Write(data)
		_, _ = d.Write([]byte{typeByte})
		return uint32(d.Sum64())
	default:
		return uint32(xxh3.Hash(data)) ^ uint32(typeByte)*typeByteFactor
	}
}

// ContextModifier returns what format_version 6 and up adds to the checksum of the block, or footer, that begins at
// offset in a file whose footer holds base. It is 0 for a base of 0.
func ContextModifier(base uint32, offset uint64) uint32 {
	if base == 0 {
		return 0
	}
	return base ^ (uint32(offset) + uint32(offset>>32))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC returns the CRC-32C of the concatenation of the parts, unmasked.
func CRC(parts ...[]byte) (crc uint32) {
	for _, p := range parts {
		crc = crc32.Update(crc, castagnoli, p)
	}
	return crc
}

// crcByte extends crc by one byte without a slice, which would escape to the heap.
func crcByte(crc uint32, b byte) uint32 {
	crc = ^crc
	return ^(castagnoli[byte(crc)^b] ^ crc>>8)
}

const maskDelta = 0xA282EAD8

// Mask turns a CRC into the form in which files store it: a CRC of bytes that hold a CRC would be weak.
func Mask(crc uint32) uint32 { return bits.RotateLeft32(crc, -15) + maskDelta }

// Unmask is Mask's inverse.
func Unmask(masked uint32) uint32 { return bits.RotateLeft32(masked-maskDelta, 15) }

// UniqueID returns the 16 bytes that a MANIFEST stores for a table, from the three properties of the table that name its
// origin: the identity of its database, the session that wrote it, and its number then. ok is false when one of them is missing or
// the session is not 13 to 24 digits of base 36 (0-9A-Z): such a table has no id of this kind, and none is to be stored. All zeros
// means "none" in a MANIFEST.
func UniqueID(dbID, sessionID string, fileNumber uint64) (id [16]byte, ok bool) {
	const low62 = 1<<62 - 1
	n := len(sessionID)
	if dbID == "" || n <= 12 || n > 24 || fileNumber == 0 {
		return id, false
	}
	a, okA := base36(sessionID[:n-12])
	b, okB := base36(sessionID[n-12:])
	upper, lower := a>>2, b&low62|a<<62
	if !okA || !okB || lower == 0 {
		return id, false
	}
	sum := xxh3.HashString128Seed(dbID, upper)
	binary.LittleEndian.PutUint64(id[:8], lower)
	binary.LittleEndian.PutUint64(id[8:], sum.Hi^fileNumber)
	return id, true
}

// base36 reads at most 12 digits, which fit 63 bits.
func base36(s string) (v uint64, ok bool) {
	for i := range len(s) {
		c := s[i]
		switch {
		case '0' <= c && c <= '9':
			v = v*36 + uint64(c-'0')
		case 'A' <= c && c <= 'Z':
			v = v*36 + uint64(c-'A') + 10
		default:
			return 0, false
		}
	}
	return v, true
}
