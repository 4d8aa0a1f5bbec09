// Blocks on their way from the file to who reads them.
//
//  1. A block that may be in the cache comes through fetch, whatever it is: from the cache, or else from the file, which is
//     read once for all who want it at the same time. Only the windows that iterators read ahead into go another way.
//  2. Who gets a block holds a reference, and releases it.
//  3. Index and filter are kept decoded (Value.Aux), and what they refer to lies in the value's bytes.
//  4. A block that finds no room in a strict cache is an error. Else it is used, and not kept.

package sstable

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/compress"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/sstable/block"
)

var (
	// ErrNotCached is what a read of the cache only gives when it would need the file.
	ErrNotCached = errors.New("block is not in the cache")
	// ErrCacheFull is what a read gives that has to keep a block in a cache with a strict limit that has no room for it.
	ErrCacheFull = errors.New("block cache is full, and its limit is strict")
)

// classTickers are what is counted of the blocks of each class.
var classTickers = [cache.Classes]struct{ hit, miss, add, bytes stats.Ticker }{
	cache.Data: {stats.BlockCacheDataHit, stats.BlockCacheDataMiss, stats.BlockCacheDataAdd, stats.BlockCacheDataBytesInsert},
	cache.Index: {stats.BlockCacheIndexHit, stats.BlockCacheIndexMiss, stats.BlockCacheIndexAdd,
		stats.BlockCacheIndexBytesInsert},
	cache.Filter: {stats.BlockCacheFilterHit, stats.BlockCacheFilterMiss, stats.BlockCacheFilterAdd,
		stats.BlockCacheFilterBytesInsert},
	cache.Dictionary: {stats.BlockCacheDictionaryHit, stats.BlockCacheDictionaryMiss, stats.BlockCacheDictionaryAdd,
		stats.BlockCacheDictionaryBytesInsert},
}

// fetch returns the block at h with one reference. t counts the hit; without t it is counted at once.
func (r *Reader) fetch(class cache.Class, h block.Handle, t *stats.Tally, cacheOnly, fill bool) (*cache.Value, error) {
	if v := r.cache.Get(cache.Key{ID: r.id, Offset: h.Offset}); v != nil {
		if t != nil {
			t.Count(classTickers[class].hit)
		} else {
			r.stats.Add(classTickers[class].hit, 1)
		}
		return v, nil
	}
	if cacheOnly {
		r.stats.Add(classTickers[class].miss, 1)
		return nil, ErrNotCached
	}
	return r.load(class, h, fill)
}

// load is fetch for a block that was not in the cache.
func (r *Reader) load(class cache.Class, h block.Handle, fill bool) (*cache.Value, error) {
	r.stats.Add(classTickers[class].miss, 1)
	v, mine, err := r.cache.Join(cache.Key{ID: r.id, Offset: h.Offset})
	if mine != nil {
		v, err = r.read(class, h)
	}
	if err == nil && fill {
		v, err = r.keep(class, h, v)
	}
	if mine != nil {
		r.cache.Land(mine, v, err)
	}
	return v, err
}

// keep puts v into the cache and returns it, or releases it and returns why it had to be kept and could not.
func (r *Reader) keep(class cache.Class, h block.Handle, v *cache.Value) (*cache.Value, error) {
	p := &classTickers[class]
	switch r.cache.Set(cache.Key{ID: r.id, Offset: h.Offset}, v) {
	case cache.Kept:
		s := r.stats.Lock()
		s.N[p.add]++
		s.N[p.bytes] += uint64(len(v.Bytes()))
		s.Unlock()
	case cache.NoRoom:
		r.stats.Add(stats.BlockCacheAddFailures, 1)
		if r.cache.Strict() {
			v.Release()
			return nil, fmt.Errorf("%s: %v block of %d bytes at %d: %w", r.path, class, h.Size, h.Offset, ErrCacheFull)
		}
	}
	return v, nil
}

// maxScratch is the largest buffer that goes back to the pool.
const maxScratch = 256 << 10

var scratch = sync.Pool{New: func() any { return new([]byte) }}

// read reads a block from the file.
func (r *Reader) read(class cache.Class, h block.Handle) (v *cache.Value, err error) {
	start := r.stats.Histograms.Start()
	if class == cache.Index {
		if v, err = r.loadIndex(h); err == nil {
			r.stats.Histograms.Since(stats.ReadBlockGet, start)
		}
		return v, err
	}
	s := scratch.Get().(*[]byte)
	n := int(h.Size) + block.TrailerSize
	if cap(*s) < n {
		*s = make([]byte, n)
	}
	raw := (*s)[:n]
	if err = r.readAt(raw, int64(h.Offset)); err == nil {
		if class == cache.Data {
			v, err = r.admit(raw, h)
		} else {
			v, err = r.admitMeta(class, raw, h)
		}
	}
	if n <= maxScratch {
		scratch.Put(s)
	}
	if err == nil {
		r.stats.Histograms.Since(stats.ReadBlockGet, start)
	}
	return v, err
}

// admit makes a value of the cache out of a stored data block.
func (r *Reader) admit(raw []byte, h block.Handle) (*cache.Value, error) {
	if err := r.verify(raw, h); err != nil {
		return nil, err
	}
	dict, held, err := r.dictionary()
	if err != nil {
		return nil, err
	}
	defer release(held)
	v, err := r.unpack(raw, h, dict)
	if err != nil || !block.Apart(v.Bytes()) {
		return v, err
	}
	b, err := block.Join(nil, v.Bytes())
	v.Release()
	if err != nil {
		return nil, r.blockError(h, err)
	}
	return r.copied(b), nil
}

// unpack makes a value of what a stored block holds.
func (r *Reader) unpack(raw []byte, h block.Handle, dict []byte) (*cache.Value, error) {
	n, err := r.length(raw, h)
	if err != nil {
		return nil, err
	}
	if raw[h.Size] != 0 {
		r.stats.Add(stats.NumberBlockDecompressed, 1)
	}
	if n < 0 {
		b, err := compress.Decompress(raw[h.Size], r.foot.version, raw[:h.Size], dict)
		if err != nil {
			return nil, r.inflateError(h, err)
		}
		return r.copied(b), nil
	}
	v := r.cache.Alloc(n)
	if err := compress.DecompressInto(v.Bytes(), raw[h.Size], r.foot.version, raw[:h.Size], dict); err != nil {
		v.Release()
		return nil, r.inflateError(h, err)
	}
	return v, nil
}

func (r *Reader) copied(b []byte) *cache.Value {
	v := r.cache.Alloc(len(b))
	copy(v.Bytes(), b)
	return v
}

// admitMeta makes a value of the cache out of a stored filter or dictionary.
func (r *Reader) admitMeta(class cache.Class, raw []byte, h block.Handle) (*cache.Value, error) {
	if err := r.verify(raw, h); err != nil {
		return nil, err
	}
	v, err := r.unpack(raw, h, nil)
	if err != nil {
		return nil, err
	}
	v.Class, v.High = class, r.high
	if class == cache.Filter {
		f, err := r.cachedFilter.policy.Open(v.Bytes())
		if err != nil {
			v.Release()
			return nil, r.corrupt(h, "filter: %w", err)
		}
		v.Aux = f
	}
	return v, nil
}

// loadIndex makes a value of the cache out of the index.
func (r *Reader) loadIndex(h block.Handle) (*cache.Value, error) {
	x, _, err := r.readIndex(h, nil)
	if err != nil {
		return nil, err
	}
	v := r.cache.Alloc(x.packedSize())
	v.Class, v.High, v.Aux = cache.Index, r.high, x.pack(v.Bytes())
	return v, nil
}

// indexFor returns the index, and the value to be released that it lies in if it is in the cache.
func (r *Reader) indexFor(t *stats.Tally, cacheOnly bool) (*index, *cache.Value, error) {
	if r.index != nil {
		return r.index, nil, nil
	}
	v, err := r.fetch(cache.Index, r.indexAt, t, cacheOnly, true)
	if err != nil {
		return nil, nil, err
	}
	return v.Aux.(*index), v, nil
}

func release(v *cache.Value) {
	if v != nil {
		v.Release()
	}
}

// dictionary returns the dictionary of data blocks, nil if there is none, and the value to be released that it lies in.
func (r *Reader) dictionary() ([]byte, *cache.Value, error) {
	if r.dictAt.Size == 0 {
		return r.dict, nil, nil
	}
	v, err := r.fetch(cache.Dictionary, r.dictAt, nil, false, true)
	if err != nil {
		return nil, nil, err
	}
	return v.Bytes(), v, nil
}

// cachedFilter is a filter that is left to the cache: whole, or, where parts is not nil, in parts, each for the keys up to
// its entry there.
type cachedFilter struct {
	policy filter.Policy
	whole  block.Handle
	parts  *index
}

// mayContain asks the filter, if there is one. Asked of the cache only, a filter that is not there says yes.
func (r *Reader) mayContain(g *lookup.Get) (bool, error) {
	if r.filter != nil {
		return r.filter.MayContain(g.User), nil
	}
	c := r.cachedFilter
	h := c.whole
	if c.parts != nil {
		n := c.parts.seek(kv.SeekKey(g.User, kv.MaxSeq))
		h = c.parts.handles[min(n, c.parts.len()-1)]
	}
	v, err := r.fetch(cache.Filter, h, &g.Tally, g.CacheOnly, true)
	if err != nil {
		if g.CacheOnly && err == ErrNotCached {
			return true, nil
		}
		return false, err
	}
	yes := v.Aux.(filter.Reader).MayContain(g.User)
	v.Release()
	return yes, nil
}

// pin reads what is left to the cache and keeps it as long as the reader is open.
func (r *Reader) pin() error {
	hold := func(class cache.Class, h block.Handle) error {
		v, err := r.fetch(class, h, nil, false, true)
		if err == nil {
			r.pins = append(r.pins, v)
		}
		return err
	}
	if err := hold(cache.Index, r.indexAt); err != nil {
		return err
	}
	r.index = r.pins[0].Aux.(*index)
	if r.dictAt.Size > 0 {
		if err := hold(cache.Dictionary, r.dictAt); err != nil {
			return err
		}
	}
	c := r.cachedFilter
	switch {
	case c == nil:
	case c.parts == nil:
		if err := hold(cache.Filter, c.whole); err != nil {
			return err
		}
		r.filter = r.pins[len(r.pins)-1].Aux.(filter.Reader)
	default:
		for _, h := range c.parts.handles {
			if err := hold(cache.Filter, h); err != nil {
				return err
			}
		}
	}
	return nil
}
