package enc

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShortInputIsRefused(t *testing.T) {
	_, _, ok := Uvarint(nil)
	require.False(t, ok)
	_, _, ok = Uvarint([]byte{0x80})
	require.False(t, ok)
	_, _, ok = Uvarint32(binary.AppendUvarint(nil, math.MaxUint32+1))
	require.False(t, ok)
	_, _, ok = Bytes([]byte{3, 'a', 'b'})
	require.False(t, ok)
	_, _, ok = Bytes(binary.AppendUvarint(nil, math.MaxUint64))
	require.False(t, ok)
	_, _, ok = Fixed32([]byte{1, 2, 3})
	require.False(t, ok)
	_, _, ok = Fixed64([]byte{1, 2, 3, 4, 5, 6, 7})
	require.False(t, ok)
}

func TestZigzagKeepsSmallNumbersSmall(t *testing.T) {
	for _, v := range []int64{0, -1, 1, -2, math.MaxInt64, math.MinInt64} {
		require.Equal(t, v, Unzigzag(Zigzag(v)))
	}
	require.Equal(t, uint64(3), Zigzag(-2))
}

func FuzzVarint(f *testing.F) {
	f.Add([]byte{0x80, 0x01, 'x'})
	f.Add(AppendBytes(nil, []byte("hello")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, rest, ok := Uvarint(b); ok {
			want, n := binary.Uvarint(b)
			if v != want || !bytes.Equal(rest, b[n:]) {
				t.Fatalf("got %d, want %d", v, want)
			}
		}
		if p, rest, ok := Bytes(b); ok {
			q, r, ok := Bytes(append(AppendBytes(nil, p), rest...))
			if !ok || !bytes.Equal(p, q) || !bytes.Equal(rest, r) {
				t.Fatal("string did not come back")
			}
		}
	})
}
