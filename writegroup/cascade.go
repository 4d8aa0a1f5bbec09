package writegroup

import "math"

// Who wakes whom, by arithmetic alone. Members of a group of n are numbered from 0, the leader, to n-1, the youngest.
//
//  1. With fewer than 20 members the leader wakes all.
//  2. Else s = ⌊√n⌋. Members 1 … s-1 are helpers: the leader wakes them first, and they pass the wake on.
//  3. Member i of 0 … s-1 wakes i+s, i+2s, i+3s, …
//
// So each member but the leader is woken once: helpers by the leader, the others by the owner of their residue class.
//
//	n=20 s=4      leader 0 ── wakes ──> 1 2 3          helpers
//	              leader 0 ── wakes ──> 4 8 12 16      its own class
//	              helper 1 ── wakes ──> 5 9 13 17
//	              helper 2 ── wakes ──> 6 10 14 18
//	              helper 3 ── wakes ──> 7 11 15 19
//
// The leader makes (s-1) + ⌊(n-1)/s⌋ wakes, which is at most 2√n: 7 of 19 here, 62 of 999 for n = 1000.

// cascadeFrom is the size of the smallest group that has helpers. Below it, the hop over a helper costs more than the
// few wakes it takes off the leader.
const cascadeFrom = 20

// Wake says who wakes the members of a group, to insert and when they are done.
type Wake uint8

const (
	// WakeSquareRoot is the cascade above.
	WakeSquareRoot Wake = iota
	// WakeOneByOne lets the leader wake all, whatever their number: what the cascade is measured against, and what
	// RocksDB did before 9.3.
	WakeOneByOne
)

// String returns the name of the strategy: "sqrt" or "one_by_one".
func (w Wake) String() string {
	if w == WakeOneByOne {
		return "one_by_one"
	}
	return "sqrt"
}

// Stride returns how many of a group of n pass wakes on, the leader among them; 1 when the leader wakes all. Members 1 to
// Stride-1 are the helpers.
func (w Wake) Stride(n int) int {
	if w == WakeOneByOne || n < cascadeFrom {
		return 1
	}
	s := int(math.Sqrt(float64(n)))
	for s*s > n {
		s--
	}
	for (s+1)*(s+1) <= n {
		s++
	}
	return s
}

// share returns the members that member i of n has in its class, with a stride: i+stride, i+2·stride, … below n. It is
// none (first ≥ n) for a member that is neither leader nor helper.
func share(i, n, stride int) (first int) {
	if i >= stride {
		return n
	}
	return i + stride
}
