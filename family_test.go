package ashlar

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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

// Who has a comparator of its own, and gives it with CreateColumnFamily only.
func TestAFamilyIsMadeWithTheOptionsItIsGiven(t *testing.T) {
	length := &Comparator{
		Name: "test.ByLength",
		Compare: func(a, b []byte) int {
			if len(a) != len(b) {
				return len(a) - len(b)
			}
			return BytewiseComparator.Compare(a, b)
		},
		Separator: func(dst, a, _ []byte) []byte { return append(dst, a...) },
		Successor: func(dst, a []byte) []byte { return append(dst, a...) },
	}
	fs := vfs.NewMem()
	db := openMem(t, fs)
	cf, err := db.CreateColumnFamily("x", &ColumnFamilyOptions{Comparator: length, NumLevels: 7, WriteBufferSize: 1 << 20})
	require.NoError(t, err)
	require.NoError(t, db.BackgroundError())
	require.EqualValues(t, 1<<20, cf.Options().WriteBufferSize)
	for _, k := range []string{"bbb", "a", "cc", "b"} {
		mustPut(t, cf, k, k, nil)
	}
	want := []string{"a", "b", "cc", "bbb"}
	it := cf.NewIterator(nil)
	require.Equal(t, want, shown(it, false))
	require.NoError(t, it.Close())
	require.NoError(t, cf.CompactRange(context.Background(), nil, nil, nil))
	require.NoError(t, db.Close())

	o := memOptions(fs)
	_, err = Open("db", o)
	require.ErrorIs(t, err, ErrInvalidArgument)
	require.ErrorContains(t, err, "test.ByLength")
	o.ColumnFamilies = map[string]*ColumnFamilyOptions{"x": {Comparator: length}}
	db, err = Open("db", o)
	require.NoError(t, err)
	cf, ok := db.ColumnFamily("x")
	require.True(t, ok)
	it = cf.NewIterator(nil)
	require.Equal(t, want, shown(it, false))
	require.NoError(t, it.Close())
	checkClean(t, db)
	require.NoError(t, db.Close())
}

func TestWhatCannotBeDoneToFamiliesIsRefused(t *testing.T) {
	db, other := openMem(t, vfs.NewMem()), openMem(t, vfs.NewMem())
	_, err := db.CreateColumnFamily("", nil)
	require.ErrorIs(t, err, ErrInvalidArgument)
	_, err = db.CreateColumnFamily("default", nil)
	require.ErrorIs(t, err, ErrInvalidArgument)
	_, err = db.CreateColumnFamily("x", &ColumnFamilyOptions{NumLevels: 1})
	require.ErrorIs(t, err, ErrInvalidArgument)
	require.ErrorIs(t, db.DropColumnFamily(nil), ErrInvalidArgument)
	require.ErrorIs(t, db.DropColumnFamily(db.DefaultColumnFamily()), ErrInvalidArgument)
	require.ErrorIs(t, db.DropColumnFamily(other.DefaultColumnFamily()), ErrInvalidArgument)
	require.ErrorIs(t, db.Flush(context.Background(), nil, other.DefaultColumnFamily()), ErrInvalidArgument)
	cf, err := db.CreateColumnFamily("x", nil)
	require.NoError(t, err)
	_, err = db.CreateColumnFamily("x", nil)
	require.ErrorIs(t, err, ErrInvalidArgument)
	require.NoError(t, db.DropColumnFamily(cf))
	ctx := context.Background()
	for _, err := range []error{
		db.DropColumnFamily(cf), cf.Put(nil, nil, nil), cf.Delete(nil, nil), cf.NewIterator(nil).Close(),
		cf.CompactRange(ctx, nil, nil, nil), db.Flush(ctx, nil, cf),
	} {
		require.ErrorIs(t, err, ErrColumnFamilyDropped)
	}
	_, ok := cf.Property("rocksdb.stats")
	require.False(t, ok)
	require.NoError(t, db.BackgroundError())
	require.NoError(t, db.Close())
	require.NoError(t, other.Close())
}

// reading is a file system that calls do as a table is read.
type reading struct {
	vfs.FS
	do func(name string)
}

func (r *reading) Open(name string) (vfs.File, error) {
	f, err := r.FS.Open(name)
	if err == nil && strings.HasSuffix(name, ".sst") {
		f = &readFile{f, r, name}
	}
	return f, err
}

type readFile struct {
	vfs.File
	fs   *reading
	name string
}

func (f *readFile) ReadAt(p []byte, off int64) (int, error) {
	if f.fs.do != nil {
		f.fs.do(f.name)
	}
	return f.File.ReadAt(p, off)
}

// A family goes while a call for all families is at the one before it.
func TestCallsForAllFamiliesPassOverThoseDroppedMeanwhile(t *testing.T) {
	ctx := context.Background()
	for name, call := range map[string]func(*DB) error{
		"Check": func(db *DB) error {
			for err := range db.Check(ctx) {
				return err
			}
			return nil
		},
		"VerifyChecksum": func(db *DB) error { return db.VerifyChecksum(ctx) },
	} {
		fs := &reading{FS: vfs.NewMem()}
		db := openMem(t, fs)
		for _, name := range []string{"b", "c"} {
			_, err := db.CreateColumnFamily(name, nil)
			require.NoError(t, err)
		}
		for _, cf := range db.ColumnFamilies() {
			mustPut(t, cf, "k", "v", nil)
		}
		require.NoError(t, db.Flush(ctx, nil))
		require.NoError(t, db.Close())

		db = openMem(t, fs)
		b, _ := db.ColumnFamily("b")
		read := map[string]bool{}
		fs.do = func(name string) {
			if read[name] = true; !b.dropped.Load() {
				require.NoError(t, db.DropColumnFamily(b))
			}
		}
		require.NoError(t, call(db), name)
		require.Len(t, read, 2, "%s: the tables of the families that are left", name)
		fs.do = nil
		require.NoError(t, db.Close())
		require.ErrorIs(t, call(db), ErrClosed, name)
	}
}

func TestFamiliesComeAndGoWhileOthersWrite(t *testing.T) {
	db := openMem(t, vfs.NewMem())
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for w := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 15 {
				name := fmt.Sprintf("f%d", w)
				cf, err := db.CreateColumnFamily(name, nil)
				for k := 0; err == nil && k < 20; k++ {
					var b Batch
					err = errors.Join(b.Put(cf, fmt.Appendf(nil, "k%d", k), []byte("v")), b.Put(nil, fmt.Appendf(nil, "k%d-%d", w, k), fmt.Append(nil, i)))
					err = errors.Join(err, db.Write(&b, nil))
				}
				if err == nil && i%2 == 0 {
					err = db.Flush(context.Background(), nil, cf)
				}
				if err == nil && i < 14 {
					err = db.DropColumnFamily(cf)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.Len(t, db.ColumnFamilies(), 5)
	checkClean(t, db)
	fs := db.fs
	require.NoError(t, db.Close())
	db = openMem(t, fs)
	require.Len(t, db.ColumnFamilies(), 5)
	for _, cf := range db.ColumnFamilies()[1:] {
		require.Equal(t, "v", valueOf(t, cf, "k19"))
	}
	require.Equal(t, "14", valueOf(t, db.DefaultColumnFamily(), "k3-19"))
	names, err := ListColumnFamilies("db", &Options{FS: fs})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"default", "f0", "f1", "f2", "f3"}, names)
	require.NoError(t, db.Close())
}

// Log numbers of quiet families must not pin every log: MaxTotalWALSize flushes who does.
func TestAQuietFamilyDoesNotPinTheLogs(t *testing.T) {
	o := memOptions(vfs.NewMem())
	o.MaxTotalWALSize = 100 << 10
	db, err := Open("db", o)
	require.NoError(t, err)
	quiet, err := db.CreateColumnFamily("quiet", nil)
	require.NoError(t, err)
	mustPut(t, quiet, "k", "v", nil)
	for i := range 2000 {
		mustPut(t, db.DefaultColumnFamily(), fmt.Sprintf("k%04d", i), string(make([]byte, 500)), nil)
	}
	atRest(db)
	require.LessOrEqual(t, db.Metrics().WALSize, int64(300<<10))
	require.Contains(t, quiet.Levels(), "k#")
	require.NoError(t, db.Close())
}
