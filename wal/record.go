// The format of a log file: blocks, fragments, record types. Writer and Reader both take it from here, and it stands
// nowhere else. doc.go has the picture.
//
//  1. A fragment never crosses the edge of a block.
//  2. The checksum covers everything from the type on: type, log number if there is one, payload.
//  3. All numbers are little-endian.

package wal

import (
	"encoding/binary"

	"github.com/ashlardb/ashlar/internal/checksum"
)

const (
	// BlockSize is the length of a block; the last one of a file may be shorter.
	BlockSize = 32 << 10
	// pageSize is what a power cut takes of a mapped log at a time, at least.
	pageSize = 4096
	// headerSize is the length of a fragment's header, recyclableHeaderSize that of one which names its log.
	headerSize           = 7
	recyclableHeaderSize = 11
	typeOffset           = 6 // where the checksummed part of a fragment starts
)

// recordType is the seventh byte of a fragment.
type recordType byte

const (
	typeZero                recordType = 0 // space that was never written
	typeFull                recordType = 1
	typeFirst               recordType = 2
	typeMiddle              recordType = 3
	typeLast                recordType = 4
	typeRecyclableFull      recordType = 5
	typeRecyclableLast      recordType = 8
	typeCompression         recordType = 9   // payload: fixed32 compression type of the records that follow
	typeTimestampSize       recordType = 10  // payload: (fixed32 family, fixed16 size of its timestamps)...
	typePredecessor         recordType = 130 // payload: fixed64 log number, fixed64 length, fixed64 last sequence
	typeIgnorable           recordType = 128 // this and above: skip what you do not know
	compressionNone                    = 0
	compressionZSTD                    = 7
	rocksPredecessorPayload            = 24
)

// recyclable says that the header holds the log's number.
func (t recordType) recyclable() bool {
	return t >= typeRecyclableFull && t <= typeRecyclableLast || t > typeCompression && t&1 == 1
}

// plain is the type without the log number.
func (t recordType) plain() recordType {
	switch {
	case t >= typeRecyclableFull && t <= typeRecyclableLast:
		return t - typeRecyclableFull + typeFull
	case t.recyclable():
		return t - 1
	}
	return t
}

func (t recordType) headerSize() int {
	if t.recyclable() {
		return recyclableHeaderSize
	}
	return headerSize
}

// seal fills in the header of fragment, which is headerSize bytes followed by its payload.
func seal(fragment []byte, t recordType) {
	fragment[typeOffset] = byte(t)
	binary.LittleEndian.PutUint16(fragment[4:], uint16(len(fragment)-headerSize))
	binary.LittleEndian.PutUint32(fragment, checksum.Mask(checksum.CRC(fragment[typeOffset:])))
}

// header is a fragment's header, decoded.
type header struct {
	crc    uint32 // masked
	length int    // of the payload
	typ    recordType
}

// parseHeader decodes the first headerSize bytes of b.
func parseHeader(b []byte) header {
	return header{
		crc:    binary.LittleEndian.Uint32(b),
		length: int(binary.LittleEndian.Uint16(b[4:])),
		typ:    recordType(b[typeOffset]),
	}
}

// size is the length of header and payload.
func (h header) size() int { return h.typ.headerSize() + h.length }

// matches says whether fragment, h.size() bytes long, has the checksum that its header states.
func (h header) matches(fragment []byte) bool {
	return checksum.Mask(checksum.CRC(fragment[typeOffset:])) == h.crc
}

// logNumber returns the low 32 bits of the log's number from a recyclable fragment.
func logNumber(fragment []byte) uint32 { return binary.LittleEndian.Uint32(fragment[headerSize:]) }
