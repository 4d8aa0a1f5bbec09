package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ashlardb/ashlar/examples/raftkv/peer"
	"github.com/ashlardb/ashlar/examples/raftkv/store"
	"github.com/ashlardb/ashlar/raftapply"
	"github.com/ashlardb/ashlar/raftapply/etcdraft"
	"go.etcd.io/raft/v3/raftpb"
)

// adminTimeout is how long a change of members may take: a new node has to take snapshots.
const adminTimeout = time.Minute

// lookAgain is how often a state is looked at that nobody announces.
const lookAgain = 20 * time.Millisecond

func (n *Node) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /kv/{key...}", n.handle(n.get))
	mux.HandleFunc("PUT /kv/{key...}", n.handle(n.put))
	mux.HandleFunc("DELETE /kv/{key...}", n.handle(n.delete))
	mux.HandleFunc("POST /cas", n.handle(n.cas))
	mux.HandleFunc("POST /batch", n.handle(n.batch(store.Write)))
	mux.HandleFunc("POST /bulk/prewrite", n.handle(n.batch(store.Prewrite)))
	mux.HandleFunc("POST /bulk/commit", n.handle(n.bulk(store.Commit)))
	mux.HandleFunc("POST /bulk/rollback", n.handle(n.bulk(store.Rollback)))
	mux.HandleFunc("GET /leader", n.handle(n.leader))
	mux.HandleFunc("GET /status", n.handle(n.status))
	mux.HandleFunc("GET /hash", n.handle(n.hash))
	mux.HandleFunc("GET /metrics", n.handle(n.metrics))
	mux.HandleFunc("GET /admin/config", n.handle(n.config))
	mux.HandleFunc("POST /admin/config", n.handle(n.setConfig))
	mux.HandleFunc("POST /admin/transfer", n.handle(n.transfer))
	mux.HandleFunc("POST /admin/add", n.admin(n.add))
	mux.HandleFunc("POST /admin/remove", n.admin(n.remove))
	if n.o.Faults {
		mux.HandleFunc("POST /debug/fault", n.handle(n.fault))
	}
}

// member is the body of POST /admin/add and /admin/remove.
type member struct {
	ID   uint64 `json:"id"`
	Addr string `json:"addr"`
}

// admin does a change of members: with ?region, in that one, by its leader; without, in all of them, one by one. Done
// again after it failed half way, it does the rest.
func (n *Node) admin(change func(context.Context, *etcdraft.Group, member) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), adminTimeout)
		defer cancel()
		defer context.AfterFunc(n.ctx, cancel)()
		if err := n.changeMembers(w, r.WithContext(ctx), change); err != nil {
			n.refused(w, err)
		}
	}
}

func (n *Node) changeMembers(w http.ResponseWriter, r *http.Request, change func(context.Context, *etcdraft.Group, member) error) error {
	id, err := n.regionParam(r)
	if err != nil {
		return err
	}
	body, err := readBody(r)
	if err != nil {
		return err
	}
	if id == 0 {
		for i := range n.groups {
			if err := n.forward(r, raftapply.RegionID(i+1), string(body)); err != nil {
				return fmt.Errorf("region %d: %w", i+1, err)
			}
		}
		return reply(w, Done{Status: "done"})
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	var m member
	if err := readJSON(r, &m); err != nil {
		return err
	}
	if m.ID == 0 {
		return refuse(http.StatusBadRequest, "a node's id is 1 or more")
	}
	if n.redirect(w, r, id) {
		return nil
	}
	if err := change(r.Context(), n.group(id), m); err != nil {
		return err
	}
	return reply(w, Done{Status: "done"})
}

// forward does a request for one region, wherever its leader is.
func (n *Node) forward(r *http.Request, id raftapply.RegionID, body string) error {
	url := fmt.Sprintf("http://%s%s?region=%d", n.o.Nodes[n.o.ID], r.URL.Path, id)
	return again(r.Context(), func() (bool, error) {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			return true, err
		}
		resp, err := n.client.Do(req)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		if err != nil || resp.StatusCode == http.StatusOK {
			return err == nil, err
		}
		retry := resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusGatewayTimeout
		return !retry, refuse(resp.StatusCode, "%s", strings.TrimSpace(string(text)))
	})
}

// again calls try until it says that it is done, or ctx ends; either way its error is returned.
func again(ctx context.Context, try func() (done bool, err error)) error {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		done, err := try()
		if done {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// add makes a node a learner, which has no vote, waits until it has what the leader has now, and gives it its vote. So a
// node that is not there takes nobody's majority away.
func (n *Node) add(ctx context.Context, g *etcdraft.Group, m member) error {
	if _, err := peer.ParseAddrs(peer.FormatAddrs(map[uint64]string{m.ID: m.Addr})); err != nil {
		return refuse(http.StatusBadRequest, "addr: %v", err)
	}
	n.book.Learn(m.ID, m.Addr)
	s := g.Status()
	if slices.Contains(s.ConfState.GetVoters(), m.ID) {
		return nil
	}
	if !slices.Contains(s.ConfState.GetLearners(), m.ID) {
		if err := n.changeOne(ctx, g, raftpb.ConfChangeAddLearnerNode, m.ID); err != nil {
			return err
		}
	}
	target := s.GetCommit()
	err := again(ctx, func() (bool, error) {
		now := g.Status()
		if now.Progress == nil {
			return true, etcdraft.ErrNotLeader
		}
		if match := now.Progress[m.ID].Match; match < target {
			return false, fmt.Errorf("node %d is at %d of %d", m.ID, match, target)
		}
		return true, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return refuse(http.StatusConflict, "node %d does not catch up; is it running, with -join? %v", m.ID, err)
	}
	if err != nil {
		return err
	}
	return n.changeOne(ctx, g, raftpb.ConfChangeAddNode, m.ID)
}

func (n *Node) remove(ctx context.Context, g *etcdraft.Group, m member) error {
	s := g.Status()
	if !slices.Contains(s.ConfState.GetVoters(), m.ID) && !slices.Contains(s.ConfState.GetLearners(), m.ID) {
		return nil
	}
	return n.changeOne(ctx, g, raftpb.ConfChangeRemoveNode, m.ID)
}

// changeOne proposes a change, and waits until it is applied.
func (n *Node) changeOne(ctx context.Context, g *etcdraft.Group, kind raftpb.ConfChangeType, id uint64) error {
	_, err := g.ProposeConfChange(ctx, &raftpb.ConfChange{Type: kind.Enum(), NodeId: &id})
	return err
}

// transfer is the body of POST /admin/transfer.
type transfer struct {
	Region raftapply.RegionID `json:"region"`
	To     uint64             `json:"to"`
}

// transfer hands a region over, and answers when its new leader has been heard of. raft gives a transfer up after the time
// of an election, when the other node has not got the log by then or a message is lost, so it is asked for again as long as
// this node leads. If a third one comes to lead, it is the one to ask.
func (n *Node) transfer(w http.ResponseWriter, r *http.Request) error {
	var q transfer
	if err := readJSON(r, &q); err != nil {
		return err
	}
	if q.Region == 0 || int(q.Region) > len(n.groups) {
		return refuse(http.StatusBadRequest, "region %d: want 1 to %d", q.Region, len(n.groups))
	}
	g := n.group(q.Region)
	if n.redirect(w, r, q.Region) {
		return nil
	}
	err := again(r.Context(), func() (bool, error) {
		s := g.Status()
		switch {
		case s.Lead == q.To:
			return true, nil
		case s.Lead == 0:
			return false, fmt.Errorf("region %d: nobody leads it", q.Region)
		case s.Lead != n.o.ID:
			return true, refuse(http.StatusServiceUnavailable, "region %d: node %d leads it now", q.Region, s.Lead)
		case !slices.Contains(s.ConfState.GetVoters(), q.To):
			return true, refuse(http.StatusBadRequest, "node %d has no vote in region %d", q.To, q.Region)
		case s.LeadTransferee == q.To:
		default:
			if err := g.TransferLeader(q.To); err != nil {
				return true, err
			}
		}
		return false, fmt.Errorf("region %d: node %d does not take it: it is at %d of %d", q.Region, q.To, s.Progress[q.To].Match, s.LastIndex)
	})
	if err != nil {
		return err
	}
	return reply(w, Done{Status: "done"})
}

func (n *Node) config(w http.ResponseWriter, r *http.Request) error {
	settings, now := map[string]string{}, n.raft.System().Config()
	for name, value := range now.All() {
		settings[name] = value
	}
	return reply(w, settings)
}

// setConfig takes all the settings of a request or none.
func (n *Node) setConfig(w http.ResponseWriter, r *http.Request) error {
	var settings map[string]string
	if err := readJSON(r, &settings); err != nil {
		return err
	}
	var wrong error
	err := n.raft.System().Update(func(c *raftapply.Config) {
		next := *c
		for name, value := range settings {
			wrong = errors.Join(wrong, next.Set(name, value))
		}
		if wrong == nil {
			*c = next
		}
	})
	if err := errors.Join(wrong, err); err != nil {
		return err
	}
	return n.config(w, r)
}

func (n *Node) fault(w http.ResponseWriter, r *http.Request) error {
	var cut peer.Cut
	if err := readJSON(r, &cut); err != nil {
		return err
	}
	n.transport.Faults.Set(cut)
	return reply(w, cut)
}
