package block

// The hash index of a data block: a point lookup goes to the one interval of restart points that can have its key,
// without a search.
//
//	| bucket u8 | ... | buckets u16 |
//
// A key's bucket is its hash modulo the number of buckets, which is odd. The bucket says in which interval the versions of
// the key are: all of the bucket's keys are in one, or it says clash. A clash, or a block without the index, is
// searched. A bucket that is free stands for keys that are not in the block.
//
// Numbers of intervals are bytes, so blocks of more than 253 intervals, and those beyond 64 KiB, have no hash index.

import (
	"encoding/binary"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/xxh3"
)

const (
	hashSeed     = 397
	bucketFree   = 255
	bucketClash  = 254
	maxIntervals = 253     // highest number of an interval in a bucket
	maxHashed    = 1 << 16 // bytes of a block that has a hash index
)

// hashBuilder collects what the hash index of a block is made of.
type hashBuilder struct {
	perKey  float64 // buckets for each key; 0: no hash indexes
	buckets float64
	full    bool // too many intervals
	keys    []hashedKey
}

type hashedKey struct {
	hash     uint32
	interval uint8
}

func (h *hashBuilder) reset() { h.buckets, h.full, h.keys = 0, false, h.keys[:0] }

func (h *hashBuilder) add(user []byte, interval int) {
	if interval > maxIntervals {
		h.full = true
	}
	if !h.full {
		h.keys = append(h.keys, hashedKey{xxh3.Hash32(user, hashSeed), uint8(interval)})
		h.buckets += h.perKey
	}
}

// count is how many buckets there would be now.
func (h *hashBuilder) count() int { return int(uint16(h.buckets)) | 1 }

// size is the length of the index, 0 if there will be none.
func (h *hashBuilder) size() int {
	if h.perKey == 0 || h.full {
		return 0
	}
	return h.count() + 2
}

func (h *hashBuilder) append(dst []byte) []byte {
	n := h.count()
	start := len(dst)
	for range n {
		dst = append(dst, bucketFree)
	}
	buckets := dst[start:]
	for _, k := range h.keys {
		switch b := &buckets[k.hash%uint32(n)]; *b {
		case bucketFree, k.interval:
			*b = k.interval
		default:
			*b = bucketClash
		}
	}
	return binary.LittleEndian.AppendUint16(dst, uint16(n))
}

// lookup returns where the walk for a user key begins, and a limit: a walk that gets there has found nothing, and a search
// has to follow. ok is false if there is nothing to be had but the search.
func (i *Iter) lookup(user []byte) (p, limit int, ok bool) {
	n := int(i.hash[xxh3.Hash32(user, hashSeed)%uint32(len(i.hash))])
	switch {
	case n == bucketFree:
		// The key is not here. What is to be told still is whether a larger one is.
		n = i.count - 1
	case n == bucketClash || n >= i.count:
		return 0, 0, false
	}
	limit = len(i.data)
	if n+1 < i.count {
		limit = i.restart(n + 1)
	}
	p = i.restart(n)
	return p, limit, p >= 0 && p < limit
}

// findHashed is find for a block with a hash index and the bytewise order.
func (i *Iter) findHashed(k kv.Key) (v int, t kv.Trailer, h how) {
	if p, limit, ok := i.lookup(k.User); ok {
		if v, t, h = i.findFrom(k, p, limit); h != nowhere || i.err != nil || limit == len(i.data) {
			return v, t, h
		}
	}
	return i.find(k)
}
