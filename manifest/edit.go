package manifest

// This file owns the form of an edit, one record of the manifest: fields in any order, without an end mark.
//
//	+-----------+---------+-----------+---------+
//	| tag (v32) | payload | tag (v32) | payload | …          v32, v64: varint; lps: v32 length, then the bytes
//	+-----------+---------+-----------+---------+
//
//	  1 comparer           lps name                 200 family           v32 id; without it the edit is about family 0
//	  2 log number         v64                      201 add family       lps name
//	  3 next file number   v64                      202 drop family      -
//	  4 last sequence      v64                      203 largest family   v32 id
//	  5 compaction cursor  v32 level, lps key       300 in atomic group  v32 edits still to come
//	  6 deleted file       v32 level, v64 number    400, 401, 8194, 8195 blob files: not supported
//	  7, 100, 102, 103     new file (below)         8193 database id     lps
//	  9 previous log       v64, always 0            8196, 8197           logs, without a length in front
//	 10 least log to keep  v64                      8192 + n             lps, to be skipped if unknown
//
//	new file, tag 103:
//	+-----------+--------------+------------+---------------+--------------+--------------------+-------------------+
//	| level v32 | number v64   | size v64   | smallest lps  | largest lps  | smallest seq v64   | largest seq v64   |
//	+-----------+--------------+------------+---------------+--------------+--------------------+-------------------+
//	| custom field: v32 tag, lps value | … | v32 1
//	+----------------------------------+---+------
//
// Tag 102 is the same with a v32 path after the number and no custom fields; 100 without the path; 7 without the
// sequence numbers as well.

import (
	"encoding/binary"
	"fmt"

	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/enc"
	"github.com/ashlardb/ashlar/internal/kv"
)

// MaxLevels is the number of levels that the format is read with. A family may have fewer.
const MaxLevels = 64

const (
	tagComparer       = 1
	tagLogNumber      = 2
	tagNextFile       = 3
	tagLastSeq        = 4
	tagCompactCursor  = 5
	tagDeletedFile    = 6
	tagNewFile        = 7
	tagPrevLog        = 9
	tagMinLogToKeep   = 10
	tagNewFile2       = 100
	tagNewFile3       = 102
	tagNewFile4       = 103
	tagFamily         = 200
	tagAddFamily      = 201
	tagDropFamily     = 202
	tagMaxFamily      = 203
	tagInGroup        = 300
	tagBlobAdd        = 400
	tagBlobGarbage    = 401
	tagIgnorable      = 8192 // this bit marks a tag that may be skipped
	tagDBID           = 8193
	tagOldBlobAdd     = 8194
	tagOldBlobGarbage = 8195
	tagOldWALAdd      = 8196
	tagOldWALDelete   = 8197
	tagFullHistoryLow = 8198
)

// Custom fields of a new file.
const (
	fieldEnd             = 1
	fieldNeedCompaction  = 2
	fieldMinLogToKeep    = 3
	fieldOldestBlob      = 4
	fieldOldestAncestor  = 5
	fieldCreationTime    = 6
	fieldMinTimestamp    = 10
	fieldMaxTimestamp    = 11
	fieldUniqueID        = 12
	fieldEpoch           = 13
	fieldRangeDeleteSize = 14
	fieldTailSize        = 15
	fieldUserTimeKept    = 16
	fieldMustKnow        = 64 // this bit marks a field that may not be skipped
	fieldPath            = 65
)

// Edit is a change to one family, and to what all families share. A nil pointer or an empty string changes nothing.
type Edit struct {
	Family uint32
	// AddFamily is the name of a family that this edit creates under the id Family; Comparer goes with it.
	AddFamily  string
	DropFamily bool
	Comparer   string

	Add    []AddedFile
	Delete []DeletedFile
	// LogNumber says that logs below it hold nothing for the family any more.
	LogNumber *uint64

	// These are about the whole database. Apply fills in NextFile, LastSeq and MaxFamily, and raises MinLogToKeep.
	NextFile     *uint64
	LastSeq      *kv.Seq
	MinLogToKeep *uint64
	MaxFamily    *uint32
	PrevLog      *uint64
	DBID         string

	// InGroup marks an edit of an atomic group, of which Remaining more follow. Apply sets both.
	InGroup   bool
	Remaining uint32
}

// AddedFile puts a file on a level.
type AddedFile struct {
	Level int
	File  *File
}

// DeletedFile takes a file from a level.
type DeletedFile struct {
	Level int
	Num   uint64
}

// Append appends the encoded edit to dst. An edit that changes nothing has no bytes.
func (e *Edit) Append(dst []byte) []byte {
	if e.DBID != "" {
		dst = appendString(dst, tagDBID, e.DBID)
	}
	if e.Comparer != "" {
		dst = appendString(dst, tagComparer, e.Comparer)
	}
	dst = appendNumber(dst, tagLogNumber, e.LogNumber)
	dst = appendNumber(dst, tagPrevLog, e.PrevLog)
	dst = appendNumber(dst, tagNextFile, e.NextFile)
	dst = appendNumber(dst, tagMaxFamily, e.MaxFamily)
	dst = appendNumber(dst, tagMinLogToKeep, e.MinLogToKeep)
	dst = appendNumber(dst, tagLastSeq, e.LastSeq)
	for _, d := range e.Delete {
		dst = binary.AppendUvarint(dst, tagDeletedFile)
		dst = binary.AppendUvarint(dst, uint64(d.Level))
		dst = binary.AppendUvarint(dst, d.Num)
	}
	for _, a := range e.Add {
		dst = a.File.append(dst, a.Level)
	}
	if e.Family != 0 {
		dst = appendNumber(dst, tagFamily, &e.Family)
	}
	if e.AddFamily != "" {
		dst = appendString(dst, tagAddFamily, e.AddFamily)
	}
	if e.DropFamily {
		dst = binary.AppendUvarint(dst, tagDropFamily)
	}
	if e.InGroup {
		dst = appendNumber(dst, tagInGroup, &e.Remaining)
	}
	return dst
}

// append appends f as a new file, with the fields in the order in which RocksDB writes them.
func (f *File) append(dst []byte, level int) []byte {
	dst = binary.AppendUvarint(dst, tagNewFile4)
	dst = binary.AppendUvarint(dst, uint64(level))
	dst = binary.AppendUvarint(dst, f.Num)
	dst = binary.AppendUvarint(dst, f.Size)
	dst = appendKey(dst, f.Smallest)
	dst = appendKey(dst, f.Largest)
	dst = binary.AppendUvarint(dst, uint64(f.SmallestSeq))
	dst = binary.AppendUvarint(dst, uint64(f.LargestSeq))
	dst = appendNumberField(dst, fieldOldestAncestor, f.OldestAncestorTime)
	dst = appendNumberField(dst, fieldCreationTime, f.CreationTime)
	if f.Epoch != 0 {
		dst = appendNumberField(dst, fieldEpoch, f.Epoch)
	}
	dst = append(dst, f.extra...)
	if f.MarkedForCompaction {
		dst = append(dst, fieldNeedCompaction, 1, 1)
	}
	if f.UniqueID != [16]byte{} {
		dst = enc.AppendBytes(append(dst, fieldUniqueID), f.UniqueID[:])
	}
	if f.CompensatedRangeDeletionSize != 0 {
		dst = appendNumberField(dst, fieldRangeDeleteSize, f.CompensatedRangeDeletionSize)
	}
	if f.TailSize != 0 {
		dst = appendNumberField(dst, fieldTailSize, f.TailSize)
	}
	return append(dst, fieldEnd)
}

func appendString(dst []byte, tag uint64, s string) []byte {
	dst = binary.AppendUvarint(dst, tag)
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendNumber[T uint32 | uint64 | kv.Seq](dst []byte, tag uint64, v *T) []byte {
	if v == nil {
		return dst
	}
	return binary.AppendUvarint(binary.AppendUvarint(dst, tag), uint64(*v))
}

func appendKey(dst []byte, k kv.Key) []byte {
	return k.Append(binary.AppendUvarint(dst, uint64(k.Size())))
}

func appendNumberField(dst []byte, field byte, v uint64) []byte {
	var b [binary.MaxVarintLen64]byte
	return enc.AppendBytes(append(dst, field), b[:binary.PutUvarint(b[:], v)])
}

// Decode replaces e by the edit in b, a record of the manifest at path that begins at off. Nothing in e shares b's
// memory. Errors are corruption or match corrupt.ErrNotSupported.
func (e *Edit) Decode(path string, off int64, b []byte) error {
	*e = Edit{}
	d := decoder{path: path, off: off, rest: b}
	for len(d.rest) > 0 && d.err == nil {
		tag := d.uint32("tag")
		if d.err == nil {
			e.decodeField(&d, tag)
		}
	}
	return d.err
}

func (e *Edit) decodeField(d *decoder, tag uint32) {
	switch tag {
	case tagComparer:
		e.Comparer = string(d.bytes("comparer"))
	case tagLogNumber:
		e.LogNumber = new(d.uint64("log number"))
	case tagNextFile:
		e.NextFile = new(d.uint64("next file number"))
	case tagLastSeq:
		e.LastSeq = new(d.seq("last sequence"))
	case tagCompactCursor:
		d.level()
		d.bytes("compaction cursor")
	case tagDeletedFile:
		level := d.level()
		e.Delete = append(e.Delete, DeletedFile{Level: level, Num: d.uint64("deleted file")})
	case tagNewFile, tagNewFile2, tagNewFile3, tagNewFile4:
		e.decodeFile(d, tag)
	case tagPrevLog:
		e.PrevLog = new(d.uint64("previous log"))
	case tagMinLogToKeep:
		e.keepLogs(d.uint64("least log to keep"))
	case tagFamily:
		e.Family = d.uint32("family")
	case tagAddFamily:
		if e.AddFamily = string(d.bytes("family name")); e.AddFamily == "" {
			d.fail("a family without a name")
		}
	case tagDropFamily:
		e.DropFamily = true
	case tagMaxFamily:
		e.MaxFamily = new(d.uint32("largest family"))
	case tagInGroup:
		e.InGroup, e.Remaining = true, d.uint32("atomic group")
	case tagDBID:
		e.DBID = string(d.bytes("database id"))
	default:
		d.skip(tag)
	}
}

// keepLogs raises MinLogToKeep, which may stand in an edit twice: as a field of its own and, for releases that skipped
// that, as one of a file's.
func (e *Edit) keepLogs(n uint64) {
	if e.MinLogToKeep == nil || *e.MinLogToKeep < n {
		e.MinLogToKeep = &n
	}
}

func (e *Edit) decodeFile(d *decoder, tag uint32) {
	f := new(File)
	level := d.level()
	f.Num = d.uint64("file number")
	if tag == tagNewFile3 && d.uint32("path") != 0 {
		d.unsupported("file %06d lies outside the database's directory", f.Num)
	}
	f.Size = d.uint64("file size")
	f.Smallest, f.Largest = d.key("smallest key"), d.key("largest key")
	if tag != tagNewFile {
		f.SmallestSeq, f.LargestSeq = d.seq("smallest sequence"), d.seq("largest sequence")
	}
	if tag == tagNewFile4 {
		e.decodeCustom(d, f)
	}
	if d.err == nil {
		e.Add = append(e.Add, AddedFile{Level: level, File: f})
	}
}

func (e *Edit) decodeCustom(d *decoder, f *File) {
	for d.err == nil {
		field := d.uint32("field of a file")
		if field == fieldEnd || d.err != nil {
			return
		}
		v := decoder{path: d.path, off: d.off, rest: d.bytes("field of a file")}
		if d.err != nil {
			return
		}
		whole := true
		switch field {
		case fieldNeedCompaction:
			f.MarkedForCompaction = len(v.rest) == 1 && v.rest[0] == 1
			whole = false
		case fieldMinLogToKeep:
			e.keepLogs(v.fixed64("least log to keep"))
		case fieldOldestBlob:
			if v.uint64("oldest blob file") != 0 {
				v.unsupported("file %06d has values in blob files", f.Num)
			}
		case fieldOldestAncestor:
			f.OldestAncestorTime = v.uint64("oldest ancestor time")
		case fieldCreationTime:
			f.CreationTime = v.uint64("creation time")
		case fieldUniqueID:
			if len(v.rest) != len(f.UniqueID) {
				v.fail("unique id of %d bytes", len(v.rest))
			}
			v.rest = v.rest[copy(f.UniqueID[:], v.rest):]
		case fieldEpoch:
			f.Epoch = v.uint64("epoch")
		case fieldRangeDeleteSize:
			f.CompensatedRangeDeletionSize = v.uint64("compensated range deletion size")
		case fieldTailSize:
			f.TailSize = v.uint64("tail size")
		case fieldMinTimestamp, fieldMaxTimestamp, fieldUserTimeKept:
			v.unsupported("file %06d has user-defined timestamps", f.Num)
		case fieldPath:
			if len(v.rest) != 1 || v.rest[0] != 0 {
				v.unsupported("file %06d lies outside the database's directory", f.Num)
			}
			whole = false
		default:
			if field&fieldMustKnow != 0 {
				v.unsupported("file %06d has a field %d, which may not be skipped", f.Num, field)
			}
			f.extra = enc.AppendBytes(binary.AppendUvarint(f.extra, uint64(field)), v.rest)
			whole = false
		}
		if whole && v.err == nil && len(v.rest) > 0 {
			v.fail("field %d of file %06d is %d bytes too long", field, f.Num, len(v.rest))
		}
		d.err = v.err
	}
}

// A decoder takes an edit apart from the front. After the first error it returns zeros.
type decoder struct {
	path string
	off  int64
	rest []byte
	err  error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = corrupt.At(d.path, d.off, "edit: %s", fmt.Sprintf(format, args...))
		d.rest = nil
	}
}

func (d *decoder) unsupported(format string, args ...any) {
	if d.err == nil {
		d.err = corrupt.Unsupported(d.path, d.off, "edit: %s", fmt.Sprintf(format, args...))
		d.rest = nil
	}
}

// take moves on to rest, or fails.
func (d *decoder) take(rest []byte, ok bool, what string) {
	if !ok {
		d.fail("the %s is damaged", what)
		return
	}
	d.rest = rest
}

func (d *decoder) uint32(what string) uint32 {
	v, rest, ok := enc.Uvarint32(d.rest)
	d.take(rest, ok, what)
	return v
}

func (d *decoder) uint64(what string) uint64 {
	v, rest, ok := enc.Uvarint(d.rest)
	d.take(rest, ok, what)
	return v
}

func (d *decoder) fixed64(what string) uint64 {
	v, rest, ok := enc.Fixed64(d.rest)
	d.take(rest, ok, what)
	return v
}

func (d *decoder) bytes(what string) []byte {
	p, rest, ok := enc.Bytes(d.rest)
	d.take(rest, ok, what)
	return p
}

func (d *decoder) seq(what string) kv.Seq {
	v := d.uint64(what)
	if v > uint64(kv.MaxSeq) {
		d.fail("the %s %d is out of range", what, v)
	}
	return kv.Seq(v)
}

func (d *decoder) level() int {
	v := d.uint32("level")
	if v >= MaxLevels {
		d.fail("level %d is out of range", v)
	}
	return int(v)
}

func (d *decoder) key(what string) kv.Key {
	p := d.bytes(what)
	if d.err != nil {
		return kv.Key{}
	}
	k, ok := kv.ParseKey(p)
	if !ok {
		d.fail("the %s has %d bytes", what, len(p))
		return kv.Key{}
	}
	return k.Clone()
}

// skip passes over a field that changes nothing for us, or fails if it may not be passed over.
func (d *decoder) skip(tag uint32) {
	switch tag {
	case tagBlobAdd, tagBlobGarbage, tagOldBlobAdd, tagOldBlobGarbage:
		d.unsupported("blob files")
	case tagOldWALAdd:
		d.uint64("log number")
		for d.err == nil {
			switch field := d.uint32("field of a log"); field {
			case 1:
				return
			case 2:
				d.uint64("synced size of a log")
			default:
				d.fail("unknown field %d of a log", field)
			}
		}
	case tagOldWALDelete:
		d.uint64("log number")
	case tagFullHistoryLow:
		if len(d.bytes("oldest timestamp")) > 0 {
			d.unsupported("user-defined timestamps")
		}
	default:
		if tag&tagIgnorable == 0 {
			d.fail("unknown tag %d", tag)
		}
		d.bytes("skipped field")
	}
}
