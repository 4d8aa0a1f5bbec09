package etcdraft

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"iter"

	"github.com/ashlardb/ashlar"
)

// A snapshot travels, and is stored where it arrives, as chunks:
//
//	version 1 | last      | number  | record ... | CRC-32C of all before
//	1 byte    | 1 byte    | uvarint |            | 4 bytes, big endian
//
//	record:  number of the span | length of key | key | length of value | value      numbers and lengths are uvarints
//
// Chunks are numbered from 0. last is 1 in the last one, else 0. Keys ascend within a span, spans within a snapshot.
const (
	chunkVersion = 1
	chunkTail    = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendChunkHead(dst []byte, number uint64) []byte {
	return binary.AppendUvarint(append(dst, chunkVersion, 0), number)
}

func appendRecord(dst []byte, span int, key, value []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(span))
	dst = append(binary.AppendUvarint(dst, uint64(len(key))), key...)
	return append(binary.AppendUvarint(dst, uint64(len(value))), value...)
}

// sealChunk ends a chunk.
func sealChunk(p []byte, last bool) []byte {
	if last {
		p[1] = 1
	}
	return binary.BigEndian.AppendUint32(p, crc32.Checksum(p, castagnoli))
}

// chunk is one that is being read.
type chunk struct {
	number uint64
	last   bool
	rest   []byte
}

// record lies in its chunk.
type record struct {
	span       int
	key, value []byte
}

// openChunk checks a chunk's form but for the records.
func openChunk(p []byte) (chunk, error) {
	if len(p) < 2+1+chunkTail || p[0] != chunkVersion || p[1] > 1 {
		return chunk{}, corrupt("not a chunk of a snapshot: %d bytes, %x", len(p), p[:min(len(p), 2)])
	}
	body := p[:len(p)-chunkTail]
	if got, want := crc32.Checksum(body, castagnoli), binary.BigEndian.Uint32(p[len(body):]); got != want {
		return chunk{}, corrupt("a chunk of a snapshot: checksum is %08x, written was %08x", got, want)
	}
	number, n := binary.Uvarint(body[2:])
	if n <= 0 {
		return chunk{}, corrupt("a chunk of a snapshot has no number")
	}
	return chunk{number, p[1] == 1, body[2+n:]}, nil
}

// next returns the next record, which must lie in its span. ok is false at the end.
func (c *chunk) next(spans []Span) (r record, ok bool, err error) {
	if len(c.rest) == 0 {
		return record{}, false, nil
	}
	span, n := binary.Uvarint(c.rest)
	if n <= 0 || span >= uint64(len(spans)) {
		return record{}, false, corrupt("chunk %d of a snapshot: a record of span %d; there are %d", c.number, span, len(spans))
	}
	c.rest = c.rest[n:]
	r.span = int(span)
	for _, part := range []*[]byte{&r.key, &r.value} {
		size, n := binary.Uvarint(c.rest)
		if n <= 0 || size > uint64(len(c.rest)-n) {
			return record{}, false, corrupt("chunk %d of a snapshot: a record goes past its end", c.number)
		}
		*part = c.rest[n : n+int(size)]
		c.rest = c.rest[n+int(size):]
	}
	if s := spans[span]; !s.holds(r.key) {
		return record{}, false, corrupt("chunk %d of a snapshot: key %q is not in [%q, %q)", c.number, r.key, s.Begin, s.End)
	}
	return r, true, nil
}

func (s Span) holds(key []byte) bool {
	return bytes.Compare(s.Begin, key) <= 0 && bytes.Compare(key, s.End) < 0
}

// check reads a chunk to its end.
func (c chunk) check(spans []Span) error {
	for {
		if _, ok, err := c.next(spans); !ok {
			return err
		}
	}
}

// dataChunks makes a snapshot's chunks of the data that s sees. A chunk lives until the next.
func dataChunks(spans []Span, s *ashlar.Snapshot) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		number := uint64(0)
		buf := appendChunkHead(nil, number)
		for i, span := range spans {
			it := span.Family.Range(span.Begin, span.End, &ashlar.ReadOptions{Snapshot: s, DontFillCache: true})
			for ok := it.SeekToFirst(); ok; ok = it.Next() {
				if len(buf) >= SnapshotChunk {
					if !yield(sealChunk(buf, false), nil) {
						it.Close()
						return
					}
					number++
					buf = appendChunkHead(buf[:0], number)
				}
				buf = appendRecord(buf, i, it.Key(), it.Value())
			}
			if err := it.Close(); err != nil {
				yield(nil, err)
				return
			}
		}
		yield(sealChunk(buf, true), nil)
	}
}
