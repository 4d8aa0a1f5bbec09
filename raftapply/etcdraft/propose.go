package etcdraft

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/ashlardb/ashlar/raftapply"
)

// A proposal is in one place at a time, and is answered by who takes it out of the last:
//
//	inbox --> raft takes it, and its Ready gives it index and term --> pending --> raftapply, with its entry --> answered
//	   \-> refused: answered                                             \-> a snapshot, removal, the end: answered
//
// Followers do not pass proposals on, so raft takes one only where it leads, and its index is known at once. An index may
// come to hold another entry, of a later leader: index and term together name one.

// proposal is one that somebody waits for.
type proposal struct {
	kind   raftpb.EntryType
	data   []byte
	at     entryID
	answer chan raftapply.Result // one place
}

func (p *proposal) done(r raftapply.Result) { p.answer <- r }

// Propose puts a command into the group's log and waits until it is applied here. The error says that it was not, or that
// it is not known:
//
//   - ErrNotLeader, ErrDropped, ErrRemoved, ErrInvalidArgument (no data), ErrStale: it has no effect.
//   - ErrUnknown, ErrStopped, raftapply.ErrPoisoned, ctx's: it may take effect, now or later.
//
// What the state machine found is in Result.Err, not here. data must not be changed any more.
func (g *Group) Propose(ctx context.Context, data []byte) (raftapply.Result, error) {
	if len(data) == 0 {
		return raftapply.Result{}, invalid("a proposal without data")
	}
	return g.propose(ctx, &proposal{data: data})
}

// ProposeConfChange changes the members, as Propose does. ErrConfChange if it was refused, also by the state machine, whose
// reason is matched then.
func (g *Group) ProposeConfChange(ctx context.Context, cc raftpb.ConfChangeI) (raftapply.Result, error) {
	kind, data, err := raftpb.MarshalConfChange(cc)
	if err != nil {
		return raftapply.Result{}, invalid("a change of members: %v", err)
	}
	r, err := g.propose(ctx, &proposal{kind: kind, data: data})
	if err == nil && r.Err != nil {
		err = r.Err
		if !errors.Is(err, ErrConfChange) {
			err = fmt.Errorf("%w: %w", ErrConfChange, err)
		}
	}
	return r, err
}

func (g *Group) propose(ctx context.Context, p *proposal) (raftapply.Result, error) {
	if err := ctx.Err(); err != nil {
		return raftapply.Result{}, err
	}
	p.answer = make(chan raftapply.Result, 1)
	if !g.inbox.propose(p) {
		return raftapply.Result{}, g.stopped()
	}
	select {
	case r := <-p.answer:
		return r, g.outcome(&r)
	case <-ctx.Done():
		return raftapply.Result{}, ctx.Err()
	}
}

// outcome moves an error that is not the state machine's out of the result.
func (g *Group) outcome(r *raftapply.Result) error {
	err := r.Err
	switch {
	case err == raftapply.ErrRegionRemoved && g.final.Load() != nil:
		err = g.stopped()
	case err == raftapply.ErrRegionRemoved:
		err = ErrUnknown
	case err == raftapply.ErrClosed:
		err = fmt.Errorf("%w: %w", ErrStopped, err)
	case errors.Is(err, raftapply.ErrFailed), errors.Is(err, raftapply.ErrPoisoned), errors.Is(err, ErrStopped),
		err == ErrStale, err == ErrUnknown, errors.Is(err, ErrNotLeader), errors.Is(err, ErrDropped), err == ErrRemoved,
		err == errRefused:
	default:
		return nil
	}
	r.Err = nil
	return err
}

// errRefused is of a change of members that raft itself did not let in.
var errRefused = fmt.Errorf("%w: another is under way, or there is nothing to leave", ErrConfChange)

// proposeAll offers proposals to raft. Those that it takes are g.taken, in the order in which their entries are appended.
func (g *Group) proposeAll() {
	for len(g.now.proposals) > 0 {
		p := g.now.proposals[0]
		err := g.offer(p)
		g.now.proposals = g.now.proposals[1:]
		if err != nil {
			p.done(raftapply.Result{Err: err})
		} else {
			g.taken = append(g.taken, p)
		}
	}
}

func (g *Group) offer(p *proposal) error {
	if g.removed.Load() {
		return ErrRemoved
	}
	s := g.raft.BasicStatus()
	if s.RaftState != raft.StateLeader {
		return fmt.Errorf("%w: group %d: replica %d, 0 for nobody, is", ErrNotLeader, g.id, s.Lead)
	}
	err := g.raft.Step(&raftpb.Message{
		Type: raftpb.MsgProp.Enum(), From: new(g.replica), Entries: []*raftpb.Entry{{Type: p.kind.Enum(), Data: p.data}},
	})
	if err != nil {
		return fmt.Errorf("%w: group %d: %w", ErrDropped, g.id, err)
	}
	return nil
}

// placed learns where raft has put what it has taken: they are the last of the entries that go to the log. A change of members that
// raft refuses becomes an empty entry.
func (g *Group) placed(entries []*raftpb.Entry) {
	entries = entries[len(entries)-len(g.taken):]
	for i, p := range g.taken {
		e := entries[i]
		if e.GetType() != p.kind {
			p.done(raftapply.Result{Err: errRefused})
			continue
		}
		p.at = entryID{e.GetIndex(), e.GetTerm()}
		g.pending = append(g.pending, p)
	}
	clear(g.taken)
	g.taken = g.taken[:0]
}

// due takes the proposals that the entries up to last decide: they are among them, or another leader's are, and raftapply
// tells which. Index and term of what is pending only grow.
func (g *Group) due(last entryID) (due []raftapply.Proposal) {
	for len(g.pending) > 0 {
		p := g.pending[0]
		if p.at.index > last.index && p.at.term >= last.term {
			break
		}
		done := p.done
		if p.kind != raftpb.EntryNormal {
			done = func(r raftapply.Result) { g.answerLater(p, r) }
		}
		due = append(due, raftapply.Proposal{Index: p.at.index, Term: p.at.term, Done: done})
		g.pending[0] = nil
		g.pending = g.pending[1:]
	}
	return due
}

// answerLater keeps the answer to a change of members until raft has heard of it, in the Applied that follows: so that who
// has the answer may make the next change. Called by raftapply.
func (g *Group) answerLater(p *proposal, r raftapply.Result) {
	g.postOr(func() { g.answers = append(g.answers, func() { p.done(r) }) }, func() { p.done(r) })
}

func (g *Group) answerChanges() {
	for _, answer := range g.answers {
		answer()
	}
	g.answers = nil
}

// loseUpTo answers proposals over which a snapshot has jumped. Of those that lie behind it, a later term decides.
func (g *Group) loseUpTo(at entryID) {
	for len(g.pending) > 0 && g.pending[0].at.index <= at.index {
		g.pending[0].done(raftapply.Result{Err: ErrUnknown})
		g.pending = g.pending[1:]
	}
	g.loseTasks(ErrUnknown)
}

// loseTasks answers the proposals of tasks that are not sent any more.
func (g *Group) loseTasks(err error) {
	for _, t := range g.unsent {
		for _, p := range t.Proposals {
			p.Done(raftapply.Result{Err: err})
		}
	}
	g.unsent = nil
}

// loseAll answers everybody whose proposal is with the group. raftapply answers those that it has.
func (g *Group) loseAll(err error) {
	for _, p := range g.pending {
		p.done(raftapply.Result{Err: err})
	}
	g.pending = nil
	g.loseTasks(err)
	g.answerChanges()
}

func isBusy(err error) bool { return errors.Is(err, raftapply.ErrBusy) }

func isGone(err error) bool {
	return errors.Is(err, raftapply.ErrRegionRemoved) || errors.Is(err, raftapply.ErrNoRegion)
}
