package compress

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// guarded returns room for n bytes with bytes around it that a decoder must leave alone.
func guarded(n int) (room []byte, intact func() bool) {
	const margin = 64
	all := bytes.Repeat([]byte{0xa5}, n+2*margin)
	return all[margin : margin+n : margin+n], func() bool {
		edge := bytes.Repeat([]byte{0xa5}, margin)
		return bytes.Equal(all[:margin], edge) && bytes.Equal(all[margin+n:], edge)
	}
}

// FuzzDecompress gives any bytes to every decoder, and every block to every coder and back.
func FuzzDecompress(f *testing.F) {
	for _, src := range blocks() {
		if len(src) > 1000 {
			src = src[:1000]
		}
		for _, typ := range written {
			f.Add(typ.Compress(nil, src, nil), []byte(nil))
			f.Add(typ.Compress(nil, src, []byte("key000001 value")), []byte("key000001 value"))
		}
	}
	f.Add(append([]byte{5}, "BZh91AY&SY"...), []byte{0x37, 0xa4, 0x30, 0xec})
	f.Fuzz(func(t *testing.T, src, dict []byte) {
		for _, version := range []int{0, 5} {
			for _, typ := range []byte{diskNone, diskSnappy, diskZlib, diskBZip2, diskLZ4, diskLZ4HC, diskXpress, diskZSTD, 0x80} {
				n, err := DecompressedLen(typ, version, src)
				if err != nil {
					continue
				}
				if n == unknownLen || n > 1<<20 {
					if n == unknownLen && len(src) < 100 { // small streams only: a run of runs takes long
						_, _ = Decompress(typ, version, src, dict)
					}
					continue
				}
				dst, intact := guarded(n)
				_ = DecompressInto(dst, typ, version, src, dict)
				if !intact() {
					t.Fatalf("type %d wrote outside its buffer", typ)
				}
			}
		}
		// One coder for each input, by its length: all of them together are slow.
		for _, typ := range written[len(src)%len(written):][:1] {
			got, err := Decompress(typ.Disk(), 5, typ.Compress(nil, src, dict), dict)
			if len(src) > 0 && (err != nil || !bytes.Equal(got, src)) && !bytes.HasPrefix(dict, trainedMagic) {
				t.Fatalf("%s: %v", typ, err)
			}
		}
	})
}

// FuzzLZ4Read compares the library's LZ4 decoder with the plain twin, on blocks with a dictionary of any content.
func FuzzLZ4Read(f *testing.F) {
	src := blocks()["text"][:500]
	for _, s := range [][]byte{src, src[:3], make([]byte, 300)} {
		_, lz := splitPrefix(LZ4.Compress(nil, s, nil))
		f.Add(lz, []byte("dictionary"), uint16(len(s)))
	}
	f.Add([]byte{0x04, 5, 0, 0x00}, []byte("dictionary"), uint16(8))
	f.Fuzz(func(t *testing.T, lz, dict []byte, n uint16) {
		want, valid := slowLZ4(lz, dict, int(n))
		dst, intact := guarded(int(n))
		err := DecompressInto(dst, diskLZ4, 5, append(binary.AppendUvarint(nil, uint64(n)), lz...), dict)
		if !intact() {
			t.Fatal("wrote outside its buffer")
		}
		if err == nil && valid && !bytes.Equal(dst, want) {
			t.Fatalf("got %x, want %x", dst, want)
		}
		if err == nil && !valid {
			t.Fatalf("took an invalid block for %x", dst)
		}
	})
}

// slowLZ4 is the dumb twin: sequences of literals and matches, byte by byte. It takes any block that makes sense, also one
// that breaks the rules for a block's end.
func slowLZ4(lz, dict []byte, n int) (out []byte, ok bool) {
	next := func() (b byte, ok bool) {
		if len(lz) == 0 {
			return 0, false
		}
		b, lz = lz[0], lz[1:]
		return b, true
	}
	length := func(nibble int) (int, bool) {
		for total := nibble; ; {
			if nibble != 15 {
				return total, true
			}
			for {
				b, ok := next()
				if !ok {
					return 0, false
				}
				total += int(b)
				if b != 255 {
					return total, true
				}
			}
		}
	}
	for {
		token, ok := next()
		if !ok {
			return out, len(out) == n
		}
		literals, ok := length(int(token >> 4))
		if !ok || literals > len(lz) || len(out)+literals > n {
			return nil, false
		}
		out, lz = append(out, lz[:literals]...), lz[literals:]
		if len(lz) == 0 {
			return out, len(out) == n
		}
		if len(lz) < 2 {
			return nil, false
		}
		offset := int(binary.LittleEndian.Uint16(lz))
		lz = lz[2:]
		match, ok := length(int(token & 15))
		match += 4
		if !ok || offset == 0 || offset > len(out)+len(dict) || len(out)+match > n {
			return nil, false
		}
		for range match {
			if from := len(out) - offset; from >= 0 {
				out = append(out, out[from])
			} else {
				out = append(out, dict[len(dict)+from])
			}
		}
	}
}
