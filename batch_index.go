package ashlar

import (
	"bytes"
	"math"
	"slices"

	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/internal/iterator"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
	"github.com/ashlardb/ashlar/internal/tombstone"
)

// batchIndex orders the writes of a batch by key: a skip list for each family, whose entries are the places of records in
// the batch's bytes.
//
//  1. Writes get sequence numbers above all that a database gives out, in their order: ownSeq, ownSeq+1, … So among the
//     versions of a key those of the batch are the newest, the last one first, and whoever reads up to number n of them
//     does not see what was added later.
//  2. Range deletes are not in the lists but beside them, and hide what is older: all of the database's, and the batch's
//     own writes before them.
//  3. Nothing is ever taken out. A rollback makes a new index over a copy of what is left, and who reads the old one goes
//     on doing so.
type batchIndex struct {
	data     []byte // the batch's; grows
	families map[uint32]*indexList
	next     kv.Seq // of the next write
	random   uint64
}

// ownSeq is the sequence number of a batch's first write: the last 4 billion are for them.
const ownSeq = kv.MaxSeq - math.MaxUint32

// maxIndexHeight is enough for a batch of the largest size: a quarter of the nodes has one level more.
const maxIndexHeight = 16

// indexList is one family's skip list, with its range deletes. Node 0 is the head.
type indexList struct {
	ranges []tombstone.Tombstone
	list   *tombstone.List // of the first listed of ranges
	listed int

	cmp    *kv.Comparer
	nodes  []indexNode
	links  []uint32 // node n's are links[n.links:], one for each level; 0 is the end
	height int
}

type indexNode struct {
	record int64 // where it stands in the batch
	seq    kv.Seq
	links  uint32
}

func newBatchIndex() *batchIndex {
	return &batchIndex{families: map[uint32]*indexList{}, next: ownSeq, random: 1}
}

// add takes in the records of data from offset on. data begins with what it was before.
func (x *batchIndex) add(data []byte, from int, comparer func(family uint32) *kv.Comparer) {
	x.data = data
	r := batch.NewReader(data).At(int64(from))
	for {
		off := r.Offset()
		rec, ok, err := r.Next()
		if err != nil || !ok {
			return // the batch has seen to its form
		}
		if rec.LogData {
			continue
		}
		l := x.families[rec.Family]
		if l == nil {
			l = &indexList{cmp: comparer(rec.Family), nodes: make([]indexNode, 1), links: make([]uint32, maxIndexHeight), height: 1}
			x.families[rec.Family] = l
		}
		if rec.Kind == kv.KindRangeDelete {
			l.ranges = append(l.ranges, tombstone.Tombstone{Start: rec.Key, End: rec.Value, Seq: x.next})
		} else {
			x.insert(l, rec.Key, off)
		}
		x.next++
	}
}

func (x *batchIndex) insert(l *indexList, key []byte, record int64) {
	height := 1
	for ; height < maxIndexHeight; height++ {
		x.random ^= x.random << 13
		x.random ^= x.random >> 7
		x.random ^= x.random << 17
		if x.random&3 != 0 {
			break
		}
	}
	var before [maxIndexHeight]uint32
	x.seek(l, kv.SeekKey(key, x.next), &before)
	l.height = max(l.height, height)
	n := indexNode{record: record, seq: x.next, links: uint32(len(l.links))}
	for level := range height {
		at := l.nodes[before[level]].links + uint32(level)
		l.links = append(l.links, l.links[at])
		l.links[at] = uint32(len(l.nodes))
	}
	l.nodes = append(l.nodes, n)
}

func (x *batchIndex) record(l *indexList, node uint32) batch.Record {
	r := batch.NewReader(x.data).At(l.nodes[node].record)
	rec, _, _ := r.Next()
	return rec
}

// seek returns the last node before k; 0 is the head. before, if not nil, gets that of each level.
func (x *batchIndex) seek(l *indexList, k kv.Key, before *[maxIndexHeight]uint32) (node uint32) {
	for level := l.height - 1; level >= 0; level-- {
		for {
			next := l.next(node, level)
			if next == 0 || !x.before(l, next, k) {
				break
			}
			node = next
		}
		if before != nil {
			before[level] = node
		}
	}
	return node
}

func (x *batchIndex) before(l *indexList, node uint32, k kv.Key) bool {
	rec := x.record(l, node)
	c := l.cmp.CompareUser(rec.Key, k.User)
	return c < 0 || c == 0 && kv.MakeTrailer(l.nodes[node].seq, rec.Kind) > k.Trailer
}

func (l *indexList) next(node uint32, level int) uint32 {
	return l.links[l.nodes[node].links+uint32(level)]
}

// tombstones returns the range deletes; nil if there are none.
func (l *indexList) tombstones() *tombstone.List {
	if l.listed < len(l.ranges) {
		l.list, l.listed = tombstone.New(l.cmp, slices.Clone(l.ranges)), len(l.ranges)
	}
	return l.list
}

// get shows g the writes of its key, newest first, until g wants no more. It returns whether g is decided.
func (x *batchIndex) get(family uint32, g *lookup.Get) (done bool) {
	l := x.families[family]
	if l == nil {
		return false
	}
	g.Cover(l.tombstones().Cover(g.User, kv.MaxSeq))
	for n := l.next(x.seek(l, kv.SeekKey(g.User, kv.MaxSeq), nil), 0); n != 0; n = l.next(n, 0) {
		rec := x.record(l, n)
		if !bytes.Equal(rec.Key, g.User) {
			break
		}
		if !g.Offer(kv.MakeTrailer(l.nodes[n].seq, rec.Kind), rec.Value) {
			return true
		}
	}
	return g.Covered()
}

// indexIter walks one family's writes. It keeps to the contract of kv.Iterator.
type indexIter struct {
	x    *batchIndex
	list *indexList
	// node is where it stands; 0 is before the first or, with behind, behind the last.
	node   uint32
	behind bool
	entry  kv.Entry
}

var _ kv.Iterator = (*indexIter)(nil)

// over puts a family's writes, as they are now, over what below shows of the database.
func (x *batchIndex) over(family uint32, below kv.Iterator) kv.Iterator {
	l := x.families[family]
	if l == nil {
		return below
	}
	var own kv.Iterator = &indexIter{x: x, list: l}
	if hides := l.tombstones(); hides != nil {
		own = &hidingIter{Iterator: own, list: hides}
		below = &hidingIter{Iterator: below, list: hides, older: true}
	}
	return iterator.Merging(l.cmp, own, below)
}

// hidingIter leaves out of an iterator what range deletes hide.
type hidingIter struct {
	kv.Iterator
	list  *tombstone.List
	older bool // all of it is older than every range delete, so that spans of keys are jumped over
}

func (h *hidingIter) First() *kv.Entry { return h.forward(h.Iterator.First()) }
func (h *hidingIter) Last() *kv.Entry  { return h.backward(h.Iterator.Last()) }
func (h *hidingIter) SeekGE(k kv.Key, prefix []byte) *kv.Entry {
	return h.forward(h.Iterator.SeekGE(k, prefix))
}
func (h *hidingIter) SeekLT(k kv.Key) *kv.Entry { return h.backward(h.Iterator.SeekLT(k)) }
func (h *hidingIter) Next() *kv.Entry           { return h.forward(h.Iterator.Next()) }
func (h *hidingIter) Prev() *kv.Entry           { return h.backward(h.Iterator.Prev()) }

func (h *hidingIter) hides(e *kv.Entry) bool {
	return h.list.Cover(e.Key.User, kv.MaxSeq) > e.Key.Seq()
}

func (h *hidingIter) forward(e *kv.Entry) *kv.Entry {
	for e != nil && h.hides(e) {
		if !h.older {
			e = h.Iterator.Next()
			continue
		}
		_, end := h.list.Span(e.Key.User, kv.MaxSeq)
		e = h.Iterator.SeekGE(kv.SeekKey(end, kv.MaxSeq), nil)
	}
	return e
}

func (h *hidingIter) backward(e *kv.Entry) *kv.Entry {
	for e != nil && h.hides(e) {
		if !h.older {
			e = h.Iterator.Prev()
			continue
		}
		start, _ := h.list.Span(e.Key.User, kv.MaxSeq)
		e = h.Iterator.SeekLT(kv.SeekKey(start, kv.MaxSeq))
	}
	return e
}

func (i *indexIter) at(node uint32, forward bool) *kv.Entry {
	i.node, i.behind = node, node == 0 && forward
	if node == 0 {
		return nil
	}
	rec := i.x.record(i.list, node)
	i.entry = kv.Entry{Key: kv.MakeKey(rec.Key, i.list.nodes[node].seq, rec.Kind), Value: rec.Value}
	return &i.entry
}

func (i *indexIter) First() *kv.Entry { return i.at(i.list.next(0, 0), true) }

func (i *indexIter) Last() *kv.Entry {
	node := uint32(0)
	for level := i.list.height - 1; level >= 0; level-- {
		for next := i.list.next(node, level); next != 0; next = i.list.next(node, level) {
			node = next
		}
	}
	return i.at(node, false)
}

func (i *indexIter) SeekGE(k kv.Key, _ []byte) *kv.Entry {
	return i.at(i.list.next(i.x.seek(i.list, k, nil), 0), true)
}

func (i *indexIter) SeekLT(k kv.Key) *kv.Entry { return i.at(i.x.seek(i.list, k, nil), false) }

func (i *indexIter) Next() *kv.Entry {
	if i.node == 0 && i.behind {
		return nil
	}
	return i.at(i.list.next(i.node, 0), true)
}

func (i *indexIter) Prev() *kv.Entry {
	switch {
	case i.node != 0:
		return i.SeekLT(kv.Key{User: slices.Clip(i.entry.Key.User), Trailer: i.entry.Key.Trailer})
	case i.behind:
		return i.Last()
	}
	return nil
}

func (i *indexIter) Err() error   { return nil }
func (i *indexIter) Close() error { return nil }
