package wal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/kv"
)

// recoverAll is Recover with the sequence numbers of what it applied, "1 2 3".
func recoverAll(fs *fakeFS, mode Recovery, firstNeeded uint64, logs ...uint64) (string, Recovered, error) {
	var applied []string
	got, err := Recover(fs, fs.logs(logs...), mode, firstNeeded, 0, func(_ uint64, rec []byte) error {
		for i := range batch.Count(rec) {
			applied = append(applied, fmt.Sprint(batch.Seq(rec)+kv.Seq(i)))
		}
		return nil
	})
	return strings.Join(applied, " "), got, err
}

func recovered(t testing.TB, fs *fakeFS, mode Recovery, firstNeeded uint64, logs ...uint64) string {
	applied, _, err := recoverAll(fs, mode, firstNeeded, logs...)
	if err != nil {
		var d *Damage
		require.ErrorAs(t, err, &d)
		return "refused: " + d.Kind.String()
	}
	return applied
}

func TestModesHaveRocksDBsNames(t *testing.T) {
	var names []string
	for m := DefaultRecovery; m <= SkipAnyCorruptedRecords; m++ {
		names = append(names, m.String())
	}
	require.Equal(t, []string{"kPointInTimeRecovery", "kTolerateCorruptedTailRecords", "kAbsoluteConsistency", "kPointInTimeRecovery",
		"kSkipAnyCorruptedRecords"}, names)
	require.Equal(t, "Recovery(9)", Recovery(9).String())
}

func TestJudge(t *testing.T) {
	want := map[DamageKind][4]verdict{ // tolerate, absolute, point in time, skip any
		TornTail:   {endLog, refuse, stop, skip},
		BadRecord:  {refuse, refuse, stop, skip},
		Hole:       {refuse, refuse, stop, skip},
		OldRecord:  {endLog, endLog, stop, skip},
		Unfinished: {endLog, endLog, stop, skip},
		BadBatch:   {refuse, refuse, stop, skip},
		Backwards:  {refuse, refuse, stop, skip},
		Gap:        {refuse, refuse, stop, skip},
		ReadError:  {refuse, refuse, refuse, skip},
	}
	require.Len(t, want, int(numDamageKinds))
	for kind, verdicts := range want {
		for i, v := range verdicts {
			require.Equal(t, v, judge(TolerateCorruptedTailRecords+Recovery(i), kind), "%v %v", TolerateCorruptedTailRecords+Recovery(i), kind)
		}
	}
}

// state is logs 3 and 5 of a database, with three and two batches of 20,000 bytes: batch 2 goes over the edge between
// the first two blocks of log 3, batch 5 of log 5.
func state(t testing.TB) *fakeFS {
	fs := newFakeFS()
	s := NewSet(fs, "db", Predecessor{})
	require.NoError(t, s.Create(3))
	for seq := range kv.Seq(3) {
		require.NoError(t, s.Append(put(seq+1, 20_000)))
	}
	require.NoError(t, s.Create(5))
	for seq := range kv.Seq(2) {
		require.NoError(t, s.Append(put(seq+4, 20_000)))
	}
	return fs
}

// ends returns where each record of a log ends; the first one is the predecessor's.
func ends(t testing.TB, file []byte) (ends []int) {
	r := NewReader(bytes.NewReader(file), int64(len(file)), "x.log", 0)
	for {
		if _, _, err := r.Next(); err != nil {
			return ends
		}
		ends = append(ends, int(r.End()))
	}
}

func TestWhatEachModeMakesOfDamage(t *testing.T) {
	const (
		torn, bad, hole, gap = "refused: torn tail", "refused: bad record", "refused: hole", "refused: gap between logs"
		all                  = "1 2 3 4 5"
	)
	fresh := state(t)
	e3, e5 := ends(t, fresh.bytes(3)), ends(t, fresh.bytes(5))
	cut := func(fs *fakeFS, n uint64, at int) { fs.put(n, fs.bytes(n)[:at:at]) }
	grow := func(fs *fakeFS, n uint64, zeros int) { fs.put(n, append(fs.bytes(n), make([]byte, zeros)...)) }
	flip := func(fs *fakeFS, n uint64, at int) { fs.bytes(n)[at] ^= 1 }

	for _, c := range []struct {
		name   string
		logs   []uint64 // nil: both
		damage func(fs *fakeFS)
		want   [4]string // tolerate, absolute, point in time, skip any
	}{
		// One log: nothing comes after to tell what it held.
		{"one log, whole", []uint64{3}, func(fs *fakeFS) {}, [4]string{"1 2 3", "1 2 3", "1 2 3", "1 2 3"}},
		{"one log, cut inside its last record", []uint64{3}, func(fs *fakeFS) { cut(fs, 3, e3[3]-5) },
			[4]string{"1 2", torn, "1 2", "1 2"}},
		{"one log, cut inside a header", []uint64{3}, func(fs *fakeFS) { cut(fs, 3, e3[2]+3) },
			[4]string{"1 2", torn, "1 2", "1 2"}},
		{"one log, cut between fragments", []uint64{3}, func(fs *fakeFS) { cut(fs, 3, BlockSize) },
			[4]string{"1", torn, "1", "1"}},
		{"one log, cut between records", []uint64{3}, func(fs *fakeFS) { cut(fs, 3, e3[2]) },
			[4]string{"1 2", "1 2", "1 2", "1 2"}},
		{"one log, zeros behind", []uint64{3}, func(fs *fakeFS) { grow(fs, 3, 70_000) },
			[4]string{"1 2 3", "1 2 3", "1 2 3", "1 2 3"}},
		{"one log, half a record and zeros", []uint64{3}, func(fs *fakeFS) { cut(fs, 3, e3[2]+5000); grow(fs, 3, 70_000) },
			[4]string{"1 2", torn, "1 2", "1 2"}},
		{"one log, half a record in the first block and zeros", []uint64{3}, func(fs *fakeFS) { cut(fs, 3, e3[1]+5000); grow(fs, 3, 70_000) },
			[4]string{"1", torn, "1", "1"}},
		{"one log, bad checksum in the middle", []uint64{3}, func(fs *fakeFS) { flip(fs, 3, e3[1]+100) },
			[4]string{bad, bad, "1", "1 3"}},
		{"one log, bad checksum at the end", []uint64{3}, func(fs *fakeFS) { flip(fs, 3, e3[3]-1) },
			[4]string{"1 2", torn, "1 2", "1 2"}},
		{"one log, zeroed pages", []uint64{3}, func(fs *fakeFS) { clear(fs.bytes(3)[e3[1] : e3[1]+8000]) },
			[4]string{hole, hole, "1", "1 3"}},
		{"one log, zeroed pages at the beginning", []uint64{3}, func(fs *fakeFS) { clear(fs.bytes(3)[:8192]) },
			[4]string{hole, hole, "", "3"}},
		{"one log, empty", []uint64{3}, func(fs *fakeFS) { cut(fs, 3, 0) }, [4]string{"", "", "", ""}},
		{"no log", []uint64{}, func(fs *fakeFS) {}, [4]string{"", "", "", ""}},

		// Two logs: the later one tells what the earlier one held.
		{"whole", nil, func(fs *fakeFS) {}, [4]string{all, all, all, all}},
		{"earlier log torn", nil, func(fs *fakeFS) { cut(fs, 3, e3[3]-5) }, [4]string{gap, torn, "1 2", "1 2 4 5"}},
		{"earlier log cut between records", nil, func(fs *fakeFS) { cut(fs, 3, e3[2]) }, [4]string{gap, gap, "1 2", "1 2 4 5"}},
		{"earlier log cut between fragments", nil, func(fs *fakeFS) { cut(fs, 3, BlockSize) }, [4]string{gap, torn, "1", "1 4 5"}},
		{"earlier log, half a record and zeros", nil, func(fs *fakeFS) { n := len(fs.bytes(3)); cut(fs, 3, e3[2]+5000); grow(fs, 3, n-e3[2]-5000) },
			[4]string{gap, torn, "1 2", "1 2 4 5"}},
		{"earlier log, zeros from a record's edge", nil, func(fs *fakeFS) { clear(fs.bytes(3)[e3[2]:]) }, [4]string{gap, gap, "1 2", "1 2 4 5"}},
		{"earlier log, bad checksum in the middle", nil, func(fs *fakeFS) { flip(fs, 3, e3[1]+100) }, [4]string{bad, bad, "1", "1 3 4 5"}},
		{"earlier log, zeroed pages", nil, func(fs *fakeFS) { clear(fs.bytes(3)[e3[1] : e3[1]+8000]) }, [4]string{hole, hole, "1", "1 3 4 5"}},
		{"earlier log empty", nil, func(fs *fakeFS) { cut(fs, 3, 0) }, [4]string{gap, gap, "", "4 5"}},
		{"earlier log missing", []uint64{5}, func(fs *fakeFS) {}, [4]string{gap, gap, "", "4 5"}},
		{"earlier log, rubbish behind what counts", nil, func(fs *fakeFS) { fs.put(3, append(fs.bytes(3), pattern(50_000)...)) },
			[4]string{all, all, all, all}},
		{"later log torn", nil, func(fs *fakeFS) { cut(fs, 5, e5[2]-1) }, [4]string{"1 2 3 4", torn, "1 2 3 4", "1 2 3 4"}},
		{"later log torn in its first record", nil, func(fs *fakeFS) { cut(fs, 5, e5[0]-1) }, [4]string{"1 2 3", torn, "1 2 3", "1 2 3"}},
		{"later log empty", nil, func(fs *fakeFS) { cut(fs, 5, 0) }, [4]string{"1 2 3", "1 2 3", "1 2 3", "1 2 3"}},
		{"later log, bad checksum of its first record", nil, func(fs *fakeFS) { flip(fs, 5, 20) }, [4]string{bad, bad, "1 2 3", "1 2 3"}},
		{"later log, bad checksum in the middle", nil, func(fs *fakeFS) { flip(fs, 5, e5[0]+20) }, [4]string{bad, bad, "1 2 3", "1 2 3"}},
		{"later log missing", []uint64{3}, func(fs *fakeFS) {}, [4]string{"1 2 3", "1 2 3", "1 2 3", "1 2 3"}},
		{"both torn", nil, func(fs *fakeFS) { cut(fs, 3, e3[3]-5); cut(fs, 5, e5[2]-5) }, [4]string{gap, torn, "1 2", "1 2 4"}},
		{"earlier log torn, later one's first record bad", nil, func(fs *fakeFS) { cut(fs, 3, e3[3]-5); flip(fs, 5, 20) },
			[4]string{bad, torn, "1 2", "1 2"}},
	} {
		logs := c.logs
		if logs == nil {
			logs = []uint64{3, 5}
		}
		for i, want := range c.want {
			fs := state(t)
			c.damage(fs)
			mode := TolerateCorruptedTailRecords + Recovery(i)
			require.Equal(t, want, recovered(t, fs, mode, 3, logs...), "%s: %v", c.name, mode)
		}
	}
}

func TestAnObsoletePredecessorMayBeGone(t *testing.T) {
	fs := state(t)
	for mode := DefaultRecovery; mode <= SkipAnyCorruptedRecords; mode++ {
		require.Equal(t, "4 5", recovered(t, fs, mode, 5, 5))
	}
	fs.put(3, nil) // it may be there as well, whatever is left of it
	require.Equal(t, "4 5", recovered(t, fs, AbsoluteConsistency, 5, 3, 5))
}

func TestRecoveredSaysWhereItStopped(t *testing.T) {
	fs := state(t)
	e3 := ends(t, fs.bytes(3))
	fs.put(3, fs.bytes(3)[:e3[2]+9])
	_, got, err := recoverAll(fs, DefaultRecovery, 3, 3, 5)
	require.NoError(t, err)
	require.Equal(t, 2, got.DamageCount)
	require.EqualError(t, got.Damage[0], fmt.Sprintf("db/000003.log: at %d: torn tail: 9 of the 20027 bytes of a fragment (corruption)", e3[2]))
	require.EqualError(t, got.Damage[1], fmt.Sprintf("db/000005.log: not applied, recovery stopped in log 3 at %d", e3[2]))
	got.Damage = nil
	require.Equal(t, Recovered{
		LastSeq: 2, Last: Predecessor{3, int64(e3[2]), 2}, Batches: 2, Bytes: 2 * int64(len(put(1, 20_000))),
		Stopped: true, StoppedLog: 3, StoppedAt: int64(e3[2]), DamageCount: 2,
	}, got)

	got, err = Recover(fs, nil, DefaultRecovery, 3, 77, nil)
	require.NoError(t, err)
	require.Equal(t, Recovered{LastSeq: 77}, got)
	got, err = Recover(state(t), fs.logs(3, 5), DefaultRecovery, 3, 77, func(uint64, []byte) error { return nil })
	require.NoError(t, err)
	require.Equal(t, kv.Seq(77), got.LastSeq)
	require.Equal(t, kv.Seq(5), got.Last.LastSeq)
	require.False(t, got.Stopped)
}

// Crash, recovery, and another crash before anything was flushed: what the first recovery accepted is the history.
func TestARecoveryThatCrashesLeavesAStateThatOpens(t *testing.T) {
	fresh := state(t)
	e3 := ends(t, fresh.bytes(3))
	for name, damage := range map[string]func(fs *fakeFS){
		"torn tail":  func(fs *fakeFS) { fs.put(3, fs.bytes(3)[:e3[3]-5]) },
		"bad record": func(fs *fakeFS) { fs.bytes(3)[e3[1]+50] ^= 1 },
		"nothing":    func(fs *fakeFS) {},
		"all gone":   func(fs *fakeFS) { fs.bytes(3)[20] ^= 1 },
	} {
		fs := state(t)
		damage(fs)
		first, got, err := recoverAll(fs, PointInTimeRecovery, 3, 3, 5)
		require.NoError(t, err)
		s := NewSet(fs, "db", got.Last)
		require.NoError(t, s.Create(9))

		for mode := TolerateCorruptedTailRecords; mode <= SkipAnyCorruptedRecords; mode++ {
			require.Equal(t, first, recovered(t, fs, mode, 3, 3, 5, 9), "%s: %v", name, mode)
		}
		// The numbers that were given up are used again.
		require.NoError(t, s.Append(put(got.LastSeq+1, 100)))
		want := strings.TrimSpace(first + " " + fmt.Sprint(got.LastSeq+1))
		for mode := TolerateCorruptedTailRecords; mode <= SkipAnyCorruptedRecords; mode++ {
			require.Equal(t, want, recovered(t, fs, mode, 3, 3, 5, 9), "%s: %v", name, mode)
		}
		// A third one, of which only the name of the file reached the disk.
		fs.put(11, nil)
		require.Equal(t, want, recovered(t, fs, AbsoluteConsistency, 3, 3, 5, 9, 11), name)
		_, got, err = recoverAll(fs, PointInTimeRecovery, 3, 3, 5, 9, 11)
		require.NoError(t, err)
		require.Equal(t, uint64(9), got.Last.Number)
		require.NoError(t, NewSet(fs, "db", got.Last).Create(12))
		require.Equal(t, want, recovered(t, fs, AbsoluteConsistency, 3, 3, 5, 9, 11, 12), name)
	}
}

// A batch of log data alone takes no sequence number. Lost at the end of a log it is a gap, but no state is missing:
// point-in-time recovery stops and goes on, by the rule of the number that is due.
func TestLostLogDataIsAGapThatRecoveryGetsOver(t *testing.T) {
	fs := newFakeFS()
	s := NewSet(fs, "db", Predecessor{})
	require.NoError(t, s.Create(3))
	require.NoError(t, s.Append(put(1, 10)))
	end := len(fs.bytes(3))
	require.NoError(t, s.Append(batch.AppendLogData(batch.Init(nil), []byte("note"))))
	require.NoError(t, s.Create(4))
	require.NoError(t, s.Append(put(2, 10)))
	for i, want := range []string{"1 2", "1 2", "1 2", "1 2"} {
		require.Equal(t, want, recovered(t, fs, TolerateCorruptedTailRecords+Recovery(i), 0, 3, 4))
	}
	fs.put(3, fs.bytes(3)[:end])
	for i, want := range []string{"refused: gap between logs", "refused: gap between logs", "1 2", "1 2"} {
		require.Equal(t, want, recovered(t, fs, TolerateCorruptedTailRecords+Recovery(i), 0, 3, 4))
	}
	_, got, err := recoverAll(fs, PointInTimeRecovery, 0, 3, 4)
	require.NoError(t, err)
	require.False(t, got.Stopped)
	require.Equal(t, 1, got.DamageCount)
}

func TestSequencesMayHaveGapsButNotGoBack(t *testing.T) {
	for _, c := range []struct {
		seqs []kv.Seq
		want [4]string
	}{
		{[]kv.Seq{1, 5, 6, 100}, [4]string{"1 5 6 100", "1 5 6 100", "1 5 6 100", "1 5 6 100"}},
		{[]kv.Seq{5, 6, 6, 7}, [4]string{"refused: sequence going backwards", "refused: sequence going backwards", "5 6", "5 6 7"}},
		{[]kv.Seq{5, 4, 6}, [4]string{"refused: sequence going backwards", "refused: sequence going backwards", "5", "5 6"}},
	} {
		fs := newFakeFS()
		s := NewSet(fs, "db", Predecessor{})
		require.NoError(t, s.Create(3))
		for _, seq := range c.seqs {
			require.NoError(t, s.Append(put(seq, 10)))
		}
		for i, want := range c.want {
			require.Equal(t, want, recovered(t, fs, TolerateCorruptedTailRecords+Recovery(i), 0, 3))
		}
	}
}

func TestMarksOfTwoPhaseCommitsDecideWhatNumbersARecordTakes(t *testing.T) {
	record := func(seq kv.Seq, count uint32, parts ...func([]byte) []byte) []byte {
		b := batch.Init(nil)
		for _, p := range parts {
			b = p(b)
		}
		batch.SetHeader(b, seq, count)
		return b
	}
	puts := func(n int) func([]byte) []byte {
		return func(b []byte) []byte {
			for range n {
				b = batch.AppendPut(b, 0, []byte("k"), nil)
			}
			return b
		}
	}
	named := func(f func([]byte, string) []byte, name string) func([]byte) []byte {
		return func(b []byte) []byte { return f(b, name) }
	}
	begin, end := batch.AppendBeginPrepare, batch.AppendEndPrepare
	commit, rollback := batch.AppendCommit, batch.AppendRollback
	for _, c := range []struct {
		what string
		recs [][]byte
		last kv.Seq
	}{
		{"prepared takes none", [][]byte{record(1, 2, puts(2)), record(3, 5, begin, puts(5), named(end, "a"))}, 2},
		{"its commit takes them", [][]byte{record(1, 5, begin, puts(5), named(end, "a")), record(1, 0, named(commit, "a"))}, 5},
		{"its rollback takes none", [][]byte{record(1, 5, begin, puts(5), named(end, "a")), record(1, 0, named(rollback, "a")), record(1, 1, puts(1))}, 1},
		{"others in the group go on behind it", [][]byte{record(1, 3, begin, puts(3), named(end, "a")), record(1, 3, puts(1), named(commit, "a"), puts(2))}, 6},
		{"two in one group", [][]byte{record(1, 3, begin, puts(1), named(end, "a"), begin, puts(2), named(end, "b")), record(1, 0, named(commit, "b"), named(commit, "a"))}, 3},
		{"carried over", [][]byte{record(1, 1, begin, puts(1), named(end, "a")), record(1, 1, named(rollback, "a"), begin, puts(1), named(end, "a")), record(1, 0, named(commit, "a"))}, 1},
		{"a commit of what is not there takes none", [][]byte{record(1, 0, named(commit, "x")), record(1, 1, puts(1))}, 1},
	} {
		fs := newFakeFS()
		fs.put(3, write(t, c.recs...))
		_, got, err := recoverAll(fs, AbsoluteConsistency, 0, 3)
		require.NoError(t, err, c.what)
		require.Zero(t, got.DamageCount, c.what)
		require.Equal(t, c.last, got.LastSeq, c.what)
	}
	for _, bad := range [][]byte{
		record(1, 0, named(end, "a")), record(1, 0, begin), record(1, 0, begin, begin, named(end, "a")), record(1, 0, begin, named(commit, "a"), named(end, "a")),
	} {
		fs := newFakeFS()
		fs.put(3, write(t, bad))
		_, _, err := recoverAll(fs, AbsoluteConsistency, 0, 3)
		require.ErrorIs(t, err, corrupt.Err)
	}
}

// Before what is prepared a number is left out, lest its loss go unnoticed: here the end of log 3 is lost, and log 4 begins
// with what comes after.
func TestALostPreparationIsMissed(t *testing.T) {
	fs := newFakeFS()
	s := NewSet(fs, "db", Predecessor{})
	require.NoError(t, s.Create(3))
	require.NoError(t, s.Append(put(1, 10)))
	prepared := batch.AppendEndPrepare(batch.AppendPut(batch.AppendBeginPrepare(batch.Init(nil)), 0, []byte("k"), nil), "a")
	batch.SetHeader(prepared, 3, 1)
	require.NoError(t, s.Append(prepared))
	s.SetLastSeq(2)
	require.NoError(t, s.Create(4))
	require.NoError(t, s.Append(put(3, 10)))
	_, got, err := recoverAll(fs, PointInTimeRecovery, 3, 3, 4)
	require.NoError(t, err)
	require.False(t, got.Stopped)
	require.Equal(t, kv.Seq(3), got.LastSeq)
	fs.put(3, fs.bytes(3)[:len(fs.bytes(3))-1])
	_, got, err = recoverAll(fs, PointInTimeRecovery, 3, 3, 4)
	require.NoError(t, err)
	require.True(t, got.Stopped)
	require.Equal(t, kv.Seq(1), got.LastSeq)
}

// A log may hold the commit of what was prepared in one that is needed no more. How many numbers it took is known from the
// next log, or from the manifest.
func TestTheNumbersOfACommitMayBeUnknown(t *testing.T) {
	fs := newFakeFS()
	s := NewSet(fs, "db", Predecessor{Number: 2, LastSeq: 7})
	require.NoError(t, s.Create(3))
	commit := batch.AppendCommit(batch.Init(nil), "gone")
	batch.SetHeader(commit, 8, 0)
	require.NoError(t, s.Append(commit))
	s.SetLastSeq(12)
	require.NoError(t, s.Create(4))
	require.NoError(t, s.Append(put(13, 10)))
	for mode := TolerateCorruptedTailRecords; mode <= SkipAnyCorruptedRecords; mode++ {
		_, got, err := recoverAll(fs, mode, 3, 3, 4)
		require.NoError(t, err)
		require.Zero(t, got.DamageCount, got.Damage)
		require.Equal(t, kv.Seq(13), got.LastSeq)
	}
	// A write behind it tells the number again, and then nothing may be missing.
	require.NoError(t, s.Create(5))
	batch.SetHeader(commit, 15, 0)
	require.NoError(t, s.Append(commit))
	s.SetLastSeq(15)
	require.NoError(t, s.Append(put(16, 10)))
	require.NoError(t, s.Append(put(17, 10)))
	require.NoError(t, s.Create(6))
	_, got, err := recoverAll(fs, AbsoluteConsistency, 5, 5, 6)
	require.NoError(t, err)
	require.Zero(t, got.DamageCount)
	fs.put(5, fs.bytes(5)[:len(fs.bytes(5))-5])
	_, _, err = recoverAll(fs, AbsoluteConsistency, 5, 5, 6)
	require.Error(t, err)
}

func TestALogMayBeginWithWhatIsCarriedOver(t *testing.T) {
	fs := newFakeFS()
	s := NewSet(fs, "db", Predecessor{Number: 2, LastSeq: 7})
	carried := batch.AppendEndPrepare(batch.AppendPut(batch.AppendBeginPrepare(batch.Init(nil)), 0, []byte("k"), nil), "a")
	batch.SetHeader(carried, 9, 1)
	require.NoError(t, s.Create(3, carried))
	require.Equal(t, []string{"create 000003.log", "write 000003.log", "sync 000003.log", "syncdir"}, fs.take())
	require.True(t, s.CurrentEmpty())
	require.NoError(t, s.Sync())
	require.Empty(t, fs.take(), "it is safe already")
	s.SetLastSeq(8)
	commit := batch.AppendCommit(batch.Init(nil), "a")
	batch.SetHeader(commit, 10, 0)
	require.NoError(t, s.Append(commit))
	s.SetLastSeq(10)
	require.NoError(t, s.Create(4))
	_, got, err := recoverAll(fs, AbsoluteConsistency, 3, 3, 4)
	require.NoError(t, err)
	require.Zero(t, got.DamageCount)
	require.Equal(t, kv.Seq(10), got.LastSeq)
	require.Equal(t, kv.Seq(10), got.Last.LastSeq)

	fs.fail["sync 000005.log"] = true
	require.Error(t, s.Create(5, carried))
	require.Equal(t, uint64(4), s.Current())
}

func TestABatchThatIsNoneIsDamage(t *testing.T) {
	miscounted := put(2, 10)
	batch.SetHeader(miscounted, 2, 3)
	for _, b := range [][]byte{miscounted, {}, []byte("short"), put(2, 10)[:15]} {
		fs := newFakeFS()
		fs.put(3, write(t, put(1, 10), b, put(3, 10)))
		for i, want := range []string{"refused: bad batch", "refused: bad batch", "1", "1 3"} {
			require.Equal(t, want, recovered(t, fs, TolerateCorruptedTailRecords+Recovery(i), 0, 3))
		}
	}
}

func TestUnsupportedFeaturesAreRefusedInEveryMode(t *testing.T) {
	foreign := append(batch.Init(nil), 0x12) // a mark of WritePrepared
	batch.SetHeader(foreign, 2, 0)
	for mode := TolerateCorruptedTailRecords; mode <= SkipAnyCorruptedRecords; mode++ {
		fs := newFakeFS()
		fs.put(3, write(t, put(1, 10), foreign))
		_, _, err := recoverAll(fs, mode, 0, 3)
		require.ErrorIs(t, err, corrupt.ErrNotSupported)
		require.NotErrorIs(t, err, corrupt.Err)
		require.ErrorContains(t, err, "db/000003.log: record at 35: ")
		fs.put(3, append(write(t, put(1, 10)), naiveFragment(10, 0, []byte{1, 0, 0, 0, 8, 0})...))
		_, _, err = recoverAll(fs, mode, 0, 3)
		require.ErrorIs(t, err, corrupt.ErrNotSupported)
	}
}

func TestReadErrorsAreRefusedExceptBySkipAny(t *testing.T) {
	fs := state(t)
	fs.fail["read 000003.log"] = true
	for i, want := range []string{"refused: read error", "refused: read error", "refused: read error", "4 5"} {
		require.Equal(t, want, recovered(t, fs, TolerateCorruptedTailRecords+Recovery(i), 3, 3, 5))
	}
}

func TestErrorsOfApplyAndOfTheFileSystemComeBack(t *testing.T) {
	fs := state(t)
	_, err := Recover(fs, fs.logs(3, 5), SkipAnyCorruptedRecords, 3, 0, func(log uint64, rec []byte) error {
		if log == 5 {
			return errInjected
		}
		return nil
	})
	require.Equal(t, errInjected, err)
	_, err = Recover(fs, fs.logs(3, 4), SkipAnyCorruptedRecords, 3, 0, nil)
	require.ErrorContains(t, err, "db/000004.log")
	_, err = Recover(fs, fs.logs(5, 3), SkipAnyCorruptedRecords, 3, 0, nil)
	require.EqualError(t, err, "logs 5 and 3 are not in ascending order")
}

func TestALogThatNamesALaterOneIsDamage(t *testing.T) {
	fs := newFakeFS()
	fs.put(3, write(t, put(1, 10)))
	fs.put(5, write(t, appendPredecessor(nil, Predecessor{7, 10, 1}), put(2, 10)))
	for i, want := range []string{"refused: gap between logs", "refused: gap between logs", "1 2", "1 2"} {
		require.Equal(t, want, recovered(t, fs, TolerateCorruptedTailRecords+Recovery(i), 0, 3, 5))
	}
}

// RocksDB's logs do not name their predecessors: the sequence number that is due is the only proof. Bug bank 88,
// facebook/rocksdb#12918: the rest of an earlier life in a recycled log hides no hole before the next log.
func TestBugBank088LogsOfRocksDBContinueBySequence(t *testing.T) {
	empty := func(seq kv.Seq) []byte { b := batch.Init(nil); batch.SetHeader(b, seq, 0); return b }
	torn := write(t, put(1, 10), put(2, 10), put(3, 10))
	torn = torn[:len(torn)-1]
	for _, c := range []struct {
		name string
		logs [][]byte
		want [4]string
	}{
		{"earlier log torn, later one continues", [][]byte{torn, write(t, put(3, 10), put(4, 10))},
			[4]string{"1 2 3 4", "refused: torn tail", "1 2 3 4", "1 2 3 4"}},
		{"earlier log torn, later one does not continue", [][]byte{torn, write(t, put(4, 10))},
			[4]string{"1 2 4", "refused: torn tail", "1 2", "1 2 4"}},
		{"the log after the next continues", [][]byte{torn, write(t, put(4, 10)), write(t, put(3, 10))},
			[4]string{"refused: sequence going backwards", "refused: torn tail", "1 2 3", "1 2 4"}},
		{"an empty batch marks where it continues", [][]byte{torn, write(t, put(4, 10)), write(t, empty(3), put(5, 10))},
			[4]string{"1 2 4 5", "refused: torn tail", "1 2 5", "1 2 4 5"}},
		{"an empty log lies between", [][]byte{torn, nil, write(t, put(3, 10))},
			[4]string{"1 2 3", "refused: torn tail", "1 2 3", "1 2 3"}},
		{"the first log is torn at once", [][]byte{torn[:20], write(t, put(1, 10))},
			[4]string{"1", "refused: torn tail", "", "1"}},
		{"recycled", [][]byte{append(naiveWrite(4, 1, put(1, 10)), naiveWrite(4, 99, put(9, 10))...), naiveWrite(4, 2, put(2, 10))},
			[4]string{"1 2", "1 2", "1 2", "1 2"}},
		{"recycled, a record missing", [][]byte{append(naiveWrite(4, 1, put(1, 10)), naiveWrite(4, 99, put(9, 10))...), naiveWrite(4, 2, put(3, 10))},
			[4]string{"1 3", "1 3", "1", "1 3"}},
	} {
		fs := newFakeFS()
		var numbers []uint64
		for i, b := range c.logs {
			numbers = append(numbers, uint64(i+1))
			fs.put(uint64(i+1), b)
		}
		for i, want := range c.want {
			require.Equal(t, want, recovered(t, fs, TolerateCorruptedTailRecords+Recovery(i), 0, numbers...), "%s: %d", c.name, i)
		}
	}
}

func TestRocksDBsPredecessorRecordIsChecked(t *testing.T) {
	info := func(number, size, seq uint64) []byte {
		b := binary.LittleEndian.AppendUint64(nil, number)
		return naiveFragment(130, 0, binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, size), seq))
	}
	before := write(t, put(1, 10))
	later := write(t, put(3, 10))
	const gap = "refused: gap between logs"
	for _, c := range []struct {
		name  string
		claim []byte
		want  [4]string
	}{
		{"as it was", info(4, uint64(len(before)), 1), [4]string{"1 3", "1 3", "1 3", "1 3"}},
		{"obsolete", info(3, 1000, 9), [4]string{"1 3", "1 3", "1 3", "1 3"}},
		{"longer", info(4, uint64(len(before)+20), 2), [4]string{gap, gap, "1", "1 3"}},
		{"missing", info(5, 100, 2), [4]string{gap, gap, "1", "1 3"}},
	} {
		fs := newFakeFS()
		fs.put(4, before)
		fs.put(6, append(bytes.Clone(c.claim), later...))
		for i, want := range c.want {
			require.Equal(t, want, recovered(t, fs, TolerateCorruptedTailRecords+Recovery(i), 4, 4, 6), "%s: %d", c.name, i)
		}
	}
}

// The same damage many times over does not fill the memory.
func TestDamageIsCountedAndKeptWithinBounds(t *testing.T) {
	fs := newFakeFS()
	var recs [][]byte
	for range 500 {
		recs = append(recs, []byte("no batch"))
	}
	fs.put(3, write(t, recs...))
	_, got, err := recoverAll(fs, SkipAnyCorruptedRecords, 0, 3)
	require.NoError(t, err)
	require.Len(t, got.Damage, maxDamage)
	require.Equal(t, 500, got.DamageCount)
}

// FuzzRecover damages three good logs anywhere. What point-in-time recovery applies is a prefix of what was written; no
// mode applies anything that was not written, or out of order.
func FuzzRecover(f *testing.F) {
	f.Add([]byte{0, 0, 40, 1}, byte(0))
	f.Add([]byte{1, 0, 0, 200, 2, 1, 0, 0}, byte(1))
	f.Add([]byte{3, 0, 0x90, 0, 0, 2, 3, 1}, byte(2))
	f.Add([]byte{1, 0x80, 50, 1}, byte(5))
	f.Fuzz(func(t *testing.T, ops []byte, missing byte) {
		fs := newFakeFS()
		s := NewSet(fs, "db", Predecessor{})
		seq := kv.Seq(0)
		for _, log := range []uint64{3, 4, 8} {
			if err := s.Create(log); err != nil {
				t.Fatal(err)
			}
			for _, size := range []int{10, 300, 33_000, 4000, 0} {
				if err := s.Append(put(seq+1, size)); err != nil {
					t.Fatal(err)
				}
				seq++
			}
		}
		logs := []uint64{3, 4, 8}
		for ; len(ops) >= 4; ops = ops[4:] {
			n := logs[ops[0]>>2%3]
			b := fs.bytes(n)
			at := int(ops[1])<<8 | int(ops[2])
			at = min(at, len(b))
			end := min(at+1+int(ops[3])*64, len(b))
			switch ops[0] % 4 {
			case 0:
				fs.put(n, b[:at])
			case 1:
				clear(b[at:end])
			case 2:
				if at < len(b) {
					b[at] ^= ops[3]
				}
			case 3:
				fs.put(n, append(b[:at:at], make([]byte, 500*int(ops[3]))...))
			}
		}
		var there []uint64
		for i, n := range logs {
			if missing>>i&1 == 0 {
				there = append(there, n)
			}
		}
		for mode := DefaultRecovery; mode <= SkipAnyCorruptedRecords; mode++ {
			last := kv.Seq(0)
			_, err := Recover(fs, fs.logs(there...), mode, 3, 0, func(_ uint64, rec []byte) error {
				next := batch.Seq(rec)
				if mode != SkipAnyCorruptedRecords && next != last+1 || next <= last || next > seq {
					t.Fatalf("%v: %d after %d", mode, next, last)
				}
				last = next
				return nil
			})
			if err != nil && (mode == PointInTimeRecovery || mode == DefaultRecovery || mode == SkipAnyCorruptedRecords) {
				t.Fatalf("%v: %v", mode, err)
			}
		}
	})
}
