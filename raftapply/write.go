package raftapply

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/ashlardb/ashlar"
)

// largeBatch is the size of a batch whose memory is not kept.
const largeBatch = int(2 * MiB)

// write writes the batch, which holds something, with the ApplyState of every region that has a part in it, and calls
// their Dones. The Applied is left to say.
//
// If the engine refuses, the system fails, and everything but the region whose turn it is is finished.
func (w *worker) write(reason FlushReason) error {
	start := w.s.now()
	err := w.s.failure()
	if err == nil {
		err = w.commit()
	}
	if err != nil {
		w.giveUp(err)
		return w.s.failure()
	}
	var total uint64
	for _, r := range w.staged {
		total += r.part.Keys
	}
	w.s.count.flush(reason, w.s.now().Sub(start), w.batch)
	written := w.s.written.Add(total)
	for _, r := range w.staged {
		keys := r.publish()
		if !r.written {
			r.written = true
			w.unsaid = append(w.unsaid, r)
		}
		r.answer(int64(written) - int64(keys))
	}
	w.reset()
	return nil
}

// commit stages the states and writes.
func (w *worker) commit() error {
	for _, r := range w.staged {
		before := w.batch.Len()
		if err := PutApplyState(w.batch, w.s.states, r.id, r.applied); err != nil {
			return err
		}
		r.turnBytes += uint64(w.batch.Len() - before)
	}
	var o *ashlar.WriteOptions
	if w.sync {
		o = ashlar.Sync
	}
	return w.s.engine.Write(w.batch, o)
}

// reset empties the batch.
func (w *worker) reset() {
	if w.batch.Len() > largeBatch {
		w.batch = new(ashlar.Batch)
	} else {
		w.batch.Clear()
	}
	w.ops, w.sync = 0, false
	clear(w.staged)
	w.staged = w.staged[:0]
}

// publish makes what is written the region's state, and returns how many keys it has written in all.
func (r *region) publish() uint64 {
	part := r.part
	r.staged, r.part = false, Applied{}
	r.report.Region, r.report.State = r.id, r.applied
	r.report.Entries += part.Entries
	r.report.Keys += part.Keys
	r.report.Bytes += part.Bytes
	r.report.ConfChanges = append(r.report.ConfChanges, part.ConfChanges...)
	r.s.count.applied(part.Entries)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = r.applied
	r.keys += part.Keys
	r.settleLocked()
	keep := r.waiters[:0]
	for _, waits := range r.waiters {
		if waits.index <= r.state.Applied {
			waits.done <- nil
		} else {
			keep = append(keep, waits)
		}
	}
	clear(r.waiters[len(keep):])
	r.waiters = keep
	return r.keys
}

// say sends the Applied of what was written, and gives up the regions whose turn is over, unless something of them is in
// the batch. hold, if not nil, is in its turn, and says what it has done at its end.
func (w *worker) say(hold *region) {
	var all []Applied
	keep := w.unsaid[:0]
	for _, r := range w.unsaid {
		if r == hold {
			keep = append(keep, r)
			continue
		}
		if r.work.len() > 0 {
			w.s.count.prefix()
		}
		all = append(all, r.said())
	}
	clear(w.unsaid[len(keep):])
	w.unsaid = keep
	w.s.onApplied(all)
	held := w.finished[:0]
	for _, r := range w.finished {
		if r.staged {
			held = append(held, r)
		} else {
			r.release(normal)
		}
	}
	clear(w.finished[len(held):])
	w.finished = held
}

// said takes the Applied that is due.
func (r *region) said() Applied {
	a := r.report
	r.report, r.written = Applied{}, false
	return a
}

// finish ends a region in its turn. What it has in the batch is right, and is written first.
func (w *worker) finish(r *region, err error) {
	if len(w.staged) > 0 {
		if failed := w.write(FlushRemove); failed != nil && !errors.Is(err, ErrRegionRemoved) {
			err = failed
		}
	}
	w.say(r)
	clear(w.unsaid)
	w.unsaid = w.unsaid[:0]
	last := r.said()
	r.finish(err)
	last.Region, last.State = r.id, r.state
	switch {
	case errors.Is(err, ErrRegionRemoved):
		last.Removed = true
		w.s.onApplied([]Applied{last})
		w.s.forget(r)
		return
	case errors.Is(err, ErrPoisoned):
		w.s.log.Error("raftapply: region poisoned", slog.Uint64("region", uint64(r.id)), slog.Any("error", err))
		last.Err = err
		w.s.onApplied([]Applied{last})
	}
	r.release(normal)
}

// giveUp drops the batch of a system that has failed, or now does.
func (w *worker) giveUp(err error) {
	w.s.fail(err)
	finished := w.finished
	w.finished = nil
	w.say(nil)
	for _, r := range w.staged {
		r.lose(w.s.failure())
	}
	for _, r := range finished {
		r.finish(w.s.failure())
		r.release(normal)
	}
	w.reset()
}

// fail makes the system fail, once. Every region is scheduled, so that a worker finishes it.
func (s *System) fail(err error) {
	err = fmt.Errorf("%w: %w", ErrFailed, err)
	if !s.failed.CompareAndSwap(nil, &err) {
		return
	}
	s.log.Error("raftapply: a write failed, nothing is applied any more", slog.Any("error", err))
	if s.onFatal != nil {
		s.guarded(0, "OnFatal", func() { s.onFatal(err) })
	}
	for _, r := range s.all() {
		s.wake(r)
	}
}
