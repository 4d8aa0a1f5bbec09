package node

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/examples/raftkv/store"
)

// Done is the body of an answer to a command.
type Done struct {
	Status string `json:"status"`
	// Start of a prewrite, for its commit, and of the lock that was met.
	Start uint64 `json:"start,omitempty"`
}

// statusCodes are how outcomes are told.
var statusCodes = map[store.Status]int{
	store.Done: http.StatusOK, store.Mismatch: http.StatusConflict, store.Locked: http.StatusLocked,
	store.NotLocked: http.StatusConflict, store.StaleSeq: http.StatusConflict,
}

// propose does a command if this node leads its region.
func (n *Node) propose(w http.ResponseWriter, r *http.Request, c store.Command) error {
	if len(c.Ops) == 0 {
		return refuse(http.StatusBadRequest, "no keys")
	}
	id := n.o.regionOf(c.Ops[0].Key)
	for _, op := range c.Ops {
		if other := n.o.regionOf(op.Key); other != id {
			return refuse(http.StatusBadRequest, "%q is in region %d and %q in region %d: want keys of one region",
				c.Ops[0].Key, id, op.Key, other)
		}
	}
	if n.redirect(w, r, id) {
		return nil
	}
	var err error
	if c.Client, c.Seq, err = session(r); err != nil {
		return err
	}
	if err := c.Check(); err != nil {
		return err
	}
	data := c.AppendTo(nil)
	if len(data) > store.MaxCommand {
		return refuse(http.StatusRequestEntityTooLarge, "a command of %d bytes: want at most %d", len(data), store.MaxCommand)
	}
	result, err := n.group(id).Propose(r.Context(), data)
	if err == nil {
		err = result.Err
	}
	if err != nil {
		return err
	}
	outcome, ok := result.Value.(store.Outcome)
	if !ok {
		return fmt.Errorf("raftkv: region %d: the state machine answered %v", id, result.Value)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(statusCodes[outcome.Status])
	return reply(w, Done{outcome.Status.String(), outcome.Start})
}

// get answers at any node: the leader is asked how far it is, and this node waits until it is as far.
func (n *Node) get(w http.ResponseWriter, r *http.Request) error {
	key := []byte(r.PathValue("key"))
	id := n.o.regionOf(key)
	w.Header().Set(HeaderRegion, fmt.Sprint(id))
	var index uint64
	if r.URL.Query().Get("stale") == "" {
		var err error
		if index, err = n.group(id).ReadIndex(r.Context()); err != nil {
			return readFailed(err)
		}
	}
	var value []byte
	err := n.group(id).Read(r.Context(), index, func() error {
		s := n.db.NewSnapshot()
		defer s.Release()
		var err error
		value, err = store.Get(n.families, id, key, &ashlar.ReadOptions{Snapshot: s})
		return err
	})
	if errors.Is(err, ashlar.ErrNotFound) {
		return refuse(http.StatusNotFound, "no such key")
	}
	if err != nil {
		return readFailed(err)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, err = w.Write(value)
	return err
}

// readFailed makes a read that failed one that may be tried elsewhere: it has no effect, whatever happened.
func readFailed(err error) error {
	if errors.Is(err, ashlar.ErrCorruption) {
		return err
	}
	return refuse(http.StatusServiceUnavailable, "%v", err)
}

func (n *Node) put(w http.ResponseWriter, r *http.Request) error {
	value, err := readBody(r)
	if err != nil {
		return err
	}
	return n.propose(w, r, store.Command{Kind: store.Write, Ops: []store.Op{{Key: []byte(r.PathValue("key")), Value: value}}})
}

func (n *Node) delete(w http.ResponseWriter, r *http.Request) error {
	return n.propose(w, r, store.Command{Kind: store.Write, Ops: []store.Op{{Key: []byte(r.PathValue("key")), Delete: true}}})
}

// cas is the body of POST /cas. Old and New are null for no such key.
type cas struct {
	Key string  `json:"key"`
	Old *string `json:"old"`
	New *string `json:"new"`
}

func (n *Node) cas(w http.ResponseWriter, r *http.Request) error {
	var q cas
	if err := readJSON(r, &q); err != nil {
		return err
	}
	c := store.Command{Kind: store.CAS, Ops: []store.Op{{Key: []byte(q.Key), Delete: q.New == nil}}}
	if q.Old != nil {
		c.Old = []byte(*q.Old)
	}
	if q.New != nil {
		c.Ops[0].Value = []byte(*q.New)
	}
	return n.propose(w, r, c)
}

// batch is the body of POST /batch and /bulk/prewrite.
type batch struct {
	Puts    map[string]string `json:"puts"`
	Deletes []string          `json:"deletes"`
}

// command makes one of a kind: puts in the order of keys, then deletes.
func (b batch) command(kind store.Kind) store.Command {
	c := store.Command{Kind: kind}
	for _, key := range slices.Sorted(maps.Keys(b.Puts)) {
		c.Ops = append(c.Ops, store.Op{Key: []byte(key), Value: []byte(b.Puts[key])})
	}
	for _, key := range b.Deletes {
		c.Ops = append(c.Ops, store.Op{Key: []byte(key), Delete: true})
	}
	return c
}

func (n *Node) batch(kind store.Kind) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		var b batch
		if err := readJSON(r, &b); err != nil {
			return err
		}
		return n.propose(w, r, b.command(kind))
	}
}

// bulk is the body of POST /bulk/commit and /bulk/rollback.
type bulk struct {
	Start uint64   `json:"start"`
	Keys  []string `json:"keys"`
}

func (n *Node) bulk(kind store.Kind) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		var b bulk
		if err := readJSON(r, &b); err != nil {
			return err
		}
		c := store.Command{Kind: kind, Start: b.Start}
		for _, key := range b.Keys {
			c.Ops = append(c.Ops, store.Op{Key: []byte(key)})
		}
		return n.propose(w, r, c)
	}
}

// leader tells who leads a key's region.
func (n *Node) leader(w http.ResponseWriter, r *http.Request) error {
	id, err := n.regionParam(r)
	if err != nil {
		return err
	}
	if id == 0 {
		id = n.o.regionOf([]byte(r.URL.Query().Get("key")))
	}
	lead, _ := n.group(id).Leader()
	if lead == 0 {
		return refuse(http.StatusServiceUnavailable, "no leader of region %d is known", id)
	}
	w.Header().Set(HeaderRegion, fmt.Sprint(id))
	_, err = fmt.Fprintln(w, lead)
	return err
}
