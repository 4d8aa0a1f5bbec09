package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
)

// Get returns a copy of a key's value, never nil, or an error that matches ashlar.ErrNotFound. It makes two reads: o needs a
// Snapshot if the region is written to meanwhile.
func Get(f Families, id raftapply.RegionID, key []byte, o *ashlar.ReadOptions) ([]byte, error) {
	data := dataKey(id, key)
	start, err := getStart(f.Write, data, o)
	if err != nil {
		return nil, err
	}
	if start == 0 {
		return nil, ashlar.ErrNotFound
	}
	value, err := f.Default.AppendGet([]byte{}, valueKey(data, start), o)
	if errors.Is(err, ashlar.ErrNotFound) {
		return nil, fmt.Errorf("region %d: key %q: %w: no value at %d", id, key, ashlar.ErrCorruption, start)
	}
	return value, err
}

func encodeStart(start uint64) []byte { return binary.BigEndian.AppendUint64(nil, start) }

// getStart reads an S, 0 if there is none.
func getStart(cf *ashlar.ColumnFamily, key []byte, o *ashlar.ReadOptions) (uint64, error) {
	var room [8]byte
	value, err := cf.AppendGet(room[:0], key, o)
	switch {
	case errors.Is(err, ashlar.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	case len(value) != 8:
		return 0, fmt.Errorf("column family %q: key %q: %w: %d bytes, want 8", cf.Name(), key, ashlar.ErrCorruption, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}

// Hash sums up all that is in a region, so that replicas can be compared that have applied the same entries.
func Hash(f Families, id raftapply.RegionID, s *ashlar.Snapshot) (uint64, error) {
	h := crc64.New(crc64.MakeTable(crc64.ECMA))
	for i, span := range f.Spans(id) {
		it := span.Family.Range(span.Begin, span.End, &ashlar.ReadOptions{Snapshot: s})
		var size []byte
		for key, value := range it.All() {
			size = binary.AppendUvarint(append(size[:0], byte(i)), uint64(len(key)))
			size = binary.AppendUvarint(size, uint64(len(value)))
			h.Write(size)
			h.Write(key)
			h.Write(value)
		}
		if err := it.Close(); err != nil {
			return 0, fmt.Errorf("region %d: hash: %w", id, err)
		}
	}
	return h.Sum64(), nil
}
