package memtable

// An Arena is one piece of memory that is filled from the front and released as a whole.
//
//  1. Alloc moves one counter; nothing is ever freed by itself.
//  2. What Alloc returns holds what an earlier table left there. Whoever reads a byte has written it before.
//  3. Running full is a matter of counting: the one who lets writers in adds up MaxEntrySize, so Alloc fails only for
//     a caller that did not count. It then returns 0 and touches nothing.
//
// Why one mapping, and not blocks added as needed (RocksDB's arena): an offset of 32 bits then names any node, half a
// pointer; the collector has nothing to scan; and huge pages cover everything. A search meets a new page at nearly
// each of its lower steps, and with 4 KiB pages each of those is a page walk: BenchmarkInsertRandom, thread time on a
// busy machine, 2.2 µs with huge pages and 3.3 µs without. The memory comes from outside the Go heap, where GOGC would
// let garbage grow to the size of the memtables.
//
// Why mappings are recycled: the first touch of 64 MiB costs 15 ms to 400 ms with huge pages and more without. The
// pool keeps a few with their pages; see pool in memory_linux.go.

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/ashlardb/ashlar/internal/invariants"
)

const (
	// unit is what offsets count in. Everything in an arena begins at a multiple of it.
	unit = 8
	// MaxArenaCapacity is the largest capacity that offsets of 32 bits can name, 32 GiB less what a table needs.
	MaxArenaCapacity = math.MaxUint32*unit - arenaReserved
	// arenaReserved is what each arena has beyond its capacity: the unit at offset 0, which is nil, and the head.
	arenaReserved = unit + maxHeight*linkSize + headerSize
	// poison fills a released arena in builds with invariants.
	poison = 0xdd
)

// ErrArenaFull is returned by Insert when its caller let more in than the arena holds.
var ErrArenaFull = errors.New("memtable: arena full")

// Arena holds the entries of one Table. The zero value is not usable.
type Arena struct {
	// Constant until Release.
	mem      []byte
	base     unsafe.Pointer
	capacity int

	_ [64]byte // what follows is written by every insert, what precedes is read by every search

	used     atomic.Uint64
	released atomic.Bool
}

// NewArena returns an arena for entries whose MaxEntrySize adds up to capacity bytes. Memory is taken from the system
// as it is touched.
func NewArena(capacity int) (*Arena, error) {
	if capacity < 0 || uint64(capacity) > MaxArenaCapacity {
		return nil, fmt.Errorf("memtable: arena of %d bytes: at most %d", capacity, uint64(MaxArenaCapacity))
	}
	capacity = (capacity + unit - 1) &^ (unit - 1)
	mem, err := takeMemory(capacity + arenaReserved + unit) // so that an empty value at the end has an address inside
	if err != nil {
		return nil, fmt.Errorf("memtable: arena of %d bytes: %w", capacity, err)
	}
	a := &Arena{mem: mem, base: unsafe.Pointer(unsafe.SliceData(mem)), capacity: capacity}
	a.used.Store(unit)
	return a, nil
}

// Capacity returns the bytes that entries may take.
func (a *Arena) Capacity() int { return a.capacity }

// alloc returns the offset of size bytes, in units, or 0 if they are not there.
func (a *Arena) alloc(size uint64) uint32 {
	size = (size + unit - 1) &^ (unit - 1)
	end := a.used.Add(size)
	if end > uint64(a.capacity)+arenaReserved {
		return 0
	}
	return toOffset(end - size)
}

// usedBytes returns how many bytes were given out.
func (a *Arena) usedBytes() int {
	return int(min(a.used.Load(), uint64(a.capacity)+arenaReserved))
}

// Release gives the memory back. Nobody may read what was in the arena any more. Later calls do nothing; a build with
// invariants panics at the second one.
func (a *Arena) Release() {
	if a.released.Swap(true) {
		if invariants.Enabled {
			panic("memtable: arena released twice")
		}
		return
	}
	mem := a.mem
	if invariants.Enabled {
		used := mem[:a.usedBytes()]
		for i := range used {
			used[i] = poison
		}
	}
	a.mem, a.base = nil, nil
	giveMemory(mem)
}

// toOffset turns a place in bytes into an offset in units, and toBytes turns it back.
func toOffset(place uint64) uint32  { return uint32(place / unit) }
func toBytes(offset uint32) uintptr { return uintptr(offset) * unit }
