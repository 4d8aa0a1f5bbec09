package sstable

// How blocks get from the file into memory: read, verified, inflated, and, all but those that Open keeps, through the
// cache.

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/checksum"
	"github.com/ashlardb/ashlar/internal/compress"
	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/sstable/block"
)

// readAt fills b from the file.
func (r *Reader) readAt(b []byte, off int64) error {
	n, err := r.f.ReadAt(b, off)
	if n == len(b) {
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

// class says what a block is for.
type class uint8

const (
	dataBlock  class = iota
	indexBlock       // kept in the cache as an index's image (index.go)
	filterBlock
)

// fetch says how a block is to be had.
type fetch struct {
	cacheOnly bool // ErrNotCached rather than I/O
	dontFill  bool // blocks that were not cached stay out of the cache
}

// block returns a block with one reference, from the cache or from the file. Every block that is not kept by Open comes
// through here, except those that an Iterator reads ahead.
func (r *Reader) block(h block.Handle, c class, how fetch) (*cache.Value, error) {
	if v := r.cache.Get(cache.Key{ID: r.id, Offset: h.Offset}); v != nil {
		return v, nil
	}
	if how.cacheOnly {
		return nil, ErrNotCached
	}
	return r.load(h, c, how)
}

// load reads a block from the file.
func (r *Reader) load(h block.Handle, c class, how fetch) (*cache.Value, error) {
	s := scratch.Get().(*[]byte)
	n := int(h.Size) + block.TrailerSize
	if cap(*s) < n {
		*s = make([]byte, n)
	}
	raw := (*s)[:n]
	err := r.readAt(raw, int64(h.Offset))
	var v *cache.Value
	if err == nil {
		if c == dataBlock {
			r.count(1, n)
		}
		v, err = r.admit(raw, h, c, how)
	}
	if n <= maxScratch {
		scratch.Put(s)
	}
	return v, err
}

func (r *Reader) count(blocks, bytes int) {
	if r.stats != nil {
		r.stats.BlocksRead.Add(uint64(blocks))
		r.stats.BytesRead.Add(uint64(bytes))
	}
}

// admit makes a value of the cache out of a stored block, in the form that its class has there, and puts it into the
// cache if it may.
func (r *Reader) admit(raw []byte, h block.Handle, c class, how fetch) (*cache.Value, error) {
	if err := r.verify(raw, h); err != nil {
		return nil, err
	}
	var v *cache.Value
	var err error
	switch c {
	case dataBlock:
		v, err = r.admitData(raw, h)
	case indexBlock:
		v, err = r.admitIndex(raw, h)
	case filterBlock:
		var b []byte
		if b, err = r.inflate(nil, raw, h, nil); err == nil {
			v = r.valueOf(b)
		}
	}
	if err != nil {
		return nil, err
	}
	if !how.dontFill {
		r.cache.Set(cache.Key{ID: r.id, Offset: h.Offset}, v)
	}
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
	var v *cache.Value
	if n >= 0 {
		v = r.cache.Alloc(n)
		if err := compress.DecompressInto(v.Bytes(), raw[h.Size], r.foot.version, raw[:h.Size], r.dict); err != nil {
			v.Release()
			return nil, r.inflateError(h, err)
		}
	} else {
		b, err := compress.Decompress(raw[h.Size], r.foot.version, raw[:h.Size], r.dict)
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

// admitIndex makes the image of an index partition.
func (r *Reader) admitIndex(raw []byte, h block.Handle) (*cache.Value, error) {
	b, err := r.inflate(nil, raw, h, nil)
	if err != nil {
		return nil, err
	}
	x := indexScratch.Get().(*index)
	defer indexScratch.Put(x)
	x.reset(r.cmp, r.props.IndexKeyIsUserKey)
	if err := r.readHandles(x, b, h, false); err != nil {
		return nil, err
	}
	x.finish()
	v := r.cache.Alloc(x.imageSize())
	x.store(v.Bytes())
	return v, nil
}

var indexScratch = sync.Pool{New: func() any { return new(index) }}
