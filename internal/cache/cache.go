package cache

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ashlardb/ashlar/internal/invariants"
	"github.com/ashlardb/ashlar/internal/offheap"
)

// Key names a block: the cache's number for its table (NewID) and the block's offset in the file.
type Key struct{ ID, Offset uint64 }

func (k Key) hash() uint64 {
	hi, lo := bits.Mul64(k.ID^0x9e3779b97f4a7c15, k.Offset^0xd6e8feb86659fd93)
	return (hi ^ lo) * 0xa0761d6478bd642f
}

// Class says what a block is. Counts are kept for each.
type Class uint8

// The classes.
const (
	Data Class = iota
	Index
	Filter
	Dictionary
	Classes // how many there are
)

func (c Class) String() string { return [...]string{"data", "index", "filter", "dictionary"}[c] }

// Options of a cache.
type Options struct {
	// Capacity is how many bytes of blocks the cache keeps at most. With 0 it keeps none.
	Capacity int64
	// StrictCapacityLimit makes a read that brings in a block for which there is no room, since all others are in use, fail
	// with ErrIncomplete. Without it the read is served, and the block is not kept. Room is counted in each of up to 64
	// parts of the cache, so one may be full before the whole is.
	StrictCapacityLimit bool
	// HighPriorityPoolRatio is the part of the capacity in which index and filter blocks are kept before any data block
	// is. 0.5 by default; below 0 it is none. Beyond it they have the same rights as data blocks.
	HighPriorityPoolRatio float64
}

// Cache maps keys to values. All methods may be called from many goroutines.
type Cache struct{ *store }

// store is all of a Cache. Values refer to it and not to the Cache, so that a Cache nobody refers to can be noticed.
type store struct {
	shards   []shard // a power of two of them
	shift    int     // of a hash, to a shard's number
	pool     *offheap.Pool
	values   sync.Pool
	capacity atomic.Int64
	strict   bool
	high     float64 // part of the capacity for values of high priority
	next     atomic.Uint64
}

const (
	maxShards    = 64
	minShardRoom = 2 << 20
)

// New returns a cache that keeps at most capacity bytes of blocks. With 0 it keeps none.
func New(capacity int64) *Cache { return NewWith(Options{Capacity: capacity}) }

// NewWith returns a cache with options.
func NewWith(o Options) *Cache {
	capacity := o.Capacity
	n := 1
	for n < maxShards && capacity/int64(2*n) >= minShardRoom {
		n *= 2
	}
	s := &store{shards: make([]shard, n), shift: 64 - bits.Len(uint(n-1)), pool: offheap.NewPool()}
	s.strict, s.high = o.StrictCapacityLimit, min(max(o.HighPriorityPoolRatio, 0), 1)
	if o.HighPriorityPoolRatio == 0 {
		s.high = 0.5
	}
	for i := range s.shards {
		b := make([]atomic.Pointer[Value], minBuckets)
		s.shards[i].buckets.Store(&b)
	}
	s.setCapacity(capacity)
	c := &Cache{s}
	runtime.AddCleanup(c, (*store).abandon, s)
	return c
}

// NewID returns a number that no table in this cache has had. It is not 0.
func (c *Cache) NewID() uint64 { return c.next.Add(1) }

// Capacity returns how many bytes the cache may keep.
func (c *Cache) Capacity() int64 { return c.capacity.Load() }

// Strict tells whether a block that has no room is an error.
func (c *Cache) Strict() bool { return c.strict }

// SetCapacity changes how many bytes the cache may keep, and evicts what is too much and not in use.
func (c *Cache) SetCapacity(n int64) {
	c.setCapacity(n)
	for i := range c.shards {
		sh := &c.shards[i]
		sh.mu.Lock()
		c.makeRoomLocked(sh, 0)
		sh.mu.Unlock()
	}
	runtime.KeepAlive(c)
}

func (s *store) setCapacity(n int64) {
	n = max(n, 0)
	s.capacity.Store(n)
	s.pool.SetSlack(spareMemory + n/32)
}

// Usage returns how many bytes the cache keeps, overhead included.
func (c *Cache) Usage() int64 {
	var n int64
	for i := range c.shards {
		sh := &c.shards[i]
		sh.mu.Lock()
		n += sh.usage
		sh.mu.Unlock()
	}
	return n
}

// PinnedUsage returns how many bytes somebody uses, whether the cache keeps them or not. It looks at every value.
func (c *Cache) PinnedUsage() int64 {
	pinned := c.pool.Used()
	for i := range c.shards {
		sh := &c.shards[i]
		sh.mu.Lock()
		b := *sh.buckets.Load()
		for j := range b {
			for v := b[j].Load(); v != nil; v = v.next.Load() {
				if v.refs.Load() == 1 {
					pinned -= int64(cap(v.block.Bytes))
				}
			}
		}
		sh.mu.Unlock()
	}
	return max(pinned, 0)
}

// Stats counts what a cache has done since it was made. Who calls Get counts hits and misses: a cache that several use
// would only know the sum.
type Stats struct {
	Inserts   uint64 // values that Set kept
	Evictions uint64
	Refused   uint64 // values that Set did not keep, for want of room
	Count     int    // values that are kept now
	Entries   [Classes]ClassStats
}

// ClassStats are the values of one class that are kept now.
type ClassStats struct {
	Count int
	Bytes int64 // overhead included
}

// Stats returns the cache's counts. They are read one after the other while others go on.
func (c *Cache) Stats() Stats {
	var s Stats
	for i := range c.shards {
		sh := &c.shards[i]
		sh.mu.Lock()
		s.Inserts += sh.inserts
		s.Evictions += sh.evicted
		s.Refused += sh.refused
		s.Count += sh.count
		for class := range sh.classes {
			s.Entries[class].Count += sh.classes[class].Count
			s.Entries[class].Bytes += sh.classes[class].Bytes
		}
		sh.mu.Unlock()
	}
	return s
}

// Resident returns how many bytes of memory the cache's blocks take, kept or in use, with free room beside them.
func (c *Cache) Resident() int64 { return c.pool.Resident() }

// Alloc returns a value of n bytes to be filled, with one reference. Until it is given to Set, it is its caller's alone.
func (c *Cache) Alloc(n int) *Value {
	v, _ := c.values.Get().(*Value)
	if v == nil {
		v = &Value{home: c.store}
	}
	v.block = c.pool.Alloc(n)
	v.refs.Store(1)
	runtime.KeepAlive(c)
	return v
}

// free takes v, to which nobody has a reference.
func (s *store) free(v *Value) {
	v.id.Store(0)
	v.Class, v.High = Data, false
	block := v.block
	v.block = offheap.Block{}
	s.pool.Free(block)
	if !invariants.Enabled { // where one Release too many shall be noticed
		s.values.Put(v)
	}
}

// Get returns the value at k with a new reference, or nil.
func (c *Cache) Get(k Key) *Value {
	hash := k.hash()
	return c.shard(hash).get(k, hash)
}

// Touch loads what a Get of k begins with. The loads of many Touches in a row run at the same time, while each Get waits
// for its own. The result only keeps the loads alive.
func (c *Cache) Touch(k Key) (loaded uint64) {
	hash := k.hash()
	if v := c.shard(hash).bucket(hash).Load(); v != nil {
		loaded = v.id.Load()
	}
	return loaded
}

// Outcome is what Set did.
type Outcome uint8

// The outcomes.
const (
	Kept     Outcome = iota // the value is in the cache
	WasThere                // the value or another one was at the key, and stays
	NoRoom                  // the value is not kept: all others are in use, or it is too large
)

// Set puts v into the cache. The caller keeps its reference, and does not change the bytes any more.
func (c *Cache) Set(k Key, v *Value) (o Outcome) {
	hash := k.hash()
	sh := c.shard(hash)
	sh.mu.Lock()
	switch {
	case v.id.Load() != 0 || sh.findLocked(k, hash) != nil:
		o = WasThere
	case !c.makeRoomLocked(sh, v.charge()):
		sh.refused++
		o = NoRoom
	default:
		if v.High && sh.high+v.charge() > int64(c.high*float64(c.room())) {
			v.High = false
		}
		sh.insertLocked(k, hash, v)
	}
	sh.mu.Unlock()
	runtime.KeepAlive(c)
	return o
}

// Erase takes the value at k out of the cache. Those who use it keep it.
func (c *Cache) Erase(k Key) {
	hash := k.hash()
	sh := c.shard(hash)
	sh.mu.Lock()
	v := sh.findLocked(k, hash)
	if v != nil {
		sh.unlinkLocked(v)
	}
	sh.mu.Unlock()
	if v != nil {
		v.Release()
	}
}

func (s *store) shard(hash uint64) *shard { return &s.shards[hash>>s.shift] }

// room returns how many bytes a shard may keep. Free slots beyond a sixteenth of the capacity are taken off, down to half
// of it, so that memory stays within the capacity while the sizes of blocks change.
func (s *store) room() int64 {
	capacity := s.capacity.Load()
	wasted := s.pool.Resident() - s.pool.Used() - spareMemory
	if over := wasted - capacity/16; over > 0 {
		capacity -= min(over, capacity/2)
	}
	return capacity / int64(len(s.shards))
}

// spareMemory is what the pool keeps for the next blocks, whatever the capacity.
const spareMemory = 1 << 20

// makeRoomLocked evicts until charge more bytes fit into sh. It returns false if they do not, because they never would, or
// all others are in use.
func (s *store) makeRoomLocked(sh *shard, charge int64) bool {
	if charge > s.room() {
		return false
	}
	for sh.usage+charge > s.room() {
		v := sh.evictLocked()
		if v == nil {
			return false
		}
		s.free(v)
	}
	return true
}

// abandon frees what a Cache kept that nobody can reach any more. Values in use live on.
func (s *store) abandon() {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		var kept []*Value
		b := *sh.buckets.Load()
		for j := range b {
			for v := b[j].Load(); v != nil; v = b[j].Load() {
				sh.unlinkLocked(v)
				kept = append(kept, v)
			}
		}
		sh.mu.Unlock()
		for _, v := range kept {
			v.Release()
		}
	}
	s.pool.Close()
}
