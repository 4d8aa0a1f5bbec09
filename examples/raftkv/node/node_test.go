package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/examples/raftkv/peer"
	"github.com/ashlardb/ashlar/examples/raftkv/store"
	"github.com/ashlardb/ashlar/raftapply"
	"github.com/ashlardb/ashlar/vfs"
)

// cluster starts nodes in this process, on file systems in memory.
func cluster(t *testing.T, count int) map[uint64]*Node {
	addrs, listeners, nodes := map[uint64]string{}, map[uint64]net.Listener{}, map[uint64]*Node{}
	for id := uint64(1); id <= uint64(count); id++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addrs[id], listeners[id] = l.Addr().String(), l
	}
	for id := range addrs {
		n, err := Open(testOptions(id, addrs, listeners[id]))
		require.NoError(t, err)
		nodes[id] = n
		t.Cleanup(func() { require.NoError(t, n.Close(context.Background())) })
	}
	for _, n := range nodes {
		for region := range n.groups {
			require.NoError(t, again(t.Context(), func() (bool, error) {
				lead, _ := n.groups[region].Leader()
				return lead != 0, nil
			}))
		}
	}
	return nodes
}

func testOptions(id uint64, addrs map[uint64]string, l net.Listener) Options {
	return Options{
		ID: id, Dir: "db", Nodes: addrs, Splits: DefaultSplits(), Tick: 5 * time.Millisecond, FS: vfs.NewMem(), Listener: l,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// ask sends a request, and returns the answer's code and text. It follows no redirect.
func (n *Node) ask(t *testing.T, method, path, body string, headers ...string) (int, string, http.Header) {
	req, err := http.NewRequest(method, "http://"+n.o.Nodes[n.o.ID]+path, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer c.CloseIdleConnections()
	resp, err := c.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text), resp.Header
}

func TestRequestsAndTheirAnswers(t *testing.T) {
	n := cluster(t, 1)[1]
	large := strings.Repeat("x", store.MaxCommand)
	for _, c := range []struct {
		method, path, body string
		code               int
		text               string // part of the answer
	}{
		{"GET", "/kv/a", "", 404, "no such key"},
		{"PUT", "/kv/a", "1", 200, "done"},
		{"GET", "/kv/a", "", 200, "1"},
		{"GET", "/kv/a?stale=1", "", 200, "1"},
		{"PUT", "/kv/a%2Fb%00", "", 200, "done"},
		{"GET", "/kv/a%2Fb%00", "", 200, ""},
		{"DELETE", "/kv/a%2Fb%00", "", 200, "done"},
		{"GET", "/kv/a%2Fb%00", "", 404, ""},
		{"PUT", "/kv/", "1", 400, "empty key"},
		{"PUT", "/kv/a", large, 413, "at most"},
		{"PUT", "/kv/a", large + "x", 413, "more than"},
		{"POST", "/cas", `{"key":"a","old":"1","new":"2"}`, 200, "done"},
		{"POST", "/cas", `{"key":"a","old":"1","new":"3"}`, 409, "mismatch"},
		{"POST", "/cas", `{"key":"a","old":null,"new":"3"}`, 409, "mismatch"},
		{"POST", "/cas", `{"key":"b","old":null,"new":null}`, 200, "done"},
		{"POST", "/cas", `{"key":`, 400, "body"},
		{"POST", "/batch", `{"puts":{"b":"1","c":"2"},"deletes":["a"]}`, 200, "done"},
		{"POST", "/batch", `{"puts":{"b":"1","z":"2"}}`, 400, "keys of one region"},
		{"POST", "/batch", `{}`, 400, "no keys"},
		{"GET", "/kv/a", "", 404, ""},
		{"POST", "/bulk/prewrite", `{"puts":{"e":"5"},"deletes":["f"]}`, 400, "a delete"},
		{"POST", "/bulk/commit", `{"start":3,"keys":["e"]}`, 409, "not locked"},
		{"POST", "/bulk/commit", `{"keys":["e"]}`, 400, "start"},
		{"GET", "/leader?key=a", "", 200, "1"},
		{"GET", "/leader?region=9", "", 400, "1 to 4"},
		{"GET", "/hash?region=1", "", 200, "applied"},
		{"GET", "/hash", "", 400, "1 to 4"},
		{"GET", "/metrics", "", 200, "raftapply_applied_total"},
		{"GET", "/metrics", "", 200, "rocksdb_number_keys_written_total"},
		{"POST", "/admin/config", `{"apply-yield-write-size":"8KiB","apply-yield-duration":"20ms"}`, 200, `"8KiB"`},
		{"POST", "/admin/config", `{"apply-yield-write-size":"9KiB","apply-pool-size":"no"}`, 400, "apply-pool-size"},
		{"POST", "/admin/config", `{"apply-yield-write-size":"9KiB","apply-pool-size":"0"}`, 400, "apply-pool-size"},
		{"POST", "/admin/config", `{"no-such-thing":"1"}`, 400, "no-such-thing"},
		{"GET", "/admin/config", "", 200, `"8KiB"`},
		{"POST", "/admin/transfer", `{"region":1,"to":7}`, 400, "no vote"},
		{"POST", "/admin/transfer", `{"region":7,"to":1}`, 400, "1 to 4"},
		{"POST", "/admin/add", `{"id":4,"addr":"nowhere"}`, 400, "addr"},
		{"POST", "/admin/add", `{}`, 400, "id"},
		{"POST", "/debug/fault", `{}`, 404, "not found"},
	} {
		code, text, _ := n.ask(t, c.method, c.path, c.body)
		require.Equal(t, c.code, code, "%s %s: %s", c.method, c.path, text)
		require.Contains(t, text, c.text, "%s %s", c.method, c.path)
	}
}

func TestBulkInsertOverHTTP(t *testing.T) {
	n := cluster(t, 1)[1]
	_, text, _ := n.ask(t, "POST", "/bulk/prewrite", `{"puts":{"a":"1","b":"2"}}`)
	var pre, met Done
	require.NoError(t, json.Unmarshal([]byte(text), &pre))
	code, text, _ := n.ask(t, "PUT", "/kv/b", "x")
	require.Equal(t, http.StatusLocked, code)
	require.NoError(t, json.Unmarshal([]byte(text), &met))
	require.Equal(t, pre.Start, met.Start, "who meets a lock is told which")
	code, _, _ = n.ask(t, "POST", "/bulk/commit", fmt.Sprintf(`{"start":%d,"keys":["a","b"]}`, pre.Start))
	require.Equal(t, http.StatusOK, code)
	_, text, _ = n.ask(t, "GET", "/kv/b", "")
	require.Equal(t, "2", text)
}

func TestCommandWithASessionIsDoneOnce(t *testing.T) {
	n := cluster(t, 1)[1]
	swap := func(seq string) int {
		code, _, _ := n.ask(t, "POST", "/cas", `{"key":"a","old":null,"new":"1"}`, HeaderClient, "7", HeaderSeq, seq)
		return code
	}
	require.Equal(t, []int{200, 200, 409, 400, 400}, []int{swap("1"), swap("1"), swap("2"), swap("0"), swap("x")})
}

func TestFollowerNamesTheLeaderAndAnswersReads(t *testing.T) {
	nodes := cluster(t, 3)
	lead, _ := nodes[1].groups[0].Leader()
	follower := nodes[lead%3+1]
	code, _, h := follower.ask(t, "PUT", "/kv/a?x=1", "1")
	require.Equal(t, http.StatusTemporaryRedirect, code)
	require.Equal(t, fmt.Sprint(lead), h.Get(HeaderLeader))
	require.Equal(t, "http://"+nodes[lead].o.Nodes[lead]+"/kv/a?x=1", h.Get("Location"))
	code, _, _ = nodes[lead].ask(t, "PUT", "/kv/a", "1")
	require.Equal(t, http.StatusOK, code)
	for _, n := range nodes { // each waits until it has the write
		_, text, _ := n.ask(t, "GET", "/kv/a", "")
		require.Equal(t, "1", text)
	}
}

// TestATransferIsAskedForAgain: raft gives one up that takes longer than an election.
func TestATransferIsAskedForAgain(t *testing.T) {
	nodes := cluster(t, 3)
	given := 0 // how often raft has given the transfer up
	for given == 0 {
		lead, _ := nodes[1].groups[0].Leader()
		if lead == 0 {
			continue
		}
		from, to := nodes[lead], lead%3+1
		from.transport.Faults.Set(peer.Cut{DropTo: []uint64{to}})
		code := make(chan int, 1)
		go func() {
			c, _, _ := from.ask(t, "POST", "/admin/transfer", fmt.Sprintf(`{"region":1,"to":%d}`, to))
			code <- c
		}()
		asked := false
		for status := from.groups[0].Status(); status.Lead == lead; status = from.groups[0].Status() {
			if asked && status.LeadTransferee == 0 {
				given++
				break
			}
			asked = asked || status.LeadTransferee == to
		}
		from.transport.Faults.Set(peer.Cut{})
		switch got := <-code; got {
		case http.StatusOK:
		case http.StatusServiceUnavailable, http.StatusTemporaryRedirect: // the third node was elected meanwhile
			given = 0
		default:
			t.Fatalf("the transfer was not made: %d", got)
		}
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	addrs := map[uint64]string{1: "127.0.0.1:0"}
	for want, change := range map[string]func(*Options){
		"id is 1 or more":       func(o *Options) { o.ID = 0 },
		"a directory":           func(o *Options) { o.Dir = "" },
		"no address of node 2":  func(o *Options) { o.ID = 2 },
		"in order":              func(o *Options) { o.Splits = [][]byte{[]byte("b"), []byte("a")} },
		"more than 0":           func(o *Options) { o.Tick = -1 },
		"none of them twice or": func(o *Options) { o.Splits = [][]byte{{}} },
	} {
		o := testOptions(1, addrs, nil)
		change(&o)
		_, err := Open(o)
		require.ErrorIs(t, err, ErrOptions)
		require.ErrorContains(t, err, want)
	}
}

func TestRegionsAreThoseThatTheDatabaseWasMadeWith(t *testing.T) {
	o := testOptions(1, map[uint64]string{1: "127.0.0.1:0"}, nil)
	n, err := Open(o)
	require.NoError(t, err)
	require.NoError(t, n.Close(context.Background()))
	o.Splits = nil
	_, err = Open(o)
	require.ErrorIs(t, err, ErrOptions)
	o.Splits = DefaultSplits()
	n, err = Open(o)
	require.NoError(t, err)
	require.NoError(t, n.Close(context.Background()))
}

func TestEveryKeyIsInTheRegionWhoseBoundsHoldIt(t *testing.T) {
	o := Options{Splits: DefaultSplits()}
	for key, want := range map[string]raftapply.RegionID{"": 1, "fz": 1, "g": 2, "mz": 2, "n": 3, "t": 4, "\xff": 4} {
		id := o.regionOf([]byte(key))
		require.Equal(t, want, id, key)
		begin, end := o.bounds(id)
		require.True(t, string(begin) <= key && (end == nil || key < string(end)), key)
	}
}

func TestFamiliesHaveTiKVsFilters(t *testing.T) {
	n := cluster(t, 1)[1]
	for name, forHits := range map[string]bool{"default": true, "lock": false, "write": false, "raft": true} {
		cf, ok := n.db.ColumnFamily(name)
		require.True(t, ok, name)
		require.Equal(t, forHits, cf.Options().OptimizeFiltersForHits, name)
		require.NotNil(t, cf.Options().Table.FilterPolicy, name)
	}
}

// TestRequestsEndWithTheNode: nobody waits for a majority that is not there.
func TestRequestsEndWithTheNode(t *testing.T) {
	addrs := map[uint64]string{2: "127.0.0.1:1", 3: "127.0.0.1:2"}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addrs[1] = l.Addr().String()
	n, err := Open(testOptions(1, addrs, l))
	require.NoError(t, err)
	code, text, h := n.ask(t, "PUT", "/kv/a", "1")
	require.Equal(t, http.StatusServiceUnavailable, code, text)
	require.NotEmpty(t, h.Get("Retry-After"))
	require.NoError(t, n.Close(context.Background()))
	_, err = n.db.Get([]byte("a"), nil)
	require.True(t, errors.Is(err, ashlar.ErrClosed))
}

func TestCommandRefusesFlagsThatMakeNoSense(t *testing.T) {
	for want, args := range map[string][]string{
		"id is 1 or more":      {"-dir", "x"},
		"flag provided but":    {"-no-such"},
		`unexpected "word"`:    {"word"},
		"apply-yield-duration": {"-apply-yield-duration", "soon"},
		"ID=HOST:PORT":         {"-nodes", "1"},
	} {
		require.ErrorContains(t, Run(t.Context(), args, io.Discard), want)
	}
}
