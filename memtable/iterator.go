package memtable

import "github.com/ashlardb/ashlar/internal/kv"

// Iterator walks a Table. It keeps to the contract of kv.Iterator, never fails and may be used beside inserts: an entry
// that is inserted while it walks is met if it lies ahead. Its slices point into the arena, so that they live until the
// table's Release, longer than the contract asks for; only the Entry itself is overwritten by the next call.
type Iterator struct {
	list *list
	// node is where it stands: the head before the first entry, 0 behind the last.
	node  uint32
	entry kv.Entry
}

var _ kv.Iterator = (*Iterator)(nil)

// NewIter returns an iterator, to be positioned first.
func (t *Table) NewIter() *Iterator { return &Iterator{list: &t.list} }

func (it *Iterator) at(node uint32) *kv.Entry {
	it.node = node
	if node == 0 || node == it.list.head {
		return nil
	}
	it.entry.Key.User = it.list.key(node)
	it.entry.Key.Trailer = it.list.trailer(node)
	it.entry.Value = it.list.value(node)
	return &it.entry
}

// First positions at the first entry.
func (it *Iterator) First() *kv.Entry { return it.at(it.list.next(it.list.head, 0).offset()) }

// Last positions at the last entry.
func (it *Iterator) Last() *kv.Entry { return it.at(it.list.last()) }

// SeekGE positions at the first entry with key >= k. The prefix is not made use of.
func (it *Iterator) SeekGE(k kv.Key, _ []byte) *kv.Entry {
	w := it.list.target(k.User, k.Trailer)
	_, next := it.list.find(&w)
	return it.at(next.offset())
}

// SeekLT positions at the last entry with key < k.
func (it *Iterator) SeekLT(k kv.Key) *kv.Entry {
	w := it.list.target(k.User, k.Trailer)
	prev, _ := it.list.find(&w)
	return it.at(prev)
}

// Next moves to the next entry.
func (it *Iterator) Next() *kv.Entry {
	if it.node == 0 {
		return nil
	}
	return it.at(it.list.next(it.node, 0).offset())
}

// Prev moves to the entry before.
func (it *Iterator) Prev() *kv.Entry {
	switch it.node {
	case it.list.head:
		return nil
	case 0:
		return it.at(it.list.last())
	}
	return it.at(it.list.previous(it.node))
}

// Err returns nil.
func (it *Iterator) Err() error { return nil }

// Close ends the use of the iterator.
func (it *Iterator) Close() error { return nil }
