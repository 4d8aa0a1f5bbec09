package etcdraft

import (
	"errors"
	"fmt"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
)

// Every error matches one of these, or one of raftapply's or the engine's, with errors.Is.
var (
	// ErrNotLeader is of a proposal at a replica that does not lead. It has no effect. Group.Leader says who to ask.
	ErrNotLeader = errors.New("etcdraft: not the leader")
	// ErrNoLeader is ReadIndex's while no leader is known.
	ErrNoLeader = errors.New("etcdraft: no leader is known")
	// ErrDropped is of a proposal that raft did not take: too much of the log waits to be committed and applied, or the
	// leadership is being handed over. It has no effect, and may be made again later.
	ErrDropped = fmt.Errorf("etcdraft: the proposal was dropped: %w", ashlar.ErrBusy)
	// ErrConfChange is of a change of members that was refused: another is not yet applied, or it makes no sense for the
	// members that there are. It has no effect.
	ErrConfChange = errors.New("etcdraft: the change of members was refused")
	// ErrUnknown is of a proposal of which this replica will not learn whether it took effect: a snapshot jumped over it.
	ErrUnknown = errors.New("etcdraft: the outcome of the proposal is not known")
	// ErrStale is raftapply's: another entry took the proposal's place in the log. It has no effect.
	ErrStale = raftapply.ErrStale
	// ErrRestoring is Read's while a snapshot is being put in the place of the group's data.
	ErrRestoring = errors.New("etcdraft: a snapshot is being installed")
	// ErrRemoved is of a replica that was taken out of its group.
	ErrRemoved = errors.New("etcdraft: the replica was removed from its group")
	// ErrGroupExists is StartGroup's for a group that runs.
	ErrGroupExists = errors.New("etcdraft: the group exists")
	// ErrNoGroup is of a group that does not run here.
	ErrNoGroup = errors.New("etcdraft: no such group")
	// ErrStopped is of a group, or a Node, that was closed or that failed; then the cause is matched too. Whether a proposal
	// that ends with it takes effect, the log decides.
	ErrStopped = fmt.Errorf("etcdraft: stopped: %w", ashlar.ErrClosed)
	// ErrBadMessage is Step's and ReceiveSnapshot's for what no peer sends.
	ErrBadMessage = errors.New("etcdraft: a message that no peer sends")
	// ErrInvalidArgument and ErrCorruption are the engine's.
	ErrInvalidArgument = ashlar.ErrInvalidArgument
	ErrCorruption      = ashlar.ErrCorruption
)
