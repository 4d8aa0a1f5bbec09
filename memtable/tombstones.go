package memtable

import (
	"slices"

	"github.com/ashlardb/ashlar/internal/invariants"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/tombstone"
)

// Range deletes lie beside the skiplist, on the Go heap.
//
//  1. A reader loads one pointer to a tombstones that never changes; without range deletes it is nil, and that is all
//     that a read pays.
//  2. AddTombstone makes the next one under a mutex. Most have one more in the tail and share the rest.
//  3. A tail that is full becomes a list, together with the lists at the end that are no longer than what they would join:
//     lists get shorter from front to back, by half at least. So a tombstone is fragmented again log n times, a read looks
//     into log n lists and a short tail, and deletes and reads in turns do not take the square of the number of deletes.
//  4. A list of maxList stays as it is, lest a writer wait for a longer one to be made: some milliseconds are the most.
type tombstones struct {
	lists []*tombstone.List
	tail  []tombstone.Tombstone
}

// maxTail is how many tombstones are looked at one by one, maxList about how many a list has at most.
const (
	maxTail = 16
	maxList = 8 << 10
)

// tombstoneOverhead is what a tombstone is counted for beyond its keys: about what it takes in a list.
const tombstoneOverhead = 256

// MaxTombstoneSize returns the bytes that a tombstone with keys of these lengths counts for. It is part of Bytes, so that
// range deletes fill a table as entries do, though the arena does not hold them.
func MaxTombstoneSize(startLen, endLen int) int { return tombstoneOverhead + startLen + endLen }

// AddTombstone hides the versions older than seq of the keys from start (included) to end (excluded) from readers at seq
// and later. It copies the keys; an end that is not behind the start changes nothing. Any number of goroutines may call
// it, also beside Insert, but not after Seal.
func (t *Table) AddTombstone(start, end []byte, seq kv.Seq) {
	if invariants.Enabled && t.sealed.Load() {
		panic("memtable: range delete in a sealed table")
	}
	if t.cmp.CompareUser(start, end) >= 0 {
		return
	}
	keys := append(append(make([]byte, 0, len(start)+len(end)), start...), end...)
	add := tombstone.Tombstone{Start: keys[:len(start):len(start)], End: keys[len(start):], Seq: seq}
	t.entries.Add(1)
	t.deletes.Add(1)
	t.tombstoneCount.Add(1)
	t.tombstoneBytes.Add(int64(MaxTombstoneSize(len(start), len(end))))

	t.adding.Lock()
	defer t.adding.Unlock()
	next := new(tombstones)
	if now := t.tombstones.Load(); now != nil {
		*next = *now
	}
	// Readers of the one before do not look behind the end of its tail.
	next.tail = append(next.tail, add)
	if len(next.tail) == maxTail {
		next.merge(t.cmp)
	}
	t.tombstones.Store(next)
}

// merge makes a list of the tail.
func (s *tombstones) merge(cmp *kv.Comparer) {
	all := slices.Clone(s.tail) // readers have the tail
	keep := len(s.lists)
	for ; keep > 0 && len(all) < maxList && len(s.lists[keep-1].All()) <= len(all); keep-- {
		all = slices.Concat(s.lists[keep-1].All(), all)
	}
	s.lists = append(slices.Clone(s.lists[:keep]), tombstone.New(cmp, all))
	s.tail = nil
}

// cover returns the newest tombstone not newer than seq that covers user, 0 if there is none.
func (s *tombstones) cover(cmp *kv.Comparer, user []byte, seq kv.Seq) (newest kv.Seq) {
	for i := range s.tail {
		x := &s.tail[i]
		if x.Seq > newest && x.Seq <= seq && cmp.CompareUser(x.Start, user) <= 0 && cmp.CompareUser(user, x.End) < 0 {
			newest = x.Seq
		}
	}
	for _, l := range s.lists {
		newest = max(newest, l.Cover(user, seq))
	}
	return newest
}

// HasTombstones tells whether there is a range delete.
func (t *Table) HasTombstones() bool { return t.tombstones.Load() != nil }

// AppendTombstones appends lists that together hold all range deletes of now.
func (t *Table) AppendTombstones(dst []*tombstone.List) []*tombstone.List {
	s := t.tombstones.Load()
	if s == nil {
		return dst
	}
	dst = append(dst, s.lists...)
	if len(s.tail) > 0 {
		dst = append(dst, tombstone.New(t.cmp, slices.Clone(s.tail)))
	}
	return dst
}
