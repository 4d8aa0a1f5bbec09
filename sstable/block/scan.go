package block

import (
	"github.com/ashlardb/ashlar/internal/enc"
)

// A Scanner walks a block of any keys from the front. It is meant for the metaindex and the properties.
//
//	for s := NewScanner(b); s.Next(); { … s.Key, s.Value … }
//
// and then Err.
type Scanner struct {
	Key, Value []byte // Key lives until the next Next; Value lies in the block

	d   []byte
	p   int
	err error
}

// NewScanner returns a scanner of a block.
func NewScanner(b []byte) *Scanner {
	l, bad := parse(b)
	if bad == nil && l.apart >= 0 {
		bad = &Error{0, "keys and values apart in a block that is no data block", false}
	}
	if bad != nil {
		return &Scanner{err: bad}
	}
	return &Scanner{d: b[:l.entries]}
}

// Next steps to the next entry and tells whether there is one.
func (s *Scanner) Next() bool {
	if s.err != nil || s.p >= len(s.d) {
		return false
	}
	shared, unshared, n, q := header(s.d, s.p)
	if q < 0 || shared > len(s.Key) || unshared > len(s.d)-q || n > len(s.d)-q-unshared {
		s.err = &Error{s.p, "bad entry", false}
		return false
	}
	s.Key = append(s.Key[:shared], s.d[q:q+unshared]...)
	s.Value = s.d[q+unshared : q+unshared+n]
	s.p = q + unshared + n
	return true
}

// ValueOffset is where in the block the value starts.
func (s *Scanner) ValueOffset() int { return s.p - len(s.Value) }

// Err is why Next returned false, or nil at the end.
func (s *Scanner) Err() error { return s.err }

// A HandleScanner walks an index block from the front.
type HandleScanner struct {
	Key    []byte // lives until the next Next
	Handle Handle

	d     []byte
	p     int
	delta bool
	first bool
	err   error
}

// NewHandleScanner returns a scanner of an index block. delta and firstKey say which form its values have.
func NewHandleScanner(b []byte, delta, firstKey bool) *HandleScanner {
	l, bad := parse(b)
	if bad == nil && l.apart >= 0 {
		bad = &Error{0, "keys and values apart in an index block", false}
	}
	if bad != nil {
		return &HandleScanner{err: bad}
	}
	return &HandleScanner{d: b[:l.entries], delta: delta, first: firstKey}
}

// Next steps to the next entry and tells whether there is one.
func (s *HandleScanner) Next() bool {
	if s.err != nil || s.p >= len(s.d) {
		return false
	}
	if !s.step() {
		s.err = &Error{s.p, "bad entry in an index", false}
		return false
	}
	return true
}

func (s *HandleScanner) step() bool {
	shared, q := varint(s.d, s.p)
	if q < 0 {
		return false
	}
	unshared, q := varint(s.d, q)
	if q < 0 {
		return false
	}
	n := 0
	if !s.delta {
		if n, q = varint(s.d, q); q < 0 {
			return false
		}
	}
	if shared > len(s.Key) || unshared > len(s.d)-q {
		return false
	}
	key := s.d[q : q+unshared]
	rest := s.d[q+unshared:]
	if !s.delta {
		if n > len(rest) {
			return false
		}
		rest = rest[:n]
	}
	end := q + unshared + len(rest)
	ok := false
	if s.delta && shared > 0 {
		var d uint64
		if d, rest, ok = enc.Uvarint(rest); !ok {
			return false
		}
		// A sum that wraps gives a handle that is outside the file, and is refused there.
		s.Handle.Offset += s.Handle.Size + TrailerSize
		s.Handle.Size += uint64(enc.Unzigzag(d))
	} else if s.Handle, rest, ok = ParseHandle(rest); !ok {
		return false
	}
	if s.first {
		if _, rest, ok = enc.Bytes(rest); !ok {
			return false
		}
	}
	s.Key = append(s.Key[:shared], key...)
	s.p = end
	if s.delta {
		s.p = len(s.d) - len(rest)
	}
	return true
}

// Err is why Next returned false, or nil at the end.
func (s *HandleScanner) Err() error { return s.err }
