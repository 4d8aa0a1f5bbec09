package vfs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The dumb twin of Mem's crashes. It knows of each name which files it has stood for since its directory was synced, and
// of each file's bytes what they were when it was synced and what they are; it has no idea how changes hang together.
type twin struct {
	files map[string]*twinFile          // by name, now
	since map[string]map[*twinFile]bool // what each name has stood for since SyncDir; a nil file is no file
}

type twinFile struct {
	now, synced []byte
	floor       int // now and synced are equal below
}

var twinDirs = []string{"d", "e"}

func twinNames(dir string) []string { return []string{dir + "/a", dir + "/b", dir + "/c"} }

func newTwin() *twin {
	w := &twin{files: map[string]*twinFile{}, since: map[string]map[*twinFile]bool{}}
	for _, d := range twinDirs {
		w.syncDir(d)
	}
	return w
}

func (w *twin) set(name string, f *twinFile) {
	if f == nil {
		delete(w.files, name)
	} else {
		w.files[name] = f
	}
	w.since[name][f] = true
}

func (w *twin) syncDir(dir string) {
	for _, n := range twinNames(dir) {
		w.since[n] = map[*twinFile]bool{w.files[n]: true}
	}
}

// check fails if left cannot be what a crash left.
func (w *twin) check(t *testing.T, left *Mem, strict bool) {
	t.Helper()
	for name, may := range w.since {
		f, err := left.Open(name)
		if err != nil {
			require.True(t, may[nil], "%s is lost", name)
			continue
		}
		got := []byte(readAll(t, f))
		legal := false
		for file := range may {
			legal = legal || file != nil && file.legal(got, strict)
		}
		require.True(t, legal, "%s holds %x", name, got)
	}
}

func (f *twinFile) legal(got []byte, strict bool) bool {
	if string(got) == string(f.synced) {
		return true
	}
	if strict || len(got) > len(f.now) || len(got) < f.floor || string(got[:f.floor]) != string(f.synced[:f.floor]) {
		return false
	}
	for i := f.floor; i < len(got); i++ {
		if got[i] != f.now[i] && got[i] != 0 {
			return false
		}
	}
	return true
}

// dump is all that a file system holds.
func dump(t *testing.T, m *Mem) map[string]string {
	all := map[string]string{}
	for _, d := range twinDirs {
		for _, n := range list(t, m, d) {
			all[d+"/"+n] = read(t, m, d+"/"+n)
		}
	}
	return all
}

// FuzzMemCrash does to a Mem and its twin what the input says, two bytes an operation, and crashes now and then. What is
// left must be legal, and must not change when the first or another crash's file system is written to.
func FuzzMemCrash(f *testing.F) {
	f.Add([]byte{0, 0, 1, 200, 2, 0, 7, 0, 1, 99, 8, 0, 9, 1})          // create, append, sync, syncdir, append, crash
	f.Add([]byte{0, 0, 2, 0, 7, 0, 0, 1, 1, 9, 2, 1, 4, 1, 9, 3, 8, 0}) // rename over a synced file
	f.Add([]byte{0, 0, 1, 255, 2, 0, 7, 0, 3, 9, 9, 1, 1, 7, 9, 2, 8, 0, 5, 0, 6, 0, 9, 4, 7, 0, 8, 1})
	f.Fuzz(func(t *testing.T, ops []byte) {
		m, w := NewMem(), newTwin()
		for _, d := range twinDirs {
			require.NoError(t, m.MkdirAll(d))
		}
		require.NoError(t, m.SyncDir("/"))
		names := append(twinNames("d"), twinNames("e")...)
		handles := map[*twinFile]File{}
		fill := byte(0)
		var lefts []*Mem
		var dumps []map[string]string
		keep := func(left *Mem) { lefts, dumps = append(lefts, left), append(dumps, dump(t, left)) }
		for ; len(ops) >= 2 && len(lefts) < 20; ops = ops[2:] {
			arg := int(ops[1])
			name := names[arg%len(names)]
			other := names[arg/len(names)%len(names)]
			file := w.files[name]
			switch op := ops[0] % 10; op {
			case 0:
				h, err := m.Create(name)
				require.NoError(t, err)
				if file == nil {
					file = &twinFile{}
					w.set(name, file)
				}
				file.now, file.floor = nil, 0
				handles[file] = h
			case 1:
				if file == nil {
					continue
				}
				fill = fill%250 + 1
				b := make([]byte, arg*17)
				for i := range b {
					b[i] = fill
				}
				_, err := handles[file].Write(b)
				require.NoError(t, err)
				file.now = append(file.now[:len(file.now):len(file.now)], b...)
			case 2:
				if file == nil {
					continue
				}
				require.NoError(t, handles[file].Sync())
				file.synced, file.floor = file.now, len(file.now)
			case 3:
				if file == nil {
					continue
				}
				size := arg * 13
				require.NoError(t, handles[file].Truncate(int64(size)))
				file.floor = min(file.floor, size)
				if file.now = append([]byte{}, file.now...); size <= len(file.now) {
					file.now = file.now[:size]
				} else {
					file.now = append(file.now, make([]byte, size-len(file.now))...)
				}
			case 4:
				err := m.Rename(name, other)
				require.Equal(t, file != nil, err == nil)
				if file != nil && file != w.files[other] {
					w.set(other, file)
					w.set(name, nil)
				}
			case 5:
				require.Equal(t, file != nil, m.Remove(name) == nil)
				if file != nil {
					w.set(name, nil)
				}
			case 6:
				ok := file != nil && w.files[other] == nil
				require.Equal(t, ok, m.Link(name, other) == nil)
				if ok {
					w.set(other, file)
				}
			case 7:
				dir := twinDirs[arg%2]
				require.NoError(t, m.SyncDir(dir))
				w.syncDir(dir)
			case 8:
				left := m.Crash(nil)
				w.check(t, left, true)
				keep(left)
				if arg%2 == 1 {
					m.Mapped = func(string) bool { return true }
				}
			case 9:
				from := m
				if arg%2 == 1 {
					from = m.Clone()
				}
				left := from.Crash(rand.New(rand.NewPCG(uint64(arg), 0)))
				w.check(t, left, false)
				keep(left)
				scribble(t, left.Clone())
			}
		}
		now := map[string]string{}
		for name, file := range w.files {
			now[name] = string(file.now)
		}
		require.Equal(t, now, dump(t, m))
		for i, left := range lefts {
			require.True(t, maps.Equal(dumps[i], dump(t, left)), fmt.Sprint("crash ", i, " changed later"))
		}
	})
}

// scribble changes all that it can.
func scribble(t *testing.T, m *Mem) {
	for _, d := range twinDirs {
		for i, n := range list(t, m, d) {
			f, err := m.Create(d + "/" + n)
			require.NoError(t, err)
			_, err = f.Write(make([]byte, 5000))
			require.NoError(t, err)
			if i == 0 {
				require.NoError(t, m.Remove(d+"/"+n))
			}
		}
	}
}
