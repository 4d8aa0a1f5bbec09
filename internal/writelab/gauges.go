package writelab

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/writegroup"
)

// Gauges are distributions of what the groups of one or more queues did, in nanoseconds and members. The zero value is
// empty.
type Gauges struct {
	mu     sync.Mutex
	groups [2]kind // whose leader inserted alone, and spread ones
}

// The steps of a group on the leader's critical path, in their order, and what follows it.
const (
	hop     = iota // from being handed the lead to running
	prepare        // Prepare
	gather         // forming the group
	log            // Log
	launch         // making the leader's wakes; of spread groups
	insert         // from there to the last insert
	publish        // Publish, unless the group waited
	hand           // leaving the queue, and waking the next leader
	path           // all of these but the hop
	settle         // of a group that waited: until it was published; other groups run meanwhile
	tell           // saying done; the next group runs meanwhile
	steps
)

var stepNames = [steps]string{"hop", "prepare", "gather", "log", "launch", "insert", "publish", "handover", "path", "settle", "tell"}

// Who waits for the launch.
const (
	leader = iota
	helper
	called
	roles
)

var roleNames = [roles]string{"leader", "helper", "called"}

// kind is what one kind of group did.
type kind struct {
	members stats.Histogram
	steps   [steps]stats.Histogram
	skew    [roles]stats.Histogram // from the beginning of the launch to a member's insert, by role
	last    stats.Histogram        // the same of the last member to begin
}

// Add counts a group. It is what a writegroup.Queue calls as its Trace.
func (g *Gauges) Add(t *writegroup.Times) {
	g.mu.Lock()
	defer g.mu.Unlock()
	spread := len(t.Starts) > 0
	k := &g.groups[0]
	launched := t.Logged
	if spread {
		k = &g.groups[1]
		launched = t.Launched
	}
	k.members.Add(uint64(t.Members))
	add := func(step int, from, to time.Duration) { k.steps[step].Add(nanos(to - from)) }
	if t.Handed != 0 {
		add(hop, t.Handed, t.Elected)
	}
	add(prepare, t.Elected, t.Prepared)
	add(gather, t.Prepared, t.Gathered)
	add(log, t.Gathered, t.Logged)
	if spread {
		add(launch, t.Logged, t.Launched)
	}
	add(insert, launched, t.Inserted)
	add(path, t.Elected, t.HandedOver)
	ended := t.HandedOver
	if t.Waited {
		add(hand, min(t.Inserted, t.HandedOver), t.HandedOver)
		add(settle, t.HandedOver, t.Published)
		ended = t.Published
	} else {
		add(publish, t.Inserted, t.Published)
		add(hand, t.Published, t.HandedOver)
	}
	if t.Members > 1 {
		add(tell, ended, t.Told)
	}
	var last uint64
	for i, start := range t.Starts {
		skew := nanos(start - t.Logged)
		last = max(last, skew)
		k.skew[roleOf(i, t.Stride)].Add(skew)
	}
	if spread {
		k.last.Add(last)
	}
}

// nanos is d in nanoseconds. The last member's insert may end before the leader is done with its wakes, which makes the
// insert behind the launch less than nothing.
func nanos(d time.Duration) uint64 { return uint64(max(d, 0)) }

func roleOf(member, stride int) int {
	switch {
	case member == 0:
		return leader
	case member < stride:
		return helper
	}
	return called
}

// Critical returns the mean of a group's time on the critical path, and how many groups there were.
func (g *Gauges) Critical() (mean time.Duration, groups uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all stats.Histogram
	for i := range g.groups {
		all.Merge(&g.groups[i].steps[path])
	}
	return time.Duration(all.Average()), all.Count()
}

// String returns a line for each distribution that is not empty. Times are nanoseconds.
func (g *Gauges) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var s strings.Builder
	for i, name := range []string{"alone", "spread"} {
		k := &g.groups[i]
		line := func(what string, h *stats.Histogram) {
			if h.Count() > 0 {
				fmt.Fprintf(&s, "ashlar.write.%s.%s P50 : %f P95 : %f P99 : %f P100 : %f COUNT : %d SUM : %d\n", name, what,
					h.Percentile(50), h.Percentile(95), h.Percentile(99), h.Percentile(100), h.Count(), h.Sum())
			}
		}
		line("members", &k.members)
		for step := range k.steps {
			line(stepNames[step]+".nanos", &k.steps[step])
		}
		for role := range k.skew {
			line("skew."+roleNames[role]+".nanos", &k.skew[role])
		}
		line("skew.last.nanos", &k.last)
	}
	return s.String()
}
