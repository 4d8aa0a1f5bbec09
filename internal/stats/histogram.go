package stats

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// limits are the largest values of the buckets.
var limits = makeLimits()

// bucketCount is how many there are.
const bucketCount = 109

func makeLimits() (l [bucketCount]uint64) {
	l[0], l[1] = 1, 2
	exact := 2.0
	for i := 2; i < bucketCount; i++ {
		exact *= 1.5
		limit, power := uint64(exact), uint64(1)
		for limit/10 > 10 {
			limit /= 10
			power *= 10
		}
		l[i] = limit * power
	}
	return l
}

// Histogram is the distribution of a measure, in microseconds or bytes, say. Its zero value is empty.
type Histogram struct {
	count    uint64
	sum      uint64
	min, max uint64 // when count > 0
	squares  float64
	buckets  [bucketCount]uint64
}

// firstOf gives, for a number of bits, the first bucket that a value of so many bits may fall into; it is at most two
// before the right one.
var firstOf = func() (f [65]uint8) {
	for n := 1; n <= 64; n++ {
		i, _ := slices.BinarySearch(limits[:], 1<<(n-1))
		f[n] = uint8(min(i, bucketCount-1))
	}
	return f
}()

// bucketOf returns the first bucket whose limit is not below v; the last one takes what is above all limits.
func bucketOf(v uint64) int {
	i := int(firstOf[bits.Len64(v)])
	for i < bucketCount-1 && limits[i] < v {
		i++
	}
	return i
}

// Add counts v.
func (h *Histogram) Add(v uint64) {
	h.buckets[bucketOf(v)]++
	if h.count == 0 || v < h.min {
		h.min = v
	}
	h.max = max(h.max, v)
	h.count++
	h.sum += v
	h.squares += float64(v) * float64(v)
}

// Merge counts what o has counted.
func (h *Histogram) Merge(o *Histogram) {
	if o.count == 0 {
		return
	}
	if h.count == 0 || o.min < h.min {
		h.min = o.min
	}
	h.max = max(h.max, o.max)
	h.count += o.count
	h.sum += o.sum
	h.squares += o.squares
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
}

// Count returns how many values were added.
func (h *Histogram) Count() uint64 { return h.count }

// Sum returns the sum of all values.
func (h *Histogram) Sum() uint64 { return h.sum }

// Min returns the smallest value, 0 when there is none.
func (h *Histogram) Min() uint64 { return h.min }

// Max returns the largest value, 0 when there is none.
func (h *Histogram) Max() uint64 { return h.max }

// Average returns the mean of all values, 0 when there is none.
func (h *Histogram) Average() float64 {
	if h.count == 0 {
		return 0
	}
	return float64(h.sum) / float64(h.count)
}

// StdDev returns the standard deviation of all values, 0 when there is none.
func (h *Histogram) StdDev() float64 {
	if h.count == 0 {
		return 0
	}
	n, sum := float64(h.count), float64(h.sum)
	return math.Sqrt(max((h.squares*n-sum*sum)/(n*n), 0))
}

// Percentile returns the value that p percent of all values do not exceed, interpolated within its bucket.
func (h *Histogram) Percentile(p float64) float64 {
	threshold := float64(h.count) * (p / 100)
	var below uint64
	for i, n := range h.buckets {
		if float64(below+n) < threshold {
			below += n
			continue
		}
		var left, position float64
		if i > 0 {
			left = float64(limits[i-1])
		}
		if n > 0 {
			position = (threshold - float64(below)) / float64(n)
		}
		v := left + (float64(limits[i])-left)*position
		return min(max(v, float64(h.min)), float64(h.max))
	}
	return float64(h.max)
}

// String returns RocksDB's form of the histogram, as db_bench prints it: five lines, and one for each bucket that is not
// empty.
func (h *Histogram) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "Count: %d Average: %.4f  StdDev: %.2f\n", h.count, h.Average(), h.StdDev())
	fmt.Fprintf(&s, "Min: %d  Median: %.4f  Max: %d\n", h.min, h.Percentile(50), h.max)
	fmt.Fprintf(&s, "Percentiles: P50: %.2f P75: %.2f P99: %.2f P99.9: %.2f P99.99: %.2f\n",
		h.Percentile(50), h.Percentile(75), h.Percentile(99), h.Percentile(99.9), h.Percentile(99.99))
	s.WriteString(strings.Repeat("-", 54) + "\n")
	var sum uint64
	percent := 100 / float64(h.count)
	for i, n := range h.buckets {
		if n == 0 {
			continue
		}
		sum += n
		open, left := '[', uint64(0)
		if i > 0 {
			open, left = '(', limits[i-1]
		}
		fmt.Fprintf(&s, "%c %7d, %7d ] %8d %7.3f%% %7.3f%% %s\n", open, left, limits[i], n,
			percent*float64(n), percent*float64(sum), strings.Repeat("#", int(percent*float64(n)/5+0.5)))
	}
	return s.String()
}
