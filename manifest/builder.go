package manifest

// A builder takes edits one after the other and ends with a new state, leaving the one it began with as it was.
//
// It is the one place that knows which edits make sense, for recovery as for Apply: an edit that deletes what is not
// there, adds what is there already, or speaks of a family that does not exist is refused. Where the edit came from, and
// so whether that is corruption or a caller's mistake, is the caller's to say.

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/invariants"
	"github.com/ashlardb/ashlar/internal/kv"
)

type builder struct {
	o        *Options
	families map[uint32]*familyBuilder
	next     state // without families, until finish

	// What a whole manifest must have said at least once.
	sawLog, sawNextFile, sawLastSeq bool
	sawMinLog                       bool // it need not
	nextFile                        uint64
	maxNum                          uint64 // the largest number seen, of a file or a log
}

// familyBuilder is a family under way. A file is in it if it is added, or in base and not deleted.
type familyBuilder struct {
	family
	stored  string // the comparer's name, once an edit has told it
	base    *Version
	added   map[uint64]AddedFile // nil until there is one
	deleted map[uint64]int       // number → level in base; nil until there is one
}

// newBuilder begins with s; nil is an empty database, which has the default family only.
func newBuilder(o *Options, s *state) *builder {
	b := &builder{o: o, families: make(map[uint32]*familyBuilder)}
	if s == nil {
		b.families[0] = newFamilyBuilder(family{name: DefaultFamily})
		return b
	}
	b.next = *s
	for id, f := range s.families {
		b.families[id] = newFamilyBuilder(*f)
	}
	return b
}

func newFamilyBuilder(f family) *familyBuilder {
	b := &familyBuilder{family: f, base: f.version}
	if f.cmp != nil {
		b.stored = f.cmp.Name
	}
	return b
}

// apply takes the next edit.
func (b *builder) apply(e *Edit) error {
	if e.AddFamily != "" || e.DropFamily {
		if err := b.applyFamily(e); err != nil {
			return err
		}
	}
	f := b.families[e.Family]
	switch {
	case e.DropFamily:
	case f == nil:
		return fmt.Errorf("%w %d", ErrNoFamily, e.Family)
	default:
		if err := b.applyTo(f, e); err != nil {
			return fmt.Errorf("family %q: %w", f.name, err)
		}
	}
	return b.applyShared(e)
}

func (b *builder) applyFamily(e *Edit) error {
	f := b.families[e.Family]
	switch {
	case len(e.Add)+len(e.Delete) > 0:
		return errors.New("an edit that creates or drops a family has files as well")
	case e.AddFamily != "" && e.DropFamily:
		return fmt.Errorf("family %q is created and dropped at once", e.AddFamily)
	case e.Family == 0:
		return errors.New("the default family can be neither created nor dropped")
	case e.DropFamily && f == nil:
		return fmt.Errorf("family %d is dropped but does not exist", e.Family)
	case e.DropFamily:
		delete(b.families, e.Family)
		return nil
	case f != nil:
		return fmt.Errorf("family %d is created twice", e.Family)
	}
	for _, other := range b.families {
		if other.name == e.AddFamily {
			return fmt.Errorf("family %q exists already, as number %d", other.name, other.id)
		}
	}
	b.families[e.Family] = newFamilyBuilder(family{id: e.Family, name: e.AddFamily})
	b.next.maxFamily = max(b.next.maxFamily, e.Family)
	return nil
}

func (b *builder) applyTo(f *familyBuilder, e *Edit) error {
	if e.Comparer != "" {
		if f.stored != "" && f.stored != e.Comparer {
			return fmt.Errorf("its comparer changes from %q to %q", f.stored, e.Comparer)
		}
		f.stored = e.Comparer
	}
	if e.LogNumber != nil {
		b.sawLog = true
		if err := b.use(*e.LogNumber); err != nil {
			return err
		}
		f.logNumber = max(f.logNumber, *e.LogNumber)
	}
	for _, d := range e.Delete {
		if err := f.delete(d); err != nil {
			return err
		}
	}
	for _, a := range e.Add {
		if a.Level < 0 {
			return fmt.Errorf("file %06d is on level %d", a.File.Num, a.Level)
		}
		if a.File.Num == 0 {
			return errors.New("a file has number 0")
		}
		if err := b.use(a.File.Num); err != nil {
			return err
		}
		if err := f.add(a); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) applyShared(e *Edit) error {
	if e.NextFile != nil {
		b.sawNextFile = true
		if *e.NextFile > fname.MaxNum {
			return fmt.Errorf("next file number %d is out of range", *e.NextFile)
		}
		b.nextFile = max(b.nextFile, *e.NextFile)
	}
	if e.LastSeq != nil {
		b.sawLastSeq = true
		b.next.lastSeq = max(b.next.lastSeq, *e.LastSeq)
	}
	if e.MinLogToKeep != nil {
		b.sawMinLog = true
		b.next.minLog = max(b.next.minLog, *e.MinLogToKeep)
	}
	if e.MaxFamily != nil {
		b.next.maxFamily = max(b.next.maxFamily, *e.MaxFamily)
	}
	if e.DBID != "" {
		b.next.dbid = e.DBID
	}
	return nil
}

// use notes a number that is taken.
func (b *builder) use(num uint64) error {
	if num >= fname.MaxNum {
		return fmt.Errorf("file number %d is out of range", num)
	}
	b.maxNum = max(b.maxNum, num)
	return nil
}

func (f *familyBuilder) delete(d DeletedFile) error {
	if a, ok := f.added[d.Num]; ok && a.Level == d.Level {
		delete(f.added, d.Num)
		return nil
	}
	if _, gone := f.deleted[d.Num]; gone || f.base == nil || f.base.fileOn(d.Level, d.Num) == nil {
		return fmt.Errorf("file %06d is deleted from level %d but is not there", d.Num, d.Level)
	}
	if f.deleted == nil {
		f.deleted = make(map[uint64]int)
	}
	f.deleted[d.Num] = d.Level
	return nil
}

func (f *familyBuilder) add(a AddedFile) error {
	if old, ok := f.added[a.File.Num]; ok {
		return fmt.Errorf("file %06d is added to level %d but is on level %d", a.File.Num, a.Level, old.Level)
	}
	if _, gone := f.deleted[a.File.Num]; !gone {
		if level, known := f.base.find(a.File.Num); known != nil {
			return fmt.Errorf("file %06d is added to level %d but is on level %d", a.File.Num, a.Level, level)
		}
	}
	if f.added == nil {
		f.added = make(map[uint64]AddedFile)
	}
	f.added[a.File.Num] = a
	f.epoch = max(f.epoch, a.File.Epoch)
	return nil
}

// finish returns the new state. Versions of families that no edit touched, or whose files did not change, are those of
// the old state.
func (b *builder) finish() (*state, error) {
	s := b.next
	s.families = make(map[uint32]*family, len(b.families))
	for _, id := range slices.Sorted(maps.Keys(b.families)) { // the error is about the first, always the same
		f := b.families[id]
		if err := f.finish(b.o); err != nil {
			return nil, fmt.Errorf("family %q: %w", f.name, err)
		}
		for _, a := range f.added {
			// A table may have been written by someone who forgot to say how far its sequence numbers go; a last
			// sequence below them would hide data.
			s.lastSeq = max(s.lastSeq, a.File.LargestSeq)
		}
		s.families[id] = &f.family
	}
	kept := uint64(math.MaxUint64)
	if b.o.KeepLogs != nil {
		kept = b.o.KeepLogs()
	}
	s.raiseMinLog(kept)
	return &s, nil
}

// finish makes the family's version. Levels that did not change are shared with the old one, the others are put in order
// and checked. Only here is the family held against the options: what it once was, or a dropped one of the same name, may
// not fit them.
func (f *familyBuilder) finish(o *Options) error {
	for _, a := range f.added {
		if a.Level >= o.NumLevels {
			return fmt.Errorf("%w: file %06d is on level %d, and there are %d levels", ErrMismatch, a.File.Num, a.Level, o.NumLevels)
		}
	}
	if f.cmp == nil {
		cmp, err := o.comparer(f.name, f.stored)
		if err != nil {
			return err
		}
		f.cmp = cmp
	}
	if f.base != nil && len(f.added)+len(f.deleted) == 0 {
		return nil
	}
	levels := make([][]*File, o.NumLevels)
	touched := make([]bool, o.NumLevels)
	for _, level := range f.deleted {
		touched[level] = true
	}
	added := slices.SortedFunc(maps.Values(f.added), func(a, b AddedFile) int { return compareDown(b.File.Num, a.File.Num) })
	for _, a := range added {
		touched[a.Level] = true
	}
	for level := range levels {
		old := f.base.Level(level)
		if !touched[level] {
			levels[level] = old
			continue
		}
		levels[level] = make([]*File, 0, len(old)+len(added))
		for _, file := range old {
			if _, gone := f.deleted[file.Num]; !gone {
				levels[level] = append(levels[level], file)
			}
		}
	}
	for _, a := range added {
		levels[a.Level] = append(levels[a.Level], a.File)
	}
	if f.base == nil {
		f.epoch = max(f.epoch, inferEpochs(f.cmp, levels))
	}
	for level, files := range levels {
		if !touched[level] {
			continue
		}
		sortLevel(f.cmp, level, files)
		if err := checkLevel(f.cmp, level, files); err != nil {
			return err
		}
	}
	f.version = newVersion(f.cmp, levels)
	if invariants.Enabled {
		if err := f.version.Check(f.cmp); err != nil {
			panic("manifest: " + err.Error())
		}
	}
	return nil
}

// inferEpochs gives every file an epoch if one of them has none, and returns the largest. The deepest level is the
// oldest and its files share one, as do those of each level above it; those of level 0 count up by their sequence
// numbers. Databases of releases before epochs need it.
func inferEpochs(cmp *kv.Comparer, levels [][]*File) uint64 {
	largest, missing := uint64(0), false
	for _, files := range levels {
		for _, f := range files {
			largest, missing = max(largest, f.Epoch), missing || f.Epoch == 0
		}
	}
	if !missing {
		return largest
	}
	epoch := uint64(0)
	for level := len(levels) - 1; level >= 0; level-- {
		files := levels[level]
		for _, f := range files {
			f.Epoch = 0
		}
		if len(files) > 0 && level > 0 {
			epoch++
		}
		if level == 0 {
			sortLevel(cmp, 0, files)
			slices.Reverse(files)
		}
		for _, f := range files {
			if level == 0 {
				epoch++
			}
			f.Epoch = epoch
		}
	}
	return epoch
}

// find returns the file with a number and its level, or nil. v may be nil.
func (v *Version) find(num uint64) (int, *File) {
	if v == nil {
		return 0, nil
	}
	for level := range v.levels {
		if f := v.fileOn(level, num); f != nil {
			return level, f
		}
	}
	return 0, nil
}

// fileOn returns the file with a number on a level, or nil.
func (v *Version) fileOn(level int, num uint64) *File {
	for _, f := range v.Level(level) {
		if f.Num == num {
			return f
		}
	}
	return nil
}
