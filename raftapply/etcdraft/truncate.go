package etcdraft

import (
	"context"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// Of the log only what is applied is deleted, as raft has heard it: raft reads applied+1 and on. It is in the database, and
// since the deletion comes later in the same write-ahead log, no crash leaves the deletion and not what was applied.

// follower is what a leader knows of a replica.
type follower struct {
	match uint64 // it has the log up to here
	live  bool   // it was heard of within the time of an election
}

// known is how far a leader takes a replica to be. One to which a snapshot is under way, or that has it and installs it,
// needs what follows the snapshot, and has told of nothing newer than before: were the log cut by that, the replica would
// need one snapshot after another as long as the group is written to.
func known(p tracker.Progress) uint64 {
	switch p.State {
	case tracker.StateSnapshot:
		return p.PendingSnapshot
	case tracker.StateProbe: // Next is behind the snapshot, or a guess that may only be too high
		return max(p.Match, p.Next-1)
	}
	return p.Match
}

// hear notes which replicas a leader has heard of, before the clock moves: with every ElectionTick raft counts them, and
// begins anew with none. Who asked raft just behind that would take all of them for dead.
func (g *Group) hear() {
	if g.raft.BasicStatus().RaftState != raft.StateLeader {
		clear(g.heard)
		return
	}
	g.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if p.RecentActive {
			g.heard[id] = g.ticks
		}
	})
}

// keepRule is how much of the log is kept.
type keepRule struct{ entries, bytes uint64 }

// cutRule says up to which entry the log is to be deleted, 0 for not. It keeps as much as keep says, and begins when there
// is twice as much, of entries or of bytes, so that it is done rarely. What a live follower has not got is kept, up to four
// times keep: then it gets a snapshot.
func cutRule(cut, applied uint64, keep keepRule, sizes *logSizes, followers []follower) uint64 {
	to := uint64(0)
	if applied >= cut+2*keep.entries {
		to = applied - keep.entries
	}
	if sizes.between(cut, applied) >= 2*keep.bytes {
		to = max(to, sizes.before(applied, keep.bytes))
	}
	for _, f := range followers {
		if f.live && f.match < to && applied-f.match <= 4*keep.entries && sizes.between(f.match, applied) <= 4*keep.bytes {
			to = f.match
		}
	}
	if to <= cut {
		return 0
	}
	return to
}

// cutOld deletes what cutRule says.
func (g *Group) cutOld() {
	status := g.raft.BasicStatus()
	var followers []follower
	if status.RaftState == raft.StateLeader {
		g.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
			if heard, ok := g.heard[id]; id != g.replica {
				followers = append(followers, follower{known(p), ok && g.ticks-heard <= g.config.ElectionTick})
			}
		})
	}
	keep := keepRule{g.config.LogEntries, g.config.LogBytes}
	g.log.mu.Lock()
	to := cutRule(g.log.cut.index, status.Applied, keep, &g.log.sizes, followers)
	g.log.mu.Unlock()
	if to > 0 {
		g.cutTo(to, func() {})
	}
}

// cutTo deletes the log's entries up to index, which raft knows to be applied, and calls done.
func (g *Group) cutTo(index uint64, done func()) {
	cut, last := g.log.bounds()
	if index = min(index, g.raft.BasicStatus().Applied, last.index); index <= cut.index || g.in.restores {
		done()
		return
	}
	term, err := g.log.Term(index)
	if err != nil {
		g.fail(err)
		done()
		return
	}
	g.node.appender.add(appendJob{g: g, cut: entryID{index, term}, done: done})
}

// Truncate deletes the log's entries up to index, as far as they are applied. A replica that needs them gets a snapshot.
func (g *Group) Truncate(ctx context.Context, index uint64) error {
	done := make(chan error, 1)
	g.postOr(func() { g.cutTo(index, func() { done <- nil }) }, func() { done <- g.stopped() })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
