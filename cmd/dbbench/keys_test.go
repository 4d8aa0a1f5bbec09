package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMersenneTwisterIsTheReferenceOne(t *testing.T) {
	m := newMersenne(5489)
	for i, want := range []uint64{14514284786278117030, 4620546740167642908, 13109570281517897720} {
		require.Equal(t, want, m.Next(), "output %d", i)
	}
	for range 10000 - 3 - 1 {
		m.Next()
	}
	// The C++ standard fixes the ten thousandth output.
	require.Equal(t, uint64(9981545732273789042), m.Next())
}

func TestLehmerGeneratorIsMinstdRand0(t *testing.T) {
	l := newLehmer(1)
	require.Equal(t, uint32(16807), l.Next())
	for range 9998 {
		l.Next()
	}
	// The C++ standard fixes the ten thousandth output.
	require.Equal(t, uint32(1043618065), l.Next())
}

func TestLehmerGeneratorAvoidsItsFixedPoints(t *testing.T) {
	for _, seed := range []uint32{0, lehmerModulus, 1 << 31} {
		l := newLehmer(seed)
		require.Equal(t, uint32(16807), l.Next(), "seed %d", seed)
	}
}

func TestLehmerGeneratorAgreesWithLongDivision(t *testing.T) {
	l, slow := newLehmer(301), uint64(301)
	for range 100_000 {
		slow = slow * 16807 % lehmerModulus
		require.Equal(t, uint32(slow), l.Next())
	}
}

func TestGaussianHasItsMeanAndDeviation(t *testing.T) {
	g := newGaussian(1)
	const n = 100_000
	sum, squares := 0.0, 0.0
	for range n {
		x := g.Next(500, 20)
		sum += x
		squares += (x - 500) * (x - 500)
	}
	require.InDelta(t, 500, sum/n, 1)
	require.InDelta(t, 400, squares/n, 10)
}

func TestKeysAreBigEndianAndPadded(t *testing.T) {
	for _, c := range []struct {
		size, prefixSize int
		prefixes, v      uint64
		want             string
	}{
		{16, 0, 0, 3, "0000000000000003" + "3030303030303030"},
		{8, 0, 0, 3, "0000000000000003"},
		{17, 0, 0, 3, "0000000000000003" + "303030303030303030"},
		{4, 0, 0, 0x11223344556677, "44556677"},
		{1, 0, 0, 0x1ff, "ff"},
		{16, 0, 0, 1 << 63, "8000000000000000" + "3030303030303030"},
		// A prefix size without prefixes changes nothing.
		{16, 4, 0, 3, "0000000000000003" + "3030303030303030"},
		{16, 4, 10, 37, "00000007" + "0000000000000025" + "30303030"},
		{16, 10, 10, 37, "0000000000000007" + "3030" + "000000000025"},
		{12, 12, 10, 37, "0000000000000007" + "30303030"},
		{16, 0, 10, 37, "0000000000000025" + "3030303030303030"},
	} {
		k := keyMaker{size: c.size, prefixSize: c.prefixSize, prefixes: c.prefixes}
		key := []byte(strings.Repeat("?", c.size))
		k.put(key, c.v)
		require.Equal(t, c.want, fmt.Sprintf("%x", key), "%+v", c)
	}
}

func TestRandomFillTouchesAboutTwoThirdsOfTheKeys(t *testing.T) {
	const num = 20_000
	keys := newKeyOrder(random, newMersenne(1), num, 1)
	seen := map[uint64]bool{}
	for range num {
		seen[keys.Next()] = true
	}
	require.InDelta(t, 0.632, float64(len(seen))/num, 0.01) // 1 − 1/e
}

func TestUniqueOrderHasEachKeyOnce(t *testing.T) {
	const num = 1000
	keys := newKeyOrder(unique, newMersenne(1), num, 1)
	seen := map[uint64]bool{}
	inPlace := 0
	for i := range uint64(num) {
		v := keys.Next()
		require.Less(t, v, uint64(num))
		require.False(t, seen[v])
		seen[v] = true
		if v == i {
			inPlace++
		}
	}
	require.Less(t, inPlace, num/10)
}

func TestSequentialOrderCounts(t *testing.T) {
	keys := newKeyOrder(sequential, newMersenne(1), 10, 1)
	for i := range uint64(10) {
		require.Equal(t, i, keys.Next())
	}
}

func TestSkewedReadsPreferFewKeys(t *testing.T) {
	const num, draws = 10_000, 20_000
	distinct := func(skew float64) int {
		rand, seen := newMersenne(1), map[uint64]bool{}
		for range draws {
			v := randomKey(rand, num, skew)
			require.Less(t, v, uint64(num))
			seen[v] = true
		}
		return len(seen)
	}
	require.Less(t, distinct(20), distinct(0)/2)
}

// The text is the one that RocksDB 7.8.3 wrote into testdata/rocksdb/78-62-db_bench-cfs.
func TestValuesAreDbBenchs(t *testing.T) {
	v := newMaker(valueShape{size: 6, ratio: 0.5}, 1)
	require.Equal(t, "5e7b56687a22", fmt.Sprintf("%x", v.Next()))
	v = newMaker(valueShape{size: 100, ratio: 0.5}, 1)
	first := string(v.Next())
	require.Equal(t, first[:50], first[50:], "a piece repeats its random half")
	second := string(v.Next())
	require.Equal(t, "624f7b5c5e61", fmt.Sprintf("%x", second[:6]))
	require.Equal(t, second[:50], second[50:])
}

func TestValuesStartAgainBeforeTheTextRunsOut(t *testing.T) {
	v := newMaker(valueShape{size: 1000, ratio: 0.5}, 1)
	first := string(v.Next())
	for n := len(v.text)/1000 - 1; n > 0; n-- {
		v.Next()
	}
	require.Equal(t, first, string(v.Next()))
}

func TestTextIsAsLongAsTheLongestValue(t *testing.T) {
	v := newMaker(valueShape{size: 3 << 20, ratio: 0.1}, 1)
	require.Len(t, v.Next(), 3<<20)
	require.Len(t, v.Next(), 3<<20)
}

func TestValueSizesFollowTheirDistribution(t *testing.T) {
	for kind, deviation := range map[sizeKind]float64{uniformSize: 900 / 3.46, normalSize: 150} {
		v := newMaker(valueShape{kind: kind, min: 100, max: 1000, ratio: 0.5}, 1)
		const n = 20_000
		sum, squares := 0.0, 0.0
		for range n {
			size := len(v.Next())
			require.GreaterOrEqual(t, size, 100)
			require.LessOrEqual(t, size, 1000)
			sum += float64(size)
			squares += (float64(size) - 550) * (float64(size) - 550)
		}
		require.InDelta(t, 550, sum/n, 10, "kind %d", kind)
		require.InDelta(t, deviation*deviation, squares/n, deviation*deviation/20, "kind %d", kind)
	}
}

func Example() {
	k := keyMaker{size: 16}
	key := make([]byte, k.size)
	k.put(key, 258)
	v := newMaker(valueShape{size: 20, ratio: 0.5}, 1)
	fmt.Printf("%x\n%q\n", key, v.Next())
	// Output:
	// 00000000000001023030303030303030
	// "^{Vhz\"!/%wMZ;'a F/RE"
}

// newMaker makes a valueMaker with a text of its own.
func newMaker(shape valueShape, seed uint64) *valueMaker {
	return newValueMaker(shape, shape.makeText(), seed)
}

func TestThreadsShareATextAndEachBeginsAtItsStart(t *testing.T) {
	var all texts
	shape := valueShape{size: 100, ratio: 0.5}
	a, b := newValueMaker(shape, all.of(shape), 1), newValueMaker(shape, all.of(shape), 2)
	require.Same(t, &a.text[0], &b.text[0])
	a.Next()
	require.NotEqual(t, a.Next(), b.Next())
	other := valueShape{size: 100, ratio: 0.25}
	require.NotEqual(t, all.of(shape)[:100], all.of(other)[:100])
}

func TestDrawsBelowABoundAreTheUpperWordOfTheProduct(t *testing.T) {
	a, b := newMersenne(5), newMersenne(5)
	seen := map[uint64]int{}
	for range 6000 {
		v := a.Below(6)
		require.Equal(t, b.Next()/(1<<63/3), v) // sixths of 2⁶⁴; none of these draws is refused
		seen[v]++
	}
	for v := range uint64(6) {
		require.InDelta(t, 1000, seen[v], 120)
	}
	require.Zero(t, a.Below(1))
}

func TestStridedReadsKeepTheirDistance(t *testing.T) {
	c := newConfig()
	require.NoError(t, c.flags.parse([]string{"--num=100", "--multiread_stride=7", "--batch_size=4"}))
	b := &bench{cfg: c}
	b.work = c.work()
	keys := (&thread{bench: b, rand: newMersenne(1)}).readOrder()
	require.Equal(t, []uint64{7, 14, 21}, []uint64{keys.Next(), keys.Next(), keys.Next()}, "the first batch lacks the key that is drawn")
	for range 200 {
		first := keys.Next()
		require.LessOrEqual(t, first, uint64(100-3*7))
		for i := range uint64(3) {
			require.Equal(t, first+7*(i+1), keys.Next())
		}
	}
}

func TestRangeDeletionsComeWhenTheyAreDue(t *testing.T) {
	r := &rangeDeletes{before: 4, every: 3, most: 2}
	var at []int
	for i := range 30 {
		if r.due() {
			at = append(at, i+1)
		}
	}
	require.Equal(t, []int{7, 10}, at)
	require.Equal(t, "Number of range deletions: 2\n", r.note())
	none := &rangeDeletes{most: 2}
	require.False(t, none.due())
	require.Empty(t, none.note())
}

func TestXORIsAssociativeAndFillsUpWithZeros(t *testing.T) {
	xor := func(operands ...string) string {
		var all [][]byte
		for _, o := range operands {
			all = append(all, []byte(o))
		}
		out, err := bytesXOR.FullMerge([]byte("kept:"), []byte("k"), nil, all)
		require.NoError(t, err)
		return string(out)
	}
	require.Equal(t, "kept:\x03\x04", xor("\x01", "\x02\x04"))
	require.Equal(t, "kept:\x03\x04", xor("\x02\x04", "\x01"))
	require.Equal(t, xor("ab", "c", "def"), xor("def", "ab", "c"))
	require.Equal(t, "kept:\x00\x00", xor("ab", "ab"))
}
