package xxh3

import "math/big"

// slowPreview is the dumb twin: the definition of each length class, word for word, with big integers for the products.
func slowPreview(b []byte) uint64 {
	n := len(b)
	load := func(p []byte, o, size int) (v uint64) {
		for i := size - 1; i >= 0; i-- {
			v = v<<8 | uint64(p[o+i])
		}
		return v
	}
	k := func(o int) uint64 { return load(secret[:], o, 8) }
	foldBig := func(x, y uint64) uint64 {
		p := new(big.Int).Mul(new(big.Int).SetUint64(x), new(big.Int).SetUint64(y))
		low := new(big.Int).And(p, new(big.Int).SetUint64(1<<64-1))
		return low.Uint64() ^ new(big.Int).Rsh(p, 64).Uint64()
	}
	mixAt := func(i, o int) uint64 { return foldBig(load(b, i, 8)^k(o), load(b, i+8, 8)^k(o+8)) }
	final := func(h uint64) uint64 {
		h = (h ^ h>>37) * 0x165667B19E3779F9
		return h ^ h>>32
	}
	total := uint64(n) * 0x9E3779B185EBCA87
	switch {
	case n == 0:
		return foldBig(k(0), 0xC2B2AE3D27D4EB4F)
	case n <= 3:
		c := load(b, 0, 1) | load(b, n/2, 1)<<8 | load(b, n-1, 1)<<16 | uint64(n)<<24
		return final((c ^ load(secret[:], 0, 4)) * 0x9E3779B185EBCA87)
	case n <= 8:
		y := (load(b, 0, 4) | load(b, n-4, 4)<<32) ^ k(0)
		z := uint64(n) + (y^y>>51)*0x9E3779B1
		return final((z ^ z>>47) * 0xC2B2AE3D27D4EB4F)
	case n <= 16:
		lo, hi := load(b, 0, 8)^k(0), load(b, n-8, 8)^k(8)
		return final(uint64(n) + lo + hi + foldBig(lo, hi))
	case n <= 128:
		// Pairs from the outside in: the i-th 16 bytes and the i-th from the end, until they meet.
		for i := 0; i == 0 || n > 32*i; i++ {
			total += mixAt(16*i, 32*i) + mixAt(n-16*(i+1), 32*i+16)
		}
		return final(total)
	case n <= 240:
		for i := range 8 {
			total += mixAt(16*i, 16*i)
		}
		total = final(total)
		for i := 8; i < n/16; i++ {
			total += mixAt(16*i, 16*(i-8)+3)
		}
		return final(total + mixAt(n-16, 119))
	}
	a := []uint64{0xC2B2AE3D, 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
		0x85EBCA77C2B2AE63, 0x85EBCA77, 0x27D4EB2F165667C5, 0x9E3779B1}
	stripe := func(p, o int) {
		for i := range a {
			d := load(b, p+8*i, 8)
			x := d ^ k(o+8*i)
			a[i] += d + (x&0xffffffff)*(x>>32)
		}
	}
	for s := range n / 64 {
		stripe(64*s, 8*(s%16))
		if s%16 == 15 {
			for i := range a {
				a[i] = (a[i] ^ a[i]>>47 ^ k(128+8*i)) * 0x9E3779B1
			}
		}
	}
	if n%64 != 0 {
		stripe(n-64, 121)
	}
	for j := range 4 {
		total += foldBig(a[2*j]^k(11+16*j), a[2*j+1]^k(19+16*j))
	}
	return final(total)
}
