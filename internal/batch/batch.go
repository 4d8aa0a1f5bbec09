// The tags and layout of a WriteBatch; see doc.go for the picture.
//
//  1. Writing appends and cannot fail. Lengths are the caller's to limit: keys and values fit 32 bits.
//  2. Reading never looks past the slice and never allocates; what it returns shares the slice's memory.

package batch

import (
	"encoding/binary"

	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/enc"
	"github.com/ashlardb/ashlar/internal/kv"
)

// HeaderSize is the length of what stands before the first record: the sequence number and the count.
const HeaderSize = 12

const (
	tagDelete            = 0x00
	tagPut               = 0x01
	tagMerge             = 0x02
	tagLogData           = 0x03
	tagFamilyDelete      = 0x04
	tagFamilyPut         = 0x05
	tagFamilyMerge       = 0x06
	tagSingleDelete      = 0x07
	tagFamilySingleDel   = 0x08
	tagBeginPrepare      = 0x09
	tagEndPrepare        = 0x0A
	tagCommit            = 0x0B
	tagRollback          = 0x0C
	tagNoop              = 0x0D
	tagFamilyDeleteRange = 0x0E
	tagDeleteRange       = 0x0F
	tagFamilyBlobIndex   = 0x10
	tagBlobIndex         = 0x11
	tagBeginPersisted    = 0x12
	tagBeginUnprepare    = 0x13
	tagCommitTimestamp   = 0x15
	tagWideColumn        = 0x16
	tagFamilyWideColumn  = 0x17
	tagTimedPut          = 0x18
	tagFamilyTimedPut    = 0x19
)

// Init appends the header of an empty batch: 12 zero bytes.
func Init(dst []byte) []byte { return append(dst, make([]byte, HeaderSize)...) }

// SetHeader writes the header of b, which has at least HeaderSize bytes.
func SetHeader(b []byte, seq kv.Seq, count uint32) {
	binary.LittleEndian.PutUint64(b, uint64(seq))
	binary.LittleEndian.PutUint32(b[8:], count)
}

// Seq is the sequence number of b's first counted record. b has at least HeaderSize bytes.
func Seq(b []byte) kv.Seq { return kv.Seq(binary.LittleEndian.Uint64(b)) }

// Count is the number of counted records that the header of b states. b has at least HeaderSize bytes.
func Count(b []byte) uint32 { return binary.LittleEndian.Uint32(b[8:]) }

// Body is what stands behind the header: the part of a batch that a group's record in the log takes over as it is. b
// has at least HeaderSize bytes.
func Body(b []byte) []byte { return b[HeaderSize:] }

// AppendPut appends a record that sets key to value.
func AppendPut(dst []byte, family uint32, key, value []byte) []byte {
	dst = appendTag(dst, family, tagPut, tagFamilyPut)
	return enc.AppendBytes(enc.AppendBytes(dst, key), value)
}

// AppendDelete appends a record that deletes key.
func AppendDelete(dst []byte, family uint32, key []byte) []byte {
	dst = appendTag(dst, family, tagDelete, tagFamilyDelete)
	return enc.AppendBytes(dst, key)
}

// AppendSingleDelete appends a record that deletes a key which was put once.
func AppendSingleDelete(dst []byte, family uint32, key []byte) []byte {
	dst = appendTag(dst, family, tagSingleDelete, tagFamilySingleDel)
	return enc.AppendBytes(dst, key)
}

// AppendMerge appends a record that adds a merge operand to key.
func AppendMerge(dst []byte, family uint32, key, operand []byte) []byte {
	dst = appendTag(dst, family, tagMerge, tagFamilyMerge)
	return enc.AppendBytes(enc.AppendBytes(dst, key), operand)
}

// AppendDeleteRange appends a record that deletes the keys from begin (included) to end (excluded).
func AppendDeleteRange(dst []byte, family uint32, begin, end []byte) []byte {
	dst = appendTag(dst, family, tagDeleteRange, tagFamilyDeleteRange)
	return enc.AppendBytes(enc.AppendBytes(dst, begin), end)
}

// AppendLogData appends a blob that goes to the log and nowhere else. It takes no sequence number.
func AppendLogData(dst, blob []byte) []byte {
	return enc.AppendBytes(append(dst, tagLogData), blob)
}

func appendTag(dst []byte, family uint32, plain, withFamily byte) []byte {
	if family == 0 {
		return append(dst, plain)
	}
	return binary.AppendUvarint(append(dst, withFamily), uint64(family))
}

// A Record is one record of a batch. Its slices share the batch's memory.
type Record struct {
	// Kind is KindValue, KindDelete, KindSingleDel, KindMerge or KindRangeDelete.
	Kind kv.Kind
	// LogData says that the record is a blob for the log, which Key holds: it has no Kind and takes no sequence number.
	LogData bool
	// Family is the number of the column family; 0 is the default one.
	Family uint32
	// Key is the user key; for KindRangeDelete the first key deleted.
	Key []byte
	// Value is the value or merge operand; for KindRangeDelete the first key behind the range.
	Value []byte
}

// A Reader walks the records of one batch. It is a value; copying it copies the position.
type Reader struct {
	rest []byte
	size int
}

// NewReader returns a Reader at the first record of b. The bytes of b must not change while it is used.
func NewReader(b []byte) Reader {
	if len(b) < HeaderSize {
		return Reader{rest: nil, size: -1 - len(b)}
	}
	return Reader{rest: b[HeaderSize:], size: len(b)}
}

// Next returns the next record. At the end ok is false and err nil. An error names the place in the batch, matches
// corrupt.Err or corrupt.ErrNotSupported, and is returned again by every later call.
func (r *Reader) Next() (rec Record, ok bool, err error) {
	if r.size < 0 {
		return Record{}, false, corrupt.At("batch", 0, "%d bytes are too short for a header", -1-r.size)
	}
	b := r.rest
	for len(b) > 0 && b[0] == tagNoop {
		b = b[1:]
	}
	if len(b) == 0 {
		r.rest = b
		return Record{}, false, nil
	}
	tag := b[0]
	b = b[1:]
	ok = true
	switch tag {
	case tagFamilyPut, tagFamilyDelete, tagFamilySingleDel, tagFamilyMerge, tagFamilyDeleteRange:
		rec.Family, b, ok = enc.Uvarint32(b)
	}
	pair := false
	switch tag {
	case tagPut, tagFamilyPut:
		rec.Kind, pair = kv.KindValue, true
	case tagDelete, tagFamilyDelete:
		rec.Kind = kv.KindDelete
	case tagSingleDelete, tagFamilySingleDel:
		rec.Kind = kv.KindSingleDel
	case tagMerge, tagFamilyMerge:
		rec.Kind, pair = kv.KindMerge, true
	case tagDeleteRange, tagFamilyDeleteRange:
		rec.Kind, pair = kv.KindRangeDelete, true
	case tagLogData:
		rec.LogData = true
	default:
		return Record{}, false, r.refuse(tag)
	}
	if ok {
		rec.Key, b, ok = enc.Bytes(b)
	}
	if ok && pair {
		rec.Value, b, ok = enc.Bytes(b)
	}
	if !ok {
		return Record{}, false, corrupt.At("batch", r.offset(), "record with tag %#02x is cut short", tag)
	}
	r.rest = b
	return rec, true, nil
}

// offset is where the next record (or the noops before it) starts in the batch.
func (r *Reader) offset() int64 { return int64(r.size - len(r.rest)) }

func (r *Reader) refuse(tag byte) error {
	var what string
	switch tag {
	case tagBeginPrepare, tagEndPrepare, tagCommit, tagRollback, tagBeginPersisted, tagBeginUnprepare, tagCommitTimestamp:
		what = "two-phase commit"
	case tagBlobIndex, tagFamilyBlobIndex:
		what = "blob index"
	case tagWideColumn, tagFamilyWideColumn:
		what = "wide columns"
	case tagTimedPut, tagFamilyTimedPut:
		what = "timed put"
	default:
		return corrupt.At("batch", r.offset(), "unknown tag %#02x", tag)
	}
	return corrupt.Unsupported("batch", r.offset(), "%s (tag %#02x)", what, tag)
}

// Validate reads all of b and returns nil when every record is whole, the header counts them rightly, and their
// sequence numbers fit. The error is as that of Reader.Next.
func Validate(b []byte) error {
	r := NewReader(b)
	n := uint64(0)
	for {
		rec, ok, err := r.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if !rec.LogData {
			n++
		}
	}
	if want := uint64(Count(b)); n != want {
		return corrupt.At("batch", 8, "the header counts %d records, there are %d", want, n)
	}
	if seq := Seq(b); seq > kv.MaxSeq || n > 0 && uint64(kv.MaxSeq-seq) < n-1 {
		return corrupt.At("batch", 0, "sequence number %d with %d records does not fit 56 bits", seq, n)
	}
	return nil
}
