// Package kv holds the words that every other package uses: sequence numbers, kinds of entries, internal keys and
// their order, the comparer, and the contract of an internal iterator.
//
// An internal key is a user key and a trailer of 8 bytes, sequence<<8 | kind, little-endian on disk (RocksDB's form,
// readable by every release). Internal keys are ordered by user key ascending, then by trailer descending: the newest
// version of a key comes first. To find "the newest version of k that a reader at sequence s may see", seek to
// SeekKey(k, s).
//
// Nothing here does I/O, allocates on a hot path, or knows that there is a database.
package kv
