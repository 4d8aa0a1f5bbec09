package block

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/kv"
)

// twin is the sorted slice beside the block.
type twin []kv.Entry

// some makes n entries, or fewer, with distinct internal keys in order. Few letters and short keys, so that prefixes,
// several versions and keys that end like trailers are common.
func some(rng *rand.Rand, cmp *kv.Comparer, n int) twin {
	var t twin
	letters := []byte{0, 1, 2, 'a', 'b', 0xff}
	for range n {
		user := make([]byte, rng.IntN(12))
		for j := range user {
			user[j] = letters[rng.IntN(len(letters))]
		}
		if rng.IntN(4) == 0 {
			user = append(bytes.Repeat([]byte{'k'}, rng.IntN(200)), user...)
		}
		if rng.IntN(3) == 0 && len(t) > 0 {
			user = t[rng.IntN(len(t))].Key.User
		}
		kind := []kv.Kind{kv.KindValue, kv.KindDelete, kv.KindSingleDel}[rng.IntN(3)]
		seq := kv.Seq(rng.IntN(8))
		if rng.IntN(4) == 0 {
			seq = kv.Seq(rng.Uint64() >> 8)
		}
		value := make([]byte, rng.IntN(20))
		if rng.IntN(8) == 0 {
			value = make([]byte, rng.IntN(400))
		}
		t = append(t, kv.Entry{Key: kv.MakeKey(user, seq, kind), Value: value})
	}
	slices.SortFunc(t, func(a, b kv.Entry) int { return cmp.CompareKeys(a.Key, b.Key) })
	return slices.CompactFunc(t, func(a, b kv.Entry) bool { return cmp.CompareKeys(a.Key, b.Key) == 0 })
}

func (t twin) build(interval int) []byte {
	var b Builder
	b.Init(interval)
	for _, e := range t {
		b.Add(e.Key, e.Value)
	}
	return bytes.Clone(b.Finish())
}

// check walks i at random beside the slice.
func (t twin) check(tb testing.TB, rng *rand.Rand, cmp *kv.Comparer, i *Iter, steps int) {
	pos := -2 // nowhere
	want := func(e *kv.Entry, what string) {
		require.NoError(tb, i.Err())
		if pos < 0 || pos >= len(t) {
			require.Nil(tb, e, what)
			return
		}
		require.NotNil(tb, e, what)
		require.Equal(tb, t[pos].Key.String(), e.Key.String(), what)
		require.True(tb, bytes.Equal(t[pos].Value, e.Value), what)
	}
	target := func() kv.Key {
		if len(t) == 0 || rng.IntN(3) == 0 {
			return kv.MakeKey([]byte{byte(rng.IntN(256)), byte(rng.IntN(256))}[:rng.IntN(3)], kv.Seq(rng.IntN(9)), kv.KindMax)
		}
		k := t[rng.IntN(len(t))].Key.Clone()
		switch rng.IntN(4) {
		case 0:
			k.Trailer += kv.Trailer(rng.IntN(512)) - 256
		case 1:
			k.User = append(k.User, byte(rng.IntN(256)))
		case 2:
			if n := len(k.User); n > 0 {
				k.User[n-1] += byte(rng.IntN(3)) - 1
			}
		}
		return k
	}
	for range steps {
		switch rng.IntN(10) {
		case 0:
			pos = 0
			want(i.First(), "First")
		case 1:
			pos = len(t) - 1
			want(i.Last(), "Last")
		case 2:
			k := target()
			pos = sort.Search(len(t), func(j int) bool { return cmp.CompareKeys(t[j].Key, k) >= 0 })
			want(i.SeekGE(k), fmt.Sprintf("SeekGE %v", k))
		case 3:
			k := target()
			pos = sort.Search(len(t), func(j int) bool { return cmp.CompareKeys(t[j].Key, k) >= 0 }) - 1
			want(i.SeekLT(k), fmt.Sprintf("SeekLT %v", k))
		case 4:
			k := target()
			at := sort.Search(len(t), func(j int) bool { return cmp.CompareKeys(t[j].Key, k) >= 0 })
			trailer, value, found, more := i.Find(k)
			require.NoError(tb, i.Err())
			require.Equal(tb, at == len(t), more, "Find %v", k)
			same := at < len(t) && bytes.Equal(t[at].Key.User, k.User)
			require.Equal(tb, same, found, "Find %v", k)
			if same {
				require.Equal(tb, t[at].Key.Trailer, trailer)
				require.True(tb, bytes.Equal(t[at].Value, value))
			}
			pos = -2
		case 5, 6, 7:
			if pos == -2 {
				continue
			}
			pos = min(pos+1, len(t))
			want(i.Next(), "Next")
		default:
			if pos == -2 {
				continue
			}
			pos = max(pos-1, -1)
			want(i.Prev(), "Prev")
		}
	}
}

func TestIterWalksLikeASortedSlice(t *testing.T) {
	for _, cmp := range []*kv.Comparer{kv.Bytewise, kv.ReverseBytewise} {
		rng := rand.New(rand.NewPCG(1, 2))
		var i Iter // kept from block to block, as its users do
		for round := range 100 {
			tw := some(rng, cmp, rng.IntN(60))
			b := tw.build([]int{1, 2, 3, 16, 0}[round%5])
			require.NoError(t, i.Init(cmp, b, 0))
			tw.check(t, rng, cmp, &i, 200)
		}
	}
}

func TestIngestedBlockShowsTheTablesSequence(t *testing.T) {
	var b Builder
	b.Init(2)
	for _, u := range []string{"a", "ab", "b", "c"} {
		b.Add(kv.MakeKey([]byte(u), 0, kv.KindValue), []byte("v"+u))
	}
	var i Iter
	require.NoError(t, i.Init(kv.Bytewise, b.Finish(), 77))
	require.Equal(t, kv.Seq(77), i.First().Key.Seq())
	require.Nil(t, i.SeekLT(kv.SeekKey([]byte("a"), 100)))
	e := i.SeekGE(kv.SeekKey([]byte("b"), 76))
	require.Equal(t, `"c"#77,SET`, e.Key.String())
	tr, v, found, _ := i.Find(kv.SeekKey([]byte("ab"), 77))
	require.True(t, found)
	require.Equal(t, kv.Seq(77), tr.Seq())
	require.Equal(t, "vab", string(v))
	_, _, found, more := i.Find(kv.SeekKey([]byte("ab"), 76))
	require.False(t, found || more)

	b.Reset()
	b.Add(kv.MakeKey([]byte("a"), 5, kv.KindValue), nil)
	require.NoError(t, i.Init(kv.Bytewise, b.Finish(), 77))
	require.Nil(t, i.First())
	require.Error(t, i.Err())
}

func TestEmptyBlockIsOneRestartPoint(t *testing.T) {
	var b Builder
	b.Init(16)
	empty := b.Finish()
	require.Equal(t, []byte{0, 0, 0, 0, 1, 0, 0, 0}, empty)
	var i Iter
	require.NoError(t, i.Init(kv.Bytewise, empty, 0))
	for range 2 {
		require.Nil(t, i.First())
		require.Nil(t, i.Prev())
		require.Nil(t, i.Next())
		require.Nil(t, i.Last())
		require.Nil(t, i.SeekGE(kv.Key{}))
		require.Nil(t, i.SeekLT(kv.Key{}))
		require.NoError(t, i.Err())
	}
}

func TestOneEntryHasRocksDBsBytes(t *testing.T) {
	var b Builder
	b.Init(16)
	b.Add(kv.MakeKey([]byte("k"), 1, kv.KindValue), []byte("v"))
	require.Equal(t, "\x00\x09\x01k\x01\x01\x00\x00\x00\x00\x00\x00v\x00\x00\x00\x00\x01\x00\x00\x00", string(b.Finish()))
}

func TestHandlesComeBackInEveryForm(t *testing.T) {
	for _, delta := range []bool{false, true} {
		for _, interval := range []int{1, 3, 16} {
			var b Builder
			b.Init(interval)
			var want []Handle
			off := uint64(0)
			for n := range 50 {
				if n == 20 {
					off += 1000 // a gap
				}
				h := Handle{off, uint64(100 + n*7%13)}
				off += h.Size + TrailerSize
				want = append(want, h)
				b.AddHandle(fmt.Appendf(nil, "key%03d", n), h, delta)
			}
			s := NewHandleScanner(b.Finish(), delta, false)
			for n := range want {
				require.True(t, s.Next())
				require.Equal(t, fmt.Sprintf("key%03d", n), string(s.Key))
				require.Equal(t, want[n], s.Handle)
			}
			require.False(t, s.Next())
			require.NoError(t, s.Err())
		}
	}
}

func TestClashesAreSearchedAndTheHintIsSteppedOver(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	tw := some(rng, kv.Bytewise, 40)
	b := tw.build(4)
	footer := binary.LittleEndian.Uint32(b[len(b)-4:])
	b = append(b[:len(b)-4], 254, 254, 254, 254, 254, 5, 0)
	b = binary.LittleEndian.AppendUint32(b, footer|hashBit|uniformBit)
	var i Iter
	require.NoError(t, i.Init(kv.Bytewise, b, 0))
	tw.check(t, rng, kv.Bytewise, &i, 500)
}

// apart writes a block with its values behind its keys.
func (t twin) apart(interval int) []byte {
	var b, values []byte
	var restarts []uint32
	var last []byte
	for n, e := range t {
		cur := e.Key.Append(nil)
		shared := 0
		if n%interval == 0 {
			restarts = append(restarts, uint32(len(b)))
		} else {
			shared = sharedPrefix(last, cur)
		}
		b = binary.AppendUvarint(b, uint64(shared))
		b = binary.AppendUvarint(b, uint64(len(cur)-shared))
		b = binary.AppendUvarint(b, uint64(len(e.Value)))
		if n%interval == 0 {
			b = binary.AppendUvarint(b, uint64(len(values)))
		}
		b = append(b, cur[shared:]...)
		values = append(values, e.Value...)
		last = cur
	}
	if len(t) == 0 {
		restarts = []uint32{0}
	}
	off := len(b)
	b = append(b, values...)
	for _, r := range restarts {
		b = binary.LittleEndian.AppendUint32(b, r)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(off))
	return binary.LittleEndian.AppendUint32(b, uint32(len(restarts))|apartBit)
}

func TestJoinPutsValuesBesideTheirKeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for round := range 100 {
		tw := some(rng, kv.Bytewise, rng.IntN(50))
		interval := []int{1, 2, 16}[round%3]
		apart := tw.apart(interval)
		require.True(t, Apart(apart))
		joined, err := Join([]byte("xx"), apart)
		require.NoError(t, err)
		require.Equal(t, tw.build(interval), joined[2:])
		var i Iter
		require.Error(t, i.Init(kv.Bytewise, apart, 0), "an unjoined block is refused")
	}
}

func TestKindsThatAreNotBuiltAreNamed(t *testing.T) {
	for kind, unsupported := range map[kv.Kind]bool{kv.KindBlobIndex: true, kv.KindTimedPut: true, kv.KindRangeDelete: false, 0x55: false} {
		var b Builder
		b.Init(16)
		b.Add(kv.MakeKey([]byte("k"), 1, kind), nil)
		var i Iter
		require.NoError(t, i.Init(kv.Bytewise, b.Finish(), 0))
		require.Nil(t, i.First())
		var e *Error
		require.True(t, errors.As(i.Err(), &e))
		require.Equal(t, unsupported, e.Unsupported)
		require.Nil(t, i.Next())
		require.Nil(t, i.Prev())
		require.Error(t, i.Err())
	}
}

func TestWalkingAllocatesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	tw := some(rng, kv.Bytewise, 100)
	b := tw.build(16)
	var i Iter
	walk := func() {
		if i.Init(kv.Bytewise, b, 0) != nil {
			panic("bad block")
		}
		for e := i.First(); e != nil; e = i.Next() {
		}
		for e := i.Last(); e != nil; e = i.Prev() {
		}
		for _, e := range tw {
			i.SeekGE(e.Key)
			i.SeekLT(e.Key)
			i.Find(e.Key)
		}
	}
	walk()
	require.Zero(t, testing.AllocsPerRun(10, walk))
}

// exercise drives everything over bytes that may be anything. It returns how many entries a walk forwards gave.
func exercise(b []byte, k kv.Key) int {
	if Apart(b) {
		j, err := Join(nil, b)
		if err != nil {
			return 0
		}
		b = j
	}
	n := 0
	for _, cmp := range []*kv.Comparer{kv.Bytewise, kv.ReverseBytewise} {
		var i Iter
		if i.Init(cmp, b, 0) != nil {
			continue
		}
		n = 0
		for e := i.First(); e != nil; e = i.Next() {
			n++
		}
		for e := i.Last(); e != nil; e = i.Prev() {
		}
		for e := i.SeekGE(k); e != nil; e = i.Prev() {
		}
		i.Next()
		for e := i.SeekLT(k); e != nil; e = i.Next() {
		}
		i.Prev()
		i.Find(k)
	}
	for s := NewScanner(b); s.Next(); {
	}
	for _, delta := range []bool{false, true} {
		for s := NewHandleScanner(b, delta, true); s.Next(); {
		}
	}
	return n
}

func FuzzBlockIter(f *testing.F) {
	rng := rand.New(rand.NewPCG(9, 9))
	for n := range 6 {
		tw := some(rng, kv.Bytewise, n*4)
		f.Add(tw.build(1+n), []byte("ab"), uint64(300))
		f.Add(tw.apart(1+n), []byte{}, uint64(0))
		f.Add(tw.hashed(1+n, 0.75), []byte("kk"), uint64(700))
	}
	f.Fuzz(func(t *testing.T, b, user []byte, trailer uint64) {
		exercise(b, kv.Key{User: user, Trailer: kv.Trailer(trailer)})
	})
}

func FuzzBlockRoundTrip(f *testing.F) {
	f.Add(uint64(1), uint8(20), uint8(3))
	f.Add(uint64(2), uint8(200), uint8(16))
	f.Fuzz(func(t *testing.T, seed uint64, n, interval uint8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		for _, cmp := range []*kv.Comparer{kv.Bytewise, kv.ReverseBytewise} {
			tw := some(rng, cmp, int(n))
			var i Iter
			require.NoError(t, i.Init(cmp, tw.build(int(interval)), 0))
			tw.check(t, rng, cmp, &i, 100)
			require.NoError(t, i.Init(cmp, tw.hashed(int(interval), 0.75), 0))
			tw.check(t, rng, cmp, &i, 100)
		}
	})
}

func TestFlippedBytesNeverPanic(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	tw := some(rng, kv.Bytewise, 30)
	for _, b := range [][]byte{tw.build(4), tw.apart(4)} {
		for n := range b {
			for _, x := range []byte{0x01, 0x80} {
				c := bytes.Clone(b)
				c[n] ^= x
				exercise(c, tw[7].Key)
			}
		}
		for n := range b {
			exercise(b[:n], tw[7].Key)
		}
	}
}

func Example() {
	var b Builder
	b.Init(16)
	b.Add(kv.MakeKey([]byte("apple"), 2, kv.KindValue), []byte("red"))
	b.Add(kv.MakeKey([]byte("apricot"), 1, kv.KindValue), []byte("orange"))
	var i Iter
	if err := i.Init(kv.Bytewise, b.Finish(), 0); err != nil {
		panic(err)
	}
	for e := i.First(); e != nil; e = i.Next() {
		fmt.Printf("%v = %s\n", e.Key, e.Value)
	}
	// Output:
	// "apple"#2,SET = red
	// "apricot"#1,SET = orange
}

func benchBlock(b *testing.B) ([]byte, [][]byte) {
	var w Builder
	w.Init(16)
	var keys [][]byte
	for n := range 32 {
		k := fmt.Appendf(nil, "%016d", n*7+1234567)
		keys = append(keys, k)
		w.Add(kv.MakeKey(k, kv.Seq(n*31%17), kv.KindValue), make([]byte, 100))
	}
	return w.Finish(), keys
}

func BenchmarkFind(b *testing.B) {
	d, keys := benchBlock(b)
	n := 0
	for b.Loop() {
		var i Iter
		if i.Init(kv.Bytewise, d, 0) != nil {
			b.Fatal()
		}
		if _, _, found, _ := i.Find(kv.SeekKey(keys[n&31], kv.MaxSeq)); !found {
			b.Fatal(n)
		}
		n++
	}
}

func BenchmarkNext(b *testing.B) {
	d, _ := benchBlock(b)
	var i Iter
	if i.Init(kv.Bytewise, d, 0) != nil {
		b.Fatal()
	}
	for b.Loop() {
		if i.Next() == nil {
			i.First()
		}
	}
}

func BenchmarkPrev(b *testing.B) {
	d, _ := benchBlock(b)
	var i Iter
	if i.Init(kv.Bytewise, d, 0) != nil {
		b.Fatal()
	}
	i.Last()
	for b.Loop() {
		if i.Prev() == nil {
			i.Last()
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	var w Builder
	w.Init(16)
	key := []byte("0000000000000000")
	value := make([]byte, 100)
	n := uint64(0)
	for b.Loop() {
		if w.Size() > 4096 {
			w.Finish()
			w.Reset()
		}
		n++
		binary.BigEndian.PutUint64(key[8:], n)
		w.Add(kv.MakeKey(key, 7, kv.KindValue), value)
	}
}
