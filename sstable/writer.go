// The writing side of a table.
//
//  1. Keys come strictly ascending; each goes into the current data block, and its user key into the filter.
//  2. A data block is finished when it is large enough. Its separator in the index is decided by the next key that
//     comes (index_writer.go).
//  3. Stored blocks gather in out, which goes to the file in large writes.
//  4. After an error the writer is done: every later call returns that error.

package sstable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/checksum"
	"github.com/ashlardb/ashlar/internal/compress"
	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/tombstone"
	"github.com/ashlardb/ashlar/sstable/block"
	"github.com/ashlardb/ashlar/vfs"
)

// DefaultBlockSize is the size in bytes that data blocks are cut at, before compression.
const DefaultBlockSize = 4096

// MaxEntrySize bounds a user key and its value together.
const MaxEntrySize = compress.MaxBlockSize - 1<<16

// maxKeySize bounds a user key: keys must fit into an index.
const maxKeySize = 1 << 28

// WriterOptions say how a table is written. Zero values are defaults.
type WriterOptions struct {
	// Comparer is kv.Bytewise by default.
	Comparer *kv.Comparer
	// Filter is the filter to build; nil builds none.
	Filter filter.Policy
	// PrefixExtractor has the prefixes of keys go into the filter.
	PrefixExtractor kv.SliceTransform
	// NoWholeKeyFiltering leaves the keys themselves out of it. Then, without PrefixExtractor, there is none.
	NoWholeKeyFiltering bool
	// OptimizeFiltersForHits says that most reads find their key, so that a filter for the last level is not worth its
	// memory; Bottommost says that this table has nothing below its range. With both no filter is built.
	OptimizeFiltersForHits, Bottommost bool

	BlockSize                 int // default 4096
	BlockRestartInterval      int // default 16
	IndexBlockRestartInterval int // default 1
	Compression               compress.Type
	Checksum                  checksum.Type
	FormatVersion             int // 2 to 7, default 5

	// TwoLevelIndex cuts the index into partitions of about MetadataBlockSize bytes, 4096 by default, which readers get
	// through the cache. PartitionFilters does so with the filter; without TwoLevelIndex it has no effect.
	TwoLevelIndex, PartitionFilters bool
	MetadataBlockSize               int
	// HashUtilRatio, if not 0, adds hash indexes to data blocks, with 1/HashUtilRatio buckets for each key.
	HashUtilRatio float64

	// For the properties.
	FamilyID                                   uint32
	FamilyName                                 string
	MergeOperator                              string // its name, "" if there is none
	DBID, SessionID                            string
	FileNumber                                 uint64
	CreationTime, OldestKeyTime, NewestKeyTime uint64
	FileCreationTime                           uint64
}

// policy is the filter that the table gets. It is the one place for the rule of OptimizeFiltersForHits: the bottom level has
// no filter, of whatever kind, when hits are what matters.
func (o *WriterOptions) policy() filter.Policy {
	if o.OptimizeFiltersForHits && o.Bottommost || o.NoWholeKeyFiltering && o.PrefixExtractor == nil {
		return nil
	}
	return o.Filter
}

func (o *WriterOptions) setDefaults() error {
	if o.Comparer == nil {
		o.Comparer = kv.Bytewise
	}
	if o.BlockSize == 0 {
		o.BlockSize = DefaultBlockSize
	}
	if o.BlockRestartInterval == 0 {
		o.BlockRestartInterval = 16
	}
	if o.IndexBlockRestartInterval == 0 {
		o.IndexBlockRestartInterval = 1
	}
	if o.Compression == compress.Default {
		o.Compression = compress.Snappy
	}
	if o.FormatVersion == 0 {
		o.FormatVersion = 5
	}
	if o.MetadataBlockSize == 0 {
		o.MetadataBlockSize = 4096
	}
	o.PartitionFilters = o.PartitionFilters && o.TwoLevelIndex
	switch {
	case o.FormatVersion < 2 || o.FormatVersion > maxFormat:
		return fmt.Errorf("format version %d is not written", o.FormatVersion)
	case o.BlockSize < 0 || o.BlockSize > 1<<28:
		return fmt.Errorf("block size %d", o.BlockSize)
	case o.BlockRestartInterval < 0 || o.IndexBlockRestartInterval < 0:
		return errors.New("negative restart interval")
	case o.MetadataBlockSize < 0 || o.HashUtilRatio < 0:
		return errors.New("negative size of partitions or hash indexes")
	case o.Compression == compress.BZip2:
		return errors.New("BZip2 is only read")
	}
	return nil
}

// Meta describes a finished table. Keys have their own memory. Largest is (end, MaxSeq, KindRangeDelete) if what is last
// in the table is the excluded end of a range delete. Entries and Deletes count range deletes too.
type Meta struct {
	Size                     uint64
	Smallest, Largest        kv.Key
	SmallestSeq, LargestSeq  kv.Seq
	Entries, Deletes         uint64
	RawKeySize, RawValueSize uint64
	TailSize                 uint64   // bytes behind the data blocks
	UniqueID                 [16]byte // zero when DBID or SessionID was not given
}

// writeSize is how much a writer gathers before it calls the file's Write.
const writeSize = 1 << 20

var outBuffers = sync.Pool{New: func() any { b := make([]byte, 0, writeSize+64<<10); return &b }}

// Writer writes one table. It belongs to one goroutine.
type Writer struct {
	f    vfs.File
	path string
	o    WriterOptions
	err  error

	out *[]byte // stored blocks that the file has not got yet
	off uint64  // length of the file with out

	data   block.Builder
	prev   []byte // the last key of the block before, encoded
	filter filterWriter
	foot   footer
	index  indexWriter

	tombstones    []tombstone.Tombstone
	tombstoneSize uint64 // about what they take

	props Properties
	meta  Meta
	used  [256]bool // type bytes of compressed blocks
}

// NewWriter returns a writer of a table to f, an empty file, which it owns from here on. path is for errors.
func NewWriter(f vfs.File, path string, o WriterOptions) *Writer {
	w := &Writer{f: f, path: path}
	if err := o.setDefaults(); err != nil {
		w.err = fmt.Errorf("%s: %w", path, err)
	}
	w.o = o
	w.out = outBuffers.Get().(*[]byte)
	if o.HashUtilRatio > 0 {
		w.data.InitHashed(o.BlockRestartInterval, o.HashUtilRatio)
	} else {
		w.data.Init(o.BlockRestartInterval)
	}
	w.foot.version, w.foot.sum = o.FormatVersion, o.Checksum
	if o.FormatVersion >= 6 {
		for w.foot.base == 0 {
			w.foot.base = rand.Uint32()
		}
	}
	w.filter.init(&w.o)
	w.meta.SmallestSeq = kv.MaxSeq
	return w
}

// Add appends an entry. Keys must ascend.
func (w *Writer) Add(k kv.Key, value []byte) error {
	if w.err != nil {
		return w.err
	}
	kind := k.Kind()
	if kind > kv.KindMerge && kind != kv.KindSingleDel || len(k.User) > maxKeySize || len(value) > MaxEntrySize-len(k.User) {
		return w.refuse(k, value)
	}
	size := len(k.User) + kv.TrailerSize
	newUser := true
	last := w.data.Last()
	if w.data.Empty() {
		last = w.prev
	}
	if w.props.Entries > 0 {
		p, _ := kv.ParseKey(last)
		c := w.o.Comparer.CompareUser(p.User, k.User)
		if c > 0 || (c == 0 && p.Trailer <= k.Trailer) {
			return w.fail(fmt.Errorf("%s: key %v does not come after %v", w.path, k, p))
		}
		newUser = c != 0
		if !w.data.Empty() && w.full(size, len(value)) {
			if err := w.flushBlock(); err != nil {
				return err
			}
		}
		if w.index.waiting {
			w.separate(k, newUser)
			if w.cut(k.User) {
				newUser = true // to the next partition's filter
			}
		}
	} else {
		w.meta.Smallest = k.Clone()
	}
	w.data.Add(k, value)
	if newUser && w.filter.builder != nil {
		w.filter.add(k.User)
	}
	w.props.Entries++
	w.props.RawKeySize += uint64(size)
	w.props.RawValueSize += uint64(len(value))
	switch kind {
	case kv.KindValue:
	case kv.KindMerge:
		w.props.MergeOperands++
	default:
		w.props.Deletions++
	}
	w.meta.SmallestSeq = min(w.meta.SmallestSeq, k.Seq())
	w.meta.LargestSeq = max(w.meta.LargestSeq, k.Seq())
	return nil
}

// full tells whether the block is to be finished before an entry of the given lengths: it has its size, or it has nine
// tenths of it and the entry would exceed it.
func (w *Writer) full(key, value int) bool {
	size := w.data.Size()
	return size >= w.o.BlockSize || size > w.o.BlockSize*9/10 && w.data.SizeWith(key, value) > w.o.BlockSize
}

func (w *Writer) refuse(k kv.Key, value []byte) error {
	if len(k.User) > maxKeySize || len(value) > MaxEntrySize-len(k.User) {
		return w.fail(fmt.Errorf("%s: key of %d bytes with a value of %d bytes is too long for a table", w.path, len(k.User), len(value)))
	}
	return w.fail(corrupt.Unsupported(w.path, int64(w.off), "entry of kind %v in a table", k.Kind()))
}

func (w *Writer) fail(err error) error {
	w.err = err
	return err
}

// Entries is how many entries and range deletes were added.
func (w *Writer) Entries() uint64 { return w.props.Entries + uint64(len(w.tombstones)) }

// EstimatedSize is about how large the file would be if it were finished now, without the filter.
func (w *Writer) EstimatedSize() uint64 {
	return w.off + uint64(w.data.Size()) + uint64(len(w.index.seps)) + 12*uint64(len(w.index.handles)) + w.tombstoneSize
}

// flushBlock stores the current data block.
func (w *Writer) flushBlock() error {
	h, err := w.writeBlock(w.data.Finish(), true)
	if err != nil {
		return err
	}
	w.prev = append(w.prev[:0], w.data.Last()...)
	w.index.handles = append(w.index.handles, h)
	w.index.waiting = true
	w.props.DataBlocks++
	w.data.Reset()
	return nil
}

// writeBlock stores a block, compressed if it may be and if that makes it small enough.
func (w *Writer) writeBlock(b []byte, pack bool) (block.Handle, error) {
	if len(b) > compress.MaxBlockSize {
		return block.Handle{}, w.fail(fmt.Errorf("%s: block of %d bytes", w.path, len(b)))
	}
	out := *w.out
	start := len(out)
	typeByte := compress.None.Disk()
	if pack && w.o.Compression != compress.None {
		out = w.o.Compression.Compress(out, b, nil)
		if n := len(out) - start; n <= len(b)/8*7 {
			typeByte = w.o.Compression.Disk()
			w.used[typeByte] = true
		} else {
			out = out[:start]
		}
	}
	if len(out) == start {
		out = append(out, b...)
	}
	h := block.Handle{Offset: w.off, Size: uint64(len(out) - start)}
	sum := w.foot.checksum(out[start:], typeByte, h.Offset)
	out = append(out, typeByte)
	out = binary.LittleEndian.AppendUint32(out, sum)
	w.off += uint64(len(out) - start)
	*w.out = out
	if len(out) >= writeSize {
		return h, w.flush()
	}
	return h, nil
}

// flush gives the file what was gathered.
func (w *Writer) flush() error {
	if len(*w.out) > 0 {
		if _, err := w.f.Write(*w.out); err != nil {
			return w.fail(err)
		}
	}
	*w.out = (*w.out)[:0]
	return nil
}

// Finish writes what is left, syncs the file and closes it. The file's name is made durable by the caller, who syncs the
// directory. On error the file is closed too, and is no table.
func (w *Writer) Finish() (Meta, error) {
	err := w.err
	if err == nil {
		err = w.finish()
	}
	if err == nil {
		err = w.f.Sync()
	}
	if cerr := w.f.Close(); err == nil {
		err = cerr
	}
	w.release()
	if err != nil {
		w.err = err
		return Meta{}, err
	}
	w.err = errors.New("table is finished")
	return w.meta, nil
}

// Abandon closes the file without finishing the table. The caller removes it.
func (w *Writer) Abandon() {
	w.f.Close()
	w.release()
	w.err = errors.New("table is abandoned")
}

func (w *Writer) release() {
	if cap(*w.out) <= 2*writeSize {
		*w.out = (*w.out)[:0]
		outBuffers.Put(w.out)
	}
	w.out = nil
}

func (w *Writer) finish() error {
	if !w.data.Empty() {
		if err := w.flushBlock(); err != nil {
			return err
		}
	}
	if w.index.waiting {
		w.endIndex()
	}
	p := &w.props
	p.DataSize, p.TailStart = w.off, w.off
	var meta block.Builder
	meta.Init(1)
	type named struct {
		name string
		h    block.Handle
	}
	var names []named // in order of their names, which do not depend on what there is

	w.describeIndex()
	if w.filter.builder != nil && p.Entries > 0 {
		kind, h, err := w.writeFilter()
		if err != nil {
			return err
		}
		names = append(names, named{kind + w.o.Filter.Name(), h})
	}
	index, err := w.writeIndex()
	if err != nil {
		return err
	}
	if w.foot.version >= 6 {
		names = append(names, named{metaIndex, index})
	} else {
		w.foot.index = index
	}
	var ranges block.Handle
	if len(w.tombstones) > 0 {
		if ranges, err = w.writeBlock(w.rangeDeletes(), false); err != nil {
			return err
		}
	}
	w.describe()
	h, err := w.writeBlock(p.encode(&w.data), false)
	if err != nil {
		return err
	}
	names = append(names, named{metaProperties, h})
	if len(w.tombstones) > 0 {
		names = append(names, named{metaRangeDel, ranges})
	}
	for _, n := range names {
		meta.AddString(n.name, n.h.Append(nil))
	}
	if w.foot.metaindex, err = w.writeBlock(meta.Finish(), false); err != nil {
		return err
	}
	w.foot.offset = w.off
	start := len(*w.out)
	*w.out = w.foot.append(*w.out)
	w.off += uint64(len(*w.out) - start)
	if err := w.flush(); err != nil {
		return err
	}

	m := &w.meta
	m.Size = w.off
	m.TailSize = w.off - p.TailStart
	m.Entries, m.Deletes = p.Entries, p.Deletions
	m.RawKeySize, m.RawValueSize = p.RawKeySize, p.RawValueSize
	if m.Entries == 0 {
		m.SmallestSeq = 0
	}
	if w.o.DBID != "" && w.o.SessionID != "" {
		if id, ok := checksum.UniqueID(w.o.DBID, w.o.SessionID, w.o.FileNumber); ok {
			m.UniqueID = id
		}
	}
	return nil
}

// describe fills in the properties that are not counted on the way.
func (w *Writer) describe() {
	p, o := &w.props, &w.o
	p.WholeKeyFiltering, p.PrefixFiltering = !o.NoWholeKeyFiltering, o.PrefixExtractor != nil
	p.FilterEntries = w.filter.total
	p.FormatVersion = uint64(w.foot.version)
	p.Compression = o.Compression.String()
	if w.foot.version >= 7 {
		p.Compression = compressionSet(o.Compression, &w.used)
	}
	p.CompressionOptions = "window_bits=-14; level=32767; strategy=0; max_dict_bytes=0; zstd_max_train_bytes=0; enabled=0; " +
		"max_dict_buffer_bytes=0; use_zstd_dict_trainer=1; "
	p.Comparer = o.Comparer.Name
	p.MergeOperator, p.PrefixExtractor = "nullptr", "nullptr"
	if o.MergeOperator != "" {
		p.MergeOperator = o.MergeOperator
	}
	if o.PrefixExtractor != nil {
		p.PrefixExtractor = o.PrefixExtractor.Name()
	}
	p.Collectors = "[]"
	if w.filter.builder != nil {
		p.FilterPolicy = o.Filter.Name()
		if n, ok := o.Filter.(interface{ PropertyName() string }); ok {
			p.FilterPolicy = n.PropertyName()
		}
	}
	p.FamilyID, p.FamilyName = uint64(o.FamilyID), o.FamilyName
	p.DBID, p.SessionID, p.FileNumber = o.DBID, o.SessionID, o.FileNumber
	p.CreationTime, p.OldestKeyTime, p.NewestKeyTime = o.CreationTime, o.OldestKeyTime, o.NewestKeyTime
	p.FileCreationTime = o.FileCreationTime
	p.DataBlockRestartInterval = uint64(o.BlockRestartInterval)
	p.IndexRestartInterval = uint64(o.IndexBlockRestartInterval)
	if p.Entries > 0 {
		p.SmallestSeq, p.LargestSeq = uint64(w.meta.SmallestSeq), uint64(w.meta.LargestSeq)
	}
}

// compressionSet is the property rocksdb.compression since format version 7: who compressed, and the types that occur.
func compressionSet(t compress.Type, used *[256]bool) string {
	if t == compress.None {
		return ";;"
	}
	s := "BuiltinV2;"
	for b, yes := range used {
		if yes {
			s += fmt.Sprintf("%02X", b)
		}
	}
	return s + ";"
}
