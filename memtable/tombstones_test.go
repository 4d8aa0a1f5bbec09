package memtable

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/invariants"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
	"github.com/ashlardb/ashlar/internal/tombstone"
)

func get(t *Table, user string, seq kv.Seq) (lookup.State, bool) {
	g := lookup.Get{User: []byte(user), Seq: seq}
	done := t.Get(&g)
	return g.State, done
}

func TestARangeDeleteHidesOlderVersionsFromItsReaders(t *testing.T) {
	table := newTable(t, kv.Bytewise, 1<<16)
	var h Hint
	put := func(user string, seq kv.Seq) {
		require.NoError(t, table.Insert(&h, []byte(user), kv.MakeTrailer(seq, kv.KindValue), nil))
	}
	put("b", 1)
	put("d", 2)
	table.AddTombstone([]byte("a"), []byte("d"), 5)
	put("b", 7)
	for _, c := range []struct {
		user  string
		seq   kv.Seq
		state lookup.State
		done  bool
	}{
		{"b", 4, lookup.Found, true}, {"b", 5, lookup.Deleted, true}, {"b", 6, lookup.Deleted, true}, {"b", 7, lookup.Found, true},
		{"b", 0, lookup.Pending, false}, {"a", 4, lookup.Pending, false}, {"a", 5, lookup.Deleted, true},
		{"d", 9, lookup.Found, true}, {"c", 9, lookup.Deleted, true}, {"e", 9, lookup.Pending, false},
	} {
		state, done := get(table, c.user, c.seq)
		require.Equal(t, c.state, state, "%s at %d", c.user, c.seq)
		require.Equal(t, c.done, done, "%s at %d", c.user, c.seq)
	}
}

func TestATableOfRangeDeletesAloneIsNotEmpty(t *testing.T) {
	table := newTable(t, kv.Bytewise, 1<<16)
	table.AddTombstone([]byte("b"), []byte("b"), 1)
	table.AddTombstone([]byte("b"), []byte("a"), 2)
	require.True(t, table.Empty())
	require.False(t, table.HasTombstones())
	require.Empty(t, table.AppendTombstones(nil))
	key := []byte("a")
	table.AddTombstone(key, []byte("b"), 3)
	key[0] = 'x' // what is given in is never kept
	require.False(t, table.Empty())
	require.True(t, table.HasTombstones())
	require.EqualValues(t, MaxTombstoneSize(1, 1), table.Bytes())
	require.EqualValues(t, 1, table.Entries())
	require.EqualValues(t, 1, table.Deletes())
	lists := table.AppendTombstones(nil)
	require.Len(t, lists, 1)
	require.Equal(t, []tombstone.Tombstone{{Start: []byte("a"), End: []byte("b"), Seq: 3}}, lists[0].All())
	require.Nil(t, table.NewIter().First())
	table.Seal()
	if invariants.Enabled {
		require.Panics(t, func() { table.AddTombstone([]byte("a"), []byte("b"), 4) })
	}
}

// Each goroutine deletes ranges, and knows for sure of those that it added itself.
func TestRangeDeletesFromManyGoroutines(t *testing.T) {
	const goroutines, each = 8, 300
	table := newTable(t, kv.Bytewise, 1<<20)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all []tombstone.Tombstone
	for n := range goroutines {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(n)))
			var h Hint
			for i := range each {
				seq := kv.Seq(1 + i*goroutines + n)
				a, b := fmt.Sprintf("%03d", rng.IntN(200)), fmt.Sprintf("%03d", rng.IntN(200))
				table.AddTombstone([]byte(a), []byte(b), seq)
				if err := table.Insert(&h, fmt.Appendf(nil, "%03d", rng.IntN(200)), kv.MakeTrailer(seq, kv.KindValue), nil); err != nil {
					t.Error(err)
				}
				if a < b {
					mu.Lock()
					all = append(all, tombstone.Tombstone{Start: []byte(a), End: []byte(b), Seq: seq})
					mu.Unlock()
					if state, done := get(table, a, seq); !done || state == lookup.Pending {
						t.Errorf("%q at %d: state %d after its range delete", a, seq, state)
					}
				}
			}
		})
	}
	wg.Wait()
	lists := table.AppendTombstones(nil)
	require.Less(t, len(lists), 12)
	n := 0
	for i, l := range lists {
		n += len(l.All())
		if i > 0 && i < len(lists)-1 {
			require.Less(t, len(l.All()), len(lists[i-1].All()))
		}
	}
	require.Equal(t, len(all), n)
	want := tombstone.New(kv.Bytewise, all)
	s := table.tombstones.Load()
	for i := range 200 {
		user := fmt.Appendf(nil, "%03d", i)
		for seq := kv.Seq(0); seq < goroutines*each+9; seq += 7 {
			if got, want := s.cover(kv.Bytewise, user, seq), want.Cover(user, seq); got != want {
				t.Fatalf("%s at %d is covered by %d, not by %d", user, seq, want, got)
			}
		}
	}
}
