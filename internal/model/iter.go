package model

// Iter walks a copy of what a reader sees, by the rules of the database's iterators: a new one stands on nothing, and
// from there Next goes to the first entry and Prev to the last; behind the end Next stays and Prev goes to the last
// entry, and the other way round in front of the first.
type Iter struct {
	compare func(a, b string) int
	entries []Entry
	at      int // -1: in front of the first; len(entries): behind the last
	fresh   bool
}

// NewIter returns an iterator over what a reader at seq sees between two bounds, nil being open.
func (f *Family) NewIter(seq uint64, lower, upper *string) *Iter {
	return &Iter{compare: f.Compare, entries: f.Entries(seq, lower, upper), at: -1, fresh: true}
}

// Entry returns the entry that the iterator stands on, false if there is none.
func (i *Iter) Entry() (Entry, bool) {
	if i.at < 0 || i.at >= len(i.entries) {
		return Entry{}, false
	}
	return i.entries[i.at], true
}

// First goes to the first entry.
func (i *Iter) First() { i.at, i.fresh = 0, false }

// Last goes to the last entry.
func (i *Iter) Last() { i.at, i.fresh = len(i.entries)-1, false }

// Seek goes to the first entry with a key >= key.
func (i *Iter) Seek(key string) {
	for i.First(); i.at < len(i.entries) && i.compare(i.entries[i.at].Key, key) < 0; i.at++ {
	}
}

// SeekForPrev goes to the last entry with a key <= key.
func (i *Iter) SeekForPrev(key string) {
	for i.Last(); i.at >= 0 && i.compare(i.entries[i.at].Key, key) > 0; i.at-- {
	}
}

// Next goes to the next entry.
func (i *Iter) Next() {
	if i.fresh {
		i.First()
		return
	}
	i.at = min(i.at+1, len(i.entries))
}

// Prev goes to the entry before.
func (i *Iter) Prev() {
	if i.fresh {
		i.Last()
		return
	}
	i.at = max(i.at-1, -1)
}
