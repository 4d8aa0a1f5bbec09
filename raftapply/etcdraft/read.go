package etcdraft

import (
	"context"
	"encoding/binary"

	"go.etcd.io/raft/v3"
)

// Reads. All that come in at once share one question to the leader. raft forgets questions when the leader changes, and the
// network loses them; so they are asked again then, and every ElectionTick. Every question has a context that was never
// used before, also not before a restart: a late answer must not pass for one to a later question.

// reader waits for an index.
type reader struct {
	ctx  context.Context
	done chan readAnswer // one place
}

type readAnswer struct {
	index uint64
	err   error
}

// question is what one context asks for.
type question struct{ readers []*reader }

func (q *question) fail(err error) {
	for _, r := range q.readers {
		r.done <- readAnswer{err: err}
	}
}

// ReadIndex asks the leader for an index such that who has applied it has applied all that was acknowledged to anybody
// before the call. Use it with Read, or WaitApplied. On any replica; it asks again when messages were lost or the leader
// changes, until ctx ends. ErrNoLeader, ErrStopped, ErrRemoved.
func (g *Group) ReadIndex(ctx context.Context) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	r := &reader{ctx, make(chan readAnswer, 1)}
	if !g.inbox.read(r) {
		return 0, g.stopped()
	}
	select {
	case a := <-r.done:
		return a.index, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// askIndex asks for those who came in.
func (g *Group) askIndex(readers []*reader) {
	if len(readers) == 0 {
		return
	}
	q := &question{readers}
	switch {
	case g.removed.Load():
		q.fail(ErrRemoved)
	case g.raft.BasicStatus().Lead == raft.None:
		q.fail(ErrNoLeader)
	default:
		g.ask(q)
	}
}

func (g *Group) ask(q *question) {
	g.asked++
	key := binary.BigEndian.AppendUint64(nil, g.replica)
	key = binary.BigEndian.AppendUint64(key, g.asked)
	g.asking[string(key)] = q
	g.raft.ReadIndex(key)
}

// askAgain asks what is not answered yet, in one question.
func (g *Group) askAgain() {
	if len(g.asking) == 0 {
		return
	}
	all := &question{}
	for _, q := range g.asking {
		for _, r := range q.readers {
			if r.ctx.Err() == nil {
				all.readers = append(all.readers, r)
			}
		}
	}
	clear(g.asking)
	if len(all.readers) > 0 {
		g.ask(all)
	}
}

func (g *Group) indexKnown(s raft.ReadState) {
	q := g.asking[string(s.RequestCtx)]
	if q == nil {
		return
	}
	delete(g.asking, string(s.RequestCtx))
	for _, r := range q.readers {
		r.done <- readAnswer{index: s.Index}
	}
}
