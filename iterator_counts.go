package ashlar

import (
	"time"

	"github.com/ashlardb/ashlar/internal/stats"
)

// iteratorCounts are what an iterator has done since it was made, or refreshed. They are counted at its end, so that a
// move costs next to nothing more.
type iteratorCounts struct {
	seeks, seeksFound, nexts, nextsFound, prevs, prevsFound, skipped, reseeks, bytes uint64
}

// countMove counts a move, and returns whether it has come to an entry.
func (i *Iterator) countMove(moves, found *uint64, ok bool) bool {
	*moves++
	if ok {
		*found++
		i.counts.bytes += uint64(len(i.key) + len(i.value))
	}
	return ok
}

// seekStart returns the time for countSeek. An iterator that could not be made has nothing to measure with.
func (i *Iterator) seekStart() time.Time {
	if i.it == nil {
		return time.Time{}
	}
	return i.cf.db.hist.Start()
}

// countSeek is countMove for a seek that began at start.
func (i *Iterator) countSeek(start time.Time, ok bool) bool {
	if !start.IsZero() {
		i.cf.db.hist.Since(stats.DBSeek, start)
	}
	return i.countMove(&i.counts.seeks, &i.counts.seeksFound, ok)
}

// flushCounts hands on what was counted.
func (i *Iterator) flushCounts() {
	c := &i.counts
	s := i.cf.counts.Lock()
	for _, n := range [...]struct {
		k stats.Ticker
		n uint64
	}{
		{stats.NumberDBSeek, c.seeks}, {stats.NumberDBSeekFound, c.seeksFound}, {stats.NumberDBNext, c.nexts},
		{stats.NumberDBNextFound, c.nextsFound}, {stats.NumberDBPrev, c.prevs}, {stats.NumberDBPrevFound, c.prevsFound},
		{stats.NumberIterSkip, c.skipped}, {stats.NumberReseeksIteration, c.reseeks}, {stats.IterBytesRead, c.bytes},
		{stats.NumIteratorDeleted, 1},
	} {
		s.N[n.k] += n.n
	}
	s.Unlock()
	*c = iteratorCounts{}
}
