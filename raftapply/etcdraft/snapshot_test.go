package etcdraft

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
	"github.com/ashlardb/ashlar/vfs"
)

// lag makes replica 3 fall behind so far that it needs a snapshot of several chunks.
func (c *cluster) lag() *Group {
	g := c.elect(1)
	c.do(g, "add k")
	c.do(g, "put old was here")
	c.tick(1)
	c.isolate(3)
	value := strings.Repeat("v", 100<<10)
	for i := range 10 {
		c.do(g, "put big%d %s", i, value)
	}
	c.do(g, "put old is new")
	for range 5 {
		c.do(g, "add k")
	}
	require.NoError(c.t, g.Truncate(c.t.Context(), g.Status().Applied))
	return g
}

func TestAReplicaThatIsFarBehindGetsASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var restored []raftapply.ApplyState
		c := newCluster(t, 3, func(c *cluster) {
			c.hook = func(p *peer, config *GroupConfig) {
				config.OnRestore = func(s raftapply.ApplyState) error {
					restored = append(restored, s)
					return nil
				}
			}
		})
		chunks := 0
		c.net.onChunk = func(uint64, int) error { chunks++; return nil }
		g := c.lag()
		c.heal()
		c.tick(5)
		require.Equal(t, 1, c.net.snaps)
		require.Greater(t, chunks, 3)
		require.Len(t, restored, 1)
		c.requireEqual(1, 2, 3)
		s := c.peers[3].group.Status()
		require.Equal(t, restored[0].Applied+1, s.FirstIndex)
		require.False(t, s.Restoring)
		c.do(g, "add k")
		c.tick(1)
		c.requireEqual(1, 2, 3)
		c.requireNoStage(3)
		for id := range c.peers {
			require.Zero(t, snapshotsOf(t, c.peers[id].db), "replica %d holds a snapshot", id)
		}
	})
}

// snapshotsOf counts the engine's snapshots.
func snapshotsOf(t *testing.T, db *ashlar.DB) int {
	text, ok := db.Property("rocksdb.num-snapshots")
	require.True(t, ok)
	n := -1
	_, err := fmt.Sscan(text, &n)
	require.NoError(t, err)
	return n
}

func (c *cluster) requireNoStage(id uint64) {
	p := c.peers[id]
	it := p.node.family.Range(groupKey(testGroup, stageSuffix), groupKey(testGroup, endSuffix), nil)
	require.False(c.t, it.SeekToFirst(), "chunks are left")
	require.NoError(c.t, it.Close())
	_, found, err := get(p.node.family, groupKey(testGroup, installSuffix), nil)
	require.NoError(c.t, err)
	require.False(c.t, found, "the marker is left")
}

func TestANewReplicaJoinsThroughASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		g := c.elect(1)
		for range 5 {
			c.do(g, "add k")
		}
		c.add(4).start()
		a := c.change(g, addNode(4))
		c.tick(5)
		requireError(t, a, nil)
		require.Equal(t, 1, c.net.snaps)
		c.requireEqual(1, 2, 3, 4)
		require.Equal(t, []uint64{1, 2, 3, 4}, c.peers[4].stored().Voters)
		p := c.peers[4]
		p.crash(nil)
		p.restart()
		c.elect(4)
		c.do(p.group, "add k")
		c.tick(1)
		c.requireEqual(1, 2, 3, 4)
	})
}

// The power is cut at every sync, and after every chunk, of a snapshot that comes in: with nothing left that was not
// synced, with a part of it, and with all (as if only the process ended).
func TestASnapshotThatIsCutShortIsMadeGood(t *testing.T) {
	redone := 0
	for try, left := range []string{"nothing", "all", "a part", "a part", "a part", "a part"} {
		for at := 1; ; at++ {
			fired := false
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3)
				c.lag()
				p := c.peers[3]
				die := func() {
					switch left {
					case "nothing":
						p.die(nil)
					case "a part":
						p.die(rand.New(rand.NewPCG(uint64(at), uint64(try))))
					default:
						p.kill()
					}
				}
				var mu sync.Mutex
				events := 0
				event := func() {
					mu.Lock()
					events++
					now := events == at
					mu.Unlock()
					if now {
						die()
					}
				}
				c.net.onChunk = func(to uint64, _ int) error {
					event()
					if p.died() {
						return errors.New("the machine is gone")
					}
					return nil
				}
				p.watch(func(vfs.Op) { event() })
				c.heal()
				c.tick(3)
				if fired = p.died(); !fired {
					c.tick(3)
					c.requireEqual(1, 2, 3)
					return
				}
				c.net.onChunk = nil
				p.crash(nil)
				p.open()
				if _, found, err := get(p.node.family, groupKey(testGroup, installSuffix), nil); err == nil && found {
					redone++
				}
				var err error
				p.group, err = p.node.StartGroup(p.config())
				require.NoError(t, err)
				c.requireNoStage(3)
				c.do(c.leader().group, "add k")
				c.tick(25)
				c.requireEqual(1, 2, 3)
			})
			if !fired {
				require.Greater(t, at, 6, "few crashes were tried")
				break
			}
		}
	}
	require.Greater(t, redone, 2, "no crash came in the middle of an install")
}

// A change of members is being applied when a snapshot comes with later members: raft has those at once, and must not be
// told of the earlier change any more.
func TestASnapshotOvertakesAChangeOfMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		p := c.peers[3]
		p.sm.hold = make(chan struct{})
		g := c.elect(1)
		cc := addLearner(9)
		cc.Context = []byte("wait")
		requireError(t, c.settled(c.change(g, cc)), nil)
		c.isolate(3)
		requireError(t, c.settled(c.change(g, addLearner(10))), nil)
		require.NoError(t, g.Truncate(t.Context(), g.Status().Applied))
		c.heal()
		c.tick(3)
		require.Equal(t, []uint64{9, 10}, p.group.Status().ConfState.Learners)
		close(p.sm.hold)
		c.tick(3)
		require.NoError(t, p.group.Err())
		c.requireEqual(1, 2, 3)
	})
}

// A snapshot jumps over an entry that raft has handed over and that was not applied: raft must hear of it all the same, or
// it takes the room for entries to be applied as used up, for ever.
func TestASnapshotGivesBackTheRoomOfWhatItJumpsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, func(c *cluster) {
			c.raft.MaxCommittedSizePerReady = 1 // one entry at a time
			config := raftapply.DefaultConfig()
			config.ApplyPoolSize, config.ApplyLowPriorityPoolSize = 1, 0
			c.apply = &config
		})
		g := c.elect(1)
		c.do(g, "add k")
		c.tick(1)
		// Another group has the only worker of machine 3.
		p := c.peers[3]
		other := p.config(3)
		sm := &counterMachine{db: p.db, group: testGroup + 1, hold: make(chan struct{})}
		other.Group, other.StateMachine, other.Data = sm.group, sm, sm.spans()
		p.sm = &counterMachine{db: p.db, group: testGroup}
		busy, err := p.node.StartGroup(other)
		require.NoError(t, err)
		require.NoError(t, busy.Campaign())
		c.settle()
		c.propose(busy, "wait")

		c.do(g, "add k")
		c.tick(1)
		require.Equal(t, uint64(1), p.group.Status().Lag.Entries)
		c.isolate(3)
		c.do(g, "add k")
		require.NoError(t, g.Truncate(t.Context(), g.Status().Applied))
		c.heal()
		c.tick(3)
		close(sm.hold)
		c.tick(3)
		require.Equal(t, 1, c.net.snaps)
		c.do(g, "add k")
		c.tick(3)
		c.requireEqual(1, 2, 3)
	})
}

func TestASnapshotThatIsLostOnTheWayIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.lag()
		failed := 0
		c.net.onChunk = func(_ uint64, n int) error {
			if n == 2 && failed < 2 {
				failed++
				return errors.New("the line is down")
			}
			return nil
		}
		c.heal()
		c.tick(20)
		require.Equal(t, 2, failed)
		require.Equal(t, 1, c.net.snaps)
		c.requireEqual(1, 2, 3)
		require.Zero(t, snapshotsOf(t, c.peers[1].db))
	})
}

// The log that follows a snapshot is kept while the snapshot is installed, however long that takes.
func TestTheLogBehindASnapshotIsKeptUntilItIsInstalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		c := newCluster(t, 3, func(c *cluster) {
			c.raft.LogEntries = 10
			c.hook = func(p *peer, config *GroupConfig) {
				config.OnRestore = func(raftapply.ApplyState) error {
					<-goOn
					return nil
				}
			}
		})
		g := c.elect(1)
		c.isolate(3)
		for range 60 {
			c.do(g, "add k")
		}
		c.tick(10)
		require.Greater(t, g.Status().FirstIndex, c.peers[3].group.Status().LastIndex+1)
		c.heal()
		c.tick(3)
		require.True(t, c.peers[3].group.Status().Restoring)
		for _, entries := range []int{12, 22} { // heartbeats carry what follows the snapshot, as long as the log has it
			for range entries {
				c.do(g, "add k")
			}
			c.tick(10)
		}
		close(goOn)
		c.tick(20)
		require.Equal(t, 1, c.net.snaps, "snapshots that were sent")
		c.requireEqual(1, 2, 3)
	})
}

func TestReadsAreRefusedWhileTheDataIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		installing, goOn := make(chan struct{}), make(chan struct{})
		c := newCluster(t, 3, func(c *cluster) {
			c.hook = func(p *peer, config *GroupConfig) {
				config.OnRestore = func(raftapply.ApplyState) error {
					close(installing)
					<-goOn
					return nil
				}
			}
		})
		g := c.lag()
		last := g.Status().Applied
		c.heal()
		c.tick(2)
		<-installing
		p := c.peers[3]
		require.True(t, p.group.Status().Restoring)
		fn := func() error { t.Error("read in the middle of an install"); return nil }
		require.ErrorIs(t, p.group.Read(t.Context(), 0, fn), ErrRestoring)
		require.ErrorIs(t, p.group.Read(t.Context(), last, fn), ErrRestoring)
		close(goOn)
		c.tick(2)
		require.NoError(t, p.group.Read(t.Context(), last, func() error { return nil }))
		c.requireEqual(1, 2, 3)
	})
}

func TestASnapshotThatRaftDoesNotWantLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		g := c.elect(1)
		c.do(g, "add k")
		c.tick(1)
		made, err := g.takeSnapshot()
		require.NoError(t, err)
		defer made.data.Release()
		_, term := g.Leader()
		m := &raftpb.Message{Type: raftpb.MsgSnap.Enum(), From: new(uint64(1)), To: new(uint64(2)), Term: &term,
			Snapshot: &raftpb.Snapshot{Metadata: made.meta}}
		p := c.peers[2]
		before := p.data()
		for range 2 { // the second finds the place free
			require.NoError(t, p.node.ReceiveSnapshot(t.Context(), testGroup, m, dataChunks(g.spans, made.data.Snapshot)))
			c.settle()
		}
		c.requireNoStage(2)
		require.Equal(t, before, p.data())
		c.do(g, "add k")
		c.tick(1)
		c.requireEqual(1, 2, 3)
	})
}

func TestASnapshotWhoseChunksAreNotRightIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		p := c.peers[1]
		spans := p.sm.spans()
		m := &raftpb.Message{Type: raftpb.MsgSnap.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(uint64(9)),
			Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: new(uint64(50)), Term: new(uint64(9)),
				ConfState: &raftpb.ConfState{Voters: []uint64{1, 2}}}}}
		record := func(key []byte) []byte { return appendRecord(nil, 0, key, []byte("v")) }
		whole := func(number uint64, last bool, records ...byte) []byte {
			return sealChunk(append(appendChunkHead(nil, number), records...), last)
		}
		good := record(p.sm.key("a"))
		broken := whole(0, true, good...)
		broken[len(broken)-6] ^= 1
		for _, bad := range []struct {
			what   string
			chunks [][]byte
			want   error
		}{
			{"none", nil, ErrCorruption},
			{"no last one", [][]byte{whole(0, false, good...)}, ErrCorruption},
			{"one is missing", [][]byte{whole(0, false, good...), whole(2, true, good...)}, ErrCorruption},
			{"one comes twice", [][]byte{whole(0, false, good...), whole(0, true, good...)}, ErrCorruption},
			{"one behind the last", [][]byte{whole(0, true, good...), whole(1, true, good...)}, ErrCorruption},
			{"a bit is wrong", [][]byte{broken}, ErrCorruption},
			{"a key of another group", [][]byte{whole(0, true, record([]byte("zzz"))...)}, ErrCorruption},
			{"a span that is not", [][]byte{whole(0, true, appendRecord(nil, len(spans), p.sm.key("a"), nil)...)}, ErrCorruption},
			{"half a record", [][]byte{whole(0, true, good[:len(good)-1]...)}, ErrCorruption},
		} {
			err := p.node.ReceiveSnapshot(t.Context(), testGroup, m, func(yield func([]byte, error) bool) {
				for _, p := range bad.chunks {
					if !yield(p, nil) {
						return
					}
				}
			})
			require.ErrorIs(t, err, bad.want, bad.what)
		}
		require.NoError(t, p.group.Err())
		require.Empty(t, p.data())
	})
}

func TestMessagesThatNoPeerSendsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		p := c.peers[1]
		message := func(kind raftpb.MessageType, change func(*raftpb.Message)) *raftpb.Message {
			m := &raftpb.Message{Type: kind.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(uint64(9))}
			if change != nil {
				change(m)
			}
			return m
		}
		for what, m := range map[string]*raftpb.Message{
			"none":                  nil,
			"to another":            message(raftpb.MsgHeartbeat, func(m *raftpb.Message) { m.To = new(uint64(3)) }),
			"from nobody":           message(raftpb.MsgHeartbeat, func(m *raftpb.Message) { m.From = nil }),
			"from itself":           message(raftpb.MsgHeartbeat, func(m *raftpb.Message) { m.From = new(uint64(1)) }),
			"from a local thread":   message(raftpb.MsgStorageAppendResp, func(m *raftpb.Message) { m.From = new(^uint64(0)) }),
			"local":                 message(raftpb.MsgHup, nil),
			"a proposal":            message(raftpb.MsgProp, nil),
			"a snapshot":            message(raftpb.MsgSnap, nil),
			"a read of nothing":     message(raftpb.MsgReadIndex, nil),
			"entries with a gap":    message(raftpb.MsgApp, func(m *raftpb.Message) { m.Entries = []*raftpb.Entry{{Index: new(uint64(3)), Term: new(uint64(9))}} }),
			"entries of the future": message(raftpb.MsgApp, func(m *raftpb.Message) { m.Entries = []*raftpb.Entry{{Index: new(uint64(1)), Term: new(uint64(10))}} }),
		} {
			require.ErrorIs(t, p.node.Step(testGroup, m), ErrBadMessage, what)
		}
		require.ErrorIs(t, p.node.Step(testGroup+1, message(raftpb.MsgHeartbeat, nil)), ErrNoGroup)
		synctest.Wait()
		require.NoError(t, p.group.Err())

		// What contradicts the log stops the replica, and nothing else.
		require.NoError(t, p.node.Step(testGroup, message(raftpb.MsgHeartbeat, func(m *raftpb.Message) { m.Commit = new(uint64(99)) })))
		<-p.group.Done()
		require.ErrorContains(t, p.group.Err(), "out of range")
	})
}
