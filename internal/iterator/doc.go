// Package iterator joins internal iterators: Merging makes one ordered stream of several, Concat makes one of the
// tables of a sorted run, of which at most one is open.
//
// Both keep the whole contract of kv.Iterator, in both directions, and ask no more of their children than that contract.
// What one of them relies on most is the rule about ends: an iterator that ran off one end comes back with one step the
// other way. A change of direction is then one step of each child, with no seek:
//
//	forward: the winner stands on k, every other child on its first entry after k (or behind its end)
//	Prev   : each child steps back once; each now stands on its last entry before k (or before its start)
//
// Equal internal keys cannot be in one tree, except while a write-ahead log is replayed twice; Merging then orders them
// by the position of their child, earlier children first, so that walking back is exactly walking forward reversed.
//
// Neither allocates per step; Concat opens a table per boundary. One goroutine at a time, as all iterators.
//
// itertest holds the dumb twin: an iterator over a sorted slice, and a check that drives any kv.Iterator against it.
package iterator
