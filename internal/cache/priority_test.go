package cache

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func putAs(c *Cache, k Key, n int, class Class, high bool) {
	v := c.Alloc(n)
	fill(v, k)
	v.Class, v.High = class, high
	c.Set(k, v)
	v.Release()
}

func has(c *Cache, k Key) bool {
	v := c.Get(k)
	if v == nil {
		return false
	}
	v.Release()
	return true
}

func TestHighPriorityOutlivesAScan(t *testing.T) {
	for ratio, stays := range map[float64]int{0: 100, -1: 0} {
		c := NewWith(Options{Capacity: 2 << 20, HighPriorityPoolRatio: ratio})
		id := c.NewID()
		for i := range uint64(100) {
			putAs(c, Key{id, i}, 4096, Index, true)
		}
		for i := range uint64(5000) { // each once, and the blocks above never again
			put(c, Key{id, 1000 + i}, 4096)
		}
		left := 0
		for i := range uint64(100) {
			if has(c, Key{id, i}) {
				left++
			}
		}
		require.Equal(t, stays, left, "ratio %v", ratio)
		requireConsistent(t, c)
	}
}

func TestHighPriorityFillsNoMoreThanItsPart(t *testing.T) {
	c := NewWith(Options{Capacity: 2 << 20, HighPriorityPoolRatio: 0.25})
	id := c.NewID()
	for i := range uint64(400) {
		putAs(c, Key{id, i}, 4096, Filter, true)
	}
	require.LessOrEqual(t, c.shards[0].high, int64(2<<20)/4)
	require.Greater(t, c.shards[0].high, int64(2<<20)/5)
	for i := range uint64(5000) {
		put(c, Key{id, 1000 + i}, 4096)
	}
	s := c.Stats()
	require.Equal(t, s.Entries[Filter].Bytes, c.shards[0].high, "the rest has gone as data blocks do")
	require.Positive(t, s.Entries[Data].Count)
	requireConsistent(t, c)
}

func TestOneOfHighPriorityGoesWhenNoOtherCan(t *testing.T) {
	c := NewWith(Options{Capacity: 1 << 20, HighPriorityPoolRatio: 1})
	id := c.NewID()
	for i := range uint64(1000) {
		putAs(c, Key{id, i}, 4096, Index, true)
	}
	require.True(t, has(c, Key{id, 999}))
	require.Greater(t, c.Usage(), c.Capacity()*9/10)
	requireConsistent(t, c)
}

func TestSetTellsWhetherTheValueIsKept(t *testing.T) {
	c := NewWith(Options{Capacity: 1 << 20, StrictCapacityLimit: true})
	require.True(t, c.Strict())
	id := c.NewID()
	var pinned []*Value
	for i := range uint64(1000) {
		v := c.Alloc(4096)
		if c.Set(Key{id, i}, v) == NoRoom {
			v.Release()
			break
		}
		pinned = append(pinned, v)
	}
	require.Greater(t, len(pinned), 220)
	require.Less(t, len(pinned), 256)
	require.LessOrEqual(t, c.Usage(), c.Capacity())
	pinned[0].Release()
	v := c.Alloc(4096)
	require.Equal(t, Kept, c.Set(Key{id, 5000}, v), "one has become free")
	require.Equal(t, WasThere, c.Set(Key{id, 5000}, v))
	v.Release()
	for _, v := range pinned[1:] {
		v.Release()
	}
}

// Ten come for a block while the first reads it; he reads it alone.
func TestManyWhoMissOneBlockReadItOnce(t *testing.T) {
	for _, keep := range []bool{true, false} {
		c := New(1 << 20)
		k := Key{c.NewID(), 7}
		v, mine, err := c.Join(k)
		require.Nil(t, v)
		require.NoError(t, err)
		require.NotNil(t, mine)
		other, second, err := c.Join(Key{k.ID, 8})
		require.Nil(t, other)
		require.NoError(t, err)
		require.NotNil(t, second, "another block is nobody's affair")
		var all sync.WaitGroup
		var entered sync.WaitGroup
		got := make([]*Value, 10)
		for i := range got {
			entered.Add(1)
			all.Go(func() {
				entered.Done()
				v, mine, err := c.Join(k)
				if mine != nil || err != nil {
					t.Error("a second read")
				}
				got[i] = v
			})
		}
		entered.Wait()
		v = c.Alloc(4096)
		fill(v, k)
		if keep {
			c.Set(k, v)
		} else {
			waitForWaiters(c, k, len(got)) // who comes after the flight reads anew
		}
		c.Land(mine, v, nil)
		c.Land(second, nil, errors.New("never read"))
		all.Wait()
		v.Release()
		for _, g := range got {
			require.True(t, filledWith(g, k))
			g.Release()
		}
		require.Equal(t, keep, has(c, k))
		requireConsistent(t, c)
		c.SetCapacity(0)
		require.Zero(t, c.pool.Used())
	}
}

// waitForWaiters returns when n wait for the flight to k.
func waitForWaiters(c *Cache, k Key, n int) {
	sh := c.shard(k.hash())
	for {
		sh.mu.Lock()
		for f := sh.flights; f != nil; f = f.next {
			if f.key == k && int(f.waiters) == n {
				sh.mu.Unlock()
				return
			}
		}
		sh.mu.Unlock()
		runtime.Gosched()
	}
}

func TestTryJoinBeginsWhatNobodyReadsAndNeverWaits(t *testing.T) {
	c := New(1 << 20)
	k := Key{c.NewID(), 0}
	mine := c.TryJoin(k)
	require.NotNil(t, mine)
	require.Nil(t, c.TryJoin(k), "it is under way")
	v := c.Alloc(10)
	c.Set(k, v)
	c.Land(mine, v, nil)
	v.Release()
	require.Nil(t, c.TryJoin(k), "it is in the cache")
	c.Erase(k)
	mine = c.TryJoin(k)
	require.NotNil(t, mine)
	c.Land(mine, nil, errors.New("nothing to read"))
}

func TestWhoWaitsGetsTheReadersError(t *testing.T) {
	c := New(1 << 20)
	k := Key{c.NewID(), 7}
	_, mine, _ := c.Join(k)
	broken := errors.New("broken")
	var all sync.WaitGroup
	all.Go(func() {
		v, again, err := c.Join(k)
		if v != nil || again != nil || err != broken {
			t.Error("not the error")
		}
	})
	waitForWaiters(c, k, 1)
	c.Land(mine, nil, broken)
	all.Wait()
	_, mine, err := c.Join(k)
	require.NoError(t, err)
	require.NotNil(t, mine, "the next one tries again")
	c.Land(mine, nil, broken)
}

// Memory that is not used any more goes back to the system: counted where it is mapped and given back.
func TestSmallerCapacityGivesMemoryBack(t *testing.T) {
	c := New(32 << 20)
	id := c.NewID()
	for i := range uint64(7000) {
		put(c, Key{id, i}, 4096)
	}
	require.Greater(t, c.Resident(), int64(27<<20))
	c.SetCapacity(4 << 20)
	require.LessOrEqual(t, c.Usage(), int64(4<<20))
	require.LessOrEqual(t, c.Resident(), int64(4<<20)+int64(4<<20)/16+spareMemory+1<<20)
	c.SetCapacity(0)
	require.LessOrEqual(t, c.Resident(), int64(2<<20))
}
