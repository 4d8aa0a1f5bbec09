package sstable

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/sstable/block"
)

// index is a table's index in memory: for each data block a key S with last key of the block <= S < first key of the
// next, and where the block is. It is the same whatever the index's form in the file, and two levels become one.
//
// All of it is flat arrays without pointers. For the bytewise order, prefixes has of each key the 8 bytes after those
// that all keys share, as a big-endian number: most searches end there and touch no key.
type index struct {
	cmp      *kv.Comparer
	userKeys bool // S is a user key: no user key's versions go over from one block to the next
	keys     []byte
	ends     []int32 // of key n in keys
	trailers []kv.Trailer
	handles  []block.Handle
	common   int
	prefixes []uint64
}

func (x *index) len() int { return len(x.handles) }

// user is the user key of entry n.
func (x *index) user(n int) []byte {
	start := int32(0)
	if n > 0 {
		start = x.ends[n-1]
	}
	return x.keys[start:x.ends[n]]
}

// maxIndexKeys is how many bytes of keys an index may have.
const maxIndexKeys = 1<<31 - 1

// add appends an entry. key is a user key or an internal one, as userKeys says. It is false when key is not in order
// or too short, or there are too many.
func (x *index) add(key []byte, h block.Handle) bool {
	user := key
	if !x.userKeys {
		k, ok := kv.ParseKey(key)
		if !ok {
			return false
		}
		user = k.User
		x.trailers = append(x.trailers, k.Trailer)
	}
	if n := x.len(); n > 0 && x.cmp.CompareUser(x.user(n-1), user) > 0 || len(user) > maxIndexKeys-len(x.keys) {
		return false
	}
	x.keys = append(x.keys, user...)
	x.ends = append(x.ends, int32(len(x.keys)))
	x.handles = append(x.handles, h)
	return true
}

// finish makes the index ready for seek.
func (x *index) finish() {
	n := x.len()
	if !x.cmp.IsBytewise() || n == 0 {
		return
	}
	first, last := x.user(0), x.user(n-1)
	for x.common < min(len(first), len(last)) && first[x.common] == last[x.common] {
		x.common++
	}
	x.prefixes = make([]uint64, n)
	for i := range x.prefixes {
		x.prefixes[i] = word(x.user(i)[x.common:])
	}
}

// word is the first 8 bytes of b, padded with zeros, as a number that orders like them.
func word(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b)
	}
	var w uint64
	for i, c := range b {
		w |= uint64(c) << (56 - 8*i)
	}
	return w
}

// seek returns the number of the first entry that is not below k, which is that of the only block where the first key at
// or after k can be; it is len() when there is none.
func (x *index) seek(k kv.Key) int {
	lo, hi := 0, x.len()
	if x.prefixes != nil {
		u := k.User
		if c := x.common; c > 0 {
			switch d := bytes.Compare(u[:min(c, len(u))], x.keys[:c]); {
			case d < 0:
				return 0
			case d > 0:
				return hi
			}
			u = u[c:]
		}
		w := word(u)
		p := x.prefixes
		for lo < hi {
			mid := int(uint(lo+hi) >> 1)
			if p[mid] < w {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		// Entries before lo are below. Those with the same word are to be told apart by their keys.
		hi = lo
		for step := 1; hi < len(p) && p[hi] == w; step *= 2 {
			hi += step
		}
		hi = min(hi, len(p))
	}
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		c := x.cmp.CompareUser(x.user(mid), k.User)
		if c < 0 || (c == 0 && !x.userKeys && x.trailers[mid] > k.Trailer) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// bytes is how much memory the index takes.
func (x *index) bytes() int64 {
	return int64(cap(x.keys)) + 4*int64(cap(x.ends)) + 8*int64(cap(x.trailers)+cap(x.prefixes)) + 16*int64(cap(x.handles))
}

// packedSize is how many bytes pack takes.
func (x *index) packedSize() int {
	n := x.len()
	return n*16 + (len(x.trailers)+len(x.prefixes))*8 + n*4 + len(x.keys)
}

// pack copies x's arrays into b, which lies at a multiple of 8 and is outside of the heap, and returns an index made of
// the copies. It is good as long as b is.
func (x *index) pack(b []byte) *index {
	p := *x
	p.handles, b = packed(x.handles, b)
	p.trailers, b = packed(x.trailers, b)
	p.prefixes, b = packed(x.prefixes, b)
	p.ends, b = packed(x.ends, b)
	p.keys, _ = packed(x.keys, b)
	return &p
}

// packed copies s to the front of b, and returns the copy and the rest. Nil stays nil.
func packed[T any](s []T, b []byte) ([]T, []byte) {
	if len(s) == 0 {
		return nil, b
	}
	to := unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(s))
	copy(to, s)
	return to, b[len(s)*int(unsafe.Sizeof(s[0])):]
}
