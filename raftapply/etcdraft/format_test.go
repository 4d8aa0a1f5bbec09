package etcdraft

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/ashlardb/ashlar"
)

func TestKeysSortByGroupThenKindThenIndex(t *testing.T) {
	keys := [][]byte{
		logKey(1, 1), logKey(1, 255), logKey(1, 256), groupKey(1, hardSuffix), groupKey(1, installSuffix), groupKey(1, cutSuffix),
		stageKey(1, 0), stageKey(1, 300), groupKey(1, endSuffix), logKey(2, 0), logKey(256, 0), confKey(1), confKey(2),
	}
	for i := range keys[1:] {
		require.Negative(t, bytes.Compare(keys[i], keys[i+1]), "%x %x", keys[i], keys[i+1])
	}
	require.Equal(t, uint64(300), logIndex(stageKey(1, 300)))
	require.Equal(t, []byte{1, 2, 0, 0, 0, 0, 0, 0, 0, 7, 1, 0, 0, 0, 0, 0, 0, 1, 2}, logKey(7, 258))
	require.Equal(t, []byte{1, 3, 0, 0, 0, 0, 0, 0, 0, 7, 1}, confKey(7))
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add([]byte{})
	f.Add(appendEntryValue(nil, &raftpb.Entry{Term: new(uint64(9)), Data: []byte("x")}))
	f.Add(appendEntryValue(nil, &raftpb.Entry{Term: new(uint64(9)), Type: raftpb.EntryConfChangeV2.Enum()}))
	f.Fuzz(func(t *testing.T, p []byte) {
		e, err := decodeEntry(3, p)
		if err != nil {
			require.ErrorIs(t, err, ErrCorruption)
			return
		}
		require.Equal(t, p, appendEntryValue(nil, e))
	})
}

func FuzzDecodeCut(f *testing.F) {
	f.Add([]byte{})
	f.Add(appendCut(nil, entryID{7, 6}))
	f.Fuzz(func(t *testing.T, p []byte) {
		cut, err := decodeCut(p)
		if err != nil {
			require.ErrorIs(t, err, ErrCorruption)
			return
		}
		require.Equal(t, p, appendCut(nil, cut))
	})
}

func FuzzDecodeInstall(f *testing.F) {
	meta := &raftpb.SnapshotMetadata{Index: new(uint64(9)), Term: new(uint64(8)), ConfState: &raftpb.ConfState{Voters: []uint64{1}}}
	good, err := appendInstall(nil, install{3, meta})
	require.NoError(f, err)
	f.Add([]byte{})
	f.Add(good)
	f.Fuzz(func(t *testing.T, p []byte) {
		in, err := decodeInstall(p)
		if err != nil {
			require.ErrorIs(t, err, ErrCorruption)
			return
		}
		again, err := appendInstall(nil, in)
		require.NoError(t, err)
		second, err := decodeInstall(again)
		require.NoError(t, err)
		require.Equal(t, in.chunks, second.chunks)
		require.True(t, proto.Equal(in.meta, second.meta))
	})
}

func FuzzOpenChunk(f *testing.F) {
	spans := []Span{{Begin: []byte("a"), End: []byte("c")}, {Begin: []byte("x"), End: []byte("z")}}
	good := appendChunkHead(nil, 300)
	good = appendRecord(good, 0, []byte("b"), nil)
	good = appendRecord(good, 1, []byte("xyz"), bytes.Repeat([]byte("v"), 200))
	f.Add([]byte{})
	f.Add(good[:2])
	f.Add(good)
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) >= 2 {
			p = sealChunk(bytes.Clone(p), p[1] == 1) // so that the checksum is no wall
		}
		c, err := openChunk(p)
		if err != nil {
			require.ErrorIs(t, err, ErrCorruption)
			return
		}
		for {
			r, ok, err := c.next(spans)
			if err != nil {
				require.ErrorIs(t, err, ErrCorruption)
			}
			if !ok {
				return
			}
			require.True(t, spans[r.span].holds(r.key))
		}
	})
}

func TestChunksHoldWhatTheSnapshotSees(t *testing.T) {
	c := &cluster{t: t, net: &network{}, peers: map[uint64]*peer{}}
	p := c.add(1)
	var err error
	p.db, err = ashlar.Open("db", testOptions(p.fs))
	require.NoError(t, err)
	defer func() { require.NoError(t, p.db.Close()) }()
	want := map[string]string{}
	value := bytes.Repeat([]byte("v"), 40<<10)
	for i := range byte(20) {
		k := []byte{'b', i}
		require.NoError(t, p.db.Put(k, value, nil))
		want[string(k)] = string(value)
	}
	for _, k := range []string{"a", "c", "x"} {
		require.NoError(t, p.db.Put([]byte(k), []byte("1"), nil))
	}
	want["x"] = "1"
	s := p.db.NewSnapshot()
	defer s.Release()
	require.NoError(t, p.db.Put([]byte("x"), []byte("2"), nil))
	cf := p.db.DefaultColumnFamily()
	spans := []Span{{cf, []byte("b"), []byte("c")}, {cf, []byte("x"), []byte("y")}}
	got := map[string]string{}
	n := uint64(0)
	ended := false
	for chunk, err := range dataChunks(spans, s) {
		require.NoError(t, err)
		require.False(t, ended)
		require.Less(t, len(chunk), SnapshotChunk+50<<10)
		c, err := openChunk(chunk)
		require.NoError(t, err)
		require.Equal(t, n, c.number)
		n++
		ended = c.last
		for {
			r, ok, err := c.next(spans)
			require.NoError(t, err)
			if !ok {
				break
			}
			got[string(r.key)] = string(r.value)
		}
	}
	require.True(t, ended)
	require.Equal(t, uint64(3), n)
	require.Equal(t, want, got)
}

func TestConfigurationsThatMakeNoSenseAreRefused(t *testing.T) {
	c := &cluster{t: t, net: &network{}, peers: map[uint64]*peer{}}
	p := c.add(1)
	p.open()
	defer p.stop()
	other, err := p.db.CreateColumnFamily("other", nil)
	require.NoError(t, err)
	raftFamily := p.node.family
	for what, change := range map[string]func(*GroupConfig){
		"replica 0":        func(c *GroupConfig) { c.Replica = 0 },
		"a local thread":   func(c *GroupConfig) { c.Replica = ^uint64(0) },
		"no state machine": func(c *GroupConfig) { c.StateMachine = nil },
		"no data":          func(c *GroupConfig) { c.Data = nil },
		"not a member":     func(c *GroupConfig) { c.Members = []uint64{2, 3} },
		"a member twice":   func(c *GroupConfig) { c.Members = []uint64{1, 2, 2} },
		"member 0":         func(c *GroupConfig) { c.Members = []uint64{1, 0} },
		"spans that overlap": func(c *GroupConfig) {
			c.Data = []Span{{other, []byte("a"), []byte("c")}, {other, []byte("b"), []byte("d")}}
		},
		"an empty span":                func(c *GroupConfig) { c.Data = []Span{{other, []byte("a"), []byte("a")}} },
		"a span without an end":        func(c *GroupConfig) { c.Data = []Span{{other, []byte("a"), nil}} },
		"a span without a family":      func(c *GroupConfig) { c.Data = []Span{{nil, []byte("a"), []byte("b")}} },
		"a span over the logs":         func(c *GroupConfig) { c.Data = []Span{{raftFamily, []byte{1}, []byte{2}}} },
		"a heart slower than votes":    func(c *GroupConfig) { c.Raft.HeartbeatTick = 10 },
		"more to apply than can wait":  func(c *GroupConfig) { c.Raft.MaxCommittedSizePerReady = 64 << 20 },
		"leases without a quorum":      func(c *GroupConfig) { c.Raft.NoCheckQuorum, c.Raft.ReadOnlyOption = true, 1 },
		"less in flight than messages": func(c *GroupConfig) { c.Raft.MaxInflightBytes = 1 },
		"a negative window":            func(c *GroupConfig) { c.Raft.MaxInflightMsgs = -1 },
	} {
		config := p.config(1)
		change(config)
		_, err := p.node.StartGroup(config)
		require.ErrorIs(t, err, ErrInvalidArgument, what)
	}
	_, err = p.node.StartGroup(nil)
	require.ErrorIs(t, err, ErrInvalidArgument)
	_, err = Open(p.db, nil)
	require.ErrorIs(t, err, ErrInvalidArgument)

	g, err := p.node.StartGroup(p.config(1))
	require.NoError(t, err)
	_, err = p.node.StartGroup(p.config(1))
	require.ErrorIs(t, err, ErrGroupExists)
	require.ErrorIs(t, p.node.Wipe(testGroup, p.sm.spans()), ErrGroupExists)
	got, ok := p.node.Group(testGroup)
	require.True(t, ok)
	require.Same(t, g, got)
	require.Equal(t, testGroup, g.ID())
	require.Equal(t, uint64(1), g.Replica())
	require.NoError(t, g.ReportUnreachable(2))
}
