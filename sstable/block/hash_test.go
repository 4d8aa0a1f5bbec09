package block

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/kv"
)

func (t twin) hashed(interval int, util float64) []byte {
	var b Builder
	b.InitHashed(interval, util)
	for _, e := range t {
		b.Add(e.Key, e.Value)
	}
	return bytes.Clone(b.Finish())
}

func hasHash(b []byte) bool { return binary.LittleEndian.Uint32(b[len(b)-4:])&hashBit != 0 }

func TestHashedBlockWalksLikeASortedSlice(t *testing.T) {
	for _, cmp := range []*kv.Comparer{kv.Bytewise, kv.ReverseBytewise} {
		rng := rand.New(rand.NewPCG(21, 2))
		var i Iter
		for round := range 100 {
			tw := some(rng, cmp, rng.IntN(80))
			b := tw.hashed([]int{1, 2, 3, 16, 0}[round%5], []float64{0.75, 0.1, 1, 5}[round%4])
			require.True(t, hasHash(b))
			require.NoError(t, i.Init(cmp, b, 0))
			tw.check(t, rng, cmp, &i, 300)
		}
	}
}

func TestHashedLookupsSkipTheSearch(t *testing.T) {
	var b Builder
	b.InitHashed(4, 0.05) // so many buckets that none of these clash
	var keys [][]byte
	for n := range 40 {
		keys = append(keys, fmt.Appendf(nil, "key%02d", n))
		b.Add(kv.MakeKey(keys[n], 1, kv.KindValue), keys[n])
	}
	var i Iter
	require.NoError(t, i.Init(kv.Bytewise, b.Finish(), 0))
	for n, key := range keys {
		p, limit, ok := i.lookup(key)
		require.True(t, ok)
		require.Equal(t, i.restart(n/4), p, "the interval that the key is in")
		require.Greater(t, limit, p)
	}
	_, _, found, more := i.Find(kv.SeekKey([]byte("key005"), kv.MaxSeq))
	require.False(t, found || more, "a larger key is here")
	_, _, found, more = i.Find(kv.SeekKey([]byte("z"), kv.MaxSeq))
	require.True(t, !found && more, "the next block may have it")
}

func TestBlocksThatAHashIndexCannotServeHaveNone(t *testing.T) {
	var b Builder
	b.InitHashed(1, 0.75)
	fill := func(n, value int) []byte {
		b.Reset()
		for k := range n {
			b.Add(kv.MakeKey(fmt.Appendf(nil, "%06d", k), 1, kv.KindValue), make([]byte, value))
		}
		size := b.Size()
		block := b.Finish()
		if hasHash(block) {
			require.Len(t, block, size)
		}
		return block
	}
	require.True(t, hasHash(fill(254, 1)))
	require.False(t, hasHash(fill(255, 1)), "more intervals than a bucket can name")
	require.True(t, hasHash(fill(50, 1000)))
	require.False(t, hasHash(fill(70, 1000)), "more than 64 KiB")
	require.True(t, hasHash(fill(1, 1)))
}

func TestDamagedBucketsNeverPanic(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 2))
	tw := some(rng, kv.Bytewise, 40)
	b := tw.hashed(3, 0.75)
	var i Iter
	for range 500 {
		c := bytes.Clone(b)
		for range 1 + rng.IntN(8) {
			c[len(c)-1-rng.IntN(80)] = byte(rng.IntN(256))
		}
		if i.Init(kv.Bytewise, c, 0) == nil {
			for _, e := range tw {
				i.Find(e.Key)
			}
		}
		exercise(c, tw[7].Key)
	}
}

func BenchmarkFindHashed(b *testing.B) {
	var w Builder
	w.InitHashed(16, 0.75)
	var keys [][]byte
	for n := range 32 {
		k := fmt.Appendf(nil, "%016d", n*7+1234567)
		keys = append(keys, k)
		w.Add(kv.MakeKey(k, kv.Seq(n*31%17), kv.KindValue), make([]byte, 100))
	}
	d := w.Finish()
	n := 0
	for b.Loop() {
		var i Iter
		if i.Init(kv.Bytewise, d, 0) != nil {
			b.Fatal()
		}
		if _, _, found, _ := i.Find(kv.SeekKey(keys[n&31], kv.MaxSeq)); !found {
			b.Fatal(n)
		}
		n++
	}
}
