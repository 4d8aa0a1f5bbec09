package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/ashlardb/ashlar/examples/raftkv/store"
	"github.com/ashlardb/ashlar/raftapply"
)

// Status is the body of GET /status.
type Status struct {
	ID      uint64         `json:"id"`
	Nodes   string         `json:"nodes"`
	Regions []RegionStatus `json:"regions"`
}

// RegionStatus is how a region stands at a node. Begin and End are keys, "" is open. First and Last are the log's.
type RegionStatus struct {
	Region         raftapply.RegionID `json:"region"`
	Begin          string             `json:"begin"`
	End            string             `json:"end"`
	Leader         uint64             `json:"leader"`
	Term           uint64             `json:"term"`
	Applied        uint64             `json:"applied"`
	Commit         uint64             `json:"commit"`
	First          uint64             `json:"first"`
	Last           uint64             `json:"last"`
	PendingEntries uint64             `json:"pending_entries"`
	PendingBytes   uint64             `json:"pending_bytes"`
	Voters         []uint64           `json:"voters"`
	Learners       []uint64           `json:"learners,omitempty"`
	// Followers, told by the leader, is how far it knows each replica to be, and what it does for it: raft's words.
	Followers map[uint64]string `json:"followers,omitempty"`
	Restoring bool              `json:"restoring,omitempty"`
	Removed   bool              `json:"removed,omitempty"`
}

func (n *Node) status(w http.ResponseWriter, r *http.Request) error {
	status := Status{ID: n.o.ID, Nodes: n.book.String()}
	for i, g := range n.groups {
		id := raftapply.RegionID(i + 1)
		begin, end := n.o.bounds(id)
		s := g.Status()
		followers := map[uint64]string{}
		for replica, p := range s.Progress {
			followers[replica] = fmt.Sprintf("match %d, %s", p.Match, p.State)
		}
		status.Regions = append(status.Regions, RegionStatus{
			Region: id, Begin: string(begin), End: string(end),
			Leader: s.Lead, Term: s.GetTerm(),
			Applied: s.Apply.Applied, Commit: s.HardState.GetCommit(), First: s.FirstIndex, Last: s.LastIndex,
			PendingEntries: s.Lag.Entries, PendingBytes: s.Lag.Bytes,
			Voters: s.ConfState.GetVoters(), Learners: s.ConfState.GetLearners(),
			Followers: followers, Restoring: s.Restoring, Removed: s.Removed,
		})
	}
	return status.writeTo(w)
}

// writeTo writes the status as JSON with a line for each region, for people.
func (s Status) writeTo(w http.ResponseWriter) error {
	lines := make([]string, len(s.Regions))
	for i, r := range s.Regions {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		lines[i] = string(line)
	}
	w.Header().Set("Content-Type", "application/json")
	_, err := fmt.Fprintf(w, "{\"id\":%d,\"nodes\":%q,\"regions\":[\n%s\n]}\n", s.ID, s.Nodes, strings.Join(lines, ",\n"))
	return err
}

// Hash is the body of GET /hash?region=…: two replicas with the same Applied have the same Hash.
type Hash struct {
	Applied uint64 `json:"applied"`
	Hash    string `json:"hash"`
}

func (n *Node) hash(w http.ResponseWriter, r *http.Request) error {
	id, err := n.regionParam(r)
	if err != nil {
		return err
	}
	if id == 0 {
		return refuse(http.StatusBadRequest, "region: want 1 to %d", len(n.groups))
	}
	h, err := n.hashOf(r.Context(), id)
	if err != nil {
		return readFailed(err)
	}
	return reply(w, h)
}

func (n *Node) hashOf(ctx context.Context, id raftapply.RegionID) (Hash, error) {
	s, err := n.raft.System().Snapshot(ctx, id)
	if err != nil {
		return Hash{}, err
	}
	defer s.Release()
	sum, err := store.Hash(n.families, id, s.Snapshot)
	return Hash{s.State.Applied, fmt.Sprintf("%016x", sum)}, err
}

// metrics writes what raftapply and the database count, in Prometheus' form.
func (n *Node) metrics(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	stats := n.raft.System().Stats()
	if err := stats.WritePrometheus(w); err != nil {
		return err
	}
	return n.db.Metrics().WritePrometheus(w)
}
