package etcdraft

import (
	"context"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
)

// Config has raft's settings, under raft's names. A zero field is the default that stands beside it. The replica's id, its
// storage, AsyncStorageWrites, StepDownOnRemoval and DisableProposalForwarding are not in it: they are set.
type Config struct {
	ElectionTick             int    // 10
	HeartbeatTick            int    // 1
	MaxSizePerMsg            uint64 // 1 MiB
	MaxCommittedSizePerReady uint64 // 16 MiB: how much may wait to be applied; below raftapply's MaxPendingBytes
	// MaxUncommittedEntriesSize is 64 MiB. What is committed but not yet applied counts: behind a slow state machine
	// proposals are refused with ErrDropped.
	MaxUncommittedEntriesSize uint64
	MaxInflightMsgs           int    // 256
	MaxInflightBytes          uint64 // no limit
	NoCheckQuorum             bool   // raft's CheckQuorum is on otherwise
	NoPreVote                 bool   // raft's PreVote is on otherwise
	ReadOnlyOption            raft.ReadOnlyOption

	// LogEntries is how many applied entries are kept in the log for replicas that are behind: 10000. When there are twice as
	// many, the oldest are deleted. A replica that needs deleted ones gets a snapshot.
	LogEntries uint64
}

// Span is a part of a column family, [Begin, End).
type Span struct {
	Family     *ashlar.ColumnFamily
	Begin, End []byte
}

// GroupConfig is what StartGroup needs to know of a group. Group, Replica, StateMachine and Data are needed.
type GroupConfig struct {
	// Group names the group, in all its replicas alike; Replica names this replica in it, as raft's ID. A replica that was
	// removed or wiped never comes back: a new one gets a new name.
	Group   raftapply.RegionID
	Replica uint64
	// Members are the voters with which the group begins. All of them are given the same. It only counts if the database
	// holds nothing of the group; empty then makes a replica that joins: it waits for a leader to send it a snapshot.
	Members []uint64
	// StateMachine is what the group's entries are applied to. Entries of kind ConfChange come to it with a marshalled
	// raftpb.ConfChangeV2 as Data, after they were found to make sense; a Result.Err refuses them. Index and Term are raft's.
	StateMachine raftapply.StateMachine
	// Data is all that the state machine writes: what a snapshot has in it, and what installing one deletes first. The same
	// in all replicas, in the same order. Spans do not overlap, nor do those of other groups; and in the state family they
	// keep clear of the keys that begin with 0x01 0x02 and 0x01 0x03.
	Data []Span
	// OnRestore, if not nil, is called when a snapshot has taken the place of the data, before entries are applied to it.
	OnRestore func(raftapply.ApplyState) error
	Raft      Config
}

// Group is a replica of a raft group. All methods may be called from many goroutines.
type Group struct{}

// ID returns the group's name, and Replica the replica's in it.
func (g *Group) ID() raftapply.RegionID { panic("next") }
func (g *Group) Replica() uint64        { panic("next") }

// Propose puts a command into the group's log and waits until it is applied here. The error says that it was not, or that
// it is not known:
//
//   - ErrNotLeader, ErrDropped, ErrRemoved, ErrInvalidArgument (no data), ErrStale: it has no effect.
//   - ErrUnknown, ErrStopped, raftapply.ErrPoisoned, ctx's: it may take effect, now or later.
//
// What the state machine found is in Result.Err, not here. data must not be changed any more.
func (g *Group) Propose(ctx context.Context, data []byte) (raftapply.Result, error) { panic("next") }

// ProposeConfChange changes the members, as Propose does. ErrConfChange if it was refused, also by the state machine, whose
// reason is matched then.
func (g *Group) ProposeConfChange(ctx context.Context, cc raftpb.ConfChangeI) (raftapply.Result, error) {
	panic("next")
}

// ReadIndex asks the leader for an index such that who has applied it has applied all that was acknowledged to anybody
// before the call. Use it with Read, or WaitApplied. On any replica; it asks again when messages were lost or the leader
// changes, until ctx ends. ErrNoLeader, ErrStopped, ErrRemoved.
func (g *Group) ReadIndex(ctx context.Context) (uint64, error) { panic("next") }

// WaitApplied waits until the entry at index is applied here.
func (g *Group) WaitApplied(ctx context.Context, index uint64) error { panic("next") }

// Read waits until the entry at index is applied here, and calls fn while no snapshot takes the place of the data: between
// WaitApplied and a Get of one's own that could happen. index 0 does not wait. ErrRestoring if a snapshot is being installed;
// another replica can answer. fn should be quick: an install waits for it.
func (g *Group) Read(ctx context.Context, index uint64, fn func() error) error { panic("next") }

// Leader returns the replica that leads, as far as is known here, 0 for none; and the term.
func (g *Group) Leader() (lead, term uint64) { panic("next") }

// Campaign stands for election.
func (g *Group) Campaign() error { panic("next") }

// TransferLeader hands the leadership to another replica, if this one leads. It does not wait for it.
func (g *Group) TransferLeader(to uint64) error { panic("next") }

// ReportUnreachable says that a message to a replica was lost for sure.
func (g *Group) ReportUnreachable(replica uint64) error { panic("next") }

// Truncate deletes the log's entries up to index, as far as they are applied. A replica that needs them gets a snapshot.
func (g *Group) Truncate(ctx context.Context, index uint64) error { panic("next") }

// Status is how a replica stands.
type Status struct {
	raft.Status // raft's; Progress and Config of the leader
	// ConfState is the members, as of Applied.
	ConfState *raftpb.ConfState
	// FirstIndex and LastIndex are the log's, on disk.
	FirstIndex, LastIndex uint64
	// Apply is how far the data is.
	Apply raftapply.ApplyState
	// Lag is what is committed and handed over, and not applied.
	Lag raftapply.Lag
	// Removed says that the replica was taken out of its group.
	Removed bool
	// Restoring says that a snapshot is being installed.
	Restoring bool
}

// Status returns how the replica stands; of a stopped group only what does not need raft.
func (g *Group) Status() Status { panic("next") }

// Removed is closed when an entry was applied that takes the replica out of its group. The replica goes on voting, so that
// the others can find a leader, until Close; then Node.Wipe.
func (g *Group) Removed() <-chan struct{} { panic("next") }

// Done is closed when the group has stopped; then Err says why: ErrStopped after Close, or it matches also what failed.
func (g *Group) Done() <-chan struct{} { panic("next") }
func (g *Group) Err() error            { panic("next") }

// Close stops the replica; it stays in the database. Proposals that wait get ErrStopped. A closed group may be started
// again.
func (g *Group) Close(ctx context.Context) error { panic("next") }
