package etcdraft

// A cluster of nodes in one process, each with a database in memory. The test is the clock and the network: ticks come when
// it says so, and messages move when it says so. Everything runs in a synctest bubble, so that "until nothing moves any
// more" is something one can wait for.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
	"github.com/ashlardb/ashlar/vfs"
)

const testGroup = raftapply.RegionID(7)

// packet is a message under way.
type packet struct {
	group raftapply.RegionID
	m     *raftpb.Message
}

// network holds what is under way until the test lets it go.
type network struct {
	mu      sync.Mutex
	queue   []packet
	lose    func(packet) bool // nil loses nothing
	peers   map[uint64]*peer
	onChunk func(to uint64, number int) error // before a chunk of a snapshot arrives
	snaps   int                               // snapshots that arrived
}

// wire is a peer's Transport. A dead peer's says nothing any more.
type wire struct {
	net  *network
	mu   sync.Mutex
	dead bool
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
}

func (w *wire) alive() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.dead
}

func copied(m *raftpb.Message) *raftpb.Message {
	p, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	out := new(raftpb.Message)
	if err := proto.Unmarshal(p, out); err != nil {
		panic(err)
	}
	return out
}

func (w *wire) Send(group raftapply.RegionID, msgs []*raftpb.Message) {
	if !w.alive() {
		return
	}
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	for _, m := range msgs {
		w.net.queue = append(w.net.queue, packet{group, copied(m)})
	}
}

func (w *wire) SendSnapshot(ctx context.Context, group raftapply.RegionID, m *raftpb.Message, chunks iter.Seq2[[]byte, error]) error {
	m = copied(m)
	w.net.mu.Lock()
	to, lost, onChunk := w.net.peers[m.GetTo()], w.net.lost(packet{group, m}), w.net.onChunk
	w.net.mu.Unlock()
	if lost || to == nil || to.node == nil || !w.alive() || !to.wire.alive() {
		return errors.New("unreachable")
	}
	n := 0
	err := to.node.ReceiveSnapshot(ctx, group, m, func(yield func([]byte, error) bool) {
		for p, err := range chunks {
			if err == nil && onChunk != nil {
				err = onChunk(m.GetTo(), n)
			}
			n++
			if !yield(slices.Clone(p), err) || err != nil {
				return
			}
		}
	})
	if err == nil {
		w.net.mu.Lock()
		w.net.snaps++
		w.net.mu.Unlock()
	}
	return err
}

func (n *network) lost(p packet) bool { return n.lose != nil && n.lose(p) }

func (n *network) take() []packet {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := n.queue
	n.queue = nil
	return q
}

// peer is a machine.
type peer struct {
	c     *cluster
	id    uint64
	fs    *vfs.Mem
	db    *ashlar.DB
	node  *Node
	group *Group
	wire  *wire
	sm    *counterMachine

	mu        sync.Mutex
	onSync    func(vfs.Op)
	remains   *vfs.Mem // what a power cut that came by itself has left
	syncs     int
	onApplied func([]raftapply.Applied)
}

// setFS gives the peer a disk.
func (p *peer) setFS(fs *vfs.Mem) {
	p.fs = fs
	fs.OnSync = func(op vfs.Op) {
		p.mu.Lock()
		p.syncs++
		f := p.onSync
		p.mu.Unlock()
		if f != nil {
			f(op)
		}
	}
}

// watch calls f before each sync.
func (p *peer) watch(f func(vfs.Op)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onSync, p.syncs = f, 0
}

// die cuts the power now, in whatever goroutine: nobody hears of the machine any more, and what it does from here on is
// lost. rng says what of the unsynced bytes is left; nil leaves nothing.
func (p *peer) die(rng *rand.Rand) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.remains == nil {
		p.wire.cut()
		p.remains = p.fs.Crash(rng)
	}
}

// kill ends the process now, as die ends the machine: what was written is left, synced or not.
func (p *peer) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.remains == nil {
		p.wire.cut()
		p.remains = p.fs.Clone()
	}
}

// hear calls f with what raftapply says.
func (p *peer) hear(f func([]raftapply.Applied)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onApplied = f
}

// dieAt cuts the power at the n-th sync from now on, counted from 1.
func (p *peer) dieAt(n int, rng *rand.Rand) {
	count := 0
	var mu sync.Mutex
	p.watch(func(vfs.Op) {
		mu.Lock()
		count++
		now := count == n
		mu.Unlock()
		if now {
			p.die(rng)
		}
	})
}

// died says whether the power was cut.
func (p *peer) died() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.remains != nil
}

type cluster struct {
	t     *testing.T
	net   *network
	peers map[uint64]*peer
	raft  Config
	apply *raftapply.Config
	hook  func(p *peer, c *GroupConfig) // changes a group's configuration
}

// newCluster starts nodes 1 to n, whose groups have each other as members.
func newCluster(t *testing.T, n int, change ...func(*cluster)) *cluster {
	c := &cluster{t: t, net: &network{}, peers: map[uint64]*peer{}, raft: Config{ElectionTick: 10, HeartbeatTick: 1}}
	c.net.peers = c.peers
	for _, f := range change {
		f(c)
	}
	var members []uint64
	for id := range uint64(n) {
		members = append(members, id+1)
	}
	for _, id := range members {
		c.add(id).start(members...)
	}
	t.Cleanup(func() {
		for _, p := range c.peers {
			p.stop()
		}
	})
	return c
}

func (c *cluster) add(id uint64) *peer {
	p := &peer{c: c, id: id}
	p.setFS(vfs.NewMem())
	c.net.mu.Lock()
	c.peers[id] = p
	c.net.mu.Unlock()
	return p
}

func testOptions(fs vfs.FS) *ashlar.Options {
	return &ashlar.Options{FS: fs, Logger: slog.New(slog.DiscardHandler)}
}

// open opens the database and the node, without the group.
func (p *peer) open() {
	t := p.c.t
	var err error
	p.db, err = ashlar.Open("db", testOptions(p.fs))
	require.NoError(t, err)
	if _, ok := p.db.ColumnFamily("raft"); !ok {
		_, err = p.db.CreateColumnFamily("raft", nil)
		require.NoError(t, err)
	}
	p.wire = &wire{net: p.c.net}
	p.node, err = Open(p.db, &Options{
		Transport: p.wire, TickInterval: ManualTick, Logger: slog.New(slog.DiscardHandler),
		Apply: raftapply.Options{Config: p.c.apply, OnApplied: func(all []raftapply.Applied) {
			p.mu.Lock()
			f := p.onApplied
			p.mu.Unlock()
			if f != nil {
				f(all)
			}
		}},
	})
	require.NoError(t, err)
}

func (p *peer) config(members ...uint64) *GroupConfig {
	p.sm = &counterMachine{db: p.db, group: testGroup}
	c := &GroupConfig{
		Group: testGroup, Replica: p.id, Members: members, StateMachine: p.sm, Data: p.sm.spans(), Raft: p.c.raft,
	}
	if p.c.hook != nil {
		p.c.hook(p, c)
	}
	return c
}

func (p *peer) start(members ...uint64) {
	p.open()
	var err error
	p.group, err = p.node.StartGroup(p.config(members...))
	require.NoError(p.c.t, err)
}

// stop ends a machine in good order.
func (p *peer) stop() {
	if p.node == nil {
		return
	}
	p.wire.cut()
	require.NoError(p.c.t, p.node.Close(context.Background()))
	require.NoError(p.c.t, p.db.Close())
	p.node, p.group = nil, nil
}

// crash cuts the power, unless that has happened by itself, and takes the machine away.
func (p *peer) crash(rng *rand.Rand) {
	p.die(rng)
	p.watch(nil)
	p.stop()
	p.setFS(p.remains)
	p.remains = nil
}

// restart starts the machine on what is left.
func (p *peer) restart() { p.start() }

// settle lets messages go until there are none, and nothing moves.
func (c *cluster) settle() {
	for {
		synctest.Wait()
		packets := c.net.take()
		if len(packets) == 0 {
			return
		}
		for _, p := range packets {
			to := c.peers[p.m.GetTo()]
			if c.net.lost(p) || to == nil || to.node == nil {
				continue
			}
			if err := to.node.Step(p.group, p.m); err != nil && !errors.Is(err, ErrStopped) && !errors.Is(err, ErrNoGroup) {
				require.NoError(c.t, err)
			}
		}
	}
}

func (c *cluster) tick(n int) {
	for range n {
		for _, id := range c.ids() {
			if p := c.peers[id]; p.node != nil {
				p.node.Tick()
			}
		}
		c.settle()
	}
}

func (c *cluster) ids() []uint64 {
	var ids []uint64
	for id := range c.peers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// elect makes a peer the leader.
func (c *cluster) elect(id uint64) *Group {
	c.t.Helper()
	c.settle()
	g := c.peers[id].group
	for i := range 40 {
		if i < 10 {
			require.NoError(c.t, g.Campaign())
		} else { // who has followers hands it over
			for _, other := range c.ids() {
				if p := c.peers[other]; p.group != nil {
					if lead, _ := p.group.Leader(); lead == other && lead != id {
						require.NoError(c.t, p.group.TransferLeader(id))
					}
				}
			}
		}
		c.settle()
		if lead, _ := g.Leader(); lead == id {
			return g
		}
		c.tick(3) // leases must end
	}
	c.t.Fatalf("replica %d is not elected", id)
	return nil
}

// leader ticks until there is a leader among the living.
func (c *cluster) leader() *peer {
	c.t.Helper()
	for range 200 {
		c.tick(1)
		for _, id := range c.ids() {
			if p := c.peers[id]; p.node != nil && p.group != nil {
				if s := p.group.Status(); s.Lead == id && len(s.Progress) > 0 {
					return p
				}
			}
		}
	}
	c.t.Fatal("no leader")
	return nil
}

// answer is what a call that waits has returned.
type answer struct {
	mu     sync.Mutex
	ended  bool
	result raftapply.Result
	index  uint64
	err    error
}

func (a *answer) set(r raftapply.Result, index uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended, a.result, a.index, a.err = true, r, index, err
}

func (a *answer) get() (bool, raftapply.Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended, a.result, a.err
}

// propose proposes, and returns at once. Nobody hears the answer of a machine that has died: it may count on a sync that
// has come after the power was cut.
func (c *cluster) propose(g *Group, format string, args ...any) *answer {
	a := &answer{}
	var w *wire
	for _, p := range c.peers {
		if p.group == g {
			w = p.wire
		}
	}
	go func() {
		r, err := g.Propose(c.t.Context(), fmt.Appendf(nil, format, args...))
		if err == nil && w != nil && !w.alive() {
			err = ErrStopped
		}
		a.set(r, 0, err)
	}()
	synctest.Wait()
	return a
}

// do proposes and lets the cluster do it.
func (c *cluster) do(g *Group, format string, args ...any) raftapply.Result {
	c.t.Helper()
	a := c.propose(g, format, args...)
	c.settle()
	ended, r, err := a.get()
	require.NoError(c.t, err)
	require.True(c.t, ended, "the proposal waits")
	return r
}

func (c *cluster) change(g *Group, cc raftpb.ConfChangeI) *answer {
	a := &answer{}
	go func() {
		r, err := g.ProposeConfChange(c.t.Context(), cc)
		a.set(r, 0, err)
	}()
	synctest.Wait()
	return a
}

func addNode(id uint64) *raftpb.ConfChange {
	return &raftpb.ConfChange{Type: raftpb.ConfChangeAddNode.Enum(), NodeId: &id}
}

func addLearner(id uint64) *raftpb.ConfChange {
	return &raftpb.ConfChange{Type: raftpb.ConfChangeAddLearnerNode.Enum(), NodeId: &id}
}

func removeNode(id uint64) *raftpb.ConfChange {
	return &raftpb.ConfChange{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: &id}
}

// settled lets the cluster do what a waits for.
func (c *cluster) settled(a *answer) *answer {
	c.settle()
	return a
}

// isolate loses what goes to and comes from the peers.
func (c *cluster) isolate(ids ...uint64) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.net.lose = func(p packet) bool {
		return slices.Contains(ids, p.m.GetTo()) != slices.Contains(ids, p.m.GetFrom())
	}
}

func (c *cluster) heal() {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.net.lose = nil
}

// counterMachine counts: "add k" reads a number and writes one more, so that an entry that is applied twice, or not,
// shows. "put k v" puts, "refuse" is refused by every replica, "break" breaks this one.
type counterMachine struct {
	db    *ashlar.DB
	group raftapply.RegionID
	hold  chan struct{} // "wait" waits for it, and a change of members with "wait" in it, if it is not nil
}

func (m *counterMachine) key(k string) []byte {
	return append(binary.BigEndian.AppendUint64([]byte("z"), uint64(m.group)), k...)
}

func (m *counterMachine) spans() []Span {
	return []Span{{m.db.DefaultColumnFamily(), m.key(""), (&counterMachine{group: m.group + 1}).key("")}}
}

func (m *counterMachine) Hint(e raftapply.Entry) raftapply.Hint {
	if strings.HasPrefix(string(e.Data), "add ") {
		return raftapply.FlushBefore
	}
	return 0
}

var errRefusedByMachine = errors.New("refused")

func (m *counterMachine) Apply(w raftapply.Writer, e raftapply.Entry) (raftapply.Result, error) {
	if e.Kind == raftapply.ConfChange {
		var cc raftpb.ConfChangeV2
		if err := proto.Unmarshal(e.Data, &cc); err != nil {
			return raftapply.Result{}, err
		}
		if string(cc.Context) == "wait" && m.hold != nil {
			<-m.hold
		}
		if string(cc.Context) == "refuse" {
			return raftapply.Result{Err: errRefusedByMachine}, w.Put(nil, m.key("trace"), nil)
		}
		return raftapply.Result{}, w.Put(nil, m.key("conf"), e.Data)
	}
	f := strings.SplitN(string(e.Data), " ", 3)
	switch f[0] {
	case "add":
		n, err := m.count(f[1])
		if err != nil {
			return raftapply.Result{}, err
		}
		return raftapply.Result{Value: n + 1}, w.Put(nil, m.key(f[1]), binary.BigEndian.AppendUint64(nil, n+1))
	case "put":
		return raftapply.Result{Value: e.Index}, w.Put(nil, m.key(f[1]), []byte(f[2]))
	case "wait":
		<-m.hold
		return raftapply.Result{}, nil
	case "refuse":
		return raftapply.Result{Err: errRefusedByMachine}, nil
	case "break":
		return raftapply.Result{}, errors.New("broken")
	}
	return raftapply.Result{}, fmt.Errorf("unknown command %q", e.Data)
}

func (m *counterMachine) count(k string) (uint64, error) {
	v, err := m.db.Get(m.key(k), nil)
	if errors.Is(err, ashlar.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(v), nil
}

// data is all that a peer's group has.
func (p *peer) data() map[string]string {
	all := map[string]string{}
	for _, s := range p.sm.spans() {
		it := s.Family.Range(s.Begin, s.End, nil)
		for k, v := range it.All() {
			all[string(k[9:])] = string(v)
		}
		require.NoError(p.c.t, it.Close())
	}
	return all
}

// requireEqual wants the peers to have applied the same, and to have the same data and members.
func (c *cluster) requireEqual(ids ...uint64) {
	c.t.Helper()
	first := c.peers[ids[0]]
	want := first.group.Status()
	for _, id := range ids {
		p := c.peers[id]
		s := p.group.Status()
		require.Equal(c.t, want.Apply.Applied, s.Apply.Applied, "replica %d", id)
		require.Equal(c.t, first.data(), p.data(), "replica %d", id)
		require.NoError(c.t, want.ConfState.Equivalent(s.ConfState), "replica %d", id)
	}
}

// stored reads the members in a peer's database.
func (p *peer) stored() *raftpb.ConfState {
	cs := new(raftpb.ConfState)
	_, err := getProto(p.node.family, confKey(testGroup), nil, cs)
	require.NoError(p.c.t, err)
	return cs
}

// isUnknown says whether a proposal that ended with err may take effect.
func isUnknown(err error) bool {
	return errors.Is(err, ErrUnknown) || errors.Is(err, ErrStopped) || errors.Is(err, raftapply.ErrPoisoned)
}
