package lsm

import (
	"fmt"

	"github.com/ashlardb/ashlar/internal/lookup"
	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/manifest"
	"github.com/ashlardb/ashlar/sstable"
)

// Get walks down the tree, newest first, until g knows its answer: memtables, then the files of level 0 newest first,
// then in each deeper level the one file whose range holds the key. Files that RocksDB wrote may split the versions of
// one user key over neighbours; then the next file is looked at too. A range delete ends the walk with the part of the
// tree that it is in: what lies below is older.
func (s *Superversion) Get(g *lookup.Get) error {
	if s.inMemtables(g) {
		return nil
	}
	cmp := s.tree.cmp
	for n := 0; n <= s.lastNon; n++ {
		l := &s.levels[n]
		i := 0
		if n > 0 {
			i = l.search(cmp, g.User)
		}
		for ; i < len(l.files); i++ {
			f := l.files[i]
			if cmp.CompareUser(g.User, f.Smallest.User) < 0 {
				if n > 0 {
					break
				}
				continue
			}
			if n == 0 && cmp.CompareUser(g.User, f.Largest.User) > 0 {
				continue
			}
			if err := s.getFrom(g, n, i); err != nil {
				return err
			}
			if g.State != lookup.Pending || n == 0 && g.Covered() {
				return nil
			}
			if n > 0 && cmp.CompareUser(f.Largest.User, g.User) != 0 {
				break
			}
		}
		// Only now, as the versions of a key may lie in two files of a level.
		if g.Covered() {
			return nil
		}
	}
	return nil
}

// inMemtables tells whether the memtables have decided g.
func (s *Superversion) inMemtables(g *lookup.Get) bool {
	if s.mem.Get(g) {
		g.Tally.Count(stats.MemtableHit)
		return true
	}
	for _, m := range s.imm {
		if m.Get(g) {
			g.Tally.Count(stats.MemtableHit)
			return true
		}
	}
	g.Tally.Count(stats.MemtableMiss)
	return false
}

// skipFilter is the read half of optimize_filters_for_hits: in the last level that has files most keys asked for exist,
// so its filters are not worth the look. In level 0 that is the oldest file.
func (s *Superversion) skipFilter(n, i int) bool {
	return s.settings.OptimizeFiltersForHits && n == s.lastNon && (n > 0 || i == len(s.levels[n].files)-1)
}

func (s *Superversion) getFrom(g *lookup.Get, n, i int) error {
	r, h, err := s.reader(n, i)
	if err != nil {
		return err
	}
	s.enter(r, g, n, i)
	err = r.Get(g, s.skipFilter(n, i))
	if h != (handle{}) {
		h.Release()
	}
	return err
}

// reader returns the reader of file i of level n, and a handle to be released after its use, unless it is zero.
func (s *Superversion) reader(n, i int) (*sstable.Reader, handle, error) {
	l := &s.levels[n]
	if l.readers != nil {
		if r := l.readers[i].Load(); r != nil {
			return r, handle{}, nil
		}
	}
	h, err := s.open(l.files[i], n)
	if err != nil {
		return nil, h, err
	}
	if l.readers != nil && l.readers[i].CompareAndSwap(nil, h.Reader()) {
		return h.Reader(), handle{}, nil
	}
	return h.Reader(), h, nil
}

// enter is what comes before a table is searched for g: its range deletes are asked first, as no filter knows of them.
func (s *Superversion) enter(r *sstable.Reader, g *lookup.Get, n, i int) {
	if l := r.Tombstones(); l != nil && reaches(s.tree.cmp, s.levels[n].files[i], g.User) {
		g.Cover(l.Cover(g.User, g.Seq))
	}
	g.Level = uint8(n)
}

func (s *Superversion) open(f *manifest.File, level int) (h handle, err error) {
	o := s.settings.Family
	if level == 0 {
		o = s.settings.Family0
	}
	h, err = s.tree.tables.Get(f.Num, f.Size, f.LargestSeq, o)
	if err != nil {
		return h, fmt.Errorf("open table: %w", err)
	}
	return h, nil
}
