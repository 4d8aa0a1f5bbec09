package vfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Locks between processes. The test binary runs itself as the other process, with the lock's name and kind in lockHelper:
// it prints what came of taking the lock, and holds it until its standard input ends.
const lockHelper = "ASHLAR_TEST_LOCK"

func TestMain(m *testing.M) {
	if name := os.Getenv(lockHelper); name != "" {
		holdLock(name, os.Getenv(lockHelper+"_KIND"))
		return
	}
	os.Exit(m.Run())
}

func holdLock(name, kind string) {
	var err error
	if kind == "posix" {
		err = posixLock(name)
	} else {
		_, err = OS.Lock(name)
	}
	switch {
	case err == nil:
		fmt.Println("taken")
	case errors.Is(err, ErrLocked), errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
		fmt.Println("locked")
	default:
		fmt.Println(err)
	}
	io.Copy(io.Discard, os.Stdin)
}

// posixLock is what RocksDB's tools do with a LOCK file. The descriptor stays open.
func posixLock(name string) error {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	return unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart})
}

// process starts another process that tries to take the lock and returns what came of it and how to end it.
func process(t *testing.T, name, kind string) (said string, end func(kill bool)) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), lockHelper+"="+name, lockHelper+"_KIND="+kind)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return said[:len(said)-1], func(kill bool) {
		if kill {
			cmd.Process.Kill()
		}
		in.Close()
		cmd.Wait()
	}
}

func TestALockKeepsOtherProcessesOutOfEitherKind(t *testing.T) {
	for _, kind := range []string{"ours", "posix"} {
		t.Run(kind, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "LOCK")
			l, err := OS.Lock(name)
			require.NoError(t, err)
			said, end := process(t, name, kind)
			end(false)
			require.Equal(t, "locked", said)
			require.NoError(t, l.Close())

			said, end = process(t, name, kind)
			require.Equal(t, "taken", said)
			_, err = OS.Lock(name)
			require.ErrorIs(t, err, ErrLocked)
			end(true)
			l, err = OS.Lock(name)
			require.NoError(t, err, "a killed process gives its lock up")
			require.NoError(t, l.Close())
		})
	}
}

func TestARefusedLockLeaksNoDescriptor(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	l, err := OS.Lock(name)
	require.NoError(t, err)
	defer l.Close()
	before := openDescriptors(t)
	for range 20 {
		_, err := OS.Lock(name)
		require.ErrorIs(t, err, ErrLocked)
	}
	require.Equal(t, before, openDescriptors(t))
}

func openDescriptors(t *testing.T) int {
	names, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(names)
}

func TestFilesAreNotInherited(t *testing.T) {
	f, err := OS.Create(filepath.Join(t.TempDir(), "a"))
	require.NoError(t, err)
	defer f.Close()
	flags, err := unix.FcntlInt(f.(osFile).f.Fd(), unix.F_GETFD, 0)
	require.NoError(t, err)
	require.NotZero(t, flags&unix.FD_CLOEXEC)
}

func TestErrorsOfSyncAndLockCarryTheNameOnce(t *testing.T) {
	dir := t.TempDir()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	err = syncFile(w)
	require.ErrorIs(t, err, unix.EINVAL)
	require.EqualError(t, err, "fdatasync |1: invalid argument")
	_, err = OS.Lock(filepath.Join(dir, "no", "LOCK"))
	var pe *fs.PathError
	require.ErrorAs(t, err, &pe)
	require.EqualError(t, err, "lock "+filepath.Join(dir, "no", "LOCK")+": no such file or directory")
}
