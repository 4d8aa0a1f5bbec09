// The walk over a table.
//
//  1. The iterator stands before the first data block, in the one that its cursor is on, or behind the last.
//  2. it walks the block at when loaded is set, which is the cursor's. What it walks lies in v, a block of the cache that the
//     iterator holds; or, past the cache, in window or own, which only the next load overwrites.
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
	// SkipFilter leaves the filter unasked by seeks with a prefix.
	SkipFilter bool
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

// Iterator walks a table's entries. It implements kv.Iterator. A seek with a prefix ends at once where the table's filter
// says that no key has it.
type Iterator struct {
	r      *Reader
	o      IterOptions
	where  place
	cursor cursor
	at     block.Handle // the block that was loaded last
	loaded bool
	err    error
	it     block.Iter
	v      *cache.Value

	window   []byte // bytes of the file from windowAt on
	windowAt int64
	own      []byte // the block, where it had to be decompressed
	joined   []byte // the block, where it had to be joined
	misses   int    // blocks in a row that were not cached
	hits     uint64 // blocks that were cached, for Close to count
	ahead    int    // how far to read ahead
}

// place is where an iterator stands.
type place uint8

const (
	beforeFirst place = iota
	inside
	behindLast
)

var iterators = sync.Pool{New: func() any { return new(Iterator) }}

// NewIter returns an iterator, which must be closed before the reader is.
func (r *Reader) NewIter(o IterOptions) *Iterator {
	i := iterators.Get().(*Iterator)
	i.r, i.o, i.where, i.at = r, o, beforeFirst, block.Handle{}
	i.cursor.init(r, fetch{cacheOnly: o.CacheOnly, dontFill: o.DontFillCache || o.Readahead > 0})
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
	i.cursor.release()
	i.cursor.r, i.cursor.x = nil, nil
	if i.hits > 0 {
		i.r.stats.Add(stats.BlockCacheDataHit, i.hits)
	}
	i.r, i.err, i.o, i.hits = nil, nil, IterOptions{}, 0
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

// load makes the cursor's block the one that it walks.
func (i *Iterator) load() (ok bool) {
	i.where = inside
	h := i.cursor.handle()
	if i.loaded && i.at == h {
		return true
	}
	follows := h.Offset == i.at.Offset+i.at.Size+block.TrailerSize
	i.unload()
	i.at = h
	var b []byte
	var err error
	if i.o.Readahead > 0 {
		b, err = i.read(h)
	} else {
		b, err = i.cached(h, follows)
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

// cached gets a block through the cache, and reads ahead once the blocks before, which it follows, were not there.
func (i *Iterator) cached(h block.Handle, follows bool) ([]byte, error) {
	r := i.r
	v := r.cache.Get(r.key(h))
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
		if !follows {
			i.misses = 0
		}
		i.misses++
		if i.misses <= missesBeforeReadahead {
			var err error
			if v, err = r.load(h, cache.Data, fetch{dontFill: i.o.DontFillCache}); err != nil {
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
			if v, err = r.admit(i.stored(h), h, cache.Data); err == nil && !i.o.DontFillCache {
				v, err = r.keep(h, cache.Data, v)
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

// stand goes to the cursor's block, or to the end, if the cursor has none; ok is what the cursor told.
func (i *Iterator) stand(ok bool, err error, end place) bool {
	switch {
	case err != nil:
		i.fail(err)
	case !ok:
		i.unload()
		i.where = end
	default:
		return i.load()
	}
	return false
}

// forward returns e, or the first entry of the blocks after this one when e is nil and nothing is wrong.
func (i *Iterator) forward(e *kv.Entry) *kv.Entry {
	for e == nil {
		if err := i.it.Err(); err != nil {
			return i.fail(i.r.blockError(i.at, err))
		}
		if ok, err := i.cursor.next(); !i.stand(ok, err, behindLast) {
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
			return i.fail(i.r.blockError(i.at, err))
		}
		if ok, err := i.cursor.prev(); !i.stand(ok, err, beforeFirst) {
			return nil
		}
		e = i.it.Last()
	}
	return e
}

// First implements kv.Iterator.
func (i *Iterator) First() *kv.Entry {
	i.err = nil
	if ok, err := i.cursor.first(); !i.stand(ok, err, behindLast) {
		return nil
	}
	return i.forward(i.it.First())
}

// Last implements kv.Iterator.
func (i *Iterator) Last() *kv.Entry {
	i.err = nil
	if ok, err := i.cursor.last(); !i.stand(ok, err, beforeFirst) {
		return nil
	}
	return i.backward(i.it.Last())
}

// SeekGE implements kv.Iterator.
func (i *Iterator) SeekGE(k kv.Key, prefix []byte) *kv.Entry {
	i.err = nil
	if prefix != nil && !i.o.SkipFilter {
		if yes, err := i.r.mayHavePrefix(k.User, prefix, i.cursor.how); !yes || err != nil {
			i.stand(false, err, behindLast)
			return nil
		}
	}
	if ok, err := i.cursor.seek(k); !i.stand(ok, err, behindLast) {
		return nil
	}
	return i.forward(i.it.SeekGE(k))
}

// SeekLT implements kv.Iterator.
func (i *Iterator) SeekLT(k kv.Key) *kv.Entry {
	i.err = nil
	ok, err := i.cursor.seek(k)
	if !ok && err == nil {
		return i.Last()
	}
	if !i.stand(ok, err, behindLast) {
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
	if i.err != nil || i.where != beforeFirst {
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
	if i.err != nil || i.where != behindLast {
		return nil
	}
	return i.Last()
}
