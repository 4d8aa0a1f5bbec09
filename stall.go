package ashlar

import (
	"context"
	"time"

	"github.com/ashlardb/ashlar/internal/stats"
)

// Stalls. When flushes or compactions fall behind, writes are first slowed down and then stopped, by RocksDB's rules:
// decideStall says which rule holds for a family, the strictest over all families binds the whole database, and
// delayer turns a rate into waiting times. Both are free of clocks and locks; waitForRoom does the waiting, for the leader
// and so for everyone behind it, and metrics_stall.go counts who was held back by what.

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
	unflushed  int // full memtables that wait for their flush
	l0         int // files of level 0
	pending    uint64
	bottommost uint64 // bytes of the deepest level with files; the few files above it with nothing below are not counted
	o          *ColumnFamilyOptions
}

// decideStall returns the first rule that holds, in RocksDB's order. Where compactions are left to the user, what waits
// for them holds nobody back.
func decideStall(in stallInput) stallState {
	o, auto := in.o, !in.o.DisableAutoCompactions
	soft, hard := o.SoftPendingCompactionBytesLimit, o.HardPendingCompactionBytesLimit
	switch {
	case in.unflushed >= o.MaxWriteBufferNumber:
		return stallState{kind: stallStop, cause: causeMemtable}
	case auto && in.l0 >= o.Level0StopWritesTrigger:
		return stallState{kind: stallStop, cause: causeL0}
	case auto && in.pending >= hard:
		return stallState{kind: stallStop, cause: causePending}
	case o.MaxWriteBufferNumber > 3 && in.unflushed >= o.MaxWriteBufferNumber-1:
		return stallState{kind: stallDelay, cause: causeMemtable}
	case auto && in.l0 >= o.Level0SlowdownWritesTrigger:
		return stallState{kind: stallDelay, cause: causeL0, near: in.l0 >= o.Level0StopWritesTrigger-2}
	case auto && in.pending >= soft:
		return stallState{kind: stallDelay, cause: causePending, near: in.pending-soft > threeQuarters(hard-soft)}
	case in.l0 >= pressingFiles(o) || in.pending >= pressingBytes(o, in.bottommost):
		return stallState{kind: stallPressure}
	}
	return stallState{}
}

func threeQuarters(n uint64) uint64 { return n - n/4 - min(n%4, 1) }

// pressingFiles is how many files of level 0 put compactions under pressure: a quarter of the way to the slowdown, at the
// most twice the trigger.
func pressingFiles(o *ColumnFamilyOptions) int {
	trigger, slow := o.Level0FileNumCompactionTrigger, o.Level0SlowdownWritesTrigger
	return min(2*trigger, trigger+(slow-trigger)/4)
}

// pressingBytes is how many bytes that wait for compactions do: a quarter of the soft limit, or an eighth of what has come
// to rest at the bottom, but not less than one filling of the base level makes.
func pressingBytes(o *ColumnFamilyOptions, bottommost uint64) uint64 {
	limit := o.SoftPendingCompactionBytesLimit / 4
	if bottommost == 0 {
		return limit
	}
	return min(limit, max(bottommost/8, 2*o.MaxBytesForLevelBase))
}

const (
	minDelayRate  = 16 << 10
	maxDelayRate  = 1 << 50 // stands for NoLimit, and leaves room to calculate
	refillEvery   = time.Millisecond
	delayStep     = 1001 * time.Microsecond
	lowPriInitial = 1 << 20
	lowPriAhead   = 10 // a tenth of a second's bytes may be taken at once
)

// delayer hands out the bytes that delayed writes may take. Its methods get the time; it has no clock.
type delayer struct {
	max     uint64 // DelayedWriteRate
	rate    uint64 // bytes a second
	delayed int    // families whose condition is a delay; with none nobody has to wait

	credit float64
	refill time.Time

	lowPri bucket
}

func newDelayer(rate uint64) delayer {
	d := delayer{lowPri: bucket{rate: lowPriInitial}}
	d.limit(rate)
	return d
}

// limit sets the rate to begin with, which is the most.
func (d *delayer) limit(rate uint64) { d.max = min(rate, maxDelayRate); d.rate = d.max }

// stallChange is a family's condition of before and of now.
type stallChange struct {
	from, to stallState
	// The bytes that waited for compactions then and now.
	debtBefore, debt uint64
	// wasStopped is set when any family had stopped writes before.
	wasStopped bool
	// manual is set when compactions are left to the user.
	manual bool
}

// change follows a family, also from a condition to the same. The rate turns only while there has been a delay already:
// the first one begins with what the last one ended with. With several families each turns the one rate.
func (d *delayer) change(c stallChange) {
	ongoing := d.delayed > 0
	if c.from.kind == stallDelay {
		d.delayed--
	}
	switch {
	case c.to.kind == stallDelay:
		d.delayed++
		d.turn(c, ongoing)
		if !ongoing {
			d.credit, d.refill = 0, time.Time{}
		}
	case c.to.kind < stallDelay && c.from.kind == stallDelay:
		// It ended well. Low-priority writes get a quarter of the rate at which it did, as long as there is pressure.
		d.lowPri.rate = max(d.rate/4, 1)
		d.rate = min(d.max, d.rate*14/10)
	}
}

func (d *delayer) turn(c stallChange, ongoing bool) {
	switch {
	case c.manual:
		d.rate = d.max
	case !ongoing || d.max <= minDelayRate:
	case c.to.near || c.wasStopped:
		d.rate = max(minDelayRate, d.rate*6/10)
	case c.debtBefore > 0 && c.debt >= c.debtBefore:
		d.rate = max(minDelayRate, d.rate*8/10)
	case c.debt < c.debtBefore:
		d.rate = min(d.max, d.rate*125/100)
	}
}

// delay returns how long a write of n bytes has to wait at time now.
func (d *delayer) delay(now time.Time, n int) time.Duration {
	if d.delayed == 0 || n == 0 {
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

// bucket hands out bytes at a rate, to whoever comes in the order of their coming. The bytes of who went away again
// before his time are used up too.
type bucket struct {
	rate uint64 // bytes a second
	has  float64
	at   time.Time // when it had that
}

// take returns how long to wait for n bytes from now on.
func (b *bucket) take(now time.Time, n int) time.Duration {
	rate := float64(b.rate)
	if b.at.IsZero() {
		b.has = rate / lowPriAhead
	} else {
		b.has = min(b.has+max(now.Sub(b.at), 0).Seconds()*rate, rate/lowPriAhead)
	}
	b.at = now
	if b.has -= float64(n); b.has >= 0 {
		return 0
	}
	return time.Duration(-b.has / rate * float64(time.Second))
}

// updateStallLocked looks at a family anew after its tree or its options changed, and wakes who waits for that.
func (d *DB) updateStallLocked(cf *ColumnFamily) {
	var to stallState
	o, debt := cf.live.Load(), cf.pending
	if !cf.dropped.Load() {
		v := cf.tree.VersionLocked()
		cf.pending = o.picker.PendingBytes(v)
		in := stallInput{
			unflushed: len(cf.tree.ImmLocked()), l0: len(v.Level(0)), pending: cf.pending, o: &o.ColumnFamilyOptions,
		}
		for n := v.NumLevels() - 1; n > 0 && in.bottommost == 0; n-- {
			in.bottommost = v.Size(n)
		}
		to = decideStall(in)
	}
	from := cf.stall
	cf.stall = to
	d.delays.change(stallChange{
		from: from, to: to, debtBefore: debt, debt: cf.pending,
		wasStopped: d.stall.kind == stallStop, manual: o.DisableAutoCompactions,
	})
	if from.kind != to.kind || from.cause != to.cause {
		info := StallInfo{
			ColumnFamily: cf.name, Condition: to.kind.String(), Cause: string(to.cause),
			OldCondition: from.kind.String(), OldCause: string(from.cause),
			Duration: cf.stalls.change(from, to, time.Now(), cf.busy.Level0()),
		}
		rate := d.delays.rate
		d.eventLocked(func() {
			d.log.Info("write stall", "family", info.ColumnFamily, "from", info.OldCondition, "to", info.Condition,
				"cause", info.Cause, "after", info.Duration, "rate", rate)
			if f := d.opts.Listener.OnStallConditionsChanged; f != nil {
				f(info)
			}
		})
	}
	d.stall, d.stalledBy = stallState{}, nil
	for _, c := range d.ColumnFamilies() {
		if c.stall.kind > d.stall.kind {
			d.stall, d.stalledBy = c.stall, c
		}
	}
	d.stalled.Store(uint32(d.stall.kind))
	d.cond.Broadcast()
}

// waitForRoom holds the leader back while the database is stalled. Writers who come meanwhile queue up behind it; those
// that must not wait leave with ErrIncomplete.
func (d *DB) waitForRoom(c *commit) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var held *StallTimes // of the rule that holds the leader back; nil until one does
	var total time.Duration
	defer func() {
		if held != nil {
			d.writes.EndStall()
			d.hist.Add(stats.WriteStall, uint64(total.Microseconds()))
		}
	}()
	var until time.Time
	for {
		if err := d.writable(); err != nil {
			return err
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
		now := time.Now()
		wait := time.Duration(0) // for a change, however long
		if d.stall.kind < stallDelay {
			return nil
		} else if d.stall.kind == stallDelay {
			if until.IsZero() {
				until = now.Add(d.delays.delay(now, d.lastGroup))
			}
			if !now.Before(until) {
				return nil
			}
			wait = min(delayStep, until.Sub(now))
		}
		if c.opts.NoSlowdown {
			return ErrIncomplete
		}
		if held == nil {
			d.writes.BeginStall(func(w *commit) error {
				if w.opts.NoSlowdown {
					return ErrIncomplete
				}
				return nil
			})
		}
		if sums := d.stalledBy.stalls.sums(d.stall); held != sums {
			held = sums
			held.Groups++
		}
		d.waitLocked(c, wait)
		waited := time.Since(now)
		held.HeldFor += waited
		total += waited
		d.counters.stallMicros.Add(uint64(waited.Microseconds()))
	}
}

// makeWay holds a write with LowPri back, before it queues up, while compactions are behind: such writes get their bytes
// from a bucket of their own. What commits or rolls back a prepared transaction is not held back, since others wait for
// its locks.
func (d *DB) makeWay(c *commit) error {
	if !c.opts.LowPri || stallKind(d.stalled.Load()) == stallNone || c.phase == commitPhase || c.phase == rollbackPhase {
		return nil
	}
	if c.opts.NoSlowdown {
		return ErrIncomplete
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	start := time.Now()
	until := start.Add(d.delays.lowPri.take(start, c.batch.Len()))
	defer func() {
		if waited := time.Since(start); waited > 0 {
			d.counters.lowPriHeld.Add(1)
			d.counters.lowPriNanos.Add(uint64(waited))
		}
	}()
	for d.stall.kind > stallNone {
		left := time.Until(until)
		if left <= 0 {
			return nil
		}
		if err := d.writable(); err != nil {
			return err
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
		d.waitLocked(c, left)
	}
	return nil
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
