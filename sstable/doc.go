// Package sstable writes and reads tables: sorted, immutable files in the block-based format of RocksDB.
//
//	+------------+-----+--------+-------+---------------+------------+-----------+--------+
//	| data block | ... | filter | index | range deletes | properties | metaindex | footer |
//	+------------+-----+--------+-------+---------------+------------+-----------+--------+
//
//	stored block:  | bytes, maybe compressed | compression type u8 | checksum u32 |
//	handle:        | offset varint | size varint, without those 5 bytes |
//
// The footer names the metaindex, which names the rest; since format version 6 it names the index too. Only handles
// count: the order above is the writer's habit. Package block has the inside of blocks, format.go the footers,
// properties.go the properties, tombstones.go the range deletes.
//
// # Writing
//
// A Writer takes ascending internal keys, and range deletes in any order, and makes a table with an index and a filter,
// each whole or in partitions. Format version 5 is the default: every RocksDB since 6.6 reads it. Versions 2 to 7 can be
// chosen (6 needs RocksDB 8.6, 7 needs 10.4). The index holds shortened user keys, and internal keys only where the versions of one key go
// over from one block to the next. A filter has keys, their prefixes, or both. A table for the bottom level has none under
// OptimizeFiltersForHits. Range deletes are in no filter.
//
// # Reading
//
// A Reader reads what RocksDB 7.8 and 11.9 write in versions 0 to 7: all checksums, all compressions with and without
// dictionaries, indexes of one and two levels, with shared keys, delta-encoded handles or first keys, full and partitioned
// filters, blocks with hash indexes or with their values apart, and ingested tables with one sequence number for all.
// Blob references, wide columns and timed puts are refused with ErrNotSupported, at Open where the properties tell and
// otherwise where they are met. Merge operands are entries like others here: Get gathers them, and what they mean is for
// the family's merge operator to say.
//
// Get is a straight walk on the caller's stack; MultiGet takes many keys to the table together; an Iterator goes both ways. All show what is there, whether or not a range
// delete of the table hides it; those are for whoever merges tables to ask for, with Tombstones. Index, filter and range
// deletes are decoded when the table is opened and stay in memory, but for partitions; these and data blocks go through
// the cache, or data blocks, for one who reads all of a table once, past it in large reads. Tables keeps readers open, up to a limit.
//
// # Damage
//
// Everything that is read from the file is checked against its checksum, every time, and every length in it before it is
// used. What does not fit is a corrupt.Error with the file's name and the block's offset. A walk stops there; it never
// goes on behind a damaged block as if nothing was.
//
// # Who may call what
//
// A Writer and an Iterator belong to one goroutine at a time. A Reader and a Tables may be used by any number at once.
package sstable
