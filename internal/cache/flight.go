package cache

import (
	"runtime"
	"sync"
)

// Flight is a read of a block that is under way. Others who want the same block wait for it instead of reading too.
//
//  1. A flight is in its shard's list from Join to Land, with the shard's mu held for both. There is at most one for a key.
//  2. It belongs to who began it. Those who wait touch it only after done is closed, and it is not used again then.
//  3. Who has begun a flight of a data block waits for no other of one until he has landed it: TryJoin begins several.
//  4. Who waits is given the owner's value or error, whether the cache kept the value or not.
type Flight struct {
	key     Key
	next    *Flight
	waiters int32
	done    chan struct{} // made by the first who waits
	value   *Value
	err     error
}

var flights = sync.Pool{New: func() any { return new(Flight) }}

// Join is for who got nothing from Get and wants to read the block at k. Either it returns a flight: then the caller
// reads the block and calls Land, whatever happens. Or it returns what another one has read meanwhile, waiting for him if
// need be: a value with a new reference, or his error.
func (c *Cache) Join(k Key) (v *Value, mine *Flight, err error) {
	hash := k.hash()
	sh := c.shard(hash)
	sh.mu.Lock()
	if v := sh.get(k, hash); v != nil {
		sh.mu.Unlock()
		return v, nil, nil
	}
	f := sh.flightLocked(k)
	if f == nil {
		f = sh.beginLocked(k)
		sh.mu.Unlock()
		return nil, f, nil
	}
	if f.done == nil {
		f.done = make(chan struct{})
	}
	f.waiters++
	sh.mu.Unlock()
	<-f.done
	return f.value, nil, f.err
}

// TryJoin begins a flight too, unless the block is in the cache or another one reads it: then it returns nil, and does not
// wait.
func (c *Cache) TryJoin(k Key) (mine *Flight) {
	hash := k.hash()
	sh := c.shard(hash)
	sh.mu.Lock()
	if sh.findLocked(k, hash) == nil && sh.flightLocked(k) == nil {
		mine = sh.beginLocked(k)
	}
	sh.mu.Unlock()
	return mine
}

func (s *shard) flightLocked(k Key) *Flight {
	for f := s.flights; f != nil; f = f.next {
		if f.key == k {
			return f
		}
	}
	return nil
}

func (s *shard) beginLocked(k Key) *Flight {
	f := flights.Get().(*Flight)
	*f = Flight{key: k, next: s.flights}
	s.flights = f
	return f
}

// Land ends a flight with the value that was read, or why there is none. The caller keeps its reference to v.
func (c *Cache) Land(f *Flight, v *Value, err error) {
	sh := c.shard(f.key.hash())
	sh.mu.Lock()
	at := &sh.flights
	for *at != f {
		at = &(*at).next
	}
	*at = f.next
	sh.mu.Unlock()
	if f.done == nil {
		flights.Put(f)
		return
	}
	f.value, f.err = v, err
	if v != nil {
		for range f.waiters {
			v.Retain()
		}
	}
	close(f.done)
	runtime.KeepAlive(c)
}
