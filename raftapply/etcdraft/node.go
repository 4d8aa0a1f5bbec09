package etcdraft

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
)

// Transport carries messages to the other replicas of groups. It may lose, repeat and reorder them, as networks do.
// Its methods are called from many goroutines.
type Transport interface {
	// Send takes messages of a group; each goes to the replica m.GetTo(). It must not wait. The messages and their entries
	// are shared: read them, do not change them. There is never a snapshot among them.
	Send(group raftapply.RegionID, msgs []*raftpb.Message)
	// SendSnapshot takes m, and the data that belongs to it as chunks of about SnapshotChunk bytes, to the replica
	// m.GetTo(), where Node.ReceiveSnapshot is given the same. It runs on a goroutine of its own, and returns what
	// ReceiveSnapshot returned there, or what went wrong on the way; the group tells raft. A chunk lives until the next. When
	// ctx ends, the group does.
	SendSnapshot(ctx context.Context, group raftapply.RegionID, m *raftpb.Message, chunks iter.Seq2[[]byte, error]) error
}

// SnapshotChunk is about how many bytes a chunk of a snapshot has. One with a larger value is larger.
const SnapshotChunk = 256 << 10

// ManualTick, as Options.TickInterval, leaves the clock to the caller: see Node.Tick.
const ManualTick time.Duration = -1

// Options of a Node. Transport is needed, the rest may be zero.
type Options struct {
	// Transport carries the messages of all groups.
	Transport Transport
	// TickInterval is the time of one of raft's ticks. 0 is 100 ms.
	TickInterval time.Duration
	// Apply is for the System that the Node opens. Its StateFamily also holds the logs. Its OnApplied and OnFatal are called
	// too.
	Apply raftapply.Options
	// Logger gets what raft and the Node say. nil for slog.Default().
	Logger *slog.Logger
}

// Node runs the replicas that a machine has, one of each of its groups: their logs and data are in one database, their
// logs' writes are joined and synced together, and what is committed goes through one raftapply.System. All methods may be
// called from many goroutines.
type Node struct{}

// Open begins without groups: see StartGroup. The database must have the column family that o.Apply.StateFamily names, with
// the default comparator.
func Open(db *ashlar.DB, o *Options) (*Node, error) { panic("next") }

// System returns the System that applies, to look at and to configure. It is closed with the Node.
func (n *Node) System() *raftapply.System { panic("next") }

// StartGroup starts the replica of a group that this machine has. If the database holds the replica already, it goes on
// from there; what a crash cut short is finished first.
//
// ErrCorruption says that the log and the data do not fit together, which no crash leaves behind: the replica must be
// thrown away (Node.Wipe) and made anew under another id.
func (n *Node) StartGroup(c *GroupConfig) (*Group, error) { panic("next") }

// Group returns a group that runs.
func (n *Node) Group(id raftapply.RegionID) (*Group, bool) { panic("next") }

// Step takes a message from the network to its group. It does not wait. Messages may be dropped when too many wait.
// ErrNoGroup, ErrBadMessage, ErrStopped.
func (n *Node) Step(group raftapply.RegionID, m *raftpb.Message) error { panic("next") }

// ReceiveSnapshot takes what a peer's Transport.SendSnapshot was given. It reads the chunks into a place of their own in the
// database, and returns when they are all there and raft was told; the group then puts them in the place of its data. A
// chunk need not live longer than until the next. ashlar.ErrBusy while another snapshot of the group comes in.
func (n *Node) ReceiveSnapshot(ctx context.Context, group raftapply.RegionID, m *raftpb.Message, chunks iter.Seq2[[]byte, error]) error {
	panic("next")
}

// Tick moves the clock of every group by one, with ManualTick.
func (n *Node) Tick() { panic("next") }

// Wipe deletes the log, the state and the data of a group that does not run here. Do it with a replica that was removed.
// A replica that is wiped must never come back under its old id: it has forgotten its votes.
func (n *Node) Wipe(group raftapply.RegionID, data []Span) error { panic("next") }

// Close stops all groups, finishes what is being applied, and ends the System. The database stays open.
func (n *Node) Close(ctx context.Context) error { panic("next") }
