package lsm

import (
	"context"
	"sync"

	"github.com/ashlardb/ashlar/internal/iterator"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/tombstone"
	"github.com/ashlardb/ashlar/manifest"
	"github.com/ashlardb/ashlar/memtable"
	"github.com/ashlardb/ashlar/sstable"
)

type handle = sstable.Handle

// IterOptions say how an iterator reads.
type IterOptions struct {
	DontFillCache bool
	// CacheOnly gives sstable.ErrNotCached rather than do I/O.
	CacheOnly bool
	Context   context.Context
	// Seq is the number that the reader reads at: versions that a range delete hides from it are left out.
	Seq kv.Seq
	// Lower (included) and Upper (excluded) are between which keys the reader walks; nil is open. What is outside may be
	// shown even if a range delete hides it.
	Lower, Upper []byte
}

// Iter is an iterator over what a superversion holds, merged from the memtables, the tables of level 0, and one run for
// each deeper level: every version and the tombstones of single keys, but for what range deletes hide (cover.go).
//
// Its memory comes from a pool and goes back with Close, parts included, since a seek of a new iterator is what many
// reads are: with the parts from the heap, a third of seekrandom was the collector's.
type Iter struct {
	kv.Iterator // merge, or the only part
	sv          *Superversion
	o           IterOptions
	merge       iterator.Merge
	parts       []kv.Iterator
	mems        []memtable.Iterator
	runs        [manifest.DefaultNumLevels]run
	covers      covers
}

// run is one level's part.
type run struct {
	owner *Iter
	files []*manifest.File
	level *level
	part  int               // its place in the owner's parts
	skip  bool              // its filters are not asked
	lists []*tombstone.List // of the files opened so far; nil while none of them has range deletes
	iterator.Concat
	// The methods as values, made once.
	boundsOf func(int) (kv.Key, kv.Key)
	openFile func(int) (kv.Iterator, error)
}

var iters = sync.Pool{New: func() any {
	i := new(Iter)
	for n := range i.runs {
		r := &i.runs[n]
		r.owner = i
		r.boundsOf = func(i int) (kv.Key, kv.Key) { return r.files[i].Smallest, r.files[i].Largest }
		r.openFile = func(i int) (kv.Iterator, error) {
			it, err := r.owner.table(r.files[i], 1, r.skip)
			if err != nil {
				return nil, err
			}
			r.addCover(i, it.h.Reader().Tombstones())
			return it, nil
		}
	}
	return i
}}

// NewIter returns an iterator. The superversion must be held until it is closed. Errors of opening tables show in Err.
func (s *Superversion) NewIter(o IterOptions) *Iter {
	i := iters.Get().(*Iter)
	i.sv, i.o = s, o
	i.addMems()
	for n := 0; n <= s.lastNon; n++ {
		files := s.levels[n].files
		switch {
		case n == 0:
			for k, f := range files {
				it, err := i.table(f, 0, s.skipFilter(0, k))
				if err != nil {
					i.parts = append(i.parts, kv.Empty{Error: err})
					continue
				}
				i.addCover(it.h.Reader().Tombstones(), f)
				i.parts = append(i.parts, it)
			}
		case len(files) > 0:
			r := &i.runs[n]
			r.files, r.level, r.part, r.skip = files, &s.levels[n], len(i.parts), s.skipFilter(n, 0)
			r.Init(s.tree.cmp, len(files), r.boundsOf, r.openFile)
			i.parts = append(i.parts, &r.Concat)
		}
	}
	i.Iterator = i.merge.Init(s.tree.cmp, i.parts)
	return i
}

// addMems adds the memtables. One that is empty now gets only entries that a reader who is already here may not see.
func (i *Iter) addMems() {
	s := i.sv
	if n := 1 + len(s.imm); cap(i.mems) < n {
		i.mems = make([]memtable.Iterator, n)
	} else {
		i.mems = i.mems[:n]
	}
	if !s.mem.Empty() {
		i.addMem(0, s.mem)
	}
	for n, m := range s.imm {
		i.addMem(n+1, m)
	}
}

func (i *Iter) addMem(n int, m *Mem) {
	if m.HasTombstones() {
		for _, l := range m.AppendTombstones(nil) {
			i.addCover(l, nil)
		}
	}
	i.mems[n].Init(m.Table)
	i.parts = append(i.parts, &i.mems[n])
}

// Close closes the parts and gives the memory back: i must not be used after.
func (i *Iter) Close() error {
	err := i.Iterator.Close()
	for n := range i.runs {
		r := &i.runs[n]
		r.files, r.level, r.lists = nil, nil, nil
	}
	i.covers.reset()
	clear(i.mems)
	clear(i.parts)
	i.parts = i.parts[:0]
	i.Iterator, i.sv, i.o = nil, nil, IterOptions{}
	iters.Put(i)
	return err
}

// tableIter is an iterator of a table together with the handle that keeps the table open.
type tableIter struct {
	*sstable.Iterator
	h handle
}

var tableIters = sync.Pool{New: func() any { return new(tableIter) }}

func (t *tableIter) Close() error {
	err := t.Iterator.Close()
	t.h.Release()
	*t = tableIter{}
	tableIters.Put(t)
	return err
}

// table opens one table's iterator, which asks no filter if skip is set.
func (i *Iter) table(f *manifest.File, level int, skip bool) (*tableIter, error) {
	h, err := i.sv.open(f, level)
	if err != nil {
		return nil, err
	}
	t := tableIters.Get().(*tableIter)
	t.Iterator, t.h = h.Reader().NewIter(sstable.IterOptions{
		DontFillCache: i.o.DontFillCache, CacheOnly: i.o.CacheOnly, Context: i.o.Context, SkipFilter: skip,
	}), h
	return t, nil
}
