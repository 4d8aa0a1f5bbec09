package raftapply

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ashlardb/ashlar"
	"github.com/stretchr/testify/require"
)

// rows is a state machine whose entries are so many puts of 24 bytes of key and 100 of value.
type rows struct {
	cf  *ashlar.ColumnFamily
	key []byte
}

func (rows) Hint(Entry) Hint { return 0 }

func (r *rows) Apply(w Writer, e Entry) (Result, error) {
	for i := range int(e.Data[0]) {
		r.key = binary.BigEndian.AppendUint64(append(r.key[:0], make([]byte, 8)...), e.Index%1000)
		r.key = binary.BigEndian.AppendUint64(r.key, uint64(i))
		if err := w.Put(r.cf, r.key, make([]byte, 100)); err != nil {
			return Result{}, err
		}
	}
	return Result{}, nil
}

// bulkEntries is a backlog: entries of 133 puts each, the page's bulk load.
func bulkEntries(from uint64, n int) (all []Entry) {
	for i := range n {
		all = append(all, Entry{Index: from + uint64(i), Term: 1, Data: []byte{keysOfBulkEntry}})
	}
	return all
}

const keysOfBulkEntry = 133

// bound is how many keys of others may be written before the callback of a small entry, with one worker and so many bulk
// regions whose backlog never ends: one turn for each, of a full batch and an entry that came on top of it, and one
// batch more.
func bound(bulk int) uint64 { return uint64(bulk)*(257+2*keysOfBulkEntry) + 64 }

// TestNoBacklogMakesASmallEntryWaitLongerThanTheBound has nine small regions beside bulk ones, and counts, with the
// worker stepped by hand and the small entries coming at random moments.
func TestNoBacklogMakesASmallEntryWaitLongerThanTheBound(t *testing.T) {
	for _, bulk := range []int{1, 4} {
		most := func(size Size, steps int) (most uint64) {
			f := newFixture(t, newEngine(t), func(c *Config) { c.ApplyYieldWriteSize = size })
			for id := RegionID(1); id <= RegionID(bulk+9); id++ {
				_, err := f.Register(id, &rows{cf: f.db.DefaultColumnFamily()}, nil)
				require.NoError(t, err)
			}
			f.db.unwritten = true // this is about turns
			rng := rand.New(rand.NewPCG(1, uint64(bulk)))
			next := make([]uint64, bulk+10)
			sent, done := 0, 0
			for range steps {
				for id := 1; id <= bulk; id++ {
					if lag, err := f.AppliedLag(RegionID(id)); err == nil && lag.Entries < 100 {
						require.NoError(t, f.Send(Task{Region: RegionID(id), Entries: bulkEntries(next[id]+1, 200)}))
						next[id] += 200
					}
				}
				for range rng.IntN(3) {
					id := bulk + 1 + rng.IntN(9)
					next[id]++
					sent++
					require.NoError(t, f.Send(Task{
						Region:  RegionID(id),
						Entries: []Entry{{Index: next[id], Term: 1, Data: []byte{4}}},
						Proposals: []Proposal{{next[id], 1, func(res Result) {
							require.NoError(t, res.Err)
							done++
							most = max(most, res.Foreign)
						}}},
					}))
				}
				f.workers[0].step(false)
			}
			require.Greater(t, done, sent/2)
			return most
		}
		with := most(32*KiB, 1000)
		require.LessOrEqual(t, with, bound(bulk), "%d bulk regions", bulk)
		require.Greater(t, most(NoYield, 50), 15*with, "without yields a small entry waits for the backlog: %d bulk regions", bulk)
	}
}

// TestTheBoundHoldsWithRealWorkers has goroutines for workers and clients. With more workers, each may be in a turn.
func TestTheBoundHoldsWithRealWorkers(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		for _, bulk := range []int{1, 4} {
			e := newEngine(t)
			c := DefaultConfig()
			c.ApplyPoolSize = workers
			s, err := Open(e, &Options{Config: &c, Logger: quiet()})
			require.NoError(t, err)
			var most atomic.Uint64
			var stop atomic.Bool
			var clients sync.WaitGroup
			for id := RegionID(1); id <= RegionID(bulk+9); id++ {
				_, err := s.Register(id, &rows{cf: e.DefaultColumnFamily()}, nil)
				require.NoError(t, err)
			}
			for id := RegionID(1); id <= RegionID(bulk); id++ {
				clients.Go(func() {
					for next := uint64(1); !stop.Load(); next += 100 {
						if err := s.Send(Task{Region: id, Entries: bulkEntries(next, 100)}); err != nil {
							t.Error(err)
						}
						if next > 100 {
							if err := s.WaitApplied(background, id, next-1); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			var small sync.WaitGroup
			for id := RegionID(bulk + 1); id <= RegionID(bulk+9); id++ {
				small.Go(func() {
					for next := uint64(1); next <= 20; next++ {
						done := make(chan Result, 1)
						err := s.Send(Task{
							Region:    id,
							Entries:   []Entry{{Index: next, Term: 1, Data: []byte{4}}},
							Proposals: []Proposal{{next, 1, func(res Result) { done <- res }}},
						})
						if err != nil {
							t.Error(err)
							return
						}
						res := <-done
						if res.Err != nil {
							t.Error(res.Err)
						}
						for seen := most.Load(); res.Foreign > seen && !most.CompareAndSwap(seen, res.Foreign); seen = most.Load() {
						}
					}
				})
			}
			small.Wait()
			stop.Store(true)
			clients.Wait()
			require.NoError(t, s.Close(background))
			if workers == 1 {
				require.LessOrEqual(t, most.Load(), bound(bulk), "%d bulk regions", bulk)
			}
		}
	}
}

// TestNoWakeUpIsLost: after a yield nothing more is sent, and the region goes on; and what is sent as a region becomes idle
// is done. synctest finds out if everybody waits.
func TestNoWakeUpIsLost(t *testing.T) {
	e := newEngine(t)
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		c.ApplyYieldWriteSize, c.MaxBatchKeys = 0, 1
		s, err := Open(e, &Options{Config: &c, Logger: quiet()})
		require.NoError(t, err)
		a := newAdder(e.DB, 1)
		_, err = s.Register(1, a, nil)
		require.NoError(t, err)
		_, err = s.Register(2, newAdder(e.DB, 2), nil)
		require.NoError(t, err)
		f := &fixture{System: s, t: t, next: map[RegionID]uint64{1: 1, 2: 1}}
		f.send(1, repeat(50, opAdd, 0, 0)...)
		synctest.Wait()
		require.EqualValues(t, 50, f.stored(1).Applied)

		var clients sync.WaitGroup
		for id := RegionID(1); id <= 2; id++ {
			clients.Go(func() {
				for i := range 300 {
					task := Task{Region: id, Entries: []Entry{{Index: uint64(i) + 1, Term: 1, Data: command(opAdd, 1, 0)}}}
					if id == 1 {
						task.Entries[0].Index += 50
					}
					done := make(chan struct{})
					task.Proposals = []Proposal{{task.Entries[0].Index, 1, func(Result) { close(done) }}}
					if err := s.Send(task); err != nil {
						t.Error(err)
					}
					<-done
					if i%50 == 0 {
						time.Sleep(time.Microsecond) // of the bubble's clock: let everybody become idle
					}
				}
			})
		}
		clients.Wait()
		require.NoError(t, s.Close(background))
	})
}

// TestAMessageThatComesAtTheEndOfATurnIsDone: it is sent from within the last entry, the Done and the Applied.
func TestAMessageThatComesAtTheEndOfATurnIsDone(t *testing.T) {
	f := newFixture(t, newEngine(t), nil)
	a := f.add(1)
	more := func() { f.send(1, command(opAdd, 1, 0)) }
	a.before = func(e Entry) {
		if e.Index == 1 {
			more()
		}
	}
	task, _ := f.task(1, command(opAdd, 0, 0))
	task.Proposals[0].Done = func(Result) { more() }
	require.NoError(t, f.Send(task))
	said := f.onApplied
	f.onApplied = func(all []Applied) {
		said(all)
		if len(f.said) == 1 {
			more()
		}
	}
	f.run()
	require.EqualValues(t, 4, f.stored(1).Applied)
	require.False(t, f.regions[1].scheduled)
}
