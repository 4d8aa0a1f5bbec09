package xxh3

// The hash goes by length classes: 0, 1–3, 4–8, 9–16, 17–128, 129–240, and longer. Rules for all of them:
//
//  1. All arithmetic is modulo 2^64, all loads are little-endian.
//  2. Every class reads only bytes of its input, some of them twice (the last 16 or 64 overlap what came before).
//  3. The values are on disk in filters of every table: they may never change.

import (
	"encoding/binary"
	"math/bits"
)

const (
	prime32x1 = 0x9E3779B1
	prime32x2 = 0x85EBCA77
	prime32x3 = 0xC2B2AE3D

	prime64x1 = 0x9E3779B185EBCA87
	prime64x2 = 0xC2B2AE3D27D4EB4F
	prime64x3 = 0x165667B19E3779F9
	prime64x4 = 0x85EBCA77C2B2AE63
	prime64x5 = 0x27D4EB2F165667C5
)

// The first 16 bytes of the secret as numbers, for the short classes.
const (
	secret0 = 0xbe4ba423396cfeb8
	secret8 = 0x1cad21f72c81017c
)

// emptyHash is RocksDB's own answer for the empty input: fold(secret0, prime64x2).
const emptyHash = 0x5342c3010fe1dd04

const (
	stripeSize = 64
	blockSize  = 16 * stripeSize // stripes of one block take the secret at 0, 8, 16, … 120
)

var secret = [192]byte{
	0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
	0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
	0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
	0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
	0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
	0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
	0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
	0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
	0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
	0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
	0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
	0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
}

// Hash64Preview returns XXPH3 of b with seed 0: the hash of RocksDB's Bloom and Ribbon filters.
func Hash64Preview(b []byte) uint64 {
	n := uint64(len(b))
	switch {
	case n > 16:
		if n <= 128 {
			return hash17to128(b)
		}
		if n <= 240 {
			return hash129to240(b)
		}
		return hashLong(b)
	case n > 8:
		lo := binary.LittleEndian.Uint64(b) ^ secret0
		hi := binary.LittleEndian.Uint64(b[n-8:]) ^ secret8
		return avalanche(n + lo + hi + fold(lo, hi))
	case n >= 4:
		x := uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint32(b[n-4:]))<<32
		y := x ^ secret0
		z := n + (y^y>>51)*prime32x1
		return avalanche((z ^ z>>47) * prime64x2)
	case n > 0:
		c := uint32(b[0]) | uint32(b[n/2])<<8 | uint32(b[n-1])<<16 | uint32(n)<<24
		return avalanche(uint64(c^secret0&0xffffffff) * prime64x1)
	default:
		return emptyHash
	}
}

func hash17to128(b []byte) uint64 {
	n := len(b)
	acc := uint64(n) * prime64x1
	if n > 32 {
		if n > 64 {
			if n > 96 {
				acc += mix(b[48:], 96) + mix(b[n-64:], 112)
			}
			acc += mix(b[32:], 64) + mix(b[n-48:], 80)
		}
		acc += mix(b[16:], 32) + mix(b[n-32:], 48)
	}
	acc += mix(b, 0) + mix(b[n-16:], 16)
	return avalanche(acc)
}

func hash129to240(b []byte) uint64 {
	n := len(b)
	acc := uint64(n) * prime64x1
	for i := 0; i < 8; i++ {
		acc += mix(b[16*i:], 16*i)
	}
	acc = avalanche(acc)
	for i := 8; i < n/16; i++ {
		acc += mix(b[16*i:], 16*(i-8)+3)
	}
	acc += mix(b[n-16:], 136-17)
	return avalanche(acc)
}

// hashLong keeps eight lanes, one for each word of a stripe, and folds them at the end.
func hashLong(b []byte) uint64 {
	lanes := [8]uint64{prime32x3, prime64x1, prime64x2, prime64x3, prime64x4, prime32x2, prime64x5, prime32x1}
	rest := b
	for len(rest) >= blockSize {
		for s := 0; s < blockSize/stripeSize; s++ {
			accumulate(&lanes, rest[s*stripeSize:], 8*s)
		}
		for i := range lanes {
			lanes[i] = (lanes[i] ^ lanes[i]>>47 ^ word(128+8*i)) * prime32x1
		}
		rest = rest[blockSize:]
	}
	for s := 0; len(rest) >= stripeSize; s++ {
		accumulate(&lanes, rest, 8*s)
		rest = rest[stripeSize:]
	}
	if len(rest) > 0 {
		accumulate(&lanes, b[len(b)-stripeSize:], 121)
	}
	sum := uint64(len(b)) * prime64x1
	for j := 0; j < 4; j++ {
		sum += fold(lanes[2*j]^word(11+16*j), lanes[2*j+1]^word(19+16*j))
	}
	return avalanche(sum)
}

// accumulate adds one stripe, the first 64 bytes of p, with the secret from offset o on. Other than in the final XXH3, a
// word goes to its own lane and not to its neighbour's.
func accumulate(lanes *[8]uint64, p []byte, o int) {
	stripe := (*[stripeSize]byte)(p)
	for i := range lanes {
		d := binary.LittleEndian.Uint64(stripe[8*i:])
		k := d ^ word(o+8*i)
		lanes[i] += d + uint64(uint32(k))*(k>>32)
	}
}

// word is the 8 bytes of the secret at o.
func word(o int) uint64 { return binary.LittleEndian.Uint64(secret[o:]) }

// mix folds the first 16 bytes of p with the 16 bytes of the secret at o.
func mix(p []byte, o int) uint64 {
	return fold(binary.LittleEndian.Uint64(p)^word(o), binary.LittleEndian.Uint64(p[8:])^word(o+8))
}

// fold is the 128-bit product with its halves laid over each other.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func avalanche(h uint64) uint64 {
	h ^= h >> 37
	h *= prime64x3
	return h ^ h>>32
}
