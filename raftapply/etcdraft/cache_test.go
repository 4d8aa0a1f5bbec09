package etcdraft

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
	"github.com/ashlardb/ashlar/vfs"
)

// logTwin is a log in a slice, which forgets nothing.
type logTwin struct {
	cut     uint64 // the entry before the first
	entries []*raftpb.Entry
}

func (l *logTwin) last() uint64 { return l.cut + uint64(len(l.entries)) }

// grow makes up entries from index on, and appends them.
func (l *logTwin) grow(rng *rand.Rand, index uint64, n, most int) []*raftpb.Entry {
	var added []*raftpb.Entry
	for i := range n {
		added = append(added, &raftpb.Entry{
			Index: new(index + uint64(i)), Term: new(rng.Uint64N(100)), Data: make([]byte, rng.IntN(most)),
		})
	}
	l.entries = append(l.entries[:index-l.cut-1], added...)
	return added
}

func (l *logTwin) shorten(to uint64) {
	l.entries = l.entries[to-l.cut:]
	l.cut = to
}

// between is how many bytes entries have in the database.
func (l *logTwin) between(from, to uint64) (n uint64) {
	for i := from + 1; i <= to; i++ {
		n += uint64(entryHead + len(l.entries[i-l.cut-1].GetData()))
	}
	return n
}

func TestTheCacheHoldsTheEndOfTheLogAndNothingElse(t *testing.T) {
	hits := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 7))
		twin, c := &logTwin{cut: rng.Uint64N(50)}, &entryCache{limit: 1000 + rng.Uint64N(4000)}
		for range 100 {
			switch k := rng.IntN(10); {
			case k < 7:
				index := twin.last() + 1
				if rng.IntN(4) == 0 {
					index = twin.cut + 1 + rng.Uint64N(index-twin.cut)
				}
				c.put(twin.grow(rng, index, 1+rng.IntN(5), 300))
			case k < 8 && twin.last() > twin.cut:
				twin.shorten(twin.cut + rng.Uint64N(twin.last()-twin.cut+1))
				c.cut(twin.cut)
			case k == 9 && rng.IntN(10) == 0: // a snapshot
				twin.cut, twin.entries = twin.last()+10, nil
				c.clear()
			}
			size := uint64(0)
			for _, e := range c.entries {
				size += roomOf(e)
			}
			require.Equal(t, size, c.size)
			require.LessOrEqual(t, size, c.limit)
			if n := len(twin.entries); n > 0 && len(c.entries) > 0 {
				require.Equal(t, twin.last(), c.first()+uint64(len(c.entries))-1, "it ends where the log does")
			}
			if twin.last() == twin.cut {
				require.Empty(t, c.entries)
				continue
			}
			lo := twin.cut + 1 + rng.Uint64N(twin.last()-twin.cut)
			hi := lo + 1 + rng.Uint64N(twin.last()-lo+1)
			most := rng.Uint64N(2000)
			if got, ok := c.get(lo, hi, most); ok {
				hits++
				want := twin.entries[lo-twin.cut-1 : hi-twin.cut-1]
				n, size := 0, uint64(0)
				for n < len(want) && (n == 0 || size+uint64(proto.Size(want[n])) <= most) {
					size += uint64(proto.Size(want[n]))
					n++
				}
				require.Equal(t, want[:n], got)
				term, ok := c.term(lo)
				require.True(t, ok)
				require.Equal(t, want[0].GetTerm(), term)
			}
		}
	}
	require.Greater(t, hits, 1000, "of 20,000")
}

func TestTheCacheHoldsAsMuchAsItMay(t *testing.T) {
	c := &entryCache{limit: 10 * (entryRoom + 100)}
	twin := &logTwin{}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 30 {
		for _, e := range twin.grow(rng, twin.last()+1, 1, 1) {
			e.Data = make([]byte, 100)
			c.put([]*raftpb.Entry{e})
		}
	}
	require.Equal(t, uint64(21), c.first())
	c.put([]*raftpb.Entry{{Index: new(uint64(31)), Data: make([]byte, c.limit)}})
	require.Empty(t, c.entries, "an entry that is larger than the cache")
}

func TestTheLengthOfPartsOfTheLogIsKnownToWithinSteps(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 8))
		const largest = 300
		twin, keep := &logTwin{cut: rng.Uint64N(50)}, 500+rng.Uint64N(10000)
		s := newLogSizes(keep)
		s.cut(twin.cut)
		allowed := s.step + largest // the error of one end of a part
		for range 100 {
			index := twin.last() + 1
			if rng.IntN(20) == 0 {
				index = twin.cut + 1 + rng.Uint64N(index-twin.cut)
				allowed += s.step + largest
			}
			s.truncate(index)
			for _, e := range twin.grow(rng, index, 1+rng.IntN(5), largest-entryHead) {
				s.add(e.GetIndex(), uint64(entryHead+len(e.GetData())))
			}
			if rng.IntN(10) == 0 {
				twin.shorten(twin.cut + rng.Uint64N(twin.last()-twin.cut+1))
				s.cut(twin.cut)
			}
			from := twin.cut + rng.Uint64N(twin.last()-twin.cut+1)
			to := from + rng.Uint64N(twin.last()-from+1)
			require.InDelta(t, twin.between(from, to), s.between(from, to), float64(2*allowed))
			at := s.before(twin.last(), keep)
			require.GreaterOrEqual(t, at, twin.cut)
			if at > twin.cut {
				require.GreaterOrEqual(t, twin.between(at, twin.last())+allowed, keep)
			}
			require.LessOrEqual(t, uint64(len(s.marks)), twin.between(twin.cut, twin.last())/s.step+1+allowed/s.step)
		}
	}
}

func TestTheLogIsCutByBytesToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, func(c *cluster) { c.raft.LogBytes = 4000 })
		g := c.elect(1)
		value := make([]byte, 100)
		length := func() uint64 {
			s := g.Status()
			n := uint64(0)
			it := c.peers[1].node.family.Range(logKey(testGroup, s.FirstIndex), logKey(testGroup, s.LastIndex+1), nil)
			for _, v := range it.All() {
				n += uint64(len(v))
			}
			require.NoError(t, it.Close())
			return n
		}
		for round := range 20 {
			if round%5 == 4 { // what is found at the start counts
				c.peers[1].crash(nil)
				c.peers[1].restart()
				g = c.elect(1)
			}
			for range 20 {
				c.do(g, "put k %s", value)
			}
			c.tick(10)
			require.Less(t, length(), uint64(2*4000+400), "round %d", round)
			if round > 4 {
				require.GreaterOrEqual(t, length(), uint64(4000), "round %d", round)
			}
		}
	})
}

func TestALogOfAnyLengthMayBeKept(t *testing.T) {
	c, err := Config{LogEntries: math.MaxUint64, LogBytes: math.MaxUint64}.withDefaults(raftapply.GiB)
	require.NoError(t, err)
	sizes := newLogSizes(c.LogBytes)
	sizes.add(1, 1<<40)
	require.Zero(t, cutRule(5, 1<<40, keepRule{c.LogEntries, c.LogBytes}, &sizes, nil))
}

// requireSameLog wants a log that is partly in memory to be what the database has.
func requireSameLog(t *testing.T, p *peer) {
	t.Helper()
	l := p.group.log
	plain, err := loadLog(l.family, l.group, &Config{NoLogCache: true, LogBytes: 1})
	require.NoError(t, err)
	cut, last := l.bounds()
	require.Equal(t, plain.cut, cut)
	require.Equal(t, plain.last, last)
	if cut == last {
		return
	}
	want, err := plain.Entries(cut.index+1, last.index+1, math.MaxUint64)
	require.NoError(t, err)
	for i, w := range want {
		for j := i + 1; j <= len(want); j++ {
			got, err := l.Entries(w.GetIndex(), want[j-1].GetIndex()+1, math.MaxUint64)
			require.NoError(t, err)
			require.Len(t, got, j-i)
			w, g := want[j-1], got[j-1-i]
			require.Equal(t, w.GetIndex(), g.GetIndex())
			require.Equal(t, appendEntryValue(nil, w), appendEntryValue(nil, g), "entry %d", w.GetIndex())
		}
		term, err := l.Term(w.GetIndex())
		require.NoError(t, err)
		require.Equal(t, w.GetTerm(), term)
	}
}

// BenchmarkEntries reads the last 64 entries of a log, as a leader does for a follower that is a little behind.
func BenchmarkEntries(b *testing.B) {
	for name, c := range map[string]*Config{"cached": {LogBytes: 64 << 20, LogCacheBytes: 1 << 20}, "uncached": {LogBytes: 64 << 20, NoLogCache: true}} {
		b.Run(name, func(b *testing.B) {
			l := benchLog(b, c)
			b.ReportAllocs()
			for b.Loop() {
				got, err := l.Entries(937, 1001, math.MaxUint64)
				if err != nil || len(got) != 64 {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}

// benchLog returns a log of 1000 entries with 256 bytes each.
func benchLog(b *testing.B, c *Config) *raftLog {
	db, err := ashlar.Open("db", testOptions(vfs.NewMem()))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	l, err := loadLog(db.DefaultColumnFamily(), testGroup, c)
	require.NoError(b, err)
	g := &Group{log: l}
	for i := range uint64(1000) {
		m := &raftpb.Message{Entries: []*raftpb.Entry{{Index: new(i + 1), Term: new(uint64(1)), Data: make([]byte, 256)}}}
		var batch ashlar.Batch
		_, last := l.bounds()
		_, err := stageAppend(&batch, appendJob{g: g, m: m}, last)
		require.NoError(b, err)
		require.NoError(b, db.Write(&batch, nil))
		l.grow(m.Entries)
	}
	return l
}

// BenchmarkPropose has 64 clients propose to a group of one replica, on a disk in memory.
func BenchmarkPropose(b *testing.B) {
	for name, off := range map[string]bool{"cached": false, "uncached": true} {
		b.Run(name, func(b *testing.B) {
			db, err := ashlar.Open("db", testOptions(vfs.NewMem()))
			require.NoError(b, err)
			_, err = db.CreateColumnFamily("raft", nil)
			require.NoError(b, err)
			n, err := Open(db, &Options{Transport: &wire{net: &network{}}, TickInterval: ManualTick, Logger: discard})
			require.NoError(b, err)
			sm := &counterMachine{db: db, group: testGroup}
			g, err := n.StartGroup(&GroupConfig{
				Group: testGroup, Replica: 1, Members: []uint64{1}, StateMachine: sm, Data: sm.spans(), Raft: Config{NoLogCache: off},
			})
			require.NoError(b, err)
			require.NoError(b, g.Campaign())
			data := append([]byte("put k "), make([]byte, 250)...)
			for g.Status().RaftState != raft.StateLeader {
			}
			b.ReportAllocs()
			b.SetParallelism(32)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := g.Propose(b.Context(), data); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			require.NoError(b, n.Close(b.Context()))
			require.NoError(b, db.Close())
		})
	}
}
