package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Headers of a connection: who, to whom, and all addresses that the sender knows.
const (
	headerFrom  = "Raftkv-From"
	headerTo    = "Raftkv-To"
	headerNodes = "Raftkv-Nodes"
)

// Routes adds the paths that peers connect to.
func (t *Transport) Routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /raft/stream", func(w http.ResponseWriter, r *http.Request) { t.serve(w, r, t.serveStream) })
	mux.HandleFunc("POST /raft/snapshot", func(w http.ResponseWriter, r *http.Request) { t.serve(w, r, t.serveSnapshot) })
}

// serve finds out who is there, and ends the reading of the body when the transport is closed.
//
// A body that is refused may never end: a stream lives as long as its peer. The server would read on, to keep the
// connection for another request, before it answers: the peer would go on sending to nobody, and the server's Shutdown
// wait for it. So who refuses also ends the reading.
func (t *Transport) serve(w http.ResponseWriter, r *http.Request, body func(*http.Request, uint64, Receiver) error) {
	control := http.NewResponseController(w)
	endReading := func() { _ = control.SetReadDeadline(time.Unix(1, 0)) }
	fail := func(code int, format string, args ...any) {
		endReading()
		http.Error(w, fmt.Sprintf(format, args...), code)
	}
	from, err := strconv.ParseUint(r.Header.Get(headerFrom), 10, 64)
	if err != nil || from == 0 || from == t.self {
		fail(http.StatusBadRequest, "%s: want another node's id", headerFrom)
		return
	}
	if to := r.Header.Get(headerTo); to != strconv.FormatUint(t.self, 10) {
		fail(http.StatusMisdirectedRequest, "this is node %d", t.self)
		return
	}
	nodes, err := ParseAddrs(r.Header.Get(headerNodes))
	if err != nil {
		fail(http.StatusBadRequest, "%s: %v", headerNodes, err)
		return
	}
	receiver := t.attached()
	if receiver == nil || t.ctx.Err() != nil {
		fail(http.StatusServiceUnavailable, "not running")
		return
	}
	t.book.merge(from, nodes)
	defer context.AfterFunc(t.ctx, endReading)()
	if err := body(r, from, receiver); err != nil {
		fail(http.StatusServiceUnavailable, "%v", err)
	}
}

func (t *Transport) serveStream(r *http.Request, from uint64, to Receiver) error {
	body := bufio.NewReaderSize(r.Body, 64<<10)
	for {
		region, m, err := readFrame(body)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = check(m, t.self)
		}
		if err != nil {
			return err
		}
		if t.Faults.from(from) {
			continue
		}
		if err := to.Step(region, m); err != nil {
			t.log.Debug("message refused", "region", region, "from", from, "err", err)
		}
	}
}

func (t *Transport) serveSnapshot(r *http.Request, from uint64, to Receiver) error {
	body := bufio.NewReaderSize(r.Body, 64<<10)
	region, m, err := readFrame(body)
	if err == nil {
		err = check(m, t.self)
	}
	if err != nil {
		return err
	}
	lost := func() bool { return t.Faults.from(from) }
	if lost() {
		return errEarly
	}
	t.log.Info("snapshot coming in", "region", region, "from", from, "index", m.GetSnapshot().GetMetadata().GetIndex())
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	return to.ReceiveSnapshot(ctx, region, m, readChunks(body, lost))
}
