// Package itertest has the dumb twin of every internal iterator, and a check that drives an iterator against it. It is
// for tests only.
package itertest

import (
	"bytes"
	"fmt"
	"slices"
	"sort"

	"github.com/ashlardb/ashlar/internal/kv"
)

// Slice is an iterator over entries in order. It keeps the contract of kv.Iterator in the plainest way. After FailAfter
// steps (0: never) it fails with Error until it is positioned anew.
type Slice struct {
	Cmp       *kv.Comparer
	Entries   []kv.Entry
	FailAfter int
	Error     error
	Closed    bool

	at    int
	steps int
	err   error
}

// Sort puts entries in the order of internal keys.
func Sort(cmp *kv.Comparer, entries []kv.Entry) {
	slices.SortStableFunc(entries, func(a, b kv.Entry) int { return cmp.CompareKeys(a.Key, b.Key) })
}

// New returns an iterator over entries, which must be in order.
func New(cmp *kv.Comparer, entries []kv.Entry) *Slice { return &Slice{Cmp: cmp, Entries: entries} }

func (s *Slice) stand(i int) *kv.Entry {
	if s.steps++; s.FailAfter > 0 && s.steps > s.FailAfter {
		s.err = s.Error
		return nil
	}
	s.at = max(-1, min(i, len(s.Entries)))
	if s.at < 0 || s.at == len(s.Entries) {
		return nil
	}
	return &s.Entries[s.at]
}

func (s *Slice) position(i int) *kv.Entry {
	s.err = nil
	return s.stand(i)
}

// First implements kv.Iterator.
func (s *Slice) First() *kv.Entry { return s.position(0) }

// Last implements kv.Iterator.
func (s *Slice) Last() *kv.Entry { return s.position(len(s.Entries) - 1) }

func (s *Slice) search(k kv.Key) int {
	return sort.Search(len(s.Entries), func(i int) bool { return s.Cmp.CompareKeys(s.Entries[i].Key, k) >= 0 })
}

// SeekGE implements kv.Iterator. With a prefix it ends where the prefix ends.
func (s *Slice) SeekGE(k kv.Key, prefix []byte) *kv.Entry {
	e := s.position(s.search(k))
	if e != nil && !bytes.HasPrefix(e.Key.User, prefix) {
		return s.position(len(s.Entries))
	}
	return e
}

// SeekLT implements kv.Iterator.
func (s *Slice) SeekLT(k kv.Key) *kv.Entry { return s.position(s.search(k) - 1) }

// Next implements kv.Iterator.
func (s *Slice) Next() *kv.Entry {
	if s.err != nil {
		return nil
	}
	return s.stand(s.at + 1)
}

// Prev implements kv.Iterator.
func (s *Slice) Prev() *kv.Entry {
	if s.err != nil {
		return nil
	}
	return s.stand(s.at - 1)
}

// Err implements kv.Iterator.
func (s *Slice) Err() error { return s.err }

// Close implements kv.Iterator.
func (s *Slice) Close() error {
	s.Closed = true
	return s.err
}

// Check drives it with one call for each byte of ops, next to a Slice over want, and returns the first difference. The
// keys to seek come from want, and from between and beyond them. Neither may fail.
func Check(cmp *kv.Comparer, it kv.Iterator, want []kv.Entry, ops []byte) error {
	twin := New(cmp, want)
	positioned := false
	var prefix []byte // of the last SeekGE, nil when it had none
	for n, op := range ops {
		var got, exp *kv.Entry
		var what string
		arg := int(op >> 3)
		switch call := op & 7; {
		case call <= 2 && positioned:
			what, got, exp = "Next", it.Next(), twin.Next()
		case call <= 4 && positioned && prefix == nil:
			what, got, exp = "Prev", it.Prev(), twin.Prev()
		case call <= 4:
			continue
		case call == 5:
			k := seekKey(want, arg+n*7)
			prefix = nil
			what, got, exp = fmt.Sprintf("SeekGE(%v)", k), it.SeekGE(k, nil), twin.SeekGE(k, nil)
		case call == 6:
			k := seekKey(want, arg+n*7)
			prefix = nil
			what, got, exp = fmt.Sprintf("SeekLT(%v)", k), it.SeekLT(k), twin.SeekLT(k)
		case arg < 8:
			prefix = nil
			what, got, exp = "First", it.First(), twin.First()
		case arg < 16:
			prefix = nil
			what, got, exp = "Last", it.Last(), twin.Last()
		default:
			k := seekKey(want, arg+n*7)
			prefix = k.User[:len(k.User)*(arg%3)/2]
			what, got, exp = fmt.Sprintf("SeekGE(%v, %q)", k, prefix), it.SeekGE(k, prefix), twin.SeekGE(k, nil)
		}
		positioned = true
		if prefix != nil && (exp == nil || !bytes.HasPrefix(exp.Key.User, prefix)) {
			// Behind the last key with the prefix the iterator may be anywhere beyond, but not on such a key.
			if got != nil && bytes.HasPrefix(got.Key.User, prefix) {
				return fmt.Errorf("step %d, %s: %v, which is not there", n, what, got.Key)
			}
			positioned = false
			continue
		}
		if err := same(cmp, got, exp); err != nil {
			return fmt.Errorf("step %d, %s: %w (Err: %v)", n, what, err, it.Err())
		}
	}
	return it.Err()
}

func same(cmp *kv.Comparer, got, want *kv.Entry) error {
	switch {
	case got == nil && want == nil:
		return nil
	case got == nil:
		return fmt.Errorf("ended, want %v", want.Key)
	case want == nil:
		return fmt.Errorf("%v, want the end", got.Key)
	case cmp.CompareKeys(got.Key, want.Key) != 0:
		return fmt.Errorf("%v, want %v", got.Key, want.Key)
	case !bytes.Equal(got.Value, want.Value):
		return fmt.Errorf("%v has value %q, want %q", got.Key, got.Value, want.Value)
	}
	return nil
}

func seekKey(want []kv.Entry, n int) kv.Key {
	if len(want) == 0 {
		return kv.SeekKey([]byte("k"), kv.Seq(n))
	}
	e := want[n%len(want)].Key
	switch n % 7 {
	case 0:
		return kv.SeekKey(e.User, kv.MaxSeq)
	case 1:
		return kv.SeekKey(e.User, e.Seq())
	case 2:
		return kv.MakeKey(e.User, 0, 0)
	case 3:
		return kv.SeekKey(append(bytes.Clone(e.User), 0), kv.MaxSeq)
	case 4:
		return kv.SeekKey(nil, kv.MaxSeq)
	case 5:
		return kv.SeekKey([]byte("\xff\xff\xff\xff\xff"), kv.MaxSeq)
	}
	return e
}
