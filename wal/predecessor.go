// The first record of each log of ours says what came before it. doc.go tells what that proves.
//
// The record is an empty batch with one blob of log data, so that RocksDB of every release replays past it:
//
//	 0        8          12     13     14      22       30      38        46
//	+--------+----------+------+------+-------+--------+-------+---------+
//	| last+1 | count 0  | 0x03 | 0x20 | magic | number | length| last    |
//	+--------+----------+------+------+-------+--------+-------+---------+
//	 batch header        log data,     "ashlarP1" of the previous log: its number, how many of its
//	                     32 bytes                 bytes count, the last sequence number up to there
//
// The batch's sequence number is the next one: RocksDB, which takes the first sequence of a log for proof that it
// continues where the log before ended, then judges our logs rightly too.

package wal

import (
	"encoding/binary"
	"math"

	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/internal/kv"
)

const (
	predecessorMagic = "ashlarP1"
	predecessorBlob  = len(predecessorMagic) + 24
	predecessorSize  = batch.HeaderSize + 2 + predecessorBlob
)

// Predecessor describes a log as the next log sees it. The zero value says that there is none.
type Predecessor struct {
	Number uint64
	// Size is how many bytes of the log count: up to the end of its last good record. What is in the file behind that
	// is the rest of a failed write, or was given up by a recovery.
	Size int64
	// LastSeq is the last sequence number in the log or in those before it.
	LastSeq kv.Seq
}

// appendPredecessor appends the record that says that p came before.
func appendPredecessor(dst []byte, p Predecessor) []byte {
	blob := make([]byte, 0, predecessorBlob)
	blob = append(blob, predecessorMagic...)
	blob = binary.LittleEndian.AppendUint64(blob, p.Number)
	blob = binary.LittleEndian.AppendUint64(blob, uint64(p.Size))
	blob = binary.LittleEndian.AppendUint64(blob, uint64(p.LastSeq))
	start := len(dst)
	dst = batch.AppendLogData(batch.Init(dst), blob)
	batch.SetHeader(dst[start:], min(p.LastSeq+1, kv.MaxSeq), 0)
	return dst
}

// parsePredecessor returns what rec says when it is such a record.
func parsePredecessor(rec []byte) (p Predecessor, ok bool) {
	const start = batch.HeaderSize + 2
	if len(rec) != predecessorSize || batch.Count(rec) != 0 || batch.Validate(rec) != nil ||
		string(rec[start:start+len(predecessorMagic)]) != predecessorMagic {
		return p, false
	}
	return parsePredecessorFields(rec[start+len(predecessorMagic):])
}

// parsePredecessorFields decodes number, length and last sequence: the end of our blob and the whole payload of
// RocksDB's record of type 130.
func parsePredecessorFields(b []byte) (p Predecessor, ok bool) {
	p.Number = binary.LittleEndian.Uint64(b)
	size := binary.LittleEndian.Uint64(b[8:])
	p.Size = int64(size)
	p.LastSeq = kv.Seq(binary.LittleEndian.Uint64(b[16:]))
	return p, size <= math.MaxInt64 && p.LastSeq <= kv.MaxSeq
}
