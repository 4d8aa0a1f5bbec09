// Package tombstone has what range deletes have in common in memtables, tables and jobs: lists that answer which of them
// covers a key.
//
// A tombstone (start, end, seq) hides every version of the keys from start (included) to end (excluded) whose sequence
// number is below seq. Tombstones overlap as they like. A List cuts the keys at every start and end, once; between two
// neighbouring cuts, in a fragment, all keys have the same tombstones:
//
//	@7      [b ─────────── e)
//	@5            [c ──────────── g)               fragment   tombstones
//	@2  [a ────────── d)                           a..b       2
//	     a    b    c    d    e    f    g           b..c       7 2
//	                                               c..d       7 5 2      Cover(c, 6) = 5
//	                                               d..e       7 5
//	                                               e..g       5
//
// To keep a copy of each tombstone with each of its fragments would take the square of their number when they lie
// inside each other, as those do that trim a queue from its front again and again. So they hang in a segment tree, each
// in a number of nodes that grows with the logarithm only, and a look walks from the fragment up to the root.
//
// Sequence number 0 stands for "none": a tombstone with it hides nothing.
//
// A List never changes and may be used by any number of goroutines. A nil List is empty.
package tombstone
