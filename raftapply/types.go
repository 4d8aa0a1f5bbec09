package raftapply

import (
	"github.com/ashlardb/ashlar"
)

// RegionID names a region: one raft group's replica on this machine, with a log and a state machine of its own.
type RegionID uint64

// EntryKind says what an entry is.
type EntryKind uint8

const (
	// Normal is a command of the state machine.
	Normal EntryKind = iota
	// Empty is an entry without a command, such as a new leader's first. The state machine is not asked about it.
	Empty
	// ConfChange changes the members of the group. The state machine applies it as any other, the batch is written right
	// behind it, and Applied names it.
	ConfChange
)

// Entry is one committed entry of a region's log. Data is not copied: it must not change until an Applied of the region
// covers Index.
type Entry struct {
	Index, Term uint64
	Kind        EntryKind
	Data        []byte
}

// Writer takes the writes of an entry. It is the batch that the worker shares among regions. *ashlar.Batch is one.
type Writer interface {
	Put(cf *ashlar.ColumnFamily, key, value []byte) error
	Delete(cf *ashlar.ColumnFamily, key []byte) error
	SingleDelete(cf *ashlar.ColumnFamily, key []byte) error
	DeleteRange(cf *ashlar.ColumnFamily, begin, end []byte) error
	Merge(cf *ashlar.ColumnFamily, key, operand []byte) error
}

var _ Writer = (*ashlar.Batch)(nil)

// StateMachine is what a region's entries are applied to. It is called by one goroutine at a time, in the order of the
// log; not always by the same one.
//
// What it wrote for entries before is not yet readable in the database, unless Hint asked for FlushBefore.
type StateMachine interface {
	// Hint says what an entry needs. It is called just before the entry is applied, and perhaps more than once.
	Hint(e Entry) Hint
	// Apply puts the entry's writes into w. It is called for Normal and ConfChange entries. w must not be kept.
	//
	// Result.Err is for what every replica finds alike, such as a comparison that fails: what the entry wrote is taken back,
	// and the entry counts as applied. The error is for what only this replica has, such as a failed read: the region is
	// poisoned, with the entry not applied. A panic is such an error.
	Apply(w Writer, e Entry) (Result, error)
}

// Hint is what an entry needs of the worker: a set of bits.
type Hint uint8

const (
	// FlushBefore writes the batch first if it holds anything of this region, so that Apply can read it in the database.
	FlushBefore Hint = 1 << iota
	// FlushAfter writes the batch right behind the entry. ConfChange entries always do.
	FlushAfter
	// Sync makes the write that holds the entry a synced one.
	Sync
	// LowPriority sends the region to the low-priority lane, if there is one. For range deletes.
	LowPriority
)

// Result is how an entry ended.
type Result struct {
	// Value is what the state machine returned.
	Value any
	// Err is nil, or what the state machine found wrong on every replica, or one of ErrStale, ErrRegionRemoved, ErrPoisoned,
	// ErrFailed and ErrClosed. After ErrFailed, ErrClosed and ErrPoisoned it is not known to the proposer whether the entry
	// takes effect: it is in the log.
	Err error
	// RemoveSelf, set by the state machine on a ConfChange, says that the entry takes this replica out of its group. Entries
	// behind it are not applied; the region is removed once the entry is written.
	RemoveSelf bool
	// Foreign, set for Done, is how many keys of other regions were written from Send to this call: the wait in a unit that
	// does not depend on the machine.
	Foreign uint64
}

// Proposal waits for the entry with its index and term. Entry and proposal may come in different tasks, the proposal not
// after the entry.
type Proposal struct {
	Index, Term uint64
	// Done is called exactly once, on a worker, after the entry is written; or with an error, also from Send's caller's,
	// Remove's or Close's goroutine. It must not block.
	Done func(Result)
}

// Task is a piece of a region's log that may be applied: the entries follow each other, and those of tasks before.
type Task struct {
	Region RegionID
	// Commit and CommitTerm are of the last entry known to be committed and stored in this machine's log. They go into the
	// ApplyState; zero leaves it to follow Applied.
	Commit, CommitTerm uint64
	Entries            []Entry
	// Proposals in the order of Index.
	Proposals []Proposal
}

// YieldReason says why a turn ended with work left.
type YieldReason uint8

const (
	// NotYielded is a turn that ended because there was no more to do.
	NotYielded YieldReason = iota
	// YieldBytes is a turn that has written Config.ApplyYieldWriteSize.
	YieldBytes
	// YieldDuration is a turn that has lasted Config.ApplyYieldDuration.
	YieldDuration
	// YieldPriority is a turn that ended at an entry for the low-priority lane.
	YieldPriority
)

// String returns the word under which the reason is counted.
func (r YieldReason) String() string { return [...]string{"none", "bytes", "duration", "priority"}[r] }

// Applied says how far a region is, after a write. Those of a region come in order, and their Keys, Bytes and Entries add
// up: each counts only what is new.
type Applied struct {
	Region RegionID
	// State is what is in the database, in the same write as the data.
	State ApplyState
	// Entries is how many entries were applied since the last Applied.
	Entries uint64
	// ConfChanges are those of them that change the group's members and were not refused by the state machine, in order.
	ConfChanges []Entry
	// Bytes and Keys are what they put into the batch, ApplyState not counted.
	Bytes, Keys uint64
	// Yielded says why the turn ended, if it left work.
	Yielded YieldReason
	// Removed is set in the last Applied of a region that was removed, or removed itself.
	Removed bool
	// Err, which matches ErrPoisoned, is why the region stands still.
	Err error
}

// Lag is how much of what was sent to a region is not yet written.
type Lag struct {
	Entries uint64
	Bytes   uint64 // of their Data
}

// Snapshot is a moment of the database at which a region's data is that of its State: not an entry more, not one less.
// Release it.
type Snapshot struct {
	*ashlar.Snapshot
	State ApplyState
}
