package store

import (
	"encoding/binary"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
)

// Families are the column families that a region lives in.
type Families struct{ Default, Lock, Write, Raft *ashlar.ColumnFamily }

const (
	dataPrefix    = 'z'
	localPrefix   = 1
	sessionPrefix = 4 // behind localPrefix; raftapply and the log have 2
)

// dataKey is a user's key in lock and write; with S behind it, it is one of default.
func dataKey(id raftapply.RegionID, key []byte) []byte {
	p := make([]byte, 0, 1+8+len(key)+8)
	return append(binary.BigEndian.AppendUint64(append(p, dataPrefix), uint64(id)), key...)
}

// valueKey appends S to what dataKey returned.
func valueKey(data []byte, start uint64) []byte {
	return binary.BigEndian.AppendUint64(data[:len(data):len(data)], start)
}

func sessionKey(id raftapply.RegionID, client uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{localPrefix, sessionPrefix}, uint64(id)), client)
}

// Span is a part of a family: begin <= key < end.
type Span struct {
	Family     *ashlar.ColumnFamily
	Begin, End []byte
}

// Spans is where a region's data is: what a snapshot carries, and what is wiped when it is replaced.
func (f Families) Spans(id raftapply.RegionID) []Span {
	begin, end := dataKey(id, nil), dataKey(id+1, nil)
	return []Span{
		{f.Default, begin, end}, {f.Lock, begin, end}, {f.Write, begin, end},
		{f.Raft, sessionKey(id, 0), sessionKey(id+1, 0)},
	}
}
