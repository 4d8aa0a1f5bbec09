package cache

import (
	"sync"
	"sync/atomic"
)

// A shard is a hash table whose buckets are lists through Value.next. Whoever changes it holds mu; Get walks it without.
//
//  1. A value that the table has counts the table's reference, and has its key before it is linked.
//  2. A list never has a circle, also not for a reader who stands on a value that has left it or was moved.
//  3. So a reader ends, and returns the right value or none. It may miss a value that is there when the list changes
//     under it.
type shard struct {
	buckets atomic.Pointer[[]atomic.Pointer[Value]] // a power of two of them
	_       [56]byte

	mu      sync.Mutex
	usage   int64 // charges of the table's values
	high    int64 // of these, of values of high priority
	count   int
	hand    int // the bucket that eviction looks at next
	inserts uint64
	evicted uint64
	refused uint64
	classes [Classes]ClassStats
	flights *Flight // reads of blocks under way
	_       [56]byte
}

const minBuckets = 16

func (s *shard) bucket(hash uint64) *atomic.Pointer[Value] {
	b := *s.buckets.Load()
	return &b[hash&uint64(len(b)-1)]
}

// get returns the value at k with a new reference, or nil.
func (s *shard) get(k Key, hash uint64) *Value {
	for v := s.bucket(hash).Load(); v != nil; v = v.next.Load() {
		if !v.is(k) || !v.acquire() {
			continue
		}
		if v.is(k) {
			v.touch()
			return v
		}
		v.Release() // it was evicted, and is another block's now
		break
	}
	return nil
}

func (s *shard) findLocked(k Key, hash uint64) *Value {
	for v := s.bucket(hash).Load(); v != nil; v = v.next.Load() {
		if v.is(k) {
			return v
		}
	}
	return nil
}

func (s *shard) insertLocked(k Key, hash uint64, v *Value) {
	v.refs.Add(1)
	v.used.Store(1)
	if v.Class != Data { // a miss costs more than one of a data block, and comes with each read of the table
		v.used.Store(maxUsed)
	}
	v.off.Store(k.Offset)
	v.id.Store(k.ID)
	b := s.bucket(hash)
	v.next.Store(b.Load())
	b.Store(v)
	s.accountLocked(v, v.charge(), 1)
	s.inserts++
	if s.count++; s.count > len(*s.buckets.Load()) {
		s.growLocked()
	}
}

// unlinkLocked takes v out of the table, which keeps its reference for the caller to drop.
func (s *shard) unlinkLocked(v *Value) {
	at := s.bucket(Key{v.id.Load(), v.off.Load()}.hash())
	for at.Load() != v {
		at = &at.Load().next
	}
	at.Store(v.next.Load())
	s.accountLocked(v, -v.charge(), -1)
	s.count--
}

func (s *shard) accountLocked(v *Value, bytes int64, count int) {
	s.usage += bytes
	if v.High {
		s.high += bytes
	}
	s.classes[v.Class].Bytes += bytes
	s.classes[v.Class].Count += count
}

// growLocked doubles the buckets. Values move one by one, from the front of the old lists to the front of the new ones, so
// that no moved value leads to one that has not moved.
func (s *shard) growLocked() {
	old := *s.buckets.Load()
	grown := make([]atomic.Pointer[Value], 2*len(old))
	for i := range old {
		for v := old[i].Load(); v != nil; {
			next := v.next.Load()
			b := &grown[Key{v.id.Load(), v.off.Load()}.hash()&uint64(len(grown)-1)]
			v.next.Store(b.Load())
			b.Store(v)
			v = next
		}
	}
	s.buckets.Store(&grown)
}

// evictLocked takes one value that nobody uses out of the table, and returns it without any reference; or nil when all are
// in use. One of high priority goes only when no other can.
func (s *shard) evictLocked() *Value {
	if s.count == 0 {
		return nil
	}
	v := s.sweepLocked(false)
	if v == nil && s.high > 0 {
		v = s.sweepLocked(true)
	}
	return v
}

func (s *shard) sweepLocked(high bool) *Value {
	if !high && s.high == s.usage {
		return nil
	}
	b := *s.buckets.Load()
	// Everyone has lost all hits after maxUsed rounds. With many values that takes too long for the one who waits, and
	// then their hits do not count.
	const patience = 1024
	idle := 0 // seen without users
	for round := 0; round <= maxUsed && (round == 0 || idle > 0); round++ {
		for range b {
			for v := b[s.hand].Load(); v != nil; v = v.next.Load() {
				if v.refs.Load() != 1 || v.High && !high {
					continue
				}
				idle++
				if n := v.used.Load(); n > 0 && idle < patience {
					v.used.Store(n - 1)
				} else if v.refs.CompareAndSwap(1, 0) { // else a Get was faster
					s.unlinkLocked(v)
					s.evicted++
					return v
				}
			}
			s.hand = (s.hand + 1) & (len(b) - 1)
		}
	}
	return nil
}
