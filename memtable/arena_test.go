package memtable

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/invariants"
	"github.com/ashlardb/ashlar/internal/kv"
)

func TestArenaCapacityIsBounded(t *testing.T) {
	for _, capacity := range []int{-1, MaxArenaCapacity + 1} {
		_, err := NewArena(capacity)
		require.Error(t, err)
	}
	for _, capacity := range []int{0, 1, 7, 8, 1000} {
		a, err := NewArena(capacity)
		require.NoError(t, err)
		require.GreaterOrEqual(t, a.Capacity(), capacity)
		a.Release()
	}
}

func TestReleaseIsOnce(t *testing.T) {
	a, err := NewArena(1000)
	require.NoError(t, err)
	a.Release()
	if invariants.Enabled {
		require.Panics(t, a.Release)
	} else {
		a.Release()
	}
}

func TestReleasedArenaIsPoisonedWithInvariants(t *testing.T) {
	a, err := NewArena(1000)
	require.NoError(t, err)
	table := New(kv.Bytewise, a, 1)
	var h Hint
	require.NoError(t, table.Insert(&h, []byte("key"), 1, []byte("value")))
	e := table.NewIter().First()
	require.Equal(t, "value", string(e.Value))
	table.Release()
	if invariants.Enabled {
		require.Equal(t, []byte{poison, poison, poison}, e.Key.User)
	}
}

// An arena that comes from another table holds that one's bytes, and the new table must not be led astray.
func TestRecycledArenaStartsEmpty(t *testing.T) {
	for round := range 4 {
		a, err := NewArena(100_000)
		require.NoError(t, err)
		for i := range a.mem {
			a.mem[i] = 0x55
		}
		table, w := New(kv.Bytewise, a, 1), &twin{cmp: kv.Bytewise}
		require.True(t, table.Empty())
		require.Nil(t, table.NewIter().Last())
		var h Hint
		for i := range 200 {
			k := kv.MakeKey([]byte{byte(i * (round + 3))}, kv.Seq(i), kv.KindValue)
			require.True(t, w.insert(k, k.User))
			require.NoError(t, table.Insert(&h, k.User, k.Trailer, k.User))
		}
		sameContents(t, w, table)
		checkLaws(t, &table.list)
		table.Release()
	}
}
