package etcdraft

import (
	"fmt"
	"sync"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/ashlardb/ashlar/raftapply"
)

// A group's goroutine owns its RawNode, which knows no locks. Everybody else leaves what there is to do in the inbox:
//
//	network ------- Step ----------\
//	clock --------- ticks ----------\                      /--> Transport
//	clients ------- proposals, reads --> inbox --> raft --<---> appender  --responses--> inbox
//	appender ------ responses ------/                      \--> raftapply --Applied----> inbox
//	raftapply ----- Applied -------/
//
// The goroutine never waits but for the inbox: sending to a Transport, the appender and raftapply only queues. Of the inbox
// only messages from the network are dropped when there are too many; what the local threads answer never is.

// inbox holds what a group is to do.
type inbox struct {
	mu        sync.Mutex
	more      sync.Cond
	calls     []call
	network   int // of calls
	ticks     int
	proposals []*proposal
	readers   []*reader
	closed    bool
}

// call is run by the group's goroutine. If it ends first, instead is.
type call struct{ do, instead func() }

// maxNetwork is how many messages from the network may wait.
const maxNetwork = 4096

// work is what was taken from the inbox at once.
type work struct {
	calls     []call
	ticks     int
	proposals []*proposal
	readers   []*reader
}

func (i *inbox) put(c call, fromNetwork bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return false
	}
	if fromNetwork {
		if i.network == maxNetwork {
			return true
		}
		i.network++
	}
	i.calls = append(i.calls, c)
	i.more.Signal()
	return true
}

func (i *inbox) propose(p *proposal) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closed {
		i.proposals = append(i.proposals, p)
		i.more.Signal()
	}
	return !i.closed
}

func (i *inbox) read(r *reader) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closed {
		i.readers = append(i.readers, r)
		i.more.Signal()
	}
	return !i.closed
}

// tick adds one to the clock. A group that is slow has a slow clock, not many ticks at once.
func (i *inbox) tick(most int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ticks < most {
		i.ticks++
		i.more.Signal()
	}
}

func (i *inbox) take() work {
	i.mu.Lock()
	defer i.mu.Unlock()
	for len(i.calls) == 0 && i.ticks == 0 && len(i.proposals) == 0 && len(i.readers) == 0 {
		i.more.Wait()
	}
	return i.takeLocked()
}

func (i *inbox) takeLocked() work {
	w := work{i.calls, i.ticks, i.proposals, i.readers}
	i.calls, i.ticks, i.proposals, i.readers, i.network = nil, 0, nil, nil, 0
	return w
}

// close returns what is left. Nothing comes in any more.
func (i *inbox) close() work {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	return i.takeLocked()
}

// post leaves something to do, unless the group has stopped.
func (g *Group) post(do func()) { g.postOr(do, func() {}) }

// postOr leaves something to do. instead is called if the group stops first.
func (g *Group) postOr(do, instead func()) {
	if !g.inbox.put(call{do, instead}, false) {
		instead()
	}
}

func (g *Group) run() {
	err := guard("raft", func() error {
		for g.err == nil {
			g.turn(g.inbox.take())
		}
		return nil
	})
	if err != nil {
		g.fail(err)
	}
	g.end()
}

// turn does what came in, then what raft makes of it. Proposals come last, and with them nothing else: so they are the last
// entries of the Ready that follows. What is not done yet is in g.now and g.taken, where end finds it.
func (g *Group) turn(w work) {
	g.now = w
	for len(g.now.calls) > 0 && g.err == nil {
		c := g.now.calls[0]
		g.now.calls = g.now.calls[1:]
		c.do()
	}
	for ; g.now.ticks > 0 && g.err == nil; g.now.ticks-- {
		g.tick()
	}
	if g.err != nil {
		return
	}
	readers := g.now.readers
	g.now.readers = nil
	g.askIndex(readers)
	g.proposeAll()
	g.readies()
}

// readies does what raft wants done.
func (g *Group) readies() {
	for g.err == nil && g.raft.HasReady() {
		rd := g.raft.Ready()
		g.placed(rd.Entries)
		g.ready(&rd)
	}
}

func (g *Group) ready(rd *raft.Ready) {
	if s := rd.SoftState; s != nil {
		g.lead.Store(s.Lead)
		g.askAgain()
	}
	if rd.HardState != nil && rd.HardState.Term != nil {
		g.term.Store(rd.HardState.GetTerm())
	}
	for _, s := range rd.ReadStates {
		g.indexKnown(s)
	}
	var out []*raftpb.Message
	for _, m := range rd.Messages {
		switch {
		case m.GetTo() == raft.LocalAppendThread:
			g.append(m)
		case m.GetTo() == raft.LocalApplyThread:
			g.apply(m.Entries)
		case m.GetType() == raftpb.MsgSnap:
			g.sendSnapshot(m)
		default:
			out = append(out, m)
		}
	}
	if len(out) > 0 {
		g.node.transport.Send(g.id, out)
	}
}

// apply hands committed entries over, with the proposals that wait for them.
func (g *Group) apply(entries []*raftpb.Entry) {
	if g.removed.Load() {
		return
	}
	last := entries[len(entries)-1]
	task := raftapply.Task{Region: g.id, Commit: last.GetIndex(), CommitTerm: last.GetTerm()}
	for _, e := range entries {
		task.Entries = append(task.Entries, applyEntry(e))
	}
	task.Proposals = g.due(entryID{last.GetIndex(), last.GetTerm()})
	g.applying = append(g.applying, entries...)
	g.unsent = append(g.unsent, task)
	g.sendTasks()
}

// sendTasks gives raftapply what it takes. It is busy only if it was configured for less than raft hands over.
func (g *Group) sendTasks() {
	for len(g.unsent) > 0 {
		err := g.node.system.Send(g.unsent[0])
		switch {
		case err == nil:
		case isBusy(err):
			return
		case isGone(err): // an Applied that says so is on the way, or a snapshot is
			for _, p := range g.unsent[0].Proposals {
				p.Done(raftapply.Result{Err: ErrUnknown})
			}
		default:
			g.fail(err)
			return
		}
		g.unsent[0] = raftapply.Task{}
		g.unsent = g.unsent[1:]
	}
}

// applied hears how far the data is. raft hears of changes of members first, then of the entries: so it may let the next
// change in.
func (g *Group) applied(a raftapply.Applied) {
	for _, e := range a.ConfChanges {
		stored, err := g.machine.changed(e.Index)
		if err != nil {
			g.fail(err)
			return
		}
		if e.Index <= g.confAt { // raft has the members of a later snapshot
			continue
		}
		var cc raftpb.ConfChangeV2
		if err := proto.Unmarshal(e.Data, &cc); err != nil {
			g.fail(err)
			return
		}
		if err := g.raft.ApplyConfChange(&cc).Equivalent(stored); err != nil {
			g.fail(corrupt("group %d: entry %d: raft and the database have other members: %v", g.id, e.Index, err))
			return
		}
		g.conf = stored
	}
	g.ack(a.State.Applied)
	g.answerChanges()
	switch {
	case a.Err != nil:
		g.fail(a.Err)
	case a.Removed && !g.in.restores:
		g.setRemoved()
	default:
		g.sendTasks()
	}
}

// ack tells raft of the entries up to index, which may be a part of those that it handed over: it counts entry by entry.
func (g *Group) ack(index uint64) {
	n := 0
	for n < len(g.applying) && g.applying[n].GetIndex() <= index {
		n++
	}
	if n == 0 {
		return
	}
	m := applyResponse(g.replica, g.applying[:n:n])
	g.applying = g.applying[n:]
	if err := g.raft.Step(m); err != nil {
		g.fail(fmt.Errorf("etcdraft: raft on an entry that is applied: %w", err))
	}
}

// applyResponse is raft's own form of the message, for entries that follow each other, each in one message only.
func applyResponse(replica uint64, entries []*raftpb.Entry) *raftpb.Message {
	return &raftpb.Message{
		Type: raftpb.MsgStorageApplyResp.Enum(), From: new(uint64(raft.LocalApplyThread)), To: &replica,
		Term: new(uint64(0)), Entries: entries,
	}
}

func (g *Group) tick() {
	g.hear()
	g.raft.Tick()
	g.out.tick(10 * g.config.ElectionTick)
	if g.ticks++; g.ticks%g.config.ElectionTick == 0 {
		g.askAgain()
		g.cutOld()
	}
	g.sendTasks()
}

// fail stops the group.
func (g *Group) fail(err error) {
	if g.err == nil {
		g.err = fmt.Errorf("%w: group %d: %w", ErrStopped, g.id, err)
		g.logger.Error("etcdraft: the group stops", "error", err)
	}
}

func (g *Group) setRemoved() {
	if !g.removed.Swap(true) {
		close(g.gone)
		g.loseAll(ErrUnknown)
	}
}

// end leaves nothing of the group behind but what is in the database. Whoever waits is answered.
func (g *Group) end() {
	g.cancel()
	g.final.Store(&g.err)
	for _, w := range []work{g.now, g.inbox.close()} {
		for _, c := range w.calls {
			c.instead()
		}
		for _, p := range append(w.proposals, g.taken...) {
			p.done(raftapply.Result{Err: g.err})
		}
		(&question{w.readers}).fail(g.err)
		g.taken = nil
	}
	g.loseAll(g.err)
	for _, q := range g.asking {
		q.fail(g.err)
	}
	g.tasks.Wait()
	g.out.release()
	g.node.appender.barrier(g)
	g.node.leave(g)
	close(g.done)
}
