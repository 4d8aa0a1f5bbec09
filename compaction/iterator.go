package compaction

import (
	"fmt"
	"sort"

	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/invariants"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/manifest"
)

// survivors walks internal keys and leaves out the versions that no reader can tell from not being there.
//
// Snapshots cut time into stripes: a version belongs to the oldest snapshot that sees it, or to the tip when none does.
// Of the versions of a user key in one stripe, readers see the newest only.
//
//		sequence   1   2   3 | 4   5 | 6   7   8          snapshots 3 and 5
//		stripe     0   0   0 | 1   1 | 2   2   2 (tip)
//
//	 1. A version older than another one of its key in its stripe is hidden and goes. Not so a SingleDel: it has to meet
//	    the Value that it deletes.
//	 2. A Delete whose key is nowhere below the output goes if it is in stripe 0, for then everything older of the key is
//	    hidden with it; in a later stripe it goes if no older version follows its stripe, or another Delete.
//	 3. A SingleDel and the Value that follows it in its stripe go together, and so does what is older in that stripe. A
//	    SingleDel whose key is nowhere else goes. Of a SingleDel and a Delete that follows it in its stripe the Delete
//	    goes: a newer Value would hide it, but not the SingleDel, and when that Value goes with a SingleDel of its own,
//	    nothing would be left to hide what lies below. Of two SingleDels the older one stays, it is closer to its Value.
//	 4. At the bottom, a Value in stripe 0 gets sequence 0: it is visible to everybody, and compresses better.
//
// Rule 2 must look whether there was a newer version, not compare sequence numbers: snapshot 0 and sequence 0 are legal.
type survivors struct {
	cmp       *kv.Comparer
	it        kv.Iterator
	snapshots []kv.Seq // ascending
	bottom    bool
	below     *below       // nil: any key may be below
	stop      func() error // asked now and then whether to go on

	e       *kv.Entry // the version in hand, nil at the end
	behind  bool      // e was returned: step over it first
	user    []byte    // own copy of the key whose versions are being looked at
	any     bool      // user is set
	newer   int       // stripe of the newest version of user that was met and hides others, -1: none
	fresh   bool      // user has changed; whoever wants to notice clears it
	out     kv.Entry
	read    uint64 // versions met
	err     error
	started bool
}

// next returns the next version that survives, nil at the end or on error. It lives until the following call.
func (s *survivors) next() *kv.Entry {
	switch {
	case !s.started:
		s.started = true
		s.take(s.it.First())
	case s.behind:
		s.step()
	}
	s.behind = false
	for s.e != nil {
		if !s.any || s.cmp.CompareUser(s.e.Key.User, s.user) != 0 {
			s.user, s.any, s.newer, s.fresh = append(s.user[:0], s.e.Key.User...), true, -1, true
		}
		stripe, kind := s.stripe(s.e.Key.Seq()), s.e.Key.Kind()
		if kind == kv.KindSingleDel {
			if out := s.singleDelete(stripe); out != nil {
				return out
			}
			continue
		}
		if s.newer == stripe {
			s.step()
			continue
		}
		s.newer = stripe
		if kind == kv.KindDelete {
			if out := s.delete(stripe); out != nil {
				return out
			}
			continue
		}
		s.behind = true
		if s.bottom && stripe == 0 {
			s.out = kv.Entry{Key: kv.MakeKey(s.user, 0, kv.KindValue), Value: s.e.Value}
			return &s.out
		}
		return s.e
	}
	return nil
}

// delete decides about the Delete in hand, the newest version of its stripe.
func (s *survivors) delete(stripe int) *kv.Entry {
	if s.below.has(s.cmp, s.user) {
		s.behind = true
		return s.e
	}
	trailer := s.e.Key.Trailer
	for s.step(); s.sameKey(); s.step() {
		if s.stripe(s.e.Key.Seq()) == stripe {
			continue
		}
		if s.e.Key.Kind() == kv.KindDelete {
			return nil // does the same for those who came later
		}
		// Somebody may see this one; the Delete hides it from those who came later.
		return s.tombstone(trailer)
	}
	return nil
}

// singleDelete decides about the SingleDel in hand and what follows it.
func (s *survivors) singleDelete(stripe int) *kv.Entry {
	trailer, newer := s.e.Key.Trailer, s.newer
	s.newer = stripe
	for s.step(); s.sameKey() && s.stripe(s.e.Key.Seq()) == stripe && s.e.Key.Kind() == kv.KindDelete; {
		s.step()
	}
	switch {
	case s.err != nil:
		return nil
	case !s.sameKey():
		if s.below.has(s.cmp, s.user) {
			return s.tombstone(trailer)
		}
		return nil
	case s.stripe(s.e.Key.Seq()) != stripe:
		return s.tombstone(trailer)
	case s.e.Key.Kind() == kv.KindValue:
		s.step()
	default:
		s.newer = newer
	}
	return nil
}

// tombstone returns a deletion of the key in hand that the walk has already stepped over.
func (s *survivors) tombstone(t kv.Trailer) *kv.Entry {
	s.out = kv.Entry{Key: kv.Key{User: s.user, Trailer: t}}
	return &s.out
}

// sameKey tells whether there is a version in hand and it is of the key that was being looked at.
func (s *survivors) sameKey() bool {
	return s.e != nil && s.cmp.CompareUser(s.e.Key.User, s.user) == 0
}

func (s *survivors) step() { s.take(s.it.Next()) }

// take makes e the version in hand, if this package knows what to do with it.
func (s *survivors) take(e *kv.Entry) {
	s.e = e
	if e == nil {
		s.err = s.it.Err()
		return
	}
	if s.read++; s.read%1024 == 0 && s.stop != nil {
		if s.err = s.stop(); s.err != nil {
			s.e = nil
			return
		}
	}
	switch e.Key.Kind() {
	case kv.KindValue, kv.KindDelete, kv.KindSingleDel:
	default:
		s.e = nil
		s.err = fmt.Errorf("compaction: key %v: %w", e.Key, corrupt.ErrNotSupported)
	}
}

// stripe returns the index of the oldest snapshot that sees seq; for the tip, the number of snapshots.
func (s *survivors) stripe(seq kv.Seq) int {
	n := len(s.snapshots)
	if n == 0 || seq <= s.snapshots[0] {
		return 0
	}
	if seq > s.snapshots[n-1] {
		return n
	}
	return sort.Search(n, func(i int) bool { return s.snapshots[i] >= seq })
}

// below answers whether a user key may be on a level below a plan's output. Keys are asked for in ascending order, so
// that each level's files are walked through once.
type below struct {
	levels [][]*manifest.File
	at     []int
}

func newBelow(levels [][]*manifest.File) *below {
	return &below{levels: levels, at: make([]int, len(levels))}
}

// has is true for every key when b is nil.
func (b *below) has(cmp *kv.Comparer, user []byte) bool {
	if b == nil {
		return true
	}
	for i, files := range b.levels {
		at := b.at[i]
		if invariants.Enabled && at > 0 && cmp.CompareUser(files[at-1].Largest.User, user) >= 0 {
			panic("compaction: keys below the output were asked for out of order")
		}
		for at < len(files) && cmp.CompareUser(files[at].Largest.User, user) < 0 {
			at++
		}
		b.at[i] = at
		if at < len(files) && cmp.CompareUser(files[at].Smallest.User, user) <= 0 {
			return true
		}
	}
	return false
}
