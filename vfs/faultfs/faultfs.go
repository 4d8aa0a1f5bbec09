package faultfs

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync"
	"syscall"

	"github.com/ashlardb/ashlar/vfs"
)

// FS is a vfs.FS whose calls fail by rule. Without rules it passes all on. Open files keep to the rules of the moment.
type FS struct {
	// OnCall, if it is set, is called before each call is judged, in the caller's goroutine and with no lock held. It
	// may block, to hold a call back, and add rules. Set it before the file system is used.
	OnCall func(c Call)

	under vfs.FS

	mu        sync.Mutex // protects all that follows; never held during a call of under
	rules     []*Rule
	calls     int64
	fired     int64
	nth       int64 // this call fails; 0: none
	onwards   bool  // and all later ones
	limited   bool
	room      int64 // bytes that may still be written, if limited
	detail    Detail
	lines     []string
	lastWrite string // the line of the last entry, if it may swallow another write
}

var _ vfs.FS = (*FS)(nil)

// Wrap returns a file system over under, without rules.
func Wrap(under vfs.FS) *FS { return &FS{under: under} }

// Add adds rules in the package's language, one a line. Empty lines and those that start with # say nothing.
func (f *FS) Add(text string) error {
	var rules []*Rule
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		r, err := Parse(line)
		if err != nil {
			return err
		}
		rules = append(rules, &r)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, rules...)
	return nil
}

// AddRule adds one rule.
func (f *FS) AddRule(r Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, &r)
}

// Clear ends all trouble: rules, FailNth, FailFrom and LimitSpace. The counts stay.
func (f *FS) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules, f.nth, f.onwards, f.limited = nil, 0, false, false
}

// FailNth starts counting at zero, and makes the n-th call from now fail with EIO, n from 1. So a test runs what it
// tests with n = 1, 2, 3 and so on until Fired says that there were fewer calls than n. FailNth(0) only counts.
func (f *FS) FailNth(n int64) { f.count(n, false) }

// FailFrom is FailNth for a disk that dies: all later calls fail too, until Clear.
func (f *FS) FailFrom(n int64) { f.count(n, true) }

func (f *FS) count(n int64, onwards bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.fired, f.nth, f.onwards = 0, 0, n, onwards && n > 0
}

// Calls is how many calls were made since Wrap, FailNth or FailFrom.
func (f *FS) Calls() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// Fired tells whether a call was made to fail since Wrap, FailNth or FailFrom, for whatever reason.
func (f *FS) Fired() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired > 0
}

// LimitSpace lets that many bytes be written. The write that wants more puts into the file what there is room for, and
// fails with ENOSPC, as do all later ones until Free or Clear. Removing a file gives nothing back.
func (f *FS) LimitSpace(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limited, f.room = true, bytes
}

// Free ends LimitSpace.
func (f *FS) Free() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limited = false
}

// verdict is what becomes of a call.
type verdict struct {
	err  error // what it returns; nil: what the file system below says
	late bool  // it is passed on nevertheless
	part int64 // of a write that is not: so many bytes are
}

func (f *FS) judge(c Call) verdict {
	if f.OnCall != nil {
		f.OnCall(c)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.trouble(c)
	if v.err != nil {
		f.fired++
		v.err = &fs.PathError{Op: string(c.Op), Path: c.Name, Err: v.err}
	}
	v.late = v.late || c.Op == Close
	return v
}

// trouble lets every rule count the call; the first that fires decides.
func (f *FS) trouble(c Call) verdict {
	f.calls++
	var v verdict
	if f.nth > 0 && (f.calls == f.nth || f.onwards && f.calls > f.nth) {
		v.err = syscall.EIO
	}
	for _, r := range f.rules {
		if !r.fires(c) || v.err != nil {
			continue
		}
		v.err, v.late = syscall.EIO, r.Late
		if r.Err != 0 {
			v.err = r.Err
		}
		if r.Partial && (c.Op == Write || c.Op == Store) {
			v.part = c.Size / 2
		}
	}
	if c.Op == Map && f.limited && v.err == nil {
		if c.Size > f.room {
			return verdict{err: syscall.ENOSPC}
		}
		f.room -= c.Size
	}
	if c.Op == Write && f.limited {
		wanted := c.Size
		if v.err != nil && !v.late {
			wanted = v.part
		}
		if wanted > f.room {
			v = verdict{err: syscall.ENOSPC, part: f.room}
			wanted = f.room
		}
		f.room -= wanted
	}
	return v
}

// do judges a call and passes it on if it may be.
func (f *FS) do(c Call, call func() error) error {
	v := f.judge(c)
	err := v.err
	if err == nil {
		err = call()
	} else if v.late {
		call()
	}
	f.record(c, err)
	return err
}

func (f *FS) Create(name string) (vfs.File, error) {
	return f.open(Call{Op: Create, Name: name}, f.under.Create)
}

func (f *FS) Open(name string) (vfs.File, error) {
	return f.open(Call{Op: Open, Name: name}, f.under.Open)
}

func (f *FS) open(c Call, call func(string) (vfs.File, error)) (vfs.File, error) {
	var under vfs.File
	err := f.do(c, func() (err error) {
		under, err = call(c.Name)
		return err
	})
	if err != nil {
		if under != nil {
			under.Close() // late: it was made, but the caller will never know
		}
		return nil, err
	}
	return &file{fs: f, under: under, name: c.Name}, nil
}

func (f *FS) Remove(name string) error {
	return f.do(Call{Op: Remove, Name: name}, func() error { return f.under.Remove(name) })
}

func (f *FS) Rename(oldname, newname string) error {
	return f.do(Call{Op: Rename, Name: oldname, NewName: newname}, func() error { return f.under.Rename(oldname, newname) })
}

func (f *FS) Link(oldname, newname string) error {
	return f.do(Call{Op: Link, Name: oldname, NewName: newname}, func() error { return f.under.Link(oldname, newname) })
}

func (f *FS) MkdirAll(dir string) error {
	return f.do(Call{Op: Mkdir, Name: dir}, func() error { return f.under.MkdirAll(dir) })
}

func (f *FS) SyncDir(dir string) error {
	return f.do(Call{Op: SyncDir, Name: dir}, func() error { return f.under.SyncDir(dir) })
}

func (f *FS) List(dir string) (names []string, err error) {
	err = f.do(Call{Op: List, Name: dir}, func() error {
		names, err = f.under.List(dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

func (f *FS) Stat(name string) (info fs.FileInfo, err error) {
	err = f.do(Call{Op: Stat, Name: name}, func() error {
		info, err = f.under.Stat(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return info, nil
}

func (f *FS) Lock(name string) (io.Closer, error) {
	var lock io.Closer
	err := f.do(Call{Op: Lock, Name: name}, func() (err error) {
		lock, err = f.under.Lock(name)
		return err
	})
	if err != nil {
		if lock != nil {
			lock.Close() // late
		}
		return nil, err
	}
	return lock, nil
}

func (f *FS) Join(elem ...string) string { return f.under.Join(elem...) }
func (f *FS) Dir(name string) string     { return f.under.Dir(name) }

// file is a file whose calls fail by the rules of its FS. Its name is the one that it was opened by.
type file struct {
	fs    *FS
	under vfs.File
	name  string
}

func (f *file) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.fs.do(Call{Op: Read, Name: f.name, Size: int64(len(p))}, func() error {
		n, err = f.under.ReadAt(p, off)
		return err
	})
	if _, ours := err.(*fs.PathError); ours {
		n = 0
	}
	return n, err
}

func (f *file) Write(p []byte) (n int, err error) {
	c := Call{Op: Write, Name: f.name, Size: int64(len(p))}
	v := f.fs.judge(c)
	switch {
	case v.err == nil:
		n, err = f.under.Write(p)
	case v.late:
		f.under.Write(p)
		err = v.err
	default:
		if v.part > 0 {
			f.under.Write(p[:v.part])
		}
		err = v.err
	}
	f.fs.record(c, err)
	return n, err
}

func (f *file) Sync() error {
	return f.fs.do(Call{Op: Sync, Name: f.name}, f.under.Sync)
}

// Map is an error that matches errors.ErrUnsupported where the file below cannot be mapped.
func (f *file) Map(off, size int64) (m vfs.Mapping, err error) {
	mapper, ok := f.under.(vfs.Mapper)
	if !ok {
		return nil, &fs.PathError{Op: "map", Path: f.name, Err: errors.ErrUnsupported}
	}
	err = f.fs.do(Call{Op: Map, Name: f.name, Size: size}, func() error {
		m, err = mapper.Map(off, size)
		return err
	})
	if err != nil {
		if m != nil {
			m.Close() // late
		}
		return nil, err
	}
	return &mapping{m, f}, nil
}

// mapping is one whose stores fail by the rules of its FS.
type mapping struct {
	vfs.Mapping
	f *file
}

// Store, when it fails with part of the bytes in the file, leaves out the first 8, as any store that does not end.
func (m *mapping) Store(off int64, p []byte) (err error) {
	c := Call{Op: Store, Name: m.f.name, Size: int64(len(p))}
	v := m.f.fs.judge(c)
	switch {
	case v.err == nil || v.late:
		err = m.Mapping.Store(off, p)
	case v.part >= 16:
		m.Mapping.Store(off+8, p[8:v.part])
	}
	if v.err != nil {
		err = v.err
	}
	m.f.fs.record(c, err)
	return err
}

func (f *file) Truncate(size int64) error {
	return f.fs.do(Call{Op: Truncate, Name: f.name, Size: size}, func() error { return f.under.Truncate(size) })
}

func (f *file) Close() error {
	return f.fs.do(Call{Op: Close, Name: f.name}, f.under.Close)
}

// Size counts as a stat.
func (f *file) Size() (size int64, err error) {
	err = f.fs.do(Call{Op: Stat, Name: f.name}, func() error {
		size, err = f.under.Size()
		return err
	})
	if err != nil {
		return 0, err
	}
	return size, nil
}
