package vfs

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
	"time"
)

// memFile is an open file of a Mem. It outlives the file's name, as descriptors do.
type memFile struct {
	m        *Mem
	n        *node
	name     string
	writable bool
	closed   bool // protected by m.mu
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	if err := f.usable("read", false); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("read", f.name, errors.New("negative offset"))
	}
	if len(p) == 0 {
		return 0, nil
	}
	n := 0
	if off < int64(len(f.n.data)) {
		n = copy(p, f.n.data[off:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Write(p []byte) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable("write", true); err != nil {
		return 0, err
	}
	f.n.data = append(f.n.data, p...)
	f.n.modified = time.Now()
	return len(p), nil
}

func (f *memFile) Sync() error {
	if f.m.OnSync != nil {
		f.m.OnSync(Op{Name: f.name})
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable("sync", false); err != nil {
		return err
	}
	f.n.settle(f.n.data)
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	if err := f.usable("stat", false); err != nil {
		return 0, err
	}
	return int64(len(f.n.data)), nil
}

func (f *memFile) Truncate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable("truncate", true); err != nil {
		return err
	}
	switch n := f.n; {
	case size < 0:
		return pathError("truncate", f.name, syscall.EINVAL)
	case size <= int64(len(n.data)):
		n.cut(int(size))
	default:
		n.data = append(n.data, make([]byte, size-int64(len(n.data)))...)
		n.modified = time.Now()
	}
	return nil
}

func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable("close", false); err != nil {
		return err
	}
	f.closed = true
	return nil
}

func (f *memFile) usable(op string, forWriting bool) error {
	switch {
	case f.closed:
		return pathError(op, f.name, fs.ErrClosed)
	case forWriting && !f.writable:
		return pathError(op, f.name, syscall.EBADF)
	}
	return nil
}

// cut leaves the first size bytes. The file has no room behind them from now on: the bytes there may be others'.
func (n *node) cut(size int) {
	n.data = n.data[:size:size]
	n.floor = min(n.floor, size)
	n.modified = time.Now()
}

// settle makes content what a crash cannot take.
func (n *node) settle(content []byte) {
	n.synced = content[:len(content):len(content)]
	n.floor = len(content)
	n.shared.Store(true)
}
