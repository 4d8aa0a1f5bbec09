package lsm

import (
	"slices"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
)

// MultiGet is Get for all of b, level by level: each table is asked once, for all the keys that it may have and that are
// still open. It ends with none open.
func (s *Superversion) MultiGet(b *lookup.Batch) {
	for _, g := range b.Open {
		if s.inMemtables(g) {
			b.Finish(g)
		}
	}
	b.Open = lookup.Sweep(b.Open)
	for n := 0; n <= s.lastNon && len(b.Open) > 0; n++ {
		if n == 0 {
			s.multiGetLevel0(b)
		} else {
			s.multiGetLevel(b, n)
		}
		// As in Get: only now, as the versions of a key may lie in two files of a level.
		s.finishCovered(b)
	}
	for _, g := range b.Open {
		b.Finish(g)
	}
	b.Open = b.Open[:0]
}

// multiGetLevel0 asks the files of level 0, newest first. They overlap; a range delete in one hides all the others' keys.
func (s *Superversion) multiGetLevel0(b *lookup.Batch) {
	cmp := s.tree.cmp
	for i, f := range s.levels[0].files {
		from := firstFrom(cmp, b.Open, f.Smallest.User)
		to := from + firstBehind(cmp, b.Open[from:], f.Largest.User)
		if from < to {
			s.multiGetFrom(b, b.Open[from:to], 0, i)
			s.finishCovered(b)
		}
	}
}

// multiGetLevel asks the files of a deeper level from left to right.
func (s *Superversion) multiGetLevel(b *lookup.Batch, n int) {
	cmp, l := s.tree.cmp, &s.levels[n]
	left := b.Open
	for i := 0; len(left) > 0; i++ {
		if i = max(i, l.search(cmp, left[0].User)); i == len(l.files) {
			return
		}
		f := l.files[i]
		left = left[firstFrom(cmp, left, f.Smallest.User):]
		to := firstBehind(cmp, left, f.Largest.User)
		if to == 0 {
			continue
		}
		s.multiGetFrom(b, left[:to], n, i)
		// The next file may go on with versions of this one's last key.
		for to > 0 && cmp.CompareUser(left[to-1].User, f.Largest.User) == 0 {
			to--
		}
		left = left[to:]
		for len(left) > 0 && left[0].State != lookup.Pending {
			left = left[1:]
		}
	}
}

// multiGetFrom takes gets to file i of level n.
func (s *Superversion) multiGetFrom(b *lookup.Batch, gets []*lookup.Get, n, i int) {
	r, h, err := s.reader(n, i)
	if err != nil {
		for _, g := range gets {
			b.Fail(g, err)
		}
		return
	}
	for _, g := range gets {
		s.enter(r, g, n, i)
	}
	r.MultiGet(b, gets, s.skipFilter(n, i))
	if h != (handle{}) {
		h.Release()
	}
}

// finishCovered drops those that are decided, and finishes those for which a range delete hides all that is left to look at.
func (s *Superversion) finishCovered(b *lookup.Batch) {
	for _, g := range b.Open {
		if g.State == lookup.Pending && g.Covered() {
			b.Finish(g)
		}
	}
	b.Open = lookup.Sweep(b.Open)
}

// firstFrom returns the number of the first key that is not below key, and firstBehind that of the first above it.
func firstFrom(cmp *kv.Comparer, gets []*lookup.Get, key []byte) int {
	n, _ := slices.BinarySearchFunc(gets, key, func(g *lookup.Get, key []byte) int { return cmp.CompareUser(g.User, key) })
	return n
}

func firstBehind(cmp *kv.Comparer, gets []*lookup.Get, key []byte) int {
	n, _ := slices.BinarySearchFunc(gets, key, func(g *lookup.Get, key []byte) int {
		if cmp.CompareUser(g.User, key) <= 0 {
			return -1
		}
		return 1
	})
	return n
}
