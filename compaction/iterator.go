package compaction

import (
	"errors"
	"fmt"
	"sort"

	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/invariants"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/merge"
	"github.com/ashlardb/ashlar/internal/tombstone"
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
//	 4. Merge operands are gathered down to the end of their stripe. Where they end at a Value or a deletion, or at the end of
//	    a key that is nowhere below, the operator makes a Value of them; it stands at the newest one's number. Else it makes
//	    one operand of them if it can. An operand that a snapshot does not see is never put together with one that it sees.
//	    Where the operator fails they stay as they are, and so does what they stand on: a read tells the error.
//	 5. At the bottom, a Value in stripe 0 gets sequence 0: it is visible to everybody, and compresses better.
//
// Rule 2 must look whether there was a newer version, not compare sequence numbers: snapshot 0 and sequence 0 are legal.
type survivors struct {
	cmp       *kv.Comparer
	op        kv.MergeOperator // nil: operands stay
	it        kv.Iterator
	snapshots []kv.Seq // ascending
	bottom    bool
	below     *below // nil: any key may be below
	ranges    *tombstone.List
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

	operands merge.Operands
	trailers []kv.Trailer // of operands, newest first
	queue    []kv.Entry   // operands that survive; the first left were not returned yet
	left     int
	value    []byte // what the operator made
	limit    int    // of such a value with its key, 0: none
	unmerged uint64 // keys whose operands the operator failed on
	stuck    bool   // that was at the bottom, in stripe 0; whoever wants to notice clears it
}

// next returns the next version that survives, nil at the end or on error. It lives until the following call.
func (s *survivors) next() *kv.Entry {
	switch {
	case s.left > 0:
		s.left--
		return &s.queue[len(s.queue)-1-s.left]
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
		if kind == kv.KindMerge {
			if out := s.merge(stripe); out != nil {
				return out
			}
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
	return s.hide(s.e.Key.Trailer, stripe)
}

// hide steps over what a deletion hides, that is, the rest of its stripe, and returns the deletion if somebody may see
// more of the key.
func (s *survivors) hide(trailer kv.Trailer, stripe int) *kv.Entry {
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
	case s.e.Key.Kind() == kv.KindMerge:
		// The contract of SingleDel knows no merges. What is older must not come back: it does as a Delete would.
		trailer = kv.MakeTrailer(trailer.Seq(), kv.KindDelete)
		switch {
		case newer == stripe: // hidden, and so is the rest
		case s.below.has(s.cmp, s.user):
			return s.tombstone(trailer)
		default:
			return s.hide(trailer, stripe)
		}
	default:
		s.newer = newer
	}
	return nil
}

// merge decides about the operand in hand, the newest version of its stripe that is left, and those that follow it there.
func (s *survivors) merge(stripe int) *kv.Entry {
	s.operands.Reset()
	s.trailers = s.trailers[:0]
	for s.sameKey() && s.e.Key.Kind() == kv.KindMerge && s.stripe(s.e.Key.Seq()) == stripe {
		s.operands.Add(s.e.Value)
		s.trailers = append(s.trailers, s.e.Key.Trailer)
		s.step()
	}
	if s.err != nil {
		return nil
	}
	var err error
	var ok bool
	switch same := s.sameKey(); {
	case same && s.stripe(s.e.Key.Seq()) == stripe:
		ok, err = s.fullMerge(stripe, s.e.Value, s.e.Key.Kind() == kv.KindValue)
	case !same && !s.below.has(s.cmp, s.user):
		ok, err = s.fullMerge(stripe, nil, false)
	default:
		if s.value, ok, err = merge.Partial(s.op, s.value[:0], s.user, s.operands.Reversed()); ok && s.fits() {
			s.out = kv.Entry{Key: kv.Key{User: s.user, Trailer: s.trailers[0]}, Value: s.value}
			return &s.out
		}
		ok = false
	}
	switch {
	case err != nil:
		s.e, s.err = nil, fmt.Errorf("compaction: %w", err)
		return nil
	case ok:
		return &s.out
	}
	s.queue = s.queue[:0]
	for n, operand := range s.operands.Added() {
		s.queue = append(s.queue, kv.Entry{Key: kv.Key{User: s.user, Trailer: s.trailers[n]}, Value: operand})
	}
	s.left = len(s.queue) - 1
	return &s.queue[0]
}

// fullMerge makes out of the operands a Value, which hides what is left of the stripe. It is false where the operator
// failed; the error tells of a panic.
func (s *survivors) fullMerge(stripe int, existing []byte, exists bool) (ok bool, err error) {
	s.value, err = merge.Full(s.op, s.value[:0], s.user, existing, exists, s.operands.Reversed())
	if errors.Is(err, merge.ErrPanic) {
		return false, err
	}
	bottom := s.bottom && stripe == 0
	if err != nil || !s.fits() {
		s.unmerged++
		s.stuck = s.stuck || bottom
		return false, nil
	}
	s.newer = stripe
	seq := s.trailers[0].Seq()
	if bottom {
		seq = 0
	}
	s.out = kv.Entry{Key: kv.MakeKey(s.user, seq, kv.KindValue), Value: s.value}
	return true, nil
}

// fits tells whether a table can hold what the operator made.
func (s *survivors) fits() bool { return s.limit == 0 || len(s.value) <= s.limit-len(s.user) }

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

// take makes e, or the next one that no range delete covers, the version in hand, if this package knows what to do with
// it.
func (s *survivors) take(e *kv.Entry) {
	for ; ; e = s.it.Next() {
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
		if s.ranges == nil || !s.covered(e.Key) {
			break
		}
	}
	switch e.Key.Kind() {
	case kv.KindValue, kv.KindDelete, kv.KindSingleDel, kv.KindMerge:
	default:
		s.e = nil
		s.err = fmt.Errorf("compaction: key %v: %w", e.Key, corrupt.ErrNotSupported)
	}
}

// covered tells whether there is a newer range delete over k in its stripe.
func (s *survivors) covered(k kv.Key) bool {
	last := kv.MaxSeq
	if n := s.stripe(k.Seq()); n < len(s.snapshots) {
		last = s.snapshots[n]
	}
	return s.ranges.Cover(k.User, last) > k.Seq()
}

func (s *survivors) stripe(seq kv.Seq) int { return stripeOf(s.snapshots, seq) }

// stripeOf returns the index of the oldest snapshot that sees seq; for the tip, the number of snapshots.
func stripeOf(snapshots []kv.Seq, seq kv.Seq) int {
	n := len(snapshots)
	if n == 0 || seq <= snapshots[0] {
		return 0
	}
	if seq > snapshots[n-1] {
		return n
	}
	return sort.Search(n, func(i int) bool { return snapshots[i] >= seq })
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
