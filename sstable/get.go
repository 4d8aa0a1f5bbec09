package sstable

import (
	"errors"
	"sync"

	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
	"github.com/ashlardb/ashlar/sstable/block"
)

// ErrNotCached is what a read of the cache only gives when it would need the file.
var ErrNotCached = errors.New("block is not in the cache")

// Get shows g the versions of its key in this table, newest first, until g has enough. g then holds the blocks that its
// value and its operands lie in. skipFilter leaves the filter unasked.
//
// The walk is straight: filter, index, block, entry. It builds no iterator and allocates nothing when the block is
// cached; the block's walk lives on this stack.
func (r *Reader) Get(g *lookup.Get, skipFilter bool) error {
	if f := r.filter; f != nil && !skipFilter && !f.MayContain(g.User) {
		if r.stats != nil {
			r.stats.FilterNo.Add(1)
		}
		return nil
	}
	if r.cmp.IsBytewise() {
		var it block.Iter
		return r.get(g, &it)
	}
	// Other orders have keys built while they are compared; the pool keeps the buffers.
	it := blockIters.Get().(*block.Iter)
	err := r.get(g, it)
	it.Drop()
	blockIters.Put(it)
	return err
}

var blockIters = sync.Pool{New: func() any { return new(block.Iter) }}

func (r *Reader) get(g *lookup.Get, it *block.Iter) error {
	k := kv.SeekKey(g.User, g.Seq)
	for n := r.index.seek(k); n < r.index.len(); n++ {
		h := r.index.handles[n]
		v, err := r.blockFor(g, h)
		if err != nil {
			return err
		}
		if err := it.Init(r.cmp, v.Bytes(), r.seq); err != nil {
			v.Release()
			return r.blockError(h, err)
		}
		before := g.Operands()
		t, value, found, more := it.Find(k)
		for found {
			if !g.Offer(t, value) || t == 0 {
				hold(g, v, before)
				return nil
			}
			k.Trailer = t - 1
			t, value, found, more = it.Find(k)
		}
		hold(g, v, before)
		if err := it.Err(); err != nil {
			return r.blockError(h, err)
		}
		// Older versions are in the next block only if this one ends inside the key.
		if !more || r.index.userKeys || r.cmp.CompareUser(r.index.user(n), g.User) != 0 {
			return nil
		}
	}
	return nil
}

// blockFor returns a data block as g wants it read.
func (r *Reader) blockFor(g *lookup.Get, h block.Handle) (*cache.Value, error) {
	if g.CacheOnly {
		if v := r.cache.Get(cache.Key{ID: r.id, Offset: h.Offset}); v != nil {
			return v, nil
		}
		return nil, ErrNotCached
	}
	return r.block(h, !g.DontFillCache)
}

// hold gives v's reference to g if g's value lies in it, or operands beyond those that g had before.
func hold(g *lookup.Get, v *cache.Value, before int) {
	if g.State == lookup.Found || g.Operands() > before {
		g.Pin(v)
	} else {
		v.Release()
	}
}
