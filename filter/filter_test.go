package filter

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/bits-and-blooms/bloom/v3"
	"github.com/stretchr/testify/require"
)

// golden is a filter block of a real table, and what RocksDB's own code says to a number of keys.
type golden struct {
	block []byte
	keys  []goldenKey
}

type goldenKey struct {
	key               []byte
	hash              uint64
	present, mayMatch bool
}

func readGolden(t testing.TB, kind string) (g golden) {
	raw, err := os.ReadFile("testdata/filter_" + kind + ".json")
	require.NoError(t, err)
	var v struct {
		Filter string `json:"filter_hex"`
		Keys   []struct {
			Key      string `json:"key_hex"`
			Hash     string `json:"xxph3_hex"`
			Present  bool   `json:"present"`
			MayMatch bool   `json:"may_match"`
		} `json:"keys"`
	}
	require.NoError(t, json.Unmarshal(raw, &v))
	g.block, err = hex.DecodeString(v.Filter)
	require.NoError(t, err)
	require.NotEmpty(t, v.Keys)
	for _, k := range v.Keys {
		key, err := hex.DecodeString(k.Key)
		require.NoError(t, err)
		h, err := strconv.ParseUint(k.Hash, 16, 64)
		require.NoError(t, err)
		g.keys = append(g.keys, goldenKey{key, h, k.Present, k.MayMatch})
	}
	return g
}

var goldenKinds = []string{"fastlocalbloom", "fastlocalbloom24", "legacybloom", "ribbon"}

func TestRocksDBsFiltersAnswerAsInRocksDB(t *testing.T) {
	for _, kind := range goldenKinds {
		g := readGolden(t, kind)
		r, err := Bloom(10).Open(g.block)
		require.NoError(t, err)
		require.NotEqual(t, always(true), r, kind)
		present := 0
		for _, k := range g.keys {
			require.Equal(t, k.mayMatch, r.MayContain(k.key), "%s %x", kind, k.key)
			require.Equal(t, k.hash, Hash(k.key))
			if h, ok := r.(HashReader); ok {
				require.Equal(t, k.mayMatch, h.MayContainHash(k.hash))
			}
			if k.present {
				present++
				require.True(t, k.mayMatch)
			}
		}
		require.NotZero(t, present)
		require.Less(t, present, len(g.keys))
	}
}

func TestBloomWritesRocksDBsBytes(t *testing.T) {
	for _, c := range []struct {
		kind, database string
		bits           float64
	}{{"fastlocalbloom", "78-50-bloom10", 10}, {"fastlocalbloom24", "78-51-bloom24", 24}} {
		listing, err := os.ReadFile("../testdata/rocksdb/" + c.database + "/expected.txt")
		require.NoError(t, err)
		b := Bloom(c.bits).NewBuilder(0)
		for line := range strings.Lines(string(listing)) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			key, err := hex.DecodeString(strings.Fields(line)[0])
			require.NoError(t, err)
			b.Add(key)
		}
		got := b.Finish([]byte("before"))
		require.Equal(t, hex.EncodeToString(readGolden(t, c.kind).block), hex.EncodeToString(got[len("before"):]), c.kind)
	}
}

func TestBloomOfOneKeyIsPinned(t *testing.T) {
	b := Bloom(10).NewBuilder(1)
	b.Add([]byte("k"))
	b.Add([]byte("k"))
	want := make([]byte, 64, 69)
	want[48], want[45], want[43], want[53], want[28], want[16] = 0x80, 0x10, 0x20, 0x01, 0x10, 0x80
	require.Equal(t, append(want, 0xff, 0, 6, 0, 0), b.Finish(nil))
}

func TestBloomSizesAreRocksDBs(t *testing.T) {
	for _, c := range []struct {
		bits  float64
		probe int
	}{{-1, 1}, {0.5, 1}, {2.08, 1}, {2.081, 2}, {5, 3}, {6, 4}, {8, 5}, {10, 6}, {10.071, 7}, {14, 8}, {16, 9}, {18, 10}, {20, 11},
		{25, 12}, {25.6, 11}, {30, 13}, {50, 23}, {50.001, 24}, {100, 24}, {1000, 24}} {
		require.Equal(t, c.probe, bloomProbes(toMillibits(c.bits)), "%v bits", c.bits)
	}
	require.Equal(t, 0, bloomLines(0, 10000))
	require.Equal(t, 1, bloomLines(51, 10000))
	require.Equal(t, 2, bloomLines(52, 10000))
	require.Equal(t, maxBytes/64, bloomLines(1<<40, 10000))
}

func TestFilterOfNoKeysSaysNo(t *testing.T) {
	for _, p := range []Policy{Bloom(10), StandardBloom(10), Ribbon(10)} {
		r, err := p.Open(p.NewBuilder(100).Finish(nil))
		require.NoError(t, err)
		require.False(t, r.MayContain(nil))
		require.False(t, r.MayContain([]byte("key")))
	}
	for n := range 6 {
		r, err := Bloom(10).Open(make([]byte, n))
		require.NoError(t, err)
		require.False(t, r.MayContain([]byte("key")))
	}
}

func TestFilterFromTheFutureSaysYes(t *testing.T) {
	bits := make([]byte, 64)
	for _, meta := range [][5]byte{
		{0}, {0x80}, {0xfd, 1, 2, 3, 4}, // always-match, reserved
		{0xff, 1, 6, 0, 0}, {0xff, 0, 0x26, 0, 0}, {0xff, 0, 6, 1, 0}, {0xff, 0, 6, 0, 1}, {0xff, 0, 0, 0, 0}, {0xff, 0, 31, 0, 0},
		{0xfe, 0, 1, 0, 0}, {0xfe, 0, 0, 0, 0}, // Ribbon with too few blocks
		{6, 0, 0, 0, 0}, {6, 3, 0, 0, 0}, {6, 0xff, 0xff, 0xff, 0xff}, // legacy with lines that do not fit
	} {
		r, err := Bloom(10).Open(append(append([]byte{}, bits...), meta[:]...))
		require.NoError(t, err)
		require.Equal(t, always(true), r, "%x", meta)
		require.True(t, r.MayContain([]byte("key")))
		require.True(t, r.(HashReader).MayContainHash(1))
	}
	r, err := Bloom(10).Open(append(make([]byte, 65), 0xff, 0, 6, 0, 0))
	require.NoError(t, err)
	require.True(t, r.MayContain([]byte("key")))
	r, err = Bloom(10).Open(append(make([]byte, 16*70), 0xfe, 0, 2, 0, 0)) // more columns than an equation has bits
	require.NoError(t, err)
	require.True(t, r.MayContain([]byte("key")))
}

func keyOf(i int) []byte { return fmt.Appendf(nil, "user%012d", i) }

func TestFalsePositiveRatesAreWithinBounds(t *testing.T) {
	const n = 20_000
	var keys [2 * n][]byte // the first n are put in
	for i := range keys {
		keys[i] = keyOf(i)
	}
	rate := func(mayContain func(key []byte) bool) float64 {
		wrong := 0
		for i := range n {
			if !mayContain(keys[i]) {
				t.Fatalf("no for %s, which was added", keys[i])
			}
			if mayContain(keys[n+i]) {
				wrong++
			}
		}
		return float64(wrong) / n
	}
	open := func(p Policy) func(key []byte) bool {
		b := p.NewBuilder(n)
		for _, key := range keys[:n] {
			b.Add(key)
		}
		r, err := p.Open(b.Finish(nil))
		require.NoError(t, err)
		return r.MayContain
	}
	oracle := bloom.New(10*n, 7)
	for _, key := range keys[:n] {
		oracle.Add(key)
	}
	best, standard, fast := rate(oracle.Test), rate(open(StandardBloom(10))), rate(open(Bloom(10)))
	t.Logf("false positives: library %.4f, StandardBloom %.4f, Bloom %.4f", best, standard, fast)
	require.Equal(t, best, standard, "the same bits, so the same answers")
	require.Less(t, fast, 0.0125)
	require.Less(t, fast, 1.5*best, "what one cache line a key costs")
	require.Less(t, rate(open(Bloom(16))), 0.002)
	require.Less(t, rate(open(Bloom(5))), 0.11)
}

func TestBuilderIsEmptyAfterFinish(t *testing.T) {
	for _, p := range []Policy{Bloom(10), StandardBloom(10), Ribbon(10)} {
		b := p.NewBuilder(0)
		build := func(from, to int) []byte {
			for i := from; i < to; i++ {
				b.Add(keyOf(i))
				b.Add(keyOf(i))
			}
			return b.Finish(nil)
		}
		first := build(0, 1000)
		require.NotEqual(t, first, build(1000, 1500))
		require.Equal(t, first, build(0, 1000))
	}
}

func TestStandardBloomHasTheLibrarysBits(t *testing.T) {
	keys := [][]byte{nil, []byte("k"), make([]byte, 7), make([]byte, 15), make([]byte, 16), make([]byte, 31), make([]byte, 100)}
	for i := range 200 {
		keys = append(keys, keyOf(i)[:i%17])
	}
	p := StandardBloom(12.5)
	b := p.NewBuilder(len(keys))
	for _, k := range keys {
		b.Add(k)
	}
	block := b.Finish(nil)
	m, k := binary.LittleEndian.Uint64(block[len(block)-13:]), binary.LittleEndian.Uint32(block[len(block)-5:])
	words := make([]uint64, 0)
	for at := 0; at < len(block)-13; at += 8 {
		words = append(words, binary.LittleEndian.Uint64(block[at:]))
	}
	oracle := bloom.FromWithM(words, uint(m), uint(k))
	r, err := p.Open(block)
	require.NoError(t, err)
	for _, key := range keys {
		require.True(t, r.MayContain(key))
		h := baseHashes(key)
		for i, want := range bloom.Locations(key, 20) {
			require.Equal(t, want, location(&h, uint64(i)), "%x", key)
		}
	}
	for i := range 5000 {
		require.Equal(t, oracle.Test(keyOf(i)), r.MayContain(keyOf(i)))
	}
}

func TestStandardBloomBlockIsPinned(t *testing.T) {
	b := StandardBloom(10).NewBuilder(0)
	for _, k := range []string{"", "a", "key", "sixteen bytes !!"} {
		b.Add([]byte(k))
	}
	// 64 bits, 7 hash functions: such blocks are on disk, so this may not change.
	require.Equal(t, "b506306b80024016"+"4000000000000000"+"07000000"+"01", hex.EncodeToString(b.Finish(nil)))
}

func TestAbsurdStandardBloomBlockIsAnError(t *testing.T) {
	block := func(bits int, m uint64, k uint32, version byte) []byte {
		b := binary.LittleEndian.AppendUint64(make([]byte, bits), m)
		return append(binary.LittleEndian.AppendUint32(b, k), version)
	}
	_, err := StandardBloom(10).Open(block(8, 64, 7, 1))
	require.NoError(t, err)
	for what, b := range map[string][]byte{
		"empty": nil, "short": make([]byte, 12), "no bits": block(0, 0, 7, 1), "m zero": block(8, 0, 7, 1), "m too large": block(8, 65, 7, 1),
		"m too small": block(16, 64, 7, 1), "m absurd": block(8, 1<<64-1, 7, 1), "odd length": block(9, 64, 7, 1), "k zero": block(8, 64, 0, 1),
		"k absurd": block(8, 64, 1<<31, 1), "version": block(8, 64, 7, 2),
	} {
		_, err := StandardBloom(10).Open(b)
		require.Error(t, err, what)
	}
}

func TestKnownPoliciesGoByTheirNames(t *testing.T) {
	for _, p := range []Policy{Bloom(7), StandardBloom(7), Ribbon(7)} {
		k, ok := Known(p.Name())
		require.True(t, ok)
		require.Equal(t, p.Name(), k.Name())
	}
	require.Equal(t, "rocksdb.BuiltinBloomFilter", Bloom(10).Name())
	require.Equal(t, "ashlar.StandardBloom.1", StandardBloom(10).Name())
	_, ok := Known("somebody.Else")
	require.False(t, ok)
}

func TestProbesAllocateNothing(t *testing.T) {
	key := []byte("user000000000001")
	readers := []Reader{always(true)}
	for _, kind := range goldenKinds {
		r, err := Bloom(10).Open(readGolden(t, kind).block)
		require.NoError(t, err)
		readers = append(readers, r)
	}
	b := StandardBloom(10).NewBuilder(0)
	b.Add(key)
	r, err := StandardBloom(10).Open(b.Finish(nil))
	require.NoError(t, err)
	for _, r := range append(readers, r) {
		require.Zero(t, testing.AllocsPerRun(100, func() { r.MayContain(key) }), "%T", r)
	}
}
