package writegroup

import "time"

// Times are one group's way through the queue: how long after the process's start it got where. The differences are what
// counts. Elected to HandedOver is the critical path: what the next group waits for.
//
//	Handed      the one before made the leader leader; 0 if the queue was empty
//	Elected     the leader runs
//	Prepared    Prepare has returned
//	Gathered    the group is formed
//	Logged      Log has returned. The launch of a spread group begins
//	Launched    the leader has made its wakes, of a spread group
//	Inserted    every work is inserted
//	Published   readers see it
//	HandedOver  the group has left the queue, and the next one leads
//	Told        who ended the group has told its share of the members that they are done
type Times struct {
	Handed, Elected, Prepared, Gathered, Logged, Launched, Inserted, Published, HandedOver, Told time.Duration

	// Waited says that the lead was handed over before the group was published: it was behind a sync, its own or one
	// before, or the queue is pipelined. Published is later than HandedOver then; in a pipelined queue Inserted is too.
	Waited bool
	// Members is the size of the group. Members 1 to Stride-1 are its helpers.
	Members, Stride int
	// Starts is when each member of a spread group began to insert; the leader is the first. Empty for other groups.
	Starts []time.Duration
}

// epoch is what Times count from.
var epoch = time.Now()

// clock returns the time in a traced queue, else 0.
func (q *Queue[W]) clock() time.Duration {
	if q.Trace == nil {
		return 0
	}
	return time.Since(epoch)
}

// stamp stores the time, in a traced queue only.
func (q *Queue[W]) stamp(t *time.Duration) {
	if q.Trace != nil {
		*t = time.Since(epoch)
	}
}

func (t *Times) begin(handed, elected, prepared time.Duration) {
	*t = Times{Handed: handed, Elected: elected, Prepared: prepared, Gathered: time.Since(epoch), Starts: t.Starts[:0]}
}

// spread makes room for the starts of n members.
func (t *Times) spread(n int) {
	if cap(t.Starts) < n {
		t.Starts = make([]time.Duration, n)
	}
	t.Starts = t.Starts[:n]
}

// traced gives away the times of a group that has ended.
func (q *Queue[W]) traced(g *Group[W], stride int) {
	if q.Trace == nil {
		return
	}
	q.stamp(&g.times.Told)
	g.times.Members, g.times.Stride = len(g.seats), stride
	q.Trace(&g.times)
}
