package ashlar

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/vfs"
)

// A family that was dropped pinned a log, and one that never wrote had an older number in the manifest than in memory:
// the log was deleted, recovery missed it, and stopped before what came after.
func TestNoLogIsDeletedThatRecoveryAsksFor(t *testing.T) {
	o := &Options{FS: vfs.NewMem()}
	db, err := Open("db", o)
	require.NoError(t, err)
	_, err = db.CreateColumnFamily("quiet", nil)
	require.NoError(t, err)
	pins, err := db.CreateColumnFamily("pins", nil)
	require.NoError(t, err)
	require.NoError(t, pins.Put([]byte("k"), []byte("v"), nil))
	require.NoError(t, db.Put([]byte("a"), []byte("1"), nil))
	require.NoError(t, db.Flush(context.Background(), nil, db.DefaultColumnFamily()))
	require.NoError(t, db.DropColumnFamily(pins))
	require.NoError(t, db.Put([]byte("b"), []byte("2"), nil))
	require.NoError(t, db.Close())

	db, err = Open("db", o)
	require.NoError(t, err)
	v, err := db.Get([]byte("b"), nil)
	require.NoError(t, err)
	require.Equal(t, "2", string(v))
	require.NoError(t, db.Close())
}
