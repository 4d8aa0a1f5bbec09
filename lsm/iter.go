package lsm

import (
	"context"

	"github.com/ashlardb/ashlar/internal/iterator"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/manifest"
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

// NewIter returns an iterator over everything that the superversion holds, versions and tombstones included: merged
// from the memtables, the tables of level 0, and one run for each deeper level. The superversion must be held until the
// iterator is closed. Errors of opening tables show in Err.
func (s *Superversion) NewIter(o IterOptions) kv.Iterator {
	iters := make([]kv.Iterator, 0, 2+len(s.imm)+len(s.levels[0].files)+s.lastNon)
	// A memtable that is empty now gets only entries that a reader who is already here may not see.
	if !s.mem.Empty() {
		iters = append(iters, s.mem.NewIter())
	}
	for _, m := range s.imm {
		iters = append(iters, m.NewIter())
	}
	for n := 0; n <= s.lastNon; n++ {
		files := s.levels[n].files
		switch {
		case n == 0:
			for _, f := range files {
				it, err := s.openIter(f, o)
				if err != nil {
					it = kv.Empty{Error: err}
				}
				iters = append(iters, it)
			}
		case len(files) > 0:
			iters = append(iters, iterator.NewConcat(s.tree.cmp, len(files),
				func(i int) (kv.Key, kv.Key) { return files[i].Smallest, files[i].Largest },
				func(i int) (kv.Iterator, error) { return s.openIter(files[i], o) }))
		}
	}
	return iterator.Merging(s.tree.cmp, iters...)
}

// tableIter is an iterator of a table together with the handle that keeps the table open.
type tableIter struct {
	*sstable.Iterator
	h handle
}

func (t *tableIter) Close() error {
	err := t.Iterator.Close()
	t.h.Release()
	return err
}

func (s *Superversion) openIter(f *manifest.File, o IterOptions) (kv.Iterator, error) {
	h, err := s.open(f)
	if err != nil {
		return nil, err
	}
	return &tableIter{h.Reader().NewIter(sstable.IterOptions{
		DontFillCache: o.DontFillCache, CacheOnly: o.CacheOnly, Context: o.Context,
	}), h}, nil
}
