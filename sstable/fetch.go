// How blocks get from the file into memory: read, verified, inflated, and, all but those that Open keeps, through the
// cache.
//
//  1. A block that may be in the cache comes through block, whatever its class: from the cache, or else from the file, which
//     is read once for all who want it at the same time. Only what iterators read ahead goes another way: a flight in the
//     hands of a walk that its caller may leave alone for any time would make others wait as long.
//  2. Who gets a block holds a reference, and releases it.
//  3. A block that finds no room in a strict cache is an error. Else it is used, and not kept.

package sstable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/checksum"
	"github.com/ashlardb/ashlar/internal/compress"
	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/sstable/block"
)

// readAt fills b from the file, with pread for files of the operating system, and not out of a mapping. Of a file that the
// system has in memory, 4 KiB take 2.5 µs with pread, 1.2 µs out of a mapping whose page is there, and 5.8 µs out of one
// that has to be given it (BenchmarkReadBlock in package vfs; AMD EPYC, one goroutine). So a mapping gains 1.3 µs as long as
// the whole database is mapped with all its pages, which then count as memory of this process beside the cache. It loses
// where it is not. A page that comes from the disk holds up a processor that goroutines could have, for a fault is no
// system call to the scheduler. And a table that is cut or a disk that fails are errors of pread, but signals of a mapping.
func (r *Reader) readAt(b []byte, off int64) error {
	start := r.stats.Histograms.Start()
	n, err := r.f.ReadAt(b, off)
	if n == len(b) {
		r.stats.Histograms.Since(stats.SSTRead, start)
		return nil
	}
	if err == nil || err == io.EOF {
		return corrupt.At(r.path, off, "file of %d bytes ends inside a read of %d", r.size, len(b))
	}
	return err
}

// stored returns a block as it is in the file, with its trailer, out of tail if it lies there.
func (r *Reader) stored(h block.Handle, tail []byte) ([]byte, error) {
	n := int64(h.Size) + block.TrailerSize
	if at := int64(h.Offset) - (r.size - int64(len(tail))); at >= 0 {
		return tail[at : at+n], nil
	}
	b := make([]byte, n)
	return b, r.readAt(b, int64(h.Offset))
}

// verify checks the trailer of a stored block.
func (r *Reader) verify(raw []byte, h block.Handle) error {
	if r.foot.sum == checksum.None {
		return nil
	}
	r.stats.Add(stats.BlockChecksumComputed, 1)
	got := binary.LittleEndian.Uint32(raw[h.Size+1:])
	if want := r.foot.checksum(raw[:h.Size], raw[h.Size], h.Offset); got != want {
		return r.corrupt(h, "block of %d bytes has the checksum %08x, want %08x", h.Size, got, want)
	}
	return nil
}

// length is how long the stored block will be, or -1 when it does not tell.
func (r *Reader) length(raw []byte, h block.Handle) (int, error) {
	n, err := compress.DecompressedLen(raw[h.Size], r.foot.version, raw[:h.Size])
	if err != nil {
		return 0, r.inflateError(h, err)
	}
	if n == 0 && raw[h.Size] != 0 {
		return 0, r.corrupt(h, "block: nothing, compressed")
	}
	return n, nil
}

func (r *Reader) inflateError(h block.Handle, err error) error {
	if errors.Is(err, corrupt.ErrNotSupported) {
		return corrupt.Unsupported(r.path, int64(h.Offset), "block: %w", err)
	}
	return r.corrupt(h, "block: %w", err)
}

// inflate returns the block that is stored as raw, which was verified. It is raw itself when it is not compressed, else
// it is written over buf, which may be nil.
func (r *Reader) inflate(buf, raw []byte, h block.Handle, dict []byte) ([]byte, error) {
	if raw[h.Size] == 0 {
		return raw[:h.Size:h.Size], nil
	}
	n, err := r.length(raw, h)
	if err != nil {
		return nil, err
	}
	if n < 0 {
		buf, err = compress.Decompress(raw[h.Size], r.foot.version, raw[:h.Size], dict)
	} else {
		if cap(buf) < n {
			buf = make([]byte, n)
		}
		buf = buf[:n]
		err = compress.DecompressInto(buf, raw[h.Size], r.foot.version, raw[:h.Size], dict)
	}
	if err != nil {
		return nil, r.inflateError(h, err)
	}
	return buf, nil
}

// metaBlock returns the block at h, which is no data block. It shares no memory with tail.
func (r *Reader) metaBlock(h block.Handle, tail []byte) ([]byte, error) {
	raw, err := r.stored(h, tail)
	if err != nil {
		return nil, err
	}
	if err := r.verify(raw, h); err != nil {
		return nil, err
	}
	b, err := r.inflate(nil, raw, h, nil)
	if err == nil && raw[h.Size] == 0 {
		b = append(make([]byte, 0, len(b)), b...)
	}
	return b, err
}

// maxScratch is the largest buffer that goes back to the pool.
const maxScratch = 256 << 10

var scratch = sync.Pool{New: func() any { return new([]byte) }}

// getRaw returns a buffer of n bytes for what is read, which putRaw takes back.
func getRaw(n int) *[]byte {
	s := scratch.Get().(*[]byte)
	if cap(*s) < n {
		*s = make([]byte, n)
	}
	*s = (*s)[:n]
	return s
}

func putRaw(s *[]byte) {
	if cap(*s) <= maxScratch {
		scratch.Put(s)
	}
}

// ErrCacheFull is what a read gives that has to keep a block in a cache with a strict limit that has no room for it.
var ErrCacheFull = errors.New("block cache is full, and its limit is strict")

// fetch says how a block is to be had.
type fetch struct {
	cacheOnly bool         // ErrNotCached rather than I/O
	dontFill  bool         // data blocks that were not cached stay out of the cache
	tally     *stats.Tally // counts hits; nil counts them at once
}

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

// key is where the cache has the block at h.
func (r *Reader) key(h block.Handle) cache.Key { return cache.Key{ID: r.id, Offset: h.Offset} }

// block returns a block with one reference, from the cache or from the file.
func (r *Reader) block(h block.Handle, c cache.Class, how fetch) (*cache.Value, error) {
	if v := r.cache.Get(r.key(h)); v != nil {
		if how.tally != nil {
			how.tally.Count(classTickers[c].hit)
		} else {
			r.stats.Add(classTickers[c].hit, 1)
		}
		return v, nil
	}
	if how.cacheOnly {
		r.stats.Add(classTickers[c].miss, 1)
		return nil, ErrNotCached
	}
	return r.load(h, c, how)
}

// load is block for one that was not in the cache.
func (r *Reader) load(h block.Handle, c cache.Class, how fetch) (*cache.Value, error) {
	r.stats.Add(classTickers[c].miss, 1)
	v, mine, err := r.cache.Join(r.key(h))
	if mine != nil {
		v, err = r.read(h, c)
	}
	return r.loaded(h, c, how, mine, v, err)
}

// loaded ends a load: it keeps the block and lands the flight, if the read was the caller's own.
func (r *Reader) loaded(h block.Handle, c cache.Class, how fetch, mine *cache.Flight, v *cache.Value, err error) (*cache.Value, error) {
	if err == nil && !(how.dontFill && c == cache.Data) {
		v, err = r.keep(h, c, v)
	}
	if mine != nil {
		r.cache.Land(mine, v, err)
	}
	return v, err
}

// read reads a block from the file.
func (r *Reader) read(h block.Handle, c cache.Class) (v *cache.Value, err error) {
	start := r.stats.Histograms.Start()
	raw := getRaw(int(h.Size) + block.TrailerSize)
	if err = r.readAt(*raw, int64(h.Offset)); err == nil {
		v, err = r.admit(*raw, h, c)
	}
	putRaw(raw)
	if err == nil {
		r.stats.Histograms.Since(stats.ReadBlockGet, start)
	}
	return v, err
}

// keep puts v into the cache and returns it, or releases it and returns why it had to be kept and could not.
func (r *Reader) keep(h block.Handle, c cache.Class, v *cache.Value) (*cache.Value, error) {
	p := &classTickers[c]
	switch r.cache.Set(r.key(h), v) {
	case cache.Kept:
		s := r.stats.Lock()
		s.N[p.add]++
		s.N[p.bytes] += uint64(len(v.Bytes()))
		s.Unlock()
	case cache.NoRoom:
		r.stats.Add(stats.BlockCacheAddFailures, 1)
		if r.cache.Strict() {
			v.Release()
			return nil, fmt.Errorf("%s: %v block of %d bytes at %d: %w", r.path, c, h.Size, h.Offset, ErrCacheFull)
		}
	}
	return v, nil
}

// admit makes a value of the cache out of a stored block, in the form that its class has there: an index is kept as its
// image (index.go).
func (r *Reader) admit(raw []byte, h block.Handle, c cache.Class) (v *cache.Value, err error) {
	if err := r.verify(raw, h); err != nil {
		return nil, err
	}
	if raw[h.Size] != 0 {
		r.stats.Add(stats.NumberBlockDecompressed, 1)
	}
	switch c {
	case cache.Data:
		return r.admitData(raw, h)
	case cache.Index:
		v, err = r.admitIndex(raw, h)
	default:
		var b []byte
		if b, err = r.inflate(nil, raw, h, nil); err == nil {
			v = r.valueOf(b)
		}
	}
	if err != nil {
		return nil, err
	}
	v.Class, v.High = c, r.high
	return v, nil
}

// valueOf copies b into memory of the cache.
func (r *Reader) valueOf(b []byte) *cache.Value {
	v := r.cache.Alloc(len(b))
	copy(v.Bytes(), b)
	return v
}

func (r *Reader) admitData(raw []byte, h block.Handle) (*cache.Value, error) {
	n, err := r.length(raw, h)
	if err != nil {
		return nil, err
	}
	dict, held, err := r.dictionary()
	if err != nil {
		return nil, err
	}
	defer release(held)
	var v *cache.Value
	if n >= 0 {
		v = r.cache.Alloc(n)
		if err := compress.DecompressInto(v.Bytes(), raw[h.Size], r.foot.version, raw[:h.Size], dict); err != nil {
			v.Release()
			return nil, r.inflateError(h, err)
		}
	} else {
		b, err := compress.Decompress(raw[h.Size], r.foot.version, raw[:h.Size], dict)
		if err != nil {
			return nil, r.inflateError(h, err)
		}
		v = r.valueOf(b)
	}
	if block.Apart(v.Bytes()) {
		b, err := block.Join(nil, v.Bytes())
		v.Release()
		if err != nil {
			return nil, r.blockError(h, err)
		}
		v = r.valueOf(b)
	}
	return v, nil
}

// dictionary returns the dictionary of data blocks, nil if there is none, and the value to be released that it lies in.
func (r *Reader) dictionary() ([]byte, *cache.Value, error) {
	if r.dictAt.Size == 0 {
		return r.dict, nil, nil
	}
	v, err := r.block(r.dictAt, cache.Dictionary, fetch{})
	if err != nil {
		return nil, nil, err
	}
	return v.Bytes(), v, nil
}

func release(v *cache.Value) {
	if v != nil {
		v.Release()
	}
}

// pin reads what is left to the cache and keeps it as long as the reader is open.
func (r *Reader) pin() error {
	hold := func(c cache.Class, all ...block.Handle) error {
		for _, h := range all {
			v, err := r.block(h, c, fetch{})
			if err != nil {
				return err
			}
			r.pins = append(r.pins, v)
		}
		return nil
	}
	if r.twoLevel {
		if err := hold(cache.Index, r.index.handles...); err != nil {
			return err
		}
	}
	if r.dictAt.Size > 0 {
		if err := hold(cache.Dictionary, r.dictAt); err != nil {
			return err
		}
	}
	return hold(cache.Filter, r.filter.parts.handles...)
}

// admitIndex makes the image of an index, or of a partition of it.
func (r *Reader) admitIndex(raw []byte, h block.Handle) (*cache.Value, error) {
	b, err := r.inflate(nil, raw, h, nil)
	if err != nil {
		return nil, err
	}
	x := indexScratch.Get().(*index)
	defer indexScratch.Put(x)
	x.reset(r.cmp, r.props.IndexKeyIsUserKey)
	if err := r.readHandles(x, b, h, r.props.IndexType == indexFirstKeys); err != nil {
		return nil, err
	}
	x.finish()
	v := r.cache.Alloc(x.imageSize())
	x.store(v.Bytes())
	return v, nil
}

var indexScratch = sync.Pool{New: func() any { return new(index) }}
