// Package batch owns the bytes of a WriteBatch: what a batch is in memory, what one record of the log holds, and what
// RocksDB of every release reads and writes.
//
//	 0        8      12
//	+--------+------+----------------------- - - -
//	| seq    | count| record record record
//	+--------+------+----------------------- - - -
//	 fixed64  fixed32
//
// The k-th counted record has sequence number seq+k. A record is a tag byte and, by tag ("lps" is a varint32 length and
// that many bytes; "cf" a varint32 family id, absent for the default family):
//
//	0x00 / 0x04   delete            [cf] lps key                 counted
//	0x01 / 0x05   put               [cf] lps key, lps value      counted
//	0x02 / 0x06   merge             [cf] lps key, lps operand    counted
//	0x07 / 0x08   single delete     [cf] lps key                 counted
//	0x0F / 0x0E   delete range      [cf] lps begin, lps end      counted; end is excluded
//	0x03          log data          lps blob                     not counted, not stored in the database
//	0x0D          noop                                           not counted
//	0x09          begin prepare                                  not counted
//	0x0A          end prepare       lps name                     not counted; what it ends is counted
//	0x0B          commit            lps name                     not counted, takes the numbers of what was prepared
//	0x0C          rollback          lps name                     not counted
//
// The last four are the marks of a two-phase commit. They stand in logs only: NewReader refuses them.
//
// Known and refused with corrupt.ErrNotSupported: the marks of RocksDB's other kinds of two-phase commits (0x12, 0x13,
// 0x15), blob indexes (0x10, 0x11), wide columns (0x16, 0x17) and timed puts (0x18, 0x19). Anything else is corruption.
//
// The default family has number 0 and always gets the tag without a family; the other form with number 0 is read too.
//
// A group of writers makes one record in the log: a header with the first sequence number and the sum of the counts,
// then the body (all behind the header) of each batch. Nothing is re-encoded for that.
//
// Everything here is a function of bytes; batches may be built and read by any goroutine that has them to itself, and
// read by many at a time.
package batch
