// The reading side of a table.
//
//  1. Whatever is read from the file is checked against its checksum before it is used, each time.
//  2. Range deletes, and index and filter unless they are left to the cache, are read by Open and kept; they do not change,
//     and any number of goroutines use them.
//  3. Other blocks go through the cache (fetch.go). Who gets a block holds a reference and releases it.
//  4. Nothing here trusts a length from the file: handles lie in the file, and what a block says of its size is bounded.

package sstable

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/checksum"
	"github.com/ashlardb/ashlar/internal/compress"
	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/internal/tombstone"
	"github.com/ashlardb/ashlar/sstable/block"
	"github.com/ashlardb/ashlar/vfs"
)

// Stats are where readers count what they do. Any number of readers may share one.
type Stats struct {
	stats.Set
	// Histograms may be nil.
	Histograms *stats.Histograms
}

// ReaderOptions say how a table is read. Zero values are defaults.
type ReaderOptions struct {
	// Comparer is kv.Bytewise by default. It must be that of the table.
	Comparer *kv.Comparer
	// Filter reads the table's filter if it is stored under its name; built-in filters are read without it.
	Filter filter.Policy
	// Cache holds data blocks; nil keeps none.
	Cache *cache.Cache
	// CacheMeta leaves index, filter and dictionary to the cache, from where they are read again when they have gone.
	// Without it the reader keeps them.
	CacheMeta bool
	// HighPriority gives them precedence in the cache over data blocks.
	HighPriority bool
	// Pin reads them at once, and keeps them in the cache as long as the reader is open.
	Pin bool
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
	index      *index        // nil: in the cache
	filter     filter.Reader // nil: none, not to be asked, or in the cache
	filterSize int64
	tombstones *tombstone.List
	dict       []byte         // nil: none, or in the cache
	seq        kv.Seq         // of every entry, when not 0
	metas      []block.Handle // every block that is no data block, for VerifyChecksums
	propsAt    block.Handle

	// What is left to the cache. cachedFilter is nil when there is none, or the reader has it.
	high         bool
	indexAt      block.Handle
	dictAt       block.Handle // of size 0 when there is none, or the reader has it
	cachedFilter *cachedFilter
	pins         []*cache.Value
}

// noCache keeps nothing; readers without a cache get their blocks' memory from it.
var noCache = sync.OnceValue(func() *cache.Cache { return cache.New(0) })

// tailSize is how much of a file's end Open reads at once.
const tailSize = 16 << 10

// Open opens the table in f and owns f from then on, also when it fails. path is for errors.
func Open(f vfs.File, path string, o ReaderOptions) (*Reader, error) {
	r := &Reader{f: f, path: path, cmp: o.Comparer, cache: o.Cache, stats: o.Stats, high: o.HighPriority}
	if r.cmp == nil {
		r.cmp = kv.Bytewise
	}
	if r.cache == nil {
		r.cache = noCache()
	}
	if r.stats == nil {
		r.stats = new(Stats)
	}
	r.id = r.cache.NewID()
	if err := r.open(&o); err != nil {
		r.Close()
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
		if o.CacheMeta {
			r.dictAt = h
		} else if r.dict, err = r.metaBlock(h, tail); err != nil {
			return err
		}
	}
	h = r.foot.index
	if r.foot.version >= 6 {
		if h, ok = names[metaIndex]; !ok {
			return r.corrupt(r.foot.metaindex, "metaindex: no index")
		}
	}
	r.indexAt = h
	r.metas = append(r.metas, h)
	if !o.CacheMeta {
		var parts []block.Handle
		if r.index, parts, err = r.readIndex(h, tail); err != nil {
			return err
		}
		r.metas = append(r.metas, parts...)
	}
	if err := r.readFilter(names, tail, o); err != nil {
		return err
	}
	if o.CacheMeta && o.Pin {
		return r.pin()
	}
	return nil
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

// readIndex reads the index, both levels of it if there are two, and returns the blocks of the second.
func (r *Reader) readIndex(h block.Handle, tail []byte) (x *index, parts []block.Handle, err error) {
	b, err := r.metaBlock(h, tail)
	if err != nil {
		return nil, nil, err
	}
	x = &index{cmp: r.cmp, userKeys: r.props.IndexKeyIsUserKey}
	firstKeys := r.props.IndexType == indexFirstKeys
	if r.props.IndexType != indexTwoLevel {
		err = r.readHandles(x, b, h, firstKeys)
	} else {
		top := index{cmp: r.cmp, userKeys: r.props.IndexKeyIsUserKey}
		if err = r.readHandles(&top, b, h, false); err != nil {
			return nil, nil, err
		}
		for _, part := range top.handles {
			if b, err = r.metaBlock(part, tail); err != nil {
				return nil, nil, err
			}
			if err = r.readHandles(x, b, part, false); err != nil {
				return nil, nil, err
			}
		}
		parts = top.handles
	}
	if err != nil {
		return nil, nil, err
	}
	x.finish()
	return x, parts, nil
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
			if o.CacheMeta {
				r.cachedFilter = &cachedFilter{policy: policy, whole: h}
				return nil
			}
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
		if o.CacheMeta && p.index.len() > 0 {
			p.index.finish()
			r.metas = append(r.metas, p.index.handles...)
			r.cachedFilter = &cachedFilter{policy: policy, parts: &p.index}
			return nil
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

// Properties returns what the table says about itself. It must not be changed.
func (r *Reader) Properties() *Properties { return &r.props }

// HasFilter tells whether Get asks a filter.
func (r *Reader) HasFilter() bool { return r.filter != nil || r.cachedFilter != nil }

// MemoryUsage is about how many bytes the reader keeps for index, filter, range deletes and dictionary. What the cache
// keeps of them, pinned or not, is not in it.
func (r *Reader) MemoryUsage() int64 {
	n := r.filterSize + int64(len(r.dict)) + r.tombstones.Bytes()
	if r.index != nil && len(r.pins) == 0 {
		n += r.index.bytes()
	}
	if p, ok := r.filter.(*partitionedFilter); ok {
		n += p.index.bytes()
	}
	if c := r.cachedFilter; c != nil && c.parts != nil {
		n += c.parts.bytes()
	}
	return n
}

// Size is the length of the file.
func (r *Reader) Size() int64 { return r.size }

// ApproximateOffset is about where in the file the user key would be: the start of its data block; 0 if the index cannot
// be read.
func (r *Reader) ApproximateOffset(user []byte) uint64 {
	x, v, err := r.indexFor(nil, false)
	if err != nil {
		return 0
	}
	defer release(v)
	if n := x.seek(kv.SeekKey(user, kv.MaxSeq)); n < x.len() {
		return x.handles[n].Offset
	}
	if n := x.len(); n > 0 {
		h := x.handles[n-1]
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
	if r.index == nil {
		if _, _, err := r.readIndex(r.indexAt, nil); err != nil {
			return err
		}
	}
	i := r.NewIter(IterOptions{Readahead: 1 << 20})
	defer i.Close()
	var last []byte
	for e := i.First(); e != nil; e = i.Next() {
		if k, ok := kv.ParseKey(last); ok && r.cmp.CompareKeys(k, e.Key) >= 0 {
			return r.corrupt(i.x.handles[i.n], "data block: %v does not come after %v", e.Key, k)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		last = e.Key.Append(last[:0])
	}
	return i.Err()
}

// Close closes the file. Blocks of the table that are in the cache stay there until they are evicted.
func (r *Reader) Close() error {
	for _, v := range r.pins {
		v.Release()
	}
	r.pins = nil
	return r.f.Close()
}
