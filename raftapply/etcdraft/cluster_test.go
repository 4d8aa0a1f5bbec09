package etcdraft

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
	"github.com/ashlardb/ashlar/vfs"
)

func TestThreeReplicasApplyTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		g := c.elect(1)
		for i := range 10 {
			require.Equal(t, uint64(i+1), c.do(g, "add k").Value)
		}
		require.ErrorIs(t, c.do(g, "refuse").Err, errRefusedByMachine)
		c.tick(1)
		c.requireEqual(1, 2, 3)
	})
}

// A random life: proposals, crashes that lose what was not synced, partitions, elections, cuts of the log and the
// snapshots that these bring. Each "add" that was acknowledged has counted once, each that was not at most once.
func TestNothingIsLostOrDoneTwiceWhateverCrashes(t *testing.T) {
	done := 0
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { done += randomLife(t, seed, 120) })
		})
	}
	require.Greater(t, done, 100, "the lives did little")
}

// randomLife returns how many proposals were acknowledged.
func randomLife(t *testing.T, seed uint64, steps int) int {
	rng := rand.New(rand.NewPCG(seed, 1))
	c := newCluster(t, 3, func(c *cluster) {
		c.raft.LogEntries, c.raft.LogBytes = 8, 200
		c.raft.NoLogCache, c.raft.LogCacheBytes = seed%3 == 0, 1000
	})
	var adds []*answer
	up := func() []*peer {
		var up []*peer
		for _, id := range c.ids() {
			if c.peers[id].group != nil {
				up = append(up, c.peers[id])
			}
		}
		return up
	}
	restart := func() {
		for _, id := range c.ids() {
			if p := c.peers[id]; p.group == nil {
				p.restart()
			}
		}
	}
	for range steps {
		alive := up()
		p := alive[rng.IntN(len(alive))]
		switch k := rng.IntN(100); {
		case k < 55:
			for range 1 + rng.IntN(4) {
				adds = append(adds, c.propose(p.group, "add k"))
			}
		case k < 75:
			c.tick(1 + rng.IntN(12))
		case k < 80:
			require.NoError(t, p.group.Campaign())
		case k < 84:
			c.isolate(p.id)
		case k < 88:
			c.heal()
		case k < 91:
			require.NoError(t, p.group.Truncate(t.Context(), p.group.Status().Apply.Applied))
		case k < 94:
			p.dieAt(1+rng.IntN(4), rand.New(rand.NewPCG(seed, rng.Uint64())))
		case k < 97:
			if len(alive) > 1 {
				p.crash(rand.New(rand.NewPCG(seed, rng.Uint64())))
			}
		default:
			restart()
		}
		if rng.IntN(3) > 0 {
			c.settle()
		}
		for _, p := range up() {
			if p.died() {
				p.crash(nil)
			}
		}
		if len(up()) == 0 {
			restart()
		}
	}
	for _, p := range up() {
		p.watch(nil)
	}
	c.settle()
	for _, p := range up() {
		requireSameLog(t, p)
	}
	restart()
	c.heal()
	leader := c.leader()
	last := c.do(leader.group, "add k").Value.(uint64)
	c.tick(30)
	c.requireEqual(1, 2, 3)
	for _, p := range up() {
		requireSameLog(t, p)
	}
	sure, perhaps := 1, 0
	for _, a := range adds {
		ended, _, err := a.get()
		require.True(t, ended, "a proposal was never answered")
		if err == nil {
			sure++
		} else if isUnknown(err) {
			perhaps++
		}
	}
	require.GreaterOrEqual(t, last, uint64(sure))
	require.LessOrEqual(t, last, uint64(sure+perhaps))
	return sure
}

func TestAReplicaStartsWhereAppliedIsAheadOfCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		g := c.elect(1)
		for range 5 {
			c.do(g, "add k")
		}
		c.tick(1)
		p := c.peers[2]
		s := p.group.Status()
		require.NoError(t, p.group.Close(t.Context()))
		// As if the last moves of Commit had been lost.
		hard := &raftpb.HardState{Term: s.HardState.Term, Vote: s.HardState.Vote, Commit: new(s.Apply.Applied - 3)}
		var b ashlar.Batch
		require.NoError(t, putProto(&b, p.node.family, groupKey(testGroup, hardSuffix), hard))
		require.NoError(t, p.db.Write(&b, nil))

		var err error
		p.group, err = p.node.StartGroup(p.config())
		require.NoError(t, err)
		require.Equal(t, s.Apply.Applied, p.group.Status().HardState.GetCommit())
		c.do(g, "add k")
		c.tick(3)
		c.requireEqual(1, 2, 3)
		n, err := p.sm.count("k")
		require.NoError(t, err)
		require.Equal(t, uint64(6), n)
	})
}

func TestAReplicaWhoseLogLacksAnEntryIsRefused(t *testing.T) {
	for _, c := range []struct {
		what string
		harm func(p *peer, applied uint64, b *ashlar.Batch) error
		says string
	}{
		{"the last one", func(p *peer, applied uint64, b *ashlar.Batch) error {
			return b.Delete(p.node.family, logKey(testGroup, applied))
		}, "but the log ends at"},
		{"the first one", func(p *peer, _ uint64, b *ashlar.Batch) error {
			return b.Delete(p.node.family, logKey(testGroup, beginning.index+1))
		}, "its first entry is 7"},
		{"another took its place", func(p *peer, applied uint64, b *ashlar.Batch) error {
			e := &raftpb.Entry{Term: new(uint64(5))}
			return b.Put(p.node.family, logKey(testGroup, applied), appendEntryValue(nil, e))
		}, "but the log has it of term 5"},
		{"it is none", func(p *peer, applied uint64, b *ashlar.Batch) error {
			return b.Put(p.node.family, logKey(testGroup, applied), []byte("x"))
		}, "is not one"},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t, 1)
				cl.do(cl.elect(1), "add k")
				p := cl.peers[1]
				at := p.group.Status().Apply.Applied
				require.NoError(t, p.group.Close(t.Context()))
				var b ashlar.Batch
				require.NoError(t, c.harm(p, at, &b))
				require.NoError(t, p.db.Write(&b, nil))
				_, err := p.node.StartGroup(p.config())
				require.ErrorIs(t, err, ErrCorruption)
				require.ErrorContains(t, err, c.says)

				// Thrown away, its name is free for another replica.
				require.NoError(t, p.node.Wipe(testGroup, p.sm.spans()))
				require.Empty(t, p.data())
				p.id = 2
				g, err := p.node.StartGroup(p.config(2))
				require.NoError(t, err)
				require.NoError(t, g.Campaign())
				cl.settle()
				require.Equal(t, uint64(1), cl.do(g, "add k").Value)
			})
		})
	}
}

func TestABrokenStateMachineStopsItsReplicaOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		g := c.elect(1)
		a := c.propose(g, "break")
		// The followers get the entry, and the leader their answers; that it is committed they do not hear.
		for _, p := range c.net.take() {
			require.NoError(t, c.peers[p.m.GetTo()].node.Step(p.group, p.m))
		}
		synctest.Wait()
		for _, p := range c.net.take() {
			require.NoError(t, c.peers[1].node.Step(p.group, p.m))
		}
		synctest.Wait()
		ended, _, err := a.get()
		require.True(t, ended)
		require.ErrorIs(t, err, raftapply.ErrPoisoned)
		<-g.Done()
		require.ErrorIs(t, g.Err(), raftapply.ErrPoisoned)
		require.ErrorIs(t, g.Err(), ErrStopped)
		_, err = g.Propose(t.Context(), []byte("add k"))
		require.ErrorIs(t, err, ErrStopped)
		require.NoError(t, c.peers[2].group.Err())
	})
}

func TestAFailedWriteStopsEveryGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		p := c.peers[1]
		g := c.elect(1)
		c.do(g, "add k")
		require.NoError(t, p.db.Close()) // from now on every write fails
		_, err := g.Propose(t.Context(), []byte("add k"))
		require.ErrorIs(t, err, ErrStopped)
		<-g.Done()
		require.ErrorIs(t, g.Err(), ashlar.ErrClosed)
		_, err = p.node.StartGroup(p.config())
		require.ErrorIs(t, err, ErrStopped)
		p.wire.cut()
		require.NoError(t, p.node.Close(t.Context()))
		p.node, p.group = nil, nil
	})
}

// While one sync takes its time, what other groups append waits, and then shares the next.
func TestAppendsOfManyGroupsShareASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		p := c.peers[1]
		groups := []*Group{c.elect(1)}
		for i := range 8 {
			config := p.config(1)
			config.Group = testGroup + 1 + raftapply.RegionID(i)
			sm := &counterMachine{db: p.db, group: config.Group}
			config.StateMachine, config.Data = sm, sm.spans()
			g, err := p.node.StartGroup(config)
			require.NoError(t, err)
			require.NoError(t, g.Campaign())
			groups = append(groups, g)
		}
		c.settle()
		held, release := make(chan struct{}, 1), make(chan struct{})
		p.watch(func(vfs.Op) {
			select {
			case held <- struct{}{}:
				<-release
			default:
			}
		})
		answers := []*answer{c.propose(groups[0], "add k")}
		<-held
		for _, g := range groups[1:] {
			answers = append(answers, c.propose(g, "add k"))
		}
		close(release)
		synctest.Wait()
		for _, a := range answers {
			ended, r, err := a.get()
			require.True(t, ended)
			require.NoError(t, err)
			require.Equal(t, uint64(1), r.Value)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		require.Equal(t, 2, p.syncs)
	})
}

// raftapply may be told to take less than raft hands over; what it refuses is sent again.
func TestWhatRaftapplyRefusesIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		p := c.peers[1]
		g := c.elect(1)
		p.sm.hold = make(chan struct{})
		require.NoError(t, p.node.System().Update(func(c *raftapply.Config) { c.MaxPendingBytes = 1 }))
		answers := []*answer{c.propose(g, "wait")}
		for range 5 {
			answers = append(answers, c.propose(g, "add k"))
		}
		synctest.Wait()
		close(p.sm.hold)
		c.tick(1)
		for i, a := range answers {
			ended, _, err := a.get()
			require.True(t, ended, "proposal %d", i)
			require.NoError(t, err)
		}
		n, err := p.sm.count("k")
		require.NoError(t, err)
		require.Equal(t, uint64(5), n)
	})
}

func TestTheLogIsCutAndLivesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, func(c *cluster) { c.raft.LogEntries = 10 })
		g := c.elect(1)
		for range 50 {
			c.do(g, "add k")
		}
		c.tick(20)
		for id, p := range c.peers {
			s := p.group.Status()
			require.Greater(t, s.FirstIndex, beginning.index+1, "replica %d", id)
			require.LessOrEqual(t, s.FirstIndex-1, s.Apply.Applied, "replica %d", id)
			it := p.node.family.Range(logKey(testGroup, 0), logKey(testGroup, s.FirstIndex), nil)
			require.False(t, it.SeekToFirst(), "an entry before the first one is left")
			require.NoError(t, it.Close())
			p.crash(nil)
			p.restart()
			require.Equal(t, s.LastIndex, p.group.Status().LastIndex)
		}
		c.do(c.leader().group, "add k")
		c.tick(3)
		c.requireEqual(1, 2, 3)
	})
}

// What a live follower lacks is kept, at whatever tick after the election the log is looked at: raft counts the living at
// some of them, and then knows of none.
func TestTheLogIsKeptForALiveFollowerAtEveryTick(t *testing.T) {
	for ticks := range 10 {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 3, func(c *cluster) { c.raft.LogEntries = 10 })
			c.settle()
			c.tick(ticks)
			g := c.elect(1)
			c.net.lose = func(p packet) bool { return p.m.GetTo() == 3 && p.m.GetType() == raftpb.MsgApp }
			last := c.peers[3].group.Status().LastIndex
			for range 30 {
				c.do(g, "add k")
			}
			c.tick(20)
			require.LessOrEqual(t, g.Status().FirstIndex, last+1, "elected at tick %d", ticks)
			c.heal()
			c.tick(20)
			require.Zero(t, c.net.snaps)
			c.requireEqual(1, 2, 3)
		})
	}
}

func TestWhatIsNotAppliedIsNotCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		p := c.peers[1]
		g := c.elect(1)
		c.do(g, "add k")
		p.sm.hold = make(chan struct{})
		answers := []*answer{c.propose(g, "wait"), c.propose(g, "add k"), c.propose(g, "add k")}
		require.NoError(t, g.Truncate(t.Context(), 1<<40))
		s := g.Status()
		require.Equal(t, s.Apply.Applied+1, s.FirstIndex)
		require.Less(t, s.Applied, s.LastIndex)
		close(p.sm.hold)
		synctest.Wait()
		for _, a := range answers {
			requireError(t, a, nil)
		}
		require.NoError(t, g.Truncate(t.Context(), 1<<40))
		require.Equal(t, s.LastIndex+1, g.Status().FirstIndex)
	})
}

// A crash at any byte may lose a cut of the log, but never what was applied before it and not the cut.
func TestACutOfTheLogNeverOutlivesWhatWasApplied(t *testing.T) {
	kept, lost := 0, 0
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 1)
			g := c.elect(1)
			for range 5 {
				c.do(g, "add k")
			}
			s := g.Status()
			require.NoError(t, g.Truncate(t.Context(), s.Apply.Applied))
			c.propose(g, "add k")
			p := c.peers[1]
			p.crash(rand.New(rand.NewPCG(seed, 3)))
			p.restart() // refused if the data is behind the beginning of the log
			if p.group.Status().FirstIndex == s.Apply.Applied+1 {
				kept++
			} else {
				lost++
			}
			g = c.elect(1)
			require.GreaterOrEqual(t, c.do(g, "add k").Value, uint64(6))
		})
	}
	require.Positive(t, kept)
	t.Logf("the cut was kept %d times and lost %d times", kept, lost)
}

func TestNobodyCallsAClosedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		p := c.peers[1]
		g := c.elect(1)
		p.sm.hold = make(chan struct{})
		a := c.propose(g, "wait")
		ended := make(chan error)
		go func() { ended <- p.node.Close(context.Background()) }()
		synctest.Wait()
		close(p.sm.hold)
		require.NoError(t, <-ended)
		synctest.Wait()
		done, _, err := a.get()
		require.True(t, done)
		if err != nil {
			require.ErrorIs(t, err, ErrStopped)
		}
		_, err = g.ReadIndex(t.Context())
		require.ErrorIs(t, err, ErrStopped)
		require.ErrorIs(t, g.Campaign(), ErrStopped)
		require.ErrorIs(t, g.WaitApplied(t.Context(), 1), ErrStopped)
		require.ErrorIs(t, g.Truncate(t.Context(), 1), ErrStopped)
		require.ErrorIs(t, p.node.Step(testGroup, new(raftpb.Message)), ErrNoGroup)
		require.Equal(t, uint64(1), g.Status().ID)
		_, err = p.node.StartGroup(p.config())
		require.ErrorIs(t, err, ErrStopped)
		require.NoError(t, p.node.Close(t.Context()))
		p.wire.cut()
	})
}
