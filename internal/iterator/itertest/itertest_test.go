package itertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/kv"
)

func TestSliceKeepsTheContractAtItsEnds(t *testing.T) {
	s := New(kv.Bytewise, []kv.Entry{{Key: kv.MakeKey([]byte("a"), 1, kv.KindValue)}})
	require.Nil(t, s.SeekLT(kv.SeekKey([]byte("a"), 9)))
	require.Nil(t, s.Prev())
	require.NotNil(t, s.Next())
	require.Nil(t, s.Next())
	require.Nil(t, s.Next())
	require.NotNil(t, s.Prev())
}

func TestCheckNoticesAMissingEntry(t *testing.T) {
	all := []kv.Entry{{Key: kv.MakeKey([]byte("a"), 1, kv.KindValue)}, {Key: kv.MakeKey([]byte("b"), 1, kv.KindValue)}}
	ops := []byte{7, 0, 0, 3}
	require.NoError(t, Check(kv.Bytewise, New(kv.Bytewise, all), all, ops))
	require.ErrorContains(t, Check(kv.Bytewise, New(kv.Bytewise, all[:1]), all, ops), "Next")
}
