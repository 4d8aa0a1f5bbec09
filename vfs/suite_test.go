package vfs

import (
	"io"
	"io/fs"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The suite: what any FS must do. Each test gets an empty directory of each file system.
func onEach(t *testing.T, test func(t *testing.T, fsys FS, dir string)) {
	t.Run("OS", func(t *testing.T) { test(t, OS, t.TempDir()) })
	t.Run("Mem", func(t *testing.T) {
		m := NewMem()
		require.NoError(t, m.MkdirAll("db"))
		test(t, m, "db")
	})
	t.Run("Mem after a crash", func(t *testing.T) {
		m := NewMem()
		require.NoError(t, m.MkdirAll("/a/db"))
		require.NoError(t, m.SyncDir("/"))
		require.NoError(t, m.SyncDir("/a"))
		test(t, m.Crash(nil), "/a/db")
	})
}

func write(t *testing.T, fsys FS, name, text string) {
	t.Helper()
	f, err := fsys.Create(name)
	require.NoError(t, err)
	n, err := f.Write([]byte(text))
	require.NoError(t, err)
	require.Equal(t, len(text), n)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

func read(t *testing.T, fsys FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	require.NoError(t, err)
	defer f.Close()
	return readAll(t, f)
}

func readAll(t *testing.T, f File) string {
	t.Helper()
	size, err := f.Size()
	require.NoError(t, err)
	b, err := io.ReadAll(io.NewSectionReader(f, 0, size))
	require.NoError(t, err)
	require.Len(t, b, int(size))
	return string(b)
}

func list(t *testing.T, fsys FS, dir string) []string {
	t.Helper()
	names, err := fsys.List(dir)
	require.NoError(t, err)
	slices.Sort(names)
	return names
}

func TestWriteAppendsAndReadAtReads(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		f, err := fsys.Create(fsys.Join(dir, "a"))
		require.NoError(t, err)
		for _, s := range []string{"hello", "", ", ", "world"} {
			_, err := f.Write([]byte(s))
			require.NoError(t, err)
		}
		require.Equal(t, "hello, world", readAll(t, f), "a created file can be read")
		require.NoError(t, f.Sync())
		require.NoError(t, f.Close())
		require.Equal(t, "hello, world", read(t, fsys, fsys.Join(dir, "a")))
	})
}

func TestReadAtStopsAtTheEndWithEOF(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		write(t, fsys, fsys.Join(dir, "a"), "0123456789")
		f, err := fsys.Open(fsys.Join(dir, "a"))
		require.NoError(t, err)
		defer f.Close()
		buf := make([]byte, 4)
		for _, c := range []struct {
			off  int64
			want string
			err  error
		}{{0, "0123", nil}, {6, "6789", nil}, {7, "789", io.EOF}, {10, "", io.EOF}, {11, "", io.EOF}} {
			n, err := f.ReadAt(buf, c.off)
			require.Equal(t, c.want, string(buf[:n]))
			require.Equal(t, c.err, err)
		}
		_, err = f.ReadAt(buf, -1)
		require.Error(t, err)
		n, err := f.ReadAt(nil, 3)
		require.Zero(t, n)
		require.NoError(t, err)
	})
}

func TestTruncateCutsExtendsAndMovesTheEnd(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		f, err := fsys.Create(fsys.Join(dir, "a"))
		require.NoError(t, err)
		defer f.Close()
		_, err = f.Write([]byte("abcdef"))
		require.NoError(t, err)
		require.NoError(t, f.Truncate(3))
		_, err = f.Write([]byte("X"))
		require.NoError(t, err)
		require.NoError(t, f.Truncate(6))
		_, err = f.Write([]byte("Y"))
		require.NoError(t, err)
		require.Equal(t, "abcX\x00\x00Y", readAll(t, f))
		require.Error(t, f.Truncate(-1))
	})
}

func TestCreateCutsDownAFileThatExists(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		name := fsys.Join(dir, "a")
		write(t, fsys, name, "long content")
		write(t, fsys, name, "new")
		require.Equal(t, "new", read(t, fsys, name))
	})
}

func TestAFileOpenedForReadingCannotBeChanged(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		write(t, fsys, fsys.Join(dir, "a"), "x")
		f, err := fsys.Open(fsys.Join(dir, "a"))
		require.NoError(t, err)
		defer f.Close()
		_, err = f.Write([]byte("y"))
		require.Error(t, err)
		require.Error(t, f.Truncate(0))
		require.Equal(t, "x", readAll(t, f))
	})
}

func TestRenameReplacesTheTarget(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		a, b := fsys.Join(dir, "a"), fsys.Join(dir, "b")
		write(t, fsys, a, "A")
		write(t, fsys, b, "B")
		old, err := fsys.Open(b)
		require.NoError(t, err)
		defer old.Close()
		require.NoError(t, fsys.Rename(a, b))
		require.NoError(t, fsys.Rename(b, b))
		require.Equal(t, "A", read(t, fsys, b))
		require.Equal(t, "B", readAll(t, old), "an open file outlives its name")
		require.Equal(t, []string{"b"}, list(t, fsys, dir))
	})
}

func TestRenameMovesADirectoryWithItsFiles(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		a, b := fsys.Join(dir, "a"), fsys.Join(dir, "b")
		require.NoError(t, fsys.MkdirAll(a))
		write(t, fsys, fsys.Join(a, "f"), "F")
		require.NoError(t, fsys.Rename(a, b))
		require.Equal(t, "F", read(t, fsys, fsys.Join(b, "f")))
		require.Error(t, fsys.Rename(b, fsys.Join(b, "inside")))
		write(t, fsys, a, "a file")
		require.Error(t, fsys.Rename(a, b), "a file does not replace a directory")
		require.Error(t, fsys.Rename(b, a), "nor a directory a file")
	})
}

func TestLinkIsASecondNameForOneFile(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		a, b := fsys.Join(dir, "a"), fsys.Join(dir, "b")
		f, err := fsys.Create(a)
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, fsys.Link(a, b))
		_, err = f.Write([]byte("both"))
		require.NoError(t, err)
		require.Equal(t, "both", read(t, fsys, b))
		require.ErrorIs(t, fsys.Link(a, b), fs.ErrExist)
		require.NoError(t, fsys.Rename(a, b), "renaming a file to its own other name does nothing")
		require.NoError(t, fsys.Remove(a))
		require.Equal(t, "both", read(t, fsys, b))
	})
}

func TestDirectoriesHoldNames(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		deep := fsys.Join(dir, "x", "y")
		require.NoError(t, fsys.MkdirAll(deep))
		require.NoError(t, fsys.MkdirAll(deep))
		require.Equal(t, fsys.Join(dir, "x"), fsys.Dir(deep))
		write(t, fsys, fsys.Join(deep, "f"), "f")
		require.NoError(t, fsys.SyncDir(deep))
		require.Equal(t, []string{"x"}, list(t, fsys, dir))
		require.Equal(t, []string{"f"}, list(t, fsys, deep))
		require.Error(t, fsys.Remove(deep), "it is not empty")
		require.Error(t, fsys.MkdirAll(fsys.Join(deep, "f")), "a file is in the way")
		require.NoError(t, fsys.Remove(fsys.Join(deep, "f")))
		require.NoError(t, fsys.Remove(deep))
		require.Empty(t, list(t, fsys, fsys.Join(dir, "x")))
	})
}

func TestStatDescribes(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		name := fsys.Join(dir, "a")
		write(t, fsys, name, "12345")
		fi, err := fsys.Stat(name)
		require.NoError(t, err)
		require.Equal(t, "a", fi.Name())
		require.Equal(t, int64(5), fi.Size())
		require.False(t, fi.IsDir())
		require.True(t, fi.Mode().IsRegular())
		require.False(t, fi.ModTime().IsZero())
		fi, err = fsys.Stat(dir)
		require.NoError(t, err)
		require.True(t, fi.IsDir())
		require.True(t, fi.Mode().IsDir())
	})
}

func TestErrorsNameTheFileAndItsTrouble(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		gone := fsys.Join(dir, "gone")
		_, open := fsys.Open(gone)
		_, create := fsys.Create(fsys.Join(gone, "f"))
		_, stat := fsys.Stat(gone)
		_, names := fsys.List(gone)
		_, lock := fsys.Lock(fsys.Join(gone, "f"))
		for what, err := range map[string]error{
			"open": open, "create": create, "stat": stat, "list": names, "lock": lock,
			"remove": fsys.Remove(gone), "rename": fsys.Rename(gone, gone+"2"), "link": fsys.Link(gone, gone+"2"),
			"syncdir": fsys.SyncDir(gone),
		} {
			require.ErrorIs(t, err, fs.ErrNotExist, what)
			require.ErrorContains(t, err, gone, what)
		}
		require.Empty(t, list(t, fsys, dir))
	})
}

func TestAClosedFileRefusesEverything(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		f, err := fsys.Create(fsys.Join(dir, "a"))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		_, w := f.Write([]byte("x"))
		_, r := f.ReadAt(make([]byte, 1), 0)
		_, s := f.Size()
		for what, err := range map[string]error{"write": w, "read": r, "size": s, "sync": f.Sync(), "truncate": f.Truncate(0), "close": f.Close()} {
			require.ErrorIs(t, err, fs.ErrClosed, what)
		}
	})
}

func TestALockKeepsASecondTakerOut(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		name := fsys.Join(dir, "LOCK")
		l, err := fsys.Lock(name)
		require.NoError(t, err)
		_, err = fsys.Lock(name)
		require.ErrorIs(t, err, ErrLocked)
		require.ErrorContains(t, err, name)
		other, err := fsys.Lock(fsys.Join(dir, "LOCK2"))
		require.NoError(t, err)
		require.NoError(t, other.Close())

		f, err := fsys.Open(name)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		_, err = fsys.Lock(name)
		require.ErrorIs(t, err, ErrLocked, "closing another descriptor gives nothing up")

		require.NoError(t, l.Close())
		l, err = fsys.Lock(name)
		require.NoError(t, err)
		require.NoError(t, l.Close())
		require.Equal(t, []string{"LOCK", "LOCK2"}, list(t, fsys, dir))
	})
}

func TestManyGoroutinesMayUseOneFileSystem(t *testing.T) {
	onEach(t, func(t *testing.T, fsys FS, dir string) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				name := fsys.Join(dir, string(rune('a'+i)))
				f, err := fsys.Create(name + ".tmp")
				if err != nil {
					panic(err)
				}
				for range 50 {
					f.Write([]byte("0123456789"))
					f.ReadAt(make([]byte, 5), 3)
				}
				f.Sync()
				f.Close()
				fsys.Rename(name+".tmp", name)
				fsys.SyncDir(dir)
				fsys.List(dir)
			})
		}
		wg.Wait()
		require.Equal(t, []string{"a", "b", "c", "d", "e", "f", "g", "h"}, list(t, fsys, dir))
		for _, n := range list(t, fsys, dir) {
			require.Len(t, read(t, fsys, fsys.Join(dir, n)), 500)
		}
	})
}
