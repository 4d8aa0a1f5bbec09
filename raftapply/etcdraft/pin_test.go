package etcdraft

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// What the binding rests on and raft does not document, held against the release that it is built with.

// lonely is a leader without followers, all of whose entries are committed and handed over. Each has the data "xxxx".
func lonely(t *testing.T, entries int, change func(*raft.Config)) (rn *raft.RawNode, handed []*raftpb.Entry) {
	s := raft.NewMemoryStorage()
	require.NoError(t, s.ApplySnapshot(&raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
		Index: &beginning.index, Term: &beginning.term, ConfState: &raftpb.ConfState{Voters: []uint64{1}},
	}}))
	c := &raft.Config{
		ID: 1, Storage: s, ElectionTick: 10, HeartbeatTick: 1, MaxInflightMsgs: 16, MaxSizePerMsg: 1 << 20,
		AsyncStorageWrites: true, Logger: raftLogger{discard},
	}
	if change != nil {
		change(c)
	}
	rn, err := raft.NewRawNode(c)
	require.NoError(t, err)
	drain := func() {
		for rn.HasReady() {
			for _, m := range rn.Ready().Messages {
				switch m.GetTo() {
				case raft.LocalAppendThread:
					require.NoError(t, s.Append(m.Entries))
					for _, r := range m.Responses {
						require.NoError(t, rn.Step(r))
					}
				case raft.LocalApplyThread:
					handed = append(handed, m.Entries...)
				}
			}
		}
	}
	require.NoError(t, rn.Campaign())
	drain()
	for range entries {
		require.NoError(t, rn.Propose([]byte("xxxx")))
	}
	drain()
	return rn, handed
}

func TestRaftCountsAPrefixOfWhatItHandedOver(t *testing.T) {
	rn, handed := lonely(t, 3, nil)
	require.Len(t, handed, 4) // a new leader's empty one first
	require.Equal(t, uint64(5), rn.BasicStatus().Applied)
	for i, want := range []uint64{6, 7, 8, 9} {
		require.NoError(t, rn.Step(applyResponse(1, handed[i:i+1])))
		require.Equal(t, want, rn.BasicStatus().Applied)
	}
}

// Quotas too move entry by entry: with room for one entry to be applied at a time, the acknowledgement of each brings the
// next.
func TestRaftGivesRoomBackForAPrefix(t *testing.T) {
	rn, handed := lonely(t, 4, func(c *raft.Config) { c.MaxCommittedSizePerReady = 40 })
	require.Less(t, len(handed), 5)
	require.NoError(t, rn.Step(applyResponse(1, handed[:2])))
	require.True(t, rn.HasReady())
	next := rn.Ready().CommittedEntries
	require.NotEmpty(t, next)
	require.Equal(t, handed[len(handed)-1].GetIndex()+1, next[0].GetIndex())
}

func TestRaftRefusesToStartBehindWhatIsApplied(t *testing.T) {
	start := func(hard *raftpb.HardState) {
		s := raft.NewMemoryStorage()
		require.NoError(t, s.ApplySnapshot(&raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
			Index: &beginning.index, Term: &beginning.term, ConfState: &raftpb.ConfState{Voters: []uint64{1}},
		}}))
		var entries []*raftpb.Entry
		for i := range uint64(5) {
			entries = append(entries, &raftpb.Entry{Index: new(6 + i), Term: new(uint64(6))})
		}
		require.NoError(t, s.Append(entries))
		require.NoError(t, s.SetHardState(hard))
		_, err := raft.NewRawNode(&raft.Config{
			ID: 1, Storage: s, Applied: 9, ElectionTick: 10, HeartbeatTick: 1, MaxInflightMsgs: 1, Logger: raftLogger{discard},
		})
		require.NoError(t, err)
	}
	behind := &raftpb.HardState{Term: new(uint64(6)), Vote: new(uint64(0)), Commit: new(uint64(8))}
	require.Panics(t, func() { start(behind) })
	repaired, err := repair(behind, applied(9, 6, 9, 6), view(5, 5, 6, 6, 6, 6, 6))
	require.NoError(t, err)
	require.NotPanics(t, func() { start(repaired) })
}
