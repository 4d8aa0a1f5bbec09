package wal

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/internal/kv"
)

// put is a batch of one put of size bytes.
func put(seq kv.Seq, size int) []byte {
	b := batch.AppendPut(batch.Init(nil), 0, []byte("key"), pattern(size))
	batch.SetHeader(b, seq, 1)
	return b
}

// appendSynced is what a synced write does: what is not safe is not accepted.
func appendSynced(s *Set, parts ...[]byte) error {
	before := s.Mark()
	err := s.Append(parts...)
	if err == nil {
		if err = s.Sync(); err != nil {
			s.Refuse(before, err)
		}
	}
	return err
}

func TestAppendIsOneWrite(t *testing.T) {
	fs := newFakeFS()
	s := NewSet(fs, "db", Predecessor{})
	require.NoError(t, s.Create(3))
	require.Equal(t, []string{"create 000003.log", "write 000003.log"}, fs.take())
	require.True(t, s.CurrentEmpty())
	for _, size := range []int{1, 1000, 200_000} {
		rec := put(kv.Seq(size), size)
		require.NoError(t, s.Append(rec[:12], rec[12:]))
		require.Equal(t, []string{"write 000003.log"}, fs.take())
		require.False(t, s.CurrentEmpty())
	}
	require.NoError(t, appendSynced(s, put(300_000, 5)))
	require.Equal(t, []string{"write 000003.log", "sync 000003.log", "syncdir"}, fs.take())
	require.NoError(t, appendSynced(s, put(300_001, 5)))
	require.Equal(t, []string{"write 000003.log", "sync 000003.log"}, fs.take())
	require.NoError(t, s.Sync())
	require.Empty(t, fs.take(), "nothing was appended since")
	require.Equal(t, int64(len(fs.bytes(3))), s.TotalSize())
}

func TestOlderLogsAreSyncedFirst(t *testing.T) {
	fs := newFakeFS()
	s := NewSet(fs, "db", Predecessor{})
	for i, n := range []uint64{3, 5, 8} {
		require.NoError(t, s.Create(n))
		require.NoError(t, s.Append(put(kv.Seq(i+1), 10)))
	}
	require.Equal(t, uint64(8), s.Current())
	require.Equal(t, []uint64{3, 5, 8}, s.Numbers())
	fs.take()
	require.NoError(t, s.SyncClosed())
	require.Equal(t, []string{"sync 000003.log", "sync 000005.log", "syncdir"}, fs.take())
	require.NoError(t, appendSynced(s, put(9, 10)))
	require.Equal(t, []string{"write 000008.log", "sync 000008.log", "syncdir"}, fs.take())
	require.NoError(t, s.SyncClosed())
	require.Empty(t, fs.take())

	require.Equal(t, []uint64{3}, s.DropBelow(5))
	require.Equal(t, []uint64{5}, s.DropBelow(100), "the current log stays")
	require.Equal(t, []string{"close 000003.log", "close 000005.log"}, fs.take())
	require.Equal(t, []uint64{8}, s.Numbers())
	require.NoError(t, s.Close())
	require.Equal(t, []string{"close 000008.log"}, fs.take())
}

func TestNumbersGoUpFromWhatCameBefore(t *testing.T) {
	fs := newFakeFS()
	fs.put(3, write(t, put(1, 10)))
	fs.put(4, write(t, put(2, 10)))
	s := NewSet(fs, "db", Predecessor{Number: 4, Size: int64(len(fs.bytes(4))), LastSeq: 2})
	require.Zero(t, s.Current())
	require.ErrorIs(t, s.Append(put(3, 1)), errNoLog)
	require.Error(t, s.Create(4))
	require.NoError(t, s.Create(7))
	require.NoError(t, s.Append(put(3, 10)))
	require.Equal(t, []uint64{7}, s.Numbers())
	require.Equal(t, "1 2 3", recovered(t, fs, AbsoluteConsistency, 0, 3, 4, 7))
}

func TestALogBreaksForGoodWhenAWriteFails(t *testing.T) {
	fs := newFakeFS()
	s := NewSet(fs, "db", Predecessor{})
	require.NoError(t, s.Create(3))
	require.NoError(t, s.Append(put(1, 10)))
	fs.fail["write 000003.log"] = true
	require.ErrorIs(t, s.Append(put(2, 10)), errInjected)
	clear(fs.fail)
	fs.take()
	require.ErrorIs(t, s.Append(put(2, 10)), errInjected)
	require.Empty(t, fs.take())
	require.NoError(t, s.Create(4))
	require.NoError(t, appendSynced(s, put(2, 20)))
	require.Equal(t, []string{"create 000004.log", "write 000004.log", "write 000004.log", "sync 000003.log", "sync 000004.log", "syncdir"}, fs.take())
	// The whole record that failed is in the file, and does not come back.
	require.Len(t, readAll(t, fs.bytes(3), 3), 3)
	require.Equal(t, "1 2", recovered(t, fs, PointInTimeRecovery, 0, 3, 4))
	require.Equal(t, "1 2", recovered(t, fs, AbsoluteConsistency, 0, 3, 4))
}

func TestAFailedSyncIsNeverTriedAgain(t *testing.T) {
	fs := newFakeFS()
	s := NewSet(fs, "db", Predecessor{})
	require.NoError(t, s.Create(3))
	require.NoError(t, s.Append(put(1, 10)))
	fs.fail["sync 000003.log"] = true
	require.ErrorIs(t, appendSynced(s, put(2, 10)), errInjected)
	clear(fs.fail)
	fs.take()
	require.ErrorIs(t, s.Sync(), errInjected)
	require.ErrorIs(t, s.Append(put(2, 10)), errInjected)
	require.Empty(t, fs.take())
	require.NoError(t, s.Create(4))
	require.NoError(t, s.Append(put(2, 20)), "number 2 is free again")
	require.ErrorIs(t, s.Sync(), errInjected, "log 3 is not safe and never will be")
	require.ErrorIs(t, s.SyncClosed(), errInjected)
	require.Equal(t, "1 2", recovered(t, fs, AbsoluteConsistency, 0, 3, 4))
	require.Equal(t, []uint64{3}, s.DropBelow(4))
	require.NoError(t, appendSynced(s, put(3, 20)))
}

func TestAFailedSyncOfAnOlderLogFailsTheWriteThatReliesOnIt(t *testing.T) {
	fs := newFakeFS()
	s := NewSet(fs, "db", Predecessor{})
	require.NoError(t, s.Create(3))
	require.NoError(t, s.Append(put(1, 10)))
	require.NoError(t, s.Create(4))
	require.NoError(t, s.Append(put(2, 10)))
	fs.fail["sync 000003.log"] = true
	require.ErrorIs(t, appendSynced(s, put(3, 10)), errInjected)
	require.ErrorIs(t, s.Append(put(3, 10)), errInjected, "what was refused is in log 4, so nothing may follow it there")
	require.NoError(t, s.Create(5))
	require.NoError(t, s.Append(put(3, 20)))
	require.Equal(t, "1 2 3", recovered(t, fs, AbsoluteConsistency, 0, 3, 4, 5))
}

func TestAFailedDirectorySyncFailsTheWrite(t *testing.T) {
	fs := newFakeFS()
	s := NewSet(fs, "db", Predecessor{})
	require.NoError(t, s.Create(3))
	fs.fail["syncdir"] = true
	require.ErrorIs(t, appendSynced(s, put(1, 10)), errInjected)
	clear(fs.fail)
	require.ErrorIs(t, s.Sync(), errInjected)
}

func TestCreateThatFailsChangesNothing(t *testing.T) {
	fs := newFakeFS()
	s := NewSet(fs, "db", Predecessor{})
	require.NoError(t, s.Create(3))
	for _, what := range []string{"create 000004.log", "write 000004.log"} {
		fs.fail[what] = true
		require.ErrorIs(t, s.Create(4), errInjected)
		require.Equal(t, []uint64{3}, s.Numbers())
		require.Equal(t, []uint64{3}, fs.numbers())
	}
	require.NoError(t, appendSynced(s, put(1, 10)))
	require.NoError(t, s.Create(5))
	require.Error(t, s.Create(5))
	require.NoError(t, appendSynced(s, put(2, 10)))
	require.Equal(t, "1 2", recovered(t, fs, AbsoluteConsistency, 0, 3, 5))
}

func TestBufferedRecordsAreWrittenTogether(t *testing.T) {
	fs := newFakeFS()
	s := NewSet(fs, "db", Predecessor{})
	require.ErrorIs(t, s.Buffer(put(1, 1)), errNoLog)
	require.ErrorIs(t, s.Flush(), errNoLog)
	require.NoError(t, s.Create(3))
	fs.take()
	for seq := kv.Seq(1); seq <= 3; seq++ {
		require.NoError(t, s.Buffer(put(seq, 10)))
	}
	require.NoError(t, s.Sync())
	require.Equal(t, []string{"sync 000003.log", "syncdir"}, fs.take(), "Sync leaves the buffer alone")
	require.NoError(t, s.Flush())
	require.NoError(t, s.Flush())
	require.Equal(t, []string{"write 000003.log"}, fs.take())
	require.NoError(t, s.Buffer(put(4, 10)))
	require.NoError(t, appendSynced(s, put(5, 10)))
	require.Equal(t, []string{"write 000003.log", "sync 000003.log"}, fs.take())
	require.NoError(t, s.Buffer(put(6, 2<<20)))
	require.Equal(t, []string{"write 000003.log"}, fs.take(), "the buffer has its bounds")
	require.NoError(t, s.Buffer(put(7, 10)))
	require.NoError(t, s.Create(4))
	require.Equal(t, []string{"write 000003.log", "create 000004.log", "write 000004.log"}, fs.take())
	require.NoError(t, s.Buffer(put(8, 10)))
	require.NoError(t, s.Close())
	require.Equal(t, "1 2 3 4 5 6 7 8", recovered(t, fs, AbsoluteConsistency, 0, 3, 4))
}

// Buffered records were accepted. When they are lost the later ones must not be taken for their continuation.
func TestLostBufferedRecordsAreAGap(t *testing.T) {
	fs := newFakeFS()
	s := NewSet(fs, "db", Predecessor{})
	require.NoError(t, s.Create(3))
	require.NoError(t, s.Append(put(1, 10)))
	end := len(fs.bytes(3))
	require.NoError(t, s.Buffer(put(2, 10)))
	fs.fail["write 000003.log"] = true
	require.ErrorIs(t, s.Create(4), errInjected, "the buffer could not be written")
	fs.put(3, fs.bytes(3)[:end])
	require.ErrorIs(t, s.Buffer(put(3, 10)), errInjected)
	require.NoError(t, s.Create(4))
	require.NoError(t, s.Append(put(3, 10)))
	require.Equal(t, "1", recovered(t, fs, PointInTimeRecovery, 0, 3, 4))
	require.Equal(t, "refused: gap between logs", recovered(t, fs, AbsoluteConsistency, 0, 3, 4))
}

// While log 3 is being synced its data reaches a table and it is dropped: the file stays open until the sync is done.
func TestALogDroppedDuringItsSyncIsClosedAfterIt(t *testing.T) {
	fs := newFakeFS()
	s := NewSet(fs, "db", Predecessor{})
	require.NoError(t, s.Create(3))
	require.NoError(t, s.Create(4))
	fs.take()
	fs.during = func(name string) {
		if name == "000003.log" {
			require.Equal(t, []uint64{3}, s.DropBelow(4))
			require.NoError(t, s.Append(put(1, 10)), "appends go on")
		}
	}
	require.NoError(t, s.Sync())
	require.Equal(t, []string{"write 000004.log", "sync 000003.log", "sync 000004.log", "syncdir", "close 000003.log"}, fs.take())
	require.NoError(t, s.Sync())
	require.Equal(t, []string{"sync 000004.log"}, fs.take(), "what came during the sync was not covered by it")
}

func TestSetIsUsedFromManyGoroutines(t *testing.T) {
	fs := newFakeFS()
	s := NewSet(fs, "db", Predecessor{})
	require.NoError(t, s.Create(1))
	var wg sync.WaitGroup
	done := make(chan struct{})
	for _, f := range []func(){
		func() { s.Sync() }, func() { s.SyncClosed() }, func() { s.DropBelow(s.Current()) },
		func() { s.TotalSize(); s.Numbers() },
	} {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					f()
				}
			}
		})
	}
	for i := range 300 {
		require.NoError(t, s.Append(put(kv.Seq(i+1), 30)))
		if i%50 == 0 {
			require.NoError(t, s.Sync())
		}
		if i%30 == 29 {
			require.NoError(t, s.Create(uint64(i)))
		}
	}
	close(done)
	wg.Wait()
	require.NoError(t, s.Sync())
	require.NoError(t, s.Close())
}

func TestSetAppendAllocatesNothing(t *testing.T) {
	s := NewSet(newFakeFS(), "db", Predecessor{})
	require.NoError(t, s.Create(3))
	s.writer.file = nullFile{}
	rec := put(1, 1000)
	require.Zero(t, testing.AllocsPerRun(200, func() {
		if s.Append(rec[:12], rec[12:]) != nil {
			panic("failed")
		}
	}))
}
