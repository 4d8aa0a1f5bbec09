package vfs

import (
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Mem is a file system in memory that can crash: Crash and Clone give a second file system with what a crash of the
// machine or of the process would have left, and the first goes on living. Both share the files' bytes with the first,
// so a crash costs about as much as there are names. Its fields may be set until it is first used.
//
// Names are slash-separated; a relative one starts at the root. As everywhere, a directory is itself a name in the one
// above: it survives Crash only once that one was synced. Sync keeps a file's bytes and not its name.
type Mem struct {
	// OnSync, if it is set, is called before each File.Sync and FS.SyncDir takes effect, in the caller's goroutine
	// and with no lock held: Crash and Clone may be called in it, and other goroutines go on meanwhile.
	OnSync func(op Op)
	// Mapped, if it is set, names the files of which Crash may lose any unsynced page and keep a later one, as it is with
	// preallocated files that are written through a mapping. Of other files Crash keeps a prefix. The names that it is
	// asked about start with "/".
	Mapped func(name string) bool

	mu      sync.RWMutex // protects all that follows, the nodes too
	root    *node
	pending []nameOp // changes of names that no SyncDir has covered, oldest first
	locks   map[*node]bool
}

// Op is a sync that is about to be done.
type Op struct {
	Name string
	Dir  bool // SyncDir, else File.Sync
}

// String is "sync NAME" or "syncdir NAME".
func (o Op) String() string {
	if o.Dir {
		return "syncdir " + o.Name
	}
	return "sync " + o.Name
}

// node is a file or a directory, whatever its names. Bytes of a file do not change where they lie: it grows by append, and
// one that is cut is moved before it grows again. So slices of one array can be the file now, the file as it was synced,
// and the file in any number of crashed file systems. Only a mapping changes bytes, of an array that is not shared so.
type node struct {
	names    map[string]*node // of a directory; nil in a file
	data     []byte
	synced   []byte      // data when Sync last returned
	floor    int         // data and synced are equal below; len(synced) unless the file was cut or changed through a mapping
	mapped   int         // length of the file when it was mapped last; 0: never
	shared   atomic.Bool // data's array is also synced's, or another file system's
	modified time.Time
}

// nameOp is one atomic change of names: one change, or the two of a rename.
type nameOp struct {
	changes [2]change
	n       int
}

// change is what happened to one name. A nil node means that there was or is no such name.
type change struct {
	dir           *node
	name          string
	before, after *node
}

// NewMem returns an empty file system: it has a root, "/".
func NewMem() *Mem {
	return &Mem{root: newDir(), locks: map[*node]bool{}}
}

func newDir() *node { return &node{names: map[string]*node{}, modified: time.Now()} }

func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.makeFile("open", name)
	if err != nil {
		return nil, err
	}
	n.cut(0)
	return &memFile{m: m, n: n, name: name, writable: true}, nil
}

// makeFile returns the file of that name, new if there is none.
func (m *Mem) makeFile(op, name string) (*node, error) {
	dir, base, err := m.parent(name)
	if err != nil {
		return nil, pathError(op, name, err)
	}
	n := dir.names[base]
	switch {
	case n == nil:
		n = &node{modified: time.Now()}
		m.apply(change{dir, base, nil, n})
	case n.names != nil:
		return nil, pathError(op, name, syscall.EISDIR)
	}
	return n, nil
}

func (m *Mem) Open(name string) (File, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find(name)
	if err == nil && n.names != nil {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &memFile{m: m, n: n, name: name}, nil
}

func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil {
		return pathError("remove", name, err)
	}
	n := dir.names[base]
	if n == nil {
		return pathError("remove", name, syscall.ENOENT)
	}
	if len(n.names) > 0 {
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	m.apply(change{dir, base, n, nil})
	return nil
}

func (m *Mem) Rename(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.rename(oldname, newname); err != nil {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: err}
	}
	return nil
}

func (m *Mem) rename(oldname, newname string) error {
	n, err := m.find(oldname)
	if err != nil {
		return err
	}
	from, oldbase, err := m.parent(oldname)
	if err != nil {
		return err
	}
	to, newbase, err := m.parent(newname)
	if err != nil {
		return err
	}
	replaced := to.names[newbase]
	switch {
	case replaced == n:
		return nil
	case replaced != nil && replaced.names != nil:
		return syscall.EEXIST
	case replaced != nil && n.names != nil:
		return syscall.ENOTDIR
	case n.names != nil && strings.HasPrefix(rooted(newname), rooted(oldname)+"/"):
		return syscall.EINVAL
	}
	m.apply(change{to, newbase, replaced, n}, change{from, oldbase, n, nil})
	return nil
}

func (m *Mem) Link(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.link(oldname, newname); err != nil {
		return &os.LinkError{Op: "link", Old: oldname, New: newname, Err: err}
	}
	return nil
}

func (m *Mem) link(oldname, newname string) error {
	n, err := m.find(oldname)
	if err != nil {
		return err
	}
	if n.names != nil {
		return syscall.EPERM
	}
	dir, base, err := m.parent(newname)
	if err != nil {
		return err
	}
	if dir.names[base] != nil {
		return syscall.EEXIST
	}
	m.apply(change{dir, base, nil, n})
	return nil
}

func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for base := range elements(dir) {
		next := n.names[base]
		if next == nil {
			next = newDir()
			m.apply(change{n, base, nil, next})
		}
		if next.names == nil {
			return pathError("mkdir", dir, syscall.ENOTDIR)
		}
		n = next
	}
	return nil
}

func (m *Mem) List(dir string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.findDir(dir)
	if err != nil {
		return nil, pathError("open", dir, err)
	}
	names := make([]string, 0, len(n.names))
	for name := range n.names {
		names = append(names, name)
	}
	return names, nil
}

func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find(name)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return memInfo{path.Base(rooted(name)), int64(len(n.data)), n.names != nil, n.modified}, nil
}

func (m *Mem) SyncDir(dir string) error {
	if m.OnSync != nil {
		m.OnSync(Op{Name: dir, Dir: true})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findDir(dir)
	if err != nil {
		return pathError("syncdir", dir, err)
	}
	m.settle(n)
	return nil
}

// settle makes the changes in dir durable, and with each what it rests on: an earlier change of the same name, in a
// directory that a rename came from. From the last to the first, an operation is durable if it touches dir or a name
// that a later durable one touches.
func (m *Mem) settle(dir *node) {
	type place struct {
		dir  *node
		name string
	}
	rests := map[place]bool{}
	all := false
	var rest []nameOp // from the last to the first
	for i := len(m.pending) - 1; i >= 0; i-- {
		op := m.pending[i]
		durable := all
		for _, c := range op.all() {
			durable = durable || c.dir == dir || rests[place{c.dir, c.name}]
		}
		if !durable {
			rest = append(rest, op)
			continue
		}
		all = all || op.movesDir()
		for _, c := range op.all() {
			rests[place{c.dir, c.name}] = true
		}
	}
	m.pending = m.pending[:0]
	for i := len(rest) - 1; i >= 0; i-- {
		m.pending = append(m.pending, rest[i])
	}
}

func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.makeFile("lock", name)
	if err != nil {
		return nil, err
	}
	if m.locks[n] {
		return nil, pathError("lock", name, ErrLocked)
	}
	m.locks[n] = true
	return &memLock{m: m, n: n, name: name}, nil
}

func (m *Mem) Join(elem ...string) string { return path.Join(elem...) }
func (m *Mem) Dir(name string) string     { return path.Dir(name) }

// apply makes one atomic change of names, and remembers it until a SyncDir.
func (m *Mem) apply(changes ...change) {
	op := nameOp{n: len(changes)}
	for i, c := range changes {
		op.changes[i] = c
		set(c.dir.names, c.name, c.after)
		c.dir.modified = time.Now()
	}
	m.pending = append(m.pending, op)
}

func set(names map[string]*node, name string, n *node) {
	if n == nil {
		delete(names, name)
	} else {
		names[name] = n
	}
}

func (o *nameOp) all() []change { return o.changes[:o.n] }

// movesDir tells whether a directory gets a new place: such an operation rests on all that came before it, since one of
// them may have moved what it is moved into.
func (o *nameOp) movesDir() bool { return o.n == 2 && o.changes[0].after.names != nil }

func (m *Mem) find(name string) (*node, error) {
	n := m.root
	for base := range elements(name) {
		if n.names == nil {
			return nil, syscall.ENOTDIR
		}
		if n = n.names[base]; n == nil {
			return nil, syscall.ENOENT
		}
	}
	return n, nil
}

func (m *Mem) findDir(name string) (*node, error) {
	n, err := m.find(name)
	if err == nil && n.names == nil {
		err = syscall.ENOTDIR
	}
	return n, err
}

// parent finds the directory that holds or would hold a name. The root has none.
func (m *Mem) parent(name string) (dir *node, base string, err error) {
	up, base := path.Split(rooted(name))
	if base == "" {
		return nil, "", syscall.EBUSY
	}
	dir, err = m.findDir(up)
	return dir, base, err
}

// rooted is the one spelling of a name.
func rooted(name string) string { return path.Clean("/" + name) }

// elements yields the names on the way from the root.
func elements(name string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		rest := rooted(name)[1:]
		for rest != "" {
			var base string
			base, rest, _ = strings.Cut(rest, "/")
			if !yield(base) {
				return
			}
		}
	}
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

type memLock struct {
	m    *Mem
	n    *node
	name string
}

func (l *memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.n == nil {
		return pathError("close", l.name, fs.ErrClosed)
	}
	delete(l.m.locks, l.n)
	l.n = nil
	return nil
}

// memInfo is a fs.FileInfo.
type memInfo struct {
	name     string
	size     int64
	dir      bool
	modified time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) IsDir() bool        { return i.dir }
func (i memInfo) ModTime() time.Time { return i.modified }
func (i memInfo) Sys() any           { return nil }

func (i memInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
