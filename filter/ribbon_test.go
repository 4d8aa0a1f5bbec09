package filter

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// keysOfDatabase returns the keys of one of RocksDB's databases in order.
func keysOfDatabase(t testing.TB, name string) (keys [][]byte) {
	listing, err := os.ReadFile("../testdata/rocksdb/" + name + "/expected.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(listing)) {
		if !strings.HasPrefix(line, "#") {
			key, err := hex.DecodeString(strings.Fields(line)[0])
			require.NoError(t, err)
			keys = append(keys, key)
		}
	}
	return keys
}

func build(p Policy, keys [][]byte) []byte {
	b := p.NewBuilder(len(keys))
	for _, k := range keys {
		b.Add(k)
	}
	return b.Finish(nil)
}

func TestRibbonWritesRocksDBsBytes(t *testing.T) {
	want := readGolden(t, "ribbon").block
	require.EqualValues(t, markRibbon, want[len(want)-metaBytes])
	require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(build(Ribbon(10), keysOfDatabase(t, "78-52-ribbon10"))))
}

func TestRibbonOfFewKeysIsBloom(t *testing.T) {
	for n, ribbon := range map[int]bool{1: false, 100: false, 140: false, 300: true, 5000: true} {
		var keys [][]byte
		for i := range n {
			keys = append(keys, keyOf(i))
		}
		block := build(Ribbon(10), keys)
		require.Equal(t, ribbon, block[len(block)-metaBytes] == markRibbon, "%d keys", n)
		if !ribbon {
			require.Equal(t, build(Bloom(10), keys), block)
		}
	}
}

func TestRibbonIsSmallerThanBloomOfTheSameRate(t *testing.T) {
	var keys [][]byte
	for i := range 100_000 {
		keys = append(keys, keyOf(i))
	}
	for _, bits := range []float64{5, 10, 15, 20} {
		require.Less(t, float64(len(build(Ribbon(bits), keys))), 0.78*float64(len(build(Bloom(bits), keys))), "%v bits", bits)
	}
}

func TestRibbonTriesAnotherSeed(t *testing.T) {
	// One set in twenty does not go with its first seed. Enough sets, and both ways are walked.
	first, again := 0, 0
	for set := range 100 {
		b := Ribbon(10).NewBuilder(0).(*ribbonBuilder)
		for i := range 2000 {
			b.Add(keyOf(set*2000 + i))
		}
		start := byte(b.hashes[0])
		block := b.Finish(nil)
		require.EqualValues(t, markRibbon, block[len(block)-metaBytes])
		if block[len(block)-4] == start {
			first++
		} else {
			again++
		}
		r, err := Bloom(10).Open(block)
		require.NoError(t, err)
		for i := range 2000 {
			require.True(t, r.MayContain(keyOf(set*2000+i)))
		}
	}
	require.Greater(t, first, 80)
	require.NotZero(t, again)
}

func TestSlotsGrowWithKeysAndHoldThem(t *testing.T) {
	last := 0
	for n := 1; n < 1<<31 && n <= maxRibbonKeys; n += 1 + n/7 {
		s := slotsFor(n)
		require.GreaterOrEqual(t, s, last)
		require.Zero(t, s%ribbonRows)
		require.Greater(t, s, n)
		if n > 1000 {
			require.Less(t, float64(s), 1.15*float64(n))
		}
		last = s
	}
	require.Less(t, last, 1<<32)
	require.Less(t, last/ribbonRows, 1<<24)
}

// The band beside a dumb twin: elimination over whole rows of big numbers says whether there is a solution.
func TestBandFailsExactlyWhereThereIsNoSolution(t *testing.T) {
	const slots = 256
	solved, failed := 0, 0
	for set := range 24 {
		x := band{rows: make([]row, slots), results: make([]uint32, slots), starts: slots - (ribbonRows - 1)}
		var hashes []uint64
		for i := range 243 + set%16 {
			hashes = append(hashes, Hash(fmt.Appendf(nil, "%d/%d", set, i)))
		}
		got := x.fill(hashes, byte(set))
		require.Equal(t, solvable(hashes, byte(set), x.starts), got, "set %d", set)
		if got {
			solved++
		} else {
			failed++
		}
	}
	require.NotZero(t, solved)
	require.NotZero(t, failed)
}

// solvable eliminates the way it is taught: the lowest set coefficient of each row in turn, out of all rows behind it.
func solvable(hashes []uint64, seed byte, starts uint64) bool {
	pivots := map[int]*big.Int{}
	for _, h := range hashes {
		e := equationOf(h, mixSeed(seed), starts)
		// Coefficients above, the result's 32 bits below.
		v := new(big.Int).SetUint64(e.hi)
		v.Lsh(v, 64).Or(v, new(big.Int).SetUint64(e.lo)).Lsh(v, uint(e.start)+32).Or(v, big.NewInt(int64(e.result)))
		for {
			top := v.BitLen() - 1
			if top < 32 {
				break
			}
			p := pivots[top]
			if p == nil {
				pivots[top] = v
				v = nil
				break
			}
			v.Xor(v, p)
		}
		if v != nil && v.Sign() != 0 {
			return false
		}
	}
	return true
}

func TestProbingABlockAnswersAsItsReader(t *testing.T) {
	blocks := map[string][]byte{"nothing": nil, "future": append(make([]byte, 64), 0xf0, 0, 0, 0, 0)}
	for _, kind := range goldenKinds {
		blocks[kind] = readGolden(t, kind).block
	}
	for _, p := range []Policy{Bloom(10), Ribbon(10), StandardBloom(10)} {
		blocks := blocks
		if p.Name() != Bloom(10).Name() {
			blocks = map[string][]byte{"standard": build(p, [][]byte{[]byte("a"), []byte("b")}), "short": make([]byte, 5)}
		}
		for name, block := range blocks {
			r, err := p.Open(block)
			for i := range 2000 {
				var key [8]byte
				binary.BigEndian.PutUint64(key[:], uint64(i))
				got, probed := p.(Prober).MayContain(block, key[:])
				require.Equal(t, err, probed)
				require.Equal(t, err == nil && r.MayContain(key[:]), got, name)
			}
			require.Zero(t, testing.AllocsPerRun(10, func() {
				if err == nil {
					_, _ = p.(Prober).MayContain(block, block)
				}
			}), name)
		}
	}
}
