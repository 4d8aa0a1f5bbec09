package kv

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTransformsGoByRocksDBsNames(t *testing.T) {
	for name, x := range map[string]SliceTransform{
		"rocksdb.FixedPrefix.8": FixedPrefix(8), "rocksdb.CappedPrefix.3": CappedPrefix(3), "rocksdb.Noop": Noop, "rocksdb.FixedPrefix.0": FixedPrefix(-1),
	} {
		require.Equal(t, name, x.Name())
		require.Equal(t, x, ParseTransform(name))
	}
	require.Equal(t, FixedPrefix(4), ParseTransform("fixed:4"))
	require.Equal(t, CappedPrefix(4), ParseTransform("capped:4"))
	for _, name := range []string{"", "nullptr", "rocksdb.FixedPrefix", "rocksdb.FixedPrefix.", "rocksdb.FixedPrefix.x", "rocksdb.FixedPrefix.-1", "mine"} {
		require.Nil(t, ParseTransform(name), name)
	}
}

func TestPrefixes(t *testing.T) {
	for _, c := range []struct {
		x    SliceTransform
		key  string
		want string
		none bool
	}{
		{FixedPrefix(3), "abcd", "abc", false}, {FixedPrefix(3), "abc", "abc", false}, {FixedPrefix(3), "ab", "", true},
		{CappedPrefix(3), "abcd", "abc", false}, {CappedPrefix(3), "ab", "ab", false}, {CappedPrefix(0), "ab", "", false}, {Noop, "ab", "ab", false},
	} {
		require.Equal(t, !c.none, c.x.InDomain([]byte(c.key)))
		if !c.none {
			require.Equal(t, c.want, string(c.x.Transform([]byte(c.key))))
		}
	}
}

// third is a transform of a user's, of which nothing is known.
type third struct{ SliceTransform }

func TestWithinNeverLetsAnotherPrefixThrough(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	letters := []byte{0, 'a', 'b', 0xff}
	random := func() []byte {
		b := make([]byte, rng.IntN(5))
		for i := range b {
			b[i] = letters[rng.IntN(len(letters))]
		}
		return b
	}
	said := map[string]int{}
	for range 40_000 {
		for _, x := range []SliceTransform{FixedPrefix(2), CappedPrefix(2), Noop, third{FixedPrefix(2)}} {
			for _, cmp := range []*Comparer{Bytewise, ReverseBytewise} {
				start, end, key := random(), random(), random()
				if rng.IntN(3) == 0 && len(start) >= 2 {
					end = bytes.Clone(start[:2])
					end[1]++
				}
				if !x.InDomain(start) {
					continue
				}
				p := x.Transform(start)
				if !Within(x, cmp, p, end) {
					continue
				}
				said[x.Name()]++
				if cmp.Compare(start, key) <= 0 && cmp.Compare(key, end) < 0 {
					require.True(t, x.InDomain(key) && bytes.Equal(x.Transform(key), p), "%s: %q is between %q and %q", x.Name(), key, start, end)
				}
			}
		}
	}
	require.Greater(t, said["rocksdb.FixedPrefix.2"], 500)
	require.Greater(t, said["rocksdb.CappedPrefix.2"], 500)
	require.True(t, Within(FixedPrefix(2), Bytewise, []byte("ab"), []byte("ac")))
	require.True(t, Within(FixedPrefix(2), Bytewise, []byte("a\xff"), []byte("b")))
	require.False(t, Within(FixedPrefix(2), Bytewise, []byte("ab"), []byte("ad")))
	require.False(t, Within(third{FixedPrefix(2)}, Bytewise, []byte("ab"), []byte("ac")), "nobody knows what else it does")
	x, p, end := FixedPrefix(2), []byte("ab"), []byte("ac")
	require.Zero(t, testing.AllocsPerRun(10, func() { Within(x, Bytewise, p, end) }))
}
