//go:build !race

package ashlar

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/vfs"
)

// allocs is counted, with all its blocks in the cache.
func allocs(t *testing.T) *DB {
	t.Helper()
	db := counted(t, nil)
	it := db.NewIterator(nil)
	require.Len(t, shown(it, false), 3000)
	require.NoError(t, it.Close())
	return db
}

func TestReadsAllocateNothing(t *testing.T) {
	db := allocs(t)
	dst := make([]byte, 0, 100)
	s := db.NewSnapshot()
	at := &ReadOptions{Snapshot: s}
	for name, key := range map[string]string{"bottom": "k0500", "level 0": "k1500", "memtable": "k2500"} {
		k := []byte(key)
		for _, o := range []*ReadOptions{nil, at} {
			require.Zero(t, testing.AllocsPerRun(200, func() {
				if v, err := db.AppendGet(dst[:0], k, o); err != nil || len(v) != 5 {
					panic(err)
				}
			}), "AppendGet from the %s", name)
		}
		require.Zero(t, testing.AllocsPerRun(200, func() {
			if err := db.GetPinned(k, nil, func(v []byte) error { return nil }); err != nil {
				panic(err)
			}
		}), "GetPinned from the %s", name)
		require.LessOrEqual(t, testing.AllocsPerRun(200, func() {
			if _, err := db.Get(k, nil); err != nil {
				panic(err)
			}
		}), 1.0, "Get from the %s", name)
	}
	missing := []byte("missing")
	require.Zero(t, testing.AllocsPerRun(200, func() {
		if _, err := db.AppendGet(dst[:0], missing, nil); err != ErrNotFound {
			panic(err)
		}
	}), "AppendGet of no key")
	keys := [][]byte{[]byte("k0500"), []byte("k1500"), []byte("k2500"), missing}
	values, errs := make([][]byte, 4), make([]error, 4)
	db.MultiGetTo(values, keys, errs, nil)
	require.Zero(t, testing.AllocsPerRun(200, func() { db.MultiGetTo(values, keys, errs, nil) }), "MultiGetTo")
	s.Release()
	require.NoError(t, db.Close())
}

func TestIteratorsAllocateNothingWhileTheyMove(t *testing.T) {
	db := allocs(t)
	it := db.NewIterator(nil)
	require.True(t, it.SeekToFirst())
	require.Zero(t, testing.AllocsPerRun(2900, func() {
		if !it.Next() {
			panic(it.Error())
		}
	}), "Next")
	require.True(t, it.SeekToLast())
	for range 50 {
		it.Prev()
	}
	require.Zero(t, testing.AllocsPerRun(2900, func() {
		if !it.Prev() {
			panic(it.Error())
		}
	}), "Prev")
	k := []byte("k0500")
	it.Seek(k)
	it.SeekForPrev(k)
	require.Zero(t, testing.AllocsPerRun(500, func() { it.Seek(k) }), "Seek")
	require.Zero(t, testing.AllocsPerRun(500, func() { it.SeekForPrev(k) }), "SeekForPrev")
	require.NoError(t, it.Close())
	require.NoError(t, db.Close())
}

func TestWritesAllocateNothing(t *testing.T) {
	o := &Options{FS: &forgetful{vfs.NewMem()}}
	db, err := Open("db", o)
	require.NoError(t, err)
	k, v := []byte("some key"), []byte("some value")
	var b Batch
	for i := range 10 {
		require.NoError(t, b.Put(nil, fmt.Append(k, i), v))
	}
	for name, f := range map[string]func() error{
		"Put":              func() error { return db.Put(k, v, nil) },
		"Put, no log":      func() error { return db.Put(k, v, &WriteOptions{DisableWAL: true}) },
		"Put, synced":      func() error { return db.Put(k, v, Sync) },
		"Delete":           func() error { return db.Delete(k, nil) },
		"Write of a Batch": func() error { return db.Write(&b, nil) },
	} {
		for range 10 {
			require.NoError(t, f())
		}
		require.Zero(t, testing.AllocsPerRun(500, func() {
			if err := f(); err != nil {
				panic(err)
			}
		}), name)
	}
	require.NoError(t, db.Close())
}

// forgetful is a file system whose logs keep nothing, so that only the database's own allocations are counted.
type forgetful struct{ vfs.FS }

func (f *forgetful) Create(name string) (vfs.File, error) {
	file, err := f.FS.Create(name)
	if strings.HasSuffix(name, ".log") {
		file = forgetfulFile{file}
	}
	return file, err
}

type forgetfulFile struct{ vfs.File }

func (f forgetfulFile) Write(p []byte) (int, error) { return len(p), nil }
func (f forgetfulFile) Sync() error                 { return nil }
