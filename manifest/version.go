package manifest

// A version never changes, so it is read without a lock.
//
//  1. Level 0 is ordered newest first. Its files may overlap.
//  2. On every other level files are ordered by key, and each ends before the next begins (as internal keys).
//  3. A file is on one level only.
//  4. refs is at least 1 from the moment the version can be seen until it is dead; at 0 it gives up its files, once.

import (
	"fmt"
	"iter"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/ashlardb/ashlar/internal/kv"
)

// Version is one family's files at a moment.
type Version struct {
	cmp    *kv.Comparer
	levels [][]*File
	sizes  []uint64
	refs   atomic.Int32
	dead   func(*Version) // gives up the files; nil for a version outside a set
}

// NewVersion makes a version that belongs to no set, with one reference, for tests and tools. levels[n] are level n's
// files in any order. Broken rules are found by Check.
func NewVersion(cmp *kv.Comparer, levels ...[]*File) *Version {
	own := make([][]*File, len(levels))
	for i := range levels {
		own[i] = slices.Clone(levels[i])
		sortLevel(cmp, i, own[i])
	}
	return newVersion(cmp, own)
}

// newVersion keeps levels, which are in order.
func newVersion(cmp *kv.Comparer, levels [][]*File) *Version {
	v := &Version{cmp: cmp, levels: levels, sizes: make([]uint64, len(levels))}
	for i, files := range levels {
		for _, f := range files {
			v.sizes[i] += f.Size
		}
	}
	v.refs.Store(1)
	return v
}

// Comparer is the family's order.
func (v *Version) Comparer() *kv.Comparer { return v.cmp }

// NumLevels is the number of levels, empty ones included.
func (v *Version) NumLevels() int { return len(v.levels) }

// Level returns a level's files: level 0's newest first, the others' by key. The slice must not be changed. A level that
// does not exist is empty, and so are those of a nil version.
func (v *Version) Level(n int) []*File {
	if v == nil || n < 0 || n >= len(v.levels) {
		return nil
	}
	return v.levels[n]
}

// Size is the sum of a level's file sizes in bytes.
func (v *Version) Size(level int) uint64 {
	if level < 0 || level >= len(v.sizes) {
		return 0
	}
	return v.sizes[level]
}

// All goes through every file with its level, level 0 first.
func (v *Version) All() iter.Seq2[int, *File] {
	return func(yield func(int, *File) bool) {
		for level, files := range v.levels {
			for _, f := range files {
				if !yield(level, f) {
					return
				}
			}
		}
	}
}

// NumFiles is the number of files on all levels.
func (v *Version) NumFiles() int {
	n := 0
	for _, files := range v.levels {
		n += len(files)
	}
	return n
}

// Find returns the index, on a level other than 0, of the first file whose Largest is not before k. It is len(Level(n))
// when there is none.
func (v *Version) Find(level int, k kv.Key) int {
	files := v.Level(level)
	lo, hi := 0, len(files)
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if v.cmp.CompareKeys(files[m].Largest, k) < 0 {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

// Overlapping returns the files of a level that may hold a user key of r, in the level's order. On level 0 that is each
// file that itself overlaps r; to widen r by what was found is the caller's business. The slice must not be changed.
func (v *Version) Overlapping(level int, r kv.Range) []*File {
	files := v.Level(level)
	if level == 0 {
		var found []*File
		for _, f := range files {
			if f.overlaps(v.cmp, r) {
				found = append(found, f)
			}
		}
		return found
	}
	lo := 0
	if r.Start != nil {
		lo = sort.Search(len(files), func(i int) bool { return !files[i].before(v.cmp, r.Start) })
	}
	n := sort.Search(len(files)-lo, func(i int) bool { return files[lo+i].after(v.cmp, r) })
	return files[lo : lo+n : lo+n]
}

// Check returns an error if the version breaks one of its rules under cmp.
func (v *Version) Check(cmp *kv.Comparer) error {
	seen := make(map[uint64]int)
	for level, files := range v.levels {
		for _, f := range files {
			if on, ok := seen[f.Num]; ok {
				return fmt.Errorf("file %06d is on level %d and on level %d", f.Num, on, level)
			}
			seen[f.Num] = level
		}
		if err := checkLevel(cmp, level, files); err != nil {
			return err
		}
	}
	return nil
}

// checkLevel checks files that should be in the order of their level.
func checkLevel(cmp *kv.Comparer, level int, files []*File) error {
	for i, f := range files {
		if cmp.CompareKeys(f.Smallest, f.Largest) > 0 {
			return fmt.Errorf("level %d: file %v ends before it begins", level, f)
		}
		if i == 0 {
			continue
		}
		if err := checkNeighbours(cmp, level, files[i-1], f); err != nil {
			return fmt.Errorf("level %d: %w", level, err)
		}
	}
	return nil
}

func checkNeighbours(cmp *kv.Comparer, level int, a, b *File) error {
	if level > 0 {
		if cmp.CompareKeys(a.Largest, b.Smallest) >= 0 {
			return fmt.Errorf("files %v and %v overlap", a, b)
		}
		return nil
	}
	if a.Epoch != 0 && a.Epoch == b.Epoch && a.overlaps(cmp, kv.Range{Start: b.Smallest.User, End: b.Largest.User, EndInclusive: true}) {
		return fmt.Errorf("files %v and %v overlap and have the same epoch %d", a, b, a.Epoch)
	}
	return nil
}

// Ref takes a reference. The caller must hold one, or be in install.
func (v *Version) Ref() {
	if v.refs.Add(1) <= 1 {
		panic("manifest: reference to a dead version")
	}
}

// tryRef takes a reference unless the version is dead.
func (v *Version) tryRef() bool {
	for {
		n := v.refs.Load()
		if n == 0 {
			return false
		}
		if v.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Unref gives a reference back. The last one makes the files that no other version names obsolete: Options.OnObsolete is
// called for each before Unref returns.
func (v *Version) Unref() {
	switch n := v.refs.Add(-1); {
	case n < 0:
		panic("manifest: version released more often than taken")
	case n == 0 && v.dead != nil:
		v.dead(v)
	}
}

// DebugString lists the levels that have files, a line each: "L1: 000007[a#1,SET..b#2,SET] 000009[…]".
func (v *Version) DebugString() string {
	var b strings.Builder
	for level, files := range v.levels {
		if len(files) == 0 {
			continue
		}
		fmt.Fprintf(&b, "L%d:", level)
		for _, f := range files {
			b.WriteByte(' ')
			b.WriteString(f.String())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// debugKey is k.String with quotes only around keys that need them.
func debugKey(k kv.Key) string {
	plain := len(k.User) > 0
	for _, c := range k.User {
		plain = plain && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '/' || c == ':')
	}
	user := string(k.User)
	if !plain {
		user = strconv.Quote(user)
	}
	return fmt.Sprintf("%s#%d,%s", user, k.Seq(), k.Kind())
}

// sortLevel brings a level's files into its order.
func sortLevel(cmp *kv.Comparer, level int, files []*File) {
	if level == 0 {
		slices.SortFunc(files, newerFirst(files))
		return
	}
	slices.SortFunc(files, func(a, b *File) int { return cmp.CompareKeys(a.Smallest, b.Smallest) })
}

// newerFirst is the order of level 0: by epoch if every file has one, else by sequence numbers.
func newerFirst(files []*File) func(a, b *File) int {
	epochs := !slices.ContainsFunc(files, func(f *File) bool { return f.Epoch == 0 })
	return func(a, b *File) int {
		if epochs && a.Epoch != b.Epoch {
			return compareDown(a.Epoch, b.Epoch)
		}
		if a.LargestSeq != b.LargestSeq {
			return compareDown(a.LargestSeq, b.LargestSeq)
		}
		if a.SmallestSeq != b.SmallestSeq {
			return compareDown(a.SmallestSeq, b.SmallestSeq)
		}
		return compareDown(a.Num, b.Num)
	}
}

func compareDown[T uint64 | kv.Seq](a, b T) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}
