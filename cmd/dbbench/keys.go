package main

import "math"

// keyMaker writes keys byte for byte as db_bench does:
//
//	+-- v, big-endian, min(size, 8) bytes --+-- '0' up to size --+
//
// and with keys per prefix
//
//	+-- v % prefixes, big-endian, min(prefix size, 8) bytes --+-- '0' up to prefix size --+-- as above, in what is left --+
//
// where there are num / keysPerPrefix prefixes.
type keyMaker struct {
	size       int
	prefixSize int
	prefixes   uint64 // 0: keys have no prefix
}

// put writes key v to dst, which has k.size bytes.
func (k *keyMaker) put(dst []byte, v uint64) {
	if k.prefixes > 0 {
		padded(dst[:k.prefixSize], v%k.prefixes)
		dst = dst[k.prefixSize:]
	}
	padded(dst, v)
}

// padded fills dst with the low bytes of v, big-endian, up to 8 of them, and ASCII zeros behind.
func padded(dst []byte, v uint64) {
	n := min(len(dst), 8)
	for i := range n {
		dst[i] = byte(v >> (8 * (n - 1 - i)))
	}
	for i := n; i < len(dst); i++ {
		dst[i] = '0'
	}
}

// randomKey draws a key number to read. With a skew above 0 it is exponential: num × e^−r with r uniform in [0, skew),
// spread over the key space by a multiplication so that popular keys are no neighbours.
func randomKey(rand *mersenne, num uint64, skew float64) uint64 {
	r := rand.Next()
	if skew == 0 {
		return r % num
	}
	const big = 1 << 62
	order := -float64(r%big) / big * skew
	return uint64(math.Exp(order)*float64(num)) * 0x5bd1e995 % num
}

// writeOrder is the order in which a benchmark writes keys.
type writeOrder uint8

const (
	sequential writeOrder = iota // 0, 1, 2, …
	random                       // any of num, some never, some again
	unique                       // each of num once, shuffled
)

// keyOrder yields key numbers to write.
type keyOrder struct {
	order    writeOrder
	rand     *mersenne
	num      uint64
	next     uint64
	shuffled []uint64
}

// newKeyOrder yields numbers below num. The shuffle of unique depends on seed alone; db_bench's depends on the C++
// library.
func newKeyOrder(order writeOrder, rand *mersenne, num, seed uint64) *keyOrder {
	k := &keyOrder{order: order, rand: rand, num: num}
	if order == unique {
		k.shuffled = make([]uint64, num)
		dice := newMersenne(seed)
		for i := range k.shuffled {
			j := dice.Next() % uint64(i+1)
			k.shuffled[i] = k.shuffled[j]
			k.shuffled[j] = uint64(i)
		}
	}
	return k
}

func (k *keyOrder) Next() uint64 {
	switch k.order {
	case random:
		return k.rand.Next() % k.num
	case unique:
		v := k.shuffled[k.next%k.num]
		k.next++
		return v
	default:
		v := k.next
		k.next++
		return v
	}
}
