package lsm

import (
	"context"
	"sync"

	"github.com/ashlardb/ashlar/internal/iterator"
	"github.com/ashlardb/ashlar/internal/kv"
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
}

// Iter is an iterator over everything that a superversion holds, versions and tombstones included: merged from the
// memtables, the tables of level 0, and one run for each deeper level.
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
}

// run is one level's part.
type run struct {
	owner *Iter
	files []*manifest.File
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
		r.openFile = func(i int) (kv.Iterator, error) { return r.owner.table(r.files[i]) }
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
			for _, f := range files {
				it, err := i.table(f)
				if err != nil {
					it = kv.Empty{Error: err}
				}
				i.parts = append(i.parts, it)
			}
		case len(files) > 0:
			r := &i.runs[n]
			r.files = files
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
		i.mems[0].Init(s.mem.Table)
		i.parts = append(i.parts, &i.mems[0])
	}
	for n, m := range s.imm {
		i.mems[n+1].Init(m.Table)
		i.parts = append(i.parts, &i.mems[n+1])
	}
}

// Close closes the parts and gives the memory back: i must not be used after.
func (i *Iter) Close() error {
	err := i.Iterator.Close()
	for n := range i.runs {
		i.runs[n].files = nil
	}
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

// table opens one table's iterator.
func (i *Iter) table(f *manifest.File) (kv.Iterator, error) {
	h, err := i.sv.open(f)
	if err != nil {
		return nil, err
	}
	t := tableIters.Get().(*tableIter)
	t.Iterator, t.h = h.Reader().NewIter(sstable.IterOptions{
		DontFillCache: i.o.DontFillCache, CacheOnly: i.o.CacheOnly, Context: i.o.Context,
	}), h
	return t, nil
}
