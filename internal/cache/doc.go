// Package cache holds blocks of tables, in a bounded amount of memory that several databases may share.
//
//	Alloc ──> Value, filled by its reader ──> Set        a miss
//	Get   ──> Value ──> Bytes … ──> Release              a hit
//
// A Value is a block's bytes and a count of who uses them. The cache itself is one of these, as long as it keeps the
// value; each Get adds one, and whoever added one calls Release. Eviction and Erase only take away the cache's own
// reference, so that bytes in use stay what they are. After the last Release they are gone: another block may lie there.
//
// # Memory
//
// Blocks lie outside the Go heap (package offheap); a Value, about a hundred bytes, lies on it and is used again. A
// value is charged its slot and its Value, and what the cache keeps is never more than its capacity. Free slots beside
// it count as well: when they are more than a sixteenth of the capacity, which happens when the sizes of blocks change,
// the cache keeps less until their pages have gone back. Values in use that the cache does not keep come on top.
//
// # What goes first
//
// Each shard is a CLOCK: a hit adds one to a small counter in the value, up to 3; the hand that looks for room takes one
// off and evicts who has none, except values in use. New values start with 1. A value for which there is no room, since
// all others are in use, is not kept.
//
// # Thread safety
//
// All methods of Cache and Value may be called from many goroutines. Get takes no lock: a hit with its Release is three
// atomic operations on two lines of memory, 50 ns where everything else was busy too.
//
// # Life
//
// When nothing refers to a Cache any more, its memory is unmapped, or if values are still in use then, after the last
// Release. SetCapacity(0) gives all pages back at once.
package cache
