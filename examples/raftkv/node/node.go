package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/examples/raftkv/peer"
	"github.com/ashlardb/ashlar/examples/raftkv/store"
	"github.com/ashlardb/ashlar/raftapply"
	"github.com/ashlardb/ashlar/raftapply/etcdraft"
)

// Node is a running node. What it opens in Open, in the order database, transport, raft, server, Close ends in the reverse
// order: no request meets something that is gone.
type Node struct {
	o         Options
	log       *slog.Logger
	db        *ashlar.DB
	families  store.Families
	book      *peer.Book
	transport *peer.Transport
	raft      *etcdraft.Node
	groups    []*etcdraft.Group // of region i+1
	server    *http.Server
	client    *http.Client    // to other nodes' API
	ctx       context.Context // of all requests; ends when Close begins
	stop      context.CancelFunc
	failed    chan error    // one error that ends the node
	served    chan struct{} // closed when server has ended
}

// Open starts a node. It serves when Open returns; a leader is found later.
func Open(o Options) (_ *Node, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	n := &Node{o: o, log: cmp.Or(o.Logger, slog.Default()), client: &http.Client{}, failed: make(chan error, 1), served: make(chan struct{})}
	close(n.served)
	n.ctx, n.stop = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
			defer cancel()
			err = errors.Join(err, n.Close(ctx))
		}
	}()
	if n.db, n.families, err = openDatabase(&o); err != nil {
		return nil, err
	}
	nodes, err := addresses(n.families)
	if err != nil {
		return nil, fmt.Errorf("raftkv: addresses: %w", err)
	}
	maps.Copy(nodes, o.Nodes)
	n.book = peer.NewBook(o.ID, nodes, n.learned)
	n.transport = peer.New(o.ID, n.book, n.log)
	n.raft, err = etcdraft.Open(n.db, &etcdraft.Options{
		Transport: n.transport, TickInterval: o.Tick, Logger: n.log,
		Apply: raftapply.Options{Config: o.Apply, Logger: n.log, OnFatal: n.fail},
	})
	if err != nil {
		return nil, err
	}
	for id := raftapply.RegionID(1); int(id) <= len(o.Splits)+1; id++ {
		if err := n.startRegion(id); err != nil {
			return nil, fmt.Errorf("raftkv: region %d: %w", id, err)
		}
	}
	n.transport.Attach(receiver{n.raft})
	return n, n.serve()
}

// closeTimeout is how long what Open began may take to end when Open fails.
const closeTimeout = 10 * time.Second

func (n *Node) startRegion(id raftapply.RegionID) error {
	machine := store.NewMachine(n.families, id)
	c := &etcdraft.GroupConfig{Group: id, Replica: n.o.ID, StateMachine: machine, Raft: n.o.raft()}
	c.OnRestore = func(raftapply.ApplyState) error {
		machine.Forget()
		return nil
	}
	if !n.o.Join {
		c.Members = slices.Sorted(maps.Keys(n.o.Nodes))
	}
	for _, s := range n.families.Spans(id) {
		c.Data = append(c.Data, etcdraft.Span(s))
	}
	g, err := n.raft.StartGroup(c)
	if err != nil {
		return err
	}
	n.groups = append(n.groups, g)
	go func() {
		<-g.Done()
		if err := g.Err(); !errors.Is(err, etcdraft.ErrStopped) || errors.Is(err, raftapply.ErrPoisoned) {
			n.fail(fmt.Errorf("raftkv: region %d: %w", id, err))
		}
	}()
	return nil
}

func (n *Node) serve() error {
	l := n.o.Listener
	if l == nil {
		var err error
		if l, err = net.Listen("tcp", n.o.Nodes[n.o.ID]); err != nil {
			return fmt.Errorf("raftkv: node %d: %w", n.o.ID, err)
		}
	}
	mux := http.NewServeMux()
	n.routes(mux)
	n.transport.Routes(mux)
	n.server = &http.Server{Handler: mux, ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelDebug)}
	n.served = make(chan struct{})
	go func() {
		defer close(n.served)
		if err := n.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.fail(fmt.Errorf("raftkv: node %d: %w", n.o.ID, err))
		}
	}()
	return nil
}

// learned stores another node's address. If that fails, it is learned again after a restart.
func (n *Node) learned(id uint64, addr string) {
	n.log.Info("node has an address", "other", id, "addr", addr)
	if err := n.families.Raft.Put(addressKey(id), []byte(addr), nil); err != nil {
		n.log.Error("address not stored", "other", id, "err", err)
	}
}

// fail notes the first error that the node cannot go on with.
func (n *Node) fail(err error) {
	select {
	case n.failed <- err:
	default:
	}
}

// Failed gives the error after which the node does nothing useful any more, if it comes: close it then.
func (n *Node) Failed() <-chan error { return n.failed }

// Transport is for tests that cut it.
func (n *Node) Transport() *peer.Transport { return n.transport }

// Close ends the node. Requests that are being served are answered at once: writes among them with 504.
func (n *Node) Close(ctx context.Context) error {
	var errs []error
	n.stop()
	if n.transport != nil {
		n.transport.Close()
	}
	if n.server != nil {
		if err := n.server.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("raftkv: requests did not end: %w", err), n.server.Close())
		}
	}
	<-n.served
	n.client.CloseIdleConnections()
	if n.raft != nil {
		errs = append(errs, n.raft.Close(ctx))
	}
	if n.db != nil {
		errs = append(errs, n.db.Close())
	}
	return errors.Join(errs...)
}

// receiver is raft as the transport sees it.
type receiver struct{ *etcdraft.Node }

// Unreachable tells a region's leader that a message was lost.
func (r receiver) Unreachable(region raftapply.RegionID, node uint64) {
	if g, ok := r.Group(region); ok {
		_ = g.ReportUnreachable(node) // a group that stops does not care
	}
}
