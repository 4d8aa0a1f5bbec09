//go:build linux && !race

package memtable

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// threadTime returns the time that the calling thread has run.
func threadTime() int64 {
	var use unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &use)
	return use.Utime.Nano() + use.Stime.Nano()
}

// withHugePages runs f with a pool of its own, whose mappings have huge pages or not.
func withHugePages(on bool, f func()) {
	defer func(old bool) { adviseHugePages = old }(adviseHugePages)
	Trim()
	bare := memory.bare
	memory.bare = map[int][][]byte{}
	adviseHugePages = on
	f()
	Trim()
	memory.bare = bare
}

func TestPoolKeepsThreeMappingsWithPages(t *testing.T) {
	p := pool{bare: map[int][][]byte{}}
	const size = 1 << 20
	var all [][]byte
	for i := range 5 {
		mem, err := p.take(size)
		require.NoError(t, err)
		require.Len(t, mem, size)
		require.Zero(t, uintptr(unsafe.Pointer(&mem[0]))%4096)
		mem[0] = byte(i + 1)
		all = append(all, mem)
	}
	for _, mem := range all {
		p.give(mem)
	}
	require.Len(t, p.kept, maxKept)
	require.Len(t, p.bare[size], 2)
	require.Zero(t, all[0][0], "pages went back, the address stays")
	for i := 4; i >= 2; i-- {
		mem, err := p.take(size)
		require.NoError(t, err)
		require.Equal(t, byte(i+1), mem[0], "the one released last is taken first, with its pages")
	}
	mem, err := p.take(size)
	require.NoError(t, err)
	require.Zero(t, mem[0])
	require.Len(t, p.bare[size], 1)
	other, err := p.take(2 * size)
	require.NoError(t, err)
	require.Len(t, other, 2*size)
	p.give(mem)
	p.trim(0)
	require.Empty(t, p.kept)
}

func TestLargeMappingsBeginAtAHugePage(t *testing.T) {
	for _, size := range []int{2 << 20, 5 << 20, 64<<20 + 8} {
		mem, err := mapMemory(roundSize(size))
		require.NoError(t, err)
		require.Zero(t, uintptr(unsafe.Pointer(&mem[0]))%hugePage)
		require.Len(t, mem, roundSize(size))
		mem[len(mem)-1] = 1
	}
}

func TestSizesComeFourToADoubling(t *testing.T) {
	for size, want := range map[int]int{
		0: 64 << 10, 1: 64 << 10, 64 << 10: 64 << 10, 64<<10 + 1: 80 << 10, 100 << 10: 112 << 10,
		64 << 20: 64 << 20, 64<<20 + 1: 80 << 20, 1<<30 + 1: 1<<30 + 1<<28,
	} {
		require.Equal(t, want, roundSize(size), size)
	}
}
