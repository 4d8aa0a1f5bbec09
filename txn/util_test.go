package txn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/vfs"
)

// memOptions are those of a small database in memory.
func memOptions(fs vfs.FS) *ashlar.Options {
	return &ashlar.Options{FS: fs, ColumnFamilyOptions: ashlar.ColumnFamilyOptions{WriteBufferSize: 64 << 10}}
}

// mustOpen opens a database of either kind on fs, closed at the end of the test.
func mustOpen(t testing.TB, pessimistic bool, fs vfs.FS) *DB {
	t.Helper()
	return mustOpenWith(t, pessimistic, memOptions(fs))
}

func mustOpenWith(t testing.TB, pessimistic bool, o *ashlar.Options) *DB {
	t.Helper()
	db, err := openKind(pessimistic, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		if !db.closed.Load() {
			mustClose(t, db)
		}
	})
	return db
}

func openKind(pessimistic bool, o *ashlar.Options) (*DB, error) {
	if pessimistic {
		return OpenPessimistic("db", o, &Options{LockTimeout: WaitForever})
	}
	return OpenOptimistic("db", o)
}

func mustClose(t testing.TB, db *DB) {
	t.Helper()
	for err := range db.base.Check(context.Background()) {
		require.NoError(t, err)
	}
	if db.locks != nil {
		held := 0
		for _, p := range db.Prepared() {
			held += len(p.tracked)
		}
		require.Equal(t, held, db.locks.held(), "locks left behind")
	}
	require.NoError(t, db.Close())
}

// bothKinds runs a test on both kinds of database, with writes plain and pipelined.
func bothKinds(t *testing.T, test func(t *testing.T, db *DB)) {
	for name, pessimistic := range map[string]bool{"optimistic": false, "pessimistic": true} {
		for _, pipelined := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/pipelined=%v", name, pipelined), func(t *testing.T) {
				o := memOptions(vfs.NewMem())
				o.EnablePipelinedWrite = pipelined
				test(t, mustOpenWith(t, pessimistic, o))
			})
		}
	}
}

type getter func(cf *ashlar.ColumnFamily, key []byte, o *ashlar.ReadOptions) ([]byte, error)

// value reads a key; "" stands for none.
func value(t testing.TB, get getter, key string) string {
	t.Helper()
	v, err := get(nil, []byte(key), nil)
	if errors.Is(err, ashlar.ErrNotFound) {
		return ""
	}
	require.NoError(t, err)
	return string(v)
}

func put(t testing.TB, x *Txn, key, value string) {
	t.Helper()
	require.NoError(t, x.Put(nil, []byte(key), []byte(value)))
}

func set(t testing.TB, db *DB, key, value string) {
	t.Helper()
	require.NoError(t, db.Put(nil, []byte(key), []byte(value), nil))
}

// contents reads all of a family.
func contents(t testing.TB, cf *ashlar.ColumnFamily) map[string]string {
	t.Helper()
	m := map[string]string{}
	it := cf.NewIterator(nil)
	for k, v := range it.All() {
		m[string(k)] = string(v)
	}
	require.NoError(t, it.Close())
	return m
}

// shown reads all that an iterator shows, and checks that it shows the same backwards.
func shown(t testing.TB, it *ashlar.Iterator) map[string]string {
	t.Helper()
	m, back := map[string]string{}, map[string]string{}
	for k, v := range it.All() {
		m[string(k)] = string(v)
	}
	for k, v := range it.Backward() {
		back[string(k)] = string(v)
	}
	require.NoError(t, it.Close())
	require.True(t, maps.Equal(m, back))
	return m
}
