//go:build !race && !invariants

package cache

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Not with the race detector, under which pools drop what they are given, nor where values are used once only.
func TestNeitherHitNorMissAllocates(t *testing.T) {
	c := New(1 << 20)
	k := Key{c.NewID(), 0}
	put(c, k, 4096)
	require.Zero(t, testing.AllocsPerRun(1000, func() { c.Get(k).Release() }))
	for range 2000 { // until it is full
		k.Offset++
		put(c, k, 4096)
	}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		k.Offset++
		put(c, k, 4096)
	}))
}
