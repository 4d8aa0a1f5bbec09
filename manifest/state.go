package manifest

// What the edits add up to. A state never changes: Apply makes a new one and swaps the pointer, and whoever loaded the
// old one goes on reading it. Only versions are counted; the rest is left to the garbage collector.

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ashlardb/ashlar/internal/kv"
)

// DefaultFamily is the name of family 0, which always exists.
const DefaultFamily = "default"

// ErrMismatch is matched by errors about a database that does not fit what it is opened with: another comparer, fewer
// levels than have files.
var ErrMismatch = errors.New("the options do not fit the database")

// ErrNoFamily is matched by the error of an Apply for a family that does not exist, or no longer.
var ErrNoFamily = errors.New("there is no family")

// family is one family in a state.
type family struct {
	id        uint32
	name      string
	cmp       *kv.Comparer
	logNumber uint64
	epoch     uint64 // of the newest file ever; the next flush gets one more
	version   *Version
}

// state is what all edits so far add up to.
type state struct {
	families  map[uint32]*family
	lastSeq   kv.Seq
	minLog    uint64 // the least number of a log that recovery needs; never less than it was
	maxFamily uint32
	dbid      string
}

// ids are the families' ids, ascending.
func (s *state) ids() []uint32 { return slices.Sorted(maps.Keys(s.families)) }

// raiseMinLog makes minLog what no family needs any more, if that is more than what is known already. A new family may
// begin with log number 0 without bringing old logs back. kept is the least log needed for other reasons.
func (s *state) raiseMinLog(kept uint64) {
	least := kept
	for _, f := range s.families {
		least = min(least, f.logNumber)
	}
	s.minLog = max(s.minLog, least)
}

// records are the edits that make s out of nothing. Next is the next file number to be recorded.
func (s *state) records(next uint64) []*Edit {
	var all []*Edit
	if s.dbid != "" {
		all = append(all, &Edit{DBID: s.dbid})
	}
	for _, id := range s.ids() {
		f := s.families[id]
		named := &Edit{Family: id, Comparer: f.cmp.Name}
		if id != 0 {
			named.AddFamily = f.name
		}
		full := &Edit{Family: id, LogNumber: &f.logNumber, LastSeq: &s.lastSeq}
		for level, file := range f.version.All() {
			full.Add = append(full.Add, AddedFile{level, file})
		}
		all = append(all, named, full)
	}
	return append(all, &Edit{
		PrevLog: new(uint64(0)), NextFile: &next, MaxFamily: &s.maxFamily, MinLogToKeep: &s.minLog, LastSeq: &s.lastSeq,
	})
}

// byNumber is every file of every family. A number that two of them have is an error.
func (s *state) byNumber() (map[uint64]*File, error) {
	all := make(map[uint64]*File)
	for _, id := range s.ids() {
		for _, f := range s.families[id].version.All() {
			if all[f.Num] != nil {
				return nil, fmt.Errorf("file %06d is in two families", f.Num)
			}
			all[f.Num] = f
		}
	}
	return all, nil
}
