package memtable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
)

func withBloom(t *testing.T, b *Bloom) *Table {
	a, err := NewArena(8 << 20)
	require.NoError(t, err)
	table := New(kv.Bytewise, a, 1)
	table.UseBloom(b)
	t.Cleanup(table.Release)
	return table
}

func TestABloomWithNothingToHoldIsNone(t *testing.T) {
	require.Nil(t, NewBloom(1000, false, nil))
	require.Nil(t, NewBloom(0, true, kv.Noop))
	require.Zero(t, NewBloom(0, true, nil).Bytes())
	require.Equal(t, int64(1024), NewBloom(1000, true, nil).Bytes())
	var b *Bloom
	b.add(nil)
	require.True(t, b.mayHaveKey(nil) && b.mayHavePrefix(nil))
}

// The same table without a filter is the twin.
func TestATableWithABloomAnswersAsWithout(t *testing.T) {
	for _, whole := range []bool{false, true} {
		for _, prefix := range []kv.SliceTransform{nil, kv.FixedPrefix(4), kv.CappedPrefix(6), kv.Noop} {
			b := NewBloom(4000, whole, prefix)
			table, twin := withBloom(t, b), withBloom(t, nil)
			var h, g Hint
			for i := range 1000 {
				key := fmt.Appendf(nil, "%05d", i*i%3001)[:1+i%5]
				tr := kv.MakeTrailer(kv.Seq(i+1), kv.KindValue)
				require.NoError(t, table.Insert(&h, key, tr, key))
				require.NoError(t, twin.Insert(&g, key, tr, key))
			}
			it, want := table.NewIter(), twin.NewIter()
			ended := 0
			for i := range 4000 {
				key := fmt.Appendf(nil, "%05d", i)[:1+i%5]
				x, y := lookup.Get{User: key, Seq: kv.MaxSeq}, lookup.Get{User: key, Seq: kv.MaxSeq}
				require.Equal(t, twin.Get(&y), table.Get(&x))
				require.Equal(t, y.State, x.State, "%s", key)
				require.Equal(t, y.Value, x.Value)
				if prefix == nil || !prefix.InDomain(key) {
					continue
				}
				p := prefix.Transform(key)
				e, exp := it.SeekGE(kv.SeekKey(key, kv.MaxSeq), p), want.SeekGE(kv.SeekKey(key, kv.MaxSeq), nil)
				if exp != nil && bytes.HasPrefix(exp.Key.User, p) && prefix.InDomain(exp.Key.User) && bytes.Equal(prefix.Transform(exp.Key.User), p) {
					require.NotNil(t, e, "%s", key)
					require.Equal(t, exp.Key.String(), e.Key.String())
				} else if e == nil && exp != nil {
					ended++
				}
			}
			require.Equal(t, prefix != nil, ended > 100, "seeks of prefixes that are not there end")
		}
	}
}

func TestMostKeysThatAreNotThereEndAtTheBloom(t *testing.T) {
	const n = 10_000
	for _, prefix := range []kv.SliceTransform{nil, kv.FixedPrefix(8)} {
		b := NewBloom(n*10/8, prefix == nil, prefix)
		key := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }
		for i := range n {
			b.add(key(i))
		}
		yes := 0
		for i := range n {
			require.True(t, b.mayHaveKey(key(i)))
			if b.mayHaveKey(key(n + i)) {
				yes++
			}
		}
		require.Less(t, yes, n*13/1000, "10 bits a key")
		require.NotZero(t, yes, "it is a Bloom filter")
	}
}

func TestManyGoroutinesFillOneBloomAndNobodyIsDenied(t *testing.T) {
	const writers, each = 4, 2000
	b := NewBloom(writers*each, true, kv.FixedPrefix(2))
	table := withBloom(t, b)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			var h Hint
			for i := range each {
				key := fmt.Appendf(nil, "%d%d/%d", w, i%10, i)
				if err := table.Insert(&h, key, kv.MakeTrailer(kv.Seq(w*each+i+1), kv.KindValue), key); err != nil {
					panic(err)
				}
				g := lookup.Get{User: key, Seq: kv.MaxSeq} // at once, beside the other writers
				if !table.Get(&g) || g.State != lookup.Found {
					panic(fmt.Sprintf("%s was denied", key))
				}
			}
		})
	}
	wg.Wait()
	for w := range writers {
		for i := range each {
			g := lookup.Get{User: fmt.Appendf(nil, "%d%d/%d", w, i%10, i), Seq: kv.MaxSeq}
			require.True(t, table.Get(&g))
		}
	}
	g := lookup.Get{User: []byte("none"), Seq: kv.MaxSeq}
	require.Zero(t, testing.AllocsPerRun(100, func() { table.Get(&g) }))
}

// A range delete is in no filter, and counts all the same.
func TestABloomHidesNoRangeDelete(t *testing.T) {
	table := withBloom(t, NewBloom(1000, true, nil))
	table.AddTombstone([]byte("a"), []byte("z"), 7)
	g := lookup.Get{User: []byte("k"), Seq: kv.MaxSeq}
	require.True(t, table.Get(&g))
	require.True(t, g.Covered())
}

func BenchmarkGetOfAnAbsentKey(b *testing.B) {
	for _, bloom := range []bool{false, true} {
		b.Run(fmt.Sprintf("Bloom=%v", bloom), func(b *testing.B) {
			const n = 200_000
			a, err := NewArena(32 << 20)
			if err != nil {
				b.Fatal(err)
			}
			table := New(kv.Bytewise, a, 1)
			defer table.Release()
			if bloom {
				table.UseBloom(NewBloom(n*10/8, true, nil))
			}
			var h Hint
			var key [16]byte
			at := func(i uint64) []byte {
				binary.BigEndian.PutUint64(key[:], i*0x9E3779B97F4A7C15)
				return key[:]
			}
			for i := range uint64(n) {
				if err := table.Insert(&h, at(2*i), kv.MakeTrailer(1, kv.KindValue), nil); err != nil {
					b.Fatal(err)
				}
			}
			i := uint64(0)
			for b.Loop() {
				i++
				g := lookup.Get{User: at(2*(i%n) + 1), Seq: kv.MaxSeq}
				table.Get(&g)
			}
		})
	}
}

func BenchmarkInsertWithBloom(b *testing.B) {
	bloom := NewBloom(6<<20, true, nil)
	var key [16]byte
	i := uint64(0)
	for b.Loop() {
		i++
		binary.BigEndian.PutUint64(key[:], i*0x9E3779B97F4A7C15)
		bloom.add(key[:])
	}
}
