package ashlar

import (
	"context"
	"time"

	"github.com/ashlardb/ashlar/internal/stats"
)

// Stalls. When flushes or compactions fall behind, writes are first slowed down and then stopped, by RocksDB's rules:
// decideStall says which rule holds for a family, the strictest over all families binds the whole database, and
// delayer turns a rate into waiting times. Both are free of clocks and locks; write.go does the waiting.

// stallKind is how strictly writes are held back.
type stallKind uint8

const (
	stallNone stallKind = iota
	// stallPressure: compactions fall behind; they get all background jobs, and low-priority writes wait.
	stallPressure
	stallDelay
	stallStop
)

func (k stallKind) String() string {
	return [...]string{"normal", "pressure", "delayed", "stopped"}[k]
}

// stallCause is the rule that holds, in RocksDB's words.
type stallCause string

const (
	causeNone     stallCause = ""
	causeMemtable stallCause = "memtable-limit"
	causeL0       stallCause = "l0-file-count-limit"
	causePending  stallCause = "pending-compaction-bytes"
)

// stallState is one family's condition.
type stallState struct {
	kind  stallKind
	cause stallCause
	// near is set when a delay is about to become a stop.
	near bool
}

// stallInput is what the rules look at.
type stallInput struct {
	unflushed   int // full memtables that wait for their flush
	l0          int // files of level 0
	pending     uint64
	bottommost  uint64 // bytes of the deepest level
	o           *ColumnFamilyOptions
	autoCompact bool
}

// decideStall returns the first rule that holds (RocksDB's order).
func decideStall(in stallInput) stallState {
	o := in.o
	soft, hard := o.SoftPendingCompactionBytesLimit, o.HardPendingCompactionBytesLimit
	switch {
	case in.unflushed >= o.MaxWriteBufferNumber:
		return stallState{kind: stallStop, cause: causeMemtable}
	case in.autoCompact && in.l0 >= o.Level0StopWritesTrigger:
		return stallState{kind: stallStop, cause: causeL0}
	case in.autoCompact && in.pending >= hard:
		return stallState{kind: stallStop, cause: causePending}
	case o.MaxWriteBufferNumber > 3 && in.unflushed >= o.MaxWriteBufferNumber-1:
		return stallState{kind: stallDelay, cause: causeMemtable}
	case in.autoCompact && in.l0 >= o.Level0SlowdownWritesTrigger:
		return stallState{kind: stallDelay, cause: causeL0, near: in.l0 >= o.Level0StopWritesTrigger-2}
	case in.autoCompact && in.pending >= soft:
		return stallState{kind: stallDelay, cause: causePending, near: in.pending >= soft+(hard-soft)/4*3}
	case !in.autoCompact:
		return stallState{}
	}
	trigger, slow := o.Level0FileNumCompactionTrigger, o.Level0SlowdownWritesTrigger
	if in.l0 >= min(2*trigger, trigger+(slow-trigger)/4) ||
		in.pending >= min(soft/4, max(in.bottommost/8, 2*o.MaxBytesForLevelBase)) {
		return stallState{kind: stallPressure}
	}
	return stallState{}
}

const (
	minDelayRate  = 16 << 10
	maxDelayRate  = 1 << 50 // stands for NoLimit, and leaves room to calculate
	refillEvery   = time.Millisecond
	delayStep     = 1001 * time.Microsecond
	lowPriInitial = 1 << 20
)

// delayer hands out the bytes that delayed writes may take. Its methods get the time; it has no clock.
type delayer struct {
	max  uint64 // DelayedWriteRate
	rate uint64
	on   bool
	// pending is the compaction debt when the delay was last looked at.
	pending uint64

	credit float64
	refill time.Time
}

// set follows a change of state: into a delay, deeper into it, or out of it.
func (d *delayer) set(s stallState, pending uint64, wasStopped bool) {
	if s.kind != stallDelay {
		if d.on && s.kind < stallDelay {
			d.on = false
			d.rate = min(d.max, d.rate*14/10)
		}
		return
	}
	if !d.on {
		d.on, d.pending, d.credit, d.refill = true, pending, 0, time.Time{}
		if wasStopped {
			d.rate = max(minDelayRate, d.rate*6/10)
		}
		return
	}
	switch {
	case s.near || wasStopped:
		d.rate = max(minDelayRate, d.rate*6/10)
	case d.pending > 0 && pending >= d.pending:
		d.rate = max(minDelayRate, d.rate*8/10)
	case pending < d.pending:
		d.rate = min(d.max, d.rate*125/100)
	}
	d.pending = pending
}

// delay returns how long a write of n bytes has to wait at time now.
func (d *delayer) delay(now time.Time, n int) time.Duration {
	if !d.on || n == 0 {
		return 0
	}
	rate := float64(d.rate)
	if d.refill.IsZero() {
		d.refill, d.credit = now.Add(refillEvery), rate*refillEvery.Seconds()
	} else if !now.Before(d.refill) {
		d.credit += (now.Sub(d.refill) + refillEvery).Seconds() * rate
		d.refill = now.Add(refillEvery)
	}
	if d.credit >= float64(n) {
		d.credit -= float64(n)
		return 0
	}
	missing := time.Duration((float64(n) - d.credit) / rate * float64(time.Second))
	d.credit = 0
	d.refill = d.refill.Add(missing)
	return max(d.refill.Sub(now), refillEvery)
}

// updateStallLocked looks at a family anew after its tree changed, and wakes who waits for that.
func (d *DB) updateStallLocked(cf *ColumnFamily) {
	var s stallState
	if !cf.dropped.Load() {
		v := cf.tree.VersionLocked()
		cf.pending = cf.picker.PendingBytes(v)
		s = decideStall(stallInput{
			unflushed: len(cf.tree.ImmLocked()), l0: len(v.Level(0)), pending: cf.pending,
			bottommost: v.Size(v.NumLevels() - 1), o: &cf.opts,
			autoCompact: !cf.opts.DisableAutoCompactions,
		})
	}
	if s.kind != cf.stall.kind {
		from := cf.stall.kind.String()
		d.eventLocked(func() {
			d.log.Info("write stall", "family", cf.name, "from", from, "to", s.kind.String(), "cause", string(s.cause))
			if f := d.opts.Listener.OnStallConditionsChanged; f != nil {
				f(StallInfo{ColumnFamily: cf.name, Condition: s.kind.String(), Cause: string(s.cause)})
			}
		})
	}
	wasStopped := d.stall.kind == stallStop
	cf.stall = s
	worst := stallState{}
	pending := uint64(0)
	for _, c := range *d.families.Load() {
		if c == nil {
			continue
		}
		if c.stall.kind > worst.kind || c.stall.kind == worst.kind && c.stall.near {
			worst, pending = c.stall, c.pending
		}
	}
	d.delays.set(worst, pending, wasStopped && worst.kind != stallStop)
	d.stall = worst
	d.stalled.Store(uint32(worst.kind))
	d.cond.Broadcast()
}

// waitForRoom holds the leader back while the database is stalled. Writers who come meanwhile queue up behind it; those
// that must not wait leave with ErrIncomplete.
func (d *DB) waitForRoom(c *commit) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	start := time.Time{}
	defer func() {
		if !start.IsZero() {
			d.writes.EndStall()
			held := uint64(time.Since(start).Microseconds())
			d.counters.stallMicros.Add(held)
			d.hist.Add(stats.WriteStall, held)
		}
	}()
	begin := func() error {
		if c.opts.NoSlowdown {
			return ErrIncomplete
		}
		if start.IsZero() {
			start = time.Now()
			d.writes.BeginStall(func(w *commit) error {
				if w.opts.NoSlowdown {
					return ErrIncomplete
				}
				return nil
			})
		}
		return nil
	}
	var until time.Time
	for {
		if err := d.writable(); err != nil {
			return err
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
		switch {
		case d.stall.kind == stallStop:
			if err := begin(); err != nil {
				return err
			}
			d.waitLocked(c, 0)
			continue
		case d.stall.kind == stallDelay && until.IsZero():
			wait := d.delays.delay(time.Now(), d.lastGroup)
			if wait == 0 {
				return nil
			}
			until = time.Now().Add(wait)
		case c.opts.LowPri && d.stall.kind == stallPressure && until.IsZero():
			until = time.Now().Add(time.Duration(float64(c.batch.Len()) / lowPriInitial * float64(time.Second)))
		case until.IsZero() || d.stall.kind < stallDelay && !c.opts.LowPri || !time.Now().Before(until):
			return nil
		}
		if err := begin(); err != nil {
			return err
		}
		d.waitLocked(c, min(delayStep, time.Until(until)))
	}
}

// waitLocked waits for a change of state, for the commit's context to end, or for a while, if that is not 0.
func (d *DB) waitLocked(c *commit, while time.Duration) {
	wake := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.cond.Broadcast()
	}
	if while > 0 {
		t := time.AfterFunc(while, wake)
		defer t.Stop()
	}
	if c.ctx.Done() != nil {
		stop := context.AfterFunc(c.ctx, wake)
		defer stop()
	}
	d.cond.Wait()
}
