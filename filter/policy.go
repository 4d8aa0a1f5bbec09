package filter

// Rules that hold for every policy:
//
//  1. No false no: a key that was added to a Builder is found by every Reader of its block.
//  2. Open takes any bytes: it allocates by the length of the block, never by a number inside it.
//  3. The name is stored with the table; a Reader is only ever opened on a block that was stored under its policy's name.

import (
	"github.com/ashlardb/ashlar/internal/xxh3"
)

// Policy makes and opens the filters of tables. Its methods may be called from any number of goroutines.
type Policy interface {
	// Name is stored in the table beside the filter. It says how the block is to be read, not how it was configured.
	Name() string
	// NewBuilder starts the filter of a table with about expectedKeys keys; 0 when that is not known.
	NewBuilder(expectedKeys int) Builder
	// Open reads a stored filter. The Reader keeps block, which must not change and must live as long as the Reader is used.
	// The error says what is wrong with the block.
	Open(block []byte) (Reader, error)
}

// Builder collects the keys of one table. It belongs to one goroutine.
type Builder interface {
	// Add puts key in; it is not kept. The same key twice in a row costs nothing.
	Add(key []byte)
	// Finish appends the block to dst and returns it. After it the Builder is empty and may be used for another table.
	Finish(dst []byte) []byte
}

// Reader is one opened filter. Any number of goroutines may ask it.
type Reader interface {
	// MayContain returns false when key was certainly not added.
	MayContain(key []byte) bool
}

// HashReader is a Reader that goes by Hash, so that a read of many tables hashes its key once.
type HashReader interface {
	Reader
	// MayContainHash is MayContain for the key with Hash h.
	MayContainHash(h uint64) bool
}

// Prober is a Policy that asks a stored filter without a Reader, for filters that are asked out of a cache. All built-in
// policies are.
type Prober interface {
	Policy
	// MayContain is that of the Reader that Open(block) would return, or Open's error.
	MayContain(block, key []byte) (bool, error)
}

// Sizer is a Policy that knows how large its filters are, for filters in partitions of some size. All built-in policies
// are.
type Sizer interface {
	Policy
	// KeysIn is about how many keys the filter of so many bytes has.
	KeysIn(bytes int) int
}

// Hash returns the hash of key that a HashReader takes.
func Hash(key []byte) uint64 { return xxh3.Hash64Preview(key) }

// Known returns a policy that opens the filters stored under name, for tables that are read without the policy that wrote
// them. ok is false for a name that is not built in.
func Known(name string) (p Policy, ok bool) {
	switch name {
	case bloomName:
		return Bloom(10), true
	case standardName:
		return StandardBloom(10), true
	}
	return nil, false
}

// always is a filter that gives every key the same answer.
type always bool

func (a always) MayContain([]byte) bool     { return bool(a) }
func (a always) MayContainHash(uint64) bool { return bool(a) }
