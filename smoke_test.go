package ashlar

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSmoke(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, nil)
	require.NoError(t, err)
	for i := range 20000 {
		require.NoError(t, db.Put(fmt.Appendf(nil, "key%06d", i*7919%20000), fmt.Appendf(nil, "value%d", i), nil))
	}
	cf, err := db.CreateColumnFamily("users", nil)
	require.NoError(t, err)
	require.NoError(t, cf.Put([]byte("a"), []byte("b"), Sync))
	require.NoError(t, db.Flush(context.Background(), nil))
	n := 0
	it := db.NewIterator(nil)
	for range it.All() {
		n++
	}
	require.NoError(t, it.Error())
	require.Equal(t, 20000, n)
	for range it.Backward() {
		n--
	}
	require.NoError(t, it.Error())
	require.Equal(t, 0, n)
	require.NoError(t, it.Close())
	require.NoError(t, db.CompactRange(context.Background(), nil, nil, nil))
	v, err := db.Get([]byte("key000001"), nil)
	require.NoError(t, err)
	t.Log(string(v))
	for err := range db.Check(context.Background()) {
		t.Error(err)
	}
	s, _ := db.Property("rocksdb.stats")
	t.Log(s)
	require.NoError(t, db.Put([]byte("zzz"), []byte("tail"), nil))
	require.NoError(t, db.Close())
	db, err = Open(dir, nil)
	require.NoError(t, err)
	v, err = db.Get([]byte("zzz"), nil)
	require.NoError(t, err)
	require.Equal(t, "tail", string(v))
	cf, ok := db.ColumnFamily("users")
	require.True(t, ok)
	v, err = cf.Get([]byte("a"), nil)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}
