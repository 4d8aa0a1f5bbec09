package manifest

// One Apply at a time changes things; everybody else reads atomics.
//
//  1. mu is held by Apply from its first look to the installed versions, across writing and syncing the manifest.
//  2. state is swapped after the edits are on disk and install has returned. A state that was loaded stays readable; a
//     version in it must be taken with tryRef, since the set's own reference may be given back any moment.
//  3. next only grows, through failures too: a number that went into a manifest, however that ended, is not used again.
//  4. writer is nil when nothing may be appended: after Recover, and after any failed write, sync or switch. The next
//     Apply begins a new manifest.
//  5. Files named by an edit belong to the set from the call of Apply on, however it ends: after a failure the edit may
//     be on disk all the same. They wait in claimed, and the next success tells which of them nobody needs.
//  6. OnObsolete is called with no lock of the set held.

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/wal"
)

// DefaultNumLevels is the number of levels when Options says nothing.
const DefaultNumLevels = 7

// Options are what a VersionSet is opened with. The zero value is right for tests.
type Options struct {
	// Comparer returns the order that the caller wants for a family. stored is the name in the manifest; it is empty when
	// the family is new. nil, or a function that returns nil, leaves the choice to stored, among the built-in orders.
	Comparer func(family, stored string) *kv.Comparer
	// NumLevels is the number of levels of every family; 0 is DefaultNumLevels.
	NumLevels int
	// OnObsolete is called once for each file that no version names any more. It is called by whoever gives the last
	// reference back, which may be any goroutine with any lock, so it should do no more than put the file into a queue.
	OnObsolete func(*File)
	// MaxManifestSize is the size in bytes from which a manifest may be replaced by a new one; it is, as soon as it is
	// also five times as long as its snapshot. 0 is 16 MiB.
	MaxManifestSize int64
	// KeepLogs, if set, returns the oldest log that is needed though no family needs it, or the largest number: MinLogToKeep
	// does not rise above it. It is called with the set's mutex held and may take the database's.
	KeepLogs func() uint64
	// DBID is the database's id, written into the manifest if that has none.
	DBID string
	// Logf, if set, is told what a reader of the database's LOG should know.
	Logf func(format string, args ...any)
}

func (o *Options) withDefaults() *Options {
	own := *o
	if own.NumLevels <= 0 {
		own.NumLevels = DefaultNumLevels
	}
	own.NumLevels = min(own.NumLevels, MaxLevels)
	if own.MaxManifestSize <= 0 {
		own.MaxManifestSize = 16 << 20
	}
	if own.OnObsolete == nil {
		own.OnObsolete = func(*File) {}
	}
	if own.Logf == nil {
		own.Logf = func(string, ...any) {}
	}
	return &own
}

// comparer finds a family's order, or says why there is none.
func (o *Options) comparer(family, stored string) (*kv.Comparer, error) {
	var cmp *kv.Comparer
	if o.Comparer != nil {
		cmp = o.Comparer(family, stored)
	}
	switch {
	case cmp != nil && stored != "" && cmp.Name != stored:
		return nil, fmt.Errorf("%w: its keys are in the order of comparer %q, not %q", ErrMismatch, stored, cmp.Name)
	case cmp != nil:
		return cmp, nil
	case stored == "" || stored == kv.Bytewise.Name:
		return kv.Bytewise, nil
	case stored == kv.ReverseBytewise.Name:
		return kv.ReverseBytewise, nil
	}
	return nil, fmt.Errorf("%w: its keys are in the order of comparer %q, which is not known", ErrMismatch, stored)
}

// VersionSet is the current versions of all families and the manifest that remembers them.
type VersionSet struct {
	// Constant.
	fs  vfs.FS
	dir string
	o   *Options
	// firstLog is what FirstLog returns.
	firstLog uint64

	// Atomics.
	next       atomic.Uint64 // the next free file number
	nextFamily atomic.Uint32 // the next free family id
	state      atomic.Pointer[state]
	number     atomic.Uint64 // of the manifest that CURRENT names, as far as is known

	// Guarded by mu.
	mu       sync.Mutex
	writer   *wal.Writer
	snapshot int64    // bytes of the manifest's snapshot
	failed   []uint64 // manifests that may or may not be the one that CURRENT names, beside number
	closed   bool

	// Guarded by live.
	live     sync.Mutex // a leaf
	versions map[*Version]struct{}
	claimed  map[uint64]*File // files named by edits that are not known to be on disk
	obsolete []uint64         // manifests to be deleted
}

func newSet(fsys vfs.FS, dir string, o Options) *VersionSet {
	vs := &VersionSet{
		fs: fsys, dir: dir, o: o.withDefaults(), versions: make(map[*Version]struct{}), claimed: make(map[uint64]*File),
	}
	vs.next.Store(1)
	return vs
}

// Create makes the manifest of a new database, with an empty default family, and CURRENT. The directory exists and has
// no CURRENT; if it has one, the error matches fs.ErrExist.
func Create(fsys vfs.FS, dir string, o Options) (*VersionSet, error) {
	if err := checkNoCurrent(fsys, dir); err != nil {
		return nil, err
	}
	vs := newSet(fsys, dir, o)
	s, err := newBuilder(vs.o, nil).finish()
	if err != nil {
		return nil, err
	}
	s.dbid = vs.o.DBID
	vs.begin(s)
	if err := vs.Apply(nil, nil); err != nil {
		return nil, err
	}
	return vs, nil
}

// begin sets the state that recovery found. Nobody else knows the set yet.
func (vs *VersionSet) begin(s *state) {
	for _, f := range s.families {
		vs.adopt(f.version)
	}
	vs.nextFamily.Store(s.maxFamily + 1)
	vs.state.Store(s)
}

// FamilyInfo is a family as the manifest knows it.
type FamilyInfo struct {
	ID             uint32
	Name, Comparer string
	LogNumber      uint64
	// Version is current now. It comes without a reference: whoever lets an Apply come between uses Current instead.
	Version *Version
}

// Families lists the families by id.
func (vs *VersionSet) Families() []FamilyInfo {
	s := vs.state.Load()
	var all []FamilyInfo
	for _, id := range s.ids() {
		f := s.families[id]
		all = append(all, FamilyInfo{ID: id, Name: f.name, Comparer: f.cmp.Name, LogNumber: f.logNumber, Version: f.version})
	}
	return all
}

// Current returns a family's current version with a reference, which the caller gives back with Unref. It is nil when
// there is no such family.
func (vs *VersionSet) Current(family uint32) *Version {
	for {
		f := vs.state.Load().families[family]
		if f == nil {
			return nil
		}
		if f.version.tryRef() {
			return f.version
		}
	}
}

// NewFileNum takes the next free file number.
func (vs *VersionSet) NewFileNum() uint64 { return vs.next.Add(1) - 1 }

// MarkFileNumUsed makes NewFileNum and the next edits pass over n, which was found in the directory.
func (vs *VersionSet) MarkFileNumUsed(n uint64) {
	for {
		next := vs.next.Load()
		if n < next || vs.next.CompareAndSwap(next, n+1) {
			return
		}
	}
}

// NewFamilyID takes the next free family id. Ids are never used again, dropped or not.
func (vs *VersionSet) NewFamilyID() uint32 { return vs.nextFamily.Add(1) - 1 }

// LastSeq is the last sequence number that the manifest knows of. The logs may hold later ones.
func (vs *VersionSet) LastSeq() kv.Seq { return vs.state.Load().lastSeq }

// LogNumber is the number of the oldest log that may hold something for a family. A family that does not exist needs
// none: the answer is the largest number.
func (vs *VersionSet) LogNumber(family uint32) uint64 {
	if f := vs.state.Load().families[family]; f != nil {
		return f.logNumber
	}
	return fname.MaxNum
}

// MinLogToKeep is the number of the oldest log that recovery would need.
func (vs *VersionSet) MinLogToKeep() uint64 { return vs.state.Load().minLog }

// FirstLog is the number of the oldest log that recovery is to read, if it is there. It is MinLogToKeep, or less where the
// manifest that Recover read says so: logs before MinLogToKeep may hold what was prepared for a two-phase commit.
func (vs *VersionSet) FirstLog() uint64 { return vs.firstLog }

// DBID is the database's id, empty if nobody gave it one.
func (vs *VersionSet) DBID() string { return vs.state.Load().dbid }

// ManifestNumber is the number of the manifest in use.
func (vs *VersionSet) ManifestNumber() uint64 { return vs.number.Load() }

// ObsoleteManifests hands out the manifests that are of no use any more, each number once. The caller deletes the files,
// of which some may never have come to be.
func (vs *VersionSet) ObsoleteManifests() []uint64 {
	vs.live.Lock()
	defer vs.live.Unlock()
	nums := vs.obsolete
	vs.obsolete = nil
	return nums
}

// LiveFiles returns the numbers of all tables that must stay: those that a version names which somebody holds, and those
// of edits that may be on disk although Apply has not succeeded (yet).
func (vs *VersionSet) LiveFiles() map[uint64]struct{} {
	vs.live.Lock()
	defer vs.live.Unlock()
	nums := make(map[uint64]struct{})
	for v := range vs.versions {
		for _, f := range v.All() {
			nums[f.Num] = struct{}{}
		}
	}
	for num := range vs.claimed {
		nums[num] = struct{}{}
	}
	return nums
}

// Close closes the manifest. The current versions stay readable and their files are not made obsolete; Apply fails from
// now on with an error that matches fs.ErrClosed.
func (vs *VersionSet) Close() error {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if vs.closed {
		return nil
	}
	vs.closed = true
	if vs.writer == nil {
		return nil
	}
	err := vs.writer.Close()
	vs.writer = nil
	return err
}

// Apply writes edits to the manifest as one atomic group. When they are on disk it calls install, and after that the new
// versions are current.
//
// install gets one version for each edit: what its family has after all of them. It is the old one if no file came or
// went, and nil for a family that was dropped. The set holds a reference to each until a later Apply replaces it;
// install takes its own with Ref for what it keeps. It runs under the set's mutex, so it may take the database's, and
// must not call Apply. It may be nil.
//
// Apply fills in what edits leave out: NextFile, LastSeq, MaxFamily, MinLogToKeep, the epochs of new files that have
// none, and the marks of the group. It writes into the added files (Epoch) but not into the edits. An edit that creates
// or drops a family comes alone.
//
// If Apply fails nothing has changed in memory, but on disk the edits may have happened. So files that the edits add must
// not be deleted by the caller, whatever Apply returns: they go to OnObsolete when a later Apply has settled that they are
// not needed. Trying again with the same files is allowed. Edits that make no sense are refused before anything is written.
//
// Apply without edits begins a new manifest if one is due, and does nothing otherwise.
func (vs *VersionSet) Apply(edits []*Edit, install func([]*Version)) error {
	vs.mu.Lock()
	retired, unneeded, err := vs.applyLocked(edits, install)
	vs.mu.Unlock()
	for _, v := range retired {
		v.Unref()
	}
	for _, f := range unneeded {
		vs.o.OnObsolete(f)
	}
	return err
}

// applyLocked returns the versions that are current no more and the files of failed edits that are needed no more.
func (vs *VersionSet) applyLocked(edits []*Edit, install func([]*Version)) (retired []*Version, unneeded []*File, err error) {
	if vs.closed {
		return nil, nil, fmt.Errorf("manifest of %s: %w", vs.dir, fs.ErrClosed)
	}
	old := vs.state.Load()
	vs.claim(old, edits)
	full, numbered, err := vs.complete(old, edits)
	defer func() {
		if err != nil {
			for _, f := range numbered {
				f.Epoch = 0
			}
		}
	}()
	if err != nil {
		return nil, nil, err
	}
	b := newBuilder(vs.o, old)
	for _, e := range full {
		if err := b.apply(e); err != nil {
			return nil, nil, fmt.Errorf("edit refused: %w", err)
		}
	}
	s, err := b.finish()
	if err != nil {
		return nil, nil, fmt.Errorf("edit refused: %w", err)
	}
	settle(full, old, s)
	vs.MarkFileNumUsed(b.maxNum)
	if err := vs.write(old, full); err != nil {
		return nil, nil, err
	}
	retired, unneeded = vs.swap(old, s, edits, install)
	return retired, unneeded, nil
}

// claim puts the files that edits bring along into the set's care.
func (vs *VersionSet) claim(s *state, edits []*Edit) {
	vs.live.Lock()
	defer vs.live.Unlock()
	for _, e := range edits {
		f := s.families[e.Family]
		for _, a := range e.Add {
			if f != nil {
				if _, known := f.version.find(a.File.Num); known != nil {
					continue
				}
			}
			vs.claimed[a.File.Num] = a.File
		}
	}
}

// complete returns copies of edits with all that does not depend on the new state, and the files that got an epoch.
func (vs *VersionSet) complete(s *state, edits []*Edit) (full []*Edit, numbered []*File, err error) {
	epochs := make(map[uint32]uint64)
	for i, e := range edits {
		if e.AddFamily != "" || e.DropFamily {
			if len(edits) > 1 {
				return nil, numbered, errors.New("edit refused: one that creates or drops a family comes alone")
			}
			if e.AddFamily != "" && e.Family <= s.maxFamily {
				return nil, numbered, fmt.Errorf("edit refused: family id %d has been used", e.Family)
			}
		}
		own := *e
		own.InGroup, own.Remaining = len(edits) > 1, uint32(len(edits)-1-i)
		own.PrevLog = new(uint64(0))
		if own.AddFamily != "" && own.Comparer == "" {
			cmp, err := vs.o.comparer(own.AddFamily, "")
			if err != nil {
				return nil, numbered, err
			}
			own.Comparer = cmp.Name
		}
		f := s.families[e.Family]
		if f != nil {
			epochs[e.Family] = max(epochs[e.Family], f.epoch)
		}
		own.Add = slices.Clone(e.Add)
		for i, a := range own.Add {
			if f != nil {
				// Moved: there is one description for each number, or its references would be counted apart.
				if _, known := f.version.find(a.File.Num); known != nil {
					own.Add[i].File = known
					continue
				}
			}
			if a.File.Epoch == 0 {
				epochs[e.Family]++
				a.File.Epoch = epochs[e.Family]
				numbered = append(numbered, a.File)
			}
			epochs[e.Family] = max(epochs[e.Family], a.File.Epoch)
		}
		full = append(full, &own)
	}
	return full, numbered, nil
}

// settle gives the edits what is known only with the state that they lead to.
func settle(full []*Edit, old, s *state) {
	for _, e := range full {
		e.LastSeq = &s.lastSeq
		if e.AddFamily != "" || e.DropFamily {
			e.MaxFamily = &s.maxFamily
		}
		if s.minLog > old.minLog {
			e.MinLogToKeep = &s.minLog
		}
	}
}

// swap makes s the state. What the edits added is in versions now or in none.
func (vs *VersionSet) swap(old, s *state, edits []*Edit, install func([]*Version)) (retired []*Version, unneeded []*File) {
	for id, f := range s.families {
		if was := old.families[id]; was == nil || was.version != f.version {
			vs.adopt(f.version)
		}
	}
	if install != nil {
		versions := make([]*Version, len(edits))
		for i, e := range edits {
			if f := s.families[e.Family]; f != nil {
				versions[i] = f.version
			}
		}
		install(versions)
	}
	vs.state.Store(s)
	for id, was := range old.families {
		if f := s.families[id]; f == nil || was.version != f.version {
			retired = append(retired, was.version)
		}
	}
	return retired, vs.settleClaims()
}

// settleClaims empties claimed and returns the files in it that no version names.
func (vs *VersionSet) settleClaims() (unneeded []*File) {
	vs.live.Lock()
	defer vs.live.Unlock()
	for _, f := range vs.claimed {
		if f.refs.Load() == 0 {
			unneeded = append(unneeded, f)
		}
	}
	clear(vs.claimed)
	return unneeded
}

// adopt makes v a version of the set: its files are counted until it is dead.
func (vs *VersionSet) adopt(v *Version) {
	v.dead = vs.bury
	vs.live.Lock()
	defer vs.live.Unlock()
	vs.versions[v] = struct{}{}
	for _, f := range v.All() {
		f.refs.Add(1)
	}
}

// bury gives up a dead version's files.
func (vs *VersionSet) bury(v *Version) {
	var obsolete []*File
	vs.live.Lock()
	delete(vs.versions, v)
	for _, f := range v.All() {
		if f.refs.Add(-1) == 0 {
			obsolete = append(obsolete, f)
		}
	}
	vs.live.Unlock()
	for _, f := range obsolete {
		vs.o.OnObsolete(f)
	}
}
