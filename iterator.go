package ashlar

import (
	"bytes"
	"iter"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/merge"
	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/lsm"
)

// Iterator walks the keys of a family in order, as of the moment it was made (or of its snapshot). It stands on an entry
// or on none (Valid). A new iterator stands on none; Next and Prev of such a one go to the first and the last entry.
//
// One goroutine at a time. It must be closed, and holds on to memtables and files until then.
type Iterator struct {
	cf     *ColumnFamily
	sv     *lsm.Superversion
	it     kv.Iterator
	seq    kv.Seq
	own    kv.Seq        // the last write of over that it sees, 0 for none
	over   *IndexedBatch // whose writes it shows on top of the database's, or nil
	lower  []byte        // nil: open
	upper  []byte
	opts   ReadOptions
	handle *handle

	// prefix is that of the keys shown, if bounded is set (PrefixSameAsStart).
	prefix  []byte
	bounded bool

	// How the internal iterator stands to the entry shown:
	//
	//	forward   it stands on the entry that is shown
	//	ahead     it stands on beside, the first entry that is no operand of the merge that is shown; nil: the end
	//	backward  it stands on beside, the entry in front of every version of the key that is shown; nil: there is none
	dir    direction
	valid  bool
	placed bool // it was positioned before
	err    error
	beside *kv.Entry
	key    []byte // the user key shown: own memory
	value  []byte // forward: the internal iterator's; else saved, or that of merged
	saved  []byte
	merged *merged // nil until the first merge

	counts iteratorCounts

	small [48]byte // where short keys go
}

type direction uint8

const (
	forward direction = iota
	ahead
	backward
)

// merged is a merge that an iterator shows.
type merged struct {
	operands merge.Operands
	value    []byte
}

// NewIterator returns an iterator over the family. It is never nil: if it cannot be made, Error says why.
func (c *ColumnFamily) NewIterator(o *ReadOptions) *Iterator { return c.newIterator(o, nil) }

// newIterator is NewIterator with the writes of a batch, if there is one, on top of the database.
func (c *ColumnFamily) newIterator(o *ReadOptions, over *IndexedBatch) *Iterator {
	i := &Iterator{cf: c, over: over}
	i.key = i.small[:0]
	if o != nil {
		i.opts = *o
		i.lower = bytes.Clone(o.IterateLowerBound)
		i.upper = bytes.Clone(o.IterateUpperBound)
	}
	i.open(o)
	return i
}

// open gives the iterator what it reads.
func (i *Iterator) open(o *ReadOptions) {
	sv, seq, err := i.cf.view(o)
	if err != nil {
		i.err = err
		return
	}
	i.sv, i.seq = sv, seq
	i.it = sv.NewIter(lsm.IterOptions{
		DontFillCache: i.opts.DontFillCache, CacheOnly: i.opts.ReadTier == BlockCacheTier, Context: i.opts.Context,
		Seq: seq, Lower: i.lower, Upper: i.upper,
	})
	i.own = 0
	if i.over != nil {
		i.it, i.own = i.over.index.over(i.cf.id, i.it), i.over.index.next-1
	}
	i.cf.counts.Add(stats.NumIteratorCreated, 1)
	i.handle = i.cf.db.handles.add(handleIterator, i.cf.name)
	if i.cf.db.closed.Load() {
		// Close may have counted the open handles before this one came in.
		i.release()
		i.err = ErrClosed
	}
}

// Range returns an iterator over begin <= key < end; nil is open.
func (c *ColumnFamily) Range(begin, end []byte, o *ReadOptions) *Iterator {
	r := ReadOptions{}
	if o != nil {
		r = *o
	}
	r.IterateLowerBound, r.IterateUpperBound = begin, end
	return c.NewIterator(&r)
}

// Prefix returns an iterator over the keys that begin with p. The order must be bytewise.
func (c *ColumnFamily) Prefix(p []byte, o *ReadOptions) *Iterator {
	if !c.opts.Comparator.IsBytewise() {
		return &Iterator{cf: c, err: invalid("Prefix needs the bytewise order; family %q has %s", c.name, c.opts.Comparator.Name)}
	}
	return c.Range(p, afterPrefix(p), o)
}

// afterPrefix returns the first key after all that begin with p, or nil if there is none.
func afterPrefix(p []byte) []byte {
	end := bytes.Clone(p)
	for n := len(end); n > 0; n-- {
		if end[n-1]++; end[n-1] != 0 {
			return end[:n]
		}
	}
	return nil
}

// Valid says whether the iterator stands on an entry.
func (i *Iterator) Valid() bool { return i.valid }

// Key returns the key. It lives until the next move.
func (i *Iterator) Key() []byte { return i.key }

// Value returns the value. It lives until the next move.
func (i *Iterator) Value() []byte { return i.value }

// Error returns what ended the walk before its time, nil at a plain end. Seeking again tries again.
func (i *Iterator) Error() error { return i.err }

// usable is false, with the error set, once the database is closed.
func (i *Iterator) usable() bool {
	i.valid = false
	if i.it == nil {
		return false
	}
	if i.cf.db.closed.Load() {
		i.err = ErrClosed
		return false
	}
	i.err, i.placed = nil, true
	return true
}

// SeekToFirst goes to the first entry, and returns Valid.
func (i *Iterator) SeekToFirst() bool {
	start := i.seekStart()
	return i.countSeek(start, i.seekToFirst())
}

func (i *Iterator) seekToFirst() bool {
	if !i.usable() {
		return false
	}
	i.dir, i.bounded = forward, false
	if i.lower != nil {
		return i.bind(i.showNext(i.it.SeekGE(i.newest(i.lower), i.seekPrefix(i.lower)), false))
	}
	return i.bind(i.showNext(i.it.First(), false))
}

// SeekToLast goes to the last entry.
func (i *Iterator) SeekToLast() bool {
	start := i.seekStart()
	return i.countSeek(start, i.seekToLast())
}

func (i *Iterator) seekToLast() bool {
	if !i.usable() {
		return false
	}
	i.dir, i.bounded = backward, false
	if i.upper != nil {
		return i.bind(i.showPrev(i.it.SeekLT(kv.SeekKey(i.upper, kv.MaxSeq))))
	}
	return i.bind(i.showPrev(i.it.Last()))
}

// Seek goes to the first entry with a key >= key.
func (i *Iterator) Seek(key []byte) bool {
	start := i.seekStart()
	return i.countSeek(start, i.seek(key))
}

func (i *Iterator) seek(key []byte) bool {
	if !i.usable() {
		return false
	}
	i.bindTo(key)
	if i.lower != nil && i.cmp(key, i.lower) < 0 {
		key = i.lower
	}
	i.dir = forward
	return i.showNext(i.it.SeekGE(i.newest(key), i.seekPrefix(key)), false)
}

// SeekForPrev goes to the last entry with a key <= key.
func (i *Iterator) SeekForPrev(key []byte) bool {
	start := i.seekStart()
	return i.countSeek(start, i.seekForPrev(key))
}

func (i *Iterator) seekForPrev(key []byte) bool {
	if !i.usable() {
		return false
	}
	i.bindTo(key)
	i.dir = backward
	if i.upper != nil && i.cmp(key, i.upper) >= 0 {
		return i.showPrev(i.it.SeekLT(kv.SeekKey(i.upper, kv.MaxSeq)))
	}
	// The oldest version that there could be of key is the last that may be shown.
	return i.showPrev(i.it.SeekLT(kv.Key{User: key}))
}

// Next goes to the next entry.
func (i *Iterator) Next() bool {
	return i.countMove(&i.counts.nexts, &i.counts.nextsFound, i.next())
}

func (i *Iterator) next() bool {
	if !i.valid {
		if i.err != nil || i.bounded || i.dir != backward && i.placed {
			return false
		}
		return i.seekToFirst()
	}
	if !i.usable() {
		return false
	}
	dir := i.dir
	i.dir = forward
	switch dir {
	case backward:
		// The internal iterator stands before the versions of key: step over them.
		return i.showNext(i.it.SeekGE(kv.SeekKey(i.key, kv.MaxSeq), nil), true)
	case ahead:
		return i.showNext(i.beside, true)
	}
	return i.showNext(i.it.Next(), true)
}

// Prev goes to the entry before.
func (i *Iterator) Prev() bool {
	return i.countMove(&i.counts.prevs, &i.counts.prevsFound, i.prev())
}

func (i *Iterator) prev() bool {
	if !i.valid {
		if i.err != nil || i.bounded || i.dir == backward && i.placed {
			return false
		}
		return i.seekToLast()
	}
	if !i.usable() {
		return false
	}
	if i.dir != backward {
		i.dir = backward
		return i.showPrev(i.it.SeekLT(kv.SeekKey(i.key, kv.MaxSeq)))
	}
	return i.showPrev(i.beside)
}

// extractor is the family's if the iterator is to mind prefixes.
func (i *Iterator) extractor() SliceTransform {
	if i.opts.TotalOrderSeek {
		return nil
	}
	return i.cf.opts.PrefixExtractor
}

// bindTo has the iterator keep to the prefix of key, if that is what its options say and if key has one.
func (i *Iterator) bindTo(key []byte) {
	i.bounded = false
	if x := i.extractor(); x != nil && i.opts.PrefixSameAsStart && x.InDomain(key) {
		i.prefix, i.bounded = append(i.prefix[:0], x.Transform(key)...), true
	}
}

// bind is bindTo the key that is shown, if there is one.
func (i *Iterator) bind(valid bool) bool {
	if valid {
		i.bindTo(i.key)
	}
	return valid
}

// leaves says that a key has not the prefix that the iterator keeps to.
func (i *Iterator) leaves(key []byte) bool {
	x := i.cf.opts.PrefixExtractor
	return i.bounded && !(x.InDomain(key) && bytes.Equal(x.Transform(key), i.prefix))
}

// seekPrefix returns the prefix of the key that is to be sought forward if nothing without it will be shown: then filters
// may be asked for it. Else nil.
func (i *Iterator) seekPrefix(key []byte) []byte {
	x := i.extractor()
	if x == nil || !x.InDomain(key) {
		return nil
	}
	p := x.Transform(key)
	if i.bounded && bytes.Equal(p, i.prefix) || i.upper != nil && kv.Within(x, i.cf.opts.Comparator, p, i.upper) {
		return p
	}
	return nil
}

// newest is where the versions of a key that the iterator may see begin: the key to seek.
func (i *Iterator) newest(user []byte) kv.Key {
	if i.own > 0 {
		return kv.SeekKey(user, kv.MaxSeq)
	}
	return kv.SeekKey(user, i.seq)
}

// hidden says whether the iterator may not see what has this number.
func (i *Iterator) hidden(seq kv.Seq) bool { return seq > i.seq && (seq < ownSeq || seq > i.own) }

func (i *Iterator) cmp(a, b []byte) int { return i.cf.opts.Comparator.CompareUser(a, b) }

// maxSequentialSkip is how many versions of one key are stepped over before a seek to the end of them
// (max_sequential_skip_in_iterations).
const maxSequentialSkip = 8

// showNext shows the first entry from e on that the reader may see: the newest visible version of a user key that is
// not a tombstone. With skip, versions of the key last shown are passed over.
func (i *Iterator) showNext(e *kv.Entry, skip bool) bool {
	for skipped := 0; e != nil; e = i.it.Next() {
		if skip && bytes.Equal(e.Key.User, i.key) {
			i.counts.skipped++
			if skipped++; skipped == maxSequentialSkip {
				i.counts.reseeks++
				e = i.it.SeekGE(kv.Key{User: i.key}, nil)
				if e == nil {
					break
				}
				if bytes.Equal(e.Key.User, i.key) {
					continue
				}
			} else {
				continue
			}
		}
		if i.hidden(e.Key.Seq()) {
			continue
		}
		if i.upper != nil && i.cmp(e.Key.User, i.upper) >= 0 || i.leaves(e.Key.User) {
			break
		}
		i.key = append(i.key[:0], e.Key.User...)
		switch e.Key.Kind() {
		case kv.KindValue:
			i.value, i.valid = e.Value, true
			return true
		case kv.KindDelete, kv.KindSingleDel:
			skip, skipped = true, 0
		case kv.KindMerge:
			return i.showMerge(e)
		default:
			i.err = i.cf.unsupported(e.Key)
			return false
		}
	}
	return i.end(e)
}

// showMerge shows key, whose newest visible version is e, an operand: it goes on to the value or tombstone that the
// operands stand on, or to the end of the key's versions.
func (i *Iterator) showMerge(e *kv.Entry) bool {
	i.resetMerge()
	var existing []byte
	exists := false
walk:
	for ; e != nil && bytes.Equal(e.Key.User, i.key); e = i.it.Next() {
		if i.hidden(e.Key.Seq()) {
			continue // it stands between the writes of a batch and the moment read
		}
		switch e.Key.Kind() {
		case kv.KindMerge:
			i.merged.operands.Add(e.Value)
		case kv.KindValue:
			existing, exists = e.Value, true
			break walk
		case kv.KindDelete, kv.KindSingleDel:
			break walk
		default:
			i.err = i.cf.unsupported(e.Key)
			return false
		}
	}
	if e == nil && i.it.Err() != nil {
		return i.end(e)
	}
	i.dir, i.beside = ahead, e
	return i.merge(existing, exists, i.merged.operands.Reversed())
}

// resetMerge forgets the operands gathered.
func (i *Iterator) resetMerge() {
	if i.merged == nil {
		i.merged = new(merged)
	}
	i.merged.operands.Reset()
}

// merge shows what the operands, oldest first, make of key's value.
func (i *Iterator) merge(existing []byte, exists bool, operands [][]byte) bool {
	m := i.merged
	var err error
	if m.value, err = merge.Full(i.cf.opts.MergeOperator, m.value[:0], i.key, existing, exists, operands); err != nil {
		i.cf.counts.Add(stats.NumberMergeFailures, 1)
		i.err = i.cf.mergeError(err)
		return false
	}
	i.value, i.valid = m.value, true
	return true
}

// showPrev shows the last entry from e backwards that the reader may see. Versions of one user key come oldest first in
// this direction, so the newest visible one is known only when the internal iterator has left the key.
func (i *Iterator) showPrev(e *kv.Entry) bool {
	found, exists := false, false // exists: saved is the value under the operands gathered
	var kind kv.Kind
	for ; e != nil; e = i.it.Prev() {
		if found && !bytes.Equal(e.Key.User, i.key) {
			if kind == kv.KindValue || kind == kv.KindMerge {
				break
			}
			found = false
		}
		if !found && (i.lower != nil && i.cmp(e.Key.User, i.lower) < 0 || i.leaves(e.Key.User)) {
			break
		}
		if i.hidden(e.Key.Seq()) {
			continue
		}
		if !found {
			i.key = append(i.key[:0], e.Key.User...)
			found, exists, kind = true, false, kv.KindDelete
		}
		if e.Key.Kind() == kv.KindMerge {
			if kind != kv.KindMerge {
				exists = kind == kv.KindValue
				i.resetMerge()
			}
			i.merged.operands.Add(e.Value)
		}
		kind = e.Key.Kind()
		switch kind {
		case kv.KindValue:
			i.saved = append(i.saved[:0], e.Value...)
		case kv.KindDelete, kv.KindSingleDel, kv.KindMerge:
		default:
			i.err = i.cf.unsupported(e.Key)
			return false
		}
	}
	if found && i.it.Err() == nil {
		i.beside = e
		switch kind {
		case kv.KindValue:
			i.value, i.valid = i.saved, true
			return true
		case kv.KindMerge:
			return i.merge(i.saved, exists, i.merged.operands.Added())
		}
	}
	return i.end(e)
}

// end notes why the walk is over.
func (i *Iterator) end(e *kv.Entry) bool {
	if e == nil {
		if err := i.it.Err(); err != nil {
			i.err = i.cf.readError(err)
		}
	}
	return false
}

func (c *ColumnFamily) unsupported(k kv.Key) error {
	return during(ErrNotSupported, "column family %q: key %q is a %v", c.name, k.User, k.Kind())
}

// Refresh makes the iterator show the database as it is now, or as of s. It then stands on no entry.
func (i *Iterator) Refresh(s *Snapshot) error {
	if i.it == nil {
		if i.err == nil {
			return ErrClosed
		}
		return i.err
	}
	i.release()
	i.opts.Snapshot = s
	i.valid, i.err, i.placed, i.dir, i.bounded = false, nil, false, forward, false
	i.open(&i.opts)
	return i.err
}

// All walks from the first entry to the last. It stops early at an error: look at Error after the loop.
func (i *Iterator) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		for ok := i.SeekToFirst(); ok && yield(i.key, i.value); ok = i.Next() {
		}
	}
}

// Backward walks from the last entry to the first, as All does.
func (i *Iterator) Backward() iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		for ok := i.SeekToLast(); ok && yield(i.key, i.value); ok = i.Prev() {
		}
	}
}

// Close lets go of what the iterator holds and returns Error. Closing again does nothing.
func (i *Iterator) Close() error {
	i.valid = false
	i.release()
	return i.err
}

func (i *Iterator) release() {
	if i.it == nil {
		return
	}
	if err := i.it.Close(); err != nil && i.err == nil {
		i.err = i.cf.readError(err)
	}
	i.it = nil
	i.flushCounts()
	i.sv.Release()
	i.cf.db.closeHandle(handleIterator, i.handle)
}
