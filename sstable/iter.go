// The walk over a table.
//
//  1. n is the data block that the iterator stands in; -1 is before the first and len(index) behind the last.
//  2. it walks block n when loaded is set. What it walks lies in v, a block of the cache that the iterator holds; or, past
//     the cache, in window or own, which only the next load overwrites.
//  3. A damaged block ends the walk where it is: nothing is skipped. First, Last and the seeks try again.

package sstable

import (
	"context"
	"sync"

	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/sstable/block"
)

// IterOptions say how a table is walked.
type IterOptions struct {
	// DontFillCache leaves blocks that were not cached out of the cache.
	DontFillCache bool
	// Readahead, when not 0, reads so many bytes at a time into the iterator's own buffer and stays away from the cache,
	// as befits one who reads everything once.
	Readahead int
	// CacheOnly ends the walk with ErrNotCached rather than read the file.
	CacheOnly bool
	// Context, if set, is looked at before each block that the file is read for, and its error ends the walk.
	Context context.Context
}

// Reading ahead of an iterator through the cache begins after so many blocks in a row were not cached, with so many
// bytes, and doubles up to the limit.
const (
	missesBeforeReadahead = 2
	firstReadahead        = 16 << 10
	maxReadahead          = 256 << 10
)

// Iterator walks a table's entries. It implements kv.Iterator. The prefix of a seek is of no use to it.
type Iterator struct {
	r      *Reader
	x      *index       // nil before the first move
	xv     *cache.Value // where x lies in the cache, held until Close
	o      IterOptions
	n      int
	loaded bool
	err    error
	it     block.Iter
	v      *cache.Value

	window   []byte // bytes of the file from windowAt on
	windowAt int64
	own      []byte // the block, where it had to be decompressed
	joined   []byte // the block, where it had to be joined
	misses   int    // blocks in a row that were not cached
	hits     uint64 // blocks that were cached; counted by Close
	ahead    int    // how far to read ahead
}

var iterators = sync.Pool{New: func() any { return new(Iterator) }}

// NewIter returns an iterator, which must be closed before the reader is.
func (r *Reader) NewIter(o IterOptions) *Iterator {
	i := iterators.Get().(*Iterator)
	i.r, i.o, i.n = r, o, -1
	i.ahead = firstReadahead
	return i
}

// Close releases what the iterator holds.
func (i *Iterator) Close() error {
	if i.r == nil {
		return nil
	}
	err := i.err
	i.unload()
	release(i.xv)
	if i.hits > 0 {
		i.r.stats.Add(stats.BlockCacheDataHit, i.hits)
	}
	i.r, i.x, i.xv, i.err, i.o, i.hits = nil, nil, nil, nil, IterOptions{}, 0
	i.window, i.windowAt, i.misses = i.window[:0], 0, 0
	if cap(i.window)+cap(i.own)+cap(i.joined) <= 2*maxReadahead {
		iterators.Put(i)
	}
	return err
}

// Err is why the last call returned nil, or nil at an end.
func (i *Iterator) Err() error { return i.err }

func (i *Iterator) unload() {
	i.loaded = false
	i.it.Drop()
	if i.v != nil {
		i.v.Release()
		i.v = nil
	}
}

func (i *Iterator) fail(err error) *kv.Entry {
	i.err = err
	i.unload()
	i.window = i.window[:0] // the next try reads the file again
	return nil
}

// open gets the index.
func (i *Iterator) open() (ok bool) {
	i.err = nil
	if i.x == nil {
		if i.x, i.xv, i.err = i.r.indexFor(nil, i.o.CacheOnly); i.err != nil {
			i.unload()
		}
	}
	return i.err == nil
}

// move makes block n the one that it walks.
func (i *Iterator) move(n int) (ok bool) {
	if i.loaded && i.n == n {
		return true
	}
	step := n - i.n
	i.unload()
	i.n = n
	h := i.x.handles[n]
	var b []byte
	var err error
	if i.o.Readahead > 0 {
		b, err = i.read(h)
	} else {
		b, err = i.cached(h, step)
	}
	if err == nil {
		if err = i.it.Init(i.r.cmp, b, i.r.seq); err != nil {
			err = i.r.blockError(h, err)
		}
	}
	if err != nil {
		i.fail(err)
		return false
	}
	i.loaded = true
	return true
}

// cached gets a block through the cache, and reads ahead once the blocks before were not there.
func (i *Iterator) cached(h block.Handle, step int) ([]byte, error) {
	r := i.r
	v := r.cache.Get(cache.Key{ID: r.id, Offset: h.Offset})
	if v != nil {
		i.hits++
	} else {
		if i.o.CacheOnly {
			r.stats.Add(stats.BlockCacheDataMiss, 1)
			return nil, ErrNotCached
		}
		if i.o.Context != nil {
			if err := i.o.Context.Err(); err != nil {
				return nil, err
			}
		}
		if step != 1 {
			i.misses = 0
		}
		i.misses++
		if i.misses <= missesBeforeReadahead {
			var err error
			if v, err = r.load(cache.Data, h, !i.o.DontFillCache); err != nil {
				return nil, err
			}
		} else {
			if !i.inWindow(h) {
				if err := i.slide(h, i.ahead); err != nil {
					return nil, err
				}
				i.ahead = min(2*i.ahead, maxReadahead)
			}
			r.stats.Add(stats.BlockCacheDataMiss, 1)
			var err error
			if v, err = r.admit(i.stored(h), h); err == nil && !i.o.DontFillCache {
				v, err = r.keep(cache.Data, h, v)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	i.v = v
	return v.Bytes(), nil
}

// read gets a block past the cache.
func (i *Iterator) read(h block.Handle) ([]byte, error) {
	r := i.r
	if !i.inWindow(h) {
		if err := i.slide(h, i.o.Readahead); err != nil {
			return nil, err
		}
	}
	raw := i.stored(h)
	if err := r.verify(raw, h); err != nil {
		return nil, err
	}
	dict, held, err := r.dictionary()
	if err != nil {
		return nil, err
	}
	b, err := r.inflate(i.own, raw, h, dict)
	release(held)
	if err != nil {
		return nil, err
	}
	if raw[h.Size] != 0 {
		i.own = b
	}
	if block.Apart(b) {
		if i.joined, err = block.Join(i.joined[:0], b); err != nil {
			return nil, r.blockError(h, err)
		}
		b = i.joined
	}
	return b, nil
}

func (i *Iterator) inWindow(h block.Handle) bool {
	at := int64(h.Offset) - i.windowAt
	return at >= 0 && at+int64(h.Size)+block.TrailerSize <= int64(len(i.window))
}

// stored is the block at h with its trailer, out of the window.
func (i *Iterator) stored(h block.Handle) []byte {
	at := int64(h.Offset) - i.windowAt
	return i.window[at : at+int64(h.Size)+block.TrailerSize]
}

// slide reads a window of n bytes, or more if the block is larger: from the block at h on, or, when the walk goes back,
// up to its end.
func (i *Iterator) slide(h block.Handle, n int) error {
	from, end := int64(h.Offset), int64(h.Offset)+int64(h.Size)+block.TrailerSize
	if len(i.window) > 0 && from < i.windowAt {
		from = max(0, min(from, end-int64(n)))
	} else {
		end = max(end, min(from+int64(n), int64(i.r.foot.offset)))
	}
	size := int(end - from)
	if cap(i.window) < size {
		i.window = make([]byte, size)
	}
	i.window, i.windowAt = i.window[:size], from
	if err := i.r.readAt(i.window, from); err != nil {
		i.window = i.window[:0]
		return err
	}
	return nil
}

// forward returns e, or the first entry of the blocks after this one when e is nil and nothing is wrong.
func (i *Iterator) forward(e *kv.Entry) *kv.Entry {
	for e == nil {
		if err := i.it.Err(); err != nil {
			return i.fail(i.r.blockError(i.x.handles[i.n], err))
		}
		if i.n+1 >= i.x.len() {
			i.unload()
			i.n = i.x.len()
			return nil
		}
		if !i.move(i.n + 1) {
			return nil
		}
		e = i.it.First()
	}
	return e
}

// backward returns e, or the last entry of the blocks before this one when e is nil and nothing is wrong.
func (i *Iterator) backward(e *kv.Entry) *kv.Entry {
	for e == nil {
		if err := i.it.Err(); err != nil {
			return i.fail(i.r.blockError(i.x.handles[i.n], err))
		}
		if i.n <= 0 {
			i.unload()
			i.n = -1
			return nil
		}
		if !i.move(i.n - 1) {
			return nil
		}
		e = i.it.Last()
	}
	return e
}

// First implements kv.Iterator.
func (i *Iterator) First() *kv.Entry {
	if !i.open() || i.x.len() == 0 || !i.move(0) {
		return nil
	}
	return i.forward(i.it.First())
}

// Last implements kv.Iterator.
func (i *Iterator) Last() *kv.Entry {
	if !i.open() {
		return nil
	}
	n := i.x.len()
	if n == 0 || !i.move(n-1) {
		return nil
	}
	return i.backward(i.it.Last())
}

// SeekGE implements kv.Iterator.
func (i *Iterator) SeekGE(k kv.Key, _ []byte) *kv.Entry {
	if !i.open() {
		return nil
	}
	n := i.x.seek(k)
	if n == i.x.len() {
		i.unload()
		i.n = n
		return nil
	}
	if !i.move(n) {
		return nil
	}
	return i.forward(i.it.SeekGE(k))
}

// SeekLT implements kv.Iterator.
func (i *Iterator) SeekLT(k kv.Key) *kv.Entry {
	if !i.open() {
		return nil
	}
	n := i.x.seek(k)
	if n == i.x.len() {
		return i.Last()
	}
	if !i.move(n) {
		return nil
	}
	return i.backward(i.it.SeekLT(k))
}

// Next implements kv.Iterator.
func (i *Iterator) Next() *kv.Entry {
	if i.loaded {
		if e := i.it.Next(); e != nil {
			return e
		}
		return i.forward(nil)
	}
	if i.err != nil || i.n >= 0 {
		return nil
	}
	return i.First()
}

// Prev implements kv.Iterator.
func (i *Iterator) Prev() *kv.Entry {
	if i.loaded {
		if e := i.it.Prev(); e != nil {
			return e
		}
		return i.backward(nil)
	}
	if i.err != nil || i.n < 0 {
		return nil
	}
	return i.Last()
}
