package etcdraft

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
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
	// ReceiveSnapshot returned there, or what went wrong on the way; the group tells raft. A chunk lives until the next; none
	// may be read any more when SendSnapshot has returned. When ctx ends, the group does.
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
//
// Lock order: starting, then mu. Both may be taken before any lock of a group.
type Node struct {
	db        *ashlar.DB
	family    *ashlar.ColumnFamily
	transport Transport
	logger    *slog.Logger
	system    *raftapply.System
	appender  *appender
	threads   sync.WaitGroup
	stopClock chan struct{}

	starting sync.Mutex // held while a group is started or wiped

	mu     sync.RWMutex
	groups map[raftapply.RegionID]*Group
	closed bool
	failed error
}

// Open begins without groups: see StartGroup. The database must have the column family that o.Apply.StateFamily names, with
// the default comparator.
func Open(db *ashlar.DB, o *Options) (*Node, error) {
	if o == nil || o.Transport == nil {
		return nil, invalid("a Node without a Transport")
	}
	n := &Node{
		db: db, transport: o.Transport, logger: o.Logger, groups: map[raftapply.RegionID]*Group{},
		stopClock: make(chan struct{}),
	}
	if n.logger == nil {
		n.logger = slog.Default()
	}
	apply := o.Apply
	if apply.Logger == nil {
		apply.Logger = n.logger
	}
	if apply.StateFamily == "" {
		apply.StateFamily = raftapply.DefaultStateFamily
	}
	apply.OnApplied = func(all []raftapply.Applied) {
		n.onApplied(all)
		if o.Apply.OnApplied != nil {
			o.Apply.OnApplied(all)
		}
	}
	apply.OnFatal = func(err error) {
		n.fail(err)
		if o.Apply.OnFatal != nil {
			o.Apply.OnFatal(err)
		}
	}
	var err error
	if n.system, err = raftapply.Open(db, &apply); err != nil {
		return nil, err
	}
	n.family, _ = db.ColumnFamily(apply.StateFamily)
	n.appender = newAppender(db, n.fail)
	n.threads.Go(n.appender.run)
	if o.TickInterval != ManualTick {
		interval := o.TickInterval
		if interval <= 0 {
			interval = 100 * time.Millisecond
		}
		n.threads.Go(func() { n.runClock(interval) })
	}
	return n, nil
}

func (n *Node) runClock(interval time.Duration) {
	clock := time.NewTicker(interval)
	defer clock.Stop()
	for {
		select {
		case <-clock.C:
			n.Tick()
		case <-n.stopClock:
			return
		}
	}
}

// onApplied passes on what raftapply says, to the group that it is about.
func (n *Node) onApplied(all []raftapply.Applied) {
	for _, a := range all {
		if g, ok := n.Group(a.Region); ok {
			g.post(func() { g.applied(a) })
		}
	}
}

// fail stops all groups: the database refused a write.
func (n *Node) fail(err error) {
	n.mu.Lock()
	if n.failed == nil {
		n.failed = err
	}
	n.mu.Unlock()
	for _, g := range n.all() {
		g.post(func() { g.fail(err) })
	}
}

func (n *Node) all() []*Group {
	n.mu.RLock()
	defer n.mu.RUnlock()
	all := make([]*Group, 0, len(n.groups))
	for _, g := range n.groups {
		all = append(all, g)
	}
	return all
}

// System returns the System that applies, to look at and to configure. It is closed with the Node.
func (n *Node) System() *raftapply.System { return n.system }

// Group returns a group that runs.
func (n *Node) Group(id raftapply.RegionID) (*Group, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	g, ok := n.groups[id]
	return g, ok
}

func (n *Node) group(id raftapply.RegionID) (*Group, error) {
	g, ok := n.Group(id)
	if !ok {
		return nil, fmt.Errorf("%w: %d", ErrNoGroup, id)
	}
	return g, nil
}

// Step takes a message from the network to its group. It does not wait. Messages may be dropped when too many wait.
// ErrNoGroup, ErrBadMessage, ErrStopped.
func (n *Node) Step(group raftapply.RegionID, m *raftpb.Message) error {
	g, err := n.group(group)
	if err == nil {
		err = g.checkMessage(m)
	}
	if err == nil && m.GetType() == raftpb.MsgSnap {
		err = fmt.Errorf("%w: a snapshot comes with its data, through ReceiveSnapshot", ErrBadMessage)
	}
	if err != nil {
		return err
	}
	if !g.inbox.put(call{func() { _ = g.raft.Step(m) }, func() {}}, true) {
		return g.stopped()
	}
	return nil
}

// ReceiveSnapshot takes what a peer's Transport.SendSnapshot was given. It reads the chunks into a place of their own in the
// database, and returns when they are all there and raft was told; the group then puts them in the place of its data. A
// chunk need not live longer than until the next. ashlar.ErrBusy while another snapshot of the group comes in.
func (n *Node) ReceiveSnapshot(ctx context.Context, group raftapply.RegionID, m *raftpb.Message, chunks iter.Seq2[[]byte, error]) error {
	g, err := n.group(group)
	if err != nil {
		return err
	}
	return g.receive(ctx, m, chunks)
}

// Tick moves the clock of every group by one, with ManualTick.
func (n *Node) Tick() {
	for _, g := range n.all() {
		g.inbox.tick(g.config.ElectionTick)
	}
}

// Wipe deletes the log, the state and the data of a group that does not run here. Do it with a replica that was removed.
// A replica that is wiped must never come back under its old id: it has forgotten its votes.
func (n *Node) Wipe(group raftapply.RegionID, data []Span) error {
	n.starting.Lock()
	defer n.starting.Unlock()
	if _, ok := n.Group(group); ok {
		return fmt.Errorf("%w: %d", ErrGroupExists, group)
	}
	if err := checkSpans(n.family, data); err != nil {
		return err
	}
	var b ashlar.Batch
	for _, s := range data {
		if err := b.DeleteRange(s.Family, s.Begin, s.End); err != nil {
			return err
		}
	}
	err := errors.Join(
		b.DeleteRange(n.family, groupKey(group, 0), groupKey(group, endSuffix)),
		b.Delete(n.family, confKey(group)),
	)
	if err != nil {
		return err
	}
	return n.db.Write(&b, ashlar.Sync)
}

// leave lets the group's name be free.
func (n *Node) leave(g *Group) {
	if err := n.system.Remove(context.Background(), g.id); err != nil && !isGone(err) && !errors.Is(err, raftapply.ErrClosed) {
		g.logger.Error("etcdraft: the group does not leave raftapply", "error", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.groups, g.id)
}

// Close stops all groups, finishes what is being applied, and ends the System. The database stays open. If ctx ends first,
// the rest goes on by itself; Close may be called again.
func (n *Node) Close(ctx context.Context) error {
	n.mu.Lock()
	first := !n.closed
	n.closed = true
	n.mu.Unlock()
	if first {
		close(n.stopClock)
	}
	n.starting.Lock() // nobody is being started any more
	n.starting.Unlock()
	for _, g := range n.all() {
		if err := g.Close(ctx); err != nil {
			return err
		}
	}
	n.appender.end()
	n.threads.Wait()
	return n.system.Close(ctx)
}
