package sstable

import (
	"errors"
	"sync"

	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
	"github.com/ashlardb/ashlar/internal/stats"
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
	how := fetch{cacheOnly: g.CacheOnly, dontFill: g.DontFillCache, tally: &g.Tally}
	asked := false
	if !skipFilter {
		var yes bool
		var err error
		if yes, asked, err = r.mayHaveKey(g.User, how); err != nil {
			return err
		}
		if !yes {
			g.Tally.Count(stats.LevelUseful + stats.Ticker(g.Level))
			return nil
		}
		if asked {
			g.Tally.Count(stats.BloomFilterFullPositive)
		}
	}
	g.Tally.Count(stats.LevelRead + stats.Ticker(g.Level))
	before := g.Operands()
	if err := r.search(g, how); err != nil {
		return err
	}
	if asked && (g.State != lookup.Pending || g.Operands() > before) {
		g.Tally.Count(stats.BloomFilterFullTruePositive)
	}
	if g.State != lookup.Pending {
		g.Tally.Count(stats.LevelHit + stats.Ticker(g.Level))
	}
	return nil
}

// search looks for g's key among the entries.
func (r *Reader) search(g *lookup.Get, how fetch) error {
	if r.cmp.IsBytewise() {
		var it block.Iter
		return r.get(g, &it, how)
	}
	// Other orders have keys built while they are compared; the pool keeps the buffers.
	it := blockIters.Get().(*block.Iter)
	err := r.get(g, it, how)
	it.Drop()
	blockIters.Put(it)
	return err
}

var blockIters = sync.Pool{New: func() any { return new(block.Iter) }}

func (r *Reader) get(g *lookup.Get, it *block.Iter, how fetch) error {
	k := kv.SeekKey(g.User, g.Seq)
	if !r.twoLevel {
		_, err := r.getIn(g, &k, &r.index, it, how)
		return err
	}
	for p := r.index.seek(k); p < r.index.len(); p++ {
		var x index
		v, err := r.partition(p, &x, how)
		if err != nil {
			return err
		}
		more, err := r.getIn(g, &k, &x, it, how)
		v.Release()
		if !more || err != nil {
			return err
		}
	}
	return nil
}

// getIn is get in the blocks that x names, from the version k of the key on. more says that the next ones may have older
// versions, from k on.
func (r *Reader) getIn(g *lookup.Get, k *kv.Key, x *index, it *block.Iter, how fetch) (more bool, err error) {
	for n := x.seek(*k); n < x.len(); n++ {
		h := x.handles[n]
		v, err := r.block(h, cache.Data, how)
		if err != nil {
			return false, err
		}
		if err := it.Init(r.cmp, v.Bytes(), r.seq); err != nil {
			v.Release()
			return false, r.blockError(h, err)
		}
		before := g.Operands()
		t, value, found, more := it.Find(*k)
		for found {
			if !g.Offer(t, value) || t == 0 {
				hold(g, v, before)
				return false, nil
			}
			k.Trailer = t - 1
			t, value, found, more = it.Find(*k)
		}
		hold(g, v, before)
		if err := it.Err(); err != nil {
			return false, r.blockError(h, err)
		}
		// Older versions are in the next block only if this one ends inside the key.
		if !more || x.userKeys || r.cmp.CompareUser(x.user(n), g.User) != 0 {
			return false, nil
		}
	}
	return true, nil
}

// hold gives v's reference to g if g's value lies in it, or operands beyond those that g had before.
func hold(g *lookup.Get, v *cache.Value, before int) {
	if g.State == lookup.Found || g.Operands() > before {
		g.Pin(v)
	} else {
		v.Release()
	}
}
