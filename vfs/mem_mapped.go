package vfs

import (
	"io/fs"
	"slices"
	"syscall"
)

// memMapping is a mapped part of a file of a Mem. Store changes bytes where they lie, unlike all else: so the array must
// be the file's own (node.shared), and is copied when it is not.
type memMapping struct {
	f      *memFile
	closed bool // protected by m.mu
}

func (f *memFile) Map(off, size int64) (Mapping, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable("map", true); err != nil {
		return nil, err
	}
	if off < 0 || size <= 0 || off%page != 0 || size%page != 0 {
		return nil, pathError("map", f.name, syscall.EINVAL)
	}
	n := f.n
	if grow := int(off+size) - len(n.data); grow > 0 {
		n.data = append(n.data, make([]byte, grow)...)
	}
	n.mapped = len(n.data)
	return &memMapping{f: f}, nil
}

func (m *memMapping) Store(off int64, p []byte) error {
	f := m.f
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if m.closed {
		return pathError("store", f.name, fs.ErrClosed)
	}
	n := f.n
	if off < 0 || int(off)+len(p) > len(n.data) {
		return pathError("store", f.name, syscall.EIO) // cut meanwhile
	}
	if n.shared.Load() {
		n.data = slices.Clone(n.data)
		n.shared.Store(false)
	}
	copy(n.data[off:], p)
	n.floor = min(n.floor, int(off))
	return nil
}

func (m *memMapping) Populate(off, size int64) error { return nil }

func (m *memMapping) Close() error {
	m.f.m.mu.Lock()
	defer m.f.m.mu.Unlock()
	m.closed = true
	return nil
}
