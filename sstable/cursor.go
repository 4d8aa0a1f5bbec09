package sstable

import (
	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/sstable/block"
)

// A cursor stands on an entry of a table's index: on a data block. Where the index has two levels it holds the partition
// that it is in, a block of the cache, and gets the next one when it leaves it.
//
//  1. x is the table's index, or, of two levels, own: a view of v, the partition p.
//  2. The methods that move tell whether there is such an entry. After false or an error only first, last and seek may be called.
type cursor struct {
	r    *Reader
	how  fetch
	x    *index
	n    int // the entry in x
	p    int // the partition
	own  index
	v    *cache.Value
	some bool // v is partition p
}

func (c *cursor) init(r *Reader, how fetch) {
	c.r, c.how, c.n, c.p = r, how, 0, 0
	c.x = &r.index
	if r.twoLevel {
		c.x = &c.own
	}
}

// release gives back the partition that the cursor holds.
func (c *cursor) release() {
	if c.some {
		c.v.Release()
		c.v, c.some, c.own = nil, false, index{}
	}
}

func (c *cursor) handle() block.Handle { return c.x.handles[c.n] }

// part makes partition p the one that the cursor is in.
func (c *cursor) part(p int) error {
	if c.some && c.p == p {
		return nil
	}
	c.release()
	v, err := c.r.partition(p, &c.own, c.how)
	if err != nil {
		return err
	}
	c.v, c.p, c.some = v, p, true
	return nil
}

// partition makes x a view of partition p of the index. It lives until the value is released.
func (r *Reader) partition(p int, x *index, how fetch) (*cache.Value, error) {
	v, err := r.block(r.index.handles[p], cache.Index, how)
	if err == nil {
		x.view(v.Bytes(), r.cmp, r.index.userKeys)
	}
	return v, err
}

// seek goes to the first entry that is not below k.
func (c *cursor) seek(k kv.Key) (bool, error) {
	if !c.r.twoLevel {
		c.n = c.x.seek(k)
		return c.n < c.x.len(), nil
	}
	p := c.r.index.seek(k)
	if p == c.r.index.len() {
		return false, nil
	}
	if err := c.part(p); err != nil {
		return false, err
	}
	c.n = c.x.seek(k) - 1
	return c.next()
}

// first goes to the first entry.
func (c *cursor) first() (bool, error) {
	c.n = -1
	if !c.r.twoLevel {
		return c.next()
	}
	if c.r.index.len() == 0 {
		return false, nil
	}
	if err := c.part(0); err != nil {
		return false, err
	}
	return c.next()
}

// last goes to the last entry.
func (c *cursor) last() (bool, error) {
	if c.r.twoLevel {
		if c.r.index.len() == 0 {
			return false, nil
		}
		if err := c.part(c.r.index.len() - 1); err != nil {
			return false, err
		}
	}
	c.n = c.x.len()
	return c.prev()
}

// next goes to the entry after this one.
func (c *cursor) next() (bool, error) {
	for c.n++; c.n >= c.x.len(); c.n = 0 {
		if !c.r.twoLevel || c.p+1 >= c.r.index.len() {
			return false, nil
		}
		if err := c.part(c.p + 1); err != nil {
			return false, err
		}
	}
	return true, nil
}

// prev goes to the entry before this one.
func (c *cursor) prev() (bool, error) {
	for c.n--; c.n < 0; c.n = c.x.len() - 1 {
		if !c.r.twoLevel || c.p == 0 {
			return false, nil
		}
		if err := c.part(c.p - 1); err != nil {
			return false, err
		}
	}
	return true, nil
}
