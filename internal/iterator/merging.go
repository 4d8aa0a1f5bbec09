package iterator

import (
	"encoding/binary"
	"errors"

	"github.com/ashlardb/ashlar/internal/kv"
)

// Merge is a merging iterator. Its heap holds one slot for each child that stands on an entry.
//
//  1. heap[0] is the entry that the caller stands on; its child is the only one that moves in a step onward.
//  2. In forward direction every other child stands on its first entry after heap[0], in backward direction on its last
//     entry before, less what was skipped. A child that is not in the heap has run off that end.
//  3. Order is by (internal key, position of the child), ascending forward, descending backward: a total order.
//  4. best is 1 or 2 when that slot is known to come before the other one of them, 0 when not known. It stays true
//     while only heap[0] changes in place.
//  5. After an error the heap is empty and err is set: no child is moved before the next positioning call.
type Merge struct {
	cmp      *kv.Comparer
	bytewise bool
	backward bool
	best     int
	heap     []slot
	children []kv.Iterator
	err      error
}

// slot is what the heap moves: enough of the key by value that most comparisons touch no other memory.
type slot struct {
	prefix uint64 // first 8 bytes of the user key, big-endian, zero-padded; 0 for all when the order is not bytewise
	entry  *kv.Entry
	child  int
}

// Merging returns one iterator over the entries of all iters. It takes them over: Close closes each. A single one is
// returned as it is.
//
// An error of any child is an error of the whole at the step that met it, since what the others hold cannot be ordered
// against what is not there.
func Merging(cmp *kv.Comparer, iters ...kv.Iterator) kv.Iterator {
	return new(Merge).Init(cmp, iters)
}

// Init is Merging in place, for owners that keep their iterators' memory; m must be closed before it is used again.
func (m *Merge) Init(cmp *kv.Comparer, iters []kv.Iterator) kv.Iterator {
	switch len(iters) {
	case 0:
		return kv.Empty{}
	case 1:
		return iters[0]
	}
	if cap(m.heap) < len(iters) {
		m.heap = make([]slot, 0, len(iters))
	}
	m.cmp, m.bytewise, m.children = cmp, cmp.IsBytewise(), iters
	m.reset(false)
	return m
}

// First positions at the first entry.
func (m *Merge) First() *kv.Entry {
	m.reset(false)
	for i, c := range m.children {
		m.put(i, c.First())
	}
	return m.build()
}

// Last positions at the last entry.
func (m *Merge) Last() *kv.Entry {
	m.reset(true)
	for i, c := range m.children {
		m.put(i, c.Last())
	}
	return m.build()
}

// SeekGE positions at the first entry with key >= k.
func (m *Merge) SeekGE(k kv.Key, prefix []byte) *kv.Entry {
	m.reset(false)
	for i, c := range m.children {
		m.put(i, c.SeekGE(k, prefix))
	}
	return m.build()
}

// SeekLT positions at the last entry with key < k.
func (m *Merge) SeekLT(k kv.Key) *kv.Entry {
	m.reset(true)
	for i, c := range m.children {
		m.put(i, c.SeekLT(k))
	}
	return m.build()
}

// Next moves to the next entry.
func (m *Merge) Next() *kv.Entry {
	if m.backward {
		return m.turn()
	}
	if len(m.heap) == 0 {
		return nil
	}
	return m.replaceTop(m.children[m.heap[0].child].Next())
}

// Prev moves to the previous entry.
func (m *Merge) Prev() *kv.Entry {
	if !m.backward {
		return m.turn()
	}
	if len(m.heap) == 0 {
		return nil
	}
	return m.replaceTop(m.children[m.heap[0].child].Prev())
}

// Child is the position, among those given to Init, of the iterator that has the entry which the caller stands on.
func (m *Merge) Child() int { return m.heap[0].child }

// SkipGE moves on from the entry that the caller stands on, and from what follows it of the same child before k, which is
// behind the entry. The walk goes forward. When it turns, it may meet again what was left out.
func (m *Merge) SkipGE(k kv.Key) *kv.Entry {
	return m.replaceTop(m.children[m.heap[0].child].SeekGE(k, nil))
}

// SkipLT is SkipGE for a walk backward, to what is before k.
func (m *Merge) SkipLT(k kv.Key) *kv.Entry {
	return m.replaceTop(m.children[m.heap[0].child].SeekLT(k))
}

// Err returns the error that ended the walk.
func (m *Merge) Err() error { return m.err }

// Close closes all children.
func (m *Merge) Close() error {
	err := m.err
	for _, c := range m.children {
		// A child's own error is already ours: do not report it twice.
		if e := c.Close(); e != nil && !errors.Is(err, e) {
			err = errors.Join(err, e)
		}
	}
	clear(m.heap[:cap(m.heap)])
	m.heap, m.children = m.heap[:0], nil
	return err
}

// turn changes direction: see the package comment.
func (m *Merge) turn() *kv.Entry {
	if m.err != nil {
		return nil
	}
	m.reset(!m.backward)
	for i, c := range m.children {
		if m.backward {
			m.put(i, c.Prev())
		} else {
			m.put(i, c.Next())
		}
	}
	return m.build()
}

func (m *Merge) reset(backward bool) {
	m.backward, m.best, m.heap, m.err = backward, 0, m.heap[:0], nil
}

// put adds child i at entry e, without order; build puts the heap in order after the last put.
func (m *Merge) put(i int, e *kv.Entry) {
	if e == nil {
		m.ended(i)
		return
	}
	m.heap = append(m.heap, slot{m.prefix(e), e, i})
}

// ended notes whether child i has come to its end or has failed. The first failure is kept.
func (m *Merge) ended(i int) {
	if err := m.children[i].Err(); err != nil && m.err == nil {
		m.err = err
	}
}

func (m *Merge) prefix(e *kv.Entry) uint64 {
	if !m.bytewise {
		return 0
	}
	if u := e.Key.User; len(u) >= 8 {
		return binary.BigEndian.Uint64(u)
	}
	return shortPrefix(e.Key.User)
}

func shortPrefix(u []byte) (p uint64) {
	for i, c := range u {
		p |= uint64(c) << (56 - 8*i)
	}
	return p
}

func (m *Merge) build() *kv.Entry {
	if m.err != nil {
		m.heap = m.heap[:0]
		return nil
	}
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	return m.top()
}

func (m *Merge) top() *kv.Entry {
	if len(m.heap) == 0 {
		return nil
	}
	return m.heap[0].entry
}

// replaceTop puts e, where the winning child stands now, in place of the top. It costs one comparison while one child
// goes on winning, against the two and more of a pop and a push.
func (m *Merge) replaceTop(e *kv.Entry) *kv.Entry {
	if e != nil {
		m.heap[0].prefix, m.heap[0].entry = m.prefix(e), e
		m.down(0)
		return m.heap[0].entry
	}
	if m.ended(m.heap[0].child); m.err != nil {
		m.heap = m.heap[:0]
		return nil
	}
	last := len(m.heap) - 1
	m.heap[0] = m.heap[last]
	m.heap, m.best = m.heap[:last], 0
	m.down(0)
	return m.top()
}

// down moves slot i to where it belongs among those below it.
func (m *Merge) down(i int) {
	h := m.heap
	for {
		left := 2*i + 1
		if left >= len(h) {
			return
		}
		c := left
		if right := left + 1; right < len(h) {
			if i == 0 && m.best != 0 {
				c = m.best
			} else if m.before(&h[right], &h[left]) {
				c = right
			}
			if i == 0 {
				m.best = c
			}
		}
		if !m.before(&h[c], &h[i]) {
			return
		}
		h[i], h[c] = h[c], h[i]
		if i == 0 {
			m.best = 0
		}
		i = c
	}
}

func (m *Merge) before(a, b *slot) bool {
	if a.prefix != b.prefix {
		return (a.prefix < b.prefix) != m.backward
	}
	x := m.cmp.CompareKeys(a.entry.Key, b.entry.Key)
	if x == 0 {
		x = a.child - b.child
	}
	return (x < 0) != m.backward
}
