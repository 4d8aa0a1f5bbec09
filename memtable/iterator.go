package memtable

import "github.com/ashlardb/ashlar/internal/kv"

// Iterator walks a Table. It keeps to the contract of kv.Iterator, never fails and may be used beside inserts: an entry
// that is inserted while it walks is met if it lies ahead. Its slices point into the arena, so that they live until the
// table's Release, longer than the contract asks for; only the Entry itself is overwritten by the next call.
//
// A step forward follows a link. A step backward searches, but not from the top: the iterator keeps the way that its
// last search came down, and the levels of that way on which the node it stands on was not reached yet still lead to
// the one before. Half of the nodes have one level, a quarter two, so a step redoes two levels on average.
// BenchmarkPrev against BenchmarkPrevBySearch, which starts from the top, is 2 : 3.
type Iterator struct {
	list  *list
	bloom *Bloom
	// node is where it stands: the head before the first entry, 0 behind the last.
	node  uint32
	entry kv.Entry
	// way[i], for i < levels, is a node of level i or the head. It is node itself or before it, and never behind
	// way[i-1]. No entry that the search met stood between way[0] and node.
	levels int
	way    [maxHeight]uint32
}

var _ kv.Iterator = (*Iterator)(nil)

// NewIter returns an iterator, to be positioned first.
func (t *Table) NewIter() *Iterator { return &Iterator{list: &t.list, bloom: t.bloom} }

// Init makes it an iterator of t, as NewIter does, for owners that keep their iterators' memory.
func (it *Iterator) Init(t *Table) { *it = Iterator{list: &t.list, bloom: t.bloom} }

func (it *Iterator) at(node uint32) *kv.Entry {
	it.node = node
	if node == 0 || node == it.list.head {
		return nil
	}
	it.entry.Key.User = it.list.key(node)
	it.entry.Key.Trailer = it.list.header(node).trailer
	it.entry.Value = it.list.value(node)
	return &it.entry
}

// First positions at the first entry.
func (it *Iterator) First() *kv.Entry {
	it.levels = 0
	return it.at(it.list.next(it.list.head, 0).offset())
}

// Last positions at the last entry.
func (it *Iterator) Last() *kv.Entry {
	behindAll := target{rank: endLink.rank()}
	it.levels = 0
	return it.down(&behindAll)
}

// SeekGE positions at the first entry with key >= k. With a prefix that the table's filter does not know it goes behind
// the last entry.
func (it *Iterator) SeekGE(k kv.Key, prefix []byte) *kv.Entry {
	it.levels = 0
	if prefix != nil && !it.bloom.mayHavePrefix(prefix) {
		return it.at(0)
	}
	w := it.list.target(k.User, k.Trailer)
	_, next := it.list.find(&w)
	return it.at(next.offset())
}

// SeekLT positions at the last entry with key < k.
func (it *Iterator) SeekLT(k kv.Key) *kv.Entry {
	w := it.list.target(k.User, k.Trailer)
	it.levels = 0
	return it.down(&w)
}

// Next moves to the next entry.
func (it *Iterator) Next() *kv.Entry {
	if it.node == 0 {
		return nil
	}
	it.levels = 0
	return it.at(it.list.next(it.node, 0).offset())
}

// Prev moves to the entry before.
func (it *Iterator) Prev() *kv.Entry {
	switch it.node {
	case it.list.head:
		return nil
	case 0:
		return it.Last()
	}
	w := it.list.target(it.entry.Key.User, it.entry.Key.Trailer)
	return it.down(&w)
}

// down moves to the last entry before w. The part of the way that leads there is kept, the rest is made anew.
func (it *Iterator) down(w *target) *kv.Entry {
	level := 0
	for level < it.levels && it.way[level] == it.node {
		level++
	}
	node := it.list.head
	if level == it.levels {
		level = int(it.list.height.Load())
		it.levels = level
	} else {
		node = it.way[level]
		level++ // entries may have been inserted here since
	}
	above := endLink
	for level--; level >= 0; level-- {
		next := it.list.next(node, level)
		for next != above && it.list.before(next, w) {
			node = next.offset()
			next = it.list.next(node, level)
		}
		it.way[level] = node
		above = next
	}
	return it.at(node)
}

// Err returns nil.
func (it *Iterator) Err() error { return nil }

// Close ends the use of the iterator.
func (it *Iterator) Close() error { return nil }
