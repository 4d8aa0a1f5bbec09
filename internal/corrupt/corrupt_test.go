package corrupt

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErrorSaysWhatWhichFileAndWhere(t *testing.T) {
	err := At("000012.sst", 40960, "block checksum %04x, want %04x", 0x1b2c, 0x77aa)
	require.EqualError(t, err, "000012.sst: at 40960: block checksum 1b2c, want 77aa (corruption)")
	require.ErrorIs(t, err, Err)
	require.NotErrorIs(t, err, ErrNotSupported)
	e, ok := errors.AsType[*Error](err)
	require.True(t, ok)
	require.Equal(t, int64(40960), e.Offset)
	e.ColumnFamily, e.Offset = "users", -1
	require.EqualError(t, err, "000012.sst (column family users): block checksum 1b2c, want 77aa (corruption)")
}

func TestUnsupportedIsNotCorruption(t *testing.T) {
	err := Unsupported("000003.sst", 7, "value type %#x", 0x16)
	require.ErrorIs(t, err, ErrNotSupported)
	require.NotErrorIs(t, err, Err)
	require.EqualError(t, err, "000003.sst: at 7: value type 0x16: not supported")
}
