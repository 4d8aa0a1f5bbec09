package filter

// The textbook Bloom filter, built by github.com/bits-and-blooms/bloom and probed in place: the block is that library's bit
// set, word by word, and a trailer that says how to probe it.
//
//	+-- 8 × ceil(m/64) bytes ----------------+--- 8 ---+--- 4 ---+--- 1 ---+
//	|  bits, as 64-bit words, little-endian  |    m    |    k    | version |
//	+----------------------------------------+---------+---------+---------+
//
// It is not the library's own serialization, whose header can ask for any amount of memory. m has to fit the length of
// the block, and k is bounded, or the block is refused.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/ashlardb/ashlar/internal/enc"
)

const (
	standardName    = "ashlar.StandardBloom.1"
	standardVersion = 1
	standardTrailer = 8 + 4 + 1
	standardMaxK    = 128
)

// StandardBloom returns the textbook Bloom filter with about bitsPerKey bits for each key, kept within 1 to 100. Its bits are
// those that github.com/bits-and-blooms/bloom sets. RocksDB opens tables that have it and does not use it.
//
// A Builder keeps a copy of its keys until Finish.
func StandardBloom(bitsPerKey float64) Policy {
	return standardPolicy{millibits: toMillibits(bitsPerKey)}
}

type standardPolicy struct{ millibits int }

func (standardPolicy) Name() string { return standardName }

func (p standardPolicy) NewBuilder(int) Builder { return &standardBuilder{millibits: p.millibits} }

// standardBuilder keeps the keys, for the library wants to know the number of bits before the first one.
type standardBuilder struct {
	millibits int
	keys      []byte // each behind its length
	last      []byte // the last key, within keys; its end is the end of keys
	n         int
}

func (b *standardBuilder) Add(key []byte) {
	if b.n > 0 && bytes.Equal(b.last, key) {
		return
	}
	b.keys = enc.AppendBytes(b.keys, key)
	b.last = b.keys[len(b.keys)-len(key):]
	b.n++
}

func (b *standardBuilder) Finish(dst []byte) []byte {
	m := max(64, (uint64(b.n)*uint64(b.millibits)+999)/1000)
	k := max(1, math.Round(float64(b.millibits)/1000*math.Ln2))
	f := bloom.New(uint(m), uint(k))
	for rest := b.keys; len(rest) > 0; {
		var key []byte
		key, rest, _ = enc.Bytes(rest)
		f.Add(key)
	}
	for _, word := range f.BitSet().Words() {
		dst = binary.LittleEndian.AppendUint64(dst, word)
	}
	b.keys, b.last, b.n = b.keys[:0], nil, 0
	dst = binary.LittleEndian.AppendUint64(dst, m)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(k))
	return append(dst, standardVersion)
}

// KeysIn is how many keys a filter of so many bytes has.
func (p standardPolicy) KeysIn(bytes int) int { return int(int64(bytes) * 8000 / int64(p.millibits)) }

func (standardPolicy) Open(block []byte) (Reader, error) {
	r, err := parseStandard(block)
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// MayContain asks a stored filter once, without a Reader and without an allocation.
func (standardPolicy) MayContain(block, key []byte) (bool, error) {
	r, err := parseStandard(block)
	return err == nil && r.MayContain(key), err
}

func parseStandard(block []byte) (standardReader, error) {
	if len(block) < standardTrailer {
		return standardReader{}, fmt.Errorf("filter block of %d bytes is shorter than its trailer", len(block))
	}
	words, trailer := block[:len(block)-standardTrailer], block[len(block)-standardTrailer:]
	m, k := binary.LittleEndian.Uint64(trailer), binary.LittleEndian.Uint32(trailer[8:])
	if version := trailer[12]; version != standardVersion {
		return standardReader{}, fmt.Errorf("filter block of version %d, want %d", version, standardVersion)
	}
	if len(words)%8 != 0 || m == 0 || (m-1)/64+1 != uint64(len(words)/8) {
		return standardReader{}, fmt.Errorf("filter block states %d bits and has %d bytes of them", m, len(words))
	}
	if k == 0 || k > standardMaxK {
		return standardReader{}, fmt.Errorf("filter block states %d hash functions", k)
	}
	return standardReader{bits: words, m: m, k: k}, nil
}

type standardReader struct {
	bits []byte
	m    uint64
	k    uint32
}

func (r *standardReader) MayContain(key []byte) bool {
	h := baseHashes(key)
	for i := range uint64(r.k) {
		bit := location(&h, i) % r.m
		if r.bits[bit>>3]>>(bit&7)&1 == 0 {
			return false
		}
	}
	return true
}

// location is the i-th hash location of the key with base hashes h, before it is taken modulo m. It is the library's choice: the
// first two base hashes in turn, plus i times one of the other two.
func location(h *[4]uint64, i uint64) uint64 { return h[i%2] + i*h[2+(i+i%2)%4/2] }

// baseHashes returns the library's four hashes of key: MurmurHash3 (x64, 128 bits, seed 0) of key, and of key with a byte 1 behind
// it. The library has no way to get them without an allocation for each key.
func baseHashes(key []byte) (h [4]uint64) {
	var h1, h2 uint64
	rest := key
	for len(rest) >= 16 {
		h1, h2 = murmurMix(h1, h2, binary.LittleEndian.Uint64(rest), binary.LittleEndian.Uint64(rest[8:]))
		rest = rest[16:]
	}
	var tail [16]byte
	n := copy(tail[:], rest)
	h[0], h[1] = murmurFinish(h1, h2, &tail, len(key))
	tail[n] = 1
	if n == 15 {
		h1, h2 = murmurMix(h1, h2, binary.LittleEndian.Uint64(tail[:]), binary.LittleEndian.Uint64(tail[8:]))
		tail = [16]byte{}
	}
	h[2], h[3] = murmurFinish(h1, h2, &tail, len(key)+1)
	return h
}

const (
	murmur1 = 0x87c37b91114253d5
	murmur2 = 0x4cf5ad432745937f
)

func murmurMix(h1, h2, k1, k2 uint64) (uint64, uint64) {
	h1 ^= bits.RotateLeft64(k1*murmur1, 31) * murmur2
	h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
	h2 ^= bits.RotateLeft64(k2*murmur2, 33) * murmur1
	h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	return h1, h2
}

// murmurFinish adds the last bytes, zeros behind them (which change nothing), and the length.
func murmurFinish(h1, h2 uint64, tail *[16]byte, length int) (uint64, uint64) {
	h1 ^= bits.RotateLeft64(binary.LittleEndian.Uint64(tail[:])*murmur1, 31) * murmur2
	h2 ^= bits.RotateLeft64(binary.LittleEndian.Uint64(tail[8:])*murmur2, 33) * murmur1
	h1 ^= uint64(length)
	h2 ^= uint64(length)
	h1 += h2
	h2 += h1
	h1, h2 = murmurSpread(h1), murmurSpread(h2)
	h1 += h2
	return h1, h2 + h1
}

func murmurSpread(k uint64) uint64 {
	k = (k ^ k>>33) * 0xff51afd7ed558ccd
	k = (k ^ k>>33) * 0xc4ceb9fe1a85ec53
	return k ^ k>>33
}
