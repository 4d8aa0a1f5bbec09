// Package lookup carries one point read on its way down: from the memtables through the levels, newest first.
package lookup

import (
	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/kv"
)

// State says what a Get knows so far.
type State uint8

const (
	// Pending: nothing that decides was seen yet. Ends with the first version that the reader may see.
	Pending State = iota
	// Found: Value is the answer.
	Found
	// Deleted: the newest visible version is a tombstone.
	Deleted
	// Unsupported: the newest visible version is of a kind that is not built; Kind says which.
	Unsupported
)

// Get is one point read. It lives on its caller's stack: nothing keeps a pointer to it.
//
// Value points into a memtable, which the reader's superversion keeps alive, or into a cached block, which pin keeps
// alive until Release. Whoever starts a Get calls Release after the value was copied or used.
type Get struct {
	User  []byte
	Seq   kv.Seq
	State State
	Kind  kv.Kind
	Value []byte

	// CacheOnly makes tables answer from memory or not at all, and DontFillCache keeps what they read out of the cache.
	CacheOnly, DontFillCache bool

	pin *cache.Value
}

// Offer shows g the versions of its key, newest first. Versions that the reader may not see are passed over. It returns
// whether g wants to see older ones.
func (g *Get) Offer(t kv.Trailer, value []byte) (more bool) {
	if t.Seq() > g.Seq {
		return true
	}
	g.Kind = t.Kind()
	switch g.Kind {
	case kv.KindValue:
		g.State, g.Value = Found, value
	case kv.KindDelete, kv.KindSingleDel:
		g.State = Deleted
	default:
		g.State = Unsupported
	}
	return false
}

// Pin hands g one reference to the block that Value points into.
func (g *Get) Pin(v *cache.Value) { g.pin = v }

// Release gives back what Pin took. Value must not be used after.
func (g *Get) Release() {
	if g.pin != nil {
		g.pin.Release()
		g.pin, g.Value = nil, nil
	}
}
