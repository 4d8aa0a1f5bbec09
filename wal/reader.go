// A Reader takes records out of a log or manifest, and says precisely what is wrong when it cannot.
//
//  1. It reads one block at a time and never past the size it was given. A length is checked against the block before
//     it is used.
//  2. After damage it stays where it is: Next returns the same *Damage until Resume moves on. Each Resume moves forward,
//     so reading ends.
//  3. Zeros are the end only when nothing but zeros follows, or what a record that was being stored leaves.

package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"

	"github.com/ashlardb/ashlar/internal/corrupt"
)

// Reader reads the records of one file in order. It belongs to one goroutine.
type Reader struct {
	file   io.ReaderAt
	path   string
	number uint64
	size   int64

	block    []byte // the bytes of the block at blockOff, as many as there are
	blockOff int64
	off      int64 // where the next fragment starts
	end      int64 // behind the last good record

	rec      []byte // fragments so far of the record at recStart
	recStart int64
	inRecord bool

	recycled bool // the log has fragments that name their log
	control  bool // only records about the log were seen so far, no data
	orphans  bool // a block was dropped: fragments without a beginning are what is left of a dropped record
	afterOld bool // resumed after a record of the file's earlier life: pass over more of them

	failed   error // what Next returns until Resume; always, if it is no *Damage
	resumeAt int64

	zstd   *zstd.Decoder // set when the log is compressed
	source bytes.Reader
	plain  []byte

	rocks    Predecessor // from RocksDB's record of type 130
	hasRocks bool
}

// NewReader returns a Reader of the first size bytes of f. path is used in errors; logNumber tells records of a recycled
// file's earlier life from its own.
func NewReader(f io.ReaderAt, size int64, path string, logNumber uint64) *Reader {
	return &Reader{file: f, path: path, number: logNumber, size: size, blockOff: -1, control: true}
}

// End is the offset behind the last record that Next returned.
func (r *Reader) End() int64 { return r.end }

// Next returns the next record and where it starts in the file. The record lives until the next call. The error is
// io.EOF at a clean end, *Damage, or one that matches corrupt.ErrNotSupported.
func (r *Reader) Next() (rec []byte, off int64, err error) {
	if r.failed != nil {
		return nil, 0, r.failed
	}
	for {
		typ, payload, start, err := r.fragment()
		if err == io.EOF && r.inRecord {
			return nil, 0, r.damage(TornTail, r.recStart, r.size, "the record has no end")
		}
		if err != nil {
			return nil, 0, err
		}
		typ = typ.plain()
		if r.inRecord && typ != typeMiddle && typ != typeLast && typ < typeIgnorable {
			return nil, 0, r.damage(BadRecord, r.recStart, start, "the record has no end, another one starts at %d", start)
		}
		switch typ {
		case typeFull:
			return r.finish(payload, start)
		case typeFirst:
			r.rec, r.recStart, r.inRecord = append(r.rec[:0], payload...), start, true
		case typeMiddle, typeLast:
			if !r.inRecord {
				if r.orphans {
					continue
				}
				return nil, 0, r.damage(BadRecord, start, r.off, "the record has no beginning")
			}
			r.rec = append(r.rec, payload...)
			if typ == typeLast {
				r.inRecord = false
				return r.finish(r.rec, r.recStart)
			}
		default:
			if err := r.aboutLog(typ, payload, start); err != nil {
				return nil, 0, err
			}
			if !r.inRecord {
				r.end = r.off
			}
		}
	}
}

// finish hands out a whole record.
func (r *Reader) finish(rec []byte, start int64) ([]byte, int64, error) {
	if r.zstd != nil {
		var err error
		if rec, err = r.decompress(rec); err != nil {
			return nil, 0, r.damage(BadRecord, start, r.off, "%v", err)
		}
	}
	r.end, r.control, r.orphans, r.afterOld = r.off, false, false, false
	return rec, start, nil
}

// aboutLog handles a record that is about the log, not in it.
func (r *Reader) aboutLog(typ recordType, payload []byte, start int64) error {
	switch {
	case typ == typeCompression:
		if len(payload) != 4 || !r.control || r.zstd != nil {
			return r.damage(BadRecord, start, r.off, "compression type of %d bytes, or not at the log's beginning", len(payload))
		}
		switch c := binary.LittleEndian.Uint32(payload); c {
		case compressionNone:
		case compressionZSTD:
			r.zstd, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
		default:
			r.failed = corrupt.Unsupported(r.path, start, "log compression type %d", c)
			return r.failed
		}
	case typ == typeTimestampSize:
		for b := payload; len(b) > 0; b = b[6:] {
			if len(b) < 6 {
				return r.damage(BadRecord, start, r.off, "timestamp sizes of %d bytes", len(payload))
			}
			if binary.LittleEndian.Uint16(b[4:]) != 0 {
				r.failed = corrupt.Unsupported(r.path, start, "family %d with user-defined timestamps", binary.LittleEndian.Uint32(b))
				return r.failed
			}
		}
	case typ == typePredecessor:
		if len(payload) != rocksPredecessorPayload {
			return r.damage(BadRecord, start, r.off, "predecessor of %d bytes", len(payload))
		}
		p, ok := parsePredecessorFields(payload)
		if !ok {
			return r.damage(BadRecord, start, r.off, "impossible predecessor")
		}
		if r.control {
			r.rocks, r.hasRocks = p, true
		}
	case typ >= typeIgnorable:
	default:
		return r.damage(BadRecord, start, r.off, "unknown record type %d", typ)
	}
	return nil
}

// fragment returns the next fragment with a good checksum, without its header, and where it starts. The error is io.EOF
// or r.failed.
func (r *Reader) fragment() (typ recordType, payload []byte, start int64, err error) {
	for {
		if r.off >= r.size {
			return 0, nil, 0, io.EOF
		}
		if err := r.load(r.off); err != nil {
			return 0, nil, 0, r.readError(err)
		}
		if r.off >= r.size {
			continue // the file turned out shorter
		}
		start = r.off
		b := r.block[start-r.blockOff:]
		blockEnd := r.blockOff + int64(len(r.block))
		last := blockEnd >= r.size
		if len(b) < headerSize {
			if last && !allZero(b) {
				return 0, nil, 0, r.damage(TornTail, start, r.size, "%d bytes of a header", len(b))
			}
			r.off = blockEnd // padding
			continue
		}
		if allZero(b[:headerSize]) {
			if r.recycled && len(b) < recyclableHeaderSize && !last && allZero(b) {
				r.off = blockEnd // padding
				continue
			}
			zerosEnd, err := r.zerosEnd(start)
			if err != nil {
				return 0, nil, 0, r.readError(err)
			}
			if zerosEnd < r.size {
				if zerosEnd-start < pageSize {
					later, err := r.recordBehind(zerosEnd)
					if err != nil {
						return 0, nil, 0, r.readError(err)
					}
					if !later {
						kind := TornTail
						if start/pageSize == zerosEnd/pageSize {
							kind = Unfinished
						}
						return 0, nil, 0, r.damage(kind, start, r.size, "zeros up to %d, and no record behind them", zerosEnd)
					}
				}
				resume := max(zerosEnd/BlockSize*BlockSize, blockEnd)
				return 0, nil, 0, r.damage(Hole, start, resume, "zeros up to %d", zerosEnd)
			}
			r.off = r.size
			continue
		}
		h := parseHeader(b)
		if n := h.size(); n > len(b) {
			if last {
				return 0, nil, 0, r.damage(TornTail, start, r.size, "%d of the %d bytes of a fragment", len(b), n)
			}
			return 0, nil, 0, r.bad(start, blockEnd, blockEnd, "a fragment of %d bytes where %d are left in the block", n, len(b))
		}
		b = b[:h.size()]
		if !h.matches(b) {
			return 0, nil, 0, r.bad(start, start+int64(len(b)), blockEnd, "wrong checksum of %d bytes", len(b))
		}
		r.off += int64(len(b))
		if h.typ.recyclable() {
			if n := logNumber(b); n != uint32(r.number) {
				if r.afterOld {
					continue
				}
				if r.inRecord {
					return 0, nil, 0, r.damage(TornTail, r.recStart, start, "the record ends in one of log %d", n)
				}
				return 0, nil, 0, r.damage(OldRecord, start, r.off, "from log %d", n)
			}
			r.recycled = true
		}
		return h.typ, b[h.typ.headerSize():], start, nil
	}
}

// bad returns the damage of a fragment that cannot be trusted and is thought to end at end.
func (r *Reader) bad(start, end, blockEnd int64, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if r.recycled {
		return r.damage(TornTail, start, blockEnd, "%s in a recycled log", what)
	}
	zerosEnd, err := r.zerosEnd(end)
	if err != nil {
		return r.readError(err)
	}
	if zerosEnd >= r.size {
		return r.damage(TornTail, start, r.size, "%s and nothing behind it", what)
	}
	return r.damage(BadRecord, start, blockEnd, "%s", what)
}

// damage notes what Next is to return and where Resume is to go on.
func (r *Reader) damage(kind DamageKind, off, resumeAt int64, format string, args ...any) error {
	d := newDamage(kind, r.path, off, format, args...)
	r.failed, r.resumeAt = d, resumeAt
	return d
}

func (r *Reader) readError(err error) error {
	r.failed = &Damage{ReadError, r.path, r.off, fmt.Errorf("%s: reading at %d: %w", r.path, r.off, err)}
	r.resumeAt = (r.off/BlockSize + 1) * BlockSize
	return r.failed
}

// Resume, called after Next returned a *Damage, goes on at the next place where a record may start: behind the record
// if the fragments were sound, else at the next block.
func (r *Reader) Resume() {
	d, ok := r.failed.(*Damage)
	if !ok {
		return
	}
	r.failed, r.inRecord = nil, false
	r.afterOld = r.afterOld || d.Kind == OldRecord
	r.orphans = r.orphans || r.resumeAt > r.off
	r.off = r.resumeAt // back by one fragment, if that was what showed that the record before it has no end
}

// load makes r.block hold the block in which off lies. It sets r.size lower when the file is shorter than it.
func (r *Reader) load(off int64) error {
	at := off / BlockSize * BlockSize
	if at == r.blockOff {
		return nil
	}
	n := int(min(r.size-at, BlockSize))
	if cap(r.block) < n {
		r.block = make([]byte, n)
	}
	r.blockOff = -1
	m, err := r.file.ReadAt(r.block[:n], at)
	if m < n && err == io.EOF {
		r.size = at + int64(m)
	} else if m < n {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	r.block, r.blockOff = r.block[:m], at
	return nil
}

// zerosEnd returns where the run of zeros that starts at off ends: off itself if there is none, r.size if nothing else
// follows.
func (r *Reader) zerosEnd(off int64) (int64, error) {
	for off < r.size {
		if err := r.load(off); err != nil {
			return 0, err
		}
		for i, c := range r.block[min(off-r.blockOff, int64(len(r.block))):] {
			if c != 0 {
				return off + int64(i), nil
			}
		}
		off = r.blockOff + BlockSize
	}
	return r.size, nil
}

// recordBehind tells whether a record begins anywhere behind off.
func (r *Reader) recordBehind(off int64) (bool, error) {
	for ; off < r.size; off = r.blockOff + BlockSize {
		if err := r.load(off); err != nil {
			return false, err
		}
		b := r.block[min(off-r.blockOff, int64(len(r.block))):]
		for ; len(b) >= headerSize; b = b[1:] {
			h := parseHeader(b)
			if t := h.typ.plain(); (t == typeFull || t == typeFirst) && h.size() <= len(b) && h.matches(b[:h.size()]) {
				return true, nil
			}
		}
	}
	return false, nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// decompress returns the content of the zstd frame rec. Memory grows with what the frame yields, not with what it
// claims.
func (r *Reader) decompress(rec []byte) ([]byte, error) {
	r.source.Reset(rec)
	if err := r.zstd.Reset(&r.source); err != nil {
		return nil, err
	}
	b := bytes.NewBuffer(r.plain[:0])
	n, err := io.Copy(b, io.LimitReader(r.zstd, math.MaxUint32+1))
	r.plain = b.Bytes()
	if err != nil {
		return nil, err
	}
	if n > math.MaxUint32 {
		return nil, errors.New("a compressed record of more than 4 GiB")
	}
	return r.plain, nil
}
