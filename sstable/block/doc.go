// Package block builds and reads the generic block of RocksDB's tables: sorted keys, each stored as what it does not
// share with the one before, and an array of restart points for binary search. Data blocks, index blocks, the
// metaindex and the properties all have this form.
//
//	+-------+-------+-----+-------------+-----+-------------+------------+----------------------+
//	| entry | entry | ... | restart u32 | ... | restart u32 | hash index | footer u32           |
//	|       |       |     | offset      |     | offset      | (optional) | restarts and flags   |
//	+-------+-------+-----+-------------+-----+-------------+------------+----------------------+
//
//	entry:     | shared varint | unshared varint | value length varint | key suffix | value |
//	hash:      | bucket u8 | ... | buckets u16 |
//	footer:    bits 0-27 number of restarts (at least 1), bit 28 keys and values apart, bit 29 hint "uniform keys",
//	           bit 30 zero, bit 31 a hash index is there
//
// At a restart point shared is 0, so the key there stands whole in the block and is compared in place.
//
// A data block's keys are internal keys: the user key and 8 bytes of trailer. Iter walks them in both directions and is
// the innermost loop of every read: it is a plain struct, embedded by value, that allocates nothing once its buffers
// have grown. Scanner walks any block forwards, and HandleScanner an index block in each of its forms:
//
//	entry before format version 4:  | shared | unshared | value length | key suffix | offset, size varints |
//	since, at shared = 0:           | 0      | unshared | key suffix   | offset varint | size varint |
//	since, at shared > 0:           | shared | unshared | key suffix   | zigzag varint: size - size before |
//
// In the last form the offset is that of the block before plus its size and its trailer. An index "with first key" has
// one more length-prefixed string after the handle.
//
// RocksDB 11 can write a data block with its values behind all its keys (bit 28); Join turns such a block into the
// ordinary form, once, when it is loaded. The hash index (hash.go) serves point lookups of the bytewise order; all else
// does without it.
//
// Nothing in a block is believed: a length that reaches too far is an *Error with the offset inside the block, and the
// caller adds the file's name. A Builder, an Iter and a scanner belong to one goroutine.
package block
