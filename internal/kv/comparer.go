package kv

import (
	"bytes"
	"slices"
)

// Comparer orders user keys. Its Name is stored in the manifest and in every table, and a database opens only with the
// comparer that made it.
//
// Compare must be a total order in which only equal bytes are equal: filters and hash indexes work on the bytes.
type Comparer struct {
	// Name is RocksDB's name of the order: "leveldb.BytewiseComparator" for the default.
	Name string
	// Compare returns a negative number, zero or a positive number as a sorts before, with or after b.
	Compare func(a, b []byte) int
	// Separator appends to dst a key s with a <= s < b, as short as it can, and returns the result. It may append a.
	// It is called with a < b only.
	Separator func(dst, a, b []byte) []byte
	// Successor appends to dst a key s >= a, as short as it can, and returns the result. It may append a.
	Successor func(dst, a []byte) []byte
}

// Bytewise is the default order: unsigned bytes, a prefix before what it is a prefix of.
var Bytewise = &Comparer{
	Name:      "leveldb.BytewiseComparator",
	Compare:   bytes.Compare,
	Separator: bytewiseSeparator,
	Successor: bytewiseSuccessor,
}

// ReverseBytewise is the default order turned round.
var ReverseBytewise = &Comparer{
	Name:      "rocksdb.ReverseBytewiseComparator",
	Compare:   func(a, b []byte) int { return bytes.Compare(b, a) },
	Separator: func(dst, a, _ []byte) []byte { return append(dst, a...) },
	Successor: func(dst, a []byte) []byte { return append(dst, a...) },
}

// IsBytewise tells hot loops that they may call bytes.Compare (or compare prefixes as big-endian words) instead of
// Compare. It is true of Bytewise itself and not of a copy, which may have been given another Compare.
func (c *Comparer) IsBytewise() bool { return c == Bytewise }

// Confuses returns two different keys that the order holds for equal, if it finds any among those of one byte. It does not
// judge an order that makes nothing of keys so short: one that panics, or finds all of them equal.
func (c *Comparer) Confuses() (a, b []byte) {
	defer func() {
		if recover() != nil {
			a, b = nil, nil
		}
	}()
	keys := make([][]byte, 256)
	for i := range keys {
		keys[i] = []byte{byte(i)}
	}
	slices.SortFunc(keys, c.Compare)
	if c.Compare(keys[0], keys[255]) == 0 {
		return nil, nil
	}
	for i, k := range keys[1:] {
		if c.Compare(keys[i], k) == 0 {
			return keys[i], k
		}
	}
	return nil, nil
}

// CompareUser compares two user keys without an indirect call for the default order.
func (c *Comparer) CompareUser(a, b []byte) int {
	if c.IsBytewise() {
		return bytes.Compare(a, b)
	}
	return c.Compare(a, b)
}

// CompareKeys compares two internal keys.
func (c *Comparer) CompareKeys(a, b Key) int {
	if x := c.CompareUser(a.User, b.User); x != 0 {
		return x
	}
	switch {
	case a.Trailer > b.Trailer:
		return -1
	case a.Trailer < b.Trailer:
		return 1
	}
	return 0
}

func bytewiseSeparator(dst, a, b []byte) []byte {
	n := min(len(a), len(b))
	i := 0
	for i < n && a[i] == b[i] {
		i++
	}
	if i == n || a[i] == 0xff || a[i]+1 >= b[i] {
		// a is a prefix of b, or no byte fits between at the first difference.
		if i < n && a[i] < b[i] {
			// Keep a[:i+1] and raise the first byte after it that can be raised: still below b, which is larger at i.
			for j := i + 1; j < len(a); j++ {
				if a[j] != 0xff {
					dst = append(dst, a[:j+1]...)
					dst[len(dst)-1]++
					return dst
				}
			}
		}
		return append(dst, a...)
	}
	dst = append(dst, a[:i+1]...)
	dst[len(dst)-1]++
	return dst
}

func bytewiseSuccessor(dst, a []byte) []byte {
	for i, c := range a {
		if c != 0xff {
			dst = append(dst, a[:i+1]...)
			dst[len(dst)-1]++
			return dst
		}
	}
	return append(dst, a...)
}
