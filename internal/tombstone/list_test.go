package tombstone

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/kv"
)

// twin looks at every tombstone.
type twin struct {
	order *kv.Comparer
	all   []Tombstone
}

func (w twin) cover(user []byte, seq kv.Seq) (newest kv.Seq) {
	for _, t := range w.all {
		if t.Seq <= seq && w.order.Compare(t.Start, user) <= 0 && w.order.Compare(user, t.End) < 0 {
			newest = max(newest, t.Seq)
		}
	}
	return newest
}

// check compares a list with the twin at every key of an alphabet.
func check(t testing.TB, order *kv.Comparer, ts []Tombstone, users [][]byte, seqs []kv.Seq) {
	w := twin{order, slices.Clone(ts)}
	l := New(order, slices.Clone(ts))
	for i := range l.Len() {
		start, end := l.Fragment(i)
		require.Negative(t, order.Compare(start, end))
		if i > 0 {
			_, before := l.Fragment(i - 1)
			require.Equal(t, before, start)
		}
		var want []kv.Seq
		for s := kv.MaxSeq; ; {
			if s = w.cover(start, s); s == 0 {
				break
			}
			want = append(want, s)
			s--
		}
		var got []kv.Seq
		for s := l.At(i, kv.MaxSeq); s > 0; s = l.At(i, s-1) {
			got = append(got, s)
		}
		require.Equal(t, want, got)
	}
	inside := func(start, user, end []byte) bool {
		return order.Compare(start, user) <= 0 && order.Compare(user, end) < 0
	}
	for _, user := range users {
		for _, seq := range seqs {
			want := w.cover(user, seq)
			if got := l.Cover(user, seq); got != want {
				t.Fatalf("%q at %d is covered by %d, not by %d", user, seq, want, got)
			}
			if want == 0 {
				continue
			}
			start, end := l.Span(user, seq)
			if !inside(start, user, end) {
				t.Fatalf("%q is not between %q and %q", user, start, end)
			}
			for _, u := range users {
				if inside(start, u, end) && w.cover(u, seq) == 0 {
					t.Fatalf("%q, between %q and %q, is not covered at %d", u, start, end, seq)
				}
			}
		}
	}
}

func TestAListGivesTheAnswersOfALookAtEveryTombstone(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var users [][]byte
	for i := range 40 {
		users = append(users, fmt.Appendf(nil, "%02d", i))
	}
	for _, order := range []*kv.Comparer{kv.Bytewise, kv.ReverseBytewise} {
		for range 150 {
			var ts []Tombstone
			seqs := []kv.Seq{0, 1, kv.MaxSeq}
			for range rng.IntN(20) {
				s := kv.Seq(rng.IntN(30))
				ts = append(ts, Tombstone{users[rng.IntN(40)], users[rng.IntN(40)], s})
				seqs = append(seqs, s)
			}
			check(t, order, ts, users, seqs)
		}
	}
}

func TestAnEmptyListCoversNothing(t *testing.T) {
	a, b := []byte("a"), []byte("b")
	for _, ts := range [][]Tombstone{nil, {{a, a, 3}}, {{b, a, 3}}, {{a, b, 0}}} {
		l := New(kv.Bytewise, ts)
		require.Nil(t, l)
		require.Zero(t, l.Cover(a, kv.MaxSeq))
		require.Zero(t, l.Len())
		require.Zero(t, l.Bytes())
		require.Empty(t, l.All())
		require.Equal(t, kv.MaxSeq, l.Oldest())
	}
}

// Tombstones that all begin at one key, each reaching further: with copies for each fragment, half the square of their
// number.
func TestNestedTombstonesDoNotTakeTheSquareOfTheirNumber(t *testing.T) {
	const n = 4000
	var ts []Tombstone
	for i := range n {
		ts = append(ts, Tombstone{[]byte("a"), fmt.Appendf(nil, "b%06d", i), kv.Seq(i + 1)})
	}
	l := New(kv.Bytewise, ts)
	require.Less(t, l.Bytes(), int64(n*400))
	require.EqualValues(t, 1, l.Oldest())
	require.EqualValues(t, n, l.Cover([]byte("b003998x"), kv.MaxSeq))
	require.EqualValues(t, n, l.Cover([]byte("a"), kv.MaxSeq))
	require.EqualValues(t, 17, l.Cover([]byte("a"), 17))
	require.Zero(t, l.Cover([]byte("b000016"), 17))
	require.EqualValues(t, 17, l.Cover([]byte("b000015x"), 17))
}

func TestTruncateLeavesWhatATableMayCover(t *testing.T) {
	ts := []Tombstone{{[]byte("a"), []byte("z"), 9}, {[]byte("c"), []byte("d"), 8}, {[]byte("x"), []byte("z"), 7}, {[]byte("a"), []byte("b"), 6}}
	got := Truncate(nil, kv.Bytewise, ts, kv.MakeKey([]byte("b"), 3, kv.KindValue), kv.MakeKey([]byte("m"), kv.MaxSeq, kv.KindRangeDelete))
	require.Equal(t, []Tombstone{{[]byte("b"), []byte("m"), 9}, {[]byte("c"), []byte("d"), 8}}, got)
}

func FuzzFragment(f *testing.F) {
	f.Add([]byte{1, 5, 3, 2, 9, 4, 0, 7, 1}, false)
	f.Add([]byte{0, 255, 1, 0, 255, 2, 0, 255, 1}, true)
	f.Fuzz(func(t *testing.T, b []byte, reverse bool) {
		order := kv.Bytewise
		if reverse {
			order = kv.ReverseBytewise
		}
		if len(b) > 90 {
			b = b[:90]
		}
		var ts []Tombstone
		users := [][]byte{{}, {255, 255}}
		seqs := []kv.Seq{0, kv.MaxSeq}
		for ; len(b) >= 3; b = b[3:] {
			x := Tombstone{b[:1:1], b[1:2:2], kv.Seq(b[2])}
			ts = append(ts, x)
			users = append(users, x.Start, x.End)
			seqs = append(seqs, x.Seq)
		}
		check(t, order, ts, users, seqs)
	})
}

func Example() {
	l := New(kv.Bytewise, []Tombstone{{[]byte("a"), []byte("d"), 2}, {[]byte("c"), []byte("g"), 5}, {[]byte("b"), []byte("e"), 7}})
	fmt.Println(l.Cover([]byte("c"), 6), l.Cover([]byte("c"), 9), l.Cover([]byte("f"), 9), l.Cover([]byte("g"), 9))
	// Output: 5 7 5 0
}
