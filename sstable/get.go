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
	var part filterPart
	yes, asked, err := r.passes(g, skipFilter, how, &part)
	part.release()
	if !yes || err != nil {
		return err
	}
	before, k := g.Operands(), kv.SeekKey(g.User, g.Seq)
	if err := r.search(g, &k, how); err != nil {
		return err
	}
	searched(g, asked, before)
	return nil
}

// passes asks the filter, and tells whether g's key is to be searched, and whether it was asked.
func (r *Reader) passes(g *lookup.Get, skipFilter bool, how fetch, part *filterPart) (yes, asked bool, err error) {
	if !skipFilter {
		if yes, asked, err = r.mayHaveKey(g.User, how, part); err != nil {
			return false, asked, err
		}
		if !yes {
			g.Tally.Count(stats.LevelUseful + stats.Ticker(g.Level))
			return false, asked, nil
		}
		if asked {
			g.Tally.Count(stats.BloomFilterFullPositive)
		}
	}
	g.Tally.Count(stats.LevelRead + stats.Ticker(g.Level))
	return true, asked, nil
}

// searched counts what came of a search that went well, before which g had so many operands.
func searched(g *lookup.Get, asked bool, before int) {
	if asked && (g.State != lookup.Pending || g.Operands() > before) {
		g.Tally.Count(stats.BloomFilterFullTruePositive)
	}
	if g.State != lookup.Pending {
		g.Tally.Count(stats.LevelHit + stats.Ticker(g.Level))
	}
}

// search looks for g's key among the entries, from the version k of it on.
func (r *Reader) search(g *lookup.Get, k *kv.Key, how fetch) error {
	if r.cmp.IsBytewise() {
		var it block.Iter
		return r.get(g, k, &it, how)
	}
	// Other orders have keys built while they are compared; the pool keeps the buffers.
	it := blockIters.Get().(*block.Iter)
	err := r.get(g, k, it, how)
	it.Drop()
	blockIters.Put(it)
	return err
}

var blockIters = sync.Pool{New: func() any { return new(block.Iter) }}

func (r *Reader) get(g *lookup.Get, k *kv.Key, it *block.Iter, how fetch) error {
	if !r.twoLevel {
		_, err := r.getIn(g, k, &r.index, it, how)
		return err
	}
	for p := r.index.seek(*k); p < r.index.len(); p++ {
		var x index
		v, err := r.partition(p, &x, how)
		if err != nil {
			return err
		}
		more, err := r.getIn(g, k, &x, it, how)
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
		more := show(g, k, it)
		if holds(g, before) {
			g.Pin(v)
		} else {
			v.Release()
		}
		if err := it.Err(); err != nil {
			return false, r.blockError(h, err)
		}
		if !more || !x.spans(n, g.User) {
			return false, nil
		}
	}
	return true, nil
}

// spans tells whether block n may end inside of a user key that was not decided in it: only then the next one has more of
// its versions.
func (x *index) spans(n int, user []byte) bool {
	return !x.userKeys && x.cmp.CompareUser(x.user(n), user) == 0
}

// show shows g the versions of its key from k on in the block that it walks. more says that g is not decided, and that the
// block ends before a larger key; k is then where to go on. The iterator has the error, if there is one.
func show(g *lookup.Get, k *kv.Key, it *block.Iter) (more bool) {
	t, value, found, more := it.Find(*k)
	for found {
		if !g.Offer(t, value) || t == 0 {
			return false
		}
		k.Trailer = t - 1
		t, value, found, more = it.Find(*k)
	}
	return more
}

// holds tells whether g's value lies in the block that it was shown, or operands beyond those that it had before: then g is
// to pin the block.
func holds(g *lookup.Get, before int) bool { return g.State == lookup.Found || g.Operands() > before }
