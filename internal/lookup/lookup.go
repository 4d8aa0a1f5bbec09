// Package lookup carries one point read on its way down: from the memtables through the levels, newest first.
package lookup

import (
	"slices"
	"sync"

	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/merge"
	"github.com/ashlardb/ashlar/internal/stats"
)

// State says what a Get knows so far.
type State uint8

const (
	// Pending: nothing that decides was seen yet. Ends with the first version that the reader may see and that is no merge
	// operand.
	Pending State = iota
	// Found: Value is the answer.
	Found
	// Deleted: the newest visible version is a tombstone.
	Deleted
	// Unsupported: the newest visible version is of a kind that is not built; Kind says which.
	Unsupported
	// Failed: a Batch could not read what it had to.
	Failed
)

// Get is one point read. It lives on its caller's stack: nothing keeps a pointer to it.
//
// Value points into a memtable, which the reader's superversion keeps alive, or into a cached block, which pin keeps
// alive until Release. Whoever starts a Get calls Release after the value was copied or used.
//
// Merge operands are gathered on the way, with a pin of every block that they lie in. When the walk is over, be it at a
// value, at a tombstone or because there was nothing more, and Merging is true, Merge makes the value of them.
type Get struct {
	User  []byte
	Seq   kv.Seq
	State State
	Kind  kv.Kind
	Value []byte

	// CacheOnly makes tables answer from memory or not at all, and DontFillCache keeps what they read out of the cache.
	CacheOnly, DontFillCache bool

	// Tally is what the walk met, for its caller to count. Level is where in the tree it is, 0 to 6.
	Tally stats.Tally
	Level uint8
	// N is the place of a Batch's Get in its caller's keys.
	N int

	cover    kv.Seq // see cover.go
	pin      *cache.Value
	gathered *gathered // nil without operands, so that they cost nothing to those who have none
}

// gathered is what a read of a merged key holds. It comes from a pool: it cannot live on the stack, as operators are
// given it.
type gathered struct {
	operands [][]byte // newest first
	pins     []*cache.Value
	value    []byte
}

var pool = sync.Pool{New: func() any { return new(gathered) }}

// maxKept bounds the operands and the bytes that go back to the pool.
const maxKept = 64 << 10

// Offer shows g the versions of its key, newest first. Versions that the reader may not see are passed over. It returns
// whether g wants to see older ones.
func (g *Get) Offer(t kv.Trailer, value []byte) (more bool) {
	if t.Seq() > g.Seq {
		return true
	}
	if t.Seq() < g.cover {
		return !g.Covered()
	}
	g.Kind = t.Kind()
	switch g.Kind {
	case kv.KindMerge:
		if g.gathered == nil {
			g.gathered = pool.Get().(*gathered)
		}
		g.gathered.operands = append(g.gathered.operands, value)
		return true
	case kv.KindValue:
		g.State, g.Value = Found, value
	case kv.KindDelete, kv.KindSingleDel:
		g.State = Deleted
	default:
		g.State = Unsupported
	}
	return false
}

// Merging tells whether there are operands that Merge has to apply.
func (g *Get) Merging() bool { return g.gathered != nil }

// Operands is how many operands there are.
func (g *Get) Operands() int {
	if g.gathered == nil {
		return 0
	}
	return len(g.gathered.operands)
}

// Pin hands g one reference to a block that Value or an operand points into.
func (g *Get) Pin(v *cache.Value) {
	if g.pin == nil {
		g.pin = v
		return
	}
	g.gathered.pins = append(g.gathered.pins, v)
}

// Merge applies the operands to what the walk ended at and makes the result the Value, which lives until Release. It is
// called once, when the walk is over. The error is that of package merge.
func (g *Get) Merge(op kv.MergeOperator) error {
	if g.State == Unsupported {
		return nil
	}
	m := g.gathered
	slices.Reverse(m.operands)
	var err error
	if m.value, err = merge.Full(op, m.value[:0], g.User, g.Value, g.State == Found, m.operands); err != nil {
		return err
	}
	g.State, g.Value = Found, m.value
	return nil
}

// Release gives back what Pin took. Value must not be used after.
func (g *Get) Release() {
	if g.pin != nil {
		g.pin.Release()
		g.pin, g.Value = nil, nil
	}
	if g.gathered != nil {
		g.letGo()
	}
}

func (g *Get) letGo() {
	m := g.gathered
	g.gathered, g.Value = nil, nil
	for _, v := range m.pins {
		v.Release()
	}
	clear(m.pins)
	clear(m.operands)
	m.pins, m.operands = m.pins[:0], m.operands[:0]
	if cap(m.operands) > maxKept/24 || cap(m.pins) > maxKept/8 || cap(m.value) > maxKept {
		return
	}
	pool.Put(m)
}
