package kv

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeyHasRocksDBsBytes(t *testing.T) {
	k := MakeKey([]byte("k"), 1, KindValue)
	require.Equal(t, "6b0101000000000000", hex.EncodeToString(k.Append(nil)))
	got, ok := ParseKey(k.Append(nil))
	require.True(t, ok)
	require.Equal(t, k, got)
	_, ok = ParseKey([]byte("1234567"))
	require.False(t, ok)
}

func TestNewestVersionSortsFirst(t *testing.T) {
	keys := []Key{
		MakeKey([]byte("a"), 1, KindValue), MakeKey([]byte("b"), 9, KindDelete), MakeKey([]byte("b"), 9, KindValue),
		MakeKey([]byte("b"), 3, KindValue), MakeKey([]byte("ba"), 1, KindValue),
	}
	slices.SortFunc(keys, Bytewise.CompareKeys)
	var got []string
	for _, k := range keys {
		got = append(got, k.String())
	}
	require.Equal(t, []string{`"a"#1,SET`, `"b"#9,SET`, `"b"#9,DEL`, `"b"#3,SET`, `"ba"#1,SET`}, got)

	seek := SeekKey([]byte("b"), 8)
	require.Negative(t, Bytewise.CompareKeys(MakeKey([]byte("b"), 9, KindDelete), seek))
	require.Positive(t, Bytewise.CompareKeys(MakeKey([]byte("b"), 8, KindTimedPut), seek))
}

// A separator may be anything in [a, b); a successor anything from a on. Neither may be longer than a.
func TestSeparatorsStayBetween(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	word := func() []byte {
		b := make([]byte, rng.IntN(5))
		for i := range b {
			b[i] = []byte{0, 1, 2, 0xfe, 0xff}[rng.IntN(5)]
		}
		return b
	}
	for _, c := range []*Comparer{Bytewise, ReverseBytewise} {
		for range 20000 {
			a, b := word(), word()
			s := c.Successor([]byte("x"), a)[1:]
			require.LessOrEqual(t, c.Compare(a, s), 0)
			if c.Compare(a, b) >= 0 {
				continue
			}
			s = c.Separator([]byte("x"), a, b)[1:]
			require.LessOrEqual(t, c.Compare(a, s), 0, "%x %x %x", a, b, s)
			require.Negative(t, c.Compare(s, b), "%x %x %x", a, b, s)
			require.LessOrEqual(t, len(s), len(a))
		}
	}
}

func FuzzKeyOrder(f *testing.F) {
	f.Add([]byte("a"), uint64(1), []byte("b"), uint64(2))
	f.Fuzz(func(t *testing.T, a []byte, ta uint64, b []byte, tb uint64) {
		x, y := Key{a, Trailer(ta)}, Key{b, Trailer(tb)}
		c := Bytewise.CompareKeys(x, y)
		if c != -Bytewise.CompareKeys(y, x) {
			t.Fatalf("order of %v and %v is not antisymmetric", x, y)
		}
		if (c == 0) != (bytes.Equal(a, b) && ta == tb) {
			t.Fatalf("%v and %v compare as %d", x, y, c)
		}
		p, ok := ParseKey(x.Append(nil))
		if !ok || !bytes.Equal(p.User, a) || p.Trailer != x.Trailer {
			t.Fatalf("%v came back as %v", x, p)
		}
	})
}

func TestAnOrderThatConfusesKeysIsFoundOut(t *testing.T) {
	order := func(compare func(a, b []byte) int) *Comparer { return &Comparer{Compare: compare} }
	for _, c := range []*Comparer{
		Bytewise, ReverseBytewise,
		order(func(a, b []byte) int { return bytes.Compare(a[:8], b[:8]) }), // panics: it is for long keys
		order(func(a, b []byte) int { return bytes.Compare(a[1:], b[1:]) }), // looks at what is behind
	} {
		a, _ := c.Confuses()
		require.Nil(t, a)
	}
	a, b := order(func(a, b []byte) int { return bytes.Compare(bytes.ToLower(a), bytes.ToLower(b)) }).Confuses()
	require.NotEqual(t, a, b)
	require.True(t, bytes.EqualFold(a, b))
}

func TestACopyOfTheDefaultOrderMayBeGivenAnother(t *testing.T) {
	back := *Bytewise
	back.Compare = ReverseBytewise.Compare
	require.False(t, back.IsBytewise())
	require.Positive(t, back.CompareUser([]byte("a"), []byte("b")))
	require.True(t, Bytewise.IsBytewise())
}
