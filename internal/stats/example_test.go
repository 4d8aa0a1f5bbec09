package stats_test

import (
	"fmt"

	"github.com/ashlardb/ashlar/internal/stats"
)

func ExampleHistogram() {
	var h stats.Histogram
	for i := range uint64(8) {
		h.Add(i)
	}
	fmt.Printf("%.3g %.3g %d\n", h.Average(), h.Percentile(50), h.Max())
	// Output: 3.5 3 7
}

func ExampleCounter() {
	var reads stats.Counter
	reads.Add(2)
	reads.Add(1)
	fmt.Println(reads.Load())
	// Output: 3
}
