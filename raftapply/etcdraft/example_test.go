package etcdraft_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
	"github.com/ashlardb/ashlar/raftapply/etcdraft"
	"github.com/ashlardb/ashlar/vfs"
)

// putMachine is a state machine: an entry is a key and a value, with a "=" between.
type putMachine struct{}

func (putMachine) Hint(raftapply.Entry) raftapply.Hint { return 0 }

func (putMachine) Apply(w raftapply.Writer, e raftapply.Entry) (raftapply.Result, error) {
	if e.Kind == raftapply.ConfChange {
		return raftapply.Result{}, nil // nothing of ours in it
	}
	for i, c := range e.Data {
		if c == '=' {
			return raftapply.Result{}, w.Put(nil, append([]byte("z"), e.Data[:i]...), e.Data[i+1:])
		}
	}
	return raftapply.Result{Err: errors.New("want KEY=VALUE")}, nil
}

// wires is a Transport among Nodes of one process, by the names of the replicas. A real one marshals, sends over the
// network, and may drop what it cannot send.
type wires struct {
	mu    sync.Mutex
	nodes map[uint64]*etcdraft.Node
}

func (w *wires) node(id uint64) *etcdraft.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[id]
}

func (w *wires) Send(group raftapply.RegionID, msgs []*raftpb.Message) {
	for _, m := range msgs {
		if n := w.node(m.GetTo()); n != nil {
			_ = n.Step(group, m) // lost, if it is refused
		}
	}
}

func (w *wires) SendSnapshot(ctx context.Context, group raftapply.RegionID, m *raftpb.Message, chunks iter.Seq2[[]byte, error]) error {
	n := w.node(m.GetTo())
	if n == nil {
		return errors.New("unreachable")
	}
	return n.ReceiveSnapshot(ctx, group, m, chunks)
}

// open opens a database in memory and a Node on it.
func (w *wires) open(id uint64) (*ashlar.DB, *etcdraft.Node) {
	quiet := slog.New(slog.DiscardHandler)
	db, err := ashlar.Open("db", &ashlar.Options{FS: vfs.NewMem(), Logger: quiet})
	if err != nil {
		panic(err)
	}
	if _, err := db.CreateColumnFamily("raft", nil); err != nil {
		panic(err)
	}
	n, err := etcdraft.Open(db, &etcdraft.Options{Transport: w, Logger: quiet})
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[id] = n
	return db, n
}

func Example() {
	ctx := context.Background()
	w := &wires{nodes: map[uint64]*etcdraft.Node{}}
	db, node := w.open(1)
	defer db.Close()
	defer node.Close(ctx)

	group, err := node.StartGroup(&etcdraft.GroupConfig{
		Group: 1, Replica: 1, Members: []uint64{1},
		StateMachine: putMachine{},
		Data:         []etcdraft.Span{{Family: db.DefaultColumnFamily(), Begin: []byte("z"), End: []byte("{")}},
	})
	if err != nil {
		panic(err)
	}
	group.Campaign() // or wait a second
	for {
		_, err := group.Propose(ctx, []byte("color=blue"))
		if err == nil {
			break
		}
		if !errors.Is(err, etcdraft.ErrNotLeader) {
			panic(err)
		}
	}
	v, err := db.Get([]byte("zcolor"), nil)
	fmt.Printf("%s %v\n", v, err)
	// Output: blue <nil>
}

// Three replicas; a read at one that may be behind.
func ExampleGroup_Read() {
	ctx := context.Background()
	w := &wires{nodes: map[uint64]*etcdraft.Node{}}
	var dbs []*ashlar.DB
	var groups []*etcdraft.Group
	for id := range uint64(3) {
		db, node := w.open(id + 1)
		defer db.Close()
		defer node.Close(ctx)
		g, err := node.StartGroup(&etcdraft.GroupConfig{
			Group: 1, Replica: id + 1, Members: []uint64{1, 2, 3}, StateMachine: putMachine{},
			Data: []etcdraft.Span{{Family: db.DefaultColumnFamily(), Begin: []byte("z"), End: []byte("{")}},
		})
		if err != nil {
			panic(err)
		}
		dbs, groups = append(dbs, db), append(groups, g)
	}
	groups[0].Campaign()
	for written := false; !written; {
		lead, _ := groups[0].Leader()
		if lead == 0 {
			continue
		}
		_, err := groups[lead-1].Propose(ctx, []byte("color=blue"))
		written = err == nil
	}
	for i, g := range groups {
		index, err := g.ReadIndex(ctx)
		for errors.Is(err, etcdraft.ErrNoLeader) {
			index, err = g.ReadIndex(ctx)
		}
		if err != nil {
			panic(err)
		}
		err = g.Read(ctx, index, func() error {
			v, err := dbs[i].Get([]byte("zcolor"), nil)
			fmt.Printf("%s\n", v)
			return err
		})
		if err != nil {
			panic(err)
		}
	}
	// Output:
	// blue
	// blue
	// blue
}

// A new replica is started without members; a change makes it one, and a snapshot brings it the data.
func ExampleGroup_ProposeConfChange() {
	ctx := context.Background()
	w := &wires{nodes: map[uint64]*etcdraft.Node{}}
	start := func(id uint64, members ...uint64) (*ashlar.DB, *etcdraft.Node, *etcdraft.Group) {
		db, node := w.open(id)
		g, err := node.StartGroup(&etcdraft.GroupConfig{
			Group: 1, Replica: id, Members: members, StateMachine: putMachine{},
			Data: []etcdraft.Span{{Family: db.DefaultColumnFamily(), Begin: []byte("z"), End: []byte("{")}},
		})
		if err != nil {
			panic(err)
		}
		return db, node, g
	}
	db1, node1, first := start(1, 1)
	defer db1.Close()
	defer node1.Close(ctx)
	db2, node2, second := start(2)
	defer db2.Close()
	defer node2.Close(ctx)

	first.Campaign()
	for {
		if _, err := first.Propose(ctx, []byte("color=blue")); err == nil {
			break
		}
	}
	two := uint64(2)
	result, err := first.ProposeConfChange(ctx, &raftpb.ConfChange{Type: raftpb.ConfChangeAddLearnerNode.Enum(), NodeId: &two})
	fmt.Println(result.Err, err)
	for {
		s := second.Status()
		if s.Apply.Applied >= first.Status().Apply.Applied && len(s.ConfState.GetLearners()) == 1 {
			fmt.Println(s.ConfState.GetVoters(), s.ConfState.GetLearners())
			break
		}
	}
	// Output:
	// <nil> <nil>
	// [1] [2]
}
