package main

import "math"

// lehmer is the Lehmer generator with multiplier 16807 modulo 2³¹ − 1, which is also C++'s minstd_rand0.
type lehmer uint32

const lehmerModulus = 1<<31 - 1

func newLehmer(seed uint32) lehmer {
	if seed &= lehmerModulus; seed == 0 || seed == lehmerModulus {
		seed = 1
	}
	return lehmer(seed)
}

// Next returns a number from 1 to lehmerModulus−1.
func (l *lehmer) Next() uint32 {
	product := uint64(*l) * 16807
	// 2³¹ is 1 modulo 2³¹ − 1, so what is above bit 31 adds to what is below.
	x := uint32(product>>31) + uint32(product&lehmerModulus)
	if x > lehmerModulus {
		x -= lehmerModulus
	}
	*l = lehmer(x)
	return x
}

// gaussian draws from a normal distribution by Marsaglia's polar method, in the way in which GNU's C++ library does, so
// that ids of randomreplacekeys are db_bench's.
type gaussian struct {
	dice  lehmer
	spare float64
	has   bool // spare is to be handed out next
}

func newGaussian(seed uint32) gaussian { return gaussian{dice: newLehmer(seed)} }

// Next returns the next number.
func (g *gaussian) Next(mean, deviation float64) float64 {
	if g.has {
		g.has = false
		return g.spare*deviation + mean
	}
	for {
		x, y := 2*g.unit()-1, 2*g.unit()-1
		r := x*x + y*y
		if r > 1 || r == 0 {
			continue
		}
		scale := math.Sqrt(-2 * math.Log(r) / r)
		g.spare, g.has = x*scale, true
		return y*scale*deviation + mean
	}
}

// unit returns a number in [0, 1) that is made of two draws.
func (g *gaussian) unit() float64 {
	const span = lehmerModulus - 1
	low := float64(g.dice.Next() - 1)
	high := float64(g.dice.Next() - 1)
	return min((low+high*span)/(span*span), math.Nextafter(1, 0))
}
