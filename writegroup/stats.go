package writegroup

import (
	"math/bits"
	"sync/atomic"
)

// Stats says what a queue has done since it was made.
type Stats struct {
	Groups uint64 // groups that were published, failed ones included
	Works  uint64 // works in them
	Spread uint64 // groups whose members inserted for themselves
	Syncs  uint64 // each for all groups that waited for one when it began
	// Sizes counts groups by size: Sizes[i] had 2^i to 2^(i+1)-1 works, and the last one had more.
	Sizes [16]uint64
	// Wakes of members, to insert or because their group was done: by its leader, and by its helpers.
	LeaderWakes, HelperWakes uint64
	// Parks and Yields count waits in the queue by how they ended: asleep, or while the writer still let others run.
	Parks, Yields uint64
}

// counters are what Stats is read from. A writer without company touches one of them.
type counters struct {
	sizes         [16]atomic.Uint64
	works         atomic.Uint64 // in groups of more than one
	spread        atomic.Uint64
	syncs         atomic.Uint64
	leaderWakes   atomic.Uint64
	helperWakes   atomic.Uint64
	parks, yields atomic.Uint64
}

func (c *counters) group(n int, spread bool) {
	c.sizes[min(bits.Len(uint(n))-1, len(c.sizes)-1)].Add(1)
	if n > 1 {
		c.works.Add(uint64(n))
	}
	if spread {
		c.spread.Add(1)
	}
}

// waits counts waits that were ended, of which some were asleep.
func (c *counters) waits(n, slept int) {
	if slept > 0 {
		c.parks.Add(uint64(slept))
	}
	if n > slept {
		c.yields.Add(uint64(n - slept))
	}
}

// Stats returns the queue's counts. They are read one by one while writers go on.
func (q *Queue[W]) Stats() Stats {
	c := &q.counts
	s := Stats{
		Spread: c.spread.Load(), Syncs: c.syncs.Load(),
		LeaderWakes: c.leaderWakes.Load(), HelperWakes: c.helperWakes.Load(),
		Parks: c.parks.Load(), Yields: c.yields.Load(),
	}
	for i := range c.sizes {
		s.Sizes[i] = c.sizes[i].Load()
		s.Groups += s.Sizes[i]
	}
	s.Works = c.works.Load() + s.Sizes[0]
	return s
}
