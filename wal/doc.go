// Package wal writes and reads logs: the write-ahead log of a database, and manifests, which have the same form.
//
// # Format
//
// A file is a row of blocks of 32 KiB. A record is cut into fragments so that none crosses the edge of a block; fewer
// than 7 bytes at the end of a block are filled with zeros.
//
//	 0      4       6     7
//	+------+-------+-----+------------ - -
//	| crc  | length| type| payload            type 1 FULL, 2 FIRST, 3 MIDDLE, 4 LAST
//	+------+-------+-----+------------ - -
//	 fixed32 fixed16       length bytes
//
//	 0      4       6     7      11
//	+------+-------+-----+------+----- - -
//	| crc  | length| type| log  | payload     types 5 to 8: the same, naming the log (the low 32 bits of its number)
//	+------+-------+-----+------+----- - -
//
// crc is the masked CRC-32C of everything from the type on. Types 1 to 4 are written, in the form that every RocksDB
// and LevelDB reads. Read are also 5 to 8 (recycled files), 9 (compression, zstd), 10 and 11 (timestamp sizes; any but
// zero is refused), 130 and 131 (RocksDB 11's predecessor), and unknown types from 128 on, which are skipped. A
// record of a log is a batch (internal/batch), a record of a manifest an edit.
//
// # Where a log ends
//
// At the end of the file, or at zeros with nothing but zeros behind them: what a file that was made longer in advance
// looks like. Zeros with anything else behind them are a hole, pages that a power cut kept from the disk. RocksDB
// reads past holes without a word; here they are damage like a wrong checksum.
//
// A log may be written through a mapping (mapped.go). Then the header of a record comes last, and a process that is killed
// leaves the record, or a few zeros with a part of it behind them, and no other record. While the zeros are in one page
// this can only be an unfinished record, and is the end in every mode. When they reach the next one, since the header has
// its place at the end of a page, it might as well be a power cut's work, and counts as a torn tail.
//
// # What came before
//
// A log cut exactly between two records looks whole, and a missing log looks like none at all. So the first record of
// each log of ours names the log before it, how many of its bytes count, and the last sequence number in them
// (predecessor.go). Recovery walks this chain back from the newest log. It proves:
//
//   - When a log's record is there, everything that was accepted before the log was made is there too, or the loss is
//     noticed: a Gap. So point-in-time recovery applies a prefix of what was written without a sync at each change of
//     logs, and a change of logs costs no fsync.
//   - What the chain does not name was given up: the torn tail, and the logs behind it, of a crash whose recovery made
//     a new log and then crashed too; and the remains of a write that failed. It is never applied, in no mode, so the
//     sequence numbers in it could be used again.
//
// It does not prove that the newest log is there to its end, or at all: nothing comes after it to tell. What was synced
// is there by the promise of fsync. Logs that RocksDB wrote have no such record (or its own, type 130, of which number
// and length are checked); they follow each other by number, as RocksDB has it.
//
// # Recovery
//
//	                         Tolerate…  Absolute…  PointInTime  SkipAny…
//	torn tail                end        refuse     stop         skip
//	unfinished record        end        end        stop         skip
//	bad record, hole, gap    refuse     refuse     stop         skip
//	old record (recycled)    end        end        stop         skip
//	bad batch, backwards     refuse     refuse     stop         skip
//	read error               refuse     refuse     refuse       skip
//
// "end" goes on with the next log, "skip" with the next place where a record may start. "stop" applies nothing more,
// unless a later log begins with exactly the sequence number that is due (RocksDB's rule): then nothing is missing. In a
// log of ours that is the first record behind the one that names the predecessor. Features that are not supported are
// refused in every mode. Damage and the verdict on it are in damage.go, the walk in recover.go.
//
// # Threads
//
// A Writer and a Reader belong to one goroutine. A Set is appended to by the write leader and used by everyone else
// under its own lock; it calls a file's Sync while Write may run, as vfs.File allows.
package wal
