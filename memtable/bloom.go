package memtable

// A Bloom filter beside a memtable, which grows with it: of prefixes, of whole keys, or of both. Lookups of what is not
// there, and seeks within a prefix, end here instead of walking down the list.
//
//  1. Bits are set before the entry is linked: whoever can see an entry finds its bits. They are never cleared.
//  2. Any number of goroutines set bits at once, by atomic or.
//  3. All bits of a key are in one line of 64 bytes. Its size is fixed before the first insert, by what the memtable is
//     expected to take; beyond that the rate of false answers rises, and none gets wrong.
//
// Range deletes are not in it: they are asked first.

import (
	"sync/atomic"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/xxh3"
)

const (
	lineWords   = 8
	bloomProbes = 6
)

// Bloom is the filter of one memtable. A nil Bloom has everything.
type Bloom struct {
	whole  bool
	prefix kv.SliceTransform // nil: no prefixes
	lines  [][lineWords]atomic.Uint64
}

// NewBloom returns a filter of about so many bytes, or nil if there is nothing that it should hold, or no room.
func NewBloom(bytes int, wholeKeys bool, prefix kv.SliceTransform) *Bloom {
	if bytes <= 0 || !wholeKeys && prefix == nil {
		return nil
	}
	return &Bloom{whole: wholeKeys, prefix: prefix, lines: make([][lineWords]atomic.Uint64, (bytes+8*lineWords-1)/(8*lineWords))}
}

// Bytes is how much memory the filter takes.
func (b *Bloom) Bytes() int64 {
	if b == nil {
		return 0
	}
	return 8 * lineWords * int64(len(b.lines))
}

// add puts a key in.
func (b *Bloom) add(key []byte) {
	if b == nil {
		return
	}
	if b.whole {
		b.set(key)
	}
	if b.prefix != nil && b.prefix.InDomain(key) {
		b.set(b.prefix.Transform(key))
	}
}

// mayHaveKey is false if key was certainly not added.
func (b *Bloom) mayHaveKey(key []byte) bool {
	switch {
	case b == nil:
		return true
	case b.whole:
		return b.has(key)
	case b.prefix.InDomain(key):
		return b.has(b.prefix.Transform(key))
	}
	return true
}

// mayHavePrefix is false if certainly no key with the prefix was added.
func (b *Bloom) mayHavePrefix(prefix []byte) bool {
	return b == nil || b.prefix == nil || b.has(prefix)
}

// place returns the line of what is added, and a number whose bits from the top choose bits in it.
func (b *Bloom) place(what []byte) (line *[lineWords]atomic.Uint64, choice uint64) {
	h := xxh3.Hash64Preview(what)
	return &b.lines[uint64(uint32(h))*uint64(len(b.lines))>>32], h
}

const golden64 = 0x9E3779B97F4A7C15

func (b *Bloom) set(what []byte) {
	line, c := b.place(what)
	for range bloomProbes {
		word, bit := &line[c>>61], uint64(1)<<(c>>55&63)
		if word.Load()&bit == 0 { // mostly it is set already by the key before, where prefixes are many times the same
			word.Or(bit)
		}
		c *= golden64
	}
}

func (b *Bloom) has(what []byte) bool {
	line, c := b.place(what)
	for range bloomProbes {
		if line[c>>61].Load()>>(c>>55&63)&1 == 0 {
			return false
		}
		c *= golden64
	}
	return true
}
