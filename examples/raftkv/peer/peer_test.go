package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ashlardb/ashlar/raftapply"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// message is one of type MsgApp, which says something in its log term.
func message(from, to, word uint64) *raftpb.Message {
	return &raftpb.Message{Type: raftpb.MsgApp.Enum(), From: &from, To: &to, LogTerm: &word}
}

// end is a transport with a server, and a receiver that hands on what comes.
type end struct {
	*Transport
	got       chan *raftpb.Message
	snapshots chan []byte
	refuse    error
	server    *httptest.Server
	lost      chan uint64
}

func (e *end) Step(_ raftapply.RegionID, m *raftpb.Message) error {
	e.got <- m
	return nil
}

func (e *end) ReceiveSnapshot(_ context.Context, _ raftapply.RegionID, _ *raftpb.Message, chunks iter.Seq2[[]byte, error]) error {
	var all []byte
	for chunk, err := range chunks {
		if err != nil {
			return err
		}
		all = append(all, chunk...)
	}
	e.snapshots <- all
	return e.refuse
}

func (e *end) Unreachable(_ raftapply.RegionID, node uint64) {
	select {
	case e.lost <- node:
	default:
	}
}

// newEnd starts node id; it knows the nodes that were started before it.
func newEnd(t *testing.T, id uint64, others ...*end) *end {
	e := &end{got: make(chan *raftpb.Message, 1000), snapshots: make(chan []byte, 10), lost: make(chan uint64, 1)}
	mux := http.NewServeMux()
	e.server = httptest.NewServer(mux)
	addrs := map[uint64]string{id: strings.TrimPrefix(e.server.URL, "http://")}
	for _, o := range others {
		addrs[o.self], _ = o.book.Addr(o.self)
	}
	e.Transport = New(id, NewBook(id, addrs, nil), slog.New(slog.NewTextHandler(io.Discard, nil)))
	e.Attach(e)
	e.Routes(mux)
	t.Cleanup(func() {
		e.Close()
		e.server.Close()
	})
	return e
}

func TestMessagesArriveInOrder(t *testing.T) {
	b := newEnd(t, 2)
	a := newEnd(t, 1, b)
	for i := range uint64(500) {
		a.Send(7, []*raftpb.Message{message(1, 2, i)})
	}
	for i := range uint64(500) {
		require.Equal(t, i, (<-b.got).GetLogTerm())
	}
}

// TestMessagesThatAFollowerHandsOnArrive: a question to a leader of yesterday goes on to that of today, as of who asked.
func TestMessagesThatAFollowerHandsOnArrive(t *testing.T) {
	b := newEnd(t, 2)
	a := newEnd(t, 1, b)
	a.Send(7, []*raftpb.Message{message(3, 2, 1), message(1, 2, 2)})
	require.EqualValues(t, 3, (<-b.got).GetFrom())
	require.EqualValues(t, 1, (<-b.got).GetFrom())
}

func TestAddressesSpreadWithConnections(t *testing.T) {
	c := newEnd(t, 3)
	b := newEnd(t, 2)
	a := newEnd(t, 1, b, c)
	a.Send(7, []*raftpb.Message{message(1, 2, 0)})
	<-b.got
	b.Send(7, []*raftpb.Message{message(2, 1, 1), message(2, 3, 2)})
	require.EqualValues(t, 1, (<-a.got).GetLogTerm(), "2 learned of 1 from 1")
	require.EqualValues(t, 2, (<-c.got).GetLogTerm(), "2 learned of 3 from 1")
}

func TestLinkComesBackAfterThePeerDoes(t *testing.T) {
	b := newEnd(t, 2)
	a := newEnd(t, 1, b)
	a.Send(7, []*raftpb.Message{message(1, 2, 1)})
	<-b.got
	b.server.CloseClientConnections()
	deadline := time.After(30 * time.Second)
	for i := uint64(2); ; i++ { // those in between may be lost
		a.Send(7, []*raftpb.Message{message(1, 2, i)})
		select {
		case <-b.got:
			return
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			t.Fatal("nothing arrives any more")
		}
	}
}

func TestMessageToNobodyIsReported(t *testing.T) {
	a := newEnd(t, 1)
	a.Send(7, []*raftpb.Message{message(1, 9, 1)})
	require.EqualValues(t, 9, <-a.lost)
}

func TestWhatIsCutOffIsLost(t *testing.T) {
	b := newEnd(t, 2)
	a := newEnd(t, 1, b)
	say := func(word uint64) { a.Send(7, []*raftpb.Message{message(1, 2, word)}) }
	say(1)
	require.EqualValues(t, 1, (<-b.got).GetLogTerm())
	a.Faults.Set(Cut{DropTo: []uint64{2}})
	say(2)
	require.Error(t, a.SendSnapshot(t.Context(), 7, message(1, 2, 2), chunksOf(nil, "x")))
	a.Faults.Set(Cut{})
	b.Faults.Set(Cut{DropFrom: []uint64{1}})
	require.ErrorContains(t, a.SendSnapshot(t.Context(), 7, message(1, 2, 3), chunksOf(nil, "x")), errEarly.Error())
	b.Faults.Set(Cut{})
	say(4)
	require.EqualValues(t, 4, (<-b.got).GetLogTerm())
}

func chunksOf(err error, chunks ...string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, c := range chunks {
			if !yield([]byte(c), nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func TestSnapshotArrivesWholeOrNotAtAll(t *testing.T) {
	b := newEnd(t, 2)
	a := newEnd(t, 1, b)
	require.NoError(t, a.SendSnapshot(t.Context(), 7, message(1, 2, 1), chunksOf(nil, "one ", "", "two")))
	require.Equal(t, "one two", string(<-b.snapshots))
	require.Error(t, a.SendSnapshot(t.Context(), 7, message(1, 2, 1), chunksOf(errors.New("disk"), "one")), "the sender's trouble")
	require.Empty(t, b.snapshots)
	b.refuse = errors.New("no room")
	require.ErrorContains(t, a.SendSnapshot(t.Context(), 7, message(1, 2, 1), chunksOf(nil, "one")), "no room")
}

// TestForgedMessagesAreRefused: raft would take some of them for its own.
func TestForgedMessagesAreRefused(t *testing.T) {
	typed := func(m *raftpb.Message, k raftpb.MessageType) *raftpb.Message {
		m.Type = k.Enum()
		return m
	}
	require.NoError(t, check(message(1, 2, 0), 2))
	for name, m := range map[string]*raftpb.Message{
		"from nobody":             message(0, 2, 0),
		"from the apply thread":   typed(message(math.MaxUint64-1, 2, 0), raftpb.MsgStorageApplyResp),
		"to another":              message(1, 3, 0),
		"to the append thread":    message(1, math.MaxUint64, 0),
		"a type of its own":       typed(message(1, 2, 0), raftpb.MsgHup),
		"an answer of its thread": typed(message(1, 2, 0), raftpb.MsgStorageAppendResp),
	} {
		require.ErrorIs(t, check(m, 2), ErrFrame, name)
	}
}

func TestConnectionsForOthersAreRefused(t *testing.T) {
	b := newEnd(t, 2)
	for _, h := range []struct {
		from, to, nodes string
		code            int
	}{
		{"1", "2", "1=127.0.0.1:1", http.StatusOK},
		{"1", "3", "1=127.0.0.1:1", http.StatusMisdirectedRequest},
		{"2", "2", "1=127.0.0.1:1", http.StatusBadRequest},
		{"", "2", "1=127.0.0.1:1", http.StatusBadRequest},
		{"1", "2", "1", http.StatusBadRequest},
	} {
		req, err := http.NewRequest(http.MethodPost, b.server.URL+"/raft/stream", http.NoBody)
		require.NoError(t, err)
		req.Header.Set(headerFrom, h.from)
		req.Header.Set(headerTo, h.to)
		req.Header.Set(headerNodes, h.nodes)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, h.code, resp.StatusCode, "%+v", h)
	}
}

// TestARefusedStreamIsAnsweredAtOnce: its body does not end by itself. A node that closes, and one that is not meant, must not
// wait for it.
func TestARefusedStreamIsAnsweredAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		to, body string
		closed   bool
		code     int
	}{
		"to another node":   {to: "3", code: http.StatusMisdirectedRequest},
		"to a closed one":   {to: "2", closed: true, code: http.StatusServiceUnavailable},
		"not of our frames": {to: "2", body: "\xff\xff\xff\xff", code: http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnd(t, 2)
			if c.closed {
				b.Close()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			body, w := io.Pipe()
			defer w.Close()
			defer context.AfterFunc(ctx, func() { w.Close() })() // else the client waits too
			go io.WriteString(w, c.body)
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.server.URL+"/raft/stream", body)
			require.NoError(t, err)
			req.Header.Set(headerFrom, "1")
			req.Header.Set(headerTo, c.to)
			req.Header.Set(headerNodes, "1=127.0.0.1:1")
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, c.code, resp.StatusCode)
		})
	}
}

// refusing takes a snapshot's frame, and then nothing more.
type refusing struct{}

func (refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _, err := readFrame(r.Body)
	return nil, errors.Join(errors.New("refused"), err)
}

// TestNobodyReadsASnapshotThatIsNotSentAnyMore: its database may be closed when SendSnapshot has returned.
func TestNobodyReadsASnapshotThatIsNotSentAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(1, NewBook(1, map[uint64]string{2: "127.0.0.1:2"}, nil), slog.New(slog.DiscardHandler))
		a.client.Transport = refusing{}
		reads, returned := make(chan struct{}), make(chan error, 1)
		go func() {
			returned <- a.SendSnapshot(t.Context(), 7, message(1, 2, 1), func(yield func([]byte, error) bool) {
				<-reads
				require.False(t, yield([]byte("x"), nil))
			})
		}()
		synctest.Wait()
		require.Empty(t, returned, "SendSnapshot has returned, and its chunks are still being read")
		close(reads)
		require.ErrorContains(t, <-returned, "refused")
	})
}

// TestCloseEndsWhatIsUnderWay: neither end waits for the other.
func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	b := newEnd(t, 2)
	a := newEnd(t, 1, b)
	a.Send(7, []*raftpb.Message{message(1, 2, 1)})
	<-b.got
	var all sync.WaitGroup
	all.Go(b.Close)
	all.Go(a.Close)
	all.Wait()
	a.Send(7, []*raftpb.Message{message(1, 2, 1)}) // lost, and no harm
}

func TestAddrsAreReadAsWritten(t *testing.T) {
	addrs := map[uint64]string{1: "127.0.0.1:1", 22: "[::1]:2"}
	again, err := ParseAddrs(FormatAddrs(addrs))
	require.NoError(t, err)
	require.Equal(t, addrs, again)
	for _, bad := range []string{"", "1", "0=h:1", "x=h:1", "1=h", "1=h:1,1=h:2", "1=h:1,", fmt.Sprint(uint64(math.MaxUint64), "=h:1")} {
		_, err := ParseAddrs(bad)
		require.Error(t, err, bad)
	}
}

// FuzzFrames: what is read is written back as it was, and nothing panics or takes memory that did not come.
func FuzzFrames(f *testing.F) {
	one, err := appendFrame(nil, 7, message(1, 2, 3))
	require.NoError(f, err)
	f.Add(one)
	f.Add(append(bytes.Clone(one), one[:9]...))
	f.Add([]byte{0, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, p []byte) {
		r := bytes.NewReader(p)
		for {
			region, m, err := readFrame(r)
			if err != nil {
				break
			}
			frame, err := appendFrame(nil, region, m)
			require.NoError(t, err)
			againRegion, again, err := readFrame(bytes.NewReader(frame))
			require.NoError(t, err)
			require.Equal(t, region, againRegion)
			require.True(t, proto.Equal(m, again))
		}
	})
}

// FuzzChunks: the chunks of a snapshot end with an error or with their end.
func FuzzChunks(f *testing.F) {
	var whole bytes.Buffer
	require.NoError(f, writeSnapshot(&whole, nil, chunksOf(nil, "one", "two")))
	f.Add(whole.Bytes())
	f.Add(whole.Bytes()[:9])
	f.Fuzz(func(t *testing.T, p []byte) {
		var all []string
		var failed error
		for chunk, err := range readChunks(bytes.NewReader(p), func() bool { return false }) {
			require.NoError(t, failed, "nothing comes behind an error")
			if failed = err; err == nil {
				all = append(all, string(chunk))
			}
		}
		if failed == nil {
			var again bytes.Buffer
			require.NoError(t, writeSnapshot(&again, nil, chunksOf(nil, all...)))
			require.Equal(t, p[:again.Len()], again.Bytes())
		}
	})
}
