package etcdraft

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.etcd.io/raft/v3/confchange"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
)

// The members are part of the data: the ConfState is written in the batch of the entry that changes it, so that a crash
// leaves it as of the ApplyState. raft hears of a change once it is written, and before it hears that the entry is applied:
// until then it lets no other change in, and does not let this replica stand for election.
//
//	worker:  Apply(entry 7)   ConfState and ApplyState 7 in one batch   OnApplied
//	                                                                       |
//	group:                                              ApplyConfChange(7) ack(7)
//	                                   crash here: InitialState has 7's members, and 7 is not applied again

// nextConf returns the members after a change. An error is found by all replicas alike.
func nextConf(now *raftpb.ConfState, cc *raftpb.ConfChangeV2) (*raftpb.ConfState, error) {
	changer := confchange.Changer{Tracker: tracker.MakeProgressTracker(1, 0), LastIndex: 1}
	config, progress, err := confchange.Restore(changer, now)
	if err != nil {
		return nil, err
	}
	changer.Tracker.Config, changer.Tracker.Progress = config, progress
	if cc.LeaveJoint() {
		config, progress, err = changer.LeaveJoint()
	} else if autoLeave, joint := cc.EnterJoint(); joint {
		config, progress, err = changer.EnterJoint(autoLeave, cc.Changes...)
	} else {
		config, progress, err = changer.Simple(cc.Changes...)
	}
	if err != nil {
		return nil, err
	}
	changer.Tracker.Config, changer.Tracker.Progress = config, progress
	return changer.Tracker.ConfState(), nil
}

// isMember says whether a replica votes or learns. Learners that are still voters are among the outgoing voters.
func isMember(cs *raftpb.ConfState, replica uint64) bool {
	return slices.Contains(cs.GetVoters(), replica) || slices.Contains(cs.GetVotersOutgoing(), replica) ||
		slices.Contains(cs.GetLearners(), replica)
}

// badChange stands for a change that cannot be decoded. It cannot either.
var badChange = []byte{0xff}

// applyEntry makes of raft's entry what raftapply takes. Changes of members all become those of version 2.
func applyEntry(e *raftpb.Entry) raftapply.Entry {
	to := raftapply.Entry{Index: e.GetIndex(), Term: e.GetTerm(), Data: e.GetData()}
	switch e.GetType() {
	case raftpb.EntryConfChange:
		to.Kind = raftapply.ConfChange
		to.Data = badChange
		var cc raftpb.ConfChange
		if proto.Unmarshal(e.GetData(), &cc) == nil {
			if data, err := proto.Marshal(cc.AsV2()); err == nil {
				to.Data = data
			}
		}
	case raftpb.EntryConfChangeV2:
		to.Kind = raftapply.ConfChange
	default:
		if len(to.Data) == 0 {
			to.Kind = raftapply.Empty
		}
	}
	return to
}

// machine stands between raftapply and the user's state machine, and keeps the members. One worker at a time has it, except
// for what mu guards.
type machine struct {
	group   raftapply.RegionID
	replica uint64
	user    raftapply.StateMachine
	family  *ashlar.ColumnFamily
	conf    *raftpb.ConfState // as of the last entry applied, perhaps not yet written

	mu      sync.Mutex
	changes []change
}

// change is a change of members that is staged, for the group to compare with what raft makes of it.
type change struct {
	index uint64
	conf  *raftpb.ConfState
}

// Hint asks for a synced write of what changes the members. It is rare, and a replica that was removed should not forget
// it: the others do not speak to it any more.
func (m *machine) Hint(e raftapply.Entry) raftapply.Hint {
	hint := m.user.Hint(e)
	if e.Kind == raftapply.ConfChange {
		hint |= raftapply.Sync
	}
	return hint
}

func (m *machine) Apply(w raftapply.Writer, e raftapply.Entry) (raftapply.Result, error) {
	if e.Kind != raftapply.ConfChange {
		return m.user.Apply(w, e)
	}
	var cc raftpb.ConfChangeV2
	if err := proto.Unmarshal(e.Data, &cc); err != nil {
		return raftapply.Result{Err: fmt.Errorf("%w: %w", ErrConfChange, err)}, nil
	}
	next, err := nextConf(m.conf, &cc)
	if err != nil {
		return raftapply.Result{Err: fmt.Errorf("%w: %w", ErrConfChange, err)}, nil
	}
	result, err := m.user.Apply(w, e)
	if err != nil || result.Err != nil {
		return result, err
	}
	if err := putProto(w, m.family, confKey(m.group), next); err != nil {
		return raftapply.Result{}, err
	}
	m.conf = next
	m.mu.Lock()
	m.changes = append(m.changes, change{e.Index, next})
	m.mu.Unlock()
	result.RemoveSelf = !isMember(next, m.replica)
	return result, nil
}

// changed returns what the change at index made of the members.
func (m *machine) changed(index uint64) (*raftpb.ConfState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.changes) == 0 || m.changes[0].index != index {
		return nil, errors.New("etcdraft: a change of members was reported that was not applied")
	}
	c := m.changes[0]
	m.changes = m.changes[1:]
	return c.conf, nil
}

func putProto(w raftapply.Writer, cf *ashlar.ColumnFamily, key []byte, m proto.Message) error {
	value, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return w.Put(cf, key, value)
}
