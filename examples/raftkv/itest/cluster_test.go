package itest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/examples/raftkv/node"
	"github.com/ashlardb/ashlar/examples/raftkv/peer"
	"github.com/ashlardb/ashlar/raftapply"
)

// patience is how long a cluster may take to come to what it must come to.
const patience = 60 * time.Second

// machine runs a node: in a process of its own, or in this one.
type machine interface {
	// start starts the node, with what was left of it.
	start(t *testing.T, o node.Options)
	// kill ends it without a word.
	kill(t *testing.T)
	// close ends it as its user would.
	close(t *testing.T)
}

// cluster is some nodes. Only the test's goroutine uses it.
type cluster struct {
	t        *testing.T
	rng      *rand.Rand
	addrs    map[uint64]string
	machines map[uint64]machine
	joined   map[uint64]bool // nodes that were added later
	up       map[uint64]bool
	initial  map[uint64]string
	http     *http.Client
	create   func(id uint64) machine
}

func newCluster(t *testing.T, seed uint64, create func(id uint64) machine) *cluster {
	c := &cluster{
		t: t, rng: rand.New(rand.NewPCG(seed, 99)), create: create,
		addrs: map[uint64]string{}, machines: map[uint64]machine{}, joined: map[uint64]bool{}, up: map[uint64]bool{},
		http: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}},
	}
	for id := range uint64(3) {
		c.newNode(id + 1)
	}
	c.initial = maps.Clone(c.addrs)
	t.Cleanup(func() {
		for _, id := range c.ids() {
			if s, err := c.status(id); t.Failed() {
				t.Logf("node %d: %+v %v", id, s, err)
			}
		}
		for id, m := range c.machines {
			if c.up[id] {
				m.close(t)
			}
		}
	})
	for id := range c.machines {
		c.start(id)
	}
	c.ready()
	return c
}

// newNode takes a port that is free, below those that the system gives to anyone.
func (c *cluster) newNode(id uint64) {
	for {
		addr := fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		require.NoError(c.t, l.Close())
		c.addrs[id], c.machines[id] = addr, c.create(id)
		return
	}
}

func (c *cluster) start(id uint64) {
	apply := raftapply.DefaultConfig()
	o := node.Options{
		ID: id, Nodes: maps.Clone(c.initial), Join: c.joined[id], Splits: node.DefaultSplits(), Tick: 20 * time.Millisecond,
		LogEntries: 50, WriteBufferSize: raftapply.MiB, Faults: true, Apply: &apply,
	}
	o.Nodes[id] = c.addrs[id]
	c.machines[id].start(c.t, o)
	c.up[id] = true
}

func (c *cluster) kill(id uint64) {
	c.machines[id].kill(c.t)
	c.up[id] = false
}

// ids are the nodes that are members, in order.
func (c *cluster) ids() []uint64 { return slices.Sorted(maps.Keys(c.machines)) }

func (c *cluster) any() uint64 {
	ids := c.ids()
	return ids[c.rng.IntN(len(ids))]
}

func (c *cluster) clientAddrs() (addrs []string) {
	for _, id := range c.ids() {
		addrs = append(addrs, c.addrs[id])
	}
	return addrs
}

// call asks a node something.
func (c *cluster) call(ctx context.Context, id uint64, method, path string, body, into any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.addrs[id]+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("node %d: %s %s: %s: %s", id, method, path, resp.Status, text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

func (c *cluster) get(id uint64, path string, into any) error {
	return c.call(context.Background(), id, http.MethodGet, path, nil, into)
}

func (c *cluster) post(id uint64, path string, body any) error {
	return c.call(context.Background(), id, http.MethodPost, path, body, nil)
}

func (c *cluster) status(id uint64) (s node.Status, err error) {
	return s, c.get(id, "/status", &s)
}

// until asks again and again until try has no error.
func (c *cluster) until(what string, try func() error) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			require.NoError(c.t, err, "%s: not in %v", what, patience)
		}
		pause(5 * time.Millisecond)
	}
}

// pause is the time between two looks at another process.
func pause(d time.Duration) { <-time.After(d) }

// ready waits until every node knows a leader of every region.
func (c *cluster) ready() {
	c.until("leaders", func() error {
		for _, id := range c.ids() {
			s, err := c.status(id)
			if err != nil {
				return err
			}
			for _, r := range s.Regions {
				if r.Leader == 0 {
					return fmt.Errorf("node %d knows no leader of region %d", id, r.Region)
				}
			}
		}
		return nil
	})
}

// leader returns the node that leads a region.
func (c *cluster) leader(region int) (lead uint64) {
	c.until("a leader", func() error {
		for _, id := range c.ids() {
			s, err := c.status(id)
			if err == nil && s.Regions[region].Leader == id {
				lead = id
				return nil
			}
		}
		return fmt.Errorf("nobody leads region %d", region+1)
	})
	return lead
}

// cut sets which nodes are cut off from whom, as whom[from] = to…; the rest is healed. Nodes that are down are let be: they
// start healed.
func (c *cluster) cut(whom map[uint64][]uint64) {
	for _, id := range c.ids() {
		if !c.up[id] {
			continue
		}
		cut := peer.Cut{DropTo: whom[id]}
		c.until("a cut", func() error { return c.post(id, "/debug/fault", cut) })
	}
}

// heal ends all that is wrong.
func (c *cluster) heal() {
	for _, id := range c.ids() {
		if !c.up[id] {
			c.start(id)
		}
	}
	c.cut(nil)
	c.ready()
}

// settle heals, waits until all replicas have applied the same, and requires that they are the same.
func (c *cluster) settle() {
	c.heal()
	c.until("replicas alike", func() error {
		var first node.Status
		for i, id := range c.ids() {
			s, err := c.status(id)
			if err != nil {
				return err
			}
			if i == 0 {
				first = s
			}
			for j, r := range s.Regions {
				switch f := first.Regions[j]; {
				case r.Restoring || r.PendingEntries > 0 || r.Applied != r.Commit || r.Applied != f.Applied || r.Last != f.Last:
					return fmt.Errorf("node %d: %+v, node %d: %+v", id, r, first.ID, f)
				case r.First > r.Applied+1 || r.Applied > r.Last:
					c.t.Fatalf("node %d: the log does not fit the data: %+v", id, r)
				}
			}
		}
		return c.sameHashes(len(first.Regions))
	})
}

// sameHashes compares replicas. Replicas that have applied the same and are not the same end the test.
func (c *cluster) sameHashes(regions int) error {
	for region := range regions {
		var first node.Hash
		for i, id := range c.ids() {
			var h node.Hash
			if err := c.get(id, fmt.Sprintf("/hash?region=%d", region+1), &h); err != nil {
				return err
			}
			if i == 0 {
				first = h
			}
			if h.Applied != first.Applied {
				return fmt.Errorf("region %d: applied %d and %d", region+1, first.Applied, h.Applied)
			}
			require.Equal(c.t, first.Hash, h.Hash, "region %d at %d: nodes %d and %d differ", region+1, h.Applied, c.ids()[0], id)
		}
	}
	return nil
}
