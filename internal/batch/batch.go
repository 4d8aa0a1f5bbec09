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

// AppendBeginPrepare, AppendEndPrepare, AppendCommit and AppendRollback append the marks of a two-phase commit. What stands
// between the first two is prepared under the name of the second; see Mark.
func AppendBeginPrepare(dst []byte) []byte            { return append(dst, tagBeginPrepare) }
func AppendEndPrepare(dst []byte, name string) []byte { return appendMark(dst, tagEndPrepare, name) }
func AppendCommit(dst []byte, name string) []byte     { return appendMark(dst, tagCommit, name) }
func AppendRollback(dst []byte, name string) []byte   { return appendMark(dst, tagRollback, name) }

func appendMark(dst []byte, tag byte, name string) []byte {
	dst = binary.AppendUvarint(append(dst, tag), uint64(len(name)))
	return append(dst, name...)
}

func appendTag(dst []byte, family uint32, plain, withFamily byte) []byte {
	if family == 0 {
		return append(dst, plain)
	}
	return binary.AppendUvarint(append(dst, withFamily), uint64(family))
}

// Mark says what a record is to a two-phase commit (RocksDB's WriteCommitted).
type Mark uint8

const (
	// NoMark: the record is a write or log data.
	NoMark Mark = iota
	// BeginPrepare: the writes from here to EndPrepare are prepared, not done. They are counted and take no sequence
	// numbers.
	BeginPrepare
	// EndPrepare names what was prepared.
	EndPrepare
	// Commit does what was prepared under the name, with the numbers that are due. It is not counted, and takes as many
	// numbers as there are writes.
	Commit
	// Rollback forgets what was prepared under the name.
	Rollback
)

// A Record is one record of a batch. Its slices share the batch's memory.
type Record struct {
	// Kind is KindValue, KindDelete, KindSingleDel, KindMerge or KindRangeDelete.
	Kind kv.Kind
	// LogData says that the record is a blob for the log, which Key holds: it has no Kind and takes no sequence number.
	LogData bool
	// Mark is set for the marks of two-phase commits, which have no Kind. Key is the name, but for BeginPrepare.
	Mark Mark
	// Family is the number of the column family; 0 is the default one.
	Family uint32
	// Key is the user key; for KindRangeDelete the first key deleted.
	Key []byte
	// Value is the value or merge operand; for KindRangeDelete the first key behind the range.
	Value []byte
}

// A Reader walks the records of one batch. It is a value; copying it copies the position.
type Reader struct {
	rest  []byte
	size  int
	marks bool // are read, not refused
}

// NewReader returns a Reader at the first record of b. The bytes of b must not change while it is used.
func NewReader(b []byte) Reader {
	if len(b) < HeaderSize {
		return Reader{rest: nil, size: -1 - len(b)}
	}
	return Reader{rest: b[HeaderSize:], size: len(b)}
}

// NewLogReader returns a Reader for what a log holds: marks of two-phase commits are records too, which NewReader's
// refuses.
func NewLogReader(b []byte) Reader {
	r := NewReader(b)
	r.marks = true
	return r
}

// At returns r moved to the record that begins at off, which Offset returned when it was next.
func (r Reader) At(off int64) Reader {
	r.rest = r.rest[off-r.Offset():]
	return r
}

// Bytes returns the records from here to end, which Offset returned behind the last of them.
func (r Reader) Bytes(end int64) []byte { return r.rest[:end-r.Offset()] }

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
	if r.marks {
		switch tag {
		case tagBeginPrepare:
			r.rest = b
			return Record{Mark: BeginPrepare}, true, nil
		case tagEndPrepare:
			rec.Mark = EndPrepare
		case tagCommit:
			rec.Mark = Commit
		case tagRollback:
			rec.Mark = Rollback
		}
	}
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
		if rec.Mark == NoMark {
			return Record{}, false, r.refuse(tag)
		}
	}
	if ok {
		rec.Key, b, ok = enc.Bytes(b)
	}
	if ok && pair {
		rec.Value, b, ok = enc.Bytes(b)
	}
	if !ok {
		return Record{}, false, corrupt.At("batch", r.Offset(), "record with tag %#02x is cut short", tag)
	}
	r.rest = b
	return rec, true, nil
}

// Offset is where the next record (or the noops before it) starts in the batch.
func (r *Reader) Offset() int64 { return int64(r.size - len(r.rest)) }

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
		return corrupt.At("batch", r.Offset(), "unknown tag %#02x", tag)
	}
	return corrupt.Unsupported("batch", r.Offset(), "%s (tag %#02x)", what, tag)
}

// Validate reads all of b and returns nil when every record is whole, the header counts them rightly, and their
// sequence numbers fit. The error is as that of Reader.Next.
func Validate(b []byte) error {
	_, err := validate(b, NewReader(b))
	return err
}

// ValidateLog is Validate for what a log holds. Marks of two-phase commits are allowed, in the right order; marked tells
// whether there are any.
func ValidateLog(b []byte) (marked bool, err error) { return validate(b, NewLogReader(b)) }

func validate(b []byte, r Reader) (marked bool, err error) {
	n := uint64(0)
	preparing := false
	for {
		off := r.Offset()
		rec, ok, err := r.Next()
		if err != nil {
			return marked, err
		}
		if !ok {
			break
		}
		switch {
		case rec.Mark != NoMark:
			if preparing != (rec.Mark == EndPrepare) {
				return marked, corrupt.At("batch", off, "a mark of a two-phase commit is out of place")
			}
			marked, preparing = true, rec.Mark == BeginPrepare
		case !rec.LogData:
			n++
		}
	}
	if preparing {
		return marked, corrupt.At("batch", int64(len(b)), "a prepared part has no end")
	}
	if want := uint64(Count(b)); n != want {
		return marked, corrupt.At("batch", 8, "the header counts %d records, there are %d", want, n)
	}
	if seq := Seq(b); seq > kv.MaxSeq || n > 0 && uint64(kv.MaxSeq-seq) < n-1 {
		return marked, corrupt.At("batch", 0, "sequence number %d with %d records does not fit 56 bits", seq, n)
	}
	return marked, nil
}
