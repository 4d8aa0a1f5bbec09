package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/stretchr/testify/require"
)

// lab applies commands as raftapply would, with the batch written when the machine asks for it and when the test wants.
type lab struct {
	t     *testing.T
	db    *ashlar.DB
	f     Families
	m     *Machine
	batch *ashlar.Batch
	index uint64
}

func newLab(t *testing.T) *lab {
	db, err := ashlar.Open("db", &ashlar.Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	l := &lab{t: t, db: db, batch: db.NewBatch(), index: 5}
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	l.f.Default = db.DefaultColumnFamily()
	for name, at := range map[string]**ashlar.ColumnFamily{"lock": &l.f.Lock, "write": &l.f.Write, "raft": &l.f.Raft} {
		*at, err = db.CreateColumnFamily(name, nil)
		require.NoError(t, err)
	}
	l.reopen()
	return l
}

// reopen is what a restart does.
func (l *lab) reopen() {
	l.write()
	l.m = NewMachine(l.f, 7)
}

func (l *lab) write() {
	require.NoError(l.t, l.db.Write(l.batch, nil))
	l.batch.Clear()
}

func (l *lab) apply(c Command) Outcome {
	l.index++
	e := raftapply.Entry{Index: l.index, Term: 1, Data: c.AppendTo(nil)}
	if l.m.Hint(e)&raftapply.FlushBefore != 0 {
		l.write()
	}
	r, err := l.m.Apply(l.batch, e)
	require.NoError(l.t, err)
	require.NoError(l.t, r.Err)
	return r.Value.(Outcome)
}

// get is what a reader sees once the batch is written; "-" if there is no such key.
func (l *lab) get(key string) string {
	l.write()
	v, err := Get(l.f, 7, []byte(key), nil)
	if errors.Is(err, ashlar.ErrNotFound) {
		return "-"
	}
	require.NoError(l.t, err)
	return string(v)
}

func put(key, value string) Op { return Op{Key: []byte(key), Value: []byte(value)} }
func del(key string) Op        { return Op{Key: []byte(key), Delete: true} }
func keys(names ...string) (ops []Op) {
	for _, k := range names {
		ops = append(ops, Op{Key: []byte(k)})
	}
	return ops
}

func TestBulkInsertIsSeenAtItsCommit(t *testing.T) {
	l := newLab(t)
	require.Equal(t, Done, l.apply(Command{Kind: Write, Ops: []Op{put("a", "old")}}).Status)
	pre := l.apply(Command{Kind: Prewrite, Ops: []Op{put("a", "1"), put("b", "2")}})
	require.Equal(t, Outcome{Done, l.index}, pre)
	require.Equal(t, "old -", l.get("a")+" "+l.get("b"))
	require.Equal(t, Outcome{Locked, pre.Start}, l.apply(Command{Kind: Write, Ops: []Op{put("c", "x"), put("b", "x")}}))
	require.Equal(t, "-", l.get("c"), "a refused command does nothing")
	require.Equal(t, NotLocked, l.apply(Command{Kind: Commit, Start: pre.Start + 1, Ops: keys("a", "b")}).Status)
	for range 2 { // the second time it changes nothing
		require.Equal(t, Done, l.apply(Command{Kind: Commit, Start: pre.Start, Ops: keys("a", "b")}).Status)
		require.Equal(t, "1 2", l.get("a")+" "+l.get("b"))
	}
	require.Equal(t, NotLocked, l.apply(Command{Kind: Rollback, Start: pre.Start, Ops: keys("a")}).Status)
}

func TestBulkInsertThatIsRolledBackLeavesNothing(t *testing.T) {
	l := newLab(t)
	before := l.hash()
	pre := l.apply(Command{Kind: Prewrite, Ops: []Op{put("a", "1"), put("b", "2")}})
	require.NotEqual(t, before, l.hash())
	for range 2 {
		require.Equal(t, Done, l.apply(Command{Kind: Rollback, Start: pre.Start, Ops: keys("a", "b")}).Status)
		require.Equal(t, before, l.hash())
	}
	require.Equal(t, NotLocked, l.apply(Command{Kind: Commit, Start: pre.Start, Ops: keys("a")}).Status)
}

func (l *lab) hash() uint64 {
	l.write()
	s := l.db.NewSnapshot()
	defer s.Release()
	h, err := Hash(l.f, 7, s)
	require.NoError(l.t, err)
	return h
}

func TestCommandSentTwiceIsDoneOnce(t *testing.T) {
	l := newLab(t)
	cas := func(seq uint64, old, value string) Command {
		return Command{Kind: CAS, Client: 9, Seq: seq, Old: []byte(old), Ops: []Op{put("a", value)}}
	}
	l.apply(Command{Kind: Write, Client: 9, Seq: 1, Ops: []Op{put("a", "0")}})
	for range 3 {
		require.Equal(t, Done, l.apply(cas(2, "0", "1")).Status, "the first outcome, whatever the key is now")
		l.reopen()
	}
	require.Equal(t, Mismatch, l.apply(cas(3, "0", "2")).Status)
	l.apply(Command{Kind: Write, Ops: []Op{put("a", "0")}})
	require.Equal(t, Mismatch, l.apply(cas(3, "0", "2")).Status, "also that it failed")
	require.Equal(t, StaleSeq, l.apply(cas(2, "0", "3")).Status)
	require.Equal(t, "0", l.get("a"))
}

func TestSessionsOfClientsLongGoneAreForgotten(t *testing.T) {
	l := newLab(t)
	write := func(client, seq uint64) {
		l.apply(Command{Kind: Write, Client: client, Seq: seq, Ops: []Op{put("a", "x")}})
	}
	l.m.maxSessions = 3
	for client := range uint64(3) {
		write(client+1, 1)
	}
	write(1, 2)
	l.reopen() // the order by last use comes from the database
	l.m.maxSessions = 3
	write(4, 1)
	var left []uint64
	for client := range l.m.sessions {
		left = append(left, client)
	}
	require.ElementsMatch(t, []uint64{1, 3, 4}, left, "2 was the longest without a command")
	l.write()
	require.Equal(t, 3, l.count(l.f.Raft))
}

// version is a value and the index of the entry that brought it.
type version struct {
	value string
	start uint64
}

// model is the machine over maps.
type model struct{ seen, locks map[string]version }

func (m model) apply(index uint64, c Command) Outcome {
	for _, op := range c.Ops {
		seen, lock := m.seen[string(op.Key)], m.locks[string(op.Key)]
		switch c.Kind {
		case Commit:
			if c.Start != seen.start && c.Start != lock.start {
				return Outcome{Status: NotLocked}
			}
		case Rollback:
			if c.Start == seen.start || lock.start != 0 && c.Start != lock.start {
				return Outcome{Status: NotLocked}
			}
		default:
			if lock.start != 0 {
				return Outcome{Locked, lock.start}
			}
		}
		if c.Kind == CAS && (c.Old == nil) != (seen.start == 0) || c.Kind == CAS && string(c.Old) != seen.value {
			return Outcome{Status: Mismatch}
		}
	}
	out := Outcome{Status: Done}
	for _, op := range c.Ops {
		key := string(op.Key)
		switch {
		case c.Kind == Prewrite:
			m.locks[key] = version{string(op.Value), index}
			out.Start = index
		case c.Kind == Commit && m.seen[key].start != c.Start:
			m.seen[key] = m.locks[key]
			delete(m.locks, key)
		case c.Kind == Rollback:
			delete(m.locks, key)
		case c.Kind < Prewrite && op.Delete:
			delete(m.seen, key)
		case c.Kind < Prewrite:
			m.seen[key] = version{string(op.Value), index}
		}
	}
	return out
}

// TestMachineAgreesWithMap runs random commands against maps, with the batch written and the machine reopened at random,
// and counts what the families hold: no value and no lock may be left behind.
func TestMachineAgreesWithMap(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			l, want, met := newLab(t), model{map[string]version{}, map[string]version{}}, map[Status]int{}
			key := func() []byte { return fmt.Append(nil, "k", rng.IntN(6)) }
			for range 500 {
				c := randomCommand(rng, key, want)
				got := l.apply(c)
				require.Equal(t, want.apply(l.index, c), got, "%+v", c)
				met[got.Status]++
				switch rng.IntN(10) {
				case 0:
					l.reopen()
				case 1:
					l.write()
				}
			}
			for i := range 6 {
				v, ok := want.seen[fmt.Sprint("k", i)]
				if !ok {
					v.value = "-"
				}
				require.Equal(t, v.value, l.get(fmt.Sprint("k", i)))
			}
			require.Equal(t, len(want.seen)+len(want.locks), l.count(l.f.Default))
			require.Equal(t, len(want.seen), l.count(l.f.Write))
			require.Equal(t, len(want.locks), l.count(l.f.Lock))
			for s := Done; s < StaleSeq; s++ {
				require.Positive(t, met[s], "%v never happened", s)
			}
		})
	}
}

func randomCommand(rng *rand.Rand, key func() []byte, now model) Command {
	c := Command{Kind: Kind(1 + rng.IntN(5))}
	if c.Kind == CAS {
		c.Ops = []Op{{Key: key(), Value: fmt.Append(nil, "v", rng.IntN(3)), Delete: rng.IntN(4) == 0}}
		if v, ok := now.seen[string(c.Ops[0].Key)]; ok && rng.IntN(4) > 0 {
			c.Old = []byte(v.value)
		}
		return c
	}
	for range 1 + rng.IntN(3) {
		c.Ops = append(c.Ops, Op{Key: key(), Value: fmt.Append(nil, "v", rng.IntN(3)), Delete: c.Kind == Write && rng.IntN(4) == 0})
	}
	if c.Kind >= Commit {
		c.Start = 6 + rng.Uint64N(500)
		for _, locked := range slices.Sorted(maps.Keys(now.locks)) {
			if lock := now.locks[locked]; rng.IntN(2) == 0 {
				c.Start, c.Ops = lock.start, keys(locked)
			}
		}
	}
	return c
}

func (l *lab) count(cf *ashlar.ColumnFamily) int {
	it := cf.NewIterator(nil)
	defer it.Close()
	n := 0
	for range it.All() {
		n++
	}
	require.NoError(l.t, it.Error())
	return n
}

func TestRegionsDoNotMeet(t *testing.T) {
	l := newLab(t)
	other := NewMachine(l.f, 8)
	before := l.hash()
	_, err := other.Apply(l.batch, raftapply.Entry{Index: 6, Data: (&Command{Kind: Write, Client: 1, Seq: 1, Ops: []Op{put("\xff\xff", "x")}}).AppendTo(nil)})
	require.NoError(t, err)
	require.Equal(t, before, l.hash())
	for i, span := range l.f.Spans(8) {
		require.GreaterOrEqual(t, bytes.Compare(span.Begin, l.f.Spans(7)[i].End), 0)
	}
}

// TestRecentIsEmptiedByAWriteThatTheMachineAsksFor holds the memory of a machine that is never reopened.
func TestRecentIsEmptiedByAWriteThatTheMachineAsksFor(t *testing.T) {
	l := newLab(t)
	long := bytes.Repeat([]byte("k"), recentMax/8)
	for i := range 20 {
		l.apply(Command{Kind: Write, Ops: []Op{{Key: fmt.Append(long, i)}}})
		require.LessOrEqual(t, l.m.recentBytes, recentMax+2*len(long))
	}
	for i := range 20 {
		l.apply(Command{Kind: Write, Ops: []Op{{Key: fmt.Append(long, i), Delete: true}}})
	}
	l.write()
	require.Zero(t, l.count(l.f.Default))
}

func TestDamageIsToldAndNotAnswered(t *testing.T) {
	l := newLab(t)
	l.apply(Command{Kind: Write, Client: 1, Seq: 1, Ops: []Op{put("a", "1")}})
	l.write()
	require.NoError(t, l.f.Default.Delete(valueKey(dataKey(7, []byte("a")), l.index), nil))
	_, err := Get(l.f, 7, []byte("a"), nil)
	require.ErrorIs(t, err, ashlar.ErrCorruption)
	require.NoError(t, l.f.Write.Put(dataKey(7, []byte("a")), []byte("short"), nil))
	_, err = Get(l.f, 7, []byte("a"), nil)
	require.ErrorIs(t, err, ashlar.ErrCorruption)
	require.NoError(t, l.f.Raft.Put(sessionKey(7, 1), []byte("short"), nil))
	again := NewMachine(l.f, 7)
	_, err = again.Apply(l.batch, raftapply.Entry{Index: 99, Data: []byte{9}})
	require.ErrorIs(t, err, ashlar.ErrCorruption)
	r, err := l.m.Apply(l.batch, raftapply.Entry{Index: 99, Data: []byte{9}})
	require.NoError(t, err, "every replica finds it")
	require.ErrorIs(t, r.Err, ErrCommand)
}

// FuzzCommand: what is read is written back as it was, and nothing panics.
func FuzzCommand(f *testing.F) {
	for _, c := range []Command{
		{Kind: Write, Ops: []Op{put("a", "1"), del("b")}},
		{Kind: CAS, Client: 1, Seq: 300, Old: []byte{}, Ops: []Op{del("a")}},
		{Kind: Prewrite, Ops: []Op{put("a", "")}},
		{Kind: Commit, Start: 1 << 40, Ops: keys("a", "b")},
	} {
		f.Add(c.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		c, err := DecodeCommand(p)
		if err != nil {
			require.ErrorIs(t, err, ErrCommand)
			return
		}
		again, err := DecodeCommand(c.AppendTo(nil))
		require.NoError(t, err)
		require.Equal(t, c, again)
	})
}

// FuzzSession: what is read is written back as it was, and nothing panics.
func FuzzSession(f *testing.F) {
	f.Add((&session{1, 2, 3, Outcome{Locked, 4}}).encode())
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, p []byte) {
		s, err := decodeSession(1, p)
		if err != nil {
			require.ErrorIs(t, err, ashlar.ErrCorruption)
			return
		}
		require.Equal(t, p, s.encode())
	})
}
