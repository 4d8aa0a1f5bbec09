package stats

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// What 8 goroutines count in every way there is, beside a plain sum.
func TestSetLosesNothing(t *testing.T) {
	var s Set
	var mu sync.Mutex
	var want Counts
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			var own Counts
			var tally Tally
			for range 3000 {
				k := Ticker(r.IntN(int(Tickers)))
				switch r.IntN(4) {
				case 0:
					s.Add(k, 3)
					own[k] += 3
				case 1:
					p := s.Lock()
					p.N[k] += 2
					p.Unlock()
					own[k] += 2
				case 2:
					for range r.IntN(60) { // more than have a place
						tally.Count(k)
						own[k]++
					}
				case 3:
					tally.Flush(&s, k, 7)
					own[k] += 7
				}
			}
			tally.Flush(&s, 0, 0)
			tally.Flush(&s, 0, 0)
			mu.Lock()
			defer mu.Unlock()
			for k, n := range own {
				want[k] += n
			}
		})
	}
	all.Wait()
	var got Counts
	s.AddTo(&got)
	require.Equal(t, want, got)
}

func TestNobodysSetCountsNothing(t *testing.T) {
	var none *Set
	none.Add(MemtableHit, 1)
}

func TestSumsAreMadeOfTheirParts(t *testing.T) {
	var c Counts
	for i := range c {
		c[i] = uint64(i) * uint64(i)
	}
	c[MemtableHit], c[MemtableMiss], c[NumberMultiGetKeysRead] = 70, 30, 40
	c.Sum()
	require.Equal(t, c[BlockCacheDataHit]+c[BlockCacheIndexHit]+c[BlockCacheFilterHit]+c[BlockCacheDictionaryHit], c[BlockCacheHit])
	require.Equal(t, c[LevelHit+2]+c[LevelHit+3]+c[LevelHit+4]+c[LevelHit+5]+c[LevelHit+6], c[GetHitL2AndUp])
	require.EqualValues(t, 60, c[NumberKeysRead])
	again := c
	again.Sum()
	require.Equal(t, c, again)
}

func TestEveryTickerAndMeasureHasItsName(t *testing.T) {
	seen := map[string]bool{}
	check := func(name string) {
		require.True(t, strings.HasPrefix(name, "rocksdb."), name)
		require.False(t, seen[name], name)
		seen[name] = true
	}
	for k := range Named {
		check(k.Name())
	}
	for m := range Measures {
		check(m.Name())
	}
}

func TestHistogramsMeasureOnlyWhatIsAskedFor(t *testing.T) {
	var none *Histograms
	require.True(t, none.Start().IsZero())
	none.Add(DBGet, 1)
	none.Since(DBGet, none.Start())
	h := NewHistograms(false)
	h.Since(DBGet, h.Start())
	h.Add(BytesPerRead, 5)
	got := h.Load(DBGet)
	require.Zero(t, got.Count(), "no clocks")
	got = h.Load(BytesPerRead)
	require.EqualValues(t, 5, got.Sum())
	h.Reset()
	got = h.Load(BytesPerRead)
	require.Zero(t, got.Count())
	h = NewHistograms(true)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				h.Since(DBGet, h.Start())
			}
		})
	}
	all.Wait()
	got = h.Load(DBGet)
	require.EqualValues(t, 800, got.Count())
}

func BenchmarkTally(b *testing.B) {
	var s Set
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			var t Tally
			for k := range Ticker(6) {
				t.Count(k)
			}
			t.Flush(&s, BytesRead, 100)
		}
	})
}
