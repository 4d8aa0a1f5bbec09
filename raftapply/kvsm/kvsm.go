// Package kvsm is a state machine for raftapply, ready to use: an entry is a command, which is a list of puts, deletes,
// range deletes and comparisons over the column families that the machine was given. A command is done as a whole or, if a
// comparison fails, not at all.
//
// # Form
//
// A command is one byte of flags and its operations, one behind the other:
//
//	flags       1: holds a comparison, 2: holds a range delete
//	put         1, family, key, value
//	delete      2, family, key
//	range       3, family, begin, end
//	compare     4, family, key, old, new
//	family      uvarint: the place in New's list
//	key … end   uvarint length, bytes
//	old, new    uvarint length + 1, bytes; 0: there is no such key
//
// The flags let Hint answer without reading the command. A command that is not of this form is refused with
// ErrBadCommand, on every replica alike.
package kvsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
)

var (
	// ErrMismatch is the Result's of a command whose comparison failed.
	ErrMismatch = errors.New("kvsm: the value is another")
	// ErrBadCommand is the Result's of an entry that is not a command.
	ErrBadCommand = errors.New("kvsm: not a command")
)

const (
	flagCompare = 1 << iota
	flagRange
)

const (
	opPut = iota + 1
	opDelete
	opRange
	opCompare
)

// Command is built operation by operation. The zero value is empty; Bytes is what goes into Entry.Data.
type Command struct{ data []byte }

func (c *Command) add(op byte, flags byte, family int, parts ...[]byte) *Command {
	if len(c.data) == 0 {
		c.data = append(c.data, 0)
	}
	c.data[0] |= flags
	c.data = append(c.data, op)
	c.data = binary.AppendUvarint(c.data, uint64(family))
	for _, p := range parts {
		c.data = binary.AppendUvarint(c.data, uint64(len(p)))
		c.data = append(c.data, p...)
	}
	return c
}

func (c *Command) optional(p []byte) {
	if p == nil {
		c.data = append(c.data, 0)
		return
	}
	c.data = binary.AppendUvarint(c.data, uint64(len(p))+1)
	c.data = append(c.data, p...)
}

// Put sets key to value in the family at that place of New's list.
func (c *Command) Put(family int, key, value []byte) *Command {
	return c.add(opPut, 0, family, key, value)
}

// Delete removes key.
func (c *Command) Delete(family int, key []byte) *Command { return c.add(opDelete, 0, family, key) }

// DeleteRange removes the keys from begin (included) to end (excluded).
func (c *Command) DeleteRange(family int, begin, end []byte) *Command {
	return c.add(opRange, flagRange, family, begin, end)
}

// CompareAndSwap sets key to value if it is old, else the command fails. A nil old is: there is no such key; a nil value
// deletes.
func (c *Command) CompareAndSwap(family int, key, old, value []byte) *Command {
	c.add(opCompare, flagCompare, family, key)
	c.optional(old)
	c.optional(value)
	return c
}

// Bytes returns the command. It lives until the next change.
func (c *Command) Bytes() []byte {
	if len(c.data) == 0 {
		c.data = append(c.data, 0)
	}
	return c.data
}

// Reset empties the command and keeps its memory.
func (c *Command) Reset() { c.data = c.data[:0] }

// op is an operation. b is a value, an end or a new value, old what is compared; nil if absent.
type op struct {
	kind        byte
	family      int
	key, b, old []byte
}

// parse appends the operations of a command to ops.
func parse(ops []op, data []byte, families int) ([]op, error) {
	bad := func(what string) ([]op, error) { return nil, fmt.Errorf("%w: %s", ErrBadCommand, what) }
	if len(data) == 0 {
		return bad("no flags")
	}
	flags, rest := data[0], data[1:]
	var seen byte
	short := false
	number := func() uint64 {
		v, n := binary.Uvarint(rest)
		if n <= 0 {
			short = true
			return 0
		}
		rest = rest[n:]
		return v
	}
	take := func(n uint64) []byte {
		if n > uint64(len(rest)) {
			short = true
			return nil
		}
		p := rest[:n:n]
		rest = rest[n:]
		return p
	}
	optional := func() []byte {
		if n := number(); n > 0 {
			return take(n - 1)
		}
		return nil
	}
	for len(rest) > 0 {
		o := op{kind: rest[0]}
		rest = rest[1:]
		family := number()
		if !short && family >= uint64(families) {
			return bad(fmt.Sprintf("family %d of %d", family, families))
		}
		o.family = int(family)
		o.key = take(number())
		switch o.kind {
		case opPut:
			o.b = take(number())
		case opDelete:
		case opRange:
			seen |= flagRange
			o.b = take(number())
		case opCompare:
			seen |= flagCompare
			o.old, o.b = optional(), optional()
		default:
			return bad(fmt.Sprintf("operation %d", o.kind))
		}
		if short {
			return bad("cut short")
		}
		ops = append(ops, o)
	}
	if seen != flags {
		return bad(fmt.Sprintf("flags %d, operations of %d", flags, seen))
	}
	return ops, nil
}

// Machine is the state machine of one region.
type Machine struct {
	families []*ashlar.ColumnFamily
	ops      []op
	value    []byte
}

var _ raftapply.StateMachine = (*Machine)(nil)

// New returns a machine over families, which commands name by their place.
func New(families ...*ashlar.ColumnFamily) *Machine { return &Machine{families: families} }

// Hint asks for what was written to be readable if there is a comparison, and for low priority if there is a range delete.
func (m *Machine) Hint(e raftapply.Entry) (h raftapply.Hint) {
	if len(e.Data) > 0 && e.Data[0]&flagCompare != 0 {
		h |= raftapply.FlushBefore
	}
	if len(e.Data) > 0 && e.Data[0]&flagRange != 0 {
		h |= raftapply.LowPriority
	}
	return h
}

// Apply does the command. The Result's Value is nil.
func (m *Machine) Apply(w raftapply.Writer, e raftapply.Entry) (raftapply.Result, error) {
	if e.Kind == raftapply.ConfChange {
		return raftapply.Result{}, nil
	}
	ops, err := parse(m.ops[:0], e.Data, len(m.families))
	if err != nil {
		return raftapply.Result{Err: err}, nil
	}
	m.ops = ops
	defer clear(m.ops)
	for i, o := range ops {
		cf := m.families[o.family]
		switch o.kind {
		case opPut:
			err = w.Put(cf, o.key, o.b)
		case opDelete:
			err = w.Delete(cf, o.key)
		case opRange:
			if m.compare(o.family, o.key, o.b) > 0 {
				return raftapply.Result{Err: fmt.Errorf("%w: a range that ends before it begins", ErrBadCommand)}, nil
			}
			err = w.DeleteRange(cf, o.key, o.b)
		case opCompare:
			var found []byte
			if found, err = m.get(ops[:i], o); err != nil {
				break
			}
			if (found == nil) != (o.old == nil) || !bytes.Equal(found, o.old) {
				return raftapply.Result{Err: fmt.Errorf("%w: key %q", ErrMismatch, o.key)}, nil
			}
			if o.b == nil {
				err = w.Delete(cf, o.key)
			} else {
				err = w.Put(cf, o.key, o.b)
			}
		}
		if err != nil {
			return raftapply.Result{}, err
		}
	}
	return raftapply.Result{}, nil
}

func (m *Machine) compare(family int, a, b []byte) int {
	o := m.families[family].Options()
	return o.Comparator.CompareUser(a, b)
}

// get returns what the key of o is after the operations before, nil if there is none. What came with earlier entries is
// in the database, since Hint asked for it.
func (m *Machine) get(before []op, o op) ([]byte, error) {
	for i := len(before) - 1; i >= 0; i-- {
		p := before[i]
		switch {
		case p.family != o.family:
		case p.kind == opRange:
			if m.compare(o.family, p.key, o.key) <= 0 && m.compare(o.family, o.key, p.b) < 0 {
				return nil, nil
			}
		case bytes.Equal(p.key, o.key):
			return p.b, nil // nil of a delete
		}
	}
	value, err := m.families[o.family].AppendGet(m.value[:0], o.key, nil)
	if errors.Is(err, ashlar.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m.value = value
	if value == nil {
		value = []byte{}
	}
	return value, nil
}
