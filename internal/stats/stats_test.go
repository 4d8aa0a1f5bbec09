package stats

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCounterLosesNoAdd(t *testing.T) {
	var c Counter
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for range 1000 {
				c.Add(uint64(i))
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 120_000, c.Load())
}

func TestBucketsAreRocksDBs(t *testing.T) {
	require.Equal(t, []uint64{1, 2, 3, 4, 6, 10, 15, 22, 34, 51, 76, 110, 170, 250, 380, 580, 870, 1300, 1900, 2900, 4400,
		6600, 9900, 14000, 22000, 33000, 50000}, limits[:27])
	require.True(t, slices.IsSorted(limits[:]))
	require.Greater(t, float64(limits[bucketCount-1])*1.6, float64(math.MaxUint64), "the next would not fit 64 bits")
	require.Equal(t, 0, bucketOf(0))
	require.Equal(t, bucketCount-1, bucketOf(math.MaxUint64))
	for i := 1; i < bucketCount; i++ {
		require.Equal(t, i, bucketOf(limits[i-1]+1))
		require.Equal(t, i, bucketOf(limits[i]))
		require.LessOrEqual(t, i-int(firstOf[bits.Len64(limits[i])]), 2)
	}
}

// TestStringIsWhatDbBenchPrints takes apart what RocksDB 7.8.3's db_bench printed, and prints it again.
func TestStringIsWhatDbBenchPrints(t *testing.T) {
	text, err := os.ReadFile("testdata/db_bench.txt")
	require.NoError(t, err)
	for printed := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n\n") {
		printed = strings.TrimSuffix(printed, "\n") + "\n"
		lines := strings.Split(printed, "\n")
		var h Histogram
		var average, deviation, median float64
		_, err := fmt.Sscanf(lines[0], "Count: %d Average: %f  StdDev: %f", &h.count, &average, &deviation)
		require.NoError(t, err)
		_, err = fmt.Sscanf(lines[1], "Min: %d  Median: %f  Max: %d", &h.min, &median, &h.max)
		require.NoError(t, err)
		h.sum = uint64(math.Round(average * float64(h.count)))
		h.squares = (deviation*deviation + average*average) * float64(h.count)
		for _, line := range lines[4 : len(lines)-1] {
			var left, limit, n uint64
			_, err := fmt.Sscanf(line[1:], "%d, %d ] %d", &left, &limit, &n)
			require.NoError(t, err, line)
			i := bucketOf(limit)
			require.Equal(t, limit, limits[i])
			h.buckets[i] = n
		}
		require.Equal(t, printed, h.String())
	}
}

func TestEmptyHistogramIsAllZero(t *testing.T) {
	var h Histogram
	require.Equal(t, "Count: 0 Average: 0.0000  StdDev: 0.00\nMin: 0  Median: 0.0000  Max: 0\n"+
		"Percentiles: P50: 0.00 P75: 0.00 P99: 0.00 P99.9: 0.00 P99.99: 0.00\n"+strings.Repeat("-", 54)+"\n", h.String())
	h.Merge(&Histogram{})
	require.Zero(t, h)
}

// twin keeps all values.
type twin []uint64

func (w twin) check(t *testing.T, h *Histogram) {
	slices.Sort(w)
	n := len(w)
	require.EqualValues(t, n, h.Count())
	if n == 0 {
		return
	}
	var sum uint64
	mean, variance := 0.0, 0.0
	for _, v := range w {
		sum += v
		mean += float64(v) / float64(n)
	}
	for _, v := range w {
		variance += (float64(v) - mean) * (float64(v) - mean) / float64(n)
	}
	require.Equal(t, sum, h.Sum())
	require.Equal(t, w[0], h.Min())
	require.Equal(t, w[n-1], h.Max())
	require.InDelta(t, mean, h.Average(), 1e-9*mean+1e-9)
	require.InDelta(t, math.Sqrt(variance), h.StdDev(), 1e-4*mean+1e-6)
	last := 0.0
	for _, p := range []float64{0, 1, 25, 50, 75, 90, 99, 99.9, 100} {
		got := h.Percentile(p)
		require.GreaterOrEqual(t, got, last)
		last = got
		// The value of that rank is in the bucket that was interpolated.
		rank := max(int(math.Ceil(float64(n)*(p/100))), 1)
		bucket := bucketOf(w[rank-1])
		require.LessOrEqual(t, got, float64(limits[bucket]))
		if bucket > 0 && p > 0 {
			require.GreaterOrEqual(t, got, float64(limits[bucket-1]))
		}
	}
}

func TestHistogramAgreesWithAllItsValues(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var a, b Histogram
		var w twin
		for range r.IntN(300) {
			v := r.Uint64N(1 << r.IntN(30))
			w = append(w, v)
			if r.IntN(2) == 0 {
				a.Add(v)
			} else {
				b.Add(v)
			}
		}
		a.Merge(&b)
		w.check(t, &a)
		if a.count > 0 {
			require.Contains(t, a.String(), "100.000%")
		}
	}
}

func FuzzHistogram(f *testing.F) {
	f.Add([]byte{1, 2, 3, 200})
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, data []byte) {
		var h Histogram
		var w twin
		for _, x := range data {
			v := uint64(x%16) << (x / 16 * 2)
			h.Add(v)
			w = append(w, v)
		}
		w.check(t, &h)
	})
}

func BenchmarkCounterAdd(b *testing.B) {
	var c Counter
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.Add(1)
		}
	})
}

func BenchmarkHistogramAdd(b *testing.B) {
	var h Histogram
	for i := range b.N {
		h.Add(uint64(i) & 1023)
	}
}
