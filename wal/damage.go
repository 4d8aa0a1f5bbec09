// What can be wrong with a log, and what each recovery mode does about it. judge is the whole policy, as a table.

package wal

import (
	"fmt"

	"github.com/ashlardb/ashlar/internal/corrupt"
)

// Recovery says what to do when the logs are found damaged at Open.
type Recovery uint8

const (
	// DefaultRecovery is PointInTimeRecovery.
	DefaultRecovery Recovery = iota
	// TolerateCorruptedTailRecords accepts a record cut short at the end of a log and refuses all other damage.
	TolerateCorruptedTailRecords
	// AbsoluteConsistency refuses any damage.
	AbsoluteConsistency
	// PointInTimeRecovery applies everything up to the first damage and nothing after it: a prefix of what was written.
	PointInTimeRecovery
	// SkipAnyCorruptedRecords applies whatever can be read. What it leaves out may lie between things that it applied.
	SkipAnyCorruptedRecords
)

func (m Recovery) String() string {
	switch m {
	case DefaultRecovery, PointInTimeRecovery:
		return "kPointInTimeRecovery"
	case TolerateCorruptedTailRecords:
		return "kTolerateCorruptedTailRecords"
	case AbsoluteConsistency:
		return "kAbsoluteConsistency"
	case SkipAnyCorruptedRecords:
		return "kSkipAnyCorruptedRecords"
	}
	return fmt.Sprintf("Recovery(%d)", uint8(m))
}

// DamageKind says what is wrong at a place in a log.
type DamageKind uint8

const (
	// TornTail is what a write in progress leaves when the machine stops: a record cut short at the end of the file, a bad
	// one with nothing but zeros behind it, or one of which the end of a page is missing and no other behind it. In a recycled log any bad record counts as one, for behind the end
	// stand remains of the file's earlier life.
	TornTail DamageKind = iota
	// BadRecord is a fragment with a wrong checksum, an impossible length or an unknown type, or fragments that do not
	// make a record, with more behind it.
	BadRecord
	// Hole is a run of zeros of a page or more, or with a record behind it: pages that never reached the disk.
	Hole
	// Unfinished is what a process leaves that is killed while it puts a record into a mapped log: a few zeros where its
	// header should be, less than a page, and no record behind them. It had not been accepted, and nothing came after it.
	Unfinished
	// OldRecord is a good record of an earlier life of a recycled file: the log ends before it.
	OldRecord
	// BadBatch is a good record that is not a whole batch.
	BadBatch
	// Backwards is a batch whose sequence number was passed already.
	Backwards
	// Gap is a log whose predecessor is missing, or shorter than it was when this log was made.
	Gap
	// ReadError is an error of the file system, not known to be corruption.
	ReadError

	numDamageKinds
)

func (k DamageKind) String() string {
	return [...]string{"torn tail", "bad record", "hole", "unfinished record", "old record", "bad batch", "sequence going backwards", "gap between logs",
		"read error", "?"}[min(k, numDamageKinds)]
}

// Damage is an error at a place in a log. Except for ReadError it matches corrupt.Err and, as *corrupt.Error, says the
// same.
type Damage struct {
	Kind   DamageKind
	File   string
	Offset int64
	Err    error // says all of it, with file and offset
}

func newDamage(kind DamageKind, file string, off int64, format string, args ...any) *Damage {
	return &Damage{kind, file, off, corrupt.At(file, off, "%s: "+format, append([]any{kind}, args...)...)}
}

func (d *Damage) Error() string { return d.Err.Error() }

// Unwrap returns the *corrupt.Error, or the file system's error for ReadError.
func (d *Damage) Unwrap() error { return d.Err }

// verdict is what recovery does about damage.
type verdict uint8

const (
	// refuse: Open fails with the damage.
	refuse verdict = iota
	// endLog: the log ends here, the next one is read.
	endLog
	// stop: nothing after this place is applied, unless a later log continues exactly here.
	stop
	// skip: go on at the next place where a record may start.
	skip
)

// judge decides what mode does about damage of a kind.
func judge(mode Recovery, kind DamageKind) verdict {
	switch mode {
	case TolerateCorruptedTailRecords:
		if kind == TornTail || kind == Unfinished || kind == OldRecord {
			return endLog
		}
		return refuse
	case AbsoluteConsistency:
		if kind == Unfinished || kind == OldRecord {
			return endLog
		}
		return refuse
	case SkipAnyCorruptedRecords:
		return skip
	}
	if kind == ReadError {
		return refuse // what was synced may be behind it, and be readable tomorrow
	}
	return stop
}
