package etcdraft

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/ashlardb/ashlar/raftapply"
)

// What raft itself makes of a change is the yardstick; it panics where there is no answer.
func TestNextConfIsWhatRaftMakesOfAChange(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	refused, joint := 0, 0
	for range 200 {
		rn, _ := lonely(t, 0, nil)
		conf := &raftpb.ConfState{Voters: []uint64{1}}
		for range 8 {
			cc := &raftpb.ConfChangeV2{Transition: raftpb.ConfChangeTransition(rng.IntN(3)).Enum()}
			for range rng.IntN(4) {
				cc.Changes = append(cc.Changes, &raftpb.ConfChangeSingle{
					Type:   []raftpb.ConfChangeType{0, 0, 1, 3}[rng.IntN(4)].Enum(),
					NodeId: new(1 + rng.Uint64N(5)),
				})
			}
			next, err := nextConf(conf, cc)
			var want *raftpb.ConfState
			bad := guard("", func() error { want = rn.ApplyConfChange(cc); return nil })
			if bad != nil {
				require.Error(t, err, "%v on %v", cc, conf)
				refused++
				continue
			}
			require.NoError(t, err, "%v on %v", cc, conf)
			require.NoError(t, want.Equivalent(next), "%v on %v", cc, conf)
			conf = next
			if len(conf.VotersOutgoing) > 0 {
				joint++
			}
		}
	}
	require.Greater(t, refused, 20)
	require.Greater(t, joint, 20)
}

func TestChangesOfBothFormsBecomeTheSecond(t *testing.T) {
	data, err := proto.Marshal(addNode(4))
	require.NoError(t, err)
	e := applyEntry(&raftpb.Entry{Type: raftpb.EntryConfChange.Enum(), Data: data})
	require.Equal(t, raftapply.ConfChange, e.Kind)
	var cc raftpb.ConfChangeV2
	require.NoError(t, proto.Unmarshal(e.Data, &cc))
	require.True(t, proto.Equal(addNode(4).AsV2(), &cc))

	e = applyEntry(&raftpb.Entry{Type: raftpb.EntryConfChange.Enum(), Data: []byte{0xff}})
	r, err := (&machine{}).Apply(nil, e)
	require.NoError(t, err)
	require.ErrorIs(t, r.Err, ErrConfChange)
}

// A replica that was away gets a change of members together with what was written around it, in one task.
func TestAChangeOfMembersIsAppliedWhereverItStandsInATask(t *testing.T) {
	for _, plan := range []string{"c", "cp", "pc", "pcp", "ppccpp", "cc", "pcpcp"} {
		t.Run(plan, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3)
				tasks := map[uint64][]int{}
				p := c.peers[3]
				p.hear(func(all []raftapply.Applied) {
					for _, a := range all {
						for _, e := range a.ConfChanges {
							tasks[e.Index] = append(tasks[e.Index], int(a.State.Applied))
						}
					}
				})
				g := c.elect(1)
				c.isolate(3)
				next := uint64(10)
				for _, what := range plan {
					if what == 'p' {
						c.do(g, "add k")
						continue
					}
					a := c.change(g, addLearner(next))
					c.settle()
					ended, _, err := a.get()
					require.True(t, ended)
					require.NoError(t, err)
					next++
				}
				c.heal()
				c.tick(3)
				c.requireEqual(1, 2, 3)
				require.Len(t, p.stored().Learners, strings.Count(plan, "c"))
				synctest.Wait()
				for index, at := range tasks { // written right behind the entry
					require.Equal(t, []int{int(index)}, at)
				}
				require.Len(t, tasks, strings.Count(plan, "c"))
			})
		})
	}
}

func TestASecondChangeWaitsUntilTheFirstIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		p := c.peers[1]
		g := c.elect(1)
		p.sm.hold = make(chan struct{})
		wait := c.propose(g, "wait")
		first := c.change(g, addLearner(2))
		second := c.change(g, addLearner(3))
		ended, _, err := second.get()
		require.True(t, ended)
		require.ErrorIs(t, err, ErrConfChange)
		close(p.sm.hold)
		synctest.Wait()
		for _, a := range []*answer{wait, first} {
			ended, _, err := a.get()
			require.True(t, ended)
			require.NoError(t, err)
		}
		require.Equal(t, []uint64{2}, p.stored().Learners)
	})
}

func TestARefusedChangeLeavesNoTraceAndLetsTheNextIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		g := c.elect(1)
		cc := addNode(4)
		cc.Context = []byte("refuse")
		a := c.change(g, cc)
		c.settle()
		_, _, err := a.get()
		require.ErrorIs(t, err, ErrConfChange)
		require.ErrorIs(t, err, errRefusedByMachine)

		// What makes no sense is refused by every replica, where raft alone would panic.
		a = c.change(g, &raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{
			{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: new(uint64(1))},
			{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: new(uint64(2))},
			{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: new(uint64(3))},
		}})
		c.settle()
		_, _, err = a.get()
		require.ErrorIs(t, err, ErrConfChange)

		a = c.change(g, addLearner(9))
		c.settle()
		_, _, err = a.get()
		require.NoError(t, err)
		c.tick(2)
		c.requireEqual(1, 2, 3)
		require.NotContains(t, c.peers[2].data(), "trace")
		require.Equal(t, []uint64{9}, c.peers[2].stored().Learners)
	})
}

func TestAJointChangeIsLeftByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		g := c.elect(1)
		c.add(4).start()
		a := c.change(g, &raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{
			{Type: raftpb.ConfChangeAddNode.Enum(), NodeId: new(uint64(4))},
			{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: new(uint64(3))},
		}})
		c.tick(10)
		_, _, err := a.get()
		require.NoError(t, err)
		require.Equal(t, []uint64{1, 2, 4}, c.peers[1].stored().Voters)
		require.Empty(t, c.peers[1].stored().VotersOutgoing)
		c.do(g, "add k")
		c.tick(2)
		c.requireEqual(1, 2, 4)
	})
}

func TestAReplicaThatIsRemovedAppliesNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		g := c.elect(1)
		c.do(g, "add k")
		change := c.change(g, removeNode(3))
		var later []*answer
		for range 3 {
			later = append(later, c.propose(g, "add k"))
		}
		c.settle()
		c.tick(2)
		_, _, err := change.get()
		require.NoError(t, err)
		for _, a := range later {
			ended, _, err := a.get()
			require.True(t, ended)
			require.NoError(t, err)
		}
		p := c.peers[3]
		<-p.group.Removed()
		n, err := p.sm.count("k")
		require.NoError(t, err)
		require.Equal(t, uint64(1), n, "entries behind the one that removes it were applied")
		require.Greater(t, p.group.Status().LastIndex, p.group.Status().Applied)
		_, err = p.group.Propose(t.Context(), []byte("add k"))
		require.ErrorIs(t, err, ErrRemoved)
		_, err = p.group.ReadIndex(t.Context())
		require.ErrorIs(t, err, ErrRemoved)

		// The others do not speak to it any more; so it must not forget.
		p.crash(nil)
		p.restart()
		<-p.group.Removed()
		require.NoError(t, p.group.Close(t.Context()))
		require.NoError(t, p.node.Wipe(testGroup, p.sm.spans()))
		it := p.node.family.NewIterator(nil)
		require.False(t, it.SeekToFirst(), "something is left of it")
		require.NoError(t, it.Close())
		p.group = nil
		c.requireEqual(1, 2)
	})
}

// The others do not speak any more to a replica that was removed: were its removal lost, it would wait for ever.
func TestARemovalIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		p := c.peers[3]
		p.hear(func(all []raftapply.Applied) {
			if len(all[0].ConfChanges) > 0 {
				p.die(nil)
			}
		})
		requireError(t, c.settled(c.change(c.elect(1), removeNode(3))), nil)
		require.True(t, p.died())
		p.crash(nil)
		p.restart()
		<-p.group.Removed()
	})
}

func TestALeaderThatRemovesItselfLeavesAGroupThatWorks(t *testing.T) {
	for _, n := range []int{2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, n)
				g := c.elect(1)
				a := c.change(g, removeNode(1))
				c.settle()
				ended, _, err := a.get()
				require.True(t, ended)
				require.NoError(t, err)
				<-g.Removed()
				lead := c.leader()
				require.NotEqual(t, uint64(1), lead.id)
				c.do(lead.group, "add k")
				require.NotContains(t, lead.stored().Voters, uint64(1))
			})
		})
	}
}

// The process ends between the write of an entry that changes the members and raft's hearing of it.
func TestACrashBetweenAChangeOfMembersAndRaft(t *testing.T) {
	for _, who := range []uint64{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 3)
			g := c.elect(1)
			p := c.peers[who]
			p.hear(func(all []raftapply.Applied) {
				if len(all[0].ConfChanges) > 0 {
					p.kill()
				}
			})
			c.change(g, addLearner(9))
			c.settle()
			require.True(t, p.died())
			p.hear(nil)
			p.crash(nil)
			p.restart()
			require.Equal(t, []uint64{9}, p.group.Status().ConfState.Learners)
			require.Equal(t, []uint64{9}, p.stored().Learners)
			c.do(c.leader().group, "add k")
			c.tick(3)
			c.requireEqual(1, 2, 3)
		})
	}
}

// The power ends at each sync that a change of members brings, the one of the entry and the one of its effect: the entry
// is applied again where the effect was lost, and only there.
func TestAPowerCutAroundAChangeOfMembers(t *testing.T) {
	died := 0
	for _, who := range []uint64{1, 2} {
		for at := 1; at <= 3; at++ {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3)
				g := c.elect(1)
				p := c.peers[who]
				p.dieAt(at, nil)
				c.change(g, addLearner(9))
				c.settle()
				if p.died() {
					died++
					p.crash(nil)
					p.restart()
				}
				lead := c.leader()
				for len(lead.stored().Learners) == 0 { // it may have been lost with its leader
					c.change(lead.group, addLearner(9))
					c.settle()
				}
				c.tick(3)
				c.requireEqual(1, 2, 3)
				require.Equal(t, []uint64{9}, p.stored().Learners)
			})
		}
	}
	require.GreaterOrEqual(t, died, 4)
}

func TestTheAnswerToAChangeOfMembersWaitsForRaft(t *testing.T) {
	g := &Group{}
	g.inbox.more.L = &g.inbox.mu
	p := &proposal{kind: raftpb.EntryConfChange, at: entryID{6, 6}, answer: make(chan raftapply.Result, 1)}
	g.pending = []*proposal{p}
	due := g.due(entryID{6, 6})
	require.Len(t, due, 1)
	due[0].Done(raftapply.Result{})
	for _, c := range g.inbox.close().calls {
		c.do()
	}
	require.Empty(t, p.answer)
	g.answerChanges()
	require.Len(t, p.answer, 1)
}

// raft takes a second change only once it has heard of the first, and hears of the change before it hears that the entry
// is applied. Who has the answer may make the next change at once.
func TestChangesOfMembersMayFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		g := c.elect(1)
		for id := range uint64(20) {
			_, err := g.ProposeConfChange(t.Context(), addLearner(id+2))
			require.NoError(t, err)
			s := g.Status()
			require.Len(t, s.Config.Learners, int(id+1))
			require.Equal(t, s.Apply.Applied, s.Applied)
		}
		require.Equal(t, raft.StateLeader, g.Status().RaftState)
	})
}
