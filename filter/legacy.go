package filter

// The Bloom filter of tables with format_version below 5, read only. Like its successor it keeps a key's bits in one
// line; the hash has only 32 bits, which makes its rate poor beyond some million keys.

import (
	"encoding/binary"
	"math/bits"

	"github.com/ashlardb/ashlar/internal/xxh3"
)

const legacySeed = 0xBC9F1D34

type legacyReader struct {
	bits      []byte
	lines     uint32
	lineShift uint // log2 of a line's bits
	probes    int
}

// parseLegacy returns the reader, or false when the lines do not fit the block: then the answer is yes.
func parseLegacy(data []byte, meta [metaBytes]byte) (legacyReader, bool) {
	lines := binary.LittleEndian.Uint32(meta[1:])
	if lines == 0 || uint64(len(data))%uint64(lines) != 0 {
		return legacyReader{}, false
	}
	size := uint64(len(data)) / uint64(lines) // of a line: the cache line of the machine that wrote it
	if bits.OnesCount64(size) != 1 || size > 1<<28 {
		return legacyReader{}, false
	}
	return legacyReader{bits: data, lines: lines, lineShift: uint(bits.TrailingZeros64(size)) + 3, probes: int(meta[0])}, true
}

func (r *legacyReader) MayContain(key []byte) bool {
	h := xxh3.Hash32(key, legacySeed)
	size := 1 << (r.lineShift - 3)
	line := r.bits[int(h%r.lines)*size:][:size]
	mask := uint32(1)<<r.lineShift - 1
	delta := bits.RotateLeft32(h, -17)
	for i := r.probes; i > 0; i-- {
		bit := h & mask
		if line[bit>>3]>>(bit&7)&1 == 0 {
			return false
		}
		h += delta
	}
	return true
}
