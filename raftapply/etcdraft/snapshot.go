package etcdraft

import (
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
)

// How a replica that is too far behind gets the data:
//
//	raft: Storage.Snapshot()      "not yet"; one is being made:  System.Snapshot, between two turns of the region
//	raft: Storage.Snapshot()      index, term and members of it  -> raft sends MsgSnap
//	MsgSnap --> Transport.SendSnapshot(m, chunks)   on a goroutine; the chunks are read from the engine's snapshot
//	                               | returns
//	                              ReportSnapshot(finished or failed), always: raft sends nothing else until then
//
// Each MsgSnap has an engine snapshot of its own, which ends with SendSnapshot. The group's goroutine owns outgoing's fields.

// outgoing is the snapshots that a group has made for others.
type outgoing struct {
	making  bool
	ready   *madeSnapshot   // raft has not asked again
	waiting int             // ticks since then
	asked   []*madeSnapshot // raft has, and its MsgSnap comes in a Ready
}

type madeSnapshot struct {
	meta *raftpb.SnapshotMetadata
	data *raftapply.Snapshot
}

func (o *outgoing) release() {
	for _, s := range o.asked {
		s.data.Release()
	}
	if o.ready != nil {
		o.ready.data.Release()
	}
	o.ready, o.asked = nil, nil
}

// tick lets go of a snapshot for which raft does not come back: the engine keeps old versions for it.
func (o *outgoing) tick(most int) {
	if o.ready == nil {
		o.waiting = 0
	} else if o.waiting++; o.waiting > most {
		o.ready.data.Release()
		o.ready = nil
	}
}

// makeSnapshot is raft's Storage.Snapshot.
func (g *Group) makeSnapshot() (*raftpb.Snapshot, error) {
	o := &g.out
	if o.ready != nil {
		cut, _ := g.log.bounds()
		s := o.ready
		o.ready = nil
		if s.meta.GetIndex() >= cut.index {
			o.asked = append(o.asked, s)
			return &raftpb.Snapshot{Metadata: s.meta}, nil
		}
		s.data.Release() // the entries that follow it are gone
	}
	if !o.making {
		o.making = true
		g.tasks.Go(func() {
			made, err := g.takeSnapshot()
			g.postOr(func() {
				o.making = false
				if err != nil {
					g.logger.Warn("etcdraft: no snapshot could be made", "error", err)
					return
				}
				o.ready = made
			}, func() {
				if err == nil {
					made.data.Release()
				}
			})
		})
	}
	return nil, raft.ErrSnapshotTemporarilyUnavailable
}

func (g *Group) takeSnapshot() (*madeSnapshot, error) {
	s, err := g.node.system.Snapshot(g.ctx, g.id)
	if err != nil {
		return nil, err
	}
	conf := new(raftpb.ConfState)
	if _, err := getProto(g.log.family, confKey(g.id), &ashlar.ReadOptions{Snapshot: s.Snapshot}, conf); err != nil {
		s.Release()
		return nil, err
	}
	meta := &raftpb.SnapshotMetadata{Index: new(s.State.Applied), Term: new(s.State.AppliedTerm), ConfState: conf}
	return &madeSnapshot{meta, s}, nil
}

// sendSnapshot sends the data that belongs to a MsgSnap.
func (g *Group) sendSnapshot(m *raftpb.Message) {
	index := m.GetSnapshot().GetMetadata().GetIndex()
	for i, s := range g.out.asked {
		if s.meta.GetIndex() != index {
			continue
		}
		g.out.asked = append(g.out.asked[:i:i], g.out.asked[i+1:]...)
		g.tasks.Go(func() {
			defer s.data.Release()
			err := guard("Transport.SendSnapshot", func() error {
				return g.node.transport.SendSnapshot(g.ctx, g.id, m, dataChunks(g.spans, s.data.Snapshot))
			})
			status := raft.SnapshotFinish
			if err != nil {
				status = raft.SnapshotFailure
				g.logger.Warn("etcdraft: a snapshot was not sent", "to", m.GetTo(), "index", index, "error", err)
			}
			g.post(func() { g.raft.ReportSnapshot(m.GetTo(), status) })
		})
		return
	}
	g.raft.ReportSnapshot(m.GetTo(), raft.SnapshotFailure)
}

// guard calls fn and returns what it panics with as an error.
func guard(what string, fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("etcdraft: %s panicked: %v", what, p)
		}
	}()
	return fn()
}
