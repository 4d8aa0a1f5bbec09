//go:build unix

package ashlar

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/writelab"
	"github.com/ashlardb/ashlar/vfs"
)

// What the constants of write.go were chosen by: values of 100 bytes, random keys, a file system in memory so that the log
// costs a copy, and memtables that are not flushed meanwhile. ns/entry is by the clock on the wall; cpu-ns/entry is what
// all processors spent, which tells two ways apart even beside other work.
//
//	for i in 1 2 3 4 5; do go test -run '^$' -bench '^BenchmarkWriters$' -cpu 1,2 -benchtime 4000x .; done

func BenchmarkWriters(b *testing.B) {
	for _, writers := range []int{1, 8, 16, 64, 256} {
		for _, entries := range []int{1, 8, 64} {
			for _, noLog := range []bool{false, true} {
				for _, from := range []int{-1, 2} {
					if writers == 1 && from > 0 {
						continue // a group of one is never spread
					}
					name := fmt.Sprintf("writers=%d/entries=%d/wal=%v/spread=%v", writers, entries, !noLog, from > 0)
					b.Run(name, func(b *testing.B) {
						benchWriters(b, writers, entries, writelab.Dials{SpreadFrom: from}, &WriteOptions{DisableWAL: noLog})
					})
				}
			}
		}
	}
}

// BenchmarkGroup measures groups of a size: how long it is, from the moment when the leader is elected with everybody
// else asleep behind it, until the last member has returned. p5-ns and p25-ns are quantiles over all groups, low ones, which
// other work on the machine disturbs less.
func BenchmarkGroup(b *testing.B) {
	for _, members := range []int{2, 4, 8, 16, 32, 64, 128, 256} {
		for _, entries := range []int{1, 4, 16, 64} {
			if members*entries > 4096 {
				continue
			}
			for _, from := range []int{-1, 2} {
				b.Run(fmt.Sprintf("members=%d/entries=%d/spread=%v", members, entries, from > 0), func(b *testing.B) {
					benchGroup(b, members, entries, writelab.Dials{SpreadFrom: from})
				})
			}
		}
	}
}

func benchGroup(b *testing.B, members, entries int, dials writelab.Dials) {
	o := &Options{FS: vfs.NewMem()}
	o.WriteBufferSize = 256 << 20
	writelab.Set(o, dials)
	db, err := Open("db", o)
	require.NoError(b, err)
	round := make([]chan struct{}, members)
	var called, left atomic.Int64
	var ended time.Time
	var all sync.WaitGroup
	for i := range round {
		round[i] = make(chan struct{}, 1)
		all.Go(func() {
			r, batch, key := rand.New(rand.NewPCG(uint64(i), 1)), db.NewBatch(), make([]byte, 16)
			value := make([]byte, 100)
			for range round[i] {
				batch.Clear()
				for range entries {
					binary.BigEndian.PutUint64(key, r.Uint64())
					batch.Put(nil, key, value)
				}
				called.Add(1)
				if err := db.Write(batch, nil); err != nil {
					b.Error(err)
				}
				if left.Add(-1) == 0 {
					ended = time.Now()
					called.Store(-1)
				}
			}
		})
	}
	took := make([]time.Duration, 0, b.N)
	for range b.N {
		var released time.Time
		left.Store(int64(members))
		called.Store(0)
		require.NoError(b, db.exclusive(func() error {
			for _, c := range round {
				c <- struct{}{}
			}
			for called.Load() < int64(members) {
				time.Sleep(20 * time.Microsecond)
			}
			time.Sleep(50 * time.Microsecond) // they fall asleep
			released = time.Now()
			return nil
		}))
		for called.Load() >= 0 {
			time.Sleep(20 * time.Microsecond)
		}
		took = append(took, ended.Sub(released))
	}
	for _, c := range round {
		close(c)
	}
	all.Wait()
	s := db.Metrics().WriteQueue
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/20].Nanoseconds()), "p5-ns")
	b.ReportMetric(float64(took[len(took)/4].Nanoseconds()), "p25-ns")
	b.ReportMetric(float64(s.Works)/float64(s.Groups), "works/group")
	b.ReportMetric(0, "ns/op")
	require.NoError(b, db.Close())
}

// BenchmarkPipelined measures plain writes against pipelined ones, of 100 bytes to random keys, on a disk. ns/op is the
// time of a write.
//
//	for i in 1 2 3 4 5; do go test -run '^$' -bench '^BenchmarkPipelined$' -cpu 1,2 -benchtime 20000x .; done
func BenchmarkPipelined(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		for _, mapped := range []MappedWAL{MappedWALOff, MappedWALOn} {
			for _, pipelined := range []bool{false, true} {
				b.Run(fmt.Sprintf("writers=%d/mapped=%v/pipelined=%v", writers, mapped == MappedWALOn, pipelined), func(b *testing.B) {
					benchPipelined(b, writers, mapped, pipelined)
				})
			}
		}
	}
}

func benchPipelined(b *testing.B, writers int, mapped MappedWAL, pipelined bool) {
	db, err := Open(b.TempDir(), &Options{
		WALMapped: mapped, EnablePipelinedWrite: pipelined, ColumnFamilyOptions: ColumnFamilyOptions{WriteBufferSize: 256 << 20},
	})
	require.NoError(b, err)
	var all sync.WaitGroup
	b.ResetTimer()
	for i := range writers {
		all.Go(func() {
			r, key, value := rand.New(rand.NewPCG(uint64(i), 1)), make([]byte, 16), make([]byte, 100)
			for j := i; j < b.N; j += writers {
				binary.BigEndian.PutUint64(key, r.Uint64())
				if err := db.Put(key, value, nil); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	s := db.Metrics().WriteQueue
	b.ReportMetric(float64(s.Works)/float64(s.Groups), "works/group")
	require.NoError(b, db.Close())
}

// BenchmarkMixedWriters has writers of two kinds, of which no leader may take both, or only one: plain ones, and as many
// without a log, or synced, on a disk. b.N is of the second kind; the plain ones write until those are done.
// ns/op is the time of one of the second kind; plain/op is how many plain writes were done in it.
func BenchmarkMixedWriters(b *testing.B) {
	for _, writers := range []int{16, 64, 256} {
		b.Run(fmt.Sprintf("writers=%d/half=unlogged", writers), func(b *testing.B) {
			benchMixed(b, writers, vfs.NewMem(), "db", &WriteOptions{DisableWAL: true})
		})
		b.Run(fmt.Sprintf("writers=%d/half=sync", writers), func(b *testing.B) {
			benchMixed(b, writers, vfs.OS, b.TempDir(), Sync)
		})
	}
}

func benchMixed(b *testing.B, writers int, fsys vfs.FS, dir string, second *WriteOptions) {
	db, err := Open(dir, &Options{FS: fsys, ColumnFamilyOptions: ColumnFamilyOptions{WriteBufferSize: 256 << 20}})
	require.NoError(b, err)
	var plain atomic.Int64
	var done atomic.Bool
	var others, all sync.WaitGroup
	write := func(i int, o *WriteOptions, again func() bool) {
		r, key, value := rand.New(rand.NewPCG(uint64(i), 1)), make([]byte, 16), make([]byte, 100)
		for again() {
			binary.BigEndian.PutUint64(key, r.Uint64())
			if err := db.Put(key, value, o); err != nil {
				b.Error(err)
			}
		}
	}
	b.ResetTimer()
	for i := range writers / 2 {
		all.Go(func() {
			j := i - writers/2
			write(i, second, func() bool { j += writers / 2; return j < b.N })
		})
		others.Go(func() {
			n := int64(-1)
			write(i+writers, nil, func() bool { n++; return !done.Load() })
			plain.Add(n)
		})
	}
	all.Wait()
	b.StopTimer()
	done.Store(true)
	others.Wait()
	s := db.Metrics().WriteQueue
	b.ReportMetric(float64(plain.Load())/float64(b.N), "plain/op")
	b.ReportMetric(float64(s.Works)/float64(s.Groups), "works/group")
	require.NoError(b, db.Close())
}

// benchWriters does b.N batches from that many writers, and reports the time of an entry, and how large groups were.
func benchWriters(b *testing.B, writers, entries int, dials writelab.Dials, w *WriteOptions) {
	o := &Options{FS: vfs.NewMem()}
	o.WriteBufferSize = 256 << 20
	writelab.Set(o, dials)
	db, err := Open("db", o)
	require.NoError(b, err)
	value := make([]byte, 100)
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range writers {
		all.Go(func() {
			r, batch, key := rand.New(rand.NewPCG(uint64(i), 1)), db.NewBatch(), make([]byte, 16)
			<-start
			for j := i; j < b.N; j += writers {
				batch.Clear()
				for range entries {
					for k := range key {
						key[k] = byte(r.Uint32())
					}
					batch.Put(nil, key, value)
				}
				if err := db.Write(batch, w); err != nil {
					b.Error(err)
				}
			}
		})
	}
	b.ResetTimer()
	cpu := processorTime(b)
	close(start)
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(processorTime(b)-cpu)/float64(b.N*entries), "cpu-ns/entry")
	s := db.Metrics().WriteQueue
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*entries), "ns/entry")
	b.ReportMetric(float64(s.Works)/float64(s.Groups), "works/group")
	require.NoError(b, db.Close())
}

// processorTime returns what the process has used so far, in nanoseconds.
func processorTime(b *testing.B) int64 {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}
