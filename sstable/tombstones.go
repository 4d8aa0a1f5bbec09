package sstable

// This file owns the block of range deletes, "rocksdb.range_del" in the metaindex: one entry for each, sorted by key,
// never compressed.
//
//	key     | start | sequence<<8 | 0x0f, u64 |
//	value   | end, excluded                   |
//
// Readers take them in any order and overlapping, as RocksDB does. Nothing in the block says where the table ends: what
// a range delete covers outside of the table's bounds in the manifest is not this table's affair (tombstone.Truncate).

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/tombstone"
	"github.com/ashlardb/ashlar/sstable/block"
)

// rangeEnd is the trailer of a table's Largest that is the excluded end of a range delete: before every version of the key.
var rangeEnd = kv.MakeTrailer(kv.MaxSeq, kv.KindRangeDelete)

// AddTombstone adds a range delete: of the versions older than seq of the keys from start (included) to end (excluded).
// They come in any order, among entries or alone, and may overlap. The keys are copied. An end that is not behind the
// start adds nothing.
func (w *Writer) AddTombstone(start, end []byte, seq kv.Seq) error {
	if w.err != nil {
		return w.err
	}
	if w.o.Comparer.CompareUser(start, end) >= 0 {
		return nil
	}
	if max(len(start), len(end)) > maxKeySize {
		return w.fail(fmt.Errorf("%s: range delete with keys of %d and %d bytes is too long for a table", w.path, len(start), len(end)))
	}
	w.tombstones = append(w.tombstones, tombstone.Tombstone{Start: slices.Clone(start), End: slices.Clone(end), Seq: seq})
	w.tombstoneSize += uint64(len(start) + len(end) + kv.TrailerSize + 8)
	return nil
}

// rangeDeletes returns the block of range deletes, and takes them into the properties and the table's bounds.
func (w *Writer) rangeDeletes() []byte {
	order, p, m := w.o.Comparer, &w.props, &w.meta
	slices.SortStableFunc(w.tombstones, func(a, b tombstone.Tombstone) int {
		if c := order.CompareUser(a.Start, b.Start); c != 0 {
			return c
		}
		return cmp.Compare(b.Seq, a.Seq)
	})
	var b block.Builder
	b.Init(1)
	for _, t := range w.tombstones {
		k := kv.MakeKey(t.Start, t.Seq, kv.KindRangeDelete)
		b.Add(k, t.End)
		if p.Entries == 0 || order.CompareKeys(k, m.Smallest) < 0 {
			m.Smallest = k
		}
		if end := (kv.Key{User: t.End, Trailer: rangeEnd}); p.Entries == 0 || order.CompareKeys(end, m.Largest) > 0 {
			m.Largest = end
		}
		m.SmallestSeq, m.LargestSeq = min(m.SmallestSeq, t.Seq), max(m.LargestSeq, t.Seq)
		p.Entries++
		p.Deletions++
		p.RangeDeletions++
		p.RawKeySize += uint64(k.Size())
		p.RawValueSize += uint64(len(t.End))
	}
	return b.Finish()
}

// readTombstones reads the block of range deletes.
func (r *Reader) readTombstones(h block.Handle, tail []byte) error {
	b, err := r.metaBlock(h, tail)
	if err != nil {
		return err
	}
	var all []tombstone.Tombstone
	s := block.NewScanner(b)
	for s.Next() {
		k, ok := kv.ParseKey(s.Key)
		if !ok || k.Kind() != kv.KindRangeDelete {
			return r.corrupt(h, "range deletes: %q is no key of one", s.Key)
		}
		seq := k.Seq()
		if r.seq != 0 {
			seq = r.seq
		}
		all = append(all, tombstone.Tombstone{Start: slices.Clone(k.User), End: slices.Clone(s.Value), Seq: seq})
	}
	if err := s.Err(); err != nil {
		return r.corrupt(h, "range deletes: %w", err)
	}
	if n := r.props.RangeDeletions; n > 0 && n != uint64(len(all)) {
		return r.corrupt(h, "%d range deletes, and the properties count %d", len(all), n)
	}
	r.tombstones = tombstone.New(r.cmp, all)
	return nil
}

// Tombstones returns the table's range deletes, nil if there are none. Get and iterators show entries whether or not one
// of these hides them: it may hide others, in older tables, and so is for their callers to ask.
func (r *Reader) Tombstones() *tombstone.List { return r.tombstones }
