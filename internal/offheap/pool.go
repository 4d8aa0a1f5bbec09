package offheap

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/ashlardb/ashlar/internal/invariants"
)

// A slab is in one place at a time, by how many of its slots are used:
//
//  1. none: in its class's list of warm slabs, whose pages are kept, or of cold ones, whose pages went back;
//  2. some: in the list for that number;
//  3. all: in no list. Its blocks know it.
//
// All of a slab but mem and class is guarded by its class's mu.

// spareBytes is how much of empty slabs a pool keeps resident.
const spareBytes = 1 << 20

// live counts blocks of all pools.
var live atomic.Int64

// Live returns how many blocks of all pools are in use: the test that nothing leaks.
func Live() int64 { return live.Load() }

// Block is a piece of memory in use. Who holds it gives it back with Pool.Free.
type Block struct {
	Bytes []byte // not zeroed; may be overwritten, up to its capacity
	slab  *slab
	slot  int
}

// Pool hands out blocks. Make one with NewPool; it is gone after Close and the last Free.
type Pool struct {
	classes  [classCount]class
	used     atomic.Int64 // bytes of slots in use
	resident atomic.Int64 // bytes of slabs whose pages are not given back
	spare    atomic.Int64 // of these, bytes of empty slabs
	slack    atomic.Int64 // how much of resident may be unused before freed slots give back pages of their own

	mu      sync.Mutex // a leaf
	regions [][]byte
	closing atomic.Bool
}

type class struct {
	mu     sync.Mutex
	size   int              // of a slot
	slots  int              // of a slab
	some   [slabSlots]*slab // by number of used slots
	filled uint32           // bit i: some[i] is not nil
	warm   *slab
	cold   *slab
	fresh  []byte // rest of the newest region
	mapped bool   // fresh is a mapping
}

type slab struct {
	class  *class
	mem    []byte
	mapped bool   // mem is part of a mapping, not of the heap
	free   uint32 // bit i: slot i is free
	gone   uint32 // bit i: slot i is free, and the whole pages inside it went back
	prev   *slab
	next   *slab
}

// NewPool returns a pool that has no memory yet.
func NewPool() *Pool {
	p := &Pool{}
	p.slack.Store(math.MaxInt64)
	for i := range p.classes {
		c := &p.classes[i]
		c.size, c.slots = classSize(i), slabSlots
		if c.size > largeFrom {
			c.slots = 1
		}
	}
	return p
}

// Used returns the bytes of all blocks in use, by the sizes of their slots.
func (p *Pool) Used() int64 { return p.used.Load() }

// Resident returns the bytes of memory that the pool keeps: blocks in use, free slots beside them, and a few spare slabs.
func (p *Pool) Resident() int64 { return p.resident.Load() }

// Alloc returns a block of n bytes with any content.
func (p *Pool) Alloc(n int) Block {
	c := &p.classes[classOf(n)]
	c.mu.Lock()
	s := c.take(p)
	slot := bits.TrailingZeros32(s.free)
	c.remove(s)
	s.free &^= 1 << slot
	if s.gone&(1<<slot) != 0 {
		s.gone &^= 1 << slot
		p.resident.Add(int64(len(s.pagesOf(slot))))
	}
	c.insert(s)
	c.mu.Unlock()
	p.used.Add(int64(c.size))
	live.Add(1)
	at := slot * c.size
	return Block{Bytes: s.mem[at : at+n : at+c.size], slab: s, slot: slot}
}

// Free takes b back. Nobody may look at its bytes any more.
func (p *Pool) Free(b Block) {
	s, c := b.slab, b.slab.class
	if invariants.Enabled {
		poison(s.mem[b.slot*c.size:][:c.size])
	}
	c.mu.Lock()
	if s.free&(1<<b.slot) != 0 {
		c.mu.Unlock()
		if invariants.Enabled {
			panic("offheap: block freed twice")
		}
		return
	}
	c.remove(s)
	s.free |= 1 << b.slot
	if s.used() > 0 {
		c.insert(s)
		if s.mapped && p.resident.Load()-p.used.Load() > p.slack.Load() {
			p.thin(s, b.slot)
		}
	} else {
		p.retire(s)
	}
	c.mu.Unlock()
	live.Add(-1)
	if p.used.Add(-int64(c.size)) == 0 && p.closing.Load() {
		p.unmap()
	}
}

// SetSlack bounds the memory that is resident and not in use, as far as whole pages allow: while there is more than n
// bytes of it, the pages inside each slot that is freed go back at once. It costs a system call, and page faults later. A
// new pool has no such bound.
func (p *Pool) SetSlack(n int64) { p.slack.Store(n) }

// Close lets the pool's addresses go as soon as no block is in use. No Alloc may follow.
func (p *Pool) Close() {
	p.closing.Store(true)
	if p.used.Load() == 0 {
		p.unmap()
	}
}

func (p *Pool) unmap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.regions {
		unmap(r)
	}
	p.regions = nil
	p.resident.Store(0)
}

// pagesOf returns the whole pages inside a slot.
func (s *slab) pagesOf(slot int) []byte {
	from := (slot*s.class.size + pageSize - 1) &^ (pageSize - 1)
	to := (slot + 1) * s.class.size &^ (pageSize - 1)
	return s.mem[from:max(from, to)]
}

// thin gives back the pages inside a free slot.
func (p *Pool) thin(s *slab, slot int) {
	if pages := s.pagesOf(slot); len(pages) > 0 && giveBack(pages) {
		s.gone |= 1 << slot
		p.resident.Add(-int64(len(pages)))
	}
}

func (s *slab) used() int { return s.class.slots - bits.OnesCount32(s.free) }

// take returns a slab with a free slot, which is in a list of c: the fullest one, or else an empty one.
func (c *class) take(p *Pool) *slab {
	if c.filled != 0 {
		return c.some[bits.Len32(c.filled)-1]
	}
	size := int64(c.size * c.slots)
	if s := c.warm; s != nil {
		c.warm, s.next = s.next, nil
		p.spare.Add(-size)
		return s
	}
	p.resident.Add(size)
	if s := c.cold; s != nil {
		c.cold, s.next = s.next, nil
		return s
	}
	if len(c.fresh) == 0 {
		n := regionSlabs
		if c.slots == 1 {
			n = 1
		}
		c.fresh, c.mapped = p.region(n * int(size))
	}
	s := &slab{class: c, mem: c.fresh[:size:size], mapped: c.mapped, free: 1<<c.slots - 1}
	c.fresh = c.fresh[size:]
	return s
}

// region returns n bytes, from the heap when the system maps no more.
func (p *Pool) region(n int) (b []byte, mapped bool) {
	b = reserve(n)
	if b == nil {
		return make([]byte, n), false
	}
	p.mu.Lock()
	p.regions = append(p.regions, b)
	p.mu.Unlock()
	return b, true
}

// retire keeps an empty slab for later, with its pages or without.
func (p *Pool) retire(s *slab) {
	c, size := s.class, int64(len(s.mem))
	for slot := range c.slots { // as if none had gone
		if s.gone&(1<<slot) != 0 {
			p.resident.Add(int64(len(s.pagesOf(slot))))
		}
	}
	s.gone = 0
	if p.spare.Add(size) <= spareBytes || !s.mapped || !giveBack(s.mem) {
		c.warm, s.next = s, c.warm
		return
	}
	p.spare.Add(-size)
	p.resident.Add(-size)
	c.cold, s.next = s, c.cold
}

// insert puts s into the list for its number of used slots, remove takes it out; neither does anything to a slab that is
// full or empty.
func (c *class) insert(s *slab) {
	n := s.used()
	if n == 0 || n == c.slots {
		return
	}
	s.prev, s.next = nil, c.some[n]
	if s.next != nil {
		s.next.prev = s
	}
	c.some[n] = s
	c.filled |= 1 << n
}

func (c *class) remove(s *slab) {
	n := s.used()
	if n == 0 || n == c.slots {
		return
	}
	if s.prev != nil {
		s.prev.next = s.next
	} else if c.some[n] = s.next; s.next == nil {
		c.filled &^= 1 << n
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
}

func poison(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}
