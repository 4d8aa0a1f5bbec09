package sstable

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/sstable/block"
)

// index is one block of a table's index in memory: for each block that it names a key S with last key of the block <= S <
// first key of the next, and where the block is. It is the same whatever its form in the file. Of an index of two levels
// the upper one and each partition is an index of its own.
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
	spare    []uint64 // where prefixes go, from before reset
	lone     bool     // it has one entry, for all keys, without a key of its own
}

// loneIndex is the upper level of an index, or of a filter, that is left to the cache as one block.
func loneIndex(h block.Handle) index { return index{handles: []block.Handle{h}, lone: true} }

// reset makes x empty, for add. Its arrays are kept.
func (x *index) reset(cmp *kv.Comparer, userKeys bool) {
	*x = index{
		cmp: cmp, userKeys: userKeys,
		keys: x.keys[:0], ends: x.ends[:0], trailers: x.trailers[:0], handles: x.handles[:0], spare: x.prefixes[:0],
	}
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
	x.prefixes = slices.Grow(x.spare, n)[:n]
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
	if x.lone {
		return 0
	}
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

// An image is an index in one piece of memory, as it lies in the cache. It never leaves the process, so numbers are in the
// machine's own order, and the arrays are used in place.
//
//	| entries, common, prefixes, trailers u64 | handles | prefixes u64 | trailers u64 | ends u32 | keys |
const imageHeader = 4 * 8

func (x *index) imageSize() int {
	return imageHeader + 16*len(x.handles) + 8*(len(x.prefixes)+len(x.trailers)) + 4*len(x.ends) + len(x.keys)
}

// store writes the image to b, which has its size.
func (x *index) store(b []byte) {
	for i, n := range [...]int{len(x.handles), x.common, len(x.prefixes), len(x.trailers)} {
		binary.NativeEndian.PutUint64(b[8*i:], uint64(n))
	}
	var y index
	y.view(b, x.cmp, x.userKeys)
	copy(y.handles, x.handles)
	copy(y.prefixes, x.prefixes)
	copy(y.trailers, x.trailers)
	copy(y.ends, x.ends)
	copy(y.keys, x.keys)
}

// view makes x the index whose image is b, and which lives in b.
func (x *index) view(b []byte, cmp *kv.Comparer, userKeys bool) {
	n := int(binary.NativeEndian.Uint64(b))
	*x = index{cmp: cmp, userKeys: userKeys, common: int(binary.NativeEndian.Uint64(b[8:]))}
	prefixes, trailers := int(binary.NativeEndian.Uint64(b[16:])), int(binary.NativeEndian.Uint64(b[24:]))
	b = b[imageHeader:]
	x.handles, b = array[block.Handle](b, n)
	if x.prefixes, b = array[uint64](b, prefixes); prefixes == 0 {
		x.prefixes = nil
	}
	x.trailers, b = array[kv.Trailer](b, trailers)
	x.ends, x.keys = array[int32](b, n)
}

// array takes n elements from the front of b, which is aligned for them.
func array[T any](b []byte, n int) (a []T, rest []byte) {
	var one T
	size := n * int(unsafe.Sizeof(one))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n), b[size:]
}
