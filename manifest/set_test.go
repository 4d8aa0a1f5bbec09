package manifest

import (
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/kv"
)

func TestNewDatabaseComesBack(t *testing.T) {
	m := newDir(t)
	vs := create(t, m, Options{DBID: "an-id"})
	require.Equal(t, uint64(1), vs.ManifestNumber())
	require.Equal(t, "MANIFEST-000001\n", readFile(t, m, "db/CURRENT"))
	want := describe(vs)
	require.NoError(t, vs.Close())
	require.NoError(t, vs.Close())
	require.ErrorIs(t, vs.Apply(nil, nil), fs.ErrClosed)

	vs = reopen(t, m, Options{DBID: "another"})
	require.Equal(t, want, describe(vs))
	require.Equal(t, "an-id", vs.DBID())
	require.Equal(t, uint64(2), vs.NewFileNum())
	_, err := Create(m, "db", Options{})
	require.ErrorIs(t, err, fs.ErrExist)
}

func TestAppliedEditsComeBack(t *testing.T) {
	m := newDir(t)
	vs := create(t, m, Options{})
	require.NoError(t, vs.Apply([]*Edit{flushed(0, 4, "a", "m")}, nil))
	require.NoError(t, vs.Apply([]*Edit{{Family: vs.NewFamilyID(), AddFamily: "users", LogNumber: new(uint64(3))}}, nil))
	require.NoError(t, vs.Apply([]*Edit{flushed(0, 5, "a", "m"), flushed(1, 6, "b", "c")}, nil), "two families, one group")
	require.NoError(t, vs.Apply([]*Edit{{
		Delete: []DeletedFile{{0, 4}, {0, 5}}, Add: []AddedFile{{1, withEpoch(file(7, "a", "m"), 1)}},
		LastSeq: new(kv.Seq(1000)), MinLogToKeep: new(uint64(2)),
	}}, nil))
	want := describe(vs)
	require.Equal(t, uint64(5), vs.LogNumber(0))
	require.Equal(t, uint64(6), vs.LogNumber(1))
	require.Equal(t, uint64(fname.MaxNum), vs.LogNumber(2))
	require.Equal(t, uint64(5), vs.MinLogToKeep())
	require.Equal(t, kv.Seq(1000), vs.LastSeq())
	require.NoError(t, vs.Close())

	for range 3 {
		vs = reopen(t, m, Options{})
		require.Equal(t, want, describe(vs))
		require.Equal(t, uint64(2), vs.Families()[0].Version.Level(1)[0].Epoch+1)
		require.NoError(t, vs.Apply(nil, nil), "the first after Recover writes a new manifest")
		require.NoError(t, vs.Close())
	}
	require.Greater(t, vs.ManifestNumber(), uint64(7))
}

func TestNothingIsWrittenByRecover(t *testing.T) {
	m := newDir(t)
	require.NoError(t, create(t, m, Options{}).Close())
	tap := &tapFS{FS: m, tap: func(op string) error { return fmt.Errorf("%s in Recover", op) }}
	vs := reopen(t, tap, Options{})
	require.Equal(t, uint64(1), vs.ManifestNumber())
	require.Empty(t, vs.ObsoleteManifests())
}

func TestOrderOfSyncs(t *testing.T) {
	m := newDir(t)
	var ops []string
	tap := &tapFS{FS: m, tap: func(op string) error { ops = append(ops, op); return nil }}
	vs := create(t, tap, Options{})
	begin := []string{
		"create MANIFEST-000001", "write MANIFEST-000001", "sync MANIFEST-000001", "syncdir",
		"create 000001.dbtmp", "write 000001.dbtmp", "sync 000001.dbtmp", "rename 000001.dbtmp CURRENT", "syncdir",
	}
	require.Equal(t, begin, ops)
	require.Empty(t, vs.ObsoleteManifests())

	ops = nil
	require.NoError(t, vs.Apply([]*Edit{flushed(0, 4, "a", "b")}, nil))
	require.NoError(t, vs.Apply(nil, nil))
	require.Equal(t, []string{"write MANIFEST-000001", "sync MANIFEST-000001"}, ops)

	vs = reopen(t, tap, Options{})
	ops = nil
	require.NoError(t, vs.Apply([]*Edit{flushed(0, 9, "a", "b"), flushed(0, 10, "a", "b")}, nil))
	require.Equal(t, []string{
		"create MANIFEST-000011", "write MANIFEST-000011", "sync MANIFEST-000011", "syncdir",
		"create 000011.dbtmp", "write 000011.dbtmp", "sync 000011.dbtmp", "rename 000011.dbtmp CURRENT", "syncdir",
	}, ops)
	require.Equal(t, []uint64{1}, vs.ObsoleteManifests())
	require.Empty(t, vs.ObsoleteManifests())
	require.Equal(t, uint64(12), vs.NewFileNum(), "numbers of files in edits are taken")
}

func TestInstallSeesVersionsBeforeTheyAreCurrent(t *testing.T) {
	vs := create(t, newDir(t), Options{})
	require.NoError(t, vs.Apply([]*Edit{{Family: vs.NewFamilyID(), AddFamily: "users"}}, func(v []*Version) {
		require.Len(t, v, 1)
		require.Empty(t, v[0].DebugString())
		require.Nil(t, vs.Current(1))
	}))
	before := vs.Current(0)
	var kept *Version
	require.NoError(t, vs.Apply([]*Edit{flushed(0, 4, "a", "b"), {Family: 1, LogNumber: new(uint64(3))}, flushed(0, 5, "a", "b")}, func(v []*Version) {
		require.Len(t, v, 3)
		require.Same(t, v[0], v[2], "one version has both edits")
		require.Equal(t, []uint64{5, 4}, nums(v[0].Level(0)))
		require.Same(t, vs.Families()[1].Version, v[1], "nothing came or went")
		require.Same(t, before, vs.Families()[0].Version)
		kept = v[0]
		kept.Ref()
	}))
	require.Same(t, kept, vs.Families()[0].Version)
	kept.Unref()
	before.Unref()
	require.NoError(t, vs.Apply([]*Edit{{Family: 1, DropFamily: true}}, func(v []*Version) { require.Equal(t, []*Version{nil}, v) }))
	require.Nil(t, vs.Current(1))
}

func TestFileIsObsoleteWhenItsLastVersionDies(t *testing.T) {
	var gone []uint64
	m := newDir(t)
	vs := create(t, m, Options{OnObsolete: func(f *File) { gone = append(gone, f.Num) }})
	require.NoError(t, vs.Apply([]*Edit{flushed(0, 4, "a", "b")}, nil))
	reader := vs.Current(0)
	require.NoError(t, vs.Apply([]*Edit{{Delete: []DeletedFile{{0, 4}}, Add: []AddedFile{{1, file(4, "a", "b")}}}}, nil))
	moved := vs.Current(0)
	require.Same(t, reader.Level(0)[0], moved.Level(1)[0], "a moved file keeps its count")
	require.Equal(t, describe(vs), describe(reopen(t, m, Options{})), "and what is said of it")
	require.NoError(t, vs.Apply([]*Edit{{Delete: []DeletedFile{{1, 4}}, Add: []AddedFile{{1, file(5, "a", "b")}}}}, nil))
	require.Contains(t, vs.LiveFiles(), uint64(4))
	reader.Unref()
	require.Empty(t, gone)
	moved.Unref()
	require.Equal(t, []uint64{4}, gone)
	require.Equal(t, map[uint64]struct{}{5: {}}, vs.LiveFiles())

	require.NoError(t, vs.Apply([]*Edit{{Family: vs.NewFamilyID(), AddFamily: "users"}}, nil))
	require.NoError(t, vs.Apply([]*Edit{flushed(1, 6, "a", "b")}, nil))
	reader = vs.Current(1)
	require.NoError(t, vs.Apply([]*Edit{{Family: 1, DropFamily: true}}, nil))
	require.Equal(t, []uint64{4}, gone, "a dropped family's files stay for those who read them")
	reader.Unref()
	require.Equal(t, []uint64{4, 6}, gone)
	require.NoError(t, vs.Close())
	require.Equal(t, []uint64{4, 6}, gone, "Close makes nothing obsolete")
}

func TestEditsWithoutSenseAreRefusedBeforeTheyAreWritten(t *testing.T) {
	m := newDir(t)
	vs := create(t, m, Options{})
	require.NoError(t, vs.Apply([]*Edit{{Family: vs.NewFamilyID(), AddFamily: "users"}}, nil))
	require.NoError(t, vs.Apply([]*Edit{flushed(0, 4, "a", "m"), {Add: []AddedFile{{1, file(5, "a", "m")}}}}, nil))
	want, bytes := describe(vs), readFile(t, m, "db/MANIFEST-000001")
	add := func(level int, f *File) []AddedFile { return []AddedFile{{level, f}} }
	for text, edits := range map[string][]*Edit{
		"file 000009 is deleted from level 0 but is not there":  {{Delete: []DeletedFile{{0, 9}}}},
		"file 000004 is deleted from level 1 but is not there":  {{Delete: []DeletedFile{{1, 4}}}},
		"file 000004 is deleted from level 0 but is not there":  {{Delete: []DeletedFile{{0, 4}, {0, 4}}}},
		"file 000004 is deleted from level 63 but is not there": {{Delete: []DeletedFile{{63, 4}}}},
		"file 000004 is added to level 2 but is on level 0":     {{Add: add(2, file(4, "a", "b"))}},
		"file 000009 is added to level 2 but is on level 3":     {{Add: add(3, file(9, "a", "b"))}, {Add: add(2, file(9, "a", "b"))}},
		"files 000005[a#59,SET..m#50,SET] and 000009[m#99,":     {{Add: add(1, file(9, "m", "n"))}},
		"ends before it begins":                                 {{Add: add(0, file(9, "m", "a"))}},
		"there are 7 levels":                                    {{Add: add(7, file(9, "a", "b"))}},
		"file 000009 is on level -1":                            {{Add: add(-1, file(9, "a", "b"))}},
		"a file has number 0":                                   {{Add: add(0, file(0, "a", "b"))}},
		"is out of range":                                       {{LogNumber: new(uint64(1 << 62))}},
		"there is no family 7":                                  {flushed(7, 9, "a", "b")},
		"there is no family 3":                                  {flushed(0, 9, "a", "b"), flushed(3, 10, "a", "b")},
		`family "users" exists already, as number 1`:            {{Family: 2, AddFamily: "users"}},
		`family "default" exists already, as number 0`:          {{Family: 2, AddFamily: "default"}},
		"family id 1 has been used":                             {{Family: 1, AddFamily: "more"}},
		"family id 0 has been used":                             {{AddFamily: "more"}},
		"can be neither created nor dropped":                    {{DropFamily: true}},
		"family 9 is dropped but does not exist":                {{Family: 9, DropFamily: true}},
		"is created and dropped at once":                        {{Family: 2, AddFamily: "x", DropFamily: true}},
		"has files as well":                                     {{Family: 1, DropFamily: true, Add: add(0, file(9, "a", "b"))}},
		"comes alone":                                           {{Family: 2, AddFamily: "x"}, {Family: 2, LogNumber: new(uint64(3))}},
		"its comparer changes from":                             {{Comparer: kv.ReverseBytewise.Name}},
	} {
		require.ErrorContains(t, vs.Apply(edits, func([]*Version) { t.Error("installed") }), text)
		require.Equal(t, want, describe(vs), text)
	}
	require.Equal(t, bytes, readFile(t, m, "db/MANIFEST-000001"))
	require.ErrorIs(t, vs.Apply([]*Edit{flushed(7, 9, "a", "b")}, nil), ErrNoFamily)
	require.NoError(t, vs.Apply([]*Edit{flushed(0, 9, "a", "b")}, nil), "and the set goes on")
}

func TestFamilyIDsAreNeverUsedAgain(t *testing.T) {
	m := newDir(t)
	vs := create(t, m, Options{})
	for _, name := range []string{"a", "b"} {
		require.NoError(t, vs.Apply([]*Edit{{Family: vs.NewFamilyID(), AddFamily: name}}, nil))
	}
	require.NoError(t, vs.Apply([]*Edit{{Family: 2, DropFamily: true}}, nil))
	for range 2 {
		vs = reopen(t, m, Options{})
		require.NoError(t, vs.Apply(nil, nil), "the snapshot says it too")
	}
	require.Equal(t, uint32(3), vs.NewFamilyID())
	require.Len(t, vs.Families(), 2)
}

func TestFlushesAreNumberedInTheOrderOfApply(t *testing.T) {
	m := newDir(t)
	vs := create(t, m, Options{})
	// Equal sequence numbers: only the epoch tells which is newer.
	same := func(num uint64) *Edit {
		f := file(1, "a", "b")
		f.Num = num
		return &Edit{Add: []AddedFile{{0, f}}, LogNumber: new(uint64(1))}
	}
	for _, num := range []uint64{9, 5, 7} {
		require.NoError(t, vs.Apply([]*Edit{same(num)}, nil))
	}
	require.Equal(t, []uint64{7, 5, 9}, nums(vs.Families()[0].Version.Level(0)))
	vs = reopen(t, m, Options{})
	require.NoError(t, vs.Apply([]*Edit{{Delete: []DeletedFile{{0, 7}}}}, nil))
	require.NoError(t, vs.Apply([]*Edit{same(6)}, nil))
	require.Equal(t, []uint64{6, 5, 9}, nums(vs.Families()[0].Version.Level(0)))
	require.Equal(t, uint64(4), vs.Families()[0].Version.Level(0)[0].Epoch, "the epoch of a file that is gone is not given again")
}

func TestManifestIsReplacedWhenItHasGrown(t *testing.T) {
	m := newDir(t)
	vs := create(t, m, Options{MaxManifestSize: 2000})
	seen := []uint64{vs.ManifestNumber()}
	for i := range 200 {
		e := flushed(0, vs.NewFileNum(), "a", "b")
		if i > 0 {
			e.Delete = []DeletedFile{{0, vs.Families()[0].Version.Level(0)[0].Num}}
		}
		require.NoError(t, vs.Apply([]*Edit{e}, nil))
		if n := vs.ManifestNumber(); n != seen[len(seen)-1] {
			seen = append(seen, n)
		}
		require.Less(t, len(readFile(t, m, "db/"+fname.Make(fname.Manifest, vs.ManifestNumber()))), 2200)
	}
	require.Greater(t, len(seen), 3)
	require.Equal(t, seen[:len(seen)-1], vs.ObsoleteManifests())
	want := describe(vs)
	require.Equal(t, want, describe(reopen(t, m, Options{})))
}

func TestReadersNeverMeetADeadVersion(t *testing.T) {
	var mu sync.Mutex
	gone := make(map[uint64]bool)
	vs := create(t, newDir(t), Options{OnObsolete: func(f *File) {
		mu.Lock()
		defer mu.Unlock()
		if gone[f.Num] {
			t.Errorf("file %d is obsolete twice", f.Num)
		}
		gone[f.Num] = true
	}})
	require.NoError(t, vs.Apply([]*Edit{flushed(0, vs.NewFileNum(), "a", "b")}, nil))
	const rounds = 300
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			level := w + 1
			var last uint64
			for range rounds {
				e := &Edit{Add: []AddedFile{{level, withEpoch(file(vs.NewFileNum(), "a", "b"), 1)}}}
				if last != 0 {
					e.Delete = []DeletedFile{{level, last}}
				}
				last = e.Add[0].File.Num
				if err := vs.Apply([]*Edit{e}, nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			for range 10 * rounds {
				v := vs.Current(0)
				for _, f := range v.All() {
					mu.Lock()
					if gone[f.Num] {
						t.Errorf("file %d is gone while it is held", f.Num)
					}
					mu.Unlock()
				}
				v.Unref()
			}
		})
	}
	wg.Wait()
	live := vs.LiveFiles()
	require.Len(t, live, 3)
	require.Len(t, gone, 2*rounds-2)
	for num := range live {
		require.False(t, gone[num])
	}
	_, err := vs.state.Load().byNumber()
	require.NoError(t, err)
}

func TestReferencesOfTheDeadPanic(t *testing.T) {
	v := NewVersion(kv.Bytewise)
	v.Ref()
	v.Unref()
	v.Unref()
	require.False(t, v.tryRef())
	require.Panics(t, v.Ref)
	w := NewVersion(kv.Bytewise)
	w.Unref()
	require.Panics(t, w.Unref)
}

func TestFileNumbersGoUp(t *testing.T) {
	vs := create(t, newDir(t), Options{})
	var mu sync.Mutex
	var all []uint64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 100 {
				n := vs.NewFileNum()
				if i%10 == 0 {
					vs.MarkFileNumUsed(n + 5)
				}
				vs.MarkFileNumUsed(1)
				mu.Lock()
				all = append(all, n)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(all)
	require.Len(t, slices.Compact(all), 400)
	vs.MarkFileNumUsed(10_000)
	require.Equal(t, uint64(10_001), vs.NewFileNum())
}
