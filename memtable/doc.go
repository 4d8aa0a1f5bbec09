// Package memtable keeps the newest entries of one family in memory, in order, until they are flushed to a table file.
//
// There are three nouns. An Arena is a piece of memory outside the Go heap that only fills up. A Table is a skiplist in
// an arena, of internal keys: user key ascending, newest version first. A Hint remembers where a goroutine's last
// insert went.
//
//	arena, err := memtable.NewArena(capacity)
//	t := memtable.New(kv.Bytewise, arena, logNumber)
//	var hint memtable.Hint
//	err = t.Insert(&hint, key, kv.MakeTrailer(seq, kv.KindValue), value)
//	…
//	t.Seal()    // no inserts from here on
//	…           // flush from t.NewIter(), let the readers go
//	t.Release() // the arena serves the next table
//
// # Threads
//
// Insert, AddTombstone, Get, NewIter and the counters may be called by any number of goroutines at once, without a lock and without
// waiting for each other; a Hint and an Iterator belong to one goroutine at a time. Readers see each entry from the
// moment it is linked. That an unfinished batch is not seen is the business of sequence numbers, not of the table.
//
// # The caller's duties
//
//   - Count. Before it lets writers in, the leader adds up MaxEntrySize and MaxTombstoneSize of what they bring and
//     compares with the arena's capacity less Bytes. So a batch is either let in whole or gets a fresh arena, of its own size if it is
//     larger than a write buffer.
//   - Give each entry a sequence number of its own. The same key, number and kind twice is ErrDuplicate.
//   - Seal when the last insert has returned, and Release when the last reader has gone: what Get and iterators hand
//     out points into the arena.
//
// A build with the tag invariants panics where one of these is broken and it can tell, and fills what was released
// with 0xdd.
//
// # Range deletes
//
// AddTombstone keeps range deletes beside the entries, in tombstones.go; only it takes a mutex, for a short time. Get
// minds them. Iterators walk the entries alone: whoever merges them asks AppendTombstones what is hidden.
//
// # A filter beside it
//
// UseBloom gives a table a Bloom filter of whole keys, prefixes or both (bloom.go), which Get and seeks with a prefix ask
// before they walk. Its memory is not in the arena.
//
// RocksDB calls this the inline skiplist; nothing of the form here ever reaches a disk.
package memtable
