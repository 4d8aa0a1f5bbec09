package cache

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/invariants"
	"github.com/ashlardb/ashlar/internal/offheap"
)

// fill writes k into v here and there, at both ends too, so that a reader can tell whose bytes it has.
func fill(v *Value, k Key) {
	for _, b := range marks(v) {
		binary.LittleEndian.PutUint64(b, k.ID)
		binary.LittleEndian.PutUint64(b[8:], k.Offset)
	}
}

func filledWith(v *Value, k Key) bool {
	for _, b := range marks(v) {
		if binary.LittleEndian.Uint64(b) != k.ID || binary.LittleEndian.Uint64(b[8:]) != k.Offset {
			return false
		}
	}
	return true
}

// marks returns where fill writes: 16 bytes each, nothing in a value that is shorter.
func marks(v *Value) [][]byte {
	switch b := v.Bytes(); {
	case len(b) < 16:
		return nil
	case len(b) < 48:
		return [][]byte{b[:16]}
	default:
		return [][]byte{b, b[len(b)/2-8:], b[len(b)-16:]}
	}
}

func put(c *Cache, k Key, n int) {
	v := c.Alloc(n)
	fill(v, k)
	c.Set(k, v)
	v.Release()
}

// requireConsistent walks the cache and compares what it finds with what it says.
func requireConsistent(t *testing.T, c *Cache) {
	for i := range c.shards {
		s := &c.shards[i]
		usage, high, count := int64(0), int64(0), 0
		var classes [Classes]ClassStats
		for j, b := 0, *s.buckets.Load(); j < len(b); j++ {
			for v := b[j].Load(); v != nil; v = v.next.Load() {
				k := Key{v.id.Load(), v.off.Load()}
				require.EqualValues(t, j, k.hash()&uint64(len(b)-1))
				require.EqualValues(t, i, k.hash()>>c.shift)
				require.Positive(t, v.refs.Load())
				require.True(t, filledWith(v, k))
				usage += v.charge()
				count++
				classes[v.Class].Bytes += v.charge()
				classes[v.Class].Count++
				if v.High {
					high += v.charge()
				}
			}
		}
		require.Equal(t, s.usage, usage)
		require.Equal(t, s.count, count)
		require.Equal(t, s.classes, classes)
		require.Equal(t, s.high, high)
		require.Nil(t, s.flights)
	}
	require.LessOrEqual(t, c.Usage(), c.Capacity())
}

func TestGetReturnsWhatSetPut(t *testing.T) {
	c := New(8 << 20)
	id := c.NewID()
	require.NotEqual(t, id, c.NewID())
	require.Nil(t, c.Get(Key{id, 0}))
	for i := range uint64(100) {
		put(c, Key{id, i * 4096}, 4096)
	}
	for i := range uint64(100) {
		v := c.Get(Key{id, i * 4096})
		require.NotNil(t, v)
		require.True(t, filledWith(v, Key{id, i * 4096}))
		require.Len(t, v.Bytes(), 4096)
		v.Release()
	}
	requireConsistent(t, c)
	s := c.Stats()
	require.Equal(t, Stats{Inserts: 100, Count: 100, Entries: [Classes]ClassStats{Data: {100, 100 * (4096 + valueOverhead)}}}, s)
	require.EqualValues(t, 100*(4096+valueOverhead), c.Usage())
	require.Zero(t, c.PinnedUsage())
}

func TestFirstValueAtAKeyStays(t *testing.T) {
	c := New(1 << 20)
	k := Key{c.NewID(), 1}
	a, b := c.Alloc(100), c.Alloc(200)
	c.Set(k, a)
	c.Set(k, b)
	c.Set(Key{k.ID, 2}, a) // has a key
	got := c.Get(k)
	require.Same(t, a, got)
	require.Nil(t, c.Get(Key{k.ID, 2}))
	for _, v := range []*Value{a, b, got} {
		v.Release()
	}
	require.EqualValues(t, offheap.Size(100), c.pool.Used())
}

func TestNothingIsLeftAfterEvictionOfEverything(t *testing.T) {
	c := New(4 << 20)
	id := c.NewID()
	for i := range uint64(3000) {
		put(c, Key{id, i}, 4096)
	}
	requireConsistent(t, c)
	require.Greater(t, c.Usage(), c.Capacity()*9/10)
	require.Positive(t, c.pool.Used())
	c.SetCapacity(0)
	require.Zero(t, c.pool.Used())
	require.Zero(t, c.Usage())
	put(c, Key{id, 1}, 100)
	require.Nil(t, c.Get(Key{id, 1}), "capacity 0 keeps nothing")
	require.Zero(t, c.pool.Used())
	c.SetCapacity(1 << 20)
	put(c, Key{id, 1}, 100)
	v := c.Get(Key{id, 1})
	require.NotNil(t, v)
	v.Release()
}

func TestPinnedValueSurvivesEvictionAndErase(t *testing.T) {
	c := New(1 << 20)
	id := c.NewID()
	a, b := Key{id, 1}, Key{id, 2}
	put(c, a, 5000)
	put(c, b, 5000)
	va, vb := c.Get(a), c.Get(b)
	require.EqualValues(t, 2*offheap.Size(5000), c.PinnedUsage())
	c.Erase(b)
	c.Erase(b)
	require.Nil(t, c.Get(b))
	for i := range uint64(2000) {
		put(c, Key{id, 10 + i}, 4096)
	}
	c.SetCapacity(0)
	require.True(t, filledWith(va, a))
	require.True(t, filledWith(vb, b))
	require.EqualValues(t, 2*offheap.Size(5000), c.PinnedUsage())
	require.EqualValues(t, 2*offheap.Size(5000), c.pool.Used())
	again := c.Get(a)
	require.Same(t, va, again, "in use, so it was not evicted")
	va.Release()
	again.Retain()
	again.Release()
	again.Release()
	vb.Release()
	c.SetCapacity(0)
	require.Zero(t, c.pool.Used())
	require.Zero(t, c.PinnedUsage())
}

func TestValueWithoutRoomIsNotKept(t *testing.T) {
	c := New(1 << 20)
	id := c.NewID()
	put(c, Key{id, 0}, 2<<20)
	require.Nil(t, c.Get(Key{id, 0}), "larger than the cache")
	var pinned []*Value
	for i := range uint64(1000) {
		put(c, Key{id, i + 1}, 4096)
		if v := c.Get(Key{id, i + 1}); v != nil {
			pinned = append(pinned, v)
		}
	}
	require.Less(t, len(pinned), 256)
	require.Greater(t, len(pinned), 220)
	requireConsistent(t, c)
	require.EqualValues(t, 1+1000-len(pinned), c.Stats().Refused)
	for _, v := range pinned {
		v.Release()
	}
}

func TestWhatIsReadAgainOutlivesWhatIsReadOnce(t *testing.T) {
	c := New(4 << 20)
	id := c.NewID()
	const hot = 200
	hits := 0
	for i := range uint64(10_000) { // a scan, beside which 200 blocks are read again and again
		put(c, Key{id, 1000 + i}, 4096)
		k := Key{id, i % hot}
		if v := c.Get(k); v != nil {
			hits++
			v.Release()
		} else {
			put(c, k, 4096)
		}
	}
	require.Greater(t, hits, 9_500)
}

func TestMemoryStaysWithinCapacityWhenSizesChange(t *testing.T) {
	c := New(16 << 20)
	id := c.NewID()
	r := rand.New(rand.NewPCG(3, 4))
	n, most := uint64(0), int64(0)
	load := func(blocks int, size func() int) {
		for range blocks {
			n++
			v := c.Alloc(size())
			fill(v, Key{})
			c.Set(Key{id, n}, v)
			v.Release()
			most = max(most, c.pool.Resident())
		}
	}
	load(6_000, func() int { return 4096 })
	load(4_000, func() int { return 8000 })
	load(4_000, func() int { return 2000 + r.IntN(6000) })
	load(8_000, func() int { return 600 + r.IntN(600) })
	load(1_500, func() int { return 16_000 + r.IntN(16_000) })
	load(20, func() int { return 500_000 })
	limit := c.Capacity() + c.Capacity()/16 + spareMemory + 1<<20
	require.LessOrEqual(t, most, limit)
	load(6_000, func() int { return 4096 })
	require.Greater(t, c.Usage(), c.Capacity()*9/10)
}

func TestUnreachableCacheIsUnmappedWhenNothingIsInUse(t *testing.T) {
	pinned := func() *Value {
		c := New(4 << 20)
		id := c.NewID()
		for i := range uint64(200) {
			put(c, Key{id, i}, 4096)
		}
		return c.Get(Key{id, 7})
	}()
	pool := pinned.home.pool
	for pool.Used() > int64(offheap.Size(4096)) { // all but the one in use
		runtime.GC()
		runtime.Gosched()
	}
	require.True(t, filledWith(pinned, Key{1, 7}))
	require.Positive(t, pool.Resident())
	pinned.Release()
	for pool.Resident() > 0 {
		runtime.Gosched()
	}
}

func TestReleaseBeyondTheLastIsNoticedInInvariantsBuilds(t *testing.T) {
	c := New(1 << 20)
	v := c.Alloc(100)
	b := v.Bytes()
	copy(b, "gone after this")
	v.Release()
	if invariants.Enabled {
		require.EqualValues(t, 0xdb, b[0])
		require.Panics(t, v.Release)
		require.Panics(t, v.Retain)
	}
}

// play runs a script against the cache and its twin, a map of what may be there.
func play(t *testing.T, script []byte) {
	c := New(256 << 10)
	id := c.NewID()
	may := map[Key]int{} // length of the value at k, if there is one
	type held struct {
		v *Value
		k Key
		n int
	}
	var pins []held
	for i := 0; i+2 < len(script); i += 3 {
		op, k, arg := script[i]%8, Key{id, uint64(script[i+1] % 64)}, int(script[i+2])
		switch op {
		case 0, 1, 2:
			n := arg * arg / 3
			v := c.Alloc(n)
			fill(v, k)
			v.Class, v.High = Class(arg)%Classes, arg%3 == 0
			c.Set(k, v)
			if got := c.Get(k); got != nil {
				if old, ok := may[k]; !ok || got == v {
					require.Same(t, v, got)
					may[k] = n
				} else {
					require.Len(t, got.Bytes(), old)
				}
				got.Release()
			} else {
				delete(may, k)
			}
			v.Release()
		case 3, 4, 5:
			v := c.Get(k)
			if v == nil {
				delete(may, k)
				break
			}
			require.Contains(t, may, k)
			require.Len(t, v.Bytes(), may[k])
			require.True(t, filledWith(v, k))
			if arg%2 == 0 {
				pins = append(pins, held{v, k, may[k]})
			} else {
				v.Release()
			}
		case 6:
			if len(pins) > 0 {
				j := arg % len(pins)
				require.True(t, filledWith(pins[j].v, pins[j].k))
				require.Len(t, pins[j].v.Bytes(), pins[j].n)
				pins[j].v.Release()
				pins[j] = pins[len(pins)-1]
				pins = pins[:len(pins)-1]
			}
		case 7:
			if arg < 8 {
				c.SetCapacity(int64(arg) * 64 << 10)
			} else {
				c.Erase(k)
				delete(may, k)
				require.Nil(t, c.Get(k))
			}
		}
	}
	for _, p := range pins {
		require.True(t, filledWith(p.v, p.k))
		require.Len(t, p.v.Bytes(), p.n)
		p.v.Release()
	}
	c.SetCapacity(c.Capacity())
	requireConsistent(t, c)
	c.SetCapacity(0)
	require.Zero(t, c.pool.Used())
}

func TestCacheAgreesWithAMap(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 3 {
		script := make([]byte, 9000)
		for i := range script {
			script[i] = byte(r.Uint32())
		}
		play(t, script)
	}
}

func FuzzCache(f *testing.F) {
	f.Add([]byte{0, 1, 100, 3, 1, 0, 7, 1, 9, 6, 0, 0})
	f.Add([]byte{0, 1, 200, 0, 2, 200, 0, 3, 201, 3, 1, 1, 7, 0, 0, 0, 1, 3})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) < 3000 {
			play(t, script)
		}
	})
}

func TestManyGoroutinesGetTheRightBytes(t *testing.T) {
	c := New(1 << 20) // about 230 of 500 blocks fit
	id := c.NewID()
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 9))
			var pinned []*Value
			var keys []Key
			for i := range 4000 {
				k := Key{id, r.Uint64N(500)}
				if r.IntN(2) == 0 {
					k.Offset /= 5
				}
				switch v := c.Get(k); {
				case v == nil:
					put(c, k, 3000+int(k.Offset))
				case !filledWith(v, k) || len(v.Bytes()) != 3000+int(k.Offset):
					t.Error("another block's bytes")
					return
				case r.IntN(8) == 0 && len(pinned) < 4:
					pinned, keys = append(pinned, v), append(keys, k)
				default:
					v.Release()
				}
				switch {
				case r.IntN(50) == 0:
					c.Erase(k)
				case i%1000 == 500:
					c.SetCapacity(int64(1+r.IntN(4)) << 18)
				case len(pinned) == 4:
					for j, v := range pinned {
						if !filledWith(v, keys[j]) {
							t.Error("bytes changed under a reference")
							return
						}
						v.Release()
					}
					pinned, keys = pinned[:0], keys[:0]
				}
			}
			for _, v := range pinned {
				v.Release()
			}
		})
	}
	all.Wait()
	c.SetCapacity(c.Capacity())
	requireConsistent(t, c)
	require.Zero(t, c.PinnedUsage())
	c.SetCapacity(0)
	require.Zero(t, c.pool.Used())
}

// TestReadersWalkListsWhileTheyGrow has readers of keys that stay, while others come and the buckets double.
func TestReadersWalkListsWhileTheyGrow(t *testing.T) {
	c := New(16 << 20)
	id := c.NewID()
	for i := range uint64(8) {
		put(c, Key{id, i}, 64)
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for i := uint64(0); ; i++ {
				k := Key{id, i % 8}
				if v := c.Get(k); v != nil {
					if !filledWith(v, k) {
						t.Error("another block's bytes")
					}
					v.Release()
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := range uint64(4_000) {
		put(c, Key{id, 100 + i}, 64)
	}
	close(stop)
	readers.Wait()
	for i := range uint64(8) {
		v := c.Get(Key{id, i})
		require.NotNil(t, v)
		v.Release()
	}
}

func BenchmarkGetHit(b *testing.B) {
	c := New(64 << 20)
	id := c.NewID()
	for i := range uint64(8192) {
		put(c, Key{id, i * 4096}, 4096)
	}
	b.ReportAllocs()
	b.Run("one", func(b *testing.B) {
		for range b.N {
			c.Get(Key{id, 4096}).Release()
		}
	})
	b.Run("any", func(b *testing.B) {
		i := uint64(0)
		for range b.N {
			i = i*6364136223846793005 + 1442695040888963407
			c.Get(Key{id, i >> 51 * 4096}).Release()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			i := rand.Uint64()
			for pb.Next() {
				i = i*6364136223846793005 + 1442695040888963407
				c.Get(Key{id, i >> 51 * 4096}).Release()
			}
		})
	})
}

func BenchmarkMiss(b *testing.B) {
	c := New(8 << 20)
	id := c.NewID()
	b.ReportAllocs()
	for i := range b.N {
		k := Key{id, uint64(i)}
		if v := c.Get(k); v != nil {
			b.Fatal("never put")
		}
		v := c.Alloc(4096)
		c.Set(k, v)
		v.Release()
	}
}
