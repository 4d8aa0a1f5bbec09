package main

import "math/bits"

// mersenne is the Mersenne twister MT19937-64 of Matsumoto and Nishimura, the generator that db_bench draws keys from.
// It belongs to one thread.
type mersenne struct {
	state [mersenneWords]uint64
	next  int // word of state to be handed out next; mersenneWords asks for a new round
}

const (
	mersenneWords = 312
	mersenneShift = 156
	mersenneUpper = 0xffffffff80000000
	mersenneLower = 0x7fffffff
	mersenneTwist = 0xb5026f5aa96619e9
)

func newMersenne(seed uint64) *mersenne {
	m := &mersenne{next: mersenneWords}
	m.state[0] = seed
	for i := 1; i < mersenneWords; i++ {
		prev := m.state[i-1]
		m.state[i] = 6364136223846793005*(prev^prev>>62) + uint64(i)
	}
	return m
}

// Next returns the next 64 bits.
func (m *mersenne) Next() uint64 {
	if m.next == mersenneWords {
		m.round()
	}
	x := m.state[m.next]
	m.next++
	x ^= x >> 29 & 0x5555555555555555
	x ^= x << 17 & 0x71d67fffeda60000
	x ^= x << 37 & 0xfff7eee000000000
	return x ^ x>>43
}

// Below returns a number below n, in the way in which GNU's C++ library does: the upper word of the product with n, drawn
// again where that would make some numbers likelier than others.
func (m *mersenne) Below(n uint64) uint64 {
	for {
		if high, low := bits.Mul64(m.Next(), n); low >= n || low >= -n%n {
			return high
		}
	}
}

// round makes the next mersenneWords words.
func (m *mersenne) round() {
	for i := range m.state {
		x := m.state[i]&mersenneUpper | m.state[(i+1)%mersenneWords]&mersenneLower
		twisted := x >> 1
		if x&1 != 0 {
			twisted ^= mersenneTwist
		}
		m.state[i] = m.state[(i+mersenneShift)%mersenneWords] ^ twisted
	}
	m.next = 0
}
