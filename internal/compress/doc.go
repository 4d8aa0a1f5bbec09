// Package compress turns blocks of tables into their compressed form and back, in RocksDB's framing.
//
// The compression type is the byte behind each stored block (see package checksum for the picture). What the stored bytes
// are depends on it and, for the old formats, on the table's format_version:
//
//	type           format_version ≥ 2                       0 and 1
//	0  none        the block                                the same
//	1  Snappy      Snappy block (has its own length)        the same
//	2  Zlib        varint32 length ‖ raw deflate            raw deflate, no length
//	3  BZip2       varint32 length ‖ .bz2 stream            .bz2 stream, no length
//	4  LZ4         varint32 length ‖ LZ4 block              fixed64 length ‖ LZ4 block
//	5  LZ4HC       as LZ4
//	7  ZSTD        varint32 length ‖ one zstd frame         the same
//
// 6 (Xpress, of Windows) and the custom types from 0x80 on (format_version 7) are refused as not supported. BZip2 is read
// and never written. RocksDB 7.8 and 11.9 read and write all of these; 7.8 uses Snappy by default, 11.9 LZ4.
//
// A table may carry a dictionary for its data blocks: for ZSTD a trained one (it begins with 37 a4 30 ec) or raw content, for
// Zlib and LZ4 content that comes before the block. Snappy and BZip2 ignore it.
//
// Lengths come from disk and are not believed: none above MaxBlockSize, none that the algorithm cannot reach from so few
// stored bytes, and no decoder writes past the length that was announced. Errors say what is wrong and do not know the file:
// the caller, who does, wraps them with corrupt.At. Those that match corrupt.ErrNotSupported are not damage.
//
// All functions may be called from any number of goroutines. Coders are kept in pools, so that a block costs no
// allocation once the pools are warm (zstd: few), and none starts a goroutine.
package compress
