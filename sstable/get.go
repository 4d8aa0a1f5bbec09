package sstable

import (
	"sync"

	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/sstable/block"
)

// Get shows g the versions of its key in this table, newest first, until g has enough. g then holds the blocks that its
// value and its operands lie in. skipFilter leaves the filter unasked.
//
// The walk is straight: filter, index, block, entry. It builds no iterator and allocates nothing when the block is
// cached; the block's walk lives on this stack.
func (r *Reader) Get(g *lookup.Get, skipFilter bool) error {
	filtered := !skipFilter && r.HasFilter()
	if filtered {
		yes, err := r.mayContain(g)
		if err != nil {
			return err
		}
		if !yes {
			g.Tally.Count(stats.LevelUseful + stats.Ticker(g.Level))
			return nil
		}
		g.Tally.Count(stats.BloomFilterFullPositive)
	}
	g.Tally.Count(stats.LevelRead + stats.Ticker(g.Level))
	before := g.Operands()
	err := r.search(g)
	if err == nil && (g.State != lookup.Pending || g.Operands() > before) {
		if filtered {
			g.Tally.Count(stats.BloomFilterFullTruePositive)
		}
		if g.State != lookup.Pending {
			g.Tally.Count(stats.LevelHit + stats.Ticker(g.Level))
		}
	}
	return err
}

// search looks for g's key among the entries.
func (r *Reader) search(g *lookup.Get) error {
	x, held, err := r.indexFor(&g.Tally, g.CacheOnly)
	if err != nil {
		return err
	}
	defer release(held)
	if r.cmp.IsBytewise() {
		var it block.Iter
		return r.get(g, x, &it)
	}
	// Other orders have keys built while they are compared; the pool keeps the buffers.
	it := blockIters.Get().(*block.Iter)
	err = r.get(g, x, it)
	it.Drop()
	blockIters.Put(it)
	return err
}

var blockIters = sync.Pool{New: func() any { return new(block.Iter) }}

func (r *Reader) get(g *lookup.Get, x *index, it *block.Iter) error {
	k := kv.SeekKey(g.User, g.Seq)
	for n := x.seek(k); n < x.len(); n++ {
		h := x.handles[n]
		v, err := r.fetch(cache.Data, h, &g.Tally, g.CacheOnly, !g.DontFillCache)
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
		if !more || x.userKeys || r.cmp.CompareUser(x.user(n), g.User) != 0 {
			return nil
		}
	}
	return nil
}

// hold gives v's reference to g if g's value lies in it, or operands beyond those that g had before.
func hold(g *lookup.Get, v *cache.Value, before int) {
	if g.State == lookup.Found || g.Operands() > before {
		g.Pin(v)
	} else {
		v.Release()
	}
}
