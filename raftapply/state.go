package raftapply

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/ashlardb/ashlar"
)

// ApplyState is what a region's data is the result of. It is written in the same batch as the data, so that the two agree
// after any crash: the entries up to Applied are in, all of them, once, and no others.
//
// Where a log begins is not in it: that is up to who holds the log.
type ApplyState struct {
	// Applied is the index of the last entry that is in, and AppliedTerm its term.
	Applied, AppliedTerm uint64
	// Commit is the highest Task.Commit so far, at least Applied. A raft node that starts with a HardState behind it must
	// move its HardState up: the log's write may have been lost where the data's was not.
	Commit, CommitTerm uint64
}

// The encoded form, of 37 bytes:
//
//	version 1 | Applied | AppliedTerm | Commit | CommitTerm | CRC-32C of all before
//	1 byte    | 8 bytes, big endian, each                  | 4 bytes, big endian
const (
	stateVersion = 1
	stateSize    = 1 + 4*8 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendBinary appends the encoded form. The error is always nil.
func (s ApplyState) AppendBinary(dst []byte) ([]byte, error) {
	start := len(dst)
	dst = append(dst, stateVersion)
	for _, v := range [...]uint64{s.Applied, s.AppliedTerm, s.Commit, s.CommitTerm} {
		dst = binary.BigEndian.AppendUint64(dst, v)
	}
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli)), nil
}

// MarshalBinary returns the encoded form. The error is always nil.
func (s ApplyState) MarshalBinary() ([]byte, error) {
	return s.AppendBinary(make([]byte, 0, stateSize))
}

// UnmarshalBinary decodes p. What is not of the form, or cannot be, is refused with ashlar.ErrCorruption.
func (s *ApplyState) UnmarshalBinary(p []byte) error {
	if len(p) != stateSize || p[0] != stateVersion {
		return badState("not of version %d's form: %x", stateVersion, p[:min(len(p), stateSize+1)])
	}
	body := p[:stateSize-4]
	if got, want := crc32.Checksum(body, castagnoli), binary.BigEndian.Uint32(p[stateSize-4:]); got != want {
		return badState("checksum is %08x, written was %08x", got, want)
	}
	word := func(i int) uint64 { return binary.BigEndian.Uint64(p[1+8*i:]) }
	d := ApplyState{word(0), word(1), word(2), word(3)}
	if d.Commit < d.Applied {
		return badState("commit %d is before applied %d", d.Commit, d.Applied)
	}
	*s = d
	return nil
}

func badState(format string, args ...any) error {
	return fmt.Errorf("apply state: %w: "+format, append([]any{ashlar.ErrCorruption}, args...)...)
}

// ApplyStateKey is the key of a region's ApplyState in the state family: 0x01 0x02, the region in 8 bytes big endian, 0x03.
// Other keys with that prefix and another last byte are free for who holds the log.
func ApplyStateKey(id RegionID) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{1, 2}, uint64(id)), 3)
}

// PutApplyState puts a region's ApplyState into w: for who makes a region from a snapshot, in the batch that ends with the
// region's data being complete. The region must not be registered.
func PutApplyState(w Writer, state *ashlar.ColumnFamily, id RegionID, s ApplyState) error {
	value, err := s.MarshalBinary()
	if err != nil {
		return err
	}
	return w.Put(state, ApplyStateKey(id), value)
}

// DeleteApplyState makes a region's ApplyState go away: for who wipes the data of a region that was removed, in the batch
// that does it.
func DeleteApplyState(w Writer, state *ashlar.ColumnFamily, id RegionID) error {
	return w.Delete(state, ApplyStateKey(id))
}

// ReadApplyState reads a region's ApplyState, with o as in Get. false if there is none.
func ReadApplyState(state *ashlar.ColumnFamily, id RegionID, o *ashlar.ReadOptions) (ApplyState, bool, error) {
	var s ApplyState
	value, err := state.Get(ApplyStateKey(id), o)
	switch {
	case errors.Is(err, ashlar.ErrNotFound):
		return s, false, nil
	case err == nil:
		err = s.UnmarshalBinary(value)
	}
	if err != nil {
		return ApplyState{}, false, fmt.Errorf("region %d: column family %q: %w", id, state.Name(), err)
	}
	return s, true, nil
}
