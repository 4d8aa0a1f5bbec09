package tombstone

import (
	"cmp"
	"slices"
	"sort"

	"github.com/ashlardb/ashlar/internal/kv"
)

// Tombstone hides the versions older than Seq of the keys from Start (included) to End (excluded).
type Tombstone struct {
	Start, End []byte
	Seq        kv.Seq
}

// List is a set of tombstones, cut into fragments.
//
//  1. bounds ascend strictly. Fragment i lies between bounds i and i+1; between two tombstones that do not touch there is
//     one without any.
//  2. The tree's root is node 1, the children of node n are 2n and 2n+1, and fragment i is leaf Len()+i.
//  3. A tombstone is in as few nodes as have, together, its fragments as their leaves. So those of a fragment are on the
//     way from its leaf to the root, and each stands there once.
//  4. Node n has seqs[first[n]:first[n+1]], newest first.
type List struct {
	order  *kv.Comparer
	all    []Tombstone // newest first
	bounds [][]byte
	first  []int
	seqs   []kv.Seq
}

// New returns a list of ts, or nil if none of them hides anything. It keeps ts, in another order, and what its keys
// point to.
func New(order *kv.Comparer, ts []Tombstone) *List {
	ts = slices.DeleteFunc(ts, func(t Tombstone) bool { return t.Seq == 0 || order.CompareUser(t.Start, t.End) >= 0 })
	if len(ts) == 0 {
		return nil
	}
	slices.SortStableFunc(ts, func(a, b Tombstone) int { return cmp.Compare(b.Seq, a.Seq) })
	l := &List{order: order, all: ts, bounds: make([][]byte, 0, 2*len(ts))}
	for _, t := range ts {
		l.bounds = append(l.bounds, t.Start, t.End)
	}
	slices.SortFunc(l.bounds, order.CompareUser)
	l.bounds = slices.CompactFunc(l.bounds, func(a, b []byte) bool { return order.CompareUser(a, b) == 0 })
	l.plant()
	return l
}

// plant builds the tree: the nodes are counted, then filled.
func (l *List) plant() {
	leaves := l.Len()
	places := make([][2]int, len(l.all))
	l.first = make([]int, 2*leaves+2)
	for i, t := range l.all {
		places[i] = [2]int{l.bound(t.Start), l.bound(t.End)}
		l.nodes(places[i], func(n int) { l.first[n+1]++ })
	}
	for n := 1; n < len(l.first); n++ {
		l.first[n] += l.first[n-1]
	}
	l.seqs = make([]kv.Seq, l.first[len(l.first)-1])
	filled := slices.Clone(l.first)
	for i, t := range l.all {
		l.nodes(places[i], func(n int) {
			l.seqs[filled[n]] = t.Seq
			filled[n]++
		})
	}
}

// nodes calls each for the nodes of a tombstone from one bound to another.
func (l *List) nodes(place [2]int, each func(n int)) {
	from, to := place[0]+l.Len(), place[1]+l.Len()
	for ; from < to; from, to = from/2, to/2 {
		if from&1 == 1 {
			each(from)
			from++
		}
		if to&1 == 1 {
			to--
			each(to)
		}
	}
}

// bound returns the index of the first bound that is not below user.
func (l *List) bound(user []byte) int {
	return sort.Search(len(l.bounds), func(i int) bool { return l.order.CompareUser(l.bounds[i], user) >= 0 })
}

// Len is the number of fragments.
func (l *List) Len() int {
	if l == nil {
		return 0
	}
	return len(l.bounds) - 1
}

// All returns the tombstones as they were given, newest first. They must not be changed.
func (l *List) All() []Tombstone {
	if l == nil {
		return nil
	}
	return l.all
}

// Fragment returns the bounds of fragment i.
func (l *List) Fragment(i int) (start, end []byte) { return l.bounds[i], l.bounds[i+1] }

// At returns the number of the newest tombstone of fragment i that is not newer than seq, 0 if there is none. With seq one
// below the result, the next older one.
func (l *List) At(i int, seq kv.Seq) (newest kv.Seq) {
	for n := i + l.Len(); n > 0; n /= 2 {
		seqs := l.seqs[l.first[n]:l.first[n+1]]
		if len(seqs) == 0 || seqs[0] <= newest {
			continue
		}
		if seqs[0] > seq {
			seqs = seqs[sort.Search(len(seqs), func(i int) bool { return seqs[i] <= seq }):]
			if len(seqs) == 0 {
				continue
			}
		}
		newest = max(newest, seqs[0])
	}
	return newest
}

// Find returns the fragment that holds user, -1 if it lies outside of all.
func (l *List) Find(user []byte) int {
	lo, hi := 0, len(l.bounds)
	for lo < hi {
		m := int(uint(lo+hi) / 2)
		if l.order.CompareUser(l.bounds[m], user) <= 0 {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo == len(l.bounds) {
		return -1
	}
	return lo - 1
}

// Cover returns the number of the newest tombstone not newer than seq that covers user, 0 if there is none: what a reader
// at seq does not see of user is what is older than that.
func (l *List) Cover(user []byte, seq kv.Seq) kv.Seq {
	if l == nil {
		return 0
	}
	i := l.Find(user)
	if i < 0 {
		return 0
	}
	return l.At(i, seq)
}

// maxSpan is how many fragments Span looks at in either direction.
const maxSpan = 16

// Span returns keys around user which tombstones not newer than seq cover, user included: from start to end (excluded).
// There may be more beside them. Some tombstone has to cover user.
func (l *List) Span(user []byte, seq kv.Seq) (start, end []byte) {
	from := l.Find(user)
	to := from
	for n := 0; n < maxSpan && from > 0 && l.At(from-1, seq) > 0; n++ {
		from--
	}
	for n := 0; n < maxSpan && to < l.Len()-1 && l.At(to+1, seq) > 0; n++ {
		to++
	}
	return l.bounds[from], l.bounds[to+1]
}

// Oldest returns the number of the oldest tombstone, MaxSeq of an empty list.
func (l *List) Oldest() kv.Seq {
	if l == nil {
		return kv.MaxSeq
	}
	return l.all[len(l.all)-1].Seq
}

// Bytes is about how much memory the list takes, keys included.
func (l *List) Bytes() int64 {
	if l == nil {
		return 0
	}
	n := 56*len(l.all) + 24*len(l.bounds) + 8*len(l.first) + 8*len(l.seqs)
	for _, t := range l.all {
		n += len(t.Start) + len(t.End)
	}
	return int64(n)
}

// Truncate appends to dst what is left of ts in a table from smallest to largest. What is stored in a table may reach
// beyond it: RocksDB cuts tombstones at the ends of tables, when it writes some and when it reads others.
//
// A table whose largest key is not the end of a tombstone may share that user key with its right neighbour, which then
// covers it; the table's own part ends in front of it.
func Truncate(dst []Tombstone, order *kv.Comparer, ts []Tombstone, smallest, largest kv.Key) []Tombstone {
	for _, t := range ts {
		if order.CompareUser(t.Start, smallest.User) < 0 {
			t.Start = smallest.User
		}
		if order.CompareUser(t.End, largest.User) > 0 {
			t.End = largest.User
		}
		if order.CompareUser(t.Start, t.End) < 0 {
			dst = append(dst, t)
		}
	}
	return dst
}
