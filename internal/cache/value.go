package cache

import (
	"sync/atomic"

	"github.com/ashlardb/ashlar/internal/invariants"
	"github.com/ashlardb/ashlar/internal/offheap"
)

// valueOverhead is charged for each value on top of its slot: the Value and its share of the buckets.
const valueOverhead = 128

// maxUsed is the highest count of hits that the hand honours.
const maxUsed = 3

// Value is one block's bytes with a count of who uses them. Alloc gives it with one reference, and Get with one more;
// each is given back by Release. After the last Release the bytes are gone.
//
// A Value is used again for other blocks. So a Get that finds one in a bucket first takes a reference, which it gets only
// while there are others, and then looks at the key again: under a reference, a key changes from none to one, once.
type Value struct {
	refs  atomic.Int32
	used  atomic.Uint32 // hits that the hand has not seen, up to maxUsed
	id    atomic.Uint64 // of its Key; 0 until Set
	off   atomic.Uint64
	next  atomic.Pointer[Value] // in its bucket
	block offheap.Block
	home  *store

	// Set before Set; zero in a new value.
	Class Class
	High  bool // stays when others can go

	// What Get and Bytes touch is in the first 64 bytes; with 128, a Value does not lie across lines that it need not.
	_ [40]byte
}

// Bytes returns the block. It lives until the caller's Release.
func (v *Value) Bytes() []byte { return v.block.Bytes }

// Retain adds one reference, for somebody who has one.
func (v *Value) Retain() {
	if n := v.refs.Add(1); invariants.Enabled && n <= 1 {
		panic("cache: value retained after its last Release")
	}
}

// Release gives back one reference.
func (v *Value) Release() {
	if n := v.refs.Add(-1); n == 0 {
		v.home.free(v)
	} else if invariants.Enabled && n < 0 {
		panic("cache: value released once too often")
	}
}

// acquire adds one reference if there is one.
func (v *Value) acquire() bool {
	for {
		n := v.refs.Load()
		if n <= 0 {
			return false
		}
		if v.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (v *Value) is(k Key) bool { return v.id.Load() == k.ID && v.off.Load() == k.Offset }

// touch counts a hit. Some are lost when they come at the same time.
func (v *Value) touch() {
	if n := v.used.Load(); n < maxUsed {
		v.used.Store(n + 1)
	}
}

func (v *Value) charge() int64 { return int64(cap(v.block.Bytes)) + valueOverhead }
