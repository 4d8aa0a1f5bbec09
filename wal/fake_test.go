package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"sync"

	"github.com/ashlardb/ashlar/vfs"
)

var errInjected = errors.New("injected")

// fakeFS keeps files in memory, writes down every call that changes something, and fails the calls that are named in
// fail.
type fakeFS struct {
	vfs.FS // the calls that logs do not need: nil

	mu    sync.Mutex
	files map[string][]byte
	calls []string
	fail  map[string]bool // "write 3.log", "sync 3.log", "syncdir", "create 3.log", "read 3.log"
	// during, if set, is called by Sync without a lock.
	during func(name string)
}

func newFakeFS() *fakeFS { return &fakeFS{files: map[string][]byte{}, fail: map[string]bool{}} }

func (f *fakeFS) call(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, what)
	if f.fail[what] {
		return errInjected
	}
	return nil
}

// take returns the calls so far and forgets them.
func (f *fakeFS) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

func (f *fakeFS) Create(name string) (vfs.File, error) {
	if err := f.call("create " + path.Base(name)); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files[name] = []byte{}
	return &fakeFile{f, name}, nil
}

func (f *fakeFS) Open(name string) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.files[name]; !ok {
		return nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
	}
	return &fakeFile{f, name}, nil
}

func (f *fakeFS) Remove(name string) error {
	err := f.call("remove " + path.Base(name))
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.files, name)
	return err
}

func (f *fakeFS) SyncDir(string) error           { return f.call("syncdir") }
func (f *fakeFS) Join(elem ...string) string     { return path.Join(elem...) }
func (f *fakeFS) logs(numbers ...uint64) []Log   { return logsIn("db", numbers...) }
func (f *fakeFS) bytes(number uint64) []byte     { return f.files[logsIn("db", number)[0].Path] }
func (f *fakeFS) put(number uint64, data []byte) { f.files[logsIn("db", number)[0].Path] = data }
func (f *fakeFS) numbers() (n []uint64) {
	for name := range f.files {
		var num uint64
		fmt.Sscanf(path.Base(name), "%d.log", &num)
		n = append(n, num)
	}
	slices.Sort(n)
	return n
}

func logsIn(dir string, numbers ...uint64) (logs []Log) {
	for _, n := range numbers {
		logs = append(logs, Log{n, fmt.Sprintf("%s/%06d.log", dir, n)})
	}
	return logs
}

type fakeFile struct {
	fs   *fakeFS
	name string
}

func (f *fakeFile) Write(p []byte) (int, error) {
	err := f.fs.call("write " + path.Base(f.name))
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.files[f.name] = append(f.fs.files[f.name], p...) // all of it, error or not
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *fakeFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.fail["read "+path.Base(f.name)] {
		return 0, errInjected
	}
	b := f.fs.files[f.name]
	if off >= int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *fakeFile) Sync() error {
	if f.fs.during != nil {
		f.fs.during(path.Base(f.name))
	}
	return f.fs.call("sync " + path.Base(f.name))
}

func (f *fakeFile) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.fs.files[f.name])), nil
}

func (f *fakeFile) Close() error         { return f.fs.call("close " + path.Base(f.name)) }
func (f *fakeFile) Truncate(int64) error { return errors.ErrUnsupported }
