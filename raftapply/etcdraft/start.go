package etcdraft

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
)

// beginning is the entry before the first of a new group's log. There is no such entry: it stands for what the members are
// given when the group is made. A replica that joins has nothing, not even that, so that it gets a snapshot.
var beginning = entryID{index: 5, term: 5}

// StartGroup starts the replica of a group that this machine has. If the database holds the replica already, it goes on
// from there; what a crash cut short is finished first.
//
// ErrCorruption says that the log and the data do not fit together, which no crash leaves behind: the replica must be
// thrown away (Node.Wipe) and made anew under another id.
func (n *Node) StartGroup(c *GroupConfig) (*Group, error) {
	if err := c.check(n.family); err != nil {
		return nil, err
	}
	config, err := c.Raft.withDefaults(n.system.Config().MaxPendingBytes)
	if err != nil {
		return nil, err
	}
	n.starting.Lock()
	defer n.starting.Unlock()
	if err := n.canStart(c.Group); err != nil {
		return nil, err
	}
	if err := n.makeWhole(c); err != nil {
		return nil, fmt.Errorf("group %d: %w", c.Group, err)
	}
	log, state, err := n.load(c, &config)
	if err != nil {
		return nil, fmt.Errorf("group %d: %w", c.Group, err)
	}
	g := &Group{
		id: c.Group, replica: c.Replica, node: n, config: config, spans: c.Data, onRestore: c.OnRestore, log: log,
		logger:  n.logger.With("group", uint64(c.Group), "replica", c.Replica),
		machine: &machine{group: c.Group, replica: c.Replica, user: c.StateMachine, family: n.family, conf: log.conf},
		gone:    make(chan struct{}), done: make(chan struct{}), conf: log.conf,
		asking: map[string]*question{}, asked: rand.Uint64(), heard: map[uint64]int{},
	}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.inbox.more.L = &g.inbox.mu
	log.makeSnapshot = g.makeSnapshot
	if err := g.start(state); err != nil {
		g.cancel()
		return nil, fmt.Errorf("group %d: %w", c.Group, err)
	}
	return g, nil
}

// start brings the group to raft, to raftapply, and to life.
func (g *Group) start(state raftapply.ApplyState) error {
	err := guard("raft", func() (err error) {
		c := &g.config
		g.raft, err = raft.NewRawNode(&raft.Config{
			ID: g.replica, Storage: g.log, Applied: state.Applied, AsyncStorageWrites: true,
			ElectionTick: c.ElectionTick, HeartbeatTick: c.HeartbeatTick, MaxSizePerMsg: c.MaxSizePerMsg,
			MaxCommittedSizePerReady: c.MaxCommittedSizePerReady, MaxUncommittedEntriesSize: c.MaxUncommittedEntriesSize,
			MaxInflightMsgs: c.MaxInflightMsgs, MaxInflightBytes: c.MaxInflightBytes,
			CheckQuorum: !c.NoCheckQuorum, PreVote: !c.NoPreVote, ReadOnlyOption: c.ReadOnlyOption,
			DisableProposalForwarding: true, StepDownOnRemoval: true, Logger: raftLogger{g.logger},
		})
		return err
	})
	if err != nil {
		return err
	}
	g.term.Store(g.log.hard.GetTerm())
	n := g.node
	n.mu.Lock()
	n.groups[g.id] = g
	n.mu.Unlock()
	if len(g.conf.GetVoters()) > 0 && !isMember(g.conf, g.replica) {
		g.removed.Store(true)
		close(g.gone)
	} else if _, err := n.system.Register(g.id, g.machine, nil); err != nil {
		n.mu.Lock()
		delete(n.groups, g.id)
		n.mu.Unlock()
		return err
	}
	go g.run()
	return nil
}

// canStart says what stands in a group's way.
func (n *Node) canStart(id raftapply.RegionID) error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	switch {
	case n.closed:
		return ErrStopped
	case n.failed != nil:
		return fmt.Errorf("%w: %w", ErrStopped, n.failed)
	case n.groups[id] != nil:
		return fmt.Errorf("%w: %d", ErrGroupExists, id)
	}
	return nil
}

// makeWhole finishes the install of a snapshot that was cut short, throws away one that only came in, and makes a group of
// which there is nothing.
func (n *Node) makeWhole(c *GroupConfig) error {
	value, found, err := get(n.family, groupKey(c.Group, installSuffix), nil)
	if err != nil {
		return err
	}
	if found {
		in, err := decodeInstall(value)
		if err != nil {
			return err
		}
		if err := finishInstall(context.Background(), n.db, n.family, c.Group, c.Data, in); err != nil {
			return err
		}
		if c.OnRestore != nil {
			return guard("OnRestore", func() error { return c.OnRestore(in.state()) })
		}
		return nil
	}
	it := n.family.Range(groupKey(c.Group, 0), groupKey(c.Group, endSuffix), nil)
	defer it.Close()
	switch {
	case it.SeekToFirst():
		if it.Seek(groupKey(c.Group, stageSuffix)) {
			return clearStage(n.db, n.family, c.Group)
		}
		return it.Error()
	case it.Error() != nil || len(c.Members) == 0:
		return it.Error()
	}
	var b ashlar.Batch
	at := install{meta: &raftpb.SnapshotMetadata{
		Index: &beginning.index, Term: &beginning.term, ConfState: &raftpb.ConfState{Voters: slices.Sorted(slices.Values(c.Members))},
	}}
	hard := &raftpb.HardState{Term: &beginning.term, Vote: new(uint64(0)), Commit: &beginning.index}
	if err := errors.Join(at.stageEnd(&b, n.family, c.Group), putProto(&b, n.family, groupKey(c.Group, hardSuffix), hard)); err != nil {
		return err
	}
	return n.db.Write(&b, ashlar.Sync)
}

// load reads what raft starts with, and repairs it.
func (n *Node) load(c *GroupConfig, config *Config) (*raftLog, raftapply.ApplyState, error) {
	var state raftapply.ApplyState
	log, err := loadLog(n.family, c.Group, config)
	if err == nil {
		state, _, err = raftapply.ReadApplyState(n.family, c.Group, nil)
	}
	hard, conf := new(raftpb.HardState), new(raftpb.ConfState)
	if err == nil {
		_, err = getProto(n.family, groupKey(c.Group, hardSuffix), nil, hard)
	}
	if err == nil {
		_, err = getProto(n.family, confKey(c.Group), nil, conf)
	}
	if err != nil {
		return nil, state, err
	}
	view := logView{cut: log.cut, last: log.last.index, term: func(index uint64) uint64 {
		term, e := log.Term(index)
		if e != nil && !errors.Is(e, ErrCorruption) { // a missing entry is repair's to judge
			err = e
		}
		return term
	}}
	log.conf = conf
	hard, bad := repair(hard, state, view)
	log.hard = hard
	return log, state, errors.Join(err, bad)
}

// check finds what is wrong with the configuration of a group.
func (c *GroupConfig) check(family *ashlar.ColumnFamily) error {
	switch {
	case c == nil:
		return invalid("a group without a configuration")
	case c.Replica == raft.None || raft.IsLocalMsgTarget(c.Replica):
		return invalid("group %d: a replica cannot be %d", c.Group, c.Replica)
	case c.StateMachine == nil:
		return invalid("group %d: there is no state machine", c.Group)
	case len(c.Members) > 0 && !slices.Contains(c.Members, c.Replica):
		return invalid("group %d: replica %d is not among the members %v", c.Group, c.Replica, c.Members)
	}
	sorted := slices.Sorted(slices.Values(c.Members))
	if len(slices.Compact(sorted)) != len(c.Members) || slices.ContainsFunc(c.Members, func(id uint64) bool { return id == raft.None || raft.IsLocalMsgTarget(id) }) {
		return invalid("group %d: the members %v", c.Group, c.Members)
	}
	return checkSpans(family, c.Data)
}

// checkSpans finds what is wrong with the parts of the database that belong to a group.
func checkSpans(family *ashlar.ColumnFamily, spans []Span) error {
	if len(spans) == 0 {
		return invalid("a group without data")
	}
	for i, s := range spans {
		if s.Family == nil || bytes.Compare(s.Begin, s.End) >= 0 {
			return invalid("span %d of a group is [%q, %q): want a family, and an end behind the beginning", i, s.Begin, s.End)
		}
		if own := (Span{family, []byte{1, 2}, []byte{1, 4}}); s.overlaps(own) {
			return invalid("span %d of a group, [%q, %q), holds keys of logs and states", i, s.Begin, s.End)
		}
		for j, other := range spans[:i] {
			if s.overlaps(other) {
				return invalid("spans %d and %d of a group overlap", j, i)
			}
		}
	}
	return nil
}

func (s Span) overlaps(o Span) bool {
	return s.Family.ID() == o.Family.ID() && bytes.Compare(s.Begin, o.End) < 0 && bytes.Compare(o.Begin, s.End) < 0
}
