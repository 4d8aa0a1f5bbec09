// Package cache holds blocks of tables, in a bounded amount of memory that several databases may share.
//
//	Get   ──> Value ──> Bytes … ──> Release                                  a hit
//	Join  ──> Flight, Alloc ──> Value, filled by its reader ──> Set, Land    a miss
//	TryJoin  ──> Flight …, for who reads several blocks at once
//	Join  ──> Value, when another one has read it meanwhile                  a miss beside a miss
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
// off and evicts who has none, except values in use. New data blocks start with 1, others with 3. A value for which there
// is no room, since all others are in use, is not kept; in a strict cache that is its reader's error.
//
// Values of high priority stay as long as any other can go. They may fill a part of the capacity (half of it); those that
// come when this part is full have no priority.
//
// # Thread safety
//
// All methods of Cache and Value may be called from many goroutines. Get takes no lock: a hit with its Release is two
// atomic operations on one line of memory. Join and Set take their shard's, for no longer than it takes to link a value.
//
// # Life
//
// When nothing refers to a Cache any more, its memory is unmapped, or if values are still in use then, after the last
// Release. SetCapacity(0) gives all pages back at once.
package cache
