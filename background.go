package ashlar

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/ashlardb/ashlar/internal/stats"
)

// What runs in the background, and what happens when it fails.

// errorReason is what was being done when a background error happened.
type errorReason uint8

const (
	reasonFlush errorReason = iota
	reasonCompaction
	reasonManifest
	reasonLog
	reasonMemtable
)

func (r errorReason) String() string {
	return [...]string{"flush", "compaction", "manifest", "log", "memtable"}[r]
}

// severity is what a background error stops. Reads always go on.
type severity uint8

const (
	// severityNone is retried as if nothing had happened.
	severityNone severity = iota
	// severitySoft: writes go on, the job is tried again after a while.
	severitySoft
	// severityHard: writes stop until Resume, or the automatic retry, succeeds.
	severityHard
	// severityFatal: writes stop until the database is opened anew.
	severityFatal
)

func (s severity) String() string { return [...]string{"none", "soft", "hard", "fatal"}[s] }

// errorKind is what a background error is made of.
type errorKind uint8

const (
	kindNoSpace errorKind = iota
	kindIO
	kindCorruption
	kindOther
)

func kindOf(err error) errorKind {
	switch {
	case errors.Is(err, ErrCorruption):
		return kindCorruption
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return kindNoSpace
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return kindIO
	}
	return kindOther
}

// severityOf is the table of RocksDB's error handler.
//
//	             no space   I/O     corruption  other
//	flush        hard       hard    fatal       fatal
//	compaction   soft       soft    fatal       fatal
//	manifest     hard       hard    fatal       fatal
//	log          hard       hard    fatal       fatal
//	memtable     fatal      fatal   fatal       fatal
//
// Hard ones can be resumed: what the log has lost is in memtables, which Resume flushes.
func severityOf(r errorReason, k errorKind) severity {
	switch {
	case r == reasonMemtable || k == kindCorruption || k == kindOther:
		return severityFatal
	case r == reasonCompaction:
		return severitySoft
	}
	return severityHard
}

// backgroundError is what BackgroundError returns and, from hard on, every write.
type backgroundError struct {
	reason   errorReason
	severity severity
	err      error
}

func (e *backgroundError) Error() string {
	return fmt.Sprintf("%s in the background (%s): %v", e.reason, e.severity, e.err)
}

func (e *backgroundError) Unwrap() error { return e.err }

// BackgroundError returns the error that has stopped background work or writes, nil when healthy.
func (d *DB) BackgroundError() error {
	if e := d.bgError.Load(); e != nil {
		return e
	}
	return nil
}

// broken returns the background error if it is one that stops writes, nil otherwise.
func (d *DB) broken() error {
	if e := d.bgError.Load(); e != nil && e.severity >= severityHard {
		return e
	}
	return nil
}

// setBackgroundError keeps the worst error and wakes who waits. It returns what a writer is to be told.
func (d *DB) setBackgroundError(r errorReason, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.setBackgroundErrorLocked(r, err)
}

func (d *DB) setBackgroundErrorLocked(r errorReason, err error) error {
	e := &backgroundError{r, severityOf(r, kindOf(err)), classify(err)}
	if d.closing {
		return e
	}
	d.counts.Add(stats.BackgroundErrors, 1)
	d.eventLocked(func() {
		d.log.Error("background error", "reason", r.String(), "severity", e.severity.String(), "error", err)
	})
	if old := d.bgError.Load(); old == nil || e.severity > old.severity {
		d.bgError.Store(e)
		d.eventLocked(func() {
			if f := d.opts.Listener.OnBackgroundError; f != nil {
				f(BackgroundErrorInfo{Reason: r.String(), Severity: e.severity.String(), Err: e})
			}
		})
		if e.severity < severityFatal && !d.closed.Load() {
			d.retryLocked()
		}
	}
	d.cond.Broadcast()
	return e
}

// retryEvery is how long after a background error Resume is tried by itself.
const retryEvery = time.Second

// retryLocked tries to resume after a while, again and again until it succeeds or the error becomes fatal.
func (d *DB) retryLocked() {
	if d.retry != nil {
		d.retry.Stop()
	}
	d.retry = time.AfterFunc(retryEvery, func() {
		if d.Resume(context.Background()) != nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			if e := d.bgError.Load(); e != nil && e.severity < severityFatal && !d.closed.Load() {
				d.retryLocked()
			}
		}
	})
}

// Resume makes the database work again after its disk was full or failed for a while: it starts a new log, flushes
// every memtable, since the log may lack what they hold, and lets writes go on. It is also tried every second without
// being asked. It returns nil when the database is healthy, else what still stands in the way; a fatal error only goes
// away by opening the database anew.
func (d *DB) Resume(ctx context.Context) error {
	if err := d.resuming.lock(ctx); err != nil {
		return err
	}
	defer d.resuming.unlock()
	if d.closed.Load() {
		return ErrClosed
	}
	e := d.bgError.Load()
	if e == nil {
		return nil
	}
	if e.severity >= severityFatal {
		return e
	}
	if e.severity < severityHard {
		d.clearBackgroundError(e)
		return nil
	}
	// A flush that ended between the carrying over of what is prepared and the flush of all would let the older log go.
	if err := d.awaitFlushes(ctx); err != nil {
		return err
	}
	// Nobody writes while an error stands. Memtables are switched with the queue to itself, then flushed, so that the log
	// that failed is not needed any more. They may hold writes that failed, of a group whose sync did: these are beyond
	// what is visible, and stay out of the tables. (A read caught between taking its memtables and its number for all of
	// that time may see one.)
	err := d.writes.Exclusive(func() error {
		if d.closed.Load() {
			return ErrClosed
		}
		if !d.wals.CurrentEmpty() || d.preparedLog() < d.wals.Current() {
			// What is prepared is in a log that may have failed.
			if _, err := d.startLog(d.preparedTransactions()); err != nil {
				return err
			}
		}
		for _, cf := range d.ColumnFamilies() {
			if !cf.mem.Empty() {
				if err := d.rotate(cf, 0); err != nil {
					return err
				}
			}
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.skipLogsLocked()
		return nil
	})
	if err != nil {
		return classify(err)
	}
	if err := d.flushAll(ctx); err != nil {
		return err
	}
	d.clearBackgroundError(e)
	d.log.Info("resumed")
	return nil
}

func (d *DB) clearBackgroundError(e *backgroundError) {
	d.mu.Lock()
	d.bgError.CompareAndSwap(e, nil)
	for _, cf := range d.ColumnFamilies() {
		d.updateStallLocked(cf)
	}
	d.scheduleLocked()
	d.mu.Unlock()
}

// flushSlots and compactionSlots are RocksDB's split of MaxBackgroundJobs. Compactions keep to one slot unless writes
// are under pressure.
func (d *DB) flushSlots() int { return max(1, d.dbOpts.Load().MaxBackgroundJobs/4) }

func (d *DB) compactionSlotsLocked() int {
	if d.stall.kind == stallNone {
		return 1
	}
	return max(1, d.dbOpts.Load().MaxBackgroundJobs-d.flushSlots())
}

// scheduleLocked starts what is to be done and has a slot: flushes first, then compactions, families in turn.
func (d *DB) scheduleLocked() {
	if d.closing || !d.opened {
		return
	}
	e := d.bgError.Load()
	if e != nil && e.severity >= severityHard {
		return
	}
	families := d.ColumnFamilies()
	for _, cf := range families {
		if d.flushes >= d.flushSlots() {
			break
		}
		if !cf.flushing && len(cf.tree.ImmLocked()) > 0 {
			d.startFlushLocked(cf)
		}
	}
	if e != nil {
		return // a compaction failed; Resume tries again
	}
	for i := range families {
		if d.compactions >= d.compactionSlotsLocked() {
			return
		}
		cf := families[(i+d.turn)%len(families)]
		o := cf.live.Load()
		if o.DisableAutoCompactions {
			continue
		}
		for d.compactions < d.compactionSlotsLocked() {
			plan := o.picker.Pick(cf.tree.VersionLocked(), &cf.busy)
			if plan == nil && cf.bottommost {
				if plan = o.picker.PickBottommost(cf.tree.VersionLocked(), d.snapshots.oldest(d.visibleSeq()), &cf.busy); plan == nil {
					cf.bottommost = false
				}
			}
			if plan == nil {
				break
			}
			d.startCompactionLocked(cf, plan, nil)
		}
	}
	d.turn++
}

// eventLocked queues a call of the listener's.
func (d *DB) eventLocked(tell func()) {
	d.events = append(d.events, tell)
	d.eventCond.Signal()
}

// tellEvents calls the listener, one event after the other, until Close has queued the last.
func (d *DB) tellEvents() {
	defer close(d.told)
	for {
		d.mu.Lock()
		for len(d.events) == 0 && !d.eventsEnded {
			d.eventCond.Wait()
		}
		events := d.events
		d.events = nil
		d.mu.Unlock()
		if len(events) == 0 {
			return
		}
		for _, tell := range events {
			safely(tell)
		}
	}
}

// safely keeps a panic of a user's callback from ending the goroutine that happens to run it.
func safely(f func()) {
	defer func() { _ = recover() }()
	f()
}
