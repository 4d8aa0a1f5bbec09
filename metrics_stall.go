package ashlar

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// What stalls cost, by family and rule: how long a condition held, and how long it held writers back. The two differ: a
// family may be stopped for a minute in which nobody writes.

// WriteStalls are the stalls of a family since Open, by the rule behind them.
type WriteStalls struct {
	MemtableLimit, L0FileCountLimit, PendingCompactionBytes CauseStalls
	// L0DelaysWithOngoingCompaction and L0StopsWithOngoingCompaction are those by L0FileCountLimit that began while a
	// compaction of level 0 was running.
	L0DelaysWithOngoingCompaction, L0StopsWithOngoingCompaction uint64
}

// CauseStalls are the stalls by one rule.
type CauseStalls struct{ Delays, Stops StallTimes }

// StallTimes sum up conditions of one kind.
type StallTimes struct {
	// Count is how often the condition began, Duration how long it held, the present one until now.
	Count    uint64
	Duration time.Duration
	// Groups is how many write groups it held back, and HeldFor for how long together.
	Groups  uint64
	HeldFor time.Duration
}

func (t StallTimes) plus(u StallTimes) StallTimes {
	return StallTimes{t.Count + u.Count, t.Duration + u.Duration, t.Groups + u.Groups, t.HeldFor + u.HeldFor}
}

// Total is the sum over the rules.
func (w *WriteStalls) Total() CauseStalls {
	m, l, p := &w.MemtableLimit, &w.L0FileCountLimit, &w.PendingCompactionBytes
	return CauseStalls{m.Delays.plus(l.Delays).plus(p.Delays), m.Stops.plus(l.Stops).plus(p.Stops)}
}

// String is RocksDB's line, the property "rocksdb.cf-write-stall-stats": counts by RocksDB's names. RocksDB counts a
// condition each time it looks at it, here it counts once.
func (w *WriteStalls) String() string {
	total := w.Total()
	counts := []string{
		fmt.Sprint("cf-l0-file-count-limit-delays-with-ongoing-compaction: ", w.L0DelaysWithOngoingCompaction),
		fmt.Sprint("cf-l0-file-count-limit-stops-with-ongoing-compaction: ", w.L0StopsWithOngoingCompaction),
		fmt.Sprint("total-delays: ", total.Delays.Count),
		fmt.Sprint("total-stops: ", total.Stops.Count),
	}
	for cause, c := range map[stallCause]*CauseStalls{
		causeMemtable: &w.MemtableLimit, causeL0: &w.L0FileCountLimit, causePending: &w.PendingCompactionBytes,
	} {
		counts = append(counts, fmt.Sprint(cause, "-delays: ", c.Delays.Count), fmt.Sprint(cause, "-stops: ", c.Stops.Count))
	}
	slices.Sort(counts)
	return "Write Stall (count): " + strings.Join(counts, ", ") + "\n"
}

// dbWriteStallStats is the property "rocksdb.db-write-stall-stats". There is no limit over all memtables that stops
// writes.
const dbWriteStallStats = "Write Stall (count): write-buffer-manager-limit-stops: 0\n"

// stallRecord is what a family's stalls have cost. Guarded by db.mu.
type stallRecord struct {
	all   WriteStalls
	since time.Time // when the present condition began; zero for the first
}

// sums returns the place for a condition, nil if it holds nobody back.
func (r *stallRecord) sums(s stallState) *StallTimes {
	var c *CauseStalls
	switch s.cause {
	case causeMemtable:
		c = &r.all.MemtableLimit
	case causeL0:
		c = &r.all.L0FileCountLimit
	case causePending:
		c = &r.all.PendingCompactionBytes
	default:
		return nil
	}
	if s.kind == stallStop {
		return &c.Stops
	}
	return &c.Delays
}

// change notes a new condition and returns how long the one before held. level0Busy says whether a compaction of level 0
// is running.
func (r *stallRecord) change(from, to stallState, now time.Time, level0Busy bool) (held time.Duration) {
	if !r.since.IsZero() {
		held = now.Sub(r.since)
	}
	if s := r.sums(from); s != nil {
		s.Duration += held
	}
	if s := r.sums(to); s != nil {
		s.Count++
	}
	if to.cause == causeL0 && level0Busy {
		if to.kind == stallStop {
			r.all.L0StopsWithOngoingCompaction++
		} else {
			r.all.L0DelaysWithOngoingCompaction++
		}
	}
	r.since = now
	return held
}

// at returns the sums at a moment, in which the condition s holds.
func (r *stallRecord) at(s stallState, now time.Time) WriteStalls {
	copied := *r
	if sums := copied.sums(s); sums != nil {
		sums.Duration += now.Sub(r.since)
	}
	return copied.all
}

// actualDelayedWriteRate is what delayed writes get together, in bytes a second; 0 if none is delayed.
func (d *DB) actualDelayedWriteRate() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.delays.delayed == 0 {
		return 0
	}
	return d.delays.rate
}
