package wal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/vfs/faultfs"
)

var everyMode = []Recovery{TolerateCorruptedTailRecords, AbsoluteConsistency, PointInTimeRecovery, SkipAnyCorruptedRecords}

// newMapped returns a Set in memory that maps 64 KiB at a time, and what its calls do.
func newMapped(t *testing.T) (*vfs.Mem, *faultfs.FS, *Set) {
	m := vfs.NewMem()
	require.NoError(t, m.MkdirAll("db"))
	fs := faultfs.Wrap(m)
	s := NewSet(fs, "db", Predecessor{})
	s.Window = 64 << 10
	return m, fs, s
}

// keysIn recovers a log and says up to which sequence number it goes.
func keysIn(t *testing.T, fs vfs.FS, mode Recovery, logs ...uint64) (last kv.Seq) {
	t.Helper()
	_, err := Recover(fs, logsIn("db", logs...), mode, 0, 0, func(_ uint64, rec []byte) error { last++; return nil })
	require.NoError(t, err, "%v", mode)
	return last
}

func TestAMappedLogHoldsTheSameBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 15 {
		m, fs, mapped := newMapped(t)
		fs.Record(faultfs.Names)
		plain := NewSet(m, "db", Predecessor{})
		require.NoError(t, mapped.Create(3))
		require.NoError(t, plain.Create(4))
		for seq := range kv.Seq(rng.IntN(60)) {
			rec := put(seq+1, rng.IntN(1<<rng.IntN(18)))
			if rng.IntN(4) == 0 {
				require.NoError(t, mapped.Buffer(rec))
			} else {
				require.NoError(t, mapped.Append(rec))
			}
			require.NoError(t, plain.Append(rec))
			if rng.IntN(10) == 0 {
				require.NoError(t, mapped.Flush())
				for _, mode := range everyMode {
					require.EqualValues(t, seq+1, keysIn(t, m.Clone(), mode, 3), "the process is killed")
				}
			}
		}
		require.NotContains(t, fs.Journal(), "write")
		require.NoError(t, mapped.Close())
		require.NoError(t, plain.Close())
		got, err := vfs.ReadFile(m, "db/000003.log")
		require.NoError(t, err)
		want, err := vfs.ReadFile(m, "db/000004.log")
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "and is cut to its records")
	}
}

// A process may die at any moment of a Store: whatever part of the record is there, but for its first 8 bytes.
func TestAStoreThatDoesNotEndIsTheEndInEveryMode(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	torn := 0
	for range 150 {
		m, _, s := newMapped(t)
		require.NoError(t, s.Create(3))
		n := rng.IntN(4)
		for seq := range n {
			require.NoError(t, s.Append(put(kv.Seq(seq+1), rng.IntN(1<<rng.IntN(17)))))
		}
		if rng.IntN(2) == 0 { // a header at the end of a page
			size := s.Mark().Size
			fill := (size/pageSize+2)*pageSize - 1 - rng.Int64N(30) - size
			require.NoError(t, s.Append(put(kv.Seq(n+1), int(fill)-headerSize-len(put(1, 200))+200)))
			n++
		}
		at := s.Mark().Size
		require.NoError(t, s.Append(put(kv.Seq(n+1), rng.IntN(1<<rng.IntN(17)))))
		end := s.Mark().Size
		all, err := vfs.ReadFile(m, "db/000003.log")
		require.NoError(t, err)
		require.NoError(t, s.Close())
		if pad := BlockSize - at%BlockSize; pad < headerSize {
			at += pad
		}
		for i := at; i < at+8; i++ {
			all[i] = 0
		}
		if keep := at + 8 + rng.Int64N(end-at-7); rng.IntN(3) > 0 {
			clear(all[keep:]) // copied from the front
		}
		fs := newFakeFS()
		fs.put(3, all)
		for _, mode := range everyMode {
			last, place := kv.Seq(0), at
			_, err := Recover(fs, fs.logs(3), mode, 0, 0, func(uint64, []byte) error { last++; return nil })
			if err != nil && mode == AbsoluteConsistency {
				require.Greater(t, place%pageSize, int64(pageSize-24), "only where a page ends before anything but zeros is to be seen")
				torn++
				continue
			}
			require.NoError(t, err, "%v", mode)
			require.EqualValues(t, n, last)
		}
	}
	t.Logf("torn %d times", torn)
}

func TestWithoutRoomALogGoesOnWithWrites(t *testing.T) {
	for after := range 3 {
		m, fs, s := newMapped(t)
		require.NoError(t, fs.Add(fmt.Sprintf("fail map *.log after %d times 1 with ENOSPC", after)))
		require.NoError(t, s.Create(3))
		for seq := range kv.Seq(40) {
			require.NoError(t, appendSynced(s, put(seq+1, 5000)))
		}
		require.NoError(t, s.Create(4))
		fs.Record(faultfs.Names)
		require.NoError(t, s.Append(put(41, 5000)))
		require.Equal(t, "store db/000004.log\n", fs.Journal(), "the next one is mapped again")
		for _, mode := range everyMode {
			require.EqualValues(t, 41, keysIn(t, m.Clone(), mode, 3, 4))
		}
		require.NoError(t, s.Close())
	}
}

func TestAfterAFaultOfTheMappingLogsAreWritten(t *testing.T) {
	for _, rule := range []string{"fail store *.log once", "fail store *.log once partial", "fail store *.log once late"} {
		m, fs, s := newMapped(t)
		require.NoError(t, s.Create(3))
		require.NoError(t, s.Append(put(1, 5000)))
		require.NoError(t, fs.Add(rule))
		require.ErrorIs(t, s.Append(put(2, 5000)), syscall.EIO)
		require.ErrorIs(t, s.Append(put(2, 5000)), syscall.EIO)
		require.NoError(t, s.Create(4))
		fs.Record(faultfs.Names)
		require.NoError(t, s.Append(put(2, 5000)))
		require.Equal(t, "write db/000004.log\n", fs.Journal())
		for _, mode := range everyMode {
			require.EqualValues(t, 2, keysIn(t, m.Clone(), mode, 3, 4))
		}
		require.NoError(t, s.Close())
	}
}

// On the real file system, with a file that somebody cuts under the mapping: what a failing disk looks like.
func TestAFaultIsAnErrorOfTheAppend(t *testing.T) {
	dir := t.TempDir()
	s := NewSet(vfs.OS, dir, Predecessor{})
	s.Window = 1 << 20
	require.NoError(t, s.Create(3))
	if s.writer.window == nil {
		t.Logf("nothing is checked: files cannot be mapped here")
		return
	}
	require.NoError(t, s.Append(put(1, 10)))
	require.NoError(t, os.Truncate(filepath.Join(dir, "000003.log"), 0))
	require.ErrorIs(t, s.Append(put(2, 10)), syscall.EIO)
	require.NoError(t, s.Create(4))
	require.Nil(t, s.writer.window)
	require.NoError(t, s.Append(put(2, 10)))
	require.NoError(t, s.Close())
}

func TestMappedAppendAllocatesNothing(t *testing.T) {
	s := NewSet(vfs.OS, t.TempDir(), Predecessor{})
	s.Window = 16 << 20
	require.NoError(t, s.Create(3))
	rec := put(1, 1000)
	require.Zero(t, testing.AllocsPerRun(200, func() {
		if s.Append(rec[:12], rec[12:]) != nil {
			panic("failed")
		}
	}))
	require.NoError(t, s.Close())
}

// BenchmarkLog appends records of 140 bytes, to files.
func BenchmarkLog(b *testing.B) {
	for i := range 4 {
		window, sync := int64(i%2)*16<<20, i > 1
		b.Run(fmt.Sprintf("mapped=%v/sync=%v", window > 0, sync), func(b *testing.B) {
			s := NewSet(vfs.OS, b.TempDir(), Predecessor{})
			s.Window = window
			number := uint64(1)
			if err := s.Create(number); err != nil {
				b.Fatal(err)
			}
			rec := put(1, 140-headerSize-12-7)
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Append(rec[:12], rec[12:]); err != nil {
					b.Fatal(err)
				}
				if sync {
					if err := s.Sync(); err != nil {
						b.Fatal(err)
					}
				}
				if s.mark.Size > 64<<20 {
					number++
					if err := s.Create(number); err != nil {
						b.Fatal(err)
					}
					os.Remove(s.path(number - 1))
					s.DropBelow(number)
				}
			}
			s.Close()
		})
	}
}
