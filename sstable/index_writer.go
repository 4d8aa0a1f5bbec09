package sstable

// The index of a table that is being written, and the filter's blocks.
//
//  1. Separators are kept, flat, until Finish, for only then is it known whether user keys suffice: not if the versions of
//     one go over from one block to the next. Then the whole index, and that of the filter's partitions, has internal keys.
//  2. Partitions are cut between data blocks, when the index's or the filter's is full. A partition of the filter ends with
//     one of the index, and has its last separator.
//  3. Partitions of one kind stand one behind the other in the file.

import (
	"encoding/binary"
	"fmt"

	"github.com/ashlardb/ashlar/internal/invariants"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/sstable/block"
)

// indexWriter has one separator for each data block that is finished; that of the last one waits for the next key.
type indexWriter struct {
	seps     []byte // shortened user keys
	ends     []int
	trailers []kv.Trailer // with which they separate as internal keys
	handles  []block.Handle
	waiting  bool
	split    bool // a user key goes over from one block to the next

	parts []int // for each partition that is cut, where it ends in handles
	size  int   // about what the current partition takes
}

// separate decides the separator between the block before and next, the first key behind it.
func (w *Writer) separate(next kv.Key, newUser bool) {
	x := &w.index
	x.waiting = false
	last, _ := kv.ParseKey(w.prev)
	start := len(x.seps)
	t := last.Trailer
	if newUser {
		x.seps = w.o.Comparer.Separator(x.seps, last.User, next.User)
		if s := x.seps[start:]; w.o.Comparer.CompareUser(last.User, s) < 0 {
			t = kv.MakeTrailer(kv.MaxSeq, kv.KindSeparator)
		}
		if invariants.Enabled {
			s := x.seps[start:]
			if w.o.Comparer.CompareUser(last.User, s) > 0 || w.o.Comparer.CompareUser(s, next.User) >= 0 {
				panic(fmt.Sprintf("separator %q is not between %q and %q", s, last.User, next.User))
			}
		}
	} else {
		x.seps = append(x.seps, last.User...)
		x.split = true
	}
	x.ends = append(x.ends, len(x.seps))
	x.trailers = append(x.trailers, t)
}

// cut ends the partition before next, the key behind the last separator, if it is full.
func (w *Writer) cut(next []byte) bool {
	x := &w.index
	n := len(x.ends)
	length := x.ends[n-1]
	if n > 1 {
		length -= x.ends[n-2]
	}
	x.size += length + kv.TrailerSize + 12
	if !w.o.TwoLevelIndex || x.size < w.o.MetadataBlockSize && !w.filter.full() {
		return false
	}
	x.parts = append(x.parts, n)
	x.size = 0
	w.filter.cut(next, true)
	return w.o.PartitionFilters
}

// endIndex adds the separator of the last block. Behind it comes nothing: its own last key ends it.
func (w *Writer) endIndex() {
	x := &w.index
	last, _ := kv.ParseKey(w.prev)
	w.meta.Largest = last.Clone()
	x.seps = append(x.seps, last.User...)
	x.ends = append(x.ends, len(x.seps))
	x.trailers = append(x.trailers, last.Trailer)
	x.parts = append(x.parts, len(x.ends))
	w.filter.cut(nil, false)
}

func (w *Writer) describeIndex() {
	p := &w.props
	p.IndexKeyIsUserKey = w.foot.version >= 3 && !w.index.split
	p.IndexValueIsDelta = w.foot.version >= 4
	p.IndexType = indexBinary
	if w.o.TwoLevelIndex {
		p.IndexType = indexTwoLevel
	}
}

// separator returns separator n as the index has it, in dst.
func (w *Writer) separator(dst []byte, n int) []byte {
	x := &w.index
	start := 0
	if n > 0 {
		start = x.ends[n-1]
	}
	dst = append(dst[:0], x.seps[start:x.ends[n]]...)
	if !w.props.IndexKeyIsUserKey {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(x.trailers[n]))
	}
	return dst
}

// writeIndex writes the index and returns its place, or that of the upper level.
func (w *Writer) writeIndex() (block.Handle, error) {
	x, p := &w.index, &w.props
	var b block.Builder
	b.Init(w.o.IndexBlockRestartInterval)
	var key []byte
	add := func(start, end int) {
		for n := start; n < end; n++ {
			key = w.separator(key, n)
			b.AddHandle(key, x.handles[n], p.IndexValueIsDelta)
		}
	}
	if !w.o.TwoLevelIndex {
		add(0, len(x.handles))
		index := b.Finish()
		p.IndexSize = uint64(len(index) + block.TrailerSize)
		return w.writeBlock(index, true)
	}
	var places []block.Handle
	start := 0
	for _, end := range x.parts {
		b.Reset()
		add(start, end)
		part := b.Finish()
		h, err := w.writeBlock(part, true)
		if err != nil {
			return h, err
		}
		places = append(places, h)
		p.IndexSize += uint64(len(part))
		start = end
	}
	top := w.upper(places)
	p.IndexPartitions, p.TopLevelIndexSize = uint64(len(places)), uint64(len(top))
	p.IndexSize += uint64(len(top) + block.TrailerSize)
	return w.writeBlock(top, true)
}

// upper returns the block that names partitions at their places.
func (w *Writer) upper(places []block.Handle) []byte {
	var b block.Builder
	b.Init(w.o.IndexBlockRestartInterval)
	var key []byte
	for i, h := range places {
		key = w.separator(key, w.index.parts[i]-1)
		b.AddHandle(key, h, w.props.IndexValueIsDelta)
	}
	return b.Finish()
}

// writeFilter writes the filter and returns its place, or that of the upper level, and which of the two it is.
func (w *Writer) writeFilter() (kind string, h block.Handle, err error) {
	var places []block.Handle
	for _, b := range w.filter.blocks {
		if h, err = w.writeBlock(b, false); err != nil {
			return "", h, err
		}
		places = append(places, h)
		w.props.FilterSize += uint64(len(b))
	}
	if !w.o.PartitionFilters {
		return metaFullFilter, h, nil
	}
	top := w.upper(places)
	w.props.FilterSize += uint64(len(top))
	h, err = w.writeBlock(top, false)
	return metaPartitionedFilter, h, err
}
