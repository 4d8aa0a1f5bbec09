package manifest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/vfs"
)

// stateWith is the state that e leads to from what m holds.
func stateWith(t *testing.T, m *vfs.Mem, e *Edit) string {
	vs := reopen(t, m.Clone(), Options{})
	require.NoError(t, vs.Apply([]*Edit{e}, nil))
	return describe(vs)
}

// Each call to the file system in an Apply fails once, before or after it did its work, with what follows failing as well
// or not. Nothing is lost, no number is used twice, and no file that may be needed is given up.
func TestNoFailureLosesAnything(t *testing.T) {
	errDisk := errors.New("disk is full")
	failures := 0
	for _, late := range []bool{false, true} {
		for _, reopened := range []bool{false, true} {
			for _, run := range []int{1, 1000} {
				for k := 0; ; k++ {
					m := newDir(t)
					vs := create(t, m, Options{})
					require.NoError(t, vs.Apply([]*Edit{flushed(0, 4, "a", "b")}, nil))
					var gone []uint64
					tap := &tapFS{FS: m, late: late, tap: func(string) error { return nil }}
					if reopened {
						vs = reopen(t, tap, Options{OnObsolete: func(f *File) { gone = append(gone, f.Num) }})
					} else {
						m = newDir(t)
						tap.FS = m
						vs = create(t, tap, Options{OnObsolete: func(f *File) { gone = append(gone, f.Num) }})
						require.NoError(t, vs.Apply([]*Edit{flushed(0, 4, "a", "b")}, nil))
					}
					for _, n := range []string{"4", "8", "9"} {
						writeFile(t, m, "db/00000"+n+".sst", "")
					}
					before := describe(vs)
					edit := flushed(0, 8, "c", "d")
					after := stateWith(t, m, flushed(0, 8, "c", "d"))

					calls := 0
					tap.tap = func(string) error {
						if calls++; calls > k && calls <= k+run {
							return errDisk
						}
						return nil
					}
					err := vs.Apply([]*Edit{edit}, nil)
					tap.tap = func(string) error { return nil }
					what := fmt.Sprintf("late %v, reopened %v, call %d, run of %d", late, reopened, k, run)
					if calls <= k {
						require.NoError(t, err, what)
						break // k is past the last call
					}
					failures++
					require.ErrorIs(t, err, errDisk, what)
					require.Equal(t, before, describe(vs), what)
					require.Zero(t, edit.Add[0].File.Epoch, what)
					require.Contains(t, vs.LiveFiles(), uint64(8), what)
					require.Empty(t, vs.ObsoleteManifests(), what)
					require.Empty(t, gone, what)
					for _, crashed := range []*vfs.Mem{m.Clone(), m.Crash(nil)} {
						if got := describe(reopen(t, crashed, Options{})); got != before {
							require.Equal(t, after, got, what)
						}
					}

					require.Greater(t, vs.NewFileNum(), uint64(8), what)
					require.NoError(t, vs.Apply([]*Edit{flushed(0, 9, "e", "f")}, nil), what)
					require.Equal(t, []uint64{8}, gone, what)
					require.Equal(t, map[uint64]struct{}{4: {}, 9: {}}, vs.LiveFiles(), what)
					for _, crashed := range []*vfs.Mem{m.Clone(), m.Crash(nil)} {
						require.Equal(t, describe(vs), describe(reopen(t, crashed, Options{})), what)
					}
					for _, num := range vs.ObsoleteManifests() {
						require.NotEqual(t, vs.ManifestNumber(), num, what)
						require.NoError(t, removeIfThere(m, "db/"+fname.Make(fname.Manifest, num)), what)
					}
					require.Equal(t, []string{fname.Make(fname.Manifest, vs.ManifestNumber())}, manifests(t, m), what)
				}
			}
		}
	}
	require.Greater(t, failures, 30)
}

func manifests(t *testing.T, m vfs.FS) []string {
	names, err := m.List("db")
	require.NoError(t, err)
	return slices.DeleteFunc(names, func(name string) bool {
		kind, _, _ := fname.Parse(name)
		return kind != fname.Manifest
	})
}

func TestFailedRenameKeepsBothManifests(t *testing.T) {
	m := newDir(t)
	create(t, m, Options{})
	tap := &tapFS{FS: m, late: true, tap: func(op string) error {
		if strings.HasPrefix(op, "rename") {
			return errors.New("no answer from the server")
		}
		return nil
	}}
	vs := reopen(t, tap, Options{})
	require.ErrorContains(t, vs.Apply([]*Edit{flushed(0, 4, "a", "b")}, nil), "no answer from the server")
	require.Equal(t, "MANIFEST-000005\n", readFile(t, m, "db/CURRENT"))
	require.ElementsMatch(t, []string{"MANIFEST-000001", "MANIFEST-000005"}, manifests(t, m))
	tap.late = false
	require.Error(t, vs.Apply([]*Edit{flushed(0, 6, "a", "b")}, nil))
	require.ElementsMatch(t, []string{"MANIFEST-000001", "MANIFEST-000005", "MANIFEST-000007"}, manifests(t, m))
	tap.tap = func(string) error { return nil }
	require.NoError(t, vs.Apply([]*Edit{flushed(0, 6, "a", "b")}, nil))
	require.ElementsMatch(t, []uint64{1, 5, 7}, vs.ObsoleteManifests())
}

func TestFileOfAFailedEditMayBeTriedAgain(t *testing.T) {
	m := newDir(t)
	create(t, m, Options{})
	fail := true
	var gone []uint64
	vs := reopen(t, &tapFS{FS: m, tap: func(string) error {
		if fail {
			return errors.New("disk is full")
		}
		return nil
	}}, Options{OnObsolete: func(f *File) { gone = append(gone, f.Num) }})
	e := flushed(0, 4, "a", "b")
	require.Error(t, vs.Apply([]*Edit{e}, nil))
	fail = false
	require.NoError(t, vs.Apply([]*Edit{e}, nil))
	require.Empty(t, gone)
	require.Equal(t, uint64(1), vs.Families()[0].Version.Level(0)[0].Epoch)
}

// story is a random series of edits on a file system that crashes at each sync. Tables are made before they are named
// and removed as soon as they are obsolete, so a manifest that remembers too little or too much is noticed.
type story struct {
	t      *testing.T
	m      *vfs.Mem
	rng    *rand.Rand
	vs     *VersionSet
	acked  string
	states map[string]bool // those that may be on disk now
	check  func(crashed *vfs.Mem)
}

func (s *story) open(m *vfs.Mem) {
	s.m = m
	s.states = map[string]bool{}
	s.vs = reopen(s.t, m, s.options())
	s.acked = describe(s.vs)
	s.states[s.acked] = true
	m.OnSync = func(vfs.Op) { s.check(m.Crash(s.rng)) }
}

func (s *story) options() Options {
	return Options{MaxManifestSize: 1500, OnObsolete: func(f *File) {
		require.NoError(s.t, s.m.Remove("db/"+fname.Make(fname.Table, f.Num)))
	}}
}

// step makes an edit and applies it.
func (s *story) step() {
	var edits []*Edit
	families := s.vs.Families()
	switch n := s.rng.IntN(12); {
	case n == 0:
		id := s.vs.NewFamilyID()
		edits = []*Edit{{Family: id, AddFamily: fmt.Sprint("family-", id)}}
	case n == 1 && len(families) > 1:
		edits = []*Edit{{Family: families[len(families)-1].ID, DropFamily: true}}
	default:
		for _, info := range families[:1+s.rng.IntN(len(families))] {
			edits = append(edits, s.filesFor(info))
		}
	}
	s.states = map[string]bool{s.acked: true, s.expect(edits): true}
	require.NoError(s.t, s.vs.Apply(edits, nil))
	s.acked = describe(s.vs)
	require.True(s.t, s.states[s.acked])
	s.states = map[string]bool{s.acked: true}
	for _, num := range s.vs.ObsoleteManifests() {
		require.NoError(s.t, s.m.Remove("db/"+fname.Make(fname.Manifest, num)))
	}
	s.check(s.m.Crash(s.rng))
}

// expect is the state after edits, found out in a world of its own.
func (s *story) expect(edits []*Edit) string {
	m := newDir(s.t)
	own := make([]*Edit, len(edits))
	for i, e := range edits {
		c := *e
		c.Add = nil
		for _, a := range e.Add {
			f := file(a.File.Num, string(a.File.Smallest.User), string(a.File.Largest.User))
			c.Add = append(c.Add, AddedFile{a.Level, withEpoch(f, a.File.Epoch)})
		}
		own[i] = &c
	}
	twin := newSet(m, "db", Options{})
	b := newBuilder(twin.o, nil)
	st := s.vs.state.Load()
	for _, e := range st.records(1) {
		require.NoError(s.t, b.apply(e))
	}
	start, err := b.finish()
	require.NoError(s.t, err)
	for id, f := range start.families {
		f.epoch = st.families[id].epoch
	}
	twin.begin(start)
	require.NoError(s.t, twin.Apply(own, nil))
	return describe(twin)
}

// filesFor is a flush, a compaction of everything into level 1, or a change of the log number.
func (s *story) filesFor(info FamilyInfo) *Edit {
	e := &Edit{Family: info.ID}
	switch n := s.rng.IntN(6); {
	case n == 0:
		e.LogNumber = new(info.LogNumber + 1)
	case n < 3 && info.Version.NumFiles() > 2:
		least := uint64(1 << 60)
		for level, f := range info.Version.All() {
			e.Delete = append(e.Delete, DeletedFile{level, f.Num})
			least = min(least, f.Epoch)
		}
		e.Add = []AddedFile{{1, withEpoch(s.table("a", "b"), least)}, {1, withEpoch(s.table("c", "d"), least)}}
	default:
		e.Add = []AddedFile{{0, s.table("a", "d")}}
	}
	return e
}

// table makes a file that survives a crash.
func (s *story) table(from, to string) *File {
	num := s.vs.NewFileNum()
	name := "db/" + fname.Make(fname.Table, num)
	_, err := s.m.Stat(name)
	require.Error(s.t, err, "number %d is used again", num)
	hook := s.m.OnSync
	s.m.OnSync = nil
	f, err := s.m.Create(name)
	require.NoError(s.t, err)
	require.NoError(s.t, f.Close())
	require.NoError(s.t, s.m.SyncDir("db"))
	s.m.OnSync = hook
	return file(num, from, to)
}

func TestCrashAtAnySyncLeavesAStateThatWasApplied(t *testing.T) {
	crashes, ahead := 0, 0
	for seed := range uint64(8) {
		s := &story{t: t, rng: rand.New(rand.NewPCG(seed, 1))}
		// Level 2 of the crash: the recovered one dies in its own first Apply.
		again := func(crashed *vfs.Mem) {
			want := s.recovered(crashed)
			second := reopen(t, crashed, Options{})
			crashed.OnSync = func(vfs.Op) {
				require.Equal(t, want, describe(reopen(t, crashed.Crash(s.rng), Options{})))
			}
			require.NoError(t, second.Apply(nil, nil))
			require.Equal(t, want, describe(reopen(t, crashed.Crash(nil), Options{})))
		}
		s.check = func(crashed *vfs.Mem) {
			crashes++
			if s.recovered(crashed) != s.acked {
				ahead++
			}
			if s.rng.IntN(8) == 0 {
				again(crashed)
			}
		}
		m := newDir(t)
		create(t, m, Options{})
		s.open(m)
		for range 40 {
			s.step()
			if s.rng.IntN(10) == 0 {
				// The machine dies and the story goes on from what is left, with the numbers that the directory shows.
				s.open(m.Crash(s.rng))
				m = s.m
				names, err := m.List("db")
				require.NoError(t, err)
				for _, name := range names {
					if _, num, ok := fname.Parse(name); ok {
						s.vs.MarkFileNumUsed(num)
					}
				}
			}
		}
	}
	require.Greater(t, crashes, 500)
	require.Greater(t, ahead, 10, "some crashes find the edit under way done")
}

// recovered opens what a crash left and returns its state, which is one of those that may be.
func (s *story) recovered(crashed *vfs.Mem) string {
	vs := reopen(s.t, crashed, Options{})
	got := describe(vs)
	if !s.states[got] {
		require.Contains(s.t, s.states, got)
	}
	for _, info := range vs.Families() {
		require.NoError(s.t, info.Version.Check(kv.Bytewise))
		for _, f := range info.Version.All() {
			_, err := crashed.Stat("db/" + fname.Make(fname.Table, f.Num))
			require.NoError(s.t, err, "a table in use is gone")
		}
	}
	return got
}
