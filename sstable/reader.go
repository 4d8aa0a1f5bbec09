// The reading side of a table.
//
//  1. Whatever is read from the file is checked against its checksum before it is used, each time.
//  2. Index, filter and range deletes are read by Open and kept, of partitioned ones the upper level; they do not change, and
//     any number of goroutines use them.
//  3. Data blocks and partitions go through the cache. Who gets a block holds a reference and releases it.
//  4. Nothing here trusts a length from the file: handles lie in the file, and what a block says of its size is bounded.

package sstable

import (
	"context"
	"errors"
	"sync"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/cache"
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
	// PrefixExtractor, if the table's has the same name, allows to ask the filter for prefixes.
	PrefixExtractor kv.SliceTransform
	// Cache holds data blocks and partitions; nil keeps none.
	Cache *cache.Cache
	// CacheMeta leaves index, filter and dictionary to the cache too, from where they are read again when they have gone.
	// Without it the reader keeps them, of partitioned ones the upper level, which it keeps in any case.
	CacheMeta bool
	// HighPriority gives indexes, filters and dictionaries precedence in the cache over data blocks.
	HighPriority bool
	// Pin reads what of them is in the cache at once, and keeps it there as long as the reader is open.
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
	index      index // of data blocks, or, when twoLevel, of the index's partitions
	twoLevel   bool  // also where the index is left to the cache: as one partition
	filter     tableFilter
	tombstones *tombstone.List
	dict       []byte         // nil when there is none, or the cache has it
	dictAt     block.Handle   // of size 0 when there is none, or the reader has it
	seq        kv.Seq         // of every entry, when not 0
	metas      []block.Handle // every block that is no data block, for VerifyChecksums
	propsAt    block.Handle
	high       bool // priority in the cache
	pins       []*cache.Value
	table      *openTable // whose reader it is; nil without Tables
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
	if err := r.readIndex(h, tail, o); err != nil {
		return err
	}
	if err := r.readFilter(names, tail, o); err != nil {
		return err
	}
	if o.Pin {
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

// readIndex reads the index, or, of two levels, the upper one: its partitions come through the cache.
func (r *Reader) readIndex(h block.Handle, tail []byte, o *ReaderOptions) error {
	r.metas = append(r.metas, h)
	if o.CacheMeta && r.props.IndexType != indexTwoLevel {
		r.index, r.twoLevel = loneIndex(h), true
		r.index.userKeys = r.props.IndexKeyIsUserKey
		return nil
	}
	b, err := r.metaBlock(h, tail)
	if err != nil {
		return err
	}
	r.index.reset(r.cmp, r.props.IndexKeyIsUserKey)
	r.twoLevel = r.props.IndexType == indexTwoLevel
	err = r.readHandles(&r.index, b, h, r.props.IndexType == indexFirstKeys)
	r.index.finish()
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

// Properties returns what the table says about itself. It must not be changed.
func (r *Reader) Properties() *Properties { return &r.props }

// HasFilter tells whether Get asks a filter.
func (r *Reader) HasFilter() bool {
	return r.filter.there() && (r.filter.whole || r.filter.prefix != nil)
}

// MemoryUsage is about how many bytes the reader keeps for index, filter, range deletes and dictionary. Partitions are the
// cache's.
func (r *Reader) MemoryUsage() int64 {
	n := r.index.bytes() + r.filter.parts.bytes() + int64(len(r.dict)) + r.tombstones.Bytes()
	if r.filter.full != nil {
		n += r.filter.size
	}
	return n
}

// Size is the length of the file.
func (r *Reader) Size() int64 { return r.size }

// ApproximateOffset is about where in the file the user key would be: the start of its data block. What cannot be read of
// the index counts as the end of the data.
func (r *Reader) ApproximateOffset(user []byte) uint64 {
	var c cursor
	c.init(r, fetch{})
	defer c.release()
	if ok, err := c.seek(kv.SeekKey(user, kv.MaxSeq)); ok && err == nil {
		return c.handle().Offset
	}
	if ok, err := c.last(); ok && err == nil {
		h := c.handle()
		return h.Offset + h.Size + block.TrailerSize
	}
	return r.props.DataSize
}

// VerifyChecksums reads the whole table from the file, past the cache: every block's checksum, and the order and form
// of every entry.
func (r *Reader) VerifyChecksums(ctx context.Context) error {
	metas := append(r.metas[:len(r.metas):len(r.metas)], r.filter.parts.handles...)
	if r.twoLevel {
		metas = append(metas, r.index.handles...)
	}
	for _, h := range metas {
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
			return r.corrupt(i.at, "data block: %v does not come after %v", e.Key, k)
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
