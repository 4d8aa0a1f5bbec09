package memtable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
)

// twin is the table's dumb brother: a sorted slice.
type twin struct {
	cmp     *kv.Comparer
	entries []kv.Entry
}

// search returns the place of the first entry >= k, and whether it is k.
func (w *twin) search(k kv.Key) (int, bool) {
	return slices.BinarySearchFunc(w.entries, k, func(e kv.Entry, k kv.Key) int { return w.cmp.CompareKeys(e.Key, k) })
}

func (w *twin) insert(k kv.Key, value []byte) bool {
	i, found := w.search(k)
	if found {
		return false
	}
	w.entries = slices.Insert(w.entries, i, kv.Entry{Key: k.Clone(), Value: bytes.Clone(value)})
	return true
}

func (w *twin) at(i int) *kv.Entry {
	if i < 0 || i >= len(w.entries) {
		return nil
	}
	return &w.entries[i]
}

func (w *twin) get(user []byte, seq kv.Seq) lookup.Get {
	g := lookup.Get{User: user, Seq: seq}
	for _, e := range w.entries {
		if bytes.Equal(e.Key.User, user) && !g.Offer(e.Key.Trailer, e.Value) {
			break
		}
	}
	return g
}

func newTable(t testing.TB, cmp *kv.Comparer, capacity int) *Table {
	a, err := NewArena(capacity)
	require.NoError(t, err)
	table := New(cmp, a, 7)
	t.Cleanup(table.Release)
	return table
}

func sameEntry(t testing.TB, want, got *kv.Entry) {
	t.Helper()
	if want == nil || got == nil {
		require.True(t, want == nil && got == nil, "want %v, got %v", want, got)
		return
	}
	if !bytes.Equal(want.Key.User, got.Key.User) || want.Key.Trailer != got.Key.Trailer ||
		!bytes.Equal(want.Value, got.Value) {
		t.Fatalf("want %v, got %v", want.Key, got.Key)
	}
}

// sameContents walks both ways.
func sameContents(t testing.TB, w *twin, table *Table) {
	t.Helper()
	it := table.NewIter()
	e := it.First()
	for i := range w.entries {
		sameEntry(t, w.at(i), e)
		e = it.Next()
	}
	require.Nil(t, e)
	e = it.Prev()
	for i := len(w.entries) - 1; i >= 0; i-- {
		sameEntry(t, w.at(i), e)
		e = it.Prev()
	}
	require.Nil(t, e)
	require.NoError(t, it.Close())
}

// checkLaws proves the laws at the top of skiplist.go, of a list into which nobody inserts just now.
func checkLaws(t testing.TB, l *list) {
	t.Helper()
	below := map[uint32]bool{}
	for level := range maxHeight {
		here := map[uint32]bool{}
		prev := l.head
		for n := l.next(l.head, level); n != endLink; n = l.next(n.offset(), level) {
			node := n.offset()
			k := kv.Key{User: l.key(node), Trailer: l.header(node).trailer}
			if l.bytewise {
				if rank(k.User) != n.rank() {
					t.Fatalf("level %d: a link has another rank than its node %v", level, k)
				}
			}
			if prev != l.head && l.cmp.CompareKeys(kv.Key{User: l.key(prev), Trailer: l.header(prev).trailer}, k) >= 0 {
				t.Fatalf("level %d: %v is out of order", level, k)
			}
			if level > 0 && !below[node] {
				t.Fatalf("level %d: %v is not on the level below", level, k)
			}
			here[node] = true
			prev = node
		}
		if level >= int(l.height.Load()) {
			require.Empty(t, here)
		}
		below = here
	}
}

func TestRankKeepsBytewiseOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	word := func() []byte {
		b := make([]byte, rng.IntN(11))
		for i := range b {
			b[i] = []byte{0, 0, 0, 1, 2, 0x30, 0x7f, 0x80, 0xfe, 0xff}[rng.IntN(10)]
		}
		return b
	}
	for range 100_000 {
		a, b := word(), word()
		if bytes.Compare(a, b) > 0 {
			a, b = b, a
		}
		if rank(a) > rank(b) {
			t.Fatalf("rank of %x is above that of %x", a, b)
		}
	}
	require.Zero(t, rank(nil))
	require.Less(t, rank(bytes.Repeat([]byte{0xff}, 9)), endLink.rank())
}

func TestRankTellsNeighbouringNumbersApart(t *testing.T) {
	var key [16]byte
	before := uint32(0)
	for n := range uint64(1 << 20) {
		dbBenchKey(key[:], n+1)
		r := rank(key[:])
		if r <= before {
			t.Fatalf("%d has rank %#x, the number before %#x", n+1, r, before)
		}
		before = r
	}
}

func TestOffsetsReachBeyondFourGigabytes(t *testing.T) {
	for _, place := range []uint64{0, 8, 1<<32 - 8, 1 << 32, 1<<32 + 8, 20 << 30, 32<<30 - 8} {
		require.Equal(t, uintptr(place), toBytes(toOffset(place)))
		l := makeLink(0x81ffffff, toOffset(place))
		require.Equal(t, toOffset(place), l.offset())
		require.Equal(t, uint32(0x81ffffff), l.rank())
		require.Less(t, l, endLink)
	}
	require.Equal(t, uint64(32<<30-8), uint64(MaxArenaCapacity)+arenaReserved)
}

// One goroutine, every pattern that a hint likes or hates.
func TestTableEqualsSortedSlice(t *testing.T) {
	for _, cmp := range []*kv.Comparer{kv.Bytewise, kv.ReverseBytewise, noRank} {
		for name, key := range map[string]func(i int, rng *rand.Rand) []byte{
			"ascending":  func(i int, _ *rand.Rand) []byte { return fmt.Appendf(nil, "%06d", i) },
			"descending": func(i int, _ *rand.Rand) []byte { return fmt.Appendf(nil, "%06d", 999999-i) },
			"random":     func(_ int, rng *rand.Rand) []byte { return binary.BigEndian.AppendUint64(nil, rng.Uint64N(1e6)) },
			"one key":    func(int, *rand.Rand) []byte { return []byte("k") },
			"runs": func(i int, rng *rand.Rand) []byte {
				return fmt.Appendf(nil, "%03d/%06d", i/50*7919%1000, i)
			},
			"short": func(_ int, rng *rand.Rand) []byte {
				b := make([]byte, rng.IntN(4))
				for i := range b {
					b[i] = byte(rng.IntN(2) * 0xff)
				}
				return b
			},
			"same rank": func(_ int, rng *rand.Rand) []byte { return fmt.Appendf(nil, "a long prefix %05d", rng.IntN(1e5)) },
		} {
			t.Run(cmp.Name+"/"+name, func(t *testing.T) {
				const n = 600
				rng := rand.New(rand.NewPCG(3, 4))
				table, w := newTable(t, cmp, n*MaxEntrySize(32, 16)), &twin{cmp: cmp}
				var hints [2]Hint
				for i := range n {
					k := kv.MakeKey(key(i, rng), kv.Seq(i+1), kv.KindValue)
					value := fmt.Appendf(nil, "value %d", i)[:rng.IntN(7)]
					require.True(t, w.insert(k, value))
					require.NoError(t, table.Insert(&hints[i%10/9], k.User, k.Trailer, value))
				}
				sameContents(t, w, table)
				checkLaws(t, &table.list)
				it := table.NewIter()
				for range n {
					k := kv.MakeKey(key(rng.IntN(n), rng), kv.Seq(rng.IntN(n)), kv.Kind(rng.IntN(3)))
					i, _ := w.search(k)
					sameEntry(t, w.at(i), it.SeekGE(k, nil))
					sameEntry(t, w.at(i-1), it.SeekLT(k))
				}
			})
		}
	}
}

func TestFirstVisibleVersionAnswersGet(t *testing.T) {
	table, w := newTable(t, kv.Bytewise, 1<<20), &twin{cmp: kv.Bytewise}
	var h Hint
	rng := rand.New(rand.NewPCG(5, 6))
	keys := [][]byte{{}, []byte("a"), []byte("a\x00"), []byte("ab"), []byte("commonpr"), []byte("commonprefix"), {0xff}}
	for seq := kv.Seq(1); seq <= 200; seq++ {
		kind := []kv.Kind{kv.KindDelete, kv.KindValue, kv.KindMerge, kv.KindSingleDel}[rng.IntN(4)]
		k := kv.MakeKey(keys[rng.IntN(len(keys))], seq, kind)
		value := fmt.Append(nil, seq)
		require.True(t, w.insert(k, value))
		require.NoError(t, table.Insert(&h, k.User, k.Trailer, value))
	}
	for _, user := range append(keys, []byte("absent"), []byte("commonpr\x00"), []byte{0xff, 0xff}) {
		for seq := kv.Seq(0); seq <= 201; seq++ {
			want := w.get(user, seq)
			got := lookup.Get{User: user, Seq: seq}
			require.Equal(t, want.State != lookup.Pending, table.Get(&got))
			require.Equal(t, want.State, got.State)
			require.Equal(t, want.Kind, got.Kind)
			require.Equal(t, string(want.Value), string(got.Value))
		}
	}
}

func TestSameEntryTwiceIsRefused(t *testing.T) {
	for _, cmp := range []*kv.Comparer{kv.Bytewise, kv.ReverseBytewise} {
		table := newTable(t, cmp, 1<<20)
		w := &twin{cmp: cmp}
		hints := make([]Hint, 3)
		rng := rand.New(rand.NewPCG(7, 8))
		for range 3000 {
			k := kv.MakeKey([]byte{byte(rng.IntN(16))}, kv.Seq(rng.IntN(16)), kv.KindValue)
			err := table.Insert(&hints[rng.IntN(3)], k.User, k.Trailer, nil)
			if w.insert(k, nil) {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrDuplicate)
			}
		}
		sameContents(t, w, table)
		require.Equal(t, uint64(len(w.entries)), table.Entries())
		checkLaws(t, &table.list)
	}
}

// insertAtOnce runs writers that insert n entries each while readers walk, and returns what must be in the table.
func insertAtOnce(t *testing.T, table *Table, writers, n int, key func(writer, i int) []byte) *twin {
	var wg, reading sync.WaitGroup
	stop := make(chan struct{})
	for r := range 2 {
		reading.Go(func() {
			rng := rand.New(rand.NewPCG(9, uint64(r)))
			it := table.NewIter()
			for {
				select {
				case <-stop:
					return
				default:
				}
				w := key(rng.IntN(writers), rng.IntN(n))
				walkChecked(t, table.cmp, it, kv.SeekKey(w, kv.MaxSeq), r%2 == 0, rng)
				g := lookup.Get{User: w, Seq: kv.MaxSeq}
				if table.Get(&g) && !bytes.HasPrefix(g.Value, w) {
					t.Errorf("key %q has value %q", w, g.Value)
				}
			}
		})
	}
	for w := range writers {
		wg.Go(func() {
			var h Hint
			for i := range n {
				k := key(w, i)
				value := append(k[:len(k):len(k)], "=v"...)
				if err := table.Insert(&h, k, kv.MakeTrailer(kv.Seq(w*n+i+1), kv.KindValue), value); err != nil {
					t.Errorf("insert: %v", err)
				}
				g := lookup.Get{User: k, Seq: kv.Seq(w*n + i + 1)}
				if !table.Get(&g) {
					t.Errorf("%q is not there after its insert", k)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	reading.Wait()
	all := &twin{cmp: table.cmp}
	for w := range writers {
		for i := range n {
			k := key(w, i)
			all.entries = append(all.entries, kv.Entry{Key: kv.MakeKey(k, kv.Seq(w*n+i+1), kv.KindValue),
				Value: append(k[:len(k):len(k)], "=v"...)})
		}
	}
	slices.SortFunc(all.entries, func(a, b kv.Entry) int { return table.cmp.CompareKeys(a.Key, b.Key) })
	return all
}

// walkChecked seeks and walks some steps, checking that keys come in order and whole.
func walkChecked(t *testing.T, cmp *kv.Comparer, it *Iterator, k kv.Key, forward bool, rng *rand.Rand) {
	var e *kv.Entry
	if forward {
		e = it.SeekGE(k, nil)
	} else {
		e = it.SeekLT(k)
	}
	last := k
	for range 20 {
		if e == nil {
			return
		}
		if c := cmp.CompareKeys(last, e.Key); forward == (c > 0) && c != 0 {
			t.Errorf("%v comes after %v", e.Key, last)
		}
		if string(e.Value) != string(e.Key.User)+"=v" {
			t.Errorf("%v has value %q", e.Key, e.Value)
		}
		last = e.Key
		if rng.IntN(8) == 0 {
			forward = !forward
		}
		if forward {
			e = it.Next()
		} else {
			e = it.Prev()
		}
	}
}

// Laws 1 to 3, with 64 writers at once and readers beside them. Run it with -race.
func TestLawsHoldUnder64Writers(t *testing.T) {
	const writers = 64
	const n = 100
	for name, key := range map[string]func(w, i int) []byte{
		"own runs": func(w, i int) []byte { return fmt.Appendf(nil, "%03d%05d", w, i) },
		"interleaved": func(w, i int) []byte {
			return binary.BigEndian.AppendUint64(nil, uint64(i*writers+w))
		},
		"scattered": func(w, i int) []byte {
			return binary.BigEndian.AppendUint64(nil, uint64(i*writers+w)*0x9e3779b97f4a7c15)
		},
		"before one key": func(w, i int) []byte { return fmt.Appendf(nil, "%d", 1_000_000-i) },
		"one key":        func(int, int) []byte { return []byte("k") },
	} {
		for _, cmp := range []*kv.Comparer{kv.Bytewise, kv.ReverseBytewise} {
			if cmp == kv.ReverseBytewise && name != "scattered" {
				continue
			}
			t.Run(name+"/"+cmp.Name, func(t *testing.T) {
				table := newTable(t, cmp, writers*n*MaxEntrySize(8, 10))
				all := insertAtOnce(t, table, writers, n, key)
				require.Equal(t, uint64(writers*n), table.Entries())
				sameContents(t, all, table)
				checkLaws(t, &table.list)
			})
		}
	}
}

// One of those who insert the same entry at once wins, the others are told.
func TestOneOfEqualInsertsWins(t *testing.T) {
	const n = 500
	table := newTable(t, kv.Bytewise, 16*n*MaxEntrySize(8, 0))
	var wg sync.WaitGroup
	won := make([]int, 16)
	for g := range won {
		wg.Go(func() {
			var h Hint
			for i := range n {
				if table.Insert(&h, binary.BigEndian.AppendUint64(nil, uint64(i)), 1, nil) == nil {
					won[g]++
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, c := range won {
		sum += c
	}
	require.Equal(t, n, sum)
	require.Equal(t, uint64(n), table.Entries())
	checkLaws(t, &table.list)
}

// FuzzSkiplist runs a program of operations on a table and on its twin. Each operation is three bytes: what, key,
// argument.
func FuzzSkiplist(f *testing.F) {
	f.Add([]byte("i\x01\x01i\x02\x02i\x01\x03g\x01\x09s\x01\x02l\x02\x02n\x00\x00p\x00\x00"))
	f.Add([]byte("i\x05\x01i\x04\x01i\x03\x01i\x02\x01l\xff\x00p\x00\x00p\x00\x00n\x00\x00"))
	f.Add([]byte("r\x00\x00i\xc0\x01i\x80\x01i\x40\x01d\x40\x02g\x40\x05f\x00\x00e\x00\x00"))
	f.Add([]byte("i\x01\x01i\x01\x01I\x01\x01"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		ops = ops[:min(len(ops), 3000)] // the twin's Get is linear
		cmp := kv.Bytewise
		if len(ops) > 0 && ops[0] == 'r' {
			cmp = kv.ReverseBytewise
		}
		table, w := newTable(t, cmp, (len(ops)/3+1)*MaxEntrySize(16, 8)), &twin{cmp: cmp}
		var hints [2]Hint
		it := table.NewIter()
		var at int // the twin's place: -1 before the first, len behind the last
		positioned := false
		for ; len(ops) >= 3; ops = ops[3:] {
			op, arg := ops[0], ops[2]
			user := fuzzKey(ops[1])
			switch k := kv.MakeKey(user, kv.Seq(arg), kv.KindValue); op {
			case 'i', 'I', 'd':
				if op == 'd' {
					k = kv.MakeKey(user, kv.Seq(arg), kv.KindDelete)
				}
				err := table.Insert(&hints[op&1], k.User, k.Trailer, ops[:3])
				i, found := w.search(k)
				require.Equal(t, found, err != nil)
				if w.insert(k, ops[:3]) && positioned && i <= at {
					at++
				} // else it lies ahead, or behind the end
				if positioned && at > len(w.entries) {
					at = len(w.entries)
				}
			case 'g':
				want, got := w.get(user, kv.Seq(arg)), lookup.Get{User: user, Seq: kv.Seq(arg)}
				table.Get(&got)
				require.Equal(t, want.State, got.State)
				require.Equal(t, string(want.Value), string(got.Value))
			case 's':
				at, _ = w.search(k)
				positioned = true
				sameEntry(t, w.at(at), it.SeekGE(k, nil))
			case 'l':
				at, _ = w.search(k)
				at--
				positioned = true
				sameEntry(t, w.at(at), it.SeekLT(k))
			case 'f':
				at, positioned = 0, true
				sameEntry(t, w.at(at), it.First())
			case 'e':
				at, positioned = len(w.entries)-1, true
				sameEntry(t, w.at(at), it.Last())
			case 'n':
				if positioned {
					at = min(at+1, len(w.entries))
					sameEntry(t, w.at(at), it.Next())
				}
			case 'p':
				if positioned {
					at = max(at-1, -1)
					sameEntry(t, w.at(at), it.Prev())
				}
			}
		}
		sameContents(t, w, table)
		checkLaws(t, &table.list)
	})
}

// fuzzKey makes keys of several lengths, with common prefixes, equal ranks and the empty one.
func fuzzKey(b byte) []byte {
	switch b >> 6 {
	case 0:
		return bytes.Repeat([]byte{b & 7}, int(b>>3&7))
	case 1:
		return []byte{0, 0, 0, 0, 0, 0, 0, b & 63}
	case 2:
		return append([]byte("commonprefix"), b&63)
	}
	return []byte{b}
}
