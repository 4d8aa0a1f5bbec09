package lsm

import (
	"sync/atomic"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/manifest"
	"github.com/ashlardb/ashlar/memtable"
	"github.com/ashlardb/ashlar/sstable"
)

// Options are what a tree needs and cannot make itself.
type Options struct {
	Comparer *kv.Comparer
	// Tables are the open tables of the database.
	Tables *sstable.Tables
	Settings
	// Retire is called once for each superversion that nobody uses any more, from whatever goroutine gave back the last
	// reference. It must not block, and must see to it that Free is called.
	Retire func(*Superversion)
	// Live counts the superversions that are not yet freed, over all trees of the database.
	Live *atomic.Int64
}

// Settings are the options that may change while the tree is open; see Tree.SetLocked.
type Settings struct {
	// Family is how the family's tables are opened.
	Family *sstable.FamilyOptions
	// Family0 is how those of level 0 are.
	Family0 *sstable.FamilyOptions
	// OptimizeFiltersForHits skips the filters of the last level that has files.
	OptimizeFiltersForHits bool
	// History is how many bytes of memtables are kept for Latest after their flush: as many, the youngest ones, as it takes
	// to have that much together with the memtables that are not flushed.
	History uint64
}

// Tree is one column family's data.
type Tree struct {
	cmp    *kv.Comparer
	tables *sstable.Tables
	retire func(*Superversion)
	live   *atomic.Int64

	// current is stored under the root's mutex, and read by anyone. Nil after Close.
	current atomic.Pointer[Superversion]

	// Guarded by the root's mutex. imm and history are replaced, never changed.
	mem      *Mem
	imm      []*Mem
	history  []*Mem // flushed ones, newest first
	version  *manifest.Version
	settings Settings
}

// NewTree returns a tree with the memtable and the version given. It takes its own reference to the version.
func NewTree(o Options, mem *Mem, v *manifest.Version) *Tree {
	t := &Tree{
		cmp: o.Comparer, tables: o.Tables, settings: o.Settings, retire: o.Retire, live: o.Live, mem: mem, version: v,
	}
	v.Ref()
	t.swapLocked()
	return t
}

// NewMem wraps a memtable for a tree.
func NewMem(t *memtable.Table, logNumber uint64) *Mem { return &Mem{Table: t, LogNumber: logNumber} }

// Acquire returns what a read sees now, with a reference that Release gives back, or nil after Close.
//
// The order matters to readers: first Acquire, then the sequence number to read at. The other way round, a version of a
// key could be overwritten and flushed away in between (facebook/rocksdb#1816).
func (t *Tree) Acquire() *Superversion {
	for {
		s := t.current.Load()
		if s == nil {
			return nil
		}
		s.refs.Add(1)
		if t.current.Load() == s {
			return s
		}
		s.Release()
	}
}

// MemLocked returns the memtable that takes writes.
func (t *Tree) MemLocked() *Mem { return t.mem }

// ImmLocked returns the full memtables, newest first. The slice is not to be changed.
func (t *Tree) ImmLocked() []*Mem { return t.imm }

// VersionLocked returns the tree's files now. Whoever keeps it beyond the lock takes a reference.
func (t *Tree) VersionLocked() *manifest.Version { return t.version }

// RotateLocked makes fresh the memtable that takes writes, and the one before it wait for its flush. Nobody may insert
// meanwhile.
func (t *Tree) RotateLocked(fresh *Mem) {
	t.mem.Seal()
	t.imm = append([]*Mem{t.mem}, t.imm...)
	t.mem = fresh
	t.trimLocked()
	t.swapLocked()
}

// FlushedLocked takes memtables whose data is in v now out of what is read. They become history as far as there may be any.
func (t *Tree) FlushedLocked(mems []*Mem, v *manifest.Version) {
	gone := make(map[*Mem]bool, len(mems))
	for _, m := range mems {
		gone[m] = true
	}
	left, history := make([]*Mem, 0, len(t.imm)), make([]*Mem, 0, len(mems)+len(t.history))
	for _, m := range t.imm {
		if gone[m] {
			history = append(history, m)
		} else {
			left = append(left, m)
		}
	}
	t.imm, t.history = left, append(history, t.history...)
	t.trimLocked()
	t.InstallLocked(v)
}

// trimLocked drops the oldest memtables of the history that the younger ones make superfluous.
func (t *Tree) trimLocked() {
	bytes := t.mem.Bytes()
	for _, m := range t.imm {
		bytes += m.Bytes()
	}
	for i, m := range t.history {
		if uint64(bytes) >= t.settings.History {
			t.history = t.history[:i:i]
			return
		}
		bytes += m.Bytes()
	}
}

// SetLocked changes the settings, for reads that begin from now on.
func (t *Tree) SetLocked(s Settings) {
	t.settings = s
	t.trimLocked()
	t.swapLocked()
}

// InstallLocked makes v the tree's files.
func (t *Tree) InstallLocked(v *manifest.Version) {
	v.Ref()
	t.version.Unref()
	t.version = v
	t.swapLocked()
}

// CloseLocked ends reading: Acquire returns nil from now on. The tree's references are given back.
func (t *Tree) CloseLocked() {
	if old := t.current.Swap(nil); old != nil {
		old.Release()
		t.version.Unref()
	}
}

func (t *Tree) swapLocked() {
	if old := t.current.Swap(newSuperversion(t)); old != nil {
		old.Release()
	}
}
