package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/examples/raftkv/store"
	"github.com/ashlardb/ashlar/raftapply"
	"github.com/ashlardb/ashlar/raftapply/etcdraft"
)

// Headers of a request with a session, and of answers.
const (
	HeaderClient = "Raftkv-Client"
	HeaderSeq    = "Raftkv-Seq"
	HeaderLeader = "Raftkv-Leader"
	HeaderRegion = "Raftkv-Region"
)

// requestTimeout is how long a request may wait for raft.
const requestTimeout = 5 * time.Second

// answer is an error that says how it is to be told.
type answer struct {
	code int
	text string
}

func (a *answer) Error() string { return a.text }

func refuse(code int, format string, args ...any) error {
	return &answer{code, fmt.Sprintf(format, args...)}
}

// handle makes a handler of what returns an error or writes the answer itself.
func (n *Node) handle(serve func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		defer context.AfterFunc(n.ctx, cancel)()
		if err := serve(w, r.WithContext(ctx)); err != nil {
			n.refused(w, err)
		}
	}
}

// refused tells an error. What may have taken effect is 504.
func (n *Node) refused(w http.ResponseWriter, err error) {
	var a *answer
	code := http.StatusInternalServerError
	switch {
	case errors.As(err, &a):
		code = a.code
	case errors.Is(err, store.ErrCommand), errors.Is(err, ashlar.ErrInvalidArgument):
		code = http.StatusBadRequest
	case errors.Is(err, etcdraft.ErrNotLeader), errors.Is(err, etcdraft.ErrNoLeader), errors.Is(err, etcdraft.ErrDropped),
		errors.Is(err, etcdraft.ErrStale), errors.Is(err, etcdraft.ErrRestoring), errors.Is(err, etcdraft.ErrRemoved),
		errors.Is(err, etcdraft.ErrConfChange):
		code = http.StatusServiceUnavailable
	case errors.Is(err, etcdraft.ErrUnknown), errors.Is(err, etcdraft.ErrStopped), errors.Is(err, raftapply.ErrPoisoned),
		errors.Is(err, raftapply.ErrFailed), errors.Is(err, raftapply.ErrClosed),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		code = http.StatusGatewayTimeout
	}
	if code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, err.Error(), code)
}

func reply(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// readJSON reads a request's body, all of it and nothing that is not known.
func readJSON(r *http.Request, into any) error {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return refuse(http.StatusBadRequest, "body: %v", err)
	}
	return nil
}

func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, store.MaxCommand))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, refuse(http.StatusRequestEntityTooLarge, "body: more than %d bytes", large.Limit)
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "body: %v", err)
	}
	return body, nil
}

func (n *Node) group(id raftapply.RegionID) *etcdraft.Group { return n.groups[id-1] }

// regionParam reads a request's region, 0 if it names none.
func (n *Node) regionParam(r *http.Request) (raftapply.RegionID, error) {
	text := r.URL.Query().Get("region")
	if text == "" {
		return 0, nil
	}
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil || id == 0 || id > uint64(len(n.groups)) {
		return 0, refuse(http.StatusBadRequest, "region %q: want 1 to %d", text, len(n.groups))
	}
	return raftapply.RegionID(id), nil
}

// redirect answers a request that only a region's leader can do, if another node leads: true.
func (n *Node) redirect(w http.ResponseWriter, r *http.Request, id raftapply.RegionID) bool {
	lead, _ := n.group(id).Leader()
	w.Header().Set(HeaderRegion, fmt.Sprint(id))
	if lead == 0 || lead == n.o.ID {
		return false
	}
	w.Header().Set(HeaderLeader, fmt.Sprint(lead))
	addr, ok := n.book.Addr(lead)
	if !ok {
		return false
	}
	w.Header().Set("Location", "http://"+addr+r.URL.RequestURI())
	http.Error(w, fmt.Sprintf("node %d leads region %d", lead, id), http.StatusTemporaryRedirect)
	return true
}

// session reads a request's client and sequence, zeros if it has none.
func session(r *http.Request) (client, seq uint64, err error) {
	c, s := r.Header.Get(HeaderClient), r.Header.Get(HeaderSeq)
	if c == "" && s == "" {
		return 0, 0, nil
	}
	client, errClient := strconv.ParseUint(c, 10, 64)
	seq, errSeq := strconv.ParseUint(s, 10, 64)
	if errClient != nil || errSeq != nil || client == 0 || seq == 0 {
		return 0, 0, refuse(http.StatusBadRequest, "%s %q and %s %q: want two numbers from 1", HeaderClient, c, HeaderSeq, s)
	}
	return client, seq, nil
}
