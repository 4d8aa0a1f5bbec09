package memtable

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ashlardb/ashlar/internal/invariants"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
)

// MaxEntryOverhead is the most that an entry takes of an arena beyond its key and value.
const MaxEntryOverhead = maxHeight*linkSize + headerSize + unit - 1

// MaxEntrySize returns the most bytes that an entry with a user key and a value of these lengths takes of an arena.
func MaxEntrySize(keyLen, valueLen int) int {
	return (maxHeight*linkSize + headerSize + keyLen + valueLen + unit - 1) &^ (unit - 1)
}

// ErrDuplicate is returned by Insert when the table has an entry with the same key, sequence number and kind.
var ErrDuplicate = errors.New("memtable: entry inserted twice")

// Table holds the newest entries of one family, in memory and in order. See the package comment for who may call what
// when.
type Table struct {
	list

	// Constant after New.
	arena     *Arena
	logNumber uint64
	bloom     *Bloom // nil: none
	id        uint64 // of this table alone, so that a Hint knows whose splice it has

	sealed atomic.Bool // stored by Seal; read in builds with invariants

	tombstones     atomic.Pointer[tombstones] // nil: no range deletes
	tombstoneBytes atomic.Int64
	tombstoneCount atomic.Int64
	adding         sync.Mutex // held to replace tombstones

	_ [64]byte // what follows is written by every insert, what precedes is read by every search

	entries atomic.Uint64
	deletes atomic.Uint64
}

var lastID atomic.Uint64

// New returns an empty table whose entries are in order of cmp and live in a, which belongs to the table from now on.
// logNumber is the number of the log that holds the table's first entry: while the table is not flushed, that log and
// the later ones are needed.
func New(cmp *kv.Comparer, a *Arena, logNumber uint64) *Table {
	t := &Table{arena: a, logNumber: logNumber, id: lastID.Add(1)}
	t.base, t.cmp, t.bytewise = a.base, cmp, cmp.IsBytewise()
	t.head = t.newNode(maxHeight, nil, 0, nil)
	for level := range maxHeight {
		*t.linkAt(t.head, level) = uint64(endLink)
	}
	t.height.Store(1)
	return t
}

// UseBloom gives the table a filter, before the first insert. A nil one is none.
func (t *Table) UseBloom(b *Bloom) { t.bloom = b }

// A Hint remembers where its last insert went. Give each goroutine or batch its own, and entries that follow each
// other in key order find their places next to each other without a search. The zero value is ready; a hint that was
// used on one table may be used on another.
type Hint struct {
	table  uint64 // whose splice it is
	random uint64 // state of the generator of heights; not zero once used
	splice splice
}

// draw returns a height: 1 in half the cases, one more in half of the rest, and so on. As only nodes that a search
// passes cost a cache miss, and not those it stops at, more levels mean fewer misses: BenchmarkInsertRandom takes 2.2 µs
// with a half and 2.7 µs with a quarter, as RocksDB has it. 0.7 made no difference and costs 11 bytes an entry.
func (h *Hint) draw() int {
	x := h.random
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	h.random = x
	return min(1+bits.TrailingZeros64(x), maxHeight)
}

func (h *Hint) reset(table uint64) {
	h.table, h.splice.levels = table, 0
	if h.random == 0 {
		h.random = lastID.Add(1) * 0x9e3779b97f4a7c15 // odd, and the counter is not zero: neither is the product
	}
}

// Insert adds an entry. It copies key and value. Any number of goroutines may call it at once, each with a hint of its
// own, but not after Seal. Readers see the entry at once; what they may see is for their sequence numbers to say.
//
// The error is ErrDuplicate, or ErrArenaFull if the caller let in more than the arena holds (a build with invariants
// panics then). Readers then see the table as it was; what the entry took of the arena is lost.
func (t *Table) Insert(h *Hint, key []byte, tr kv.Trailer, value []byte) error {
	if invariants.Enabled && t.sealed.Load() {
		panic("memtable: insert into a sealed table")
	}
	if h.table != t.id {
		h.reset(t.id)
	}
	height := h.draw()
	node := t.newNode(height, key, tr, value)
	if node == 0 {
		if invariants.Enabled {
			panic(fmt.Sprintf("memtable: entry of %d and %d bytes does not fit into an arena of %d, %d used",
				len(key), len(value), t.arena.Capacity(), t.Bytes()))
		}
		return ErrArenaFull
	}
	t.bloom.add(key)
	w := t.target(key, tr)
	if !t.fit(&h.splice, &w) || !t.insert(&h.splice, &w, node, height) {
		return ErrDuplicate
	}
	t.entries.Add(1)
	if k := tr.Kind(); k == kv.KindDelete || k == kv.KindSingleDel {
		t.deletes.Add(1)
	}
	return nil
}

// newNode writes a node without its links and returns its offset, or 0 if it does not fit.
func (t *Table) newNode(height int, key []byte, tr kv.Trailer, value []byte) uint32 {
	if uint64(len(key)) > math.MaxUint32 || uint64(len(value)) > math.MaxUint32 {
		return 0
	}
	links := uint64(height) * linkSize
	start := t.arena.alloc(links + headerSize + uint64(len(key)) + uint64(len(value)))
	if start == 0 {
		return 0
	}
	node := start + toOffset(links)
	h := t.header(node)
	*h = header{uint32(len(key)), uint32(len(value)), tr}
	body := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(h), headerSize)), len(key)+len(value))
	copy(body, key)
	copy(body[len(key):], value)
	return node
}

// Get shows g the versions of its key that its reader may see, newest first, until g wants no more or a range delete
// covers the rest. It returns whether g is decided. g.Value then points into the arena: it lives until the table's
// Release.
func (t *Table) Get(g *lookup.Get) (done bool) {
	if s := t.tombstones.Load(); s != nil {
		g.Cover(s.cover(t.cmp, g.User, g.Seq))
	}
	return t.bloom.mayHaveKey(g.User) && t.offer(g) || g.Covered()
}

func (t *Table) offer(g *lookup.Get) (done bool) {
	w := t.target(g.User, kv.MakeTrailer(g.Seq, kv.KindMax))
	for _, n := t.find(&w); n != endLink && n.rank() == w.rank; n = t.next(n.offset(), 0) {
		node := n.offset()
		if string(t.key(node)) != string(g.User) {
			return false
		}
		if !g.Offer(t.header(node).trailer, t.value(node)) {
			return true
		}
	}
	return false
}

// Bytes returns how many bytes the entries take: of the arena, and what range deletes count for.
func (t *Table) Bytes() int64 {
	return int64(t.arena.usedBytes()-arenaReserved) + t.tombstoneBytes.Load()
}

// MemoryUsage is how much memory the entries and the filter beside them take.
func (t *Table) MemoryUsage() int64 { return t.Bytes() + t.bloom.Bytes() }

// Arena returns the arena that New got, for its capacity.
func (t *Table) Arena() *Arena { return t.arena }

// Entries returns how many entries there are, tombstones included.
func (t *Table) Entries() uint64 { return t.entries.Load() }

// Deletes returns how many of the entries are tombstones.
func (t *Table) Deletes() uint64 { return t.deletes.Load() }

// RangeDeletes returns how many of the entries are range deletes.
func (t *Table) RangeDeletes() int { return int(t.tombstoneCount.Load()) }

// Empty tells whether there is no entry and no range delete.
func (t *Table) Empty() bool { return t.next(t.head, 0) == endLink && t.tombstones.Load() == nil }

// LogNumber returns what New got.
func (t *Table) LogNumber() uint64 { return t.logNumber }

// Seal ends the table's time of inserts. Whoever calls it made sure that none is under way.
func (t *Table) Seal() { t.sealed.Store(true) }

// Release gives the arena back. No reader, no iterator and no value that Get found may be used after.
func (t *Table) Release() {
	t.arena.Release()
	t.base = nil
}
