package store

import (
	"encoding/binary"
	"fmt"

	"github.com/ashlardb/ashlar"
)

// Status says how a command ended, on every replica alike.
type Status uint8

const (
	// Done is a command that took effect.
	Done Status = iota + 1
	// Mismatch is a CAS that found another value: nothing was done.
	Mismatch
	// Locked is a command that met a key that a bulk insert has locked: nothing was done. Start is the lock's.
	Locked
	// NotLocked is a Commit or Rollback of a key that its Prewrite does not hold: nothing was done.
	NotLocked
	// StaleSeq is a command older than the client's last one: nothing was done now. Whether it was when it came first,
	// nobody remembers.
	StaleSeq
)

var statusNames = [...]string{Done: "done", Mismatch: "mismatch", Locked: "locked", NotLocked: "not locked", StaleSeq: "stale sequence"}

// String returns the status in words.
func (s Status) String() string {
	if int(s) < len(statusNames) && s != 0 {
		return statusNames[s]
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

// Outcome is what became of a command.
type Outcome struct {
	Status Status
	// Start of a Prewrite that was done, for its Commit; and of the lock that was met.
	Start uint64
}

// session is what a region remembers of a client.
type session struct {
	client, seq uint64
	index       uint64 // of the entry with its last command
	outcome     Outcome
}

// The encoded form, of 26 bytes: version 1 | status | seq | index | start, 8 bytes big endian each.
const (
	sessionVersion = 1
	sessionSize    = 2 + 3*8
)

func (s *session) encode() []byte {
	p := append(make([]byte, 0, sessionSize), sessionVersion, byte(s.outcome.Status))
	p = binary.BigEndian.AppendUint64(p, s.seq)
	p = binary.BigEndian.AppendUint64(p, s.index)
	return binary.BigEndian.AppendUint64(p, s.outcome.Start)
}

// decodeSession reads the session of a client. What is not of the form is refused with ashlar.ErrCorruption.
func decodeSession(client uint64, p []byte) (*session, error) {
	if len(p) != sessionSize || p[0] != sessionVersion || p[1] < byte(Done) || p[1] > byte(StaleSeq) {
		return nil, fmt.Errorf("session of client %d: %w: not of the form: %x", client, ashlar.ErrCorruption, p[:min(len(p), sessionSize+1)])
	}
	return &session{
		client: client, seq: binary.BigEndian.Uint64(p[2:]), index: binary.BigEndian.Uint64(p[10:]),
		outcome: Outcome{Status(p[1]), binary.BigEndian.Uint64(p[18:])},
	}, nil
}
