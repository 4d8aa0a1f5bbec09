package etcdraft

import (
	"slices"
	"sort"
)

// logSizes knows how many bytes parts of a log have, to within a step: it has a mark every step bytes, not a number for
// every entry.
//
//	entries   | 1 | 2 |  3  | 4 |   5   | 6 |
//	marks                ^ at 3          ^ at 5      total: bytes of all entries up to there
//
// raftLog's mu guards it.
type logSizes struct {
	step  uint64
	begin sizeMark // the entry before the first
	marks []sizeMark
	end   uint64 // bytes up to the last entry
}

type sizeMark struct{ index, total uint64 }

// newLogSizes is for who keeps the given number of bytes.
func newLogSizes(keep uint64) logSizes { return logSizes{step: max(keep/16, 1)} }

// add counts an entry that was appended.
func (s *logSizes) add(index, size uint64) {
	s.end += size
	if s.end-s.floor(index).total >= s.step {
		s.marks = append(s.marks, sizeMark{index, s.end})
	}
}

// truncate forgets the entries from index on, which are replaced. Up to a step of those before is forgotten too.
func (s *logSizes) truncate(index uint64) {
	n := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].index >= index })
	if n < len(s.marks) {
		s.marks = s.marks[:n]
		s.end = s.floor(index).total
	}
}

// cut forgets the entries up to index, which leave the log.
func (s *logSizes) cut(index uint64) {
	s.begin = sizeMark{index, s.floor(index).total}
	n := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].index > index })
	s.marks = slices.Delete(s.marks, 0, n)
}

// floor returns the last mark up to index.
func (s *logSizes) floor(index uint64) sizeMark {
	n := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].index > index })
	if n == 0 {
		return s.begin
	}
	return s.marks[n-1]
}

// between returns how many bytes the entries behind one index have, up to another.
func (s *logSizes) between(from, to uint64) uint64 {
	return s.floor(to).total - min(s.floor(from).total, s.floor(to).total)
}

// before returns the last mark that has at least so many bytes behind it, up to index.
func (s *logSizes) before(index, bytes uint64) uint64 {
	end := s.floor(index).total
	n := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].total+bytes > end })
	if n == 0 {
		return s.begin.index
	}
	return s.marks[n-1].index
}
