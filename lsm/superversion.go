package lsm

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/ashlardb/ashlar/internal/invariants"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/manifest"
	"github.com/ashlardb/ashlar/memtable"
	"github.com/ashlardb/ashlar/sstable"
)

// Mem is a memtable with what the tree knows of it. It lives as long as a superversion names it.
type Mem struct {
	*memtable.Table
	// LogNumber is the first log that may hold its data. Guarded by the root's mutex; it moves up while the memtable is
	// empty.
	LogNumber uint64
	// Since is a sequence number: every write to the family with a later one is here or in a newer memtable. Set before
	// the tree gets the memtable.
	Since kv.Seq
	// PreparedLog is the oldest log with prepared writes whose commit put them here; 0 if there are none. Guarded by the
	// root's mutex.
	PreparedLog uint64
	// Unlogged is set once a write without the log went in: only a flush makes it safe. Set by inserts, read at Close.
	Unlogged atomic.Bool

	refs atomic.Int32
}

// A Superversion is what one read sees. It never changes.
//
// References. The tree holds one for its current superversion; each read takes one more. Acquire is: load the pointer,
// add one, load the pointer again; the same pointer means that the tree still held its reference when ours was added, so
// ours counts. Otherwise the superversion may be gone already: step back through Release and try the new one. Whoever
// brings the count to zero retires it, once (retired), and a reader that stepped back may come to zero a second time.
//
// One count, not stripes: with 2 processors it costs no more than the bare atomic, and half of what a read lock costs.
// Stripes may come behind the same two calls when a machine with many cores shows the shared line to be hot.
type Superversion struct {
	tree     *Tree
	mem      *Mem
	imm      []*Mem // newest first
	history  []*Mem // flushed ones, newest first, for Latest only
	version  *manifest.Version
	settings Settings
	levels   []level
	lastNon  int // the deepest level with files, -1 when there are none

	refs    atomic.Int64
	retired atomic.Bool
}

// level is one level's files with the keys that a search compares, side by side.
type level struct {
	files   []*manifest.File
	largest []uint64                         // the first 8 bytes of each file's largest user key, big-endian; nil if the order is not bytewise
	readers []atomic.Pointer[sstable.Reader] // those that were used; each counts as a handle, which Free releases
}

// Version returns the files that the read sees. It lives until Release.
func (s *Superversion) Version() *manifest.Version { return s.version }

// Mems returns the memtables that the read sees, newest first.
func (s *Superversion) Mems() []*Mem { return append([]*Mem{s.mem}, s.imm...) }

// History returns the flushed memtables that are kept for Latest, newest first.
func (s *Superversion) History() []*Mem { return s.history }

// Release gives back one reference.
func (s *Superversion) Release() {
	switch n := s.refs.Add(-1); {
	case n > 0:
	case n == 0:
		if s.tree.current.Load() != s && s.retired.CompareAndSwap(false, true) {
			s.tree.retire(s)
		}
	case invariants.Enabled:
		panic("lsm: superversion released more often than acquired")
	}
}

// Free lets go of what the superversion named: memtables that no other names are released, and files that no version
// names any more become obsolete. The function that Options.Retire is calls it, once, where freeing may take time.
func (s *Superversion) Free() {
	for _, m := range slices.Concat([]*Mem{s.mem}, s.imm, s.history) {
		if m.refs.Add(-1) == 0 {
			m.Release()
		}
	}
	for _, l := range s.levels {
		for i := range l.readers {
			if r := l.readers[i].Load(); r != nil {
				r.Handle().Release()
			}
		}
	}
	s.version.Unref()
	s.tree.live.Add(-1)
}

func newSuperversion(t *Tree) *Superversion {
	s := &Superversion{
		tree: t, mem: t.mem, imm: t.imm, history: t.history, version: t.version, settings: t.settings, lastNon: -1,
	}
	s.refs.Store(1)
	t.live.Add(1)
	for _, m := range slices.Concat([]*Mem{s.mem}, s.imm, s.history) {
		m.refs.Add(1)
	}
	s.version.Ref()
	s.levels = make([]level, s.version.NumLevels())
	for n := range s.levels {
		l := &s.levels[n]
		l.files = s.version.Level(n)
		if len(l.files) == 0 {
			continue
		}
		s.lastNon = n
		if t.tables.Unbounded() {
			l.readers = make([]atomic.Pointer[sstable.Reader], len(l.files))
		}
		if n > 0 && t.cmp.IsBytewise() {
			l.largest = make([]uint64, len(l.files))
			for i, f := range l.files {
				l.largest[i] = prefix(f.Largest.User)
			}
		}
	}
	return s
}

// prefix returns the first 8 bytes of a key as a number that sorts as they do. Keys with equal prefixes need a look at
// the rest.
func prefix(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

// search returns the first file of a level from 1 on whose largest user key is not below key.
func (l *level) search(cmp *kv.Comparer, key []byte) int {
	lo, hi := 0, len(l.files)
	if l.largest != nil {
		p := prefix(key)
		for lo < hi {
			m := int(uint(lo+hi) / 2)
			if q := l.largest[m]; q < p || q == p && cmp.CompareUser(l.files[m].Largest.User, key) < 0 {
				lo = m + 1
			} else {
				hi = m
			}
		}
		return lo
	}
	for lo < hi {
		m := int(uint(lo+hi) / 2)
		if cmp.CompareUser(l.files[m].Largest.User, key) < 0 {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}
