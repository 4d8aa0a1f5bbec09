package filter

// RocksDB's FastLocalBloom. One key sets all its bits in one line of 64 bytes, so that a probe is one cache miss.
//
//  1. The low half of the hash picks the line, the high half the bits within it.
//  2. A reader takes the number of probes from the block, never from its policy: RocksDB rounds sizes and then uses more or fewer.
//  3. The line count times 64 is below 4 GiB: the choice of the line is a 32-bit multiplication.

import (
	"math"
)

const (
	bloomName       = "rocksdb.BuiltinBloomFilter"
	lineBytes       = 64
	metaBytes       = 5
	maxBytes        = math.MaxUint32 / lineBytes * lineBytes
	golden32        = 0x9E3779B9 // spreads the hash over the next probe
	golden32Squared = golden32 * golden32 & math.MaxUint32
	maxProbes       = 30
	markBloom       = 0xff // in the first metadata byte
	markRibbon      = 0xfe
	markMatchAll    = 0x00
)

// Bloom returns RocksDB's Bloom filter with about bitsPerKey bits for each key; 10 gives a false-positive rate of 1 %.
// Values are taken in steps of 1/1000 and kept within 1 to 100: "no filter" is a nil Policy, not one of 0 bits.
//
// Its Open reads whatever RocksDB stores under the same name: FastLocalBloom, legacy Bloom and Ribbon.
func Bloom(bitsPerKey float64) Policy {
	return bloomPolicy{millibits: toMillibits(bitsPerKey)}
}

func toMillibits(bitsPerKey float64) int {
	if !(bitsPerKey > 1) { // also when it is not a number
		bitsPerKey = 1
	}
	return int(math.Round(min(bitsPerKey, 100) * 1000))
}

type bloomPolicy struct{ millibits int }

func (bloomPolicy) Name() string { return bloomName }

// PropertyName is what RocksDB has in a table's property rocksdb.filter.policy.
func (bloomPolicy) PropertyName() string { return "bloomfilter" }

// BitsPerKey is how many bits the policy was asked to spend on a key; RocksDB's OPTIONS file states it.
func (p bloomPolicy) BitsPerKey() float64 { return float64(p.millibits) / 1000 }

func (p bloomPolicy) NewBuilder(expectedKeys int) Builder {
	return &bloomBuilder{millibits: p.millibits, hashes: make([]uint64, 0, clampKeys(expectedKeys))}
}

// clampKeys bounds what is set aside on the word of a caller's estimate.
func clampKeys(expected int) int { return min(max(expected, 0), 1<<16) }

// KeysIn is how many keys a filter of so many bytes has.
func (p bloomPolicy) KeysIn(bytes int) int { return int(int64(bytes) * 8000 / int64(p.millibits)) }

// Open tells the kinds apart by the metadata.
func (bloomPolicy) Open(block []byte) (Reader, error) {
	kind, bits, meta := kindOf(block)
	switch kind {
	case kindBloom:
		if r, ok := parseBloom(bits, meta); ok {
			return &r, nil
		}
	case kindRibbon:
		if r, ok := parseRibbon(bits, meta); ok {
			return &r, nil
		}
	case kindLegacy:
		if r, ok := parseLegacy(bits, meta); ok {
			return &r, nil
		}
	case kindEmpty:
		return always(false), nil
	}
	return always(true), nil
}

// MayContain asks a stored filter once, without a Reader and without an allocation.
func (bloomPolicy) MayContain(block, key []byte) (bool, error) {
	kind, bits, meta := kindOf(block)
	switch kind {
	case kindBloom:
		if r, ok := parseBloom(bits, meta); ok {
			return r.MayContain(key), nil
		}
	case kindRibbon:
		if r, ok := parseRibbon(bits, meta); ok {
			return r.MayContain(key), nil
		}
	case kindLegacy:
		if r, ok := parseLegacy(bits, meta); ok {
			return r.MayContain(key), nil
		}
	case kindEmpty:
		return false, nil
	}
	return true, nil
}

// kind is what a block under the name of RocksDB's filters is.
type kind uint8

const (
	kindEmpty kind = iota // no keys: no
	kindBloom
	kindRibbon
	kindLegacy
	kindUnknown // from the future: yes
)

func kindOf(block []byte) (kind, []byte, [metaBytes]byte) {
	if len(block) <= metaBytes {
		return kindEmpty, nil, [metaBytes]byte{}
	}
	bits := block[:len(block)-metaBytes]
	meta := [metaBytes]byte(block[len(block)-metaBytes:])
	switch {
	case meta[0] == markBloom:
		return kindBloom, bits, meta
	case meta[0] == markRibbon:
		return kindRibbon, bits, meta
	case meta[0] == markMatchAll || meta[0] >= 0x80:
		return kindUnknown, bits, meta
	}
	return kindLegacy, bits, meta
}

// bloomBuilder keeps the hash of each key until the exact count is known.
type bloomBuilder struct {
	millibits int
	hashes    []uint64
}

func (b *bloomBuilder) Add(key []byte) {
	h := Hash(key)
	if n := len(b.hashes); n > 0 && b.hashes[n-1] == h {
		return
	}
	b.hashes = append(b.hashes, h)
}

func (b *bloomBuilder) Finish(dst []byte) []byte {
	lines := bloomLines(len(b.hashes), b.millibits)
	probes := bloomProbes(b.millibits)
	start := len(dst)
	dst = appendZeros(dst, lines*lineBytes)
	fillBloom(dst[start:], b.hashes, probes)
	b.hashes = b.hashes[:0]
	return append(dst, markBloom, 0, byte(probes), 0, 0)
}

func appendZeros(dst []byte, n int) []byte { return append(dst, make([]byte, n)...) }

// bloomLines returns how many lines n keys get.
func bloomLines(n, millibits int) int {
	bytes := (uint64(n)*uint64(millibits) + 7999) / 8000
	return int(min((bytes+lineBytes-1)/lineBytes, maxBytes/lineBytes))
}

// bloomProbes returns the number of probes that is best for a filter of lines, by the bits for each key.
func bloomProbes(millibits int) int {
	upTo := [...]int{2080, 3580, 5100, 6640, 8300, 10070, 11720, 14001, 16050, 18300, 22001, 25501}
	for i, limit := range upTo {
		if millibits <= limit {
			return i + 1
		}
	}
	if millibits > 50000 {
		return 24
	}
	return (millibits-1)/2000 - 1
}

// fillBloom sets the bits of every hash.
func fillBloom(bits []byte, hashes []uint64, probes int) {
	lines := uint32(len(bits) / lineBytes)
	for _, h := range hashes {
		line := (*[lineBytes]byte)(bits[int(lineOf(h, lines))*lineBytes:])
		h2 := uint32(h >> 32)
		for range probes {
			line[h2>>26] |= 1 << (h2 >> 23 & 7)
			h2 *= golden32
		}
	}
}

// lineOf spreads the low half of h over the lines.
func lineOf(h uint64, lines uint32) uint32 { return uint32(uint64(uint32(h)) * uint64(lines) >> 32) }

// BloomReader is an opened FastLocalBloom filter.
type BloomReader struct {
	bits   []byte // lines × 64
	lines  uint32
	probes int
}

// parseBloom returns the reader, or false for a form that is not known: then the answer is yes.
func parseBloom(bits []byte, meta [metaBytes]byte) (BloomReader, bool) {
	probes := int(meta[2] & 31)
	switch {
	case meta[1] != 0, meta[2]>>5 != 0, meta[3] != 0, meta[4] != 0, // another implementation, another line size, reserved
		probes < 1, probes > maxProbes, len(bits)%lineBytes != 0, uint64(len(bits)) > maxBytes:
		return BloomReader{}, false
	}
	return BloomReader{bits: bits, lines: uint32(len(bits) / lineBytes), probes: probes}, true
}

// MayContain returns false when key was certainly not added.
func (r *BloomReader) MayContain(key []byte) bool { return r.MayContainHash(Hash(key)) }

// MayContainHash is MayContain for the key with Hash h.
//
// It tests all bits and branches once: leaving at the first zero bit would be one mispredicted branch for nearly every absent
// key, which costs more than the bits behind it. Two bits at a time, so that the multiplications overlap.
func (r *BloomReader) MayContainHash(h uint64) bool {
	line := (*[lineBytes]byte)(r.bits[int(lineOf(h, r.lines))*lineBytes:])
	a := uint32(h >> 32)
	b := a * golden32
	all := byte(1)
	i := r.probes
	for ; i > 1; i -= 2 {
		all &= line[a>>26] >> (a >> 23 & 7) & (line[b>>26] >> (b >> 23 & 7))
		a *= golden32Squared
		b *= golden32Squared
	}
	if i > 0 {
		all &= line[a>>26] >> (a >> 23 & 7)
	}
	return all != 0
}
