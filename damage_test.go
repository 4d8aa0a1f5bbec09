package ashlar

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/vfs"
)

// What damage to tables does to reads: an error that says where, or nothing, and never another answer. Package sstable
// tries every other byte, here every way to read is tried at some of them.

// damagedReads reads keys that are there, all that there are, and some that are not, and returns how many reads failed.
type damagedReads struct {
	t       *testing.T
	cf      *ColumnFamily
	path    string // of the table that is damaged
	present []string
	failed  int
}

// fails says whether a read failed, and checks its error.
func (d *damagedReads) fails(err error, format string, args ...any) bool {
	if err == nil || errors.Is(err, ErrNotFound) {
		return false
	}
	what := fmt.Sprintf(format, args...)
	if errors.Is(err, ErrNotSupported) {
		d.failed++ // the byte that is now another one may name what is not built
		return true
	}
	require.ErrorIs(d.t, err, ErrCorruption, what)
	e, ok := errors.AsType[*CorruptionError](err)
	require.True(d.t, ok, what)
	require.Equal(d.t, d.path, e.File, what)
	require.GreaterOrEqual(d.t, e.Offset, int64(0), "%s: %v", what, err)
	require.Equal(d.t, d.cf.Name(), e.ColumnFamily, what)
	d.failed++
	return true
}

func (d *damagedReads) all() {
	t, cf := d.t, d.cf
	value := func(key string) string { return "value of " + key }
	var keys [][]byte
	for n, key := range d.present {
		if n%5 > 0 {
			continue
		}
		keys = append(keys, []byte(key))
		v, err := cf.Get([]byte(key), nil)
		if !d.fails(err, "Get %s", key) {
			require.NoError(t, err, "a key that is there is not found: %s", key)
			require.Equal(t, value(key), string(v))
		}
		require.True(t, cf.KeyMayExist([]byte(key), nil), key)
		_, err = cf.Get([]byte(key+"-"), nil)
		if !d.fails(err, "Get %s-", key) {
			require.ErrorIs(t, err, ErrNotFound)
		}
	}
	values, errs := cf.MultiGet(keys, nil)
	for n, err := range errs {
		if !d.fails(err, "MultiGet %s", keys[n]) {
			require.NoError(t, err, "a key that is there is not found: %s", keys[n])
			require.Equal(t, value(string(keys[n])), string(values[n]))
		}
	}
	for _, back := range []bool{false, true} {
		it := cf.NewIterator(nil)
		n, next := 0, it.All()
		if back {
			next = it.Backward()
		}
		for k, v := range next {
			at := n
			if back {
				at = len(d.present) - 1 - n
			}
			require.Equal(t, d.present[at], string(k))
			require.Equal(t, value(string(k)), string(v))
			n++
		}
		if !d.fails(it.Error(), "a walk") {
			require.Len(t, d.present, n)
		}
		for n := 0; n < len(d.present); n += 40 {
			if it.Seek([]byte(d.present[n])) {
				require.Equal(t, d.present[n], string(it.Key()))
			} else {
				require.True(t, d.fails(it.Error(), "Seek"), "a key that is there is not sought: %s", d.present[n])
			}
		}
		it.Close()
		it = cf.Prefix([]byte(d.present[40][:3]), nil)
		if it.SeekToFirst() {
			require.Equal(t, d.present[40][:3], string(it.Key()[:3]))
		} else {
			require.True(t, d.fails(it.Error(), "a seek in a prefix"))
		}
		it.Close()
	}
}

func TestDamageToATableIsAnErrorThatSaysWhereOrHarmless(t *testing.T) {
	for name, set := range tableFormats() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := vfs.NewMem()
			db := formatted(t, fs, set)
			d := &damagedReads{t: t, path: ""}
			for i := range 400 {
				key := fmt.Sprintf("k%02d/%03d", i/10, i)
				d.present = append(d.present, key)
				mustPut(t, db.DefaultColumnFamily(), key, "value of "+key, nil)
			}
			require.NoError(t, db.Flush(context.Background(), nil))
			require.NoError(t, db.Close())
			num := namesOf(t, fs, fname.Table)[0]
			d.path = db.path(fname.Table, num)
			whole, err := vfs.ReadFile(fs, d.path)
			require.NoError(t, err)

			const flips = 41 // a prime; the steps lead through data, filters, indexes, properties and footer
			reported := 0
			for n := range flips {
				at := (n*len(whole) + n) / flips
				damage(t, fs, d.path, func([]byte) []byte {
					hurt := append([]byte(nil), whole...)
					hurt[at] ^= byte(1 + n)
					return hurt
				})
				db := formatted(t, fs, set)
				d.cf, d.failed = db.DefaultColumnFamily(), 0
				d.all()
				if d.failed > 0 {
					reported++
				}
				require.NoError(t, db.Close())
			}
			require.Greater(t, reported, flips/2)
		})
	}
}

// A table is cut while it is open: what its files' readers meet is an error, and no signal.
func TestATableThatIsCutUnderItsReaderIsAnErrorAndNoSignal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := Open(dir, &Options{BlockCache: NewCache(0)})
	require.NoError(t, err)
	cf := db.DefaultColumnFamily()
	for i := range 1000 {
		mustPut(t, cf, fmt.Sprintf("k%03d", i), fmt.Sprint("value ", i), nil)
	}
	require.NoError(t, db.Flush(context.Background(), nil))
	require.Equal(t, "value 999", valueOf(t, cf, "k999"))
	path := db.path(fname.Table, db.family.tree.VersionLocked().Level(0)[0].Num)
	require.NoError(t, os.Truncate(path, 100))
	for _, key := range []string{"k000", "k500", "k999"} {
		_, err := db.Get([]byte(key), nil)
		require.ErrorIs(t, err, ErrCorruption)
		e, ok := errors.AsType[*CorruptionError](err)
		require.True(t, ok)
		require.Equal(t, path, e.File)
	}
	it := db.NewIterator(nil)
	require.False(t, it.SeekToLast())
	require.ErrorIs(t, it.Close(), ErrCorruption)
	require.NoError(t, db.Close())
}
