package iterator

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/iterator/itertest"
	"github.com/ashlardb/ashlar/internal/kv"
)

func entry(user string, seq kv.Seq) kv.Entry {
	return kv.Entry{Key: kv.MakeKey([]byte(user), seq, kv.KindValue), Value: fmt.Appendf(nil, "%s@%d", user, seq)}
}

// decodeEntries makes entries of b's bytes, with keys short enough to collide and long enough to share 8-byte prefixes.
func decodeEntries(b []byte) (all []kv.Entry) {
	for i, c := range b {
		user := []string{"", "a", "a\x00", "ab", "prefix8_", "prefix8_a", "prefix8_a\x00", "prefix9", "\xff\xff"}[c%9]
		all = append(all, entry(user+string(rune('a'+c/9%4)), kv.Seq(i+1)))
	}
	return all
}

// share gives each entry to one of n children and returns their iterators.
func share(cmp *kv.Comparer, all []kv.Entry, n int, rng *rand.Rand) []kv.Iterator {
	parts := make([][]kv.Entry, n)
	for _, e := range all {
		i := rng.IntN(n)
		parts[i] = append(parts[i], e)
	}
	its := make([]kv.Iterator, n)
	for i, p := range parts {
		itertest.Sort(cmp, p)
		its[i] = itertest.New(cmp, p)
	}
	return its
}

func FuzzMerging(f *testing.F) {
	f.Add([]byte("some entries of several tables"), []byte{5, 0, 0, 3, 4, 0, 6, 3, 0, 7, 71, 3, 3, 0, 255, 0}, uint8(3), false)
	f.Add([]byte{0, 9, 18}, []byte{7, 0, 0, 0, 0, 3, 3, 3, 3, 3, 0, 0}, uint8(2), true)
	f.Add([]byte{}, []byte{7, 0, 3}, uint8(5), false)
	f.Fuzz(func(t *testing.T, data, ops []byte, n uint8, reverse bool) {
		cmp := kv.Bytewise
		if reverse {
			cmp = kv.ReverseBytewise
		}
		all := decodeEntries(data)
		rng := rand.New(rand.NewPCG(uint64(len(data)), uint64(n)))
		m := Merging(cmp, share(cmp, all, int(n%9)+1, rng)...)
		itertest.Sort(cmp, all)
		if err := itertest.Check(cmp, m, all, ops); err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// cut splits all into tables at random places, some of them empty with bounds wider than what is there.
func cut(cmp *kv.Comparer, all []kv.Entry, rng *rand.Rand) *Concat {
	var tables [][]kv.Entry
	for rest := all; len(rest) > 0; {
		n := 1 + rng.IntN(min(4, len(rest)))
		tables = append(tables, rest[:n:n])
		rest = rest[n:]
	}
	hollow := rng.IntN(3) // each third table holds nothing although its bounds say so
	bounds := func(i int) (kv.Key, kv.Key) {
		return tables[i][0].Key, tables[i][len(tables[i])-1].Key
	}
	return NewConcat(cmp, len(tables), bounds, func(i int) (kv.Iterator, error) {
		if hollow == 0 && i%3 == 1 {
			return kv.Empty{}, nil
		}
		return itertest.New(cmp, tables[i]), nil
	})
}

func FuzzConcat(f *testing.F) {
	f.Add([]byte("some entries of several tables"), []byte{5, 0, 0, 3, 4, 0, 6, 3, 0, 7, 71, 3, 3, 0, 255, 0}, uint64(1), false)
	f.Add([]byte{0, 9, 18}, []byte{7, 0, 0, 0, 0, 3, 3, 3, 3, 3, 0, 0}, uint64(2), true)
	f.Add([]byte{}, []byte{7, 0, 3}, uint64(5), false)
	f.Fuzz(func(t *testing.T, data, ops []byte, seed uint64, reverse bool) {
		cmp := kv.Bytewise
		if reverse {
			cmp = kv.ReverseBytewise
		}
		all := decodeEntries(data)
		itertest.Sort(cmp, all)
		c := cut(cmp, all, rand.New(rand.NewPCG(seed, 1)))
		var want []kv.Entry
		for i := range c.n {
			it, _ := c.open(i)
			for e := it.First(); e != nil; e = it.Next() {
				want = append(want, *e)
			}
		}
		if err := itertest.Check(cmp, c, want, ops); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRandomWalksEqualASortedSlice(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for round := range 800 {
		data, ops := make([]byte, rng.IntN(40)), make([]byte, 60)
		for _, b := range [][]byte{data, ops} {
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
		}
		cmp := []*kv.Comparer{kv.Bytewise, kv.ReverseBytewise}[round%2]
		all := decodeEntries(data)
		its := share(cmp, all, 1+rng.IntN(8), rng)
		itertest.Sort(cmp, all)
		require.NoError(t, itertest.Check(cmp, Merging(cmp, its...), all, ops))
		require.NoError(t, itertest.Check(cmp, Merging(cmp, cut(cmp, nil, rng), kv.Empty{}, itertest.New(cmp, all)), all, ops))
	}
}

// A log that is replayed twice may bring the same internal key twice.
func TestEqualKeysKeepTheOrderOfTheirChildrenBothWays(t *testing.T) {
	mk := func(value string) *itertest.Slice {
		return itertest.New(kv.Bytewise, []kv.Entry{{Key: kv.MakeKey([]byte("k"), 1, kv.KindValue), Value: []byte(value)}})
	}
	m := Merging(kv.Bytewise, mk("0"), mk("1"), mk("2"))
	var got string
	for e := m.First(); e != nil; e = m.Next() {
		got += string(e.Value)
	}
	for e := m.Prev(); e != nil; e = m.Prev() {
		got += string(e.Value)
	}
	require.Equal(t, "012210", got)
	m.Next()
	require.Equal(t, "1", string(m.Next().Value))
	require.Equal(t, "0", string(m.Prev().Value))
}

func TestOneIteratorIsReturnedAsItIs(t *testing.T) {
	s := itertest.New(kv.Bytewise, nil)
	require.Same(t, s, Merging(kv.Bytewise, s))
	require.Nil(t, Merging(kv.Bytewise).First())
}

func TestAnErrorEndsTheMergeUntilItIsPositionedAnew(t *testing.T) {
	broken := errors.New("block 3 is broken")
	a := itertest.New(kv.Bytewise, []kv.Entry{entry("a", 1), entry("c", 2), entry("e", 3)})
	b := itertest.New(kv.Bytewise, []kv.Entry{entry("b", 4), entry("d", 5)})
	b.FailAfter, b.Error = 1, broken
	m := Merging(kv.Bytewise, a, b)
	require.Equal(t, "a", string(m.First().Key.User))
	require.Equal(t, "b", string(m.Next().Key.User))
	for range 3 {
		require.Nil(t, m.Next())
		require.Nil(t, m.Prev())
		require.ErrorIs(t, m.Err(), broken)
	}
	b.FailAfter = 0
	require.Equal(t, "e", string(m.Last().Key.User))
	require.NoError(t, m.Err())
	b.FailAfter = 1
	require.Equal(t, "d", string(m.Prev().Key.User), "only a had to move")
	require.Nil(t, m.Prev())
	require.ErrorIs(t, m.Close(), broken)
	require.True(t, a.Closed && b.Closed)
}

func TestConcatOpensATableOnlyWhenItIsNeededAndOneAtATime(t *testing.T) {
	tables := [][]kv.Entry{{entry("a", 1), entry("b", 1)}, {entry("c", 1), entry("d", 1)}, {entry("e", 1)}}
	var log []string
	live := map[int]*itertest.Slice{}
	c := NewConcat(kv.Bytewise, len(tables), func(i int) (kv.Key, kv.Key) {
		return tables[i][0].Key, tables[i][len(tables[i])-1].Key
	}, func(i int) (kv.Iterator, error) {
		for j, s := range live {
			require.True(t, s.Closed, "table %d is still open", j)
		}
		log = append(log, fmt.Sprint(i))
		live[i] = itertest.New(kv.Bytewise, tables[i])
		return live[i], nil
	})
	require.Empty(t, log)
	require.Equal(t, "d", string(c.SeekGE(kv.SeekKey([]byte("d"), 9), nil).Key.User))
	require.Equal(t, "e", string(c.Next().Key.User))
	require.Nil(t, c.Next())
	require.Equal(t, "e", string(c.Prev().Key.User))
	require.Equal(t, "d", string(c.Prev().Key.User))
	require.Nil(t, c.SeekGE(kv.SeekKey([]byte("b1"), 9), []byte("b")), "no later table begins with the prefix")
	require.Nil(t, c.SeekLT(kv.SeekKey([]byte("a"), 9)))
	require.Equal(t, []string{"1", "2", "1"}, log)
	require.NoError(t, c.Close())
	require.True(t, live[1].Closed)
}

func TestConcatReportsATableThatCannotBeOpened(t *testing.T) {
	gone := errors.New("000007.sst is missing")
	fail := true
	c := NewConcat(kv.Bytewise, 2, func(i int) (kv.Key, kv.Key) {
		e := entry(string(rune('a'+i)), 1)
		return e.Key, e.Key
	}, func(i int) (kv.Iterator, error) {
		if i == 1 && fail {
			return nil, gone
		}
		return itertest.New(kv.Bytewise, []kv.Entry{entry(string(rune('a'+i)), 1)}), nil
	})
	require.NotNil(t, c.First())
	require.Nil(t, c.Next())
	require.ErrorIs(t, c.Err(), gone)
	require.Nil(t, c.Prev(), "nothing moves after an error")
	require.ErrorIs(t, c.Err(), gone)
	fail = false
	require.Equal(t, "b", string(c.Last().Key.User))
	require.NoError(t, c.Close())
}

func TestAStepAllocatesNothing(t *testing.T) {
	its, _ := benchChildren(5, 1)
	m := Merging(kv.Bytewise, its...)
	m.First()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if m.Next() == nil {
			m.First()
		}
	}))
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if m.Prev() == nil {
			m.Last()
		}
	}))
}

// benchChildren returns n children of 1000 keys each, dealt out in runs of the given length.
func benchChildren(n, run int) ([]kv.Iterator, int) {
	parts := make([][]kv.Entry, n)
	for i := range n * 1000 {
		p := i / run % n
		parts[p] = append(parts[p], entry(fmt.Sprintf("%016d", i), 1))
	}
	its := make([]kv.Iterator, n)
	for i, p := range parts {
		its[i] = itertest.New(kv.Bytewise, p)
	}
	return its, n * 1000
}

func BenchmarkMergingNext(b *testing.B) {
	for _, n := range []int{2, 3, 4, 8, 16} {
		for _, run := range []int{1, 20} {
			b.Run(fmt.Sprintf("children=%d/run=%d", n, run), func(b *testing.B) {
				its, _ := benchChildren(n, run)
				m := Merging(kv.Bytewise, its...)
				m.First()
				b.ReportAllocs()
				for b.Loop() {
					if m.Next() == nil {
						m.First()
					}
				}
			})
		}
	}
}

func BenchmarkConcatNext(b *testing.B) {
	its, _ := benchChildren(8, 1000)
	c := NewConcat(kv.Bytewise, 8, func(i int) (kv.Key, kv.Key) {
		e := its[i].(*itertest.Slice).Entries
		return e[0].Key, e[len(e)-1].Key
	}, func(i int) (kv.Iterator, error) { return its[i], nil })
	c.First()
	b.ReportAllocs()
	for b.Loop() {
		if c.Next() == nil {
			c.First()
		}
	}
}

func Example() {
	newer := itertest.New(kv.Bytewise, []kv.Entry{entry("apple", 9), entry("cherry", 7)})
	older := itertest.New(kv.Bytewise, []kv.Entry{entry("apple", 2), entry("banana", 3)})
	m := Merging(kv.Bytewise, newer, older)
	defer m.Close()
	for e := m.First(); e != nil; e = m.Next() {
		fmt.Println(e.Key, string(bytes.ToUpper(e.Value)))
	}
	// Output:
	// "apple"#9,SET APPLE@9
	// "apple"#2,SET APPLE@2
	// "banana"#3,SET BANANA@3
	// "cherry"#7,SET CHERRY@7
}
