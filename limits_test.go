//go:build !race && (amd64 || arm64)

package ashlar

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/vfs"
)

// What is more than a batch, a key or a value may have is refused by the call that brings it, and the batch stays usable.
// The lengths are refused before a byte is looked at, so the bytes need not be there; the race detector's build minds.
func TestWhatIsTooLargeIsRefused(t *testing.T) {
	var one byte
	huge := unsafe.Slice(&one, 1<<33)
	almost := unsafe.Slice(&one, maxBatch-40)
	var b Batch
	require.NoError(t, b.Put(nil, []byte("a"), nil))
	before := string(b.Data())
	for _, err := range []error{
		b.Put(nil, huge, nil), b.Put(nil, nil, huge), b.Delete(nil, huge), b.SingleDelete(nil, huge), b.PutLogData(huge),
		b.Put(nil, almost, almost), b.PutLogData(unsafe.Slice(&one, maxBatch)),
	} {
		require.ErrorIs(t, err, ErrInvalidArgument)
	}
	require.Equal(t, before, string(b.Data()))
	require.Equal(t, 1, b.Count())
	db := openMem(t, vfs.NewMem())
	require.ErrorIs(t, db.Put(huge, nil, nil), ErrInvalidArgument)
	require.ErrorIs(t, db.Put(nil, huge, Sync), ErrInvalidArgument)
	require.NoError(t, db.Write(&b, nil))
	require.NoError(t, db.Close())
}
