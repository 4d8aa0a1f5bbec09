package vfs

import (
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// syncFile leaves out what fsync does for the file's times alone; the length is always made durable.
func syncFile(f *os.File) error {
	return control(f, "fdatasync", unix.Fdatasync)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// lockFile takes an open-file-description lock. Unlike a POSIX record lock, which belongs to the process, it keeps a
// second taker of this process out, and closing another descriptor of the file does not give it up. The two kinds
// conflict with each other, so RocksDB's tools, which take POSIX locks, stay out too.
func lockFile(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := setLock(f, unix.F_WRLCK); err != nil {
		f.Close()
		if err := bare(err); err == unix.EAGAIN || err == unix.EACCES {
			return nil, ErrLocked
		}
		return nil, err
	}
	return fileLock{f}, nil
}

type fileLock struct{ f *os.File }

// Close gives the lock up by name before it closes: a child process that has been forked but has not yet called exec
// shares the description, and would hold the lock for that moment.
func (l fileLock) Close() error {
	err := setLock(l.f, unix.F_UNLCK)
	if cerr := l.f.Close(); err == nil {
		err = cerr
	}
	return err
}

// setLock changes the lock on the whole file, without waiting.
func setLock(f *os.File, typ int16) error {
	return control(f, "lock", func(fd int) error {
		return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: typ, Whence: io.SeekStart})
	})
}

// control makes a system call on f's descriptor, which cannot be closed meanwhile, again for as long as a signal
// interrupts it.
func control(f *os.File, op string, call func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = c.Control(func(fd uintptr) {
		for {
			if callErr = call(int(fd)); callErr != unix.EINTR {
				return
			}
		}
	})
	if err != nil {
		err = fs.ErrClosed // the one reason that Control has for not calling
	} else {
		err = callErr
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: err}
	}
	return nil
}
