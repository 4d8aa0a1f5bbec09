package iterator

import (
	"bytes"
	"sort"

	"github.com/ashlardb/ashlar/internal/kv"
)

// Concat is an iterator over a sorted run: tables in order, of which no two overlap in internal keys (two may share a
// user key at their boundary). At most one table is open, and it stays open until another is wanted.
//
//  1. at is where the caller stands: -1 before the first table, n behind the last, else the table that holds the entry.
//  2. it is the open iterator, on table opened (-1: none). When at is a table, opened == at and it stands in it.
//  3. After an error no table is touched before the next positioning call.
type Concat struct {
	cmp    *kv.Comparer
	n      int
	bounds func(i int) (smallest, largest kv.Key)
	open   func(i int) (kv.Iterator, error)

	at     int
	opened int
	it     kv.Iterator
	err    error
}

// NewConcat returns an iterator over n tables. bounds gives the first and the last internal key of table i; they may
// be wider than what is there, never narrower. open opens table i and is called again when the iterator comes back to
// a table it has left; its result is closed by Concat. Nothing is opened before the first positioning call.
func NewConcat(cmp *kv.Comparer, n int, bounds func(i int) (smallest, largest kv.Key), open func(i int) (kv.Iterator, error)) *Concat {
	c := new(Concat)
	c.Init(cmp, n, bounds, open)
	return c
}

// Init is NewConcat in place, for owners that keep their iterators' memory.
func (c *Concat) Init(cmp *kv.Comparer, n int, bounds func(i int) (smallest, largest kv.Key), open func(i int) (kv.Iterator, error)) {
	*c = Concat{cmp: cmp, n: n, bounds: bounds, open: open, opened: -1}
}

// First positions at the first entry.
func (c *Concat) First() *kv.Entry {
	c.err = nil
	return c.forward(0)
}

// Last positions at the last entry.
func (c *Concat) Last() *kv.Entry {
	c.err = nil
	return c.backward(c.n - 1)
}

// SeekGE positions at the first entry with key >= k. With a prefix it goes on to the next table only while that one
// begins with the prefix: keys with one prefix lie side by side in every order for which prefixes may be used.
func (c *Concat) SeekGE(k kv.Key, prefix []byte) *kv.Entry {
	c.err = nil
	i := sort.Search(c.n, func(i int) bool {
		_, largest := c.bounds(i)
		return c.cmp.CompareKeys(largest, k) >= 0
	})
	for ; i < c.n; i++ {
		if !c.use(i) {
			return nil
		}
		if e := c.it.SeekGE(k, prefix); e != nil {
			return e
		}
		if c.failed() {
			return nil
		}
		if prefix != nil && i+1 < c.n {
			if smallest, _ := c.bounds(i + 1); !bytes.HasPrefix(smallest.User, prefix) {
				break
			}
		}
	}
	c.at = c.n
	return nil
}

// SeekLT positions at the last entry with key < k.
func (c *Concat) SeekLT(k kv.Key) *kv.Entry {
	c.err = nil
	i := sort.Search(c.n, func(i int) bool {
		smallest, _ := c.bounds(i)
		return c.cmp.CompareKeys(smallest, k) >= 0
	}) - 1
	if i < 0 {
		c.at = -1
		return nil
	}
	if !c.use(i) {
		return nil
	}
	if e := c.it.SeekLT(k); e != nil {
		return e
	}
	if c.failed() {
		return nil
	}
	return c.backward(i - 1)
}

// Next moves to the next entry.
func (c *Concat) Next() *kv.Entry {
	switch {
	case c.err != nil || c.at == c.n:
		return nil
	case c.at < 0:
		return c.forward(0)
	}
	if e := c.it.Next(); e != nil {
		return e
	}
	if c.failed() {
		return nil
	}
	return c.forward(c.at + 1)
}

// Prev moves to the previous entry.
func (c *Concat) Prev() *kv.Entry {
	switch {
	case c.err != nil || c.at < 0:
		return nil
	case c.at == c.n:
		return c.backward(c.n - 1)
	}
	if e := c.it.Prev(); e != nil {
		return e
	}
	if c.failed() {
		return nil
	}
	return c.backward(c.at - 1)
}

// Err returns the error that ended the walk.
func (c *Concat) Err() error { return c.err }

// Close closes the open table.
func (c *Concat) Close() error {
	c.leave()
	return c.err
}

// forward stands on the first entry of table i or of those after it.
func (c *Concat) forward(i int) *kv.Entry {
	for ; i < c.n; i++ {
		if !c.use(i) {
			return nil
		}
		if e := c.it.First(); e != nil {
			return e
		}
		if c.failed() {
			return nil
		}
	}
	c.at = c.n
	return nil
}

// backward stands on the last entry of table i or of those before it.
func (c *Concat) backward(i int) *kv.Entry {
	for ; i >= 0; i-- {
		if !c.use(i) {
			return nil
		}
		if e := c.it.Last(); e != nil {
			return e
		}
		if c.failed() {
			return nil
		}
	}
	c.at = -1
	return nil
}

// use makes table i the open one. It is false when that fails.
func (c *Concat) use(i int) bool {
	c.at = i
	if c.opened == i {
		return true
	}
	if c.leave(); c.err != nil {
		return false
	}
	it, err := c.open(i)
	if err != nil {
		c.err = err
		return false
	}
	c.it, c.opened = it, i
	return true
}

// leave closes the open table, if there is one.
func (c *Concat) leave() {
	if c.it == nil {
		return
	}
	err := c.it.Close()
	c.it, c.opened = nil, -1
	if c.err == nil {
		c.err = err
	}
}

// failed notes the open table's error, if it has one.
func (c *Concat) failed() bool {
	c.err = c.it.Err()
	return c.err != nil
}
