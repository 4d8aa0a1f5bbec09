package vfs

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

func mapsSafely(dir string) bool {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return false
	}
	return s.Type == unix.EXT4_SUPER_MAGIC || s.Type == unix.XFS_SUPER_MAGIC
}

// Map takes the room with fallocate, without which a full disk would show as a signal.
func (o osFile) Map(off, size int64) (Mapping, error) {
	m := &osMapping{name: o.f.Name(), off: off}
	err := control(o.f, "fallocate", func(fd int) error { return unix.Fallocate(fd, 0, off, size) })
	if err == nil {
		err = control(o.f, "mmap", func(fd int) (err error) {
			m.mem, err = unix.Mmap(fd, off, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

type osMapping struct {
	name string
	off  int64
	mem  []byte
}

func (m *osMapping) Store(off int64, p []byte) (err error) {
	b := m.mem[off-m.off:][:len(p)]
	faults := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(faults)
		switch v := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // what the runtime makes of a fault
			err = &fs.PathError{Op: "store", Path: m.name, Err: fmt.Errorf("%w at %#x", unix.EIO, v.Addr())}
		default:
			panic(v)
		}
	}()
	copy(b[8:], p[8:])
	storeFirst(b, p)
	return nil
}

// storeFirst is a function of its own so that the compiler keeps it behind the copy.
//
//go:noinline
func storeFirst(to, from []byte) {
	binary.LittleEndian.PutUint64(to, binary.LittleEndian.Uint64(from))
}

// Populate lets the system make the pages, writable, as the first Store to each would.
func (m *osMapping) Populate(off, size int64) error {
	if err := unix.Madvise(m.mem[off-m.off:][:size], unix.MADV_POPULATE_WRITE); err != nil {
		return &fs.PathError{Op: "madvise", Path: m.name, Err: err}
	}
	return nil
}

func (m *osMapping) Close() error {
	return os.NewSyscallError("munmap", unix.Munmap(m.mem))
}
