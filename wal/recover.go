// Recover replays the logs of a database at Open.
//
//  1. The newest log decides what the history is: it names its predecessor, that one names its own, and so on. Logs
//     that nobody names were given up by an earlier recovery, and so were the bytes behind the length that is named.
//  2. In PointInTimeRecovery what is applied is a prefix of what was written: after damage nothing is applied until a
//     log begins with exactly the sequence number that is due.
//  3. Only whole, valid batches with rising sequence numbers are applied. Numbers may be left out: writes without a log
//     take some.

package wal

import (
	"errors"
	"fmt"
	"io"

	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/vfs"
)

// Log is a log file that recovery is to read.
type Log struct {
	Number uint64
	Path   string
}

// Recovered is what Recover found.
type Recovered struct {
	// LastSeq is the last sequence number in use: that of the manifest or a later one from the logs.
	LastSeq kv.Seq
	// Last describes the newest log of which anything was accepted, as NewSet needs it. The log made next states it, and
	// with that settles what this recovery accepted.
	Last Predecessor
	// Batches and Bytes count what was applied.
	Batches, Bytes int64
	// Stopped says that point-in-time recovery stopped in log StoppedLog, of which the first StoppedAt bytes count, and
	// that no later log continued from there. A record torn by a crash at the end of the newest log is such a stop too.
	Stopped    bool
	StoppedLog uint64
	StoppedAt  int64
	// Damage is what was met and left out, in order; at most maxDamage of it, DamageCount says how much there was. It is
	// for the database's LOG.
	Damage      []error
	DamageCount int
}

const maxDamage = 100

// Recover reads logs, ascending by number, and calls apply with each batch: whole and valid, living until apply returns.
//
// firstNeeded is the lowest number of a log that the database needs; a predecessor below it may be gone. lastSeq is the
// manifest's last sequence number. An error is damage that mode does not allow (*Damage), an unsupported feature, which
// no mode passes over, an error of the file system, or what apply returned; batches may have been applied before it.
func Recover(fs vfs.FS, logs []Log, mode Recovery, firstNeeded uint64, lastSeq kv.Seq, apply func(log uint64, rec []byte) error) (Recovered, error) {
	if mode == DefaultRecovery {
		mode = PointInTimeRecovery
	}
	rc := recovery{fs: fs, mode: mode, firstNeeded: firstNeeded, apply: apply, accepted: map[uint64]accepted{}, numbers: numbering{}}
	steps, err := rc.chain(logs)
	if err != nil {
		return rc.out, err
	}
	for _, s := range steps {
		if err := rc.replay(s); err != nil {
			return rc.out, err
		}
	}
	if rc.out.Last.Number == 0 {
		rc.out.Last.LastSeq = rc.last
	}
	rc.out.LastSeq = max(lastSeq, rc.last)
	return rc.out, nil
}

// step is one log of the chain.
type step struct {
	log       Log
	claim     Predecessor // what the log says came before it
	claimed   bool
	ours      bool  // by our own first record, not RocksDB's
	limit     int64 // how many of its bytes the next log counts; -1 if it does not say
	orphan    bool  // the claim names a log that is needed and missing
	backwards bool  // the claim names a log that is not older
}

// accepted is what was accepted of a log.
type accepted struct {
	Predecessor
	inexact bool // the last sequence number may be a later one
}

type recovery struct {
	fs          vfs.FS
	mode        Recovery
	firstNeeded uint64
	apply       func(uint64, []byte) error
	out         Recovered

	last     kv.Seq // last sequence number accepted
	lastSet  bool   // there was one
	inexact  bool   // last may be too low: see numbering.take
	accepted map[uint64]accepted
	numbers  numbering
	marked   bool // the record checked last has marks of two-phase commits
}

func (rc *recovery) note(err error) {
	rc.out.DamageCount++
	if len(rc.out.Damage) < maxDamage {
		rc.out.Damage = append(rc.out.Damage, err)
	}
}

// chain finds the history by walking back from the newest log, and returns it oldest first.
func (rc *recovery) chain(logs []Log) ([]step, error) {
	steps := make([]step, len(logs))
	known := map[uint64]bool{}
	for i, l := range logs {
		if i > 0 && l.Number <= logs[i-1].Number {
			return nil, fmt.Errorf("logs %d and %d are not in ascending order", logs[i-1].Number, l.Number)
		}
		known[l.Number] = true
		steps[i] = step{log: l, limit: -1}
		if err := rc.readClaim(&steps[i]); err != nil {
			return nil, err
		}
	}
	var chain []step
	for i := len(steps) - 1; i >= 0; {
		s := steps[i]
		before := i - 1
		if s.claimed {
			s.backwards = s.claim.Number >= s.log.Number
			s.orphan = !s.backwards && s.claim.Number >= max(rc.firstNeeded, 1) && !known[s.claim.Number]
			if s.ours && !s.backwards {
				for before >= 0 && steps[before].log.Number > s.claim.Number {
					rc.note(fmt.Errorf("%s: given up by the recovery that made log %d", steps[before].log.Path, s.log.Number))
					before--
				}
				if before >= 0 && steps[before].log.Number == s.claim.Number {
					steps[before].limit = s.claim.Size
				}
			}
		}
		chain = append(chain, s)
		i = before
	}
	for i, j := 0, len(chain)-1; i < j; i, j = i+1, j-1 {
		chain[i], chain[j] = chain[j], chain[i]
	}
	return chain, nil
}

// readClaim finds out what the log says about its predecessor. Damage is left for replay to judge.
func (rc *recovery) readClaim(s *step) error {
	f, size, err := rc.open(s.log)
	if err != nil {
		return err
	}
	defer f.Close()
	r := NewReader(f, size, s.log.Path, s.log.Number)
	rec, off, err := r.Next()
	if err == nil && off == 0 {
		s.claim, s.ours = parsePredecessor(rec)
	}
	if !s.ours {
		s.claim = r.rocks
	}
	s.claimed = s.ours || r.hasRocks
	return nil
}

func (rc *recovery) open(l Log) (vfs.File, int64, error) {
	f, err := rc.fs.Open(l.Path)
	if err != nil {
		return nil, 0, err
	}
	size, err := f.Size()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, size, nil
}

// replay applies one log, or, after a stop, looks whether it continues where the stop was.
func (rc *recovery) replay(s step) error {
	f, size, err := rc.open(s.log)
	if err != nil {
		return err
	}
	defer f.Close()
	if s.limit >= 0 {
		size = min(size, s.limit)
	}
	if d := rc.checkClaim(s); d != nil && !rc.out.Stopped {
		if _, err := rc.settle(d, s.log, 0); err != nil {
			return err
		}
	}
	if s.ours && !s.backwards && !rc.out.Stopped {
		rc.last, rc.lastSet, rc.inexact = max(rc.last, s.claim.LastSeq), true, false
	}
	r := NewReader(f, size, s.log.Path, s.log.Number)
	end, counted := int64(0), false
	for {
		rec, off, err := r.Next()
		if err == io.EOF || err == nil && off == 0 && s.ours {
			if !rc.out.Stopped {
				end = r.End()
			}
			if err == io.EOF {
				break
			}
			continue
		}
		d, unsound := err.(*Damage)
		if err == nil {
			d, err = rc.check(s.log, rec, off)
		}
		if err != nil && !unsound {
			return err
		}
		if rc.out.Stopped && (d != nil || !rc.continues(rec)) {
			rc.note(fmt.Errorf("%s: not applied, recovery stopped in log %d at %d", s.log.Path, rc.out.StoppedLog, rc.out.StoppedAt))
			break
		}
		if d != nil {
			v, err := rc.settle(d, s.log, end)
			if err != nil {
				return err
			}
			if v != skip {
				break
			}
			if unsound {
				r.Resume()
			}
			continue
		}
		if err := rc.apply(s.log.Number, rec); err != nil {
			return err
		}
		rc.out.Batches++
		rc.out.Bytes += int64(len(rec))
		n, exact := kv.Seq(batch.Count(rec)), true
		if rc.marked {
			n, exact = rc.numbers.take(rec)
		}
		if n > 0 || rc.marked {
			rc.last, rc.lastSet, rc.inexact = batch.Seq(rec)+n-1, true, false
		}
		rc.inexact = rc.inexact || !exact
		counted = counted || len(rec) > batch.HeaderSize
		end = r.End()
	}
	if end > 0 {
		p := Predecessor{Number: s.log.Number, Size: end, LastSeq: rc.last}
		rc.accepted[p.Number] = accepted{p, rc.inexact}
		if s.ours || counted {
			rc.out.Last = p
		}
	}
	return nil
}

// continues ends the stop if rec, the first record of a log, has exactly the sequence number that is due.
func (rc *recovery) continues(rec []byte) bool {
	if !rc.lastSet || batch.Seq(rec) != rc.last+1 {
		return false
	}
	rc.out.Stopped, rc.out.StoppedLog, rc.out.StoppedAt = false, 0, 0
	return true
}

// settle does what the mode says about damage in log l, of which end bytes count. The error is the damage, if it is
// fatal.
func (rc *recovery) settle(d *Damage, l Log, end int64) (verdict, error) {
	v := judge(rc.mode, d.Kind)
	switch v {
	case refuse:
		return v, d
	case stop:
		rc.out.Stopped, rc.out.StoppedLog, rc.out.StoppedAt = true, l.Number, end
	}
	rc.note(d)
	return v, nil
}

// checkClaim compares what the log says came before it with what was read.
func (rc *recovery) checkClaim(s step) *Damage {
	p := s.claim
	switch {
	case !s.claimed || p.Number == 0:
		return nil
	case s.backwards:
		return newDamage(Gap, s.log.Path, 0, "the log names log %d as the one before it", p.Number)
	case s.orphan:
		return newDamage(Gap, s.log.Path, 0, "log %d, which came before, is missing", p.Number)
	}
	got, ok := rc.accepted[p.Number]
	if !ok && p.Number < rc.firstNeeded {
		return nil
	}
	if got.Size < p.Size || s.ours && got.LastSeq < p.LastSeq && !got.inexact {
		return newDamage(Gap, s.log.Path, 0, "log %d had %d bytes up to sequence number %d, %d bytes up to %d were found",
			p.Number, p.Size, p.LastSeq, got.Size, got.LastSeq)
	}
	return nil
}

// check says what is wrong with a record. The error is for features that are not supported.
func (rc *recovery) check(l Log, rec []byte, off int64) (*Damage, error) {
	var err error
	if rc.marked, err = batch.ValidateLog(rec); err != nil {
		if !errors.Is(err, corrupt.Err) {
			return nil, fmt.Errorf("%s: record at %d: %w", l.Path, off, err)
		}
		return newDamage(BadBatch, l.Path, off, "%v", err), nil
	}
	if rc.lastSet && !rc.out.Stopped && batch.Count(rec) > 0 && batch.Seq(rec) <= rc.last {
		return newDamage(Backwards, l.Path, off, "%d after %d", batch.Seq(rec), rc.last), nil
	}
	return nil, nil
}
