//go:build linux && !race

package memtable

import (
	"math/bits"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	hugePage = 2 << 20
	// maxKept is how many released mappings keep their pages: a database that fills a memtable as fast as it flushes
	// one has a few of them on the way.
	maxKept = 3
	// maxKeptSize bounds each of these, lest one batch of gigabytes stays resident for good.
	maxKeptSize = 1 << 30
)

// pool holds the mappings that no arena uses. They come in sizes of which one doubling has four, so that one of the
// right size is likely to be there.
//
// Mappings are never unmapped: pages go back to the system, addresses stay. So a reader that breaks its promise and
// looks at a released arena gets nonsense, not a dead process.
type pool struct {
	mu   sync.Mutex
	kept [][]byte         // with pages, oldest first, at most maxKept
	bare map[int][][]byte // without pages, by size
}

var memory = pool{bare: map[int][][]byte{}}

// adviseHugePages lets benchmarks see the difference.
var adviseHugePages = true

func takeMemory(size int) ([]byte, error) { return memory.take(size) }
func giveMemory(mem []byte)               { memory.give(mem) }

// Trim gives the pages that released arenas keep for the next ones back to the system.
func Trim() { memory.trim(0) }

// roundSize rounds up to a multiple of a quarter of the power of two below; at least 64 KiB.
func roundSize(size int) int {
	size = max(size, 64<<10)
	quarter := 1 << max(bits.Len(uint(size-1))-3, 0)
	return (size + quarter - 1) &^ (quarter - 1)
}

func (p *pool) take(size int) ([]byte, error) {
	size = roundSize(size)
	p.mu.Lock()
	for i := len(p.kept) - 1; i >= 0; i-- {
		if mem := p.kept[i]; len(mem) == size {
			p.kept = slices.Delete(p.kept, i, i+1)
			p.mu.Unlock()
			return mem, nil
		}
	}
	if of := p.bare[size]; len(of) > 0 {
		mem := of[len(of)-1]
		p.bare[size] = of[:len(of)-1]
		p.mu.Unlock()
		return mem, nil
	}
	p.mu.Unlock()
	return mapMemory(size)
}

func (p *pool) give(mem []byte) {
	p.mu.Lock()
	if len(mem) <= maxKeptSize {
		p.kept = append(p.kept, mem)
		p.mu.Unlock()
		p.trim(maxKept)
		return
	}
	p.mu.Unlock()
	p.strip(mem)
}

// trim takes the pages of the oldest mappings away until keep are left that have theirs.
func (p *pool) trim(keep int) {
	for {
		p.mu.Lock()
		if len(p.kept) <= keep {
			p.mu.Unlock()
			return
		}
		mem := p.kept[0]
		p.kept = slices.Delete(p.kept, 0, 1)
		p.mu.Unlock()
		p.strip(mem)
	}
}

// strip gives mem's pages to the system and keeps its addresses. If the system will not have them, they stay.
func (p *pool) strip(mem []byte) {
	_ = unix.Madvise(mem, unix.MADV_DONTNEED)
	p.mu.Lock()
	p.bare[len(mem)] = append(p.bare[len(mem)], mem)
	p.mu.Unlock()
}

// mapMemory maps size bytes. From the size of a huge page on they begin at one's edge and ask to be backed by such.
func mapMemory(size int) ([]byte, error) {
	room := size
	if size >= hugePage {
		room += hugePage
	}
	mem, err := unix.Mmap(-1, 0, room, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	if size >= hugePage {
		skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(mem))) & (hugePage - 1))
		mem = mem[skip : skip+size : skip+size]
		if adviseHugePages {
			_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // a kernel without them still gives the memory
		}
	}
	return mem, nil
}
