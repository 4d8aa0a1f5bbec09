// The reading side of a table.
//
//  1. Whatever is read from the file is checked against its checksum before it is used, each time.
//  2. Index, filter and range deletes are read by Open and kept; they do not change, and any number of goroutines use them.
//  3. Data blocks go through the cache. Who gets a block holds a reference and releases it.
//  4. Nothing here trusts a length from the file: handles lie in the file, and what a block says of its size is bounded.

package sstable

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/checksum"
	"github.com/ashlardb/ashlar/internal/compress"
	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/tombstone"
	"github.com/ashlardb/ashlar/sstable/block"
	"github.com/ashlardb/ashlar/vfs"
)

// Stats counts what readers do. Any number of readers may share one. Nothing is counted for a read that only the cache
// served.
type Stats struct {
	BlocksRead atomic.Uint64 // data blocks that were not in the cache
	BytesRead  atomic.Uint64 // bytes that were read from files for them
	FilterNo   atomic.Uint64 // lookups that a filter ended
}

// ReaderOptions say how a table is read. Zero values are defaults.
type ReaderOptions struct {
	// Comparer is kv.Bytewise by default. It must be that of the table.
	Comparer *kv.Comparer
	// Filter reads the table's filter if it is stored under its name; built-in filters are read without it.
	Filter filter.Policy
	// Cache holds data blocks; nil keeps none.
	Cache *cache.Cache
	// LargestSeq is the largest sequence number of the file in the manifest. It counts for ingested tables only.
	LargestSeq kv.Seq
	// Stats may be nil.
	Stats *Stats
}

// Reader reads one table. Its methods may be called from any number of goroutines; Close when none runs and every
// iterator is closed.
type Reader struct {
	f     vfs.File
	path  string
	size  int64
	cmp   *kv.Comparer
	cache *cache.Cache
	id    uint64 // in the cache
	stats *Stats

	foot       footer
	props      Properties
	index      index
	filter     filter.Reader // nil: none, or not to be asked
	filterSize int64
	tombstones *tombstone.List
	dict       []byte
	seq        kv.Seq         // of every entry, when not 0
	metas      []block.Handle // every block that is no data block, for VerifyChecksums
	propsAt    block.Handle
	table      *openTable // whose reader it is; nil without Tables
}

// noCache keeps nothing; readers without a cache get their blocks' memory from it.
var noCache = sync.OnceValue(func() *cache.Cache { return cache.New(0) })

// tailSize is how much of a file's end Open reads at once.
const tailSize = 16 << 10

// Open opens the table in f and owns f from then on, also when it fails. path is for errors.
func Open(f vfs.File, path string, o ReaderOptions) (*Reader, error) {
	r := &Reader{f: f, path: path, cmp: o.Comparer, cache: o.Cache, stats: o.Stats}
	if r.cmp == nil {
		r.cmp = kv.Bytewise
	}
	if r.cache == nil {
		r.cache = noCache()
	}
	r.id = r.cache.NewID()
	if err := r.open(&o); err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

func (r *Reader) open(o *ReaderOptions) (err error) {
	if r.size, err = r.f.Size(); err != nil {
		return err
	}
	tail := make([]byte, min(r.size, tailSize))
	if err := r.readAt(tail, r.size-int64(len(tail))); err != nil {
		return err
	}
	if r.foot, err = parseFooter(r.path, tail, r.size); err != nil {
		return err
	}
	b, err := r.metaBlock(r.foot.metaindex, tail)
	if err != nil {
		return err
	}
	names := map[string]block.Handle{}
	s := block.NewScanner(b)
	for s.Next() {
		h, _, ok := block.ParseHandle(s.Value)
		if !ok {
			return r.corrupt(r.foot.metaindex, "metaindex: bad handle of %s", s.Key)
		}
		if err := r.foot.check(h); err != nil {
			return r.corrupt(r.foot.metaindex, "metaindex: %s: %w", s.Key, err)
		}
		names[string(s.Key)] = h
		r.metas = append(r.metas, h)
	}
	if err := s.Err(); err != nil {
		return r.corrupt(r.foot.metaindex, "metaindex: %w", err)
	}
	h, ok := names[metaProperties]
	if !ok {
		return r.corrupt(r.foot.metaindex, "metaindex: no properties")
	}
	if err := r.readProperties(h, tail, o); err != nil {
		return err
	}
	if h, ok := names[metaRangeDel]; ok {
		if err := r.readTombstones(h, tail); err != nil {
			return err
		}
	} else if n := r.props.RangeDeletions; n > 0 {
		return r.corrupt(r.foot.metaindex, "metaindex: no range deletes, and the properties count %d", n)
	}
	if h, ok := names[metaDictionary]; ok {
		if r.dict, err = r.metaBlock(h, tail); err != nil {
			return err
		}
	}
	h = r.foot.index
	if r.foot.version >= 6 {
		if h, ok = names[metaIndex]; !ok {
			return r.corrupt(r.foot.metaindex, "metaindex: no index")
		}
	}
	if err := r.readIndex(h, tail); err != nil {
		return err
	}
	return r.readFilter(names, tail, o)
}

// readProperties reads the properties and refuses what they tell is not built.
func (r *Reader) readProperties(h block.Handle, tail []byte, o *ReaderOptions) error {
	r.propsAt = h
	raw, err := r.stored(h, tail)
	if err != nil {
		return err
	}
	p := &r.props
	if err := r.verify(raw, h); err != nil {
		// Older RocksDB writes the global sequence number into the finished file. Its checksum is that of a zero.
		if raw[h.Size] != 0 || p.decode(r.path, int64(h.Offset), raw[:h.Size]) != nil || p.globalSeqAt == 0 {
			return err
		}
		zeroed := append([]byte{}, raw...)
		clear(zeroed[p.globalSeqAt : p.globalSeqAt+8])
		if r.verify(zeroed, h) != nil {
			return err
		}
	}
	b, err := r.inflate(nil, raw, h, nil)
	if err != nil {
		return err
	}
	if err := p.decode(r.path, int64(h.Offset), b); err != nil {
		return err
	}
	unsupported := func(format string, args ...any) error {
		return corrupt.Unsupported(r.path, int64(h.Offset), "table with "+format, args...)
	}
	switch {
	case p.IndexType > indexFirstKeys:
		return unsupported("index of type %d", p.IndexType)
	case p.Comparer != "" && p.Comparer != r.cmp.Name:
		return corrupt.At(r.path, int64(h.Offset), "table is ordered by %s, not by %s", p.Comparer, r.cmp.Name)
	}
	if p.ExternalVersion == 2 {
		if r.seq = kv.Seq(p.GlobalSeq); r.seq == 0 {
			r.seq = o.LargestSeq
		}
		if r.seq > kv.MaxSeq {
			return corrupt.At(r.path, int64(h.Offset), "global sequence number %d", r.seq)
		}
	}
	return nil
}

// readIndex reads the index, both levels of it if there are two.
func (r *Reader) readIndex(h block.Handle, tail []byte) error {
	b, err := r.metaBlock(h, tail)
	if err != nil {
		return err
	}
	r.index = index{cmp: r.cmp, userKeys: r.props.IndexKeyIsUserKey}
	firstKeys := r.props.IndexType == indexFirstKeys
	if r.props.IndexType != indexTwoLevel {
		err = r.readHandles(&r.index, b, h, firstKeys)
	} else {
		top := index{cmp: r.cmp, userKeys: r.props.IndexKeyIsUserKey}
		if err = r.readHandles(&top, b, h, false); err != nil {
			return err
		}
		for _, part := range top.handles {
			if b, err = r.metaBlock(part, tail); err != nil {
				return err
			}
			if err = r.readHandles(&r.index, b, part, false); err != nil {
				return err
			}
			r.metas = append(r.metas, part)
		}
	}
	r.index.finish()
	r.metas = append(r.metas, h)
	return err
}

// readHandles adds the entries of an index block to x.
func (r *Reader) readHandles(x *index, b []byte, h block.Handle, firstKeys bool) error {
	s := block.NewHandleScanner(b, r.props.IndexValueIsDelta, firstKeys)
	for s.Next() {
		if err := r.foot.check(s.Handle); err != nil {
			return r.corrupt(h, "index: %w", err)
		}
		if !x.add(s.Key, s.Handle) {
			return r.corrupt(h, "index: key %q is out of order or too short", s.Key)
		}
	}
	if err := s.Err(); err != nil {
		return r.corrupt(h, "index: %w", err)
	}
	return nil
}

// readFilter opens the table's filter, if there is one that can be opened. A filter that is stored under an unknown
// name, or is not made of whole keys, is as good as none.
func (r *Reader) readFilter(names map[string]block.Handle, tail []byte, o *ReaderOptions) error {
	if !r.props.WholeKeyFiltering {
		return nil
	}
	for name, h := range names {
		stored, whole := strings.CutPrefix(name, metaFullFilter)
		if !whole {
			var parts bool
			if stored, parts = strings.CutPrefix(name, metaPartitionedFilter); !parts {
				continue
			}
		}
		policy := o.Filter
		if policy == nil || policy.Name() != stored {
			var known bool
			if policy, known = filter.Known(stored); !known {
				continue
			}
		}
		if whole {
			f, err := r.openFilter(policy, h, tail)
			r.filter = f
			return err
		}
		b, err := r.metaBlock(h, tail)
		if err != nil {
			return err
		}
		p := &partitionedFilter{index: index{cmp: r.cmp, userKeys: r.props.IndexKeyIsUserKey}}
		if err := r.readHandles(&p.index, b, h, false); err != nil {
			return err
		}
		for _, part := range p.index.handles {
			f, err := r.openFilter(policy, part, tail)
			if err != nil {
				return err
			}
			p.parts = append(p.parts, f)
			r.metas = append(r.metas, part)
		}
		p.index.finish()
		if len(p.parts) > 0 {
			r.filter = p
		}
		return nil
	}
	return nil
}

func (r *Reader) openFilter(p filter.Policy, h block.Handle, tail []byte) (filter.Reader, error) {
	b, err := r.metaBlock(h, tail)
	if err != nil {
		return nil, err
	}
	f, err := p.Open(b)
	if err != nil {
		return nil, r.corrupt(h, "filter: %w", err)
	}
	r.filterSize += int64(len(b))
	return f, nil
}

// partitionedFilter is a filter in parts, each for the keys up to its entry in the index; the last one's entry may be
// below the last keys.
type partitionedFilter struct {
	index index
	parts []filter.Reader
}

func (p *partitionedFilter) MayContain(key []byte) bool {
	n := p.index.seek(kv.SeekKey(key, kv.MaxSeq))
	return p.parts[min(n, len(p.parts)-1)].MayContain(key)
}

func (r *Reader) corrupt(h block.Handle, format string, args ...any) error {
	return corrupt.At(r.path, int64(h.Offset), format, args...)
}

// blockError adds the place of the block to what is wrong inside it.
func (r *Reader) blockError(h block.Handle, err error) error {
	var e *block.Error
	if errors.As(err, &e) && e.Unsupported {
		return corrupt.Unsupported(r.path, int64(h.Offset), "data block: %w", err)
	}
	return r.corrupt(h, "data block: %w", err)
}

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

// block returns a data block with one reference, from the cache or from the file.
func (r *Reader) block(h block.Handle, fill bool) (*cache.Value, error) {
	if v := r.cache.Get(cache.Key{ID: r.id, Offset: h.Offset}); v != nil {
		return v, nil
	}
	return r.load(h, fill)
}

// load reads a data block from the file.
func (r *Reader) load(h block.Handle, fill bool) (*cache.Value, error) {
	s := scratch.Get().(*[]byte)
	n := int(h.Size) + block.TrailerSize
	if cap(*s) < n {
		*s = make([]byte, n)
	}
	raw := (*s)[:n]
	err := r.readAt(raw, int64(h.Offset))
	var v *cache.Value
	if err == nil {
		r.count(1, n)
		v, err = r.admit(raw, h, fill)
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

// admit makes a value of the cache out of a stored data block, and puts it into the cache if fill is set.
func (r *Reader) admit(raw []byte, h block.Handle, fill bool) (*cache.Value, error) {
	if err := r.verify(raw, h); err != nil {
		return nil, err
	}
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
		v = r.cache.Alloc(len(b))
		copy(v.Bytes(), b)
	}
	if block.Apart(v.Bytes()) {
		b, err := block.Join(nil, v.Bytes())
		v.Release()
		if err != nil {
			return nil, r.blockError(h, err)
		}
		v = r.cache.Alloc(len(b))
		copy(v.Bytes(), b)
	}
	if fill {
		r.cache.Set(cache.Key{ID: r.id, Offset: h.Offset}, v)
	}
	return v, nil
}

// Properties returns what the table says about itself. It must not be changed.
func (r *Reader) Properties() *Properties { return &r.props }

// HasFilter tells whether Get asks a filter.
func (r *Reader) HasFilter() bool { return r.filter != nil }

// MemoryUsage is about how many bytes the reader keeps for index, filter, range deletes and dictionary.
func (r *Reader) MemoryUsage() int64 {
	n := r.index.bytes() + r.filterSize + int64(len(r.dict)) + r.tombstones.Bytes()
	if p, ok := r.filter.(*partitionedFilter); ok {
		n += p.index.bytes()
	}
	return n
}

// Size is the length of the file.
func (r *Reader) Size() int64 { return r.size }

// ApproximateOffset is about where in the file the user key would be: the start of its data block.
func (r *Reader) ApproximateOffset(user []byte) uint64 {
	if n := r.index.seek(kv.SeekKey(user, kv.MaxSeq)); n < r.index.len() {
		return r.index.handles[n].Offset
	}
	if n := r.index.len(); n > 0 {
		h := r.index.handles[n-1]
		return h.Offset + h.Size + block.TrailerSize
	}
	return 0
}

// VerifyChecksums reads the whole table from the file, past the cache: every block's checksum, and the order and form
// of every entry.
func (r *Reader) VerifyChecksums(ctx context.Context) error {
	for _, h := range r.metas {
		raw, err := r.stored(h, nil)
		if err != nil {
			return err
		}
		if err := r.verify(raw, h); err != nil && (h != r.propsAt || r.props.globalSeqAt == 0) {
			return err
		}
	}
	i := r.NewIter(IterOptions{Readahead: 1 << 20})
	defer i.Close()
	var last []byte
	for e := i.First(); e != nil; e = i.Next() {
		if k, ok := kv.ParseKey(last); ok && r.cmp.CompareKeys(k, e.Key) >= 0 {
			return r.corrupt(r.index.handles[i.n], "data block: %v does not come after %v", e.Key, k)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		last = e.Key.Append(last[:0])
	}
	return i.Err()
}

// Close closes the file. Blocks of the table that are in the cache stay there until they are evicted.
func (r *Reader) Close() error { return r.f.Close() }
