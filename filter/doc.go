// Package filter has the filters of tables: a block per table that answers "is this key perhaps in here?" without reading a
// data block. A filter never says no for a key that was added; it says yes for a few that were not (a false positive,
// which costs one wasted read).
//
// A Policy makes filters and opens stored ones:
//
//	Bloom          RocksDB's own filter, bytes and all: written as FastLocalBloom, which RocksDB reads since 6.6.
//	               Opens legacy Bloom (tables of format_version below 5) and Ribbon as well.
//	Ribbon         RocksDB's filter for data that stays: 30 % smaller at the same rate, several times as long to build.
//	StandardBloom  the textbook filter of github.com/bits-and-blooms/bloom, in a block of our own.
//
// Bloom is the one to use: its bits of one key lie in one cache line, it is several times faster, and RocksDB uses it too.
// StandardBloom has a slightly lower false-positive rate at the same size. RocksDB ignores filters whose name it does not know.
//
// RocksDB's filter blocks end in five bytes that say what they are; readers go by them, never by options:
//
//	+-- bits, n × 64 bytes --+- ff -+- 00 -+- probes -+- 00 00 -+     FastLocalBloom
//	+-- bits, lines × 64 ----+- probes -+---- lines, fixed32 ---+     legacy Bloom
//	+-- words of 16 bytes ---+- fe -+- seed -+- blocks, 24 bits +     Ribbon
//
// Other metadata means a filter from the future: it answers yes to everything, and is not an error. A block of five bytes or
// fewer is the filter of no keys. A block of StandardBloom is
//
//	+-- bits, m rounded up to 64, as 64-bit words --+- m, fixed64 -+- k, fixed32 -+- version 1 -+
//
// All numbers are little-endian.
//
// What goes in is up to the table: the user keys of its points, in order. A Policy and a Reader may be used by any
// number of goroutines; a Builder belongs to one. A Reader shares the block it was opened on and allocates nothing, neither at Open
// beyond itself nor per key. To ask several filters for one key, hash it once:
//
//	h := filter.Hash(key)
//	… if f, ok := reader.(filter.HashReader); ok && !f.MayContainHash(h) { … }
package filter
