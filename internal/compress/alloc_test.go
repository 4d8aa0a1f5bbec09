//go:build !race

package compress

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The race detector makes pools forget, so allocations are counted without it only.
func TestWarmCodersAllocateLittle(t *testing.T) {
	src := blocks()["text"]
	for typ, most := range map[Type]float64{Snappy: 0, LZ4: 0, LZ4HC: 0, Zlib: 0.5, ZSTD: 0.5} {
		stored := typ.Compress(nil, src, nil)
		buf := make([]byte, 0, 4*len(src))
		dst := make([]byte, len(src))
		writing := testing.AllocsPerRun(50, func() { buf = typ.Compress(buf[:0], src, nil) })
		require.LessOrEqual(t, writing, most, "writing %s", typ)
		reading := testing.AllocsPerRun(50, func() { _ = DecompressInto(dst, typ.Disk(), 5, stored, nil) })
		require.LessOrEqual(t, reading, most, "reading %s", typ)
	}
}
