// Package checksum computes what RocksDB's files store beside their bytes: block checksums of tables, the CRC of log and
// manifest records, the context that format_version 6 mixes into them, and the unique id of a table.
//
// A stored block is followed by five bytes:
//
//	+-- block, as stored --+-- 1 --+---- 4 ----+
//	|  size bytes          | type  | checksum  |     type: compression; checksum: little-endian
//	+----------------------+-------+-----------+
//
//	no. on disk   name         value
//	0             kNoChecksum  0, and readers do not look
//	1             kCRC32c      CRC-32C of block‖type, masked
//	2             kxxHash      XXH32 of block‖type, seed 0
//	3             kxxHash64    low 32 bits of XXH64 of block‖type, seed 0
//	4             kXXH3        low 32 bits of XXH3 (final form, 64 bits) of the block alone, XOR type × 6b9083d9
//
// The number stands in the table's footer. All five are read by RocksDB 7.8 and 11.9; releases before 6.27 do not know 4, which
// is the default of 7.8 and 11.9 and ours. From format_version 6 on (11.9 reads it, 7.8 does not), ContextModifier(base,
// offset) is added to each stored value, so that a block that was written to the wrong place does not pass.
//
// Everything here is a pure function: any number of goroutines may call it, and nothing allocates.
package checksum
