package raftapply

import (
	"fmt"

	"github.com/ashlardb/ashlar"
)

// worker serves one lane. It works in rounds: it takes regions one at a time, gives each a turn, and at the end of the
// round, or earlier when the batch is full, writes what the turns have put into its one batch.
//
// The invariant: a region of which something is in the batch, or in an Applied that was not sent, stays with its worker.
// Another worker could write later entries first.
type worker struct {
	s    *System
	lane lane
	id   int
	cfg  Config // of this round

	round uint64 // 0: between rounds
	turns int

	batch     *ashlar.Batch
	ops       int       // keys in the batch; an entry without any counts as one
	sync      bool      // the next write is a synced one
	staged    []*region // with something in the batch
	unsaid    []*region // written, with an Applied to be sent
	finished  []*region // whose turn is over, and which wait for the write or the Applied
	looseEnds bool      // a write has been made in this turn, and the yield rule not yet been asked
}

func (s *System) newWorker(l lane, id int) *worker {
	return &worker{s: s, lane: l, id: id, batch: new(ashlar.Batch)}
}

// step makes one turn or ends a round. If there is nothing to do it waits, or, without wait, returns false. It also
// returns false when the worker is to end.
func (w *worker) step(wait bool) bool {
	var r *region
	if w.round == 0 {
		r, _ = w.s.queue.pop(w.lane, w.id, wait)
		if r == nil {
			return false
		}
		w.beginRound()
	} else {
		if w.turns < w.cfg.ApplyMaxBatchSize {
			r, _ = w.s.queue.pop(w.lane, w.id, false)
		}
		if r == nil {
			w.endRound()
			return true
		}
		if r.round == w.round {
			// It yielded and is up again. Those whose turns came between do not wait for another write of its.
			w.endRound()
			w.beginRound()
		}
	}
	w.turns++
	r.round = w.round
	w.turn(r)
	return true
}

func (w *worker) run() {
	for w.step(true) {
	}
}

func (w *worker) beginRound() {
	w.cfg = *w.s.config.Load()
	w.round = w.s.rounds.Add(1)
	w.turns = 0
}

func (w *worker) endRound() {
	if len(w.staged) > 0 {
		w.write(FlushEnd)
	}
	w.say(nil)
	w.s.count.round(w.turns)
	w.round = 0
}

// verdict is how a turn ended.
type verdict struct {
	yielded YieldReason
	to      lane
	err     error // the region is finished
}

// turn lets a region work.
func (w *worker) turn(r *region) {
	now := w.s.now()
	w.s.count.queued(now.Sub(r.queued))
	r.turnStart, r.turnBytes, r.turnKeys = now, 0, 0
	w.looseEnds = false

	var v verdict
	if !r.ended {
		r.collect(w.cfg.MessagesPerTick, func(m mail) { w.s.count.waited(now.Sub(m.sent)) })
		r.answerSnapshots()
		v = w.work(r)
	}
	w.turnEnded(r, v)
	switch {
	case r.end.Load() && !w.s.closing.Load():
		w.finish(r, ErrRegionRemoved)
	case v.err != nil:
		w.finish(r, v.err)
	case v.yielded != NotYielded:
		r.release(v.to)
	case r.staged || r.written:
		w.finished = append(w.finished, r)
	default:
		r.release(normal)
	}
}

// work applies entries until there are none, or others should have their turn.
func (w *worker) work(r *region) verdict {
	for {
		if err := w.s.failure(); err != nil {
			return verdict{err: err}
		}
		if r.end.Load() || w.s.closing.Load() {
			return verdict{}
		}
		e, ok := r.peek()
		if !ok {
			w.staleProposals(r)
			return verdict{}
		}
		if e.Index <= r.applied.Applied {
			r.pass(e)
			w.s.count.skipped()
			continue
		}
		if e.Index != r.applied.Applied+1 {
			return verdict{err: poisoned(r.id, e, fmt.Errorf("%w: the last one was %d", ErrGap, r.applied.Applied))}
		}
		hint, err := hintOf(r, e)
		if err != nil {
			return verdict{err: poisoned(r.id, e, err)}
		}
		if reason := w.due(r, hint); reason != noFlush {
			if err := w.write(reason); err != nil {
				return verdict{err: err}
			}
			if y := w.spent(r); y != NotYielded {
				return w.yield(r, y, hint)
			}
			w.say(r)
		} else if w.looseEnds {
			if y := w.spent(r); y != NotYielded {
				return w.yield(r, y, hint)
			}
		}
		if hint&LowPriority != 0 && w.lane == normal && w.cfg.ApplyLowPriorityPoolSize > 0 {
			if r.staged {
				if err := w.write(FlushPriority); err != nil {
					return verdict{err: err}
				}
			}
			return w.yield(r, YieldPriority, hint)
		}
		if v, ok := w.apply(r, e, hint); !ok {
			return v
		}
	}
}

// due says whether the batch must be written before an entry, and why.
func (w *worker) due(r *region, hint Hint) FlushReason {
	switch {
	case len(w.staged) == 0:
		return noFlush
	case w.ops > w.cfg.MaxBatchKeys:
		return FlushKeys
	case w.cfg.MaxBatchBytes > 0 && uint64(w.batch.Len()) >= uint64(w.cfg.MaxBatchBytes):
		return FlushBytes
	case hint&FlushBefore != 0 && r.staged:
		return FlushCommand
	}
	return noFlush
}

// spent is the yield rule. It is asked right after a write only: nothing of the region is left in the batch.
func (w *worker) spent(r *region) YieldReason {
	w.looseEnds = false
	why := NotYielded
	switch {
	case r.turnBytes >= uint64(w.cfg.ApplyYieldWriteSize):
		why = YieldBytes
	case w.cfg.ApplyYieldDuration > 0 && w.s.now().Sub(r.turnStart) >= w.cfg.ApplyYieldDuration:
		why = YieldDuration
	}
	if why != NotYielded && w.cfg.NoYieldWhenAlone && w.s.queue.length(w.lane) == 0 {
		r.turnStart, r.turnBytes = w.s.now(), 0
		return NotYielded
	}
	return why
}

// yield ends a turn with work left. hint is the next entry's, and decides where the region waits. One that came to the
// low-priority lane stays there for a turn, so that entries of both kinds in turns do not cost a write each.
func (w *worker) yield(r *region, why YieldReason, hint Hint) verdict {
	if r.written {
		r.report.Yielded = why
	}
	w.say(nil)
	to := normal
	if why == YieldPriority || w.lane == low && hint&LowPriority != 0 {
		to = low
	}
	return verdict{yielded: why, to: to}
}

// apply puts one entry into the batch. If not ok, the turn is over.
func (w *worker) apply(r *region, e Entry, hint Hint) (v verdict, ok bool) {
	var res Result
	keys, size := w.batch.Count(), w.batch.Len()
	if e.Kind != Empty {
		w.batch.SetSavePoint()
		var failed error
		err := guard("the state machine", func() { res, failed = r.sm.Apply(w.batch, e) })
		if err == nil {
			err = failed
		}
		if err == nil && res.Err == nil {
			err = w.batch.PopSavePoint()
		} else if undo := w.batch.RollbackToSavePoint(); undo != nil && err == nil {
			err = undo
		}
		if err != nil {
			return verdict{err: poisoned(r.id, e, err)}, false
		}
		if res.Err != nil {
			w.s.count.refused()
		}
	}
	keys, size = w.batch.Count()-keys, w.batch.Len()-size
	w.ops += max(keys, 1)
	if !r.staged {
		r.staged = true
		w.staged = append(w.staged, r)
	}
	r.part.Keys += uint64(keys)
	r.turnKeys += uint64(keys)
	r.turnBytes += uint64(size)
	r.part.Bytes += uint64(size)
	r.advance(e)
	res.Foreign = 0
	if p, ok := r.claim(e); ok {
		r.done = append(r.done, outcome{p, res})
	}
	w.sync = w.sync || hint&Sync != 0

	changed := e.Kind == ConfChange && res.Err == nil
	if changed {
		r.part.ConfChanges = append(r.part.ConfChanges, e)
	}
	if e.Kind != ConfChange && hint&FlushAfter == 0 {
		return verdict{}, true
	}
	reason := FlushCommand
	if e.Kind == ConfChange {
		reason = FlushConf
	}
	if err := w.write(reason); err != nil {
		return verdict{err: err}, false
	}
	if changed && res.RemoveSelf {
		r.mu.Lock()
		r.end.Store(true)
		r.err = ErrRegionRemoved
		r.mu.Unlock()
		return verdict{}, false
	}
	w.say(nil)
	w.looseEnds = true
	return verdict{}, true
}

func hintOf(r *region, e Entry) (hint Hint, err error) {
	if e.Kind == Empty {
		return 0, nil
	}
	err = guard("the state machine", func() { hint = r.sm.Hint(e) })
	return hint, err
}

func poisoned(id RegionID, e Entry, err error) error {
	return fmt.Errorf("%w: region %d, entry %d of term %d: %w", ErrPoisoned, id, e.Index, e.Term, err)
}

// staleProposals answers those that came for entries which are in already.
func (w *worker) staleProposals(r *region) {
	for r.proposals.len() > 0 && r.proposals.front().Index <= r.applied.Applied {
		w.s.complete(r.id, r.proposals.pop().Done, Result{Err: ErrStale})
	}
}
