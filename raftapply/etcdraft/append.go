package etcdraft

import (
	"sync"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/ashlardb/ashlar"
)

// appender writes the logs of all groups. What comes while a write is under way is joined into the next, so that many
// groups share one sync:
//
//	group 1 --MsgStorageAppend--\                                    /-- responses to itself --> group 1
//	group 2 --MsgStorageAppend-----> one batch, one synced write ---<
//	group 3 --cut the log-------/                                    \-- responses to others --> Transport
//
// Jobs of a group are done in the order in which they came. A write without any responses is not synced: nobody is told.
type appender struct {
	db     *ashlar.DB
	failed func(error)

	mu    sync.Mutex
	more  sync.Cond
	queue []appendJob
	ended bool
}

// appendJob is one of these three.
type appendJob struct {
	g   *Group
	m   *raftpb.Message // MsgStorageAppend, whose snapshot, if any, is installed
	cut entryID         // the log now begins behind this
	// done, if not nil, is called when this job and all before are written, or never will be.
	done func()
}

// appendBytes is the size of a batch that gets no further jobs.
const appendBytes = 8 << 20

func newAppender(db *ashlar.DB, failed func(error)) *appender {
	a := &appender{db: db, failed: failed}
	a.more.L = &a.mu
	return a
}

func (a *appender) add(j appendJob) {
	a.mu.Lock()
	ended := a.ended
	if !ended {
		a.queue = append(a.queue, j)
		a.more.Signal()
	}
	a.mu.Unlock()
	if ended && j.done != nil {
		j.done()
	}
}

// barrier waits until what was added before is written.
func (a *appender) barrier(g *Group) {
	written := make(chan struct{})
	a.add(appendJob{g: g, done: func() { close(written) }})
	<-written
}

// end lets run return when the queue is done.
func (a *appender) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	a.more.Signal()
}

func (a *appender) take() []appendJob {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.queue) == 0 && !a.ended {
		a.more.Wait()
	}
	jobs := a.queue
	a.queue = nil
	return jobs
}

func (a *appender) run() {
	var err error
	for jobs := a.take(); len(jobs) > 0; jobs = a.take() {
		for len(jobs) > 0 {
			n := len(jobs)
			if err == nil {
				if n, err = a.write(jobs); err != nil {
					n = len(jobs)
					a.failed(err)
				}
			}
			for _, j := range jobs[:n] {
				if j.done != nil {
					j.done()
				}
			}
			jobs = jobs[n:]
		}
	}
}

// write does some of the jobs, in one batch, and says how many.
func (a *appender) write(jobs []appendJob) (n int, err error) {
	var b ashlar.Batch
	ends := map[*Group]entryID{}
	sync := false
	for n < len(jobs) && (n == 0 || b.Len() < appendBytes) {
		j := jobs[n]
		n++
		switch {
		case j.m != nil:
			last, ok := ends[j.g]
			if !ok {
				_, last = j.g.log.bounds()
			}
			if ends[j.g], err = stageAppend(&b, j, last); err != nil {
				return n, err
			}
			sync = sync || len(j.m.Responses) > 0
		case j.cut != entryID{}:
			if err := stageCut(&b, j); err != nil {
				return n, err
			}
		}
	}
	if b.Count() > 0 {
		if err := a.db.Write(&b, &ashlar.WriteOptions{Sync: sync}); err != nil {
			return n, err
		}
	}
	for _, j := range jobs[:n] {
		if j.m != nil && len(j.m.Entries) > 0 {
			j.g.log.grow(j.m.Entries)
		}
	}
	for _, j := range jobs[:n] {
		if j.m != nil {
			j.g.respond(j.m.Responses)
		}
	}
	return n, nil
}

// stageAppend puts what a MsgStorageAppend says into the batch. Of the entries that it replaces, those behind its own last
// one are deleted. It returns the new end of the log.
func stageAppend(b *ashlar.Batch, j appendJob, last entryID) (entryID, error) {
	l, m := j.g.log, j.m
	if m.Term != nil {
		hard := &raftpb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
		if err := putProto(b, l.family, groupKey(l.group, hardSuffix), hard); err != nil {
			return last, err
		}
	}
	if len(m.Entries) == 0 {
		return last, nil
	}
	if first := m.Entries[0].GetIndex(); first > last.index+1 {
		return last, corrupt("group %d: raft appends entry %d to a log that ends with %v", l.group, first, last)
	}
	var value []byte
	for _, e := range m.Entries {
		value = appendEntryValue(value[:0], e)
		if err := b.Put(l.family, logKey(l.group, e.GetIndex()), value); err != nil {
			return last, err
		}
	}
	end := m.Entries[len(m.Entries)-1]
	if end.GetIndex() < last.index {
		if err := b.DeleteRange(l.family, logKey(l.group, end.GetIndex()+1), logKey(l.group, last.index+1)); err != nil {
			return last, err
		}
	}
	return entryID{end.GetIndex(), end.GetTerm()}, nil
}

// stageCut deletes the log's beginning. The batch comes behind the one that holds what these entries did, in the same
// write-ahead log: a crash that loses that one loses this one too.
func stageCut(b *ashlar.Batch, j appendJob) error {
	l := j.g.log
	cut, _ := l.bounds()
	if j.cut.index <= cut.index {
		return nil
	}
	l.shorten(j.cut)
	if err := b.DeleteRange(l.family, logKey(l.group, cut.index+1), logKey(l.group, j.cut.index+1)); err != nil {
		return err
	}
	return b.Put(l.family, groupKey(l.group, cutSuffix), appendCut(nil, j.cut))
}

// respond delivers what waited for a write.
func (g *Group) respond(responses []*raftpb.Message) {
	var own, others []*raftpb.Message
	for _, m := range responses {
		if m.GetTo() == g.replica {
			own = append(own, m)
		} else {
			others = append(others, m)
		}
	}
	if len(own) > 0 {
		g.post(func() { g.stepOwn(own) })
	}
	if len(others) > 0 {
		g.node.transport.Send(g.id, others)
	}
}

// stepOwn steps responses of the appender. Those of raft to itself may come too late to be of use, which is no error.
func (g *Group) stepOwn(responses []*raftpb.Message) {
	for _, m := range responses {
		_ = g.raft.Step(m)
		if m.GetType() == raftpb.MsgStorageAppendResp && !raft.IsEmptySnap(m.GetSnapshot()) {
			g.restored()
		}
	}
}
