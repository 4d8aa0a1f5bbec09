package etcdraft

import (
	"go.etcd.io/raft/v3/raftpb"

	"github.com/ashlardb/ashlar/raftapply"
)

// What a crash leaves, and what it cannot leave.
//
// The log's entries are synced before raft hears of them, and before they are applied. A HardState in which nothing but
// Commit has moved is not synced, nor is what is applied; log, HardState and data share one write-ahead log, of which a
// crash leaves a beginning. So:
//
//  1. Commit may be behind Applied: its last move was lost, or was never written before the entry was applied. raft
//     panics when it is told so; repair moves Commit up.
//  2. Applied and Commit never go past the end of the log, or lie before its beginning, and their terms are the log's.
//     What breaks this is no crash: replaying it would make this replica differ from the others without a word.

// logView is what the log has on disk.
type logView struct {
	cut  entryID // the entry before the first
	last uint64  // equal to cut.index if there are none
	// term returns an entry's term, from cut to last; 0 if it is missing.
	term func(index uint64) uint64
}

// repair returns the HardState with which raft can start, or ErrCorruption.
func repair(hard *raftpb.HardState, state raftapply.ApplyState, log logView) (*raftpb.HardState, error) {
	check := func(what string, index, term uint64) error {
		switch {
		case index < log.cut.index:
			return corrupt("%s is %d, but the log begins behind %d: entries are missing", what, index, log.cut.index)
		case index > log.last:
			return corrupt("%s is %d, but the log ends at %d: entries are missing", what, index, log.last)
		case index == 0: // nothing yet: there is no such entry
			return nil
		}
		switch have := log.term(index); {
		case have == 0:
			return corrupt("%s is %d, which is missing in the log", what, index)
		case term != 0 && have != term:
			return corrupt("%s is %d of term %d, but the log has it of term %d", what, index, term, have)
		}
		return nil
	}
	if err := check("what is applied", state.Applied, state.AppliedTerm); err != nil {
		return nil, err
	}
	if err := check("what the apply state has as committed", state.Commit, state.CommitTerm); err != nil {
		return nil, err
	}
	commit := max(hard.GetCommit(), state.Commit, state.Applied, log.cut.index)
	if err := check("what is committed", commit, 0); err != nil {
		return nil, err
	}
	if last := log.term(log.last); last > hard.GetTerm() {
		return nil, corrupt("the term is %d, but the log ends with an entry of term %d", hard.GetTerm(), last)
	}
	return &raftpb.HardState{Term: new(hard.GetTerm()), Vote: new(hard.GetVote()), Commit: &commit}, nil
}
