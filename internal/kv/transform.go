package kv

import (
	"bytes"
	"strconv"
	"strings"
)

// SliceTransform takes the prefix of a key. Filters keep prefixes beside keys or instead of them, so that a seek within a
// prefix can leave out what does not have it. Its methods may be called from any number of goroutines.
//
// A prefix must be the key's beginning, and keys with the same prefix must lie side by side in the family's order.
type SliceTransform interface {
	// Name is stored with every table that has a filter of prefixes: it must say all that the prefix depends on.
	Name() string
	// InDomain says whether key has a prefix. Those that have none are in no filter of prefixes.
	InDomain(key []byte) bool
	// Transform returns the prefix of a key that has one. It may be part of key's memory.
	Transform(key []byte) []byte
}

// FixedPrefix takes the first n bytes. Shorter keys have no prefix.
func FixedPrefix(n int) SliceTransform { return fixedPrefix(max(n, 0)) }

// CappedPrefix takes the first n bytes, or all of a shorter key.
func CappedPrefix(n int) SliceTransform { return cappedPrefix(max(n, 0)) }

// Noop takes the whole key.
var Noop SliceTransform = noop{}

const (
	fixedName  = "rocksdb.FixedPrefix."
	cappedName = "rocksdb.CappedPrefix."
)

type fixedPrefix int

func (n fixedPrefix) Name() string                { return fixedName + strconv.Itoa(int(n)) }
func (n fixedPrefix) InDomain(key []byte) bool    { return len(key) >= int(n) }
func (n fixedPrefix) Transform(key []byte) []byte { return key[:n] }
func (n fixedPrefix) whole(prefix []byte) bool    { return len(prefix) == int(n) }

type cappedPrefix int

func (n cappedPrefix) Name() string                { return cappedName + strconv.Itoa(int(n)) }
func (n cappedPrefix) InDomain([]byte) bool        { return true }
func (n cappedPrefix) Transform(key []byte) []byte { return key[:min(len(key), int(n))] }
func (n cappedPrefix) whole(prefix []byte) bool    { return len(prefix) == int(n) }

type noop struct{}

func (noop) Name() string                { return "rocksdb.Noop" }
func (noop) InDomain([]byte) bool        { return true }
func (noop) Transform(key []byte) []byte { return key }

// ParseTransform returns the built-in transform with the given name, or nil. It takes the names that RocksDB writes and
// the short forms that its options may have.
func ParseTransform(name string) SliceTransform {
	if name == Noop.Name() {
		return Noop
	}
	for _, form := range []struct {
		start string
		make  func(int) SliceTransform
	}{{fixedName, FixedPrefix}, {"fixed:", FixedPrefix}, {cappedName, CappedPrefix}, {"capped:", CappedPrefix}} {
		if s, ok := strings.CutPrefix(name, form.start); ok {
			if n, err := strconv.Atoi(s); err == nil && n >= 0 {
				return form.make(n)
			}
		}
	}
	return nil
}

// Within says whether every key from one with the given prefix on, up to end (excluded), has that prefix as well. It may say
// no where it cannot tell.
func Within(t SliceTransform, cmp *Comparer, prefix, end []byte) bool {
	if t.InDomain(end) && bytes.Equal(t.Transform(end), prefix) {
		return true // keys of one prefix lie side by side
	}
	whole, ok := t.(interface{ whole(prefix []byte) bool })
	return ok && whole.whole(prefix) && cmp.IsBytewise() && follows(prefix, end)
}

// follows says whether end is the first key in bytewise order after all that begin with p.
func follows(p, end []byte) bool {
	n := len(p)
	for n > 0 && p[n-1] == 0xff {
		n--
	}
	return n > 0 && len(end) == n && bytes.Equal(end[:n-1], p[:n-1]) && end[n-1] == p[n-1]+1
}
