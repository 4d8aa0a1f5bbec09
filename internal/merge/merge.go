package merge

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/kv"
)

// ErrNoOperator is what a merge without an operator gives. It matches corrupt.ErrNotSupported.
var ErrNoOperator = fmt.Errorf("there is no merge operator: %w", corrupt.ErrNotSupported)

// ErrPanic is matched by the error of a merge whose operator panicked.
var ErrPanic = errors.New("panic in the merge operator")

// Full appends to dst what op makes of key's value, if it exists, and of operands, oldest first. On an error dst is
// returned as it was. A panic of op is an error that matches ErrPanic.
func Full(op kv.MergeOperator, dst, key, existing []byte, exists bool, operands [][]byte) (value []byte, err error) {
	if op == nil {
		return dst, fmt.Errorf("key %q has %d merge operands: %w", key, len(operands), ErrNoOperator)
	}
	switch {
	case !exists:
		existing = nil
	case existing == nil:
		existing = []byte{}
	}
	defer recovered(op, key, func(e error) { value, err = dst, e })
	value, err = op.FullMerge(dst, key, existing, operands)
	if err != nil {
		return dst, fmt.Errorf("merge operator %s, key %q, %d operands: %w", op.Name(), key, len(operands), err)
	}
	return value, nil
}

// Partial appends to dst one operand that stands for operands, of which there are two or more, oldest first. It is false
// if op has none. An error tells of a panic.
func Partial(op kv.MergeOperator, dst, key []byte, operands [][]byte) (operand []byte, ok bool, err error) {
	if op == nil || len(operands) < 2 {
		return dst, false, nil
	}
	defer recovered(op, key, func(e error) { operand, ok, err = dst, false, e })
	if operand, ok = op.PartialMerge(dst, key, operands); !ok {
		return dst, false, nil
	}
	return operand, true, nil
}

// recovered is deferred around calls of an operator.
func recovered(op kv.MergeOperator, key []byte, fail func(error)) {
	if x := recover(); x != nil {
		fail(fmt.Errorf("%w %T, key %q: %v\n%s", ErrPanic, op, key, x, debug.Stack()))
	}
}

// Operands are copies of operands that a walk passes by. The zero value is empty.
type Operands struct {
	bytes []byte
	ends  []int
	list  [][]byte
}

// Reset forgets them and keeps the memory, unless it is much.
func (o *Operands) Reset() {
	if cap(o.bytes) > maxKept {
		o.bytes = nil
	}
	if cap(o.list) > maxKept/24 {
		o.list = nil
	}
	o.bytes, o.ends = o.bytes[:0], o.ends[:0]
	clear(o.list)
}

// maxKept bounds the bytes that are kept for the next walk.
const maxKept = 1 << 20

// Add copies one.
func (o *Operands) Add(operand []byte) {
	o.bytes = append(o.bytes, operand...)
	o.ends = append(o.ends, len(o.bytes))
}

// Len is how many there are.
func (o *Operands) Len() int { return len(o.ends) }

// Added returns them as they were added, and Reversed the other way round. The result lives until the next call of
// anything but Len.
func (o *Operands) Added() [][]byte {
	o.list = o.list[:0]
	start := 0
	for _, end := range o.ends {
		o.list = append(o.list, o.bytes[start:end:end])
		start = end
	}
	return o.list
}

// Reversed returns them, the one added last first.
func (o *Operands) Reversed() [][]byte {
	o.list = o.list[:0]
	for n := len(o.ends) - 1; n >= 0; n-- {
		start := 0
		if n > 0 {
			start = o.ends[n-1]
		}
		o.list = append(o.list, o.bytes[start:o.ends[n]:o.ends[n]])
	}
	return o.list
}
