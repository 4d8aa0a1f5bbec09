package stats

import "sync/atomic"

// stripes is how many parts a Counter has. A power of two.
const stripes = 8

// Counter is a sum that many goroutines add to at the same time. Its zero value is 0. It is 512 bytes in size, so that
// each part has a cache line, or the pair of lines that some processors fetch, nearly to itself.
type Counter struct {
	parts [stripes]struct {
		n atomic.Uint64
		_ [56]byte
	}
}

// Add adds n. Goroutines are spread over the parts by where their stacks lie, which costs nothing to find out; one
// goroutine mostly stays with one part.
func (c *Counter) Add(n uint64) {
	c.parts[here()].n.Add(n)
}

// Load returns the sum. Adds that run at the same time may be in it or not.
func (c *Counter) Load() uint64 {
	var sum uint64
	for i := range c.parts {
		sum += c.parts[i].n.Load()
	}
	return sum
}
