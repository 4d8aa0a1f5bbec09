package store

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Kind says what a command does.
type Kind uint8

const (
	// Write does all Ops, puts and deletes.
	Write Kind = iota + 1
	// CAS does the only op if the key's value is Old, or if there is none and Old is nil.
	CAS
	// Prewrite puts the values of Ops where no one sees them yet, and locks their keys.
	Prewrite
	// Commit makes the keys of Ops visible that the Prewrite whose Outcome had Start has locked.
	Commit
	// Rollback gives them up.
	Rollback
)

// Op puts or deletes a key. Of Commit and Rollback only the keys count.
type Op struct {
	Key, Value []byte
	Delete     bool
}

// Command is what a log entry says.
type Command struct {
	Kind Kind
	// Client and Seq make it done once; see the package. Client 0 is a command without a session.
	Client, Seq uint64
	// Start of Commit and Rollback.
	Start uint64
	// Old of CAS. nil: there must be no such key.
	Old []byte
	Ops []Op
}

// MaxCommand is the most bytes of an encoded command. raft puts an entry into one message.
const MaxCommand = 1 << 20

// ErrCommand is matched by the errors of commands that are not well formed.
var ErrCommand = errors.New("command is not well formed")

// The encoded form; numbers are uvarints, and bytes are a uvarint of their length and themselves:
//
//	version 1 | kind | client | seq | start | 0, or 1 and old | count of ops | ops
//	an op: flags (1: delete) | key | value (not with a delete)
const commandVersion = 1

// AppendTo appends the encoded form.
func (c *Command) AppendTo(dst []byte) []byte {
	dst = append(dst, commandVersion, byte(c.Kind))
	dst = binary.AppendUvarint(dst, c.Client)
	dst = binary.AppendUvarint(dst, c.Seq)
	dst = binary.AppendUvarint(dst, c.Start)
	if c.Old == nil {
		dst = append(dst, 0)
	} else {
		dst = appendBytes(append(dst, 1), c.Old)
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.Ops)))
	for _, op := range c.Ops {
		if op.Delete {
			dst = appendBytes(append(dst, 1), op.Key)
			continue
		}
		dst = appendBytes(append(dst, 0), op.Key)
		dst = appendBytes(dst, op.Value)
	}
	return dst
}

func appendBytes(dst, p []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(p))), p...)
}

// DecodeCommand reads an encoded command. Its slices point into p. Each error matches ErrCommand.
func DecodeCommand(p []byte) (*Command, error) {
	r := reader{rest: p}
	if v := r.byte(); r.err == nil && v != commandVersion {
		return nil, fmt.Errorf("%w: version %d, want %d", ErrCommand, v, commandVersion)
	}
	c := &Command{Kind: Kind(r.byte()), Client: r.uvarint(), Seq: r.uvarint(), Start: r.uvarint()}
	if r.flag() {
		c.Old = r.bytes()
	}
	n := r.uvarint()
	if n > uint64(len(r.rest)) { // an op takes two bytes at least
		r.fail("%d ops in %d bytes", n, len(r.rest))
	}
	for range n {
		if r.err != nil {
			break
		}
		op := Op{Delete: r.flag(), Key: r.bytes()}
		if !op.Delete {
			op.Value = r.bytes()
		}
		c.Ops = append(c.Ops, op)
	}
	if r.err == nil && len(r.rest) > 0 {
		r.fail("%d bytes behind the end", len(r.rest))
	}
	if r.err == nil {
		r.err = c.Check()
	}
	if r.err != nil {
		return nil, r.err
	}
	return c, nil
}

// Check says what is wrong with a command. Each error matches ErrCommand.
func (c *Command) Check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrCommand}, args...)...)
	}
	switch {
	case c.Kind < Write || c.Kind > Rollback:
		return bad("kind %d", c.Kind)
	case len(c.Ops) == 0:
		return bad("no keys")
	case c.Kind == CAS && len(c.Ops) != 1:
		return bad("a comparison of %d keys", len(c.Ops))
	case c.Kind != CAS && c.Old != nil:
		return bad("an old value for what is not compared")
	case (c.Kind >= Commit) != (c.Start != 0):
		return bad("a start of %d with kind %d", c.Start, c.Kind)
	case (c.Client == 0) != (c.Seq == 0):
		return bad("client and sequence go together")
	}
	for _, op := range c.Ops {
		if len(op.Key) == 0 {
			return bad("an empty key")
		}
		if c.Kind == Prewrite && op.Delete {
			return bad("a delete in a bulk insert")
		}
	}
	return nil
}

// reader takes an encoded command apart. After an error it gives zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{ErrCommand}, args...)...)
	}
	r.rest = nil
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.fail("cut short")
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) flag() bool {
	b := r.byte()
	if b > 1 {
		r.fail("a flag of %d", b)
	}
	return b == 1
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail("not a number")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// bytes is never nil without an error.
func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.fail("%d bytes of %d", len(r.rest), n)
	}
	if r.err != nil {
		return nil
	}
	p := r.rest[:n:n]
	r.rest = r.rest[n:]
	return p
}
