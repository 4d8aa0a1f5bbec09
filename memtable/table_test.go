package memtable

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/invariants"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
)

func TestHugeAndEmptyKeysAndValues(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16+1)
	entries := []kv.Entry{
		{Key: kv.MakeKey(nil, 1, kv.KindValue)},
		{Key: kv.MakeKey(nil, 2, kv.KindDelete)},
		{Key: kv.MakeKey([]byte("v"), 3, kv.KindValue), Value: big},
		{Key: kv.MakeKey(big, 4, kv.KindValue)},
		{Key: kv.MakeKey(big[1:], 5, kv.KindValue), Value: big[:1<<20]},
		{Key: kv.MakeKey([]byte{0}, kv.MaxSeq, kv.KindTimedPut), Value: []byte{}},
	}
	size := 0
	for _, e := range entries {
		size += MaxEntrySize(len(e.Key.User), len(e.Value))
	}
	table, w := newTable(t, kv.Bytewise, size), &twin{cmp: kv.Bytewise}
	var h Hint
	for _, e := range entries {
		require.True(t, w.insert(e.Key, e.Value))
		require.NoError(t, table.Insert(&h, e.Key.User, e.Key.Trailer, e.Value))
	}
	sameContents(t, w, table)
	g := lookup.Get{User: big[1:], Seq: 5}
	require.True(t, table.Get(&g))
	require.Equal(t, lookup.Found, g.State)
	require.True(t, bytes.Equal(big[:1<<20], g.Value))
}

func TestTableCounts(t *testing.T) {
	table := newTable(t, kv.Bytewise, 1<<16)
	require.True(t, table.Empty())
	require.Zero(t, table.Bytes())
	require.Equal(t, uint64(7), table.LogNumber())
	var h Hint
	for seq, kind := range []kv.Kind{kv.KindValue, kv.KindDelete, kv.KindSingleDel, kv.KindMerge} {
		before := table.Bytes()
		require.NoError(t, table.Insert(&h, []byte("key"), kv.MakeTrailer(kv.Seq(seq), kind), []byte("value")))
		took := table.Bytes() - before
		require.GreaterOrEqual(t, took, int64(len("keyvalue")+headerSize+linkSize))
		require.LessOrEqual(t, took, int64(MaxEntrySize(len("key"), len("value"))))
		require.LessOrEqual(t, MaxEntrySize(len("key"), len("value")), len("keyvalue")+MaxEntryOverhead)
	}
	require.False(t, table.Empty())
	require.Equal(t, uint64(4), table.Entries())
	require.Equal(t, uint64(2), table.Deletes())
	require.Equal(t, 1<<16, table.Arena().Capacity())
}

// Who counts by MaxEntrySize never meets a full arena, whatever heights are drawn.
func TestCountedEntriesAlwaysFit(t *testing.T) {
	for size := range 40 {
		const n = 50
		table := newTable(t, kv.Bytewise, n*MaxEntrySize(size, size/2))
		hint := Hint{table: table.id, random: 1 << 63} // draws the greatest height again and again
		for i := range n {
			hint.random = 1 << 63
			require.NoError(t, table.Insert(&hint, make([]byte, size), kv.MakeTrailer(kv.Seq(i), kv.KindValue),
				make([]byte, size/2)))
		}
		checkLaws(t, &table.list)
	}
}

func TestFullArenaRefusesAndStaysWhole(t *testing.T) {
	table, w := newTable(t, kv.Bytewise, 1000), &twin{cmp: kv.Bytewise}
	var h Hint
	var full bool
	insert := func(k kv.Key, value []byte) (err error) {
		if invariants.Enabled {
			defer func() {
				if recover() != nil {
					err = ErrArenaFull
				}
			}()
		}
		return table.Insert(&h, k.User, k.Trailer, value)
	}
	for i := range 100 {
		k := kv.MakeKey([]byte{byte(i * 37)}, 1, kv.KindValue)
		value := bytes.Repeat([]byte{byte(i)}, 100-i)
		err := insert(k, value)
		if err == nil {
			require.False(t, full, "the arena does not recover")
			require.True(t, w.insert(k, value))
			continue
		}
		require.ErrorIs(t, err, ErrArenaFull)
		full = true
	}
	require.True(t, full)
	require.LessOrEqual(t, table.Bytes(), int64(1000))
	sameContents(t, w, table)
	checkLaws(t, &table.list)
}

func TestInsertAfterSealPanicsWithInvariants(t *testing.T) {
	table := newTable(t, kv.Bytewise, 1000)
	var h Hint
	require.NoError(t, table.Insert(&h, []byte("a"), 1, nil))
	table.Seal()
	if invariants.Enabled {
		require.Panics(t, func() { _ = table.Insert(&h, []byte("b"), 1, nil) })
	}
	require.NotNil(t, table.NewIter().First())
}

func TestHintMayServeAnotherTable(t *testing.T) {
	var h Hint
	for range 5 {
		table, w := newTable(t, kv.Bytewise, 100_000), &twin{cmp: kv.Bytewise}
		for i := range 100 {
			k := kv.MakeKey([]byte{byte(i * 7)}, kv.Seq(i), kv.KindValue)
			require.True(t, w.insert(k, nil))
			require.NoError(t, table.Insert(&h, k.User, k.Trailer, nil))
		}
		sameContents(t, w, table)
	}
}

func TestIteratorComesBackFromTheEnds(t *testing.T) {
	table := newTable(t, kv.Bytewise, 1000)
	it := table.NewIter()
	require.Nil(t, it.First())
	require.Nil(t, it.Prev())
	require.Nil(t, it.Last())
	require.Nil(t, it.Next())
	var h Hint
	for _, k := range []string{"b", "a"} {
		require.NoError(t, table.Insert(&h, []byte(k), 1, nil))
	}
	user := func(e *kv.Entry) string {
		require.NotNil(t, e)
		return string(e.Key.User)
	}
	require.Equal(t, "b", user(it.Last()))
	require.Nil(t, it.Next())
	require.Nil(t, it.Next())
	require.Equal(t, "b", user(it.Prev()))
	require.Equal(t, "a", user(it.Prev()))
	require.Nil(t, it.Prev())
	require.Nil(t, it.Prev())
	require.Equal(t, "a", user(it.Next()))
	require.Equal(t, "b", user(it.Next()))
	require.Nil(t, it.SeekGE(kv.SeekKey([]byte("c"), kv.MaxSeq), nil))
	require.Equal(t, "b", user(it.Prev()))
	require.Nil(t, it.SeekLT(kv.SeekKey([]byte("a"), kv.MaxSeq)))
	require.Equal(t, "a", user(it.Next()))
	require.NoError(t, it.Err())
	require.NoError(t, it.Close())
}

func TestHotPathsAllocateNothing(t *testing.T) {
	const n = 1000
	for _, cmp := range []*kv.Comparer{kv.Bytewise, kv.ReverseBytewise} {
		table := newTable(t, cmp, 3*n*MaxEntrySize(16, 100))
		var h Hint
		var key [16]byte
		var value [100]byte
		i := uint64(0)
		require.Zero(t, testing.AllocsPerRun(n, func() {
			i++
			dbBenchKey(key[:], i*7919%n)
			if err := table.Insert(&h, key[:], kv.MakeTrailer(kv.Seq(i), kv.KindValue), value[:]); err != nil {
				panic(err)
			}
		}))
		require.Zero(t, testing.AllocsPerRun(n, func() {
			g := lookup.Get{User: key[:], Seq: kv.MaxSeq}
			if !table.Get(&g) {
				panic("lost")
			}
		}))
		it := table.NewIter()
		require.Zero(t, testing.AllocsPerRun(n, func() {
			it.SeekGE(kv.SeekKey(key[:], kv.MaxSeq), nil)
			it.Next()
			it.Prev()
			it.SeekLT(kv.SeekKey(key[:], kv.MaxSeq))
		}))
	}
}
