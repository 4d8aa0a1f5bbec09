package manifest

import (
	"fmt"
	"sync/atomic"

	"github.com/ashlardb/ashlar/internal/kv"
)

// File describes a table. Nothing in it changes once an edit with it was given to Apply; to move a table to another
// level, delete it there and add the same File here, in one edit.
type File struct {
	Num, Size uint64
	// Smallest and Largest are the table's first and last internal keys. If the last thing in it is the end of a range
	// tombstone, Largest is (end, MaxSeq, KindRangeDelete), which sorts before every version of end.
	Smallest, Largest       kv.Key
	SmallestSeq, LargestSeq kv.Seq
	// Epoch orders the files of level 0: more is newer. A flush leaves it 0 and Apply counts up; a compaction's output
	// takes the least of its inputs'.
	Epoch uint64
	// OldestAncestorTime and CreationTime are in seconds since 1970; 0 is unknown.
	OldestAncestorTime, CreationTime uint64
	// UniqueID is what sstable computed from the table's properties (checksum.UniqueID); all zero is none.
	UniqueID [16]byte
	// TailSize is the number of bytes after the last data block: a hint for reading the rest at once. 0 is unknown.
	TailSize uint64
	// CompensatedRangeDeletionSize is RocksDB's estimate of the bytes that the table's range tombstones hide below it.
	CompensatedRangeDeletionSize uint64
	// MarkedForCompaction asks a picker to rewrite the file soon.
	MarkedForCompaction bool
	// Settled is not stored. It is set where a compaction at the bottom could not do away with sequence numbers, since a
	// merge operator failed, so that the file is not picked for that again and again.
	Settled bool

	// extra are the custom fields that we have no use for (checksum of the whole file, temperature, those of later
	// releases), as they stood in the manifest, to be written again.
	extra []byte
	// refs counts the versions that name the file.
	refs atomic.Int32
}

// rangeEnd is the trailer of a Largest that is the exclusive end of a range tombstone.
var rangeEnd = kv.MakeTrailer(kv.MaxSeq, kv.KindRangeDelete)

// EndsExcluded tells whether Largest is the excluded end of a range tombstone: the file has nothing to do with that key.
func (f *File) EndsExcluded() bool { return f.Largest.Trailer == rangeEnd }

// before tells whether all of f is before the user key.
func (f *File) before(cmp *kv.Comparer, user []byte) bool {
	c := cmp.CompareUser(f.Largest.User, user)
	return c < 0 || c == 0 && f.EndsExcluded()
}

// overlaps tells whether f may hold a user key of r.
func (f *File) overlaps(cmp *kv.Comparer, r kv.Range) bool {
	return (r.Start == nil || !f.before(cmp, r.Start)) && !f.after(cmp, r)
}

// after tells whether all of f is after r.
func (f *File) after(cmp *kv.Comparer, r kv.Range) bool {
	if r.End == nil {
		return false
	}
	c := cmp.CompareUser(f.Smallest.User, r.End)
	return c > 0 || c == 0 && !r.EndInclusive
}

// String is the number and the bounds: 000007[a#1,SET..b#2,SET].
func (f *File) String() string {
	return fmt.Sprintf("%06d[%s..%s]", f.Num, debugKey(f.Smallest), debugKey(f.Largest))
}
