package offheap

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/invariants"
)

func TestSlotFitsAndWastesAtMostAnEighth(t *testing.T) {
	for n := 0; n < 300_000; n += 1 + n/500 {
		size := Size(n)
		require.GreaterOrEqual(t, size, n)
		if n > 2048 {
			require.LessOrEqual(t, size-n, n/8, "n = %d", n)
		} else if n >= 512 {
			require.Less(t, size-n, 256)
		}
		require.Equal(t, size, Size(size))
		if c := classOf(n); c > 0 {
			require.Less(t, classSize(c-1), max(n, 1), "class %d is the smallest that fits", c)
		}
	}
	for c := range classCount {
		require.Equal(t, c, classOf(classSize(c)))
		require.Zero(t, classSize(c)*slabSlots%pageSize)
		if classSize(c) > largeFrom {
			require.Zero(t, classSize(c)%pageSize)
		}
	}
	require.Greater(t, classSize(classCount-1), 1<<39)
}

// play runs a list of allocations and frees against a pool and its twin, a list of what each block must contain. Overlapping
// blocks would overwrite each other.
func play(t *testing.T, script []byte) {
	p := NewPool()
	if len(script)%2 == 1 {
		p.SetSlack(10_000)
	}
	type held struct {
		b    Block
		mark byte
	}
	var blocks []held
	used := int64(0)
	check := func(h held) {
		require.Equal(t, len(h.b.Bytes), bytes.Count(h.b.Bytes, []byte{h.mark}))
	}
	for i := 0; i+1 < len(script); i += 2 {
		op, arg := script[i], int(script[i+1])
		if op < 150 || len(blocks) == 0 {
			n := arg * 37
			if op < 10 {
				n = arg * 1021
			}
			h := held{p.Alloc(n), byte(i)}
			require.Len(t, h.b.Bytes, n)
			require.Equal(t, Size(n), cap(h.b.Bytes))
			copy(h.b.Bytes, bytes.Repeat([]byte{h.mark}, n))
			blocks = append(blocks, h)
			used += int64(Size(n))
		} else {
			j := arg * len(blocks) / 256
			check(blocks[j])
			used -= int64(Size(len(blocks[j].b.Bytes)))
			p.Free(blocks[j].b)
			blocks[j] = blocks[len(blocks)-1]
			blocks = blocks[:len(blocks)-1]
		}
		require.Equal(t, used, p.Used())
		require.GreaterOrEqual(t, p.Resident(), p.Used())
	}
	for _, h := range blocks {
		check(h)
		p.Free(h.b)
	}
	require.Zero(t, p.Used())
	if regionSlabs > 1 {
		require.LessOrEqual(t, p.Resident(), int64(spareBytes))
	}
	p.Close()
	require.Zero(t, p.Resident())
}

func TestBlocksNeverOverlap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	script := make([]byte, 4000)
	for i := range script {
		script[i] = byte(r.Uint32())
	}
	play(t, script)
	play(t, script[1:])
}

func TestFreedSlotsGiveTheirPagesBackWhenTooMuchIsUnused(t *testing.T) {
	p := NewPool()
	p.SetSlack(100_000)
	var blocks []Block
	for i := range 4096 {
		blocks = append(blocks, p.Alloc(9000))
		blocks[i].Bytes[0] = 1
	}
	for i, b := range blocks {
		if i%4 != 0 { // no slab gets empty
			p.Free(b)
		}
	}
	if regionSlabs > 1 {
		require.Less(t, p.Resident(), p.Used()*5/2) // of each slot of 9216 bytes, one or two pages go back
	}
	for i := range blocks {
		if i%4 != 0 {
			blocks[i] = p.Alloc(9000)
		}
	}
	require.EqualValues(t, 4096*9216, p.Used())
	require.Equal(t, p.Used(), p.Resident())
	for _, b := range blocks {
		p.Free(b)
	}
	if regionSlabs > 1 {
		require.LessOrEqual(t, p.Resident(), int64(spareBytes))
	}
}

func FuzzPool(f *testing.F) {
	f.Add([]byte{20, 110, 20, 111, 200, 0, 20, 112})
	f.Add([]byte{1, 200, 1, 201, 200, 0, 1, 199, 200, 255, 200, 255})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) < 2000 {
			play(t, script)
		}
	})
}

func TestPagesGoBackWhenASlabIsEmptyAndAreReused(t *testing.T) {
	before := Live()
	p := NewPool()
	var blocks []Block
	for range 4096 {
		b := p.Alloc(4096)
		clear(b.Bytes)
		blocks = append(blocks, b)
	}
	require.EqualValues(t, 16<<20, p.Resident())
	require.EqualValues(t, 4096, Live()-before)
	for _, b := range blocks {
		p.Free(b)
	}
	require.Equal(t, before, Live())
	if regionSlabs > 1 {
		require.LessOrEqual(t, p.Resident(), int64(spareBytes))
	}
	regions := len(p.regions)
	for i := range blocks {
		blocks[i] = p.Alloc(4000)
		blocks[i].Bytes[0] = 1
	}
	require.Len(t, p.regions, regions, "the same addresses again")
	for _, b := range blocks {
		p.Free(b)
	}
	p.Close()
}

func TestNewBlocksGoToTheFullestSlab(t *testing.T) {
	p := NewPool()
	var blocks []Block
	for range 2 * slabSlots {
		blocks = append(blocks, p.Alloc(4096))
	}
	for _, b := range blocks[1:slabSlots] { // the first slab keeps one block, the second one all but one
		p.Free(b)
	}
	p.Free(blocks[slabSlots])
	b := p.Alloc(4096)
	require.Same(t, blocks[slabSlots+1].slab, b.slab)
}

func TestClosedPoolIsUnmappedAfterItsLastBlock(t *testing.T) {
	p := NewPool()
	b := p.Alloc(100)
	p.Close()
	copy(b.Bytes, "still here")
	require.NotZero(t, p.Resident())
	p.Free(b)
	require.Zero(t, p.Resident())
	require.Empty(t, p.regions)
}

func TestBlockFreedTwiceIsNoticedOrHarmless(t *testing.T) {
	p := NewPool()
	a := p.Alloc(5000)
	b := p.Alloc(5000)
	copy(b.Bytes, "mine")
	p.Free(a)
	if invariants.Enabled {
		require.Panics(t, func() { p.Free(a) })
		require.EqualValues(t, 0xdb, a.Bytes[17])
	} else {
		p.Free(a)
	}
	require.EqualValues(t, Size(5000), p.Used())
	require.Equal(t, "mine", string(b.Bytes[:4]))
	p.Free(b)
}

func TestManyGoroutinesShareAPool(t *testing.T) {
	p := NewPool()
	before := Live()
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 7))
			var mine []Block
			for range 1000 {
				if len(mine) > 50 || (len(mine) > 0 && r.IntN(2) == 0) {
					i := r.IntN(len(mine))
					if len(mine[i].Bytes) != bytes.Count(mine[i].Bytes, []byte{byte(g)}) {
						t.Error("somebody else wrote here")
						return
					}
					p.Free(mine[i])
					mine[i] = mine[len(mine)-1]
					mine = mine[:len(mine)-1]
					continue
				}
				b := p.Alloc(r.IntN(9000))
				copy(b.Bytes, bytes.Repeat([]byte{byte(g)}, len(b.Bytes)))
				mine = append(mine, b)
			}
			for _, b := range mine {
				p.Free(b)
			}
		})
	}
	all.Wait()
	require.Zero(t, p.Used())
	require.Equal(t, before, Live())
}

func BenchmarkAllocFree(b *testing.B) {
	p := NewPool()
	keep := p.Alloc(4096)
	b.ReportAllocs()
	for range b.N {
		p.Free(p.Alloc(4096))
	}
	p.Free(keep)
}
