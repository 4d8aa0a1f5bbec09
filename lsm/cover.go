package lsm

// What range deletes hide from an iterator.
//
//  1. The parts of an Iter are in order of age, newest first. A range delete hides what is older than it, in its own part
//     and in those behind. So an entry is hidden if one of the parts up to its own has a range delete over its key that is
//     newer than it, and not newer than the reader.
//  2. All that a part behind has under a range delete of another is older: the part is moved past the whole span with
//     one seek, when its turn comes. Its own entries under the span may be newer, and are looked at one by one.
//  3. Only the entry in turn is looked at, so that no part runs far ahead of a reader who stops early.
//  4. The tables of a run are opened as the walk gets to them, and bring their range deletes along. That is early enough:
//     walking forward, a run has opened a table before any part shows a key inside the table's bounds, for it opens the
//     next table when it has left the last entry of the one before; backward likewise. A table that a run was moved past
//     lies under a range delete of a newer part, which hides all the same.
//  5. In an iterator that has met no range delete all of this is one comparison a step.

import (
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/tombstone"
	"github.com/ashlardb/ashlar/manifest"
)

// covers are the range deletes that an Iter has met.
type covers struct {
	any  bool
	list []cover // of memtables and level 0, in order of their parts
}

// cover is a list of range deletes and where it is from.
type cover struct {
	part int
	list *tombstone.List
	file *manifest.File // nil for a memtable's
}

func (c *covers) reset() {
	clear(c.list)
	c.any, c.list = false, c.list[:0]
}

// addCover notes the range deletes of the part that is added next.
func (i *Iter) addCover(l *tombstone.List, f *manifest.File) {
	if l.Oldest() <= i.o.Seq {
		i.covers.any = true
		i.covers.list = append(i.covers.list, cover{len(i.parts), l, f})
	}
}

// addCover notes the range deletes of file n.
func (r *run) addCover(n int, l *tombstone.List) {
	if l.Oldest() > r.owner.o.Seq {
		return
	}
	r.owner.covers.any = true
	if r.lists == nil {
		r.lists = make([]*tombstone.List, len(r.files))
	}
	r.lists[n] = l
}

// reaches tells whether a file's range deletes are about user: RocksDB may store them longer than the file is.
func reaches(cmp *kv.Comparer, f *manifest.File, user []byte) bool {
	if cmp.CompareUser(f.Smallest.User, user) > 0 {
		return false
	}
	c := cmp.CompareUser(user, f.Largest.User)
	return c < 0 || c == 0 && !f.EndsExcluded()
}

// hiding returns what hides e, if anything does.
func (i *Iter) hiding(e *kv.Entry) (c cover, found bool) {
	part := 0
	if len(i.parts) > 1 {
		part = i.merge.Child()
	}
	cmp := i.sv.tree.cmp
	for _, c := range i.covers.list {
		if c.part > part {
			return cover{}, false
		}
		if (c.file == nil || reaches(cmp, c.file, e.Key.User)) && c.list.Cover(e.Key.User, i.o.Seq) > e.Key.Seq() {
			return c, true
		}
	}
	for n := range i.runs {
		r := &i.runs[n]
		if r.lists == nil {
			continue
		}
		if r.part > part {
			break
		}
		for n := r.level.search(cmp, e.Key.User); n < len(r.files); n++ {
			f := r.files[n]
			if l := r.lists[n]; l != nil && reaches(cmp, f, e.Key.User) && l.Cover(e.Key.User, i.o.Seq) > e.Key.Seq() {
				return cover{r.part, l, f}, true
			}
			if cmp.CompareUser(f.Largest.User, e.Key.User) != 0 {
				break // else the next file may have the key too
			}
		}
	}
	return cover{}, false
}

// own tells whether the range deletes are of the part that has the entry in turn.
func (i *Iter) own(c cover) bool { return len(i.parts) == 1 || i.merge.Child() == c.part }

// forward returns e, or the next entry that is not hidden.
func (i *Iter) forward(e *kv.Entry) *kv.Entry {
	for e != nil && e.Key.Seq() <= i.o.Seq {
		c, hidden := i.hiding(e)
		if !hidden || i.o.Upper != nil && i.sv.tree.cmp.CompareUser(e.Key.User, i.o.Upper) >= 0 {
			return e
		}
		if !i.own(c) {
			if k := i.behind(c, e); i.sv.tree.cmp.CompareKeys(k, e.Key) > 0 {
				e = i.merge.SkipGE(k)
				continue
			}
		}
		e = i.Iterator.Next()
	}
	return e
}

// behind returns a key such that nothing between e and it is to be shown of e's part.
func (i *Iter) behind(c cover, e *kv.Entry) kv.Key {
	_, end := c.list.Span(e.Key.User, i.o.Seq)
	if c.file != nil && i.sv.tree.cmp.CompareUser(end, c.file.Largest.User) > 0 {
		if !c.file.EndsExcluded() {
			return kv.Key{User: c.file.Largest.User} // the oldest version that there could be
		}
		end = c.file.Largest.User
	}
	return kv.SeekKey(end, kv.MaxSeq)
}

// backward returns e, or the entry before it that is not hidden.
func (i *Iter) backward(e *kv.Entry) *kv.Entry {
	for e != nil && e.Key.Seq() <= i.o.Seq {
		c, hidden := i.hiding(e)
		if !hidden || i.o.Lower != nil && i.sv.tree.cmp.CompareUser(e.Key.User, i.o.Lower) < 0 {
			return e
		}
		if i.own(c) {
			e = i.Iterator.Prev()
			continue
		}
		start, _ := c.list.Span(e.Key.User, i.o.Seq)
		if c.file != nil && i.sv.tree.cmp.CompareUser(start, c.file.Smallest.User) < 0 {
			start = c.file.Smallest.User
		}
		e = i.merge.SkipLT(kv.SeekKey(start, kv.MaxSeq))
	}
	return e
}

// First positions at the first entry.
func (i *Iter) First() *kv.Entry { return i.ahead(i.Iterator.First()) }

// SeekGE positions at the first entry with key >= k.
func (i *Iter) SeekGE(k kv.Key, prefix []byte) *kv.Entry {
	return i.ahead(i.Iterator.SeekGE(k, prefix))
}

// Next moves to the next entry.
func (i *Iter) Next() *kv.Entry { return i.ahead(i.Iterator.Next()) }

func (i *Iter) ahead(e *kv.Entry) *kv.Entry {
	if i.covers.any {
		return i.forward(e)
	}
	return e
}

// Last positions at the last entry.
func (i *Iter) Last() *kv.Entry { return i.back(i.Iterator.Last()) }

// SeekLT positions at the last entry with key < k.
func (i *Iter) SeekLT(k kv.Key) *kv.Entry { return i.back(i.Iterator.SeekLT(k)) }

// Prev moves to the entry before.
func (i *Iter) Prev() *kv.Entry { return i.back(i.Iterator.Prev()) }

func (i *Iter) back(e *kv.Entry) *kv.Entry {
	if i.covers.any {
		return i.backward(e)
	}
	return e
}
