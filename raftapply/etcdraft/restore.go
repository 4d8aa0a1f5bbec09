package etcdraft

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
)

// How a snapshot takes the place of the data. Chunks first go where they disturb nobody; a crash at any step is made good
// by the next start.
//
//  1. chunks -> stage, unsynced            crash: the stage is emptied; the leader tries again
//  2. raft takes the MsgSnap, or ignores it, and the stage is emptied
//  3. the region leaves raftapply          crash: as before
//  4. marker and HardState, synced         crash: steps 5 and 6 are done again, from the stage
//  5. data deleted; stage -> data, unsynced
//  6. ApplyState, members, empty log, no marker, no stage: one batch, synced
//  7. the region comes back to raftapply; then the append message's entries are written and raft is told
//
// Meanwhile other append messages of the group wait, those of other groups do not.

// incoming is the snapshot that comes in. There is one at most: busy, in Group, is set from the first chunk on.
type incoming struct {
	staged   *install          // on stage, offered to raft
	restores bool              // being installed
	held     []*raftpb.Message // append messages that came meanwhile
}

// receive is Node.ReceiveSnapshot. raft decides at once: nothing else may come between its Step and the Ready that tells.
func (g *Group) receive(ctx context.Context, m *raftpb.Message, chunks iter.Seq2[[]byte, error]) error {
	if err := g.checkMessage(m); err != nil {
		return err
	}
	meta := m.GetSnapshot().GetMetadata()
	if m.GetType() != raftpb.MsgSnap || meta.GetIndex() == 0 || meta.GetTerm() == 0 || len(meta.GetConfState().GetVoters()) == 0 {
		return fmt.Errorf("%w: a %v with %v is no snapshot", ErrBadMessage, m.GetType(), meta)
	}
	if !g.busy.CompareAndSwap(false, true) {
		return fmt.Errorf("etcdraft: group %d: another snapshot comes in: %w", g.id, ashlar.ErrBusy)
	}
	in := install{meta: meta}
	err := g.stage(ctx, chunks, &in)
	if err == nil {
		offered := make(chan struct{})
		g.postOr(func() {
			defer close(offered)
			g.in.staged = &in
			_ = g.raft.Step(m)
			g.readies()
			g.decided()
		}, func() {
			err = g.stopped()
			close(offered)
		})
		<-offered
	}
	if err != nil {
		g.busy.Store(false)
	}
	return err
}

// stage writes chunks on the stage and counts them.
func (g *Group) stage(ctx context.Context, chunks iter.Seq2[[]byte, error], in *install) error {
	if err := clearStage(g.node.db, g.log.family, g.id); err != nil {
		return err
	}
	ended := false
	for p, err := range chunks {
		if err == nil {
			err = errors.Join(ctx.Err(), g.ctx.Err())
		}
		if err != nil {
			return err
		}
		c, err := openChunk(p)
		if err == nil {
			err = c.check(g.spans)
		}
		if err == nil && (ended || c.number != in.chunks) {
			err = corrupt("chunk %d of a snapshot came in the place of %d", c.number, in.chunks)
		}
		if err == nil {
			err = g.log.family.Put(stageKey(g.id, c.number), p, nil)
		}
		if err != nil {
			return fmt.Errorf("group %d: %w", g.id, err)
		}
		in.chunks++
		ended = c.last
	}
	if !ended {
		return fmt.Errorf("group %d: %w", g.id, corrupt("a snapshot ends after %d chunks, without a last one", in.chunks))
	}
	return nil
}

func clearStage(db *ashlar.DB, family *ashlar.ColumnFamily, id raftapply.RegionID) error {
	var b ashlar.Batch
	if err := deleteStage(&b, family, id); err != nil {
		return err
	}
	return db.Write(&b, nil)
}

func deleteStage(b *ashlar.Batch, family *ashlar.ColumnFamily, id raftapply.RegionID) error {
	return b.DeleteRange(family, groupKey(id, stageSuffix), groupKey(id, stageSuffix+1))
}

// decided is called when raft has seen the staged snapshot, and said no if it is still there.
func (g *Group) decided() {
	if g.in.staged == nil || g.in.restores {
		return
	}
	g.in.staged = nil
	g.tasks.Go(func() {
		if err := clearStage(g.node.db, g.log.family, g.id); err != nil {
			g.post(func() { g.fail(err) })
		}
		g.busy.Store(false)
	})
}

// restore begins to install the staged snapshot, as m says.
func (g *Group) restore(m *raftpb.Message) {
	in := g.in.staged
	if meta := m.GetSnapshot().GetMetadata(); in == nil || in.id() != (entryID{meta.GetIndex(), meta.GetTerm()}) {
		g.fail(fmt.Errorf("etcdraft: raft wants to install a snapshot at %d that did not come in", meta.GetIndex()))
		return
	}
	g.in.restores = true
	g.restoring.Store(true)
	g.conf, g.confAt = in.meta.GetConfState(), in.meta.GetIndex()
	g.tasks.Go(func() {
		err := g.replaceData(m, *in)
		g.post(func() {
			if err != nil {
				g.fail(fmt.Errorf("a snapshot at %v: %w", in.id(), err))
				return
			}
			g.log.reset(in.id())
			g.loseUpTo(in.id())
			g.node.appender.add(appendJob{g: g, m: m})
		})
	})
}

// replaceData does steps 3 to 6, and brings the region back.
func (g *Group) replaceData(m *raftpb.Message, in install) error {
	n := g.node
	n.appender.barrier(g)
	if err := n.system.Remove(g.ctx, g.id); err != nil && !errors.Is(err, raftapply.ErrNoRegion) {
		return err
	}
	g.reading.Lock()
	defer g.reading.Unlock()
	marker, err := appendInstall(nil, in)
	if err != nil {
		return err
	}
	var b ashlar.Batch
	if err := b.Put(g.log.family, groupKey(g.id, installSuffix), marker); err != nil {
		return err
	}
	if m.Term != nil {
		hard := &raftpb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
		if err := putProto(&b, g.log.family, groupKey(g.id, hardSuffix), hard); err != nil {
			return err
		}
	}
	if err := n.db.Write(&b, ashlar.Sync); err != nil {
		return err
	}
	if err := finishInstall(g.ctx, n.db, g.log.family, g.id, g.spans, in); err != nil {
		return err
	}
	if g.onRestore != nil {
		if err := guard("OnRestore", func() error { return g.onRestore(in.state()) }); err != nil {
			return err
		}
	}
	g.machine.conf = in.meta.GetConfState()
	_, err = n.system.Register(g.id, g.machine, nil)
	return err
}

// state is the ApplyState that a snapshot brings.
func (i install) state() raftapply.ApplyState {
	at := i.id()
	return raftapply.ApplyState{Applied: at.index, AppliedTerm: at.term, Commit: at.index, CommitTerm: at.term}
}

// finishInstall does steps 5 and 6: once the marker is there, this may be begun again and again.
func finishInstall(ctx context.Context, db *ashlar.DB, family *ashlar.ColumnFamily, id raftapply.RegionID, spans []Span, in install) error {
	var b ashlar.Batch
	for _, s := range spans {
		if err := b.DeleteRange(s.Family, s.Begin, s.End); err != nil {
			return err
		}
	}
	if err := db.Write(&b, nil); err != nil {
		return err
	}
	for number := range in.chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, found, err := get(family, stageKey(id, number), nil)
		if err == nil && !found {
			err = corrupt("chunk %d of %d is missing", number, in.chunks)
		}
		if err == nil {
			b.Clear()
			err = stageRecords(&b, p, spans)
		}
		if err == nil && b.Count() > 0 {
			err = db.Write(&b, nil)
		}
		if err != nil {
			return err
		}
	}
	b.Clear()
	if err := in.stageEnd(&b, family, id); err != nil {
		return err
	}
	return db.Write(&b, ashlar.Sync)
}

// stageRecords puts a chunk's records into the batch.
func stageRecords(b *ashlar.Batch, p []byte, spans []Span) error {
	c, err := openChunk(p)
	for err == nil {
		r, ok, e := c.next(spans)
		if !ok {
			return e
		}
		err = b.Put(spans[r.span].Family, r.key, r.value)
	}
	return err
}

// stageEnd puts into the batch what step 6 writes.
func (i install) stageEnd(b *ashlar.Batch, family *ashlar.ColumnFamily, id raftapply.RegionID) error {
	return errors.Join(
		raftapply.PutApplyState(b, family, id, i.state()),
		putProto(b, family, confKey(id), i.meta.GetConfState()),
		b.DeleteRange(family, groupKey(id, logSuffix), groupKey(id, hardSuffix)),
		b.Put(family, groupKey(id, cutSuffix), appendCut(nil, i.id())),
		b.Delete(family, groupKey(id, installSuffix)),
		deleteStage(b, family, id),
	)
}

// restored is called when raft was told that a snapshot is installed. Entries that were handed over before it will not be
// reported any more, but raft counts them until it hears of them.
func (g *Group) restored() {
	g.in.staged, g.in.restores = nil, false
	held := g.in.held
	g.in.held = nil
	g.ack(math.MaxUint64)
	for _, m := range held {
		g.append(m)
	}
	g.restoring.Store(false)
	g.busy.Store(false)
}

// append hands an append message over, or keeps it until a snapshot is installed.
func (g *Group) append(m *raftpb.Message) {
	switch {
	case g.in.restores:
		g.in.held = append(g.in.held, m)
	case !raft.IsEmptySnap(m.GetSnapshot()):
		g.restore(m)
	default:
		g.node.appender.add(appendJob{g: g, m: m})
	}
}
