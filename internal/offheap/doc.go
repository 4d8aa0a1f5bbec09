// Package offheap hands out blocks of bytes that lie outside the Go heap, so that a large cache neither is scanned nor
// lets the collector's garbage grow with it: with blocks on the heap, GOGC=100 allows as much garbage as there is cache.
//
//	region  ┌──────────── slab ────────────┬──────────── slab ────────────┬─ …     one mmap, address space only
//	        │ slot │ slot │ … 16 slots     │ slot │ slot │ …              │
//	        └──────┴──────┴────────────────┴──────┴──────┴────────────────┴─ …
//
// A block is a slot of a slab. Slots come in size classes, multiples of 256 bytes to 2 KiB, and from there eight to each
// doubling, so that at most an eighth is lost; a slab has 16 slots of one class, which makes it whole pages. Blocks of
// more than 64 KiB have a slab each. A block comes from the fullest slab that has a free slot, which lets the emptier ones
// run dry when the mix of sizes changes.
//
// # Pages go back, addresses stay
//
// When the last slot of a slab is freed, its pages are given back (MADV_DONTNEED), unless less than 1 MiB of such pages
// is being kept for the next ones. Where that leaves too much unused (SetSlack), the pages inside single slots go back. Its addresses stay mapped: a reader who should not be there any more reads other
// bytes, and does not crash. They are unmapped when the pool is closed and its last block is free.
//
// # Builds
//
// With -race, and where the system is not Linux, slabs are Go slices: then the race detector sees what is read and
// written in them, and nothing goes back before the collector finds that a pool is gone. With -tags invariants a
// block is overwritten when it is freed, and freeing it again panics.
//
// # Thread safety
//
// All of it may be called from many goroutines. There is one short lock for each size class.
package offheap
