package etcdraft

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"github.com/ashlardb/ashlar/raftapply"
)

var discard = slog.New(slog.DiscardHandler)

func applied(index, term, commit, commitTerm uint64) raftapply.ApplyState {
	return raftapply.ApplyState{Applied: index, AppliedTerm: term, Commit: commit, CommitTerm: commitTerm}
}

// view is a log that begins behind cut and has entries of these terms; 0 is one that is missing.
func view(cut, cutTerm uint64, terms ...uint64) logView {
	return logView{cut: entryID{cut, cutTerm}, last: cut + uint64(len(terms)), term: func(index uint64) uint64 {
		if index == cut {
			return cutTerm
		}
		return terms[index-cut-1]
	}}
}

func TestRepairMovesCommitForwardOnlyAndRefusesWhatNoCrashLeaves(t *testing.T) {
	log := view(5, 5, 6, 6, 7, 7) // 6 to 9
	for _, c := range []struct {
		what         string
		term, commit uint64
		state        raftapply.ApplyState
		log          logView
		want         uint64 // commit
		err          string
	}{
		{"nothing at all", 0, 0, applied(0, 0, 0, 0), view(0, 0), 0, ""},
		{"a replica that joins has voted", 9, 0, applied(0, 0, 0, 0), view(0, 0), 0, ""},
		{"a new group", 5, 5, applied(5, 5, 5, 5), view(5, 5), 5, ""},
		{"all in step", 7, 9, applied(9, 7, 9, 7), log, 9, ""},
		{"applied behind commit", 7, 9, applied(6, 6, 6, 6), log, 9, ""},
		{"commit behind applied", 7, 6, applied(8, 7, 8, 7), log, 8, ""},
		{"commit behind the apply state's", 7, 6, applied(7, 6, 9, 7), log, 9, ""},
		{"commit behind the log's beginning", 7, 3, applied(5, 5, 5, 5), log, 5, ""},
		{"a HardState that was never written, after a snapshot", 5, 0, applied(5, 5, 5, 5), view(5, 5), 5, ""},

		{"applied past the end", 7, 9, applied(10, 7, 10, 7), log, 0, "what is applied is 10, but the log ends at 9"},
		{"applied before the beginning", 7, 9, applied(4, 4, 9, 7), log, 0, "what is applied is 4, but the log begins behind 5"},
		{"data without a log", 7, 0, applied(8, 7, 8, 7), view(0, 0), 0, "but the log ends at 0"},
		{"a log without data", 7, 9, applied(0, 0, 0, 0), log, 0, "what is applied is 0, but the log begins behind 5"},
		{"the applied entry is another", 7, 9, applied(8, 6, 8, 6), log, 0, "8 of term 6, but the log has it of term 7"},
		{"the applied entry is missing", 7, 9, applied(7, 6, 7, 6), view(5, 5, 6, 0, 7), 0, "7, which is missing"},
		{"the apply state's commit past the end", 7, 9, applied(9, 7, 11, 7), log, 0, "committed is 11, but the log ends at 9"},
		{"the apply state's commit is another", 7, 9, applied(6, 6, 8, 6), log, 0, "8 of term 6, but the log has it of term 7"},
		{"commit past the end", 7, 12, applied(9, 7, 9, 7), log, 0, "what is committed is 12, but the log ends at 9"},
		{"a term behind the log's", 6, 9, applied(9, 7, 9, 7), log, 0, "the term is 6, but the log ends with an entry of term 7"},
	} {
		t.Run(c.what, func(t *testing.T) {
			got, err := repair(&raftpb.HardState{Term: &c.term, Vote: new(uint64(2)), Commit: &c.commit}, c.state, c.log)
			if c.err != "" {
				require.ErrorIs(t, err, ErrCorruption)
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []uint64{c.term, 2, c.want}, []uint64{got.GetTerm(), got.GetVote(), got.GetCommit()})
		})
	}
}

func TestTheLogIsCutRarelyAndNotBeforeLiveFollowersHaveIt(t *testing.T) {
	for _, c := range []struct {
		what         string
		cut, applied uint64
		followers    []follower
		want         uint64
	}{
		{"too few", 100, 119, nil, 0},
		{"twice as many as are kept", 100, 120, nil, 110},
		{"followers have it", 100, 130, []follower{{125, true}, {120, true}}, 120},
		{"one lags a little", 100, 130, []follower{{125, true}, {104, true}}, 104},
		{"one has nothing of it", 100, 130, []follower{{99, true}}, 0},
		{"one is away", 100, 130, []follower{{104, false}}, 120},
		{"one lags by too much", 100, 145, []follower{{104, true}}, 135},
		{"the first of them all", 0, 20, nil, 10},
	} {
		require.Equal(t, c.want, cutRule(c.cut, c.applied, keepRule{10, 1 << 20}, &logSizes{step: 1}, c.followers), c.what)
	}
}

func TestAReplicaIsTakenToBeWhereItsSnapshotIs(t *testing.T) {
	for _, c := range []struct {
		what string
		p    tracker.Progress
		want uint64
	}{
		{"it is sent entries", tracker.Progress{State: tracker.StateReplicate, Match: 7, Next: 20}, 7},
		{"a snapshot is under way", tracker.Progress{State: tracker.StateSnapshot, Match: 7, Next: 8, PendingSnapshot: 15}, 15},
		{"a snapshot has come and is being installed", tracker.Progress{State: tracker.StateProbe, Match: 7, Next: 16}, 15},
		{"nothing is known", tracker.Progress{State: tracker.StateProbe, Match: 0, Next: 1}, 0},
	} {
		require.Equal(t, c.want, known(c.p), c.what)
	}
}
