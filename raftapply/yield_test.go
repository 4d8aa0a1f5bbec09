package raftapply

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// putter is a state machine that puts an entry's Data under a key of 4 bytes.
type putter struct{ db *testEngine }

func (putter) Hint(Entry) Hint { return 0 }
func (p putter) Apply(w Writer, e Entry) (Result, error) {
	return Result{}, w.Put(p.db.DefaultColumnFamily(), fmt.Appendf(nil, "%04d", e.Index%10000), e.Data)
}

// repeat is n commands of one kind.
func repeat(n, ops int, key byte, size int) [][]byte {
	return slices.Repeat([][]byte{command(ops, key, size)}, n)
}

// TestYieldsOfThePublishedTest has the load of the test that came with TiKV's rule: 512 entries of a key of 4 bytes and a
// value of 124. The counts are exact: a batch is written before the entry that finds more than 256 keys in it.
func TestYieldsOfThePublishedTest(t *testing.T) {
	f := newFixture(t, newEngine(t), nil)
	_, err := f.Register(1, putter{f.db}, nil)
	require.NoError(t, err)
	f.next[1] = 1
	type step struct {
		applied, entries, keys uint64
		yielded                YieldReason
	}
	run := func() (steps []step, yields uint64) {
		before := f.Stats().Yields
		f.said = nil
		f.send(1, slices.Repeat([][]byte{make([]byte, 124)}, 512)...)
		f.run()
		for _, a := range f.said {
			require.InDelta(t, 128*a.Entries, a.Bytes, float64(16*a.Entries))
			steps = append(steps, step{a.State.Applied, a.Entries, a.Keys, a.Yielded})
		}
		after := f.Stats().Yields
		return steps, after[YieldBytes] - before[YieldBytes]
	}

	steps, yields := run()
	require.Equal(t, []step{{257, 257, 257, YieldBytes}, {512, 255, 255, NotYielded}}, steps, "at 32 KiB")
	require.EqualValues(t, 1, yields)

	require.NoError(t, f.Set("apply-yield-write-size", "64KiB"))
	steps, yields = run()
	require.Equal(t, []step{{1024, 512, 512, NotYielded}}, steps, "at 64 KiB")
	require.EqualValues(t, 0, yields)

	require.NoError(t, f.Set("apply-yield-write-size", "0"))
	steps, yields = run()
	require.Equal(t, []step{{1281, 257, 257, YieldBytes}, {1536, 255, 255, NotYielded}}, steps, "at 0: once a write")
	require.EqualValues(t, 1, yields)

	require.NoError(t, f.Set("apply-yield-write-size", "off"))
	steps, yields = run()
	require.Equal(t, []step{{2048, 512, 512, NotYielded}}, steps, "off")
	require.EqualValues(t, 0, yields)

	require.NoError(t, f.Set("apply-yield-write-size", "32KiB"))
	require.NoError(t, f.Set("no-yield-when-alone", "true"))
	steps, yields = run()
	require.Equal(t, []step{{2560, 512, 512, NotYielded}}, steps, "alone")
	require.EqualValues(t, 0, yields)
	flushes := f.Stats().Flushes
	require.EqualValues(t, 5, flushes[FlushKeys])
	require.EqualValues(t, 5, flushes[FlushEnd])
}

// TestAtZeroEveryWriteOfATurnYields: and no entry does in between.
func TestAtZeroEveryWriteOfATurnYields(t *testing.T) {
	f := newFixture(t, newEngine(t), func(c *Config) { c.ApplyYieldWriteSize = 0 })
	f.add(1)
	f.send(1, repeat(257*4, opAdd, 0, 0)...)
	f.run()
	require.EqualValues(t, 3, f.Stats().Yields[YieldBytes], "the last write ends the turn")
	require.EqualValues(t, 3, f.Stats().Flushes[FlushKeys])
}

func TestATurnEndsAfterItsTime(t *testing.T) {
	for _, one := range []struct {
		duration time.Duration
		yields   uint64
	}{{500 * time.Millisecond, 1}, {0, 0}} {
		f := newFixture(t, newEngine(t), func(c *Config) {
			c.ApplyYieldWriteSize = NoYield
			c.ApplyYieldDuration = one.duration
			c.SlowTurn = 300 * time.Millisecond
		})
		a := f.add(1)
		a.before = func(Entry) { f.clock = f.clock.Add(2 * time.Millisecond) }
		f.send(1, repeat(400, opAdd, 0, 0)...)
		f.run()
		require.Equal(t, one.yields, f.Stats().Yields[YieldDuration], "514 ms had gone by at the first write, %v are allowed", one.duration)
		require.Contains(t, f.log.String(), "slow turn")
		require.Contains(t, f.log.String(), "region=1")
		require.NotZero(t, f.Stats().SlowTurns)
	}
}

// TestTheTurnOfARegionThatWritesNothingEnds: refused entries fill no batch, and still count.
func TestTheTurnOfARegionThatWritesNothingEnds(t *testing.T) {
	f := newFixture(t, newEngine(t), func(c *Config) { c.ApplyYieldWriteSize = 0 })
	f.add(1)
	f.send(1, repeat(600, opRefuse, 0, 0)...)
	f.run()
	require.EqualValues(t, 2, f.Stats().Yields[YieldBytes])
	require.EqualValues(t, 600, f.stored(1).Applied)
}

// TestTheTurnOfARegionThatAlwaysAsksForAWriteEnds: its batches are never full.
func TestTheTurnOfARegionThatAlwaysAsksForAWriteEnds(t *testing.T) {
	f := newFixture(t, newEngine(t), func(c *Config) { c.ApplyYieldWriteSize = 4 * KiB })
	f.add(1)
	small := f.add(2)
	var at uint64
	small.before = func(Entry) { at = f.stored(1).Applied }
	f.send(1, repeat(1000, opAdd|opAfter, 0, 0)...)
	f.send(2, command(opAdd, 0, 0))
	f.run()
	require.Less(t, at, uint64(100), "a hundred of these entries and their states are 4 KiB")
	require.NotZero(t, f.Stats().Yields[YieldBytes])
}

// TestAnEntryIsNeverCut: whatever it holds, and wherever it stands in its task.
func TestAnEntryIsNeverCut(t *testing.T) {
	for place := range 3 {
		f := newFixture(t, newEngine(t), func(c *Config) { c.MaxBatchBytes = 8 * KiB })
		f.add(1)
		commands := repeat(3, opAdd, 0, 10)
		commands[place] = command(opAdd, 1, 100_000)
		f.send(1, commands...)
		f.run()
		var ends []uint64
		for _, a := range f.said {
			ends = append(ends, a.State.Applied)
		}
		require.Equal(t, [][]uint64{{1, 3}, {2, 3}, {3}}[place], ends, "a write is due behind the large entry")
		require.EqualValues(t, len(ends)-1, f.Stats().Yields[YieldBytes])
		require.Equal(t, map[byte]uint64{0: 2, 1: 1}, readSums(f.db.DB, 1, nil))
	}
}

// TestBytesFillABatch: large values make a write due long before 256 keys, unless the bound is off.
func TestBytesFillABatch(t *testing.T) {
	for _, one := range []struct {
		size          Size
		bytes, yields uint64
	}{{MiB, 9, 9}, {0, 0, 0}} {
		f := newFixture(t, newEngine(t), func(c *Config) { c.MaxBatchBytes = one.size })
		f.add(1)
		f.send(1, repeat(100, opAdd, 0, 100<<10)...)
		f.run()
		st := f.Stats()
		require.Equal(t, one.bytes, st.Flushes[FlushBytes])
		require.Equal(t, one.yields, st.Yields[YieldBytes])
	}
}

// TestAppliedAddsUp: each one holds what is new, also across yields.
func TestAppliedAddsUp(t *testing.T) {
	f := newFixture(t, newEngine(t), func(c *Config) { c.ApplyYieldWriteSize = KiB; c.MaxBatchKeys = 5 })
	var want, got Applied
	for id := RegionID(1); id <= 3; id++ {
		f.add(id)
		for range 10 {
			f.send(id, append(repeat(7, opAdd, byte(id), 100), command(opConf|opAdd, 9, 0), command(opRefuse, 1, 5), nil)...)
			want.Entries, want.Keys = want.Entries+10, want.Keys+8
		}
	}
	f.run()
	last, confs := map[RegionID]uint64{}, 0
	for _, a := range f.said {
		require.Equal(t, last[a.Region]+a.Entries, a.State.Applied)
		last[a.Region] = a.State.Applied
		got.Entries, got.Keys = got.Entries+a.Entries, got.Keys+a.Keys
		confs += len(a.ConfChanges)
	}
	require.Equal(t, want, got)
	require.Equal(t, 30, confs)
	require.EqualValues(t, want.Keys, f.Stats().Keys)
	require.EqualValues(t, want.Entries, f.Stats().Applied)
	require.EqualValues(t, 30, f.Stats().EntryErrors)
	require.Zero(t, f.Stats().Pending)
}

// TestAYieldedRegionGoesBehindThoseThatWait and keeps its own order.
func TestAYieldedRegionGoesBehindThoseThatWait(t *testing.T) {
	f := newFixture(t, newEngine(t), func(c *Config) { c.ApplyYieldWriteSize = 0; c.MaxBatchKeys = 2 })
	var order []string
	for id := RegionID(1); id <= 3; id++ {
		f.add(id).before = func(e Entry) { order = append(order, fmt.Sprint(id, ".", e.Index)) }
	}
	f.send(1, repeat(4, opAdd, 0, 0)...)
	f.send(1, repeat(4, opAdd, 0, 0)...)
	f.send(2, command(opAdd, 0, 0))
	f.send(3, command(opAdd, 0, 0))
	f.run()
	require.Equal(t, []string{"1.1", "1.2", "1.3", "2.1", "3.1", "1.4", "1.5", "1.6", "1.7", "1.8"}, order)
}

// TestConfigTakesEffectWhenARoundBegins, and never within a turn.
func TestConfigTakesEffectWhenARoundBegins(t *testing.T) {
	f := newFixture(t, newEngine(t), func(c *Config) { c.ApplyYieldWriteSize = NoYield; c.MaxBatchKeys = 10 })
	a := f.add(1)
	a.before = func(e Entry) {
		if e.Index == 5 {
			require.NoError(t, f.Update(func(c *Config) { c.ApplyYieldWriteSize = 0 }))
		}
	}
	f.send(1, repeat(100, opAdd, 0, 0)...)
	f.run()
	require.Zero(t, f.Stats().Yields[YieldBytes])
	f.send(1, repeat(100, opAdd, 0, 0)...)
	f.run()
	require.NotZero(t, f.Stats().Yields[YieldBytes])
}
