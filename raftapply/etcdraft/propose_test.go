package etcdraft

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/ashlardb/ashlar/raftapply"
)

func requireError(t *testing.T, a *answer, want error) {
	t.Helper()
	ended, _, err := a.get()
	require.True(t, ended, "the proposal waits")
	require.ErrorIs(t, err, want)
}

func TestAProposalThatLostItsPlaceIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		old := c.elect(1)
		c.do(old, "add k")
		c.isolate(1)
		lost := []*answer{c.propose(old, "add k"), c.propose(old, "add k"), c.propose(old, "add k")}
		c.settle()
		next := c.elect(2) // its first entry takes the place of the first
		c.heal()
		c.tick(2)
		// The new leader's log is shorter: nothing may ever stand in the places of the others, but its term is later.
		for _, a := range lost {
			requireError(t, a, ErrStale)
		}
		// What the old leader had behind the new one's last entry is gone, on its disk too.
		c.peers[1].crash(nil)
		c.peers[1].restart()
		require.Equal(t, next.Status().LastIndex, c.peers[1].group.Status().LastIndex)
		require.Equal(t, uint64(2), c.do(next, "add k").Value)
		c.tick(1)
		c.requireEqual(1, 2, 3)
	})
}

// The old leader is told that another leads, and its proposal is committed by the new one all the same: the place and the
// term are still its own.
func TestAProposalSurvivesItsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		old := c.elect(1)
		c.net.mu.Lock()
		c.net.lose = func(p packet) bool { return p.m.GetType() == raftpb.MsgAppResp } // entries arrive, answers do not
		c.net.mu.Unlock()
		a := c.propose(old, "add k")
		c.settle()
		ended, _, _ := a.get()
		require.False(t, ended)
		c.heal()
		c.isolate(1)
		c.elect(2)
		c.heal()
		c.tick(2)
		ended, r, err := a.get()
		require.True(t, ended)
		require.NoError(t, err)
		require.Equal(t, uint64(1), r.Value)
	})
}

func TestASnapshotThatJumpsOverAProposalLeavesItUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		old := c.elect(1)
		c.isolate(1)
		a := c.propose(old, "add k")
		c.settle()
		g := c.elect(2)
		for range 10 {
			c.do(g, "add k")
		}
		require.NoError(t, g.Truncate(t.Context(), g.Status().Applied))
		c.heal()
		c.tick(5)
		require.Equal(t, 1, c.net.snaps)
		requireError(t, a, ErrUnknown)
		c.requireEqual(1, 2, 3)
	})
}

func TestProposalsAreRefusedWithAReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, func(c *cluster) { c.raft.MaxUncommittedEntriesSize = 100 })
		g := c.elect(1)
		requireError(t, c.propose(c.peers[2].group, "add k"), ErrNotLeader)
		requireError(t, c.propose(g, ""), ErrInvalidArgument)

		c.isolate(1)
		var waiting []*answer
		for range 20 {
			waiting = append(waiting, c.propose(g, "put k 0123456789"))
		}
		requireError(t, waiting[19], ErrDropped)
		ended, _, _ := waiting[0].get()
		require.False(t, ended)
		c.heal()
		c.tick(3)

		// Raft takes none while it hands the leadership over.
		c.isolate(2)
		require.NoError(t, g.TransferLeader(2))
		requireError(t, c.propose(g, "add k"), ErrDropped)
		c.heal()

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := g.Propose(ctx, []byte("add k"))
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestWhoeverWaitsWhenAGroupClosesIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		g := c.elect(1)
		c.isolate(1)
		waits := []*answer{c.propose(g, "add k"), c.change(g, addNode(4)), c.read(g)}
		c.settle()
		require.NoError(t, g.Close(t.Context()))
		synctest.Wait()
		for _, a := range waits {
			requireError(t, a, ErrStopped)
		}
		// What was in the log is there when the group is started again, and may still take effect.
		p := c.peers[1]
		var err error
		p.group, err = p.node.StartGroup(p.config())
		require.NoError(t, err)
		c.heal()
		c.do(c.leader().group, "add k")
		c.tick(3)
		c.requireEqual(1, 2, 3)
	})
}

func TestTheLeadershipIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		g := c.elect(1)
		require.NoError(t, g.TransferLeader(3))
		c.settle()
		lead, term := g.Leader()
		require.Equal(t, uint64(3), lead)
		require.Equal(t, g.Status().HardState.GetTerm(), term)
		c.do(c.peers[3].group, "add k")
	})
}

func (c *cluster) read(g *Group) *answer {
	a := &answer{}
	go func() {
		index, err := g.ReadIndex(c.t.Context())
		a.set(raftapply.Result{}, index, err)
	}()
	synctest.Wait()
	return a
}

func TestAReadSeesWhatWasAcknowledgedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		g := c.elect(1)
		for i := range uint64(5) {
			c.do(g, "add k")
			for id := range c.peers {
				a := c.read(c.peers[id].group)
				c.settle()
				ended, _, err := a.get()
				require.True(t, ended)
				require.NoError(t, err)
				p := c.peers[id]
				c.tick(1) // followers hear of the commit
				require.NoError(t, p.group.Read(t.Context(), a.index, func() error {
					n, err := p.sm.count("k")
					require.Equal(t, i+1, n)
					return err
				}))
			}
		}
	})
}

// A leader that nobody follows any more does not know. Its readers are asked for again when it hears of the next.
func TestAnOldLeaderDoesNotAnswerReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		old := c.elect(1)
		c.isolate(1)
		a := c.read(old)
		c.settle()
		g := c.elect(2)
		c.do(g, "add k")
		c.do(g, "add k")
		ended, _, _ := a.get()
		require.False(t, ended)
		c.heal()
		c.tick(15)
		ended, _, err := a.get()
		require.True(t, ended)
		require.NoError(t, err)
		require.GreaterOrEqual(t, a.index, g.Status().Applied)
	})
}

func TestReadsThatTheNetworkLosesAreAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.do(c.elect(1), "add k")
		c.net.mu.Lock()
		c.net.lose = func(p packet) bool {
			return p.m.GetType() == raftpb.MsgReadIndex || p.m.GetType() == raftpb.MsgReadIndexResp
		}
		c.net.mu.Unlock()
		reads := []*answer{c.read(c.peers[2].group), c.read(c.peers[2].group)}
		c.tick(3)
		ended, _, _ := reads[0].get()
		require.False(t, ended)
		c.heal()
		c.tick(10)
		for _, a := range reads {
			requireError(t, a, nil)
		}
	})
}

// An answer is so late that the replica has been started anew, and asks something else.
func TestALateAnswerIsNotTakenForThatToALaterQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		g := c.elect(1)
		c.do(g, "add k")
		var late []packet
		c.net.mu.Lock()
		c.net.lose = func(p packet) bool {
			is := p.m.GetType() == raftpb.MsgReadIndexResp
			if is {
				late = append(late, p)
			}
			return is
		}
		c.net.mu.Unlock()
		p := c.peers[2]
		c.settled(c.read(p.group))
		require.Len(t, late, 1)
		p.crash(nil)
		p.restart()
		c.tick(2)
		c.do(g, "add k")
		a := c.settled(c.read(p.group))
		require.Len(t, late, 2)
		require.NoError(t, p.node.Step(testGroup, late[0].m))
		synctest.Wait()
		ended, _, _ := a.get()
		require.False(t, ended)
		require.NoError(t, p.node.Step(testGroup, late[1].m))
		synctest.Wait()
		requireError(t, a, nil)
		require.Greater(t, a.index, late[0].m.GetIndex())
	})
}

func TestNobodyKnowsWithoutALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		requireError(t, c.read(c.peers[1].group), ErrNoLeader)
	})
}
