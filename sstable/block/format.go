package block

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// Bits of a block's footer.
const (
	countMask   = 1<<28 - 1
	apartBit    = 1 << 28
	uniformBit  = 1 << 29
	reservedBit = 1 << 30
	hashBit     = 1 << 31
)

// Error is what is wrong with a block's bytes, and where in the block. Whoever read the block from a file adds the
// file's name and the block's offset there.
type Error struct {
	Offset int
	Reason string
	// Unsupported marks what is legal in the format but not built here.
	Unsupported bool
}

func (e *Error) Error() string { return fmt.Sprintf("at %d of the block: %s", e.Offset, e.Reason) }

// layout is where the parts of a block are.
type layout struct {
	entries  int // end of the entries, start of the restart array
	restarts int // how many
	apart    int // where values start, or -1 when they stand beside their keys
	hash     int // where the hash index starts
	buckets  int // of the hash index, 0 when there is none
}

// parse reads the footer and checks that the restart array fits. Single restarts are checked where they are used.
func parse(b []byte) (layout, *Error) {
	if len(b) < 4 {
		return layout{}, &Error{0, "too short for a footer", false}
	}
	end := len(b) - 4
	footer := binary.LittleEndian.Uint32(b[end:])
	l := layout{restarts: int(footer & countMask), apart: -1}
	if footer&reservedBit != 0 {
		return layout{}, &Error{end, "reserved bit set in the footer", false}
	}
	if footer&apartBit != 0 {
		if end -= 4; end < 0 {
			return layout{}, &Error{0, "too short for the offset of the values", false}
		}
		l.apart = int(binary.LittleEndian.Uint32(b[end:]))
	}
	if footer&hashBit != 0 {
		if end < 2 {
			return layout{}, &Error{0, "too short for a hash index", false}
		}
		end -= 2
		l.buckets = int(binary.LittleEndian.Uint16(b[end:]))
		if end -= l.buckets; end < 0 {
			return layout{}, &Error{0, "hash index longer than the block", false}
		}
		l.hash = end
	}
	l.entries = end - 4*l.restarts
	if l.restarts == 0 || l.entries < 0 {
		return layout{}, &Error{end, fmt.Sprintf("%d restart points do not fit", l.restarts), false}
	}
	if l.apart > l.entries {
		return layout{}, &Error{end, "values start behind the entries", false}
	}
	return l, nil
}

// header reads the three lengths in front of a key at d[p:] and returns where the key starts, or -1 when the bytes end
// first or a number does not fit. Hot loops try three single bytes first.
func header(d []byte, p int) (shared, unshared, value, q int) {
	if shared, q = varint(d, p); q < 0 {
		return 0, 0, 0, -1
	}
	if unshared, q = varint(d, q); q < 0 {
		return 0, 0, 0, -1
	}
	value, q = varint(d, q)
	return shared, unshared, value, q
}

// varint reads a varint of at most 31 bits at d[p:], which is what a block can hold, and returns what follows it, or -1.
func varint(d []byte, p int) (v, q int) {
	var w uint64
	for shift := 0; shift < 35 && p < len(d); shift += 7 {
		c := d[p]
		p++
		w |= uint64(c&0x7f) << shift
		if c < 0x80 {
			if w > math.MaxInt32 {
				return 0, -1
			}
			return int(w), p
		}
	}
	return 0, -1
}

func trailingZeroBytes(x uint64) int { return bits.TrailingZeros64(x) >> 3 }

// Apart tells whether a block keeps its values behind its keys, so that it must go through Join before Iter or Scanner
// can read it.
func Apart(b []byte) bool {
	return len(b) >= 4 && binary.LittleEndian.Uint32(b[len(b)-4:])&apartBit != 0
}

// Join appends to dst the block src with each value beside its key. A hash index is dropped.
func Join(dst, src []byte) ([]byte, error) {
	l, bad := parse(src)
	if bad != nil {
		return nil, bad
	}
	if l.apart < 0 {
		return append(dst, src...), nil
	}
	restart := func(i int) int { return int(binary.LittleEndian.Uint32(src[l.entries+4*i:])) }
	keys, values := src[:l.apart], src[l.apart:l.entries]
	base := len(dst)
	var restarts []byte
	next, v := 0, 0
	for p := 0; p < len(keys); {
		off := p
		shared, unshared, n, q := header(keys, p)
		if q < 0 {
			return nil, &Error{off, "entry cut off", false}
		}
		if next < l.restarts && restart(next) == off {
			if v, q = varint(keys, q); q < 0 || shared != 0 {
				return nil, &Error{off, "bad restart point", false}
			}
			next++
			restarts = binary.LittleEndian.AppendUint32(restarts, uint32(len(dst)-base))
		}
		if unshared > len(keys)-q || v > len(values) || n > len(values)-v {
			return nil, &Error{off, "entry reaches too far", false}
		}
		dst = binary.AppendUvarint(dst, uint64(shared))
		dst = binary.AppendUvarint(dst, uint64(unshared))
		dst = binary.AppendUvarint(dst, uint64(n))
		dst = append(dst, keys[q:q+unshared]...)
		dst = append(dst, values[v:v+n]...)
		p, v = q+unshared, v+n
	}
	switch {
	case len(keys) == 0:
		restarts, next = make([]byte, 4), 1
	case next != l.restarts:
		return nil, &Error{l.entries, "restart point between entries", false}
	}
	dst = append(dst, restarts...)
	return binary.LittleEndian.AppendUint32(dst, uint32(next)), nil
}
