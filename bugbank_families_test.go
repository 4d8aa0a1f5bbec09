package ashlar

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/vfs"
)

// Scenarios of other engines' bug reports: families that are dropped, made again and opened with another order. The number is that of our list; the first line of each says whose
// report it is.

// facebook/rocksdb#11719: the log still has records of a family that was dropped.
func TestBugBank074LogRecordsOfADroppedFamilyAreSkipped(t *testing.T) {
	for _, more := range []bool{false, true} {
		for _, mode := range []WALRecoveryMode{PointInTimeRecovery, AbsoluteConsistency} {
			m := vfs.NewMem()
			db := openMem(t, m)
			family, err := db.CreateColumnFamily("gone", nil)
			require.NoError(t, err)
			b := db.NewBatch()
			require.NoError(t, b.Put(family, []byte("k"), []byte("v")))
			require.NoError(t, b.Put(nil, []byte("both"), []byte("v")))
			require.NoError(t, db.Write(b, nil))
			require.NoError(t, db.DropColumnFamily(family))
			want := "both"
			if more {
				mustPut(t, db.family, "more", "v", nil)
				want = "both more"
			}
			require.NoError(t, db.Close())
			o := memOptions(m)
			o.WALRecoveryMode = mode
			db, err = Open("db", o)
			require.NoError(t, err)
			require.Equal(t, want, keysOf(t, db.family))
			_, ok := db.ColumnFamily("gone")
			require.False(t, ok)
			mustPut(t, db.family, "after", "v", nil)
			require.NoError(t, db.Close())
		}
	}
}

// facebook/rocksdb#1295, and fjall-rs/fjall#241: a family dropped and made again under its name is a new one.
func TestBugBank076And085AFamilyMadeAgainHasNothingOfTheOldOne(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		m := vfs.NewMem()
		db := openMem(t, m)
		old, err := db.CreateColumnFamily("x", nil)
		require.NoError(t, err)
		mustPut(t, old, "old", "1", Sync)
		mustPut(t, old, "both", "1", Sync)
		if flushed {
			require.NoError(t, db.Flush(context.Background(), nil))
		}
		require.NoError(t, db.DropColumnFamily(old))
		again, err := db.CreateColumnFamily("x", nil)
		require.NoError(t, err)
		require.NotEqual(t, old.ID(), again.ID())
		empty := m.Crash(nil)
		mustPut(t, again, "both", "2", Sync)
		for _, c := range []struct {
			m    *vfs.Mem
			want map[string]string
		}{
			{empty, map[string]string{}},
			{m.Crash(nil), map[string]string{"both": "2"}},
			{m.Clone(), map[string]string{"both": "2"}},
		} {
			db := openMem(t, c.m)
			x, ok := db.ColumnFamily("x")
			require.True(t, ok)
			require.Equal(t, c.want, must(contentOf(x)))
			require.NoError(t, db.Close())
		}
		require.ErrorIs(t, old.Put([]byte("k"), nil, nil), ErrColumnFamilyDropped)
		require.NoError(t, db.Close())
	}
}

// facebook/rocksdb#4280: what a dropped family held is given back at once, tables, logs and memory.
func TestBugBank077ADroppedFamilyGivesBackWhatItHeld(t *testing.T) {
	m := vfs.NewMem()
	db := openMem(t, m)
	x, err := db.CreateColumnFamily("x", nil)
	require.NoError(t, err)
	for i := range 300 {
		mustPut(t, x, fmt.Sprint(i), strings.Repeat("v", 2000), nil)
	}
	mustPut(t, x, "in the memtable", "v", nil)
	it := x.NewIterator(nil)
	require.True(t, it.SeekToFirst())
	require.NoError(t, db.DropColumnFamily(x))
	atRest(db)
	require.NotEmpty(t, namesOf(t, m, fname.Table), "an iterator still reads them")
	n := 1
	for it.Next() {
		n++
	}
	require.NoError(t, it.Close())
	require.Equal(t, 301, n)
	atRest(db)
	require.Empty(t, namesOf(t, m, fname.Table))
	require.Len(t, namesOf(t, m, fname.Log), 1)
	require.EqualValues(t, 1, db.superversions.Load(), "the default family's")
	require.NoError(t, db.Close())
}

// facebook/rocksdb#10138, walrus#2265.
func TestBugBank079TheDefaultFamilyStaysAndAllFamiliesOpen(t *testing.T) {
	m := vfs.NewMem()
	db := openMem(t, m)
	require.ErrorIs(t, db.DropColumnFamily(db.DefaultColumnFamily()), ErrInvalidArgument)
	x, err := db.CreateColumnFamily("x", nil)
	require.NoError(t, err)
	mustPut(t, x, "k", "v", nil)
	require.NoError(t, db.Close())
	db, err = Open("db", &Options{FS: m})
	require.NoError(t, err)
	x, ok := db.ColumnFamily("x")
	require.True(t, ok)
	require.Equal(t, "v", valueOf(t, x, "k"))
	require.Equal(t, db.Options(), x.Options())
	require.NoError(t, db.Close())
	require.Equal(t, []string{"default", "x"}, must(ListColumnFamilies("db", &Options{FS: m})))
}

// rust-rocksdb#430: another order than the one that the family was made with is refused, and nothing is touched.
func TestBugBank080AnotherComparatorIsRefused(t *testing.T) {
	byLength := *BytewiseComparator
	byLength.Name = "test.ByLength"
	byLength.Compare = func(a, b []byte) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(string(a), string(b)))
	}
	byLength.Separator = func(dst, a, b []byte) []byte { return append(dst, a...) }
	byLength.Successor = func(dst, a []byte) []byte { return append(dst, a...) }
	orders := []*Comparator{&byLength, BytewiseComparator}
	for i, made := range orders {
		other := orders[1-i]
		for _, name := range []string{"x", DefaultColumnFamilyName} {
			m := vfs.NewMem()
			o := memOptions(m)
			if name == DefaultColumnFamilyName {
				o.Comparator = made
			}
			db, err := Open("db", o)
			require.NoError(t, err)
			if name == "x" {
				_, err = db.CreateColumnFamily("x", &ColumnFamilyOptions{Comparator: made})
				require.NoError(t, err)
			}
			x, _ := db.ColumnFamily(name)
			mustPut(t, x, "bb", "1", nil)
			mustPut(t, x, "a", "2", nil)
			require.NoError(t, db.Flush(context.Background(), nil))
			require.NoError(t, db.Close())

			before := dataFiles(t, m)
			o = memOptions(m)
			o.ColumnFamilies = map[string]*ColumnFamilyOptions{name: {Comparator: other}}
			if name == DefaultColumnFamilyName {
				o.ColumnFamilies, o.Comparator = nil, other
			}
			_, err = Open("db", o)
			require.ErrorIs(t, err, ErrInvalidArgument)
			require.ErrorContains(t, err, made.Name)
			require.ErrorContains(t, err, other.Name)
			require.Equal(t, before, dataFiles(t, m))

			o = memOptions(m)
			o.ColumnFamilies = map[string]*ColumnFamilyOptions{name: {Comparator: made}}
			if name == DefaultColumnFamilyName {
				o.ColumnFamilies, o.Comparator = nil, made
			}
			db, err = Open("db", o)
			require.NoError(t, err)
			x, _ = db.ColumnFamily(name)
			require.Len(t, must(contentOf(x)), 2)
			checkClean(t, db)
			require.NoError(t, db.Close())
		}
	}
}
