package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"sync"

	"github.com/ashlardb/ashlar/raftapply"
	"go.etcd.io/raft/v3/raftpb"
)

// Receiver is who messages are for. *etcdraft.Node has these methods but the last.
type Receiver interface {
	Step(region raftapply.RegionID, m *raftpb.Message) error
	ReceiveSnapshot(ctx context.Context, region raftapply.RegionID, m *raftpb.Message, chunks iter.Seq2[[]byte, error]) error
	// Unreachable says that a message to a node was lost.
	Unreachable(region raftapply.RegionID, node uint64)
}

// Transport is a node's end of all connections. It implements etcdraft.Transport.
type Transport struct {
	self   uint64
	book   *Book
	client *http.Client
	log    *slog.Logger
	Faults Faults // for tests

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	all  sync.WaitGroup // links

	mu       sync.Mutex
	links    map[uint64]*link // made when first needed
	receiver Receiver
}

// New returns the transport of node self. Nothing comes in before Attach.
func New(self uint64, book *Book, log *slog.Logger) *Transport {
	t := &Transport{self: self, book: book, log: log, links: map[uint64]*link{}}
	t.client = &http.Client{Transport: &http.Transport{}}
	t.ctx, t.stop = context.WithCancel(context.Background())
	return t
}

// Attach names the receiver.
func (t *Transport) Attach(r Receiver) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.receiver = r
}

func (t *Transport) attached() Receiver {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.receiver
}

// Close ends all connections and waits for the outgoing ones. Messages that come later are lost.
func (t *Transport) Close() {
	t.mu.Lock()
	t.stop()
	t.mu.Unlock()
	t.all.Wait()
	t.client.CloseIdleConnections()
}

// Send queues messages.
func (t *Transport) Send(region raftapply.RegionID, msgs []*raftpb.Message) {
	for _, m := range msgs {
		if t.Faults.to(m.GetTo()) {
			continue
		}
		frame, err := appendFrame(nil, region, m)
		if err != nil {
			t.log.Error("message lost", "region", region, "to", m.GetTo(), "err", err)
			continue
		}
		if l := t.link(m.GetTo()); l != nil {
			l.send(region, frame)
		}
	}
}

// link returns the link to a node, nil after Close.
func (t *Transport) link(id uint64) *link {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return nil
	}
	l := t.links[id]
	if l == nil {
		l = newLink(t, id)
		t.links[id] = l
		t.all.Go(l.run)
	}
	return l
}

// SendSnapshot sends a snapshot and waits until it is taken. When it returns, nobody reads chunks any more: they are read
// from a database that may be closed next.
func (t *Transport) SendSnapshot(ctx context.Context, region raftapply.RegionID, m *raftpb.Message, chunks iter.Seq2[[]byte, error]) error {
	if t.Faults.to(m.GetTo()) {
		return errors.New("cut off")
	}
	frame, err := appendFrame(nil, region, m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	body, w := io.Pipe()
	var writer sync.WaitGroup
	writer.Go(func() { w.CloseWithError(writeSnapshot(w, frame, chunks)) })
	defer writer.Wait()
	defer body.Close() // ends the writer, if the request did not
	return t.post(ctx, m.GetTo(), "/raft/snapshot", body)
}

// post sends a body to a node and waits for its answer.
func (t *Transport) post(ctx context.Context, to uint64, path string, body io.Reader) error {
	addr, ok := t.book.Addr(to)
	if !ok {
		return fmt.Errorf("node %d: no address is known", to)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+path, body)
	if err != nil {
		return err
	}
	req.Header.Set(headerFrom, fmt.Sprint(t.self))
	req.Header.Set(headerTo, fmt.Sprint(to))
	req.Header.Set(headerNodes, t.book.String())
	resp, err := t.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("node %d: %s: %s", to, resp.Status, text)
	}
	return err
}
