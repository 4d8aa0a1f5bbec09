package manifest

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/wal"
)

// tapFS tells tap of every call that changes something, and fails the call, undone, with what tap returns.
type tapFS struct {
	vfs.FS
	tap func(op string) error
	// late makes the call fail after it was done.
	late bool
}

func (t *tapFS) do(op string, call func() error) error {
	err := t.tap(op)
	if err != nil && !t.late {
		return err
	}
	if e := call(); e != nil {
		return e
	}
	return err
}

func (t *tapFS) Create(name string) (f vfs.File, err error) {
	err = t.do("create "+path.Base(name), func() error {
		f, err = t.FS.Create(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &tapFile{f, t, path.Base(name)}, nil
}

func (t *tapFS) Rename(from, to string) error {
	return t.do("rename "+path.Base(from)+" "+path.Base(to), func() error { return t.FS.Rename(from, to) })
}

func (t *tapFS) Remove(name string) error {
	return t.do("remove "+path.Base(name), func() error { return t.FS.Remove(name) })
}

func (t *tapFS) SyncDir(dir string) error {
	return t.do("syncdir", func() error { return t.FS.SyncDir(dir) })
}

type tapFile struct {
	vfs.File
	t    *tapFS
	name string
}

func (f *tapFile) Write(p []byte) (n int, err error) {
	err = f.t.do("write "+f.name, func() error {
		n, err = f.File.Write(p)
		return err
	})
	return n, err
}

func (f *tapFile) Sync() error { return f.t.do("sync "+f.name, f.File.Sync) }

// newDir is an empty file system with the directory "db", which survives a crash.
func newDir(t testing.TB) *vfs.Mem {
	m := vfs.NewMem()
	require.NoError(t, m.MkdirAll("db"))
	require.NoError(t, m.SyncDir("/"))
	return m
}

func create(t testing.TB, fsys vfs.FS, o Options) *VersionSet {
	vs, err := Create(fsys, "db", o)
	require.NoError(t, err)
	return vs
}

func reopen(t testing.TB, fsys vfs.FS, o Options) *VersionSet {
	vs, err := Recover(fsys, "db", o)
	require.NoError(t, err)
	return vs
}

// describe is all of a set that must survive, as text.
func describe(vs *VersionSet) string {
	var b strings.Builder
	s := vs.state.Load()
	fmt.Fprintf(&b, "last %d, keep %d, families up to %d, id %q\n", s.lastSeq, s.minLog, s.maxFamily, s.dbid)
	for _, f := range vs.Families() {
		fmt.Fprintf(&b, "%d %s (%s) log %d\n", f.ID, f.Name, f.Comparer, f.LogNumber)
		for level, file := range f.Version.All() {
			fmt.Fprintf(&b, "%s", file.append(nil, level))
		}
		b.WriteString(f.Version.DebugString())
	}
	return b.String()
}

// flushed is an edit that adds file num to level 0 of a family, from a log before it.
func flushed(family uint32, num uint64, from, to string) *Edit {
	return &Edit{Family: family, Add: []AddedFile{{0, file(num, from, to)}}, LogNumber: new(num)}
}

// writeManifest makes a database whose manifest has the edits as they are, and then tail.
func writeManifest(t testing.TB, m vfs.FS, tail []byte, edits ...*Edit) {
	f, err := m.Create("db/MANIFEST-000001")
	require.NoError(t, err)
	w := wal.NewWriter(f)
	for _, e := range edits {
		require.NoError(t, w.Append(e.Append(nil)))
	}
	require.NoError(t, w.Sync())
	_, err = f.Write(tail)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, w.Close())
	writeFile(t, m, "db/CURRENT", "MANIFEST-000001\n")
}

func writeFile(t testing.TB, m vfs.FS, name, text string) {
	f, err := m.Create(name)
	require.NoError(t, err)
	_, err = f.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func readFile(t testing.TB, m vfs.FS, name string) string {
	f, err := m.Open(name)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	b := make([]byte, size)
	if size > 0 {
		_, err = f.ReadAt(b, 0)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	return string(b)
}

// base is the least that a manifest must say.
func base() *Edit {
	return &Edit{LogNumber: new(uint64(0)), NextFile: new(uint64(2)), LastSeq: new(kv.Seq(0))}
}

// writeRecords makes a manifest of b: a byte for the length of a record, then the record, and so on.
func writeRecords(t testing.TB, m vfs.FS, b []byte) {
	f, err := m.Create("db/MANIFEST-000001")
	require.NoError(t, err)
	w := wal.NewWriter(f)
	for len(b) > 0 {
		n := min(int(b[0]), len(b)-1)
		require.NoError(t, w.Append(b[1:1+n]))
		b = b[1+n:]
	}
	require.NoError(t, w.Close())
}
