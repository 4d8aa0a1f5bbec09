package kv

import (
	"encoding/binary"
	"fmt"
)

// Seq is a sequence number. Each entry that is written gets the next one; 56 bits are stored.
type Seq uint64

// MaxSeq is the largest sequence number that a trailer can hold.
const MaxSeq Seq = 1<<56 - 1

// Kind says what an entry is. The numbers are RocksDB's ValueType, as on disk.
type Kind uint8

// Kinds that appear in tables and memtables. The tags of a batch in the log are in internal/batch.
const (
	KindDelete      Kind = 0x00
	KindValue       Kind = 0x01
	KindMerge       Kind = 0x02
	KindSingleDel   Kind = 0x07
	KindRangeDelete Kind = 0x0F
	KindBlobIndex   Kind = 0x11
	KindWideColumn  Kind = 0x16
	KindTimedPut    Kind = 0x18

	// KindSeparator is the kind that RocksDB 7.8 gives the shortened keys of an index block.
	KindSeparator Kind = 0x16
	// KindMax sorts before every stored kind at the same sequence; it is used to seek and never stored.
	KindMax Kind = 0x7F
)

func (k Kind) String() string {
	switch k {
	case KindDelete:
		return "DEL"
	case KindValue:
		return "SET"
	case KindMerge:
		return "MERGE"
	case KindSingleDel:
		return "SINGLEDEL"
	case KindRangeDelete:
		return "RANGEDEL"
	case KindMax:
		return "MAX"
	}
	return fmt.Sprintf("KIND(%#x)", uint8(k))
}

// Trailer is sequence<<8 | kind.
type Trailer uint64

// TrailerSize is the number of bytes that a trailer takes behind a user key.
const TrailerSize = 8

// MakeTrailer puts a sequence number and a kind together.
func MakeTrailer(s Seq, k Kind) Trailer { return Trailer(s)<<8 | Trailer(k) }

// Seq returns the sequence number.
func (t Trailer) Seq() Seq { return Seq(t >> 8) }

// Kind returns the kind.
func (t Trailer) Kind() Kind { return Kind(t) }

// Key is an internal key.
type Key struct {
	User    []byte
	Trailer Trailer
}

// MakeKey returns the internal key of user at sequence s with kind k. It keeps user.
func MakeKey(user []byte, s Seq, k Kind) Key { return Key{user, MakeTrailer(s, k)} }

// SeekKey returns the key that sorts before every version of user that a reader at sequence s may see and after every
// version that it may not.
func SeekKey(user []byte, s Seq) Key { return Key{user, MakeTrailer(s, KindMax)} }

// Seq returns the key's sequence number.
func (k Key) Seq() Seq { return k.Trailer.Seq() }

// Kind returns the key's kind.
func (k Key) Kind() Kind { return k.Trailer.Kind() }

// Size is the length of the encoded key.
func (k Key) Size() int { return len(k.User) + TrailerSize }

// Append appends the encoded key to dst.
func (k Key) Append(dst []byte) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, k.User...), uint64(k.Trailer))
}

// Clone returns a key that shares no memory with k.
func (k Key) Clone() Key { return Key{append([]byte{}, k.User...), k.Trailer} }

func (k Key) String() string { return fmt.Sprintf("%q#%d,%s", k.User, k.Seq(), k.Kind()) }

// ParseKey splits an encoded internal key. The result shares b's memory. It is false when b is too short to hold a
// trailer.
func ParseKey(b []byte) (Key, bool) {
	n := len(b) - TrailerSize
	if n < 0 {
		return Key{}, false
	}
	return Key{b[:n:n], Trailer(binary.LittleEndian.Uint64(b[n:]))}, true
}

// Range is a range of user keys. Start is included; End is included when EndInclusive is set. A nil bound is open.
type Range struct {
	Start, End   []byte
	EndInclusive bool
}
