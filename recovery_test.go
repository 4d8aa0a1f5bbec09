package ashlar

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/vfs/faultfs"
	"github.com/ashlardb/ashlar/wal"
)

// What Open makes of damaged files.

// twoLogs returns a database that died with two logs and no table: batches 1 to 3 in the first, 4 to 6 in the second,
// each of them in both families. ends are the places in each log behind its records, the one that names the log before
// first.
func twoLogs(t *testing.T) (m *vfs.Mem, logs [2]string, ends [2][]int) {
	t.Helper()
	m = vfs.NewMem()
	fsys, hold := holdingTables(m)
	db := openMem(t, fsys)
	other, err := db.CreateColumnFamily("other", nil)
	require.NoError(t, err)
	for i := 1; i <= 6; i++ {
		b := db.NewBatch()
		for _, cf := range []*ColumnFamily{nil, other} {
			require.NoError(t, b.Put(cf, fmt.Append(nil, i), []byte(strings.Repeat(fmt.Sprint(i), 9000))))
		}
		require.NoError(t, db.Write(b, Sync))
		if i == 3 {
			require.NoError(t, db.Flush(context.Background(), &FlushOptions{NoWait: true}))
		}
	}
	nums := db.wals.Numbers()
	require.Len(t, nums, 2)
	dead := m.Clone()
	close(hold)
	require.NoError(t, db.Close())
	for i, num := range nums {
		logs[i] = db.path(fname.Log, num)
		b := must(vfs.ReadFile(dead, logs[i]))
		r := wal.NewReader(strings.NewReader(string(b)), int64(len(b)), logs[i], num)
		for {
			if _, _, err := r.Next(); err != nil {
				break
			}
			ends[i] = append(ends[i], int(r.End()))
		}
		require.Len(t, ends[i], 4)
	}
	return dead, logs, ends
}

// keysOf returns a family's keys in a line.
func keysOf(t testing.TB, cf *ColumnFamily) string {
	t.Helper()
	return strings.Join(slices.Sorted(maps.Keys(must(contentOf(cf)))), " ")
}

func TestEachRecoveryModeWithEachDamageOfTheLogs(t *testing.T) {
	base, logs, ends := twoLogs(t)
	first, last := ends[0], ends[1]
	cut := func(log, at int) func(*vfs.Mem) {
		return func(m *vfs.Mem) { damage(t, m, logs[log], func(b []byte) []byte { return b[:at] }) }
	}
	zero := func(log, from, to int) func(*vfs.Mem) {
		return func(m *vfs.Mem) { damage(t, m, logs[log], func(b []byte) []byte { clear(b[from:to]); return b }) }
	}
	flip := func(log, at int) func(*vfs.Mem) {
		return func(m *vfs.Mem) { damage(t, m, logs[log], func(b []byte) []byte { b[at] ^= 1; return b }) }
	}
	remove := func(log int) func(*vfs.Mem) {
		return func(m *vfs.Mem) { require.NoError(t, m.Remove(logs[log])) }
	}
	const refused = "refused"
	modes := [4]WALRecoveryMode{TolerateCorruptedTailRecords, AbsoluteConsistency, PointInTimeRecovery, SkipAnyCorruptedRecords}
	for _, c := range []struct {
		name   string
		damage func(*vfs.Mem)
		want   [4]string // the keys found in each mode
	}{
		{"nothing", func(*vfs.Mem) {}, [4]string{"1 2 3 4 5 6", "1 2 3 4 5 6", "1 2 3 4 5 6", "1 2 3 4 5 6"}},
		{"torn tail", cut(1, last[3]-100), [4]string{"1 2 3 4 5", refused, "1 2 3 4 5", "1 2 3 4 5"}},
		{"tail torn in a header", cut(1, last[2]+3), [4]string{"1 2 3 4 5", refused, "1 2 3 4 5", "1 2 3 4 5"}},
		{"half a record, then zeros", zero(1, last[2]+5000, last[3]), [4]string{"1 2 3 4 5", refused, "1 2 3 4 5", "1 2 3 4 5"}},
		{"zeroed hole in the newest log", zero(1, last[1]+10, last[1]+4106), [4]string{refused, refused, "1 2 3 4", "1 2 3 4 6"}},
		{"zeroed hole in the earlier log", zero(0, first[1]+10, first[1]+4106), [4]string{refused, refused, "1", "1 3 4 5 6"}},
		// Skipping goes on with the next block, behind the record after the hole.
		{"a record of the earlier log became zeros", zero(0, first[1], first[2]), [4]string{refused, refused, "1", "1 4 5 6"}},
		{"bad checksum in the newest log", flip(1, last[1]+100), [4]string{refused, refused, "1 2 3 4", "1 2 3 4 6"}},
		{"bad checksum in the earlier log", flip(0, first[1]+100), [4]string{refused, refused, "1", "1 3 4 5 6"}},
		// Two of these are not to be told from a clean end without the record in the next log that says what came before.
		{"earlier log lost its tail in a record", cut(0, first[3]-100), [4]string{refused, refused, "1 2", "1 2 4 5 6"}},
		{"earlier log lost its tail at an edge", cut(0, first[2]), [4]string{refused, refused, "1 2", "1 2 4 5 6"}},
		{"earlier log is empty", cut(0, 0), [4]string{refused, refused, "", "4 5 6"}},
		{"earlier log is missing", remove(0), [4]string{refused, refused, "", "4 5 6"}},
		// Nothing is left that could tell.
		{"newest log is missing", remove(1), [4]string{"1 2 3", "1 2 3", "1 2 3", "1 2 3"}},
		{"newest log lost its tail at an edge", cut(1, last[2]), [4]string{"1 2 3 4 5", "1 2 3 4 5", "1 2 3 4 5", "1 2 3 4 5"}},
	} {
		for i, mode := range modes {
			t.Run(fmt.Sprintf("%s/%v", c.name, mode), func(t *testing.T) {
				m := base.Clone()
				c.damage(m)
				o := memOptions(m)
				o.WALRecoveryMode = mode
				before := dataFiles(t, m)
				db, err := Open("db", o)
				if c.want[i] == refused {
					require.ErrorIs(t, err, ErrCorruption)
					require.ErrorContains(t, err, ".log")
					require.Equal(t, before, dataFiles(t, m), "a refused Open changes nothing")
					return
				}
				require.NoError(t, err)
				other, _ := db.ColumnFamily("other")
				require.Equal(t, c.want[i], keysOf(t, db.family))
				require.Equal(t, c.want[i], keysOf(t, other), "both families are of one time")
				checkClean(t, db)
				// What is written now is kept, and the damage is gone for good, also if the next Open comes after a crash.
				mustPut(t, other, "new", "", Sync)
				want := strings.TrimSpace(c.want[i] + " new")
				for _, m := range []*vfs.Mem{m.Crash(nil), m.Clone(), m} {
					if m == o.FS {
						require.NoError(t, db.Close())
					}
					o := memOptions(m)
					o.WALRecoveryMode = AbsoluteConsistency
					db, err := Open("db", o)
					require.NoError(t, err)
					other, _ := db.ColumnFamily("other")
					require.Equal(t, c.want[i], keysOf(t, db.family))
					require.Equal(t, want, keysOf(t, other))
					require.NoError(t, db.Close())
				}
			})
		}
	}
}

// dataFiles returns the files of "db" with their contents, without LOG and LOCK.
func dataFiles(t testing.TB, m vfs.FS) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range must(m.List("db")) {
		if kind, _, _ := fname.Parse(name); kind != fname.InfoLog && kind != fname.OldInfoLog && kind != fname.Lock {
			files[name] = string(must(vfs.ReadFile(m, "db/"+name)))
		}
	}
	return files
}

// oldFilesKept returns a database of which nothing was ever deleted, its manifest's path and the ends of its records.
// Each of n flushes added a table with one key. After them, if compacted, all tables were merged into one.
func oldFilesKept(t *testing.T, n int, compacted, remove bool) (m *vfs.Mem, manifest string, ends []int) {
	t.Helper()
	m = vfs.NewMem()
	fsys := faultfs.Wrap(m)
	if !remove {
		require.NoError(t, fsys.Add("fail remove *"))
	}
	o := memOptions(fsys)
	o.DisableAutoCompactions = true
	db, err := Open("db", o)
	require.NoError(t, err)
	for i := range n {
		mustPut(t, db.family, fmt.Sprintf("%03d", i), strings.Repeat("long key ", 10), Sync)
		require.NoError(t, db.Flush(context.Background(), nil))
	}
	if compacted {
		require.NoError(t, db.CompactRange(context.Background(), nil, nil, nil))
	}
	atRest(db)
	manifest = db.path(fname.Manifest, db.versions.ManifestNumber())
	require.NoError(t, db.Close())
	b := must(vfs.ReadFile(m, manifest))
	r := wal.NewReader(strings.NewReader(string(b)), int64(len(b)), manifest, 0)
	for {
		if _, _, err := r.Next(); err != nil {
			break
		}
		ends = append(ends, int(r.End()))
	}
	return m, manifest, ends
}

func TestATornManifestOpensAtItsLastWholeEdit(t *testing.T) {
	base, manifest, ends := oldFilesKept(t, 3, false, false)
	for _, at := range []int{ends[len(ends)-1] - 1, ends[len(ends)-2] + 1, ends[len(ends)-2] + 8, ends[len(ends)-2]} {
		m := base.Clone()
		damage(t, m, manifest, func(b []byte) []byte { return b[:at] })
		db := openMem(t, m)
		// The last flush did not happen, and the log that it made superfluous is still there.
		require.Equal(t, "000 001 002", keysOf(t, db.family))
		checkClean(t, db)
		require.NoError(t, db.Close())
	}
}

// LevelDB's issue 160 (bug bank 95).
func TestBugBank095AManifestCutAt4096(t *testing.T) {
	base, manifest, ends := oldFilesKept(t, 60, false, false)
	require.Greater(t, ends[len(ends)-1], 4096)
	require.NotContains(t, ends, 4096)
	damage(t, base, manifest, func(b []byte) []byte { return b[:4096] })
	db := openMem(t, base)
	require.Len(t, must(contentOf(db.family)), 60, "all files are there, those of the lost edits as logs")
	checkClean(t, db)
	require.NoError(t, db.Close())

	// With the tables of the last whole edit gone, the answer is which.
	base, manifest, _ = oldFilesKept(t, 60, true, true)
	damage(t, base, manifest, func(b []byte) []byte { return b[:4096] })
	before := dataFiles(t, base)
	_, err := Open("db", memOptions(base))
	require.Error(t, err)
	require.ErrorContains(t, err, ".sst")
	require.Equal(t, before, dataFiles(t, base))
}

func TestADamagedManifestIsRefusedAndNamed(t *testing.T) {
	base, manifest, ends := oldFilesKept(t, 3, false, true)
	for _, at := range []int{0, 30, ends[0] + 2, ends[1] + 20} {
		m := base.Clone()
		damage(t, m, manifest, func(b []byte) []byte { b[at] ^= 0x10; return b })
		before := dataFiles(t, m)
		_, err := Open("db", memOptions(m))
		require.ErrorIs(t, err, ErrCorruption, "byte %d", at)
		where, ok := errors.AsType[*CorruptionError](err)
		require.True(t, ok)
		require.Equal(t, manifest, where.File)
		require.GreaterOrEqual(t, where.Offset, int64(0))
		require.Equal(t, before, dataFiles(t, m), "a refused Open changes nothing")
	}
}

func TestWhatCurrentMayNotBe(t *testing.T) {
	base, manifest, _ := oldFilesKept(t, 2, false, true)
	for name, change := range map[string]func(m *vfs.Mem){
		"empty":      func(m *vfs.Mem) { damage(t, m, "db/CURRENT", func([]byte) []byte { return nil }) },
		"cut":        func(m *vfs.Mem) { damage(t, m, "db/CURRENT", func(b []byte) []byte { return b[:5] }) },
		"no newline": func(m *vfs.Mem) { damage(t, m, "db/CURRENT", func(b []byte) []byte { return b[:len(b)-1] }) },
		"zeros":      func(m *vfs.Mem) { damage(t, m, "db/CURRENT", func(b []byte) []byte { clear(b); return b }) },
		"something else": func(m *vfs.Mem) {
			damage(t, m, "db/CURRENT", func([]byte) []byte { return []byte("../MANIFEST-000001\n") })
		},
		"missing": func(m *vfs.Mem) { require.NoError(t, m.Remove("db/CURRENT")) },
	} {
		t.Run(name, func(t *testing.T) {
			m := base.Clone()
			change(m)
			before := dataFiles(t, m)
			_, err := Open("db", memOptions(m))
			require.ErrorIs(t, err, ErrCorruption)
			require.ErrorContains(t, err, "CURRENT")
			require.Equal(t, before, dataFiles(t, m))
		})
	}
	t.Run("manifest missing", func(t *testing.T) {
		m := base.Clone()
		require.NoError(t, m.Remove(manifest))
		_, err := Open("db", memOptions(m))
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, manifest)
	})
}

// A table that is missing, or has another size than the manifest says, is an error of Open that says so, whether tables
// stay open or not. Of size 0 is what LevelDB's issue 333 left after power cuts (bug bank 98); here the order of fsyncs
// rules that out, as the crash tests show.
func TestBugBank098TablesThatAreMissingOrOfAnotherSize(t *testing.T) {
	base, _, _ := oldFilesKept(t, 2, false, true)
	table := "db/" + fname.Make(fname.Table, namesOf(t, base, fname.Table)[1])
	size := len(must(vfs.ReadFile(base, table)))
	for _, maxOpen := range []int{-1, 10} {
		for name, change := range map[string]func(m *vfs.Mem){
			"missing": func(m *vfs.Mem) { require.NoError(t, m.Remove(table)) },
			"empty":   func(m *vfs.Mem) { damage(t, m, table, func([]byte) []byte { return nil }) },
			"longer":  func(m *vfs.Mem) { damage(t, m, table, func(b []byte) []byte { return append(b, 0) }) },
			"shorter": func(m *vfs.Mem) { damage(t, m, table, func(b []byte) []byte { return b[:len(b)-1] }) },
		} {
			t.Run(fmt.Sprint(name, maxOpen), func(t *testing.T) {
				m := base.Clone()
				change(m)
				before := dataFiles(t, m)
				o := memOptions(m)
				o.MaxOpenFiles = maxOpen
				_, err := Open("db", o)
				require.ErrorContains(t, err, table)
				if name == "missing" {
					require.ErrorIs(t, err, fs.ErrNotExist)
				} else {
					require.ErrorIs(t, err, ErrCorruption)
					require.ErrorContains(t, err, fmt.Sprint(size))
				}
				require.Equal(t, before, dataFiles(t, m))
			})
		}
	}
}

// Only the keys of a damaged table are out of reach.
func TestOnlyTheKeysOfADamagedTableAreOutOfReach(t *testing.T) {
	m, _, _ := oldFilesKept(t, 2, false, true)
	table := "db/" + fname.Make(fname.Table, namesOf(t, m, fname.Table)[0])
	damage(t, m, table, func(b []byte) []byte { b[3] ^= 1; return b })
	o := memOptions(m)
	o.DisableAutoCompactions = true
	db, err := Open("db", o)
	require.NoError(t, err)
	_, err = db.Get([]byte("000"), nil)
	require.ErrorIs(t, err, ErrCorruption)
	require.ErrorContains(t, err, table)
	_, err = db.Get([]byte("001"), nil)
	require.NoError(t, err)
	found := 0
	for err := range db.Check(context.Background()) {
		require.ErrorIs(t, err, ErrCorruption)
		found++
	}
	require.Positive(t, found)
	require.ErrorIs(t, db.VerifyChecksum(context.Background()), ErrCorruption)
	require.NoError(t, db.Close())
}

// The modes are also about what a family's tables hold: where one is ahead of the place at which recovery stops, another
// one's part of the same batches would be lost. RocksDB refuses too ("SST ahead of WAL").
func TestPointInTimeRecoveryRefusesFamiliesOfDifferentTimes(t *testing.T) {
	m := vfs.NewMem()
	db := openMem(t, m)
	other, err := db.CreateColumnFamily("other", nil)
	require.NoError(t, err)
	for i := range 4 {
		b := db.NewBatch()
		require.NoError(t, b.Put(nil, fmt.Append(nil, i), nil))
		require.NoError(t, b.Put(other, fmt.Append(nil, i), nil))
		require.NoError(t, db.Write(b, nil))
	}
	log := db.path(fname.Log, db.wals.Current())
	require.NoError(t, db.Flush(context.Background(), nil, other))
	require.NoError(t, db.Close())
	damage(t, m, log, func(b []byte) []byte { return b[:len(b)-10] })
	before := dataFiles(t, m)
	_, err = Open("db", memOptions(m))
	require.ErrorIs(t, err, ErrCorruption)
	require.ErrorContains(t, err, log)
	require.ErrorContains(t, err, "other")
	require.Equal(t, before, dataFiles(t, m))
	o := memOptions(m)
	o.WALRecoveryMode = SkipAnyCorruptedRecords
	db, err = Open("db", o)
	require.NoError(t, err, "it takes what is there")
	require.NoError(t, db.Close())
}
