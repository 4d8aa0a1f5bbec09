// Package stats counts and measures: Counter is a sum that many goroutines add to, Set all that a database counts, under
// RocksDB's names, and Histogram a distribution in RocksDB's buckets, printed as RocksDB prints it, so that the two can be
// laid side by side.
//
//	point read ──> Stripe of a Set                      one atomic operation for each thing it met
//	Set, Set … ──> Counts ──> Counts.Sum                families and what belongs to none, summed up
//	Histograms: one Histogram for each Measure, only where somebody asked for clocks
//
//	bucket   0       1       2       3       4       5        6         7
//	values   0,1     2       3       4       5,6     7…10     11…15     16…22  …
//	limit    1       2       3       4       6       10       15        22     34 51 76 110 170 250 380 …
//
// A limit is the one before times 1.5, cut to two digits; a value falls into the first bucket whose limit is not below
// it. There are 109 buckets, which cover 64 bits. So a percentile is within half of its value, and between the limits it is
// interpolated as if a bucket's values were spread evenly in it.
//
// # Thread safety
//
// A Counter, a Set and Histograms may be used by many goroutines at once. A Histogram belongs to one;
// those of several are merged at the end.
package stats
