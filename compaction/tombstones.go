package compaction

import (
	"bytes"
	"slices"
	"sort"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/tombstone"
	"github.com/ashlardb/ashlar/manifest"
)

// Range deletes on their way through a job.
//
//  1. All those of the inputs, each cut to the bounds of its file, make one list before the first key is read: what it
//     covers of the inputs in the same stripe does not survive (survivors, rule 6).
//  2. Of those over one key, the newest in each stripe is written; the others hide nothing that it does not. One in stripe
//     0 goes if no level below the output has a file under it, as a Delete does: what it hid of the inputs is gone.
//  3. A table gets the parts that lie between its first key or cut and the next cut, so that tables do not overlap. A part
//     may be all that a table has.
//  4. A range delete must not make one table overlap the whole of the next level, for that table's own way down would
//     have to rewrite it all. So tables may be cut inside one, where a grandparent begins, by the rule for keys (output.go).
type ranges struct {
	cmp     *kv.Comparer
	pieces  []piece
	parents []*manifest.File

	at    int    // the first piece that ends behind lower
	lower []byte // where the table in hand begins: at its first key if nil
	seen  int    // the first piece that ends behind place
	place []byte // how far stops got; nil: nowhere
}

// piece is a stretch of keys with the range deletes to be written for it, newest first. Pieces are in order.
type piece struct {
	start, end []byte
	seqs       []kv.Seq
}

// newRanges decides what is kept of l. below are the files below the output for each level, nil if what is not known
// there has to be kept.
func newRanges(cmp *kv.Comparer, l *tombstone.List, snapshots []kv.Seq, below *below, parents []*manifest.File) *ranges {
	r := &ranges{cmp: cmp, parents: parents}
	for i := range l.Len() {
		start, end := l.Fragment(i)
		var seqs []kv.Seq
		for s := l.At(i, kv.MaxSeq); s > 0; {
			stripe := stripeOf(snapshots, s)
			if stripe > 0 || below.overlaps(cmp, start, end) {
				seqs = append(seqs, s)
			}
			if stripe == 0 {
				break
			}
			s = l.At(i, snapshots[stripe-1])
		}
		if len(seqs) == 0 {
			continue
		}
		if n := len(r.pieces); n > 0 && bytes.Equal(r.pieces[n-1].end, start) && slices.Equal(r.pieces[n-1].seqs, seqs) {
			r.pieces[n-1].end = end
			continue
		}
		r.pieces = append(r.pieces, piece{start, end, seqs})
	}
	return r
}

// stops returns where, beside keys, a table may end on the way to user (nil: to the end): where pieces begin, and where
// grandparents begin inside of them.
func (r *ranges) stops(user []byte) (all [][]byte) {
	if r.seen == len(r.pieces) {
		return nil
	}
	ahead := func(k []byte) bool { return r.place == nil || r.cmp.CompareUser(r.place, k) < 0 }
	short := func(k []byte) bool { return user == nil || r.cmp.CompareUser(k, user) < 0 }
	for ; r.seen < len(r.pieces) && short(r.pieces[r.seen].start); r.seen++ {
		p := &r.pieces[r.seen]
		from := p.start
		if ahead(from) {
			all = append(all, from)
		} else {
			from = r.place
		}
		for n := r.parentBehind(from); n < len(r.parents); n++ {
			k := r.parents[n].Smallest.User
			if !short(k) || r.cmp.CompareUser(k, p.end) >= 0 {
				break
			}
			all = append(all, k)
		}
		if !short(p.end) {
			break
		}
	}
	if r.place == nil {
		r.place = []byte{}
	}
	r.place = append(r.place[:0], user...)
	return all
}

// parentBehind returns the first grandparent that begins behind user.
func (r *ranges) parentBehind(user []byte) int {
	return sort.Search(len(r.parents), func(n int) bool { return r.cmp.CompareUser(r.parents[n].Smallest.User, user) > 0 })
}

// pending tells whether the table in hand, if it ends before user, has a part of a range delete.
func (r *ranges) pending(user []byte) bool {
	return r.at < len(r.pieces) && r.cmp.CompareUser(r.pieces[r.at].start, user) < 0
}

// take returns the parts that the table in hand gets if it ends before user (nil: it is the last one). The next table
// begins at user.
func (r *ranges) take(user []byte) (parts []piece) {
	for r.at < len(r.pieces) {
		p := r.pieces[r.at]
		if r.lower != nil && r.cmp.CompareUser(p.start, r.lower) < 0 {
			p.start = r.lower
		}
		if user == nil || r.cmp.CompareUser(p.end, user) <= 0 {
			parts = append(parts, p)
			r.at++
			continue
		}
		if r.cmp.CompareUser(p.start, user) < 0 {
			p.end = bytes.Clone(user)
			parts = append(parts, p)
		}
		break
	}
	r.lower = bytes.Clone(user)
	return parts
}

// overlaps tells whether a file below may hold a key of a range. It is true for every range when b is nil.
func (b *below) overlaps(cmp *kv.Comparer, start, end []byte) bool {
	if b == nil {
		return true
	}
	for _, files := range b.levels {
		n := sort.Search(len(files), func(n int) bool { return cmp.CompareUser(files[n].Largest.User, start) >= 0 })
		if n < len(files) && cmp.CompareUser(files[n].Smallest.User, end) < 0 {
			return true
		}
	}
	return false
}

// HiddenBytes estimates how many bytes the range deletes of l hide in v on the levels from one on: whole files, and of those
// at the ends of a range the part that offset says, which is about where in a file a user key is. What is newer than a
// range delete counts too.
func HiddenBytes(cmp *kv.Comparer, v *manifest.Version, from int, l *tombstone.List, offset func(f *manifest.File, user []byte) uint64) (n uint64) {
	for i := range l.Len() {
		if l.At(i, kv.MaxSeq) == 0 {
			continue // between two
		}
		start, end := l.Fragment(i)
		for level := from; level < v.NumLevels(); level++ {
			for _, f := range v.Overlapping(level, kv.Range{Start: start, End: end}) {
				first, last := uint64(0), f.Size
				if cmp.CompareUser(f.Smallest.User, start) < 0 {
					first = min(offset(f, start), f.Size)
				}
				if cmp.CompareUser(f.Largest.User, end) >= 0 {
					last = min(offset(f, end), f.Size)
				}
				n += last - min(first, last)
			}
		}
	}
	return n
}
