package etcdraft

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
)

// Config has raft's settings, under raft's names. A zero field is the default that stands beside it. The replica's id, its
// storage, AsyncStorageWrites, StepDownOnRemoval and DisableProposalForwarding are not in it: they are set.
type Config struct {
	// ElectionTick is 10. With Options.TickInterval it should be several times what a synced write takes on a busy machine:
	// an election in which voters take longer to write their vote begins again.
	ElectionTick             int
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

	// LogEntries and LogBytes are how much of what is applied is kept in the log for replicas that are behind: 10000 entries,
	// and 64 MiB. When there is twice as much of either, the oldest are deleted. A replica that needs deleted ones gets a
	// snapshot.
	LogEntries, LogBytes uint64
	// LogCacheBytes is how much of the log's end is kept in memory: 1 MiB. NoLogCache keeps none.
	LogCacheBytes uint64
	NoLogCache    bool
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
type Group struct {
	// Constant.
	id        raftapply.RegionID
	replica   uint64
	node      *Node
	config    Config
	spans     []Span
	onRestore func(raftapply.ApplyState) error
	logger    *slog.Logger
	log       *raftLog
	machine   *machine
	ctx       context.Context // ends with the group
	cancel    context.CancelFunc
	gone      chan struct{} // closed when the replica was removed
	done      chan struct{} // closed when the group has ended

	inbox inbox
	// Written by the group's goroutine, but for busy.
	lead, term atomic.Uint64
	removed    atomic.Bool
	restoring  atomic.Bool // a snapshot is being installed
	busy       atomic.Bool // a snapshot comes in: set by who receives it, cleared when it is installed or dropped
	final      atomic.Pointer[error]
	reading    sync.RWMutex // held for reading by Read's fn, for writing while the data is replaced

	// Owned by the group's goroutine.
	raft     *raft.RawNode
	conf     *raftpb.ConfState // as raft knows it
	confAt   uint64            // index of the snapshot that conf is at least as new as
	applying []*raftpb.Entry   // handed over for applying, and not acknowledged to raft
	unsent   []raftapply.Task  // the end of applying, not yet taken by raftapply
	pending  []*proposal       // in the log, not yet handed over for applying
	taken    []*proposal       // by raft, their place not yet known
	now      work              // what of the inbox is not yet done
	answers  []func()          // to changes of members, until raft has heard of them
	asking   map[string]*question
	asked    uint64
	out      outgoing
	in       incoming
	ticks    int
	heard    map[uint64]int // of a leader: the tick at which a replica was last heard of
	err      error          // why the group ends
	tasks    sync.WaitGroup // goroutines beside it, added to by it only
}

// ID returns the group's name.
func (g *Group) ID() raftapply.RegionID { return g.id }

// Replica returns the replica's name in the group.
func (g *Group) Replica() uint64 { return g.replica }

// WaitApplied waits until the entry at index is applied here. ErrRestoring, ErrRemoved, ErrStopped.
func (g *Group) WaitApplied(ctx context.Context, index uint64) error {
	err := g.node.system.WaitApplied(ctx, g.id, index)
	switch {
	case err == nil:
		return nil
	case g.final.Load() != nil:
		return g.stopped()
	case isGone(err) && g.removed.Load():
		return ErrRemoved
	case isGone(err):
		return ErrRestoring
	}
	return err
}

// Read waits until the entry at index is applied here, and calls fn while no snapshot takes the place of the data: between
// WaitApplied and a Get of one's own that could happen. index 0 does not wait. ErrRestoring if a snapshot is being installed;
// another replica can answer. fn should be quick: an install waits for it.
func (g *Group) Read(ctx context.Context, index uint64, fn func() error) error {
	if index > 0 {
		if err := g.WaitApplied(ctx, index); err != nil {
			return err
		}
	}
	if !g.reading.TryRLock() {
		return ErrRestoring
	}
	defer g.reading.RUnlock()
	if g.final.Load() != nil { // perhaps in the middle of an install
		return g.stopped()
	}
	return fn()
}

// Leader returns the replica that leads, as far as is known here, 0 for none; and the term.
func (g *Group) Leader() (lead, term uint64) { return g.lead.Load(), g.term.Load() }

// Campaign stands for election. It does not wait for it.
func (g *Group) Campaign() error { return g.ask0(func() { _ = g.raft.Campaign() }) }

// TransferLeader hands the leadership to another replica, if this one leads. It does not wait for it.
func (g *Group) TransferLeader(to uint64) error {
	return g.ask0(func() { g.raft.TransferLeader(to) })
}

// ReportUnreachable says that a message to a replica was lost for sure.
func (g *Group) ReportUnreachable(replica uint64) error {
	return g.ask0(func() { g.raft.ReportUnreachable(replica) })
}

// ask0 leaves something to do for which nobody waits.
func (g *Group) ask0(do func()) error {
	if !g.inbox.put(call{do, func() {}}, false) {
		return g.stopped()
	}
	return nil
}

// Status is how a replica stands.
type Status struct {
	raft.Status // raft's; Progress and Config of the leader
	// ConfState is the members, as raft knows them.
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
func (g *Group) Status() Status {
	var s Status
	known := make(chan struct{})
	g.postOr(func() {
		defer close(known) // also if raft panics
		s.Status, s.ConfState = g.raft.Status(), g.conf
	}, func() {
		s.ID = g.replica
		close(known)
	})
	<-known
	cut, last := g.log.bounds()
	s.FirstIndex, s.LastIndex = cut.index+1, last.index
	// Of a group that is not with raftapply they are zero.
	s.Apply, _ = g.node.system.State(g.id)
	s.Lag, _ = g.node.system.AppliedLag(g.id)
	s.Removed, s.Restoring = g.removed.Load(), g.restoring.Load()
	return s
}

// Removed is closed when an entry was applied that takes the replica out of its group. The replica goes on voting, so that
// the others can find a leader, until Close; then Node.Wipe.
func (g *Group) Removed() <-chan struct{} { return g.gone }

// Done is closed when the group has stopped.
func (g *Group) Done() <-chan struct{} { return g.done }

// Err says why the group stops or has stopped: ErrStopped after Close, else it matches also what failed. nil while it runs.
func (g *Group) Err() error {
	if g.final.Load() == nil {
		return nil
	}
	return g.stopped()
}

// stopped is for who finds the inbox closed.
func (g *Group) stopped() error {
	if err := g.final.Load(); err != nil {
		return *err
	}
	return ErrStopped
}

// Close stops the replica; it stays in the database. Proposals that wait get ErrStopped. A closed group may be started
// again. If ctx ends first, the group goes on stopping.
func (g *Group) Close(ctx context.Context) error {
	g.post(func() {
		if g.err == nil {
			g.err = ErrStopped
		}
	})
	select {
	case <-g.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// checkMessage refuses what no peer sends, and raft would panic on.
func (g *Group) checkMessage(m *raftpb.Message) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: group %d: "+format, append([]any{ErrBadMessage, g.id}, args...)...)
	}
	switch {
	case m == nil:
		return bad("none at all")
	case m.GetTo() != g.replica:
		return bad("a %v to replica %d; this is %d", m.GetType(), m.GetTo(), g.replica)
	case m.GetFrom() == raft.None, m.GetFrom() == g.replica, raft.IsLocalMsgTarget(m.GetFrom()):
		return bad("a %v from %d", m.GetType(), m.GetFrom())
	case raft.IsLocalMsg(m.GetType()), m.GetType() == raftpb.MsgProp:
		return bad("a %v from another replica", m.GetType())
	case m.GetType() == raftpb.MsgReadIndex && len(m.GetEntries()) != 1:
		return bad("a %v with %d contexts", m.GetType(), len(m.GetEntries()))
	}
	if m.GetType() != raftpb.MsgApp {
		return nil
	}
	before := entryID{m.GetIndex(), m.GetLogTerm()}
	for _, e := range m.GetEntries() {
		if e.GetIndex() != before.index+1 || e.GetTerm() < before.term || e.GetTerm() > m.GetTerm() {
			return bad("entry %d of term %d follows %v in a message of term %d", e.GetIndex(), e.GetTerm(), before, m.GetTerm())
		}
		before = entryID{e.GetIndex(), e.GetTerm()}
	}
	return nil
}

// withDefaults fills in the defaults and checks.
func (c Config) withDefaults(mostPending raftapply.Size) (Config, error) {
	or := func(v *uint64, d uint64) {
		if *v == 0 {
			*v = d
		}
	}
	orInt := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	orInt(&c.ElectionTick, 10)
	orInt(&c.HeartbeatTick, 1)
	orInt(&c.MaxInflightMsgs, 256)
	or(&c.MaxSizePerMsg, 1<<20)
	or(&c.MaxCommittedSizePerReady, 16<<20)
	or(&c.MaxUncommittedEntriesSize, 64<<20)
	or(&c.LogEntries, 10000)
	or(&c.LogBytes, 64<<20)
	or(&c.LogCacheBytes, 1<<20)
	c.LogEntries, c.LogBytes = min(c.LogEntries, 1<<60), min(c.LogBytes, 1<<60) // four times as much is still a number
	var errs []error
	if c.HeartbeatTick < 0 || c.ElectionTick <= c.HeartbeatTick {
		errs = append(errs, invalid("ElectionTick is %d, HeartbeatTick %d: want more, and at least 1", c.ElectionTick, c.HeartbeatTick))
	}
	if c.MaxInflightMsgs < 0 {
		errs = append(errs, invalid("MaxInflightMsgs is %d: want 1 or more", c.MaxInflightMsgs))
	}
	if c.MaxInflightBytes > 0 && c.MaxInflightBytes < c.MaxSizePerMsg {
		errs = append(errs, invalid("MaxInflightBytes is %d: want MaxSizePerMsg, %d, or more", c.MaxInflightBytes, c.MaxSizePerMsg))
	}
	if c.MaxCommittedSizePerReady >= uint64(mostPending) {
		errs = append(errs, invalid("MaxCommittedSizePerReady is %d: want less than raftapply's MaxPendingBytes, %v",
			c.MaxCommittedSizePerReady, mostPending))
	}
	if c.NoCheckQuorum && c.ReadOnlyOption == raft.ReadOnlyLeaseBased {
		errs = append(errs, invalid("ReadOnlyLeaseBased needs CheckQuorum"))
	}
	return c, errors.Join(errs...)
}
