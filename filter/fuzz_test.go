package filter

import (
	"math/big"
	"testing"
)

// split cuts data into keys: each begins with a byte that is its length.
func split(data []byte) (keys [][]byte) {
	for len(data) > 0 {
		n := min(int(data[0]), len(data)-1)
		keys = append(keys, data[1:1+n])
		data = data[1+n:]
	}
	return keys
}

func seed(f *testing.F) {
	for _, kind := range goldenKinds {
		f.Add(readGolden(f, kind).block, []byte("\x03key\x00\x01a"))
	}
	for _, meta := range []string{"\xff\x00\x06\x00\x00", "\xfe\x01\x02\x00\x00", "\x06\x01\x00\x00\x00", "\x00\x00\x00\x00\x00"} {
		f.Add(append(make([]byte, 64), meta...), []byte("\x03key"))
	}
	f.Add([]byte{}, []byte{})
}

// FuzzBloomReader opens any block, asks it for any keys, and builds a filter of those keys: none of them may get a no.
func FuzzBloomReader(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, block, data []byte) { checkPolicy(t, Bloom(10), block, data) })
}

// FuzzRibbonBuilder is FuzzBloomReader for Ribbon's builder; data that is too short for it is repeated with a number behind.
func FuzzRibbonBuilder(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, block, data []byte) {
		checkPolicy(t, Ribbon(10), block, data)
		for i := byte(0); len(data) > 0 && len(data) < 4096 && i < 255; i++ {
			data = append(data, data[:min(len(data), 12)]...)
			data = append(data, 1, i)
		}
		checkPolicy(t, Ribbon(10), block, data)
	})
}

// FuzzStandardBloom is FuzzBloomReader for the other policy.
func FuzzStandardBloom(f *testing.F) {
	seed(f)
	f.Add(append(make([]byte, 8), 64, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1), []byte("\x03key"))
	f.Fuzz(func(t *testing.T, block, data []byte) { checkPolicy(t, StandardBloom(10), block, data) })
}

func checkPolicy(t *testing.T, p Policy, block, data []byte) {
	keys := split(data)
	if r, err := p.Open(block); err == nil {
		for _, k := range keys {
			r.MayContain(k)
		}
	}
	b := p.NewBuilder(len(keys))
	for _, k := range keys {
		b.Add(k)
	}
	r, err := p.Open(b.Finish(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if !r.MayContain(k) {
			t.Fatalf("no for %x, which was added", k)
		}
	}
}

// FuzzRibbon takes any words as a Ribbon filter and compares its answers with those of the dumb twin.
func FuzzRibbon(f *testing.F) {
	g := readGolden(f, "ribbon")
	f.Add(g.block[:len(g.block)-5], byte(0), uint32(2), g.keys[0].key)
	f.Add(make([]byte, 16*7), byte(3), uint32(3), []byte("key"))
	f.Add(make([]byte, 16), byte(3), uint32(2), []byte("key"))
	f.Add([]byte{}, byte(3), uint32(2), []byte("key"))
	f.Fuzz(func(t *testing.T, words []byte, seed byte, blocks uint32, key []byte) {
		meta := [metaBytes]byte{markRibbon, seed, byte(blocks), byte(blocks >> 8), byte(blocks >> 16)}
		r, ok := parseRibbon(words, meta)
		if !ok {
			return
		}
		for range 20 {
			if got, want := r.MayContain(key), slowRibbon(words, uint64(seed), int64(blocks&0xffffff), key); got != want {
				t.Fatalf("%v for %x, want %v", got, key, want)
			}
			key = append(key, byte(len(key)))
		}
	})
}

// slowRibbon is the dumb twin: the equation as one number of 256 bits over the two blocks, bit by bit.
func slowRibbon(words []byte, seed uint64, blocks int64, key []byte) bool {
	raw := seed * 0xC78219A23EEADD03
	raw ^= (raw & 0xF0F0F0F0F0F0F0F0) >> 4
	h := (Hash(key) ^ raw&0xffffffff) * 0x6193D459236A3A0D
	start := new(big.Int).Mul(new(big.Int).SetUint64(h), big.NewInt(128*blocks-127))
	start.Rsh(start, 64)
	block, row := start.Int64()/128, uint(start.Int64()%128)
	segments := int64(len(words) / 16)
	columnsOf := func(block int64) int64 { // the early blocks have one less
		all := (segments + blocks - 1) / blocks
		if block < all*blocks-segments {
			return all - 1
		}
		return all
	}
	segment := int64(0)
	for b := range block {
		segment += columnsOf(b)
	}
	a := h * 0xC28F82822B650BED
	equation := new(big.Int).SetUint64(a)
	equation.Lsh(equation, 64).Or(equation, new(big.Int).SetUint64((a^0xC367844A6E52731D)|1)).Lsh(equation, row)
	for i := range columnsOf(block) {
		sum := uint(0)
		for bit := range int64(256) {
			if equation.Bit(int(bit)) == 0 {
				continue
			}
			at := segment + i
			if bit >= 128 {
				at += columnsOf(block)
			}
			sum ^= uint(words[16*at+bit%128/8]) >> (bit % 8) & 1
		}
		want := uint(a>>(56-i/8*8)) >> (i % 8) & 1 // bit i of the bytes in reverse order
		if sum != want {
			return false
		}
	}
	return true
}
