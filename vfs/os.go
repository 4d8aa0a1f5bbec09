package vfs

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// OS is the operating system's file system. Files are made with mode 0644 and directories with 0755, less the umask, and
// are not inherited by child processes.
var OS FS = osFS{}

// osFS keeps one rule: what it adds to package os is durability (syncFile, syncDir) and locks (lockFile), each in the
// file of its system; all else is package os itself.
type osFS struct{}

func (osFS) Create(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Open(name string) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Remove(name string) error              { return os.Remove(name) }
func (osFS) Rename(oldname, newname string) error  { return os.Rename(oldname, newname) }
func (osFS) Link(oldname, newname string) error    { return os.Link(oldname, newname) }
func (osFS) MkdirAll(dir string) error             { return os.MkdirAll(dir, 0o755) }
func (osFS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }
func (osFS) SyncDir(dir string) error              { return syncDir(dir) }
func (osFS) Join(elem ...string) string            { return filepath.Join(elem...) }
func (osFS) Dir(name string) string                { return filepath.Dir(name) }

func (osFS) List(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// Lock keeps the lock's file open for as long as the lock is held, so no path may lose the descriptor.
func (osFS) Lock(name string) (io.Closer, error) {
	l, err := lockFile(name)
	if err != nil {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: bare(err)}
	}
	return l, nil
}

// bare takes the name off an error of package os, for one that will get it again.
func bare(err error) error {
	if e, ok := err.(*fs.PathError); ok {
		return e.Err
	}
	return err
}

// osFile is an os.File that writes at its end and syncs as its system does best.
type osFile struct{ f *os.File }

func (o osFile) ReadAt(p []byte, off int64) (int, error) { return o.f.ReadAt(p, off) }
func (o osFile) Close() error                            { return o.f.Close() }
func (o osFile) Sync() error                             { return syncFile(o.f) }

// Write is one write(2), and another only for the rest of a short one.
func (o osFile) Write(p []byte) (int, error) { return o.f.Write(p) }

func (o osFile) Size() (int64, error) {
	fi, err := o.f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

func (o osFile) Truncate(size int64) error {
	if err := o.f.Truncate(size); err != nil {
		return err
	}
	_, err := o.f.Seek(size, io.SeekStart)
	return err
}
