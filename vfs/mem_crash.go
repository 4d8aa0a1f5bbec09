package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// What a disk writes at once, and what the page cache does.
const (
	sector = 512
	page   = 4096
)

// Crash returns what the disk may hold if the machine dies now: all that was synced, and a part of the rest that rng
// chooses. Of the names, each create, remove, link and rename since its directory's last SyncDir came through or not,
// and a rename as a whole; one does without those that it rests on. Of a file's bytes, what was written since its last
// Sync came through up to some point, which may lie within a sector, and the sector or page before that point may be
// zero in part or whole; see also Mapped. Nothing else is there: no locks, no hook, and all that is left is synced.
// With rng nil, nothing that was not synced is left. The same rng state gives the same result.
func (m *Mem) Crash(rng *rand.Rand) *Mem {
	m.mu.RLock()
	defer m.mu.RUnlock()
	names := m.crashedNames(rng)
	c := copier{
		done: map[*node]*node{},
		names: func(dir *node) map[string]*node {
			if left, ok := names[dir]; ok {
				return left
			}
			return dir.names
		},
		file: func(n *node, name string) *node {
			n.shared.Store(true)
			mapped := n.mapped > 0 || m.Mapped != nil && m.Mapped(name)
			left := n.crashed(rng, mapped)
			file := &node{data: left[:len(left):len(left)], modified: n.modified}
			file.settle(file.data)
			return file
		},
	}
	return &Mem{Mapped: m.Mapped, root: c.copy(m.root, ""), locks: map[*node]bool{}}
}

// Clone returns what is there if the process dies now and the machine lives on: everything but the locks. What was not
// synced still is not.
func (m *Mem) Clone() *Mem {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c := copier{
		done:  map[*node]*node{},
		names: func(dir *node) map[string]*node { return dir.names },
		file: func(n *node, _ string) *node {
			n.shared.Store(true)
			file := &node{data: n.data[:len(n.data):len(n.data)], synced: n.synced, floor: n.floor, mapped: n.mapped, modified: n.modified}
			file.shared.Store(true)
			return file
		},
	}
	twin := &Mem{Mapped: m.Mapped, root: c.copy(m.root, ""), locks: map[*node]bool{}}
	for _, op := range m.pending {
		for i, ch := range op.all() {
			op.changes[i] = change{c.copy(ch.dir, ""), ch.name, c.copy(ch.before, ""), c.copy(ch.after, "")}
		}
		twin.pending = append(twin.pending, op)
	}
	return twin
}

// crashedNames gives the names left in each directory that has unsynced changes.
func (m *Mem) crashedNames(rng *rand.Rand) map[*node]map[string]*node {
	left := map[*node]map[string]*node{}
	for _, op := range m.pending {
		for _, c := range op.all() {
			if left[c.dir] == nil {
				left[c.dir] = maps.Clone(c.dir.names)
			}
		}
	}
	for _, op := range slices.Backward(m.pending) {
		for _, c := range op.all() {
			set(left[c.dir], c.name, c.before)
		}
	}
	if rng == nil {
		return left
	}
	lost := false
	odds := []float64{0, 0.2, 0.5, 0.9, 1}[rng.IntN(5)]
	for _, op := range m.pending {
		kept := rng.Float64() < odds && !(lost && op.movesDir())
		for _, c := range op.all() {
			kept = kept && left[c.dir][c.name] == c.before
		}
		if !kept {
			lost = true
			continue
		}
		for _, c := range op.all() {
			set(left[c.dir], c.name, c.after)
		}
	}
	return left
}

// crashed gives the bytes left of a file, in memory that may be shared.
func (n *node) crashed(rng *rand.Rand, mapped bool) []byte {
	if rng == nil {
		return n.synced
	}
	if mapped {
		return n.crashedPages(rng)
	}
	if n.floor < len(n.synced) && rng.IntN(2) == 0 {
		return n.synced // not even the cut came through
	}
	unsynced := len(n.data) - n.floor
	if unsynced == 0 {
		return n.data
	}
	switch rng.IntN(4) {
	case 0:
		return n.data[:n.floor]
	case 1:
		return n.data
	}
	unit := []int{sector, page}[rng.IntN(2)]
	end := n.floor + 1 + rng.IntN(unsynced)
	if rng.IntN(2) == 0 {
		end = max(n.floor, end/unit*unit)
	}
	left := n.data[:end]
	if start := max(n.floor, (end-1)/unit*unit); start < end && rng.IntN(3) == 0 {
		if rng.IntN(2) == 0 {
			start += rng.IntN(end - start)
		}
		left = slices.Clone(left)
		clear(left[start:])
	}
	return left
}

// crashedPages keeps each page with what was written to it since the last Sync or without. Of a file that was cut, the cut
// came through or not.
func (n *node) crashedPages(rng *rand.Rand) []byte {
	if n.floor == len(n.data) && n.floor == len(n.synced) {
		return n.data
	}
	left := slices.Clone(n.data)
	if long := max(len(n.synced), n.mapped); long > len(left) && rng.IntN(2) == 0 {
		left = append(left, make([]byte, long-len(left))...)
	}
	odds := []float64{0, 0.2, 0.5, 0.9, 1}[rng.IntN(5)]
	for start := n.floor; start < len(left); {
		end := min(len(left), (start/page+1)*page)
		if rng.Float64() >= odds {
			clear(left[start:end])
			if start < len(n.synced) {
				copy(left[start:end], n.synced[start:])
			}
		}
		start = end
	}
	return left
}

// copier copies a tree of nodes, each once however many names it has, in the order of the names so that a seed always
// gives the same.
type copier struct {
	names func(dir *node) map[string]*node
	file  func(n *node, name string) *node
	done  map[*node]*node
}

func (c *copier) copy(n *node, name string) *node {
	if n == nil {
		return nil
	}
	if twin := c.done[n]; twin != nil {
		return twin
	}
	if n.names == nil {
		twin := c.file(n, name)
		c.done[n] = twin
		return twin
	}
	twin := &node{names: make(map[string]*node), modified: n.modified}
	c.done[n] = twin
	names := c.names(n)
	for _, base := range slices.Sorted(maps.Keys(names)) {
		twin.names[base] = c.copy(names[base], name+"/"+base)
	}
	return twin
}
