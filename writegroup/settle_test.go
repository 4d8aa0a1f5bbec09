package writegroup

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// syncing are stages where a work with sync asks for one. Each Sync waits at gate for its result, and published has the
// names of the works in the order of Publish; those that failed are negative.
type syncing struct {
	*fake
	gate      chan error
	published []int
}

func newSyncing() (*syncing, *Queue[*work]) {
	s := &syncing{fake: &fake{spread: func(n int) bool { return n > 2 }}, gate: make(chan error)}
	s.log = func(g *Group[*work]) error {
		for _, w := range g.Works() {
			if w.sync {
				g.NeedSync()
			}
		}
		return nil
	}
	s.fake.publish = func(g *Group[*work], err error) {
		for _, w := range g.Works() {
			if w.name++; err != nil {
				w.name = -w.name
			}
			s.published = append(s.published, w.name)
		}
	}
	s.sync = func() error { return <-s.gate }
	return s, New[*work](s)
}

// inBothQueues runs a test in a bubble with a plain queue, and with a pipelined one.
func inBothQueues(t *testing.T, test func(t *testing.T, s *syncing, q *Queue[*work])) {
	for _, pipelined := range []bool{false, true} {
		t.Run(fmt.Sprintf("pipelined=%v", pipelined), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, q := newSyncing()
				q.Pipelined = pipelined
				test(t, s, q)
			})
		})
	}
}

// committing commits works, each when the one before can get no further, and returns where their results will be.
func committing(q *Queue[*work], syncs ...bool) []error {
	errs := make([]error, len(syncs))
	for i, sync := range syncs {
		errs[i] = errors.New("not yet")
		go func() { errs[i] = q.Commit(&work{name: i, sync: sync}) }()
		synctest.Wait()
	}
	return errs
}

func TestGroupsAreLoggedAndInsertedDuringASync(t *testing.T) {
	inBothQueues(t, func(t *testing.T, s *syncing, q *Queue[*work]) {
		errs := committing(q, true, false, false, true, false, true)
		require.Equal(t, "[[0] [1] [2] [3] [4] [5]]", fmt.Sprint(s.groups))
		require.Empty(t, s.published, "nothing before the first one's sync")
		for i := range errs {
			require.EqualError(t, errs[i], "not yet")
		}
		s.gate <- nil
		synctest.Wait()
		require.Equal(t, []int{1, 2, 3}, s.published, "the next one came during the sync, and needs another")
		require.Equal(t, []error{nil, nil, nil}, errs[:3])
		s.gate <- nil
		synctest.Wait()
		require.Equal(t, []int{1, 2, 3, 4, 5, 6}, s.published, "one sync for all who waited")
		require.Equal(t, make([]error, 6), errs)
		require.EqualValues(t, 2, q.Stats().Syncs)
		require.False(t, q.unsettled.some.Load())
		require.NoError(t, q.Commit(&work{}), "the plain way again")
		require.EqualValues(t, 2, q.Stats().Syncs)
	})
}

func TestTraceTellsWhoWaitedForASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newSyncing()
		var mu sync.Mutex
		all := map[int]Times{}
		q.Trace = func(tm *Times) {
			mu.Lock()
			defer mu.Unlock()
			all[len(all)] = *tm
		}
		s.sync = func() error { time.Sleep(time.Second); return nil }
		require.NoError(t, q.Commit(&work{}))
		committing(q, true, false)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, all, 3)
		require.False(t, all[0].Waited)
		for i, tm := range all {
			require.Equal(t, i > 0, tm.Waited)
			require.Equal(t, tm.Inserted, tm.HandedOver)
			require.Equal(t, tm.Published, tm.Told)
			want := time.Duration(0)
			if tm.Waited {
				want = time.Second
			}
			require.Equal(t, want, tm.Published-tm.HandedOver)
		}
	})
}

func TestAFailedSyncFailsItsGroupsAndThoseBegunBehindThem(t *testing.T) {
	for _, panics := range []bool{false, true} {
		inBothQueues(t, func(t *testing.T, s *syncing, q *Queue[*work]) {
			broken := errors.New("broken")
			if panics {
				s.sync = func() error {
					if err := <-s.gate; err != nil {
						panic(err)
					}
					return nil
				}
			}
			errs := committing(q, true, true, false, true)
			late := make(chan bool)
			s.fake.prepare = func(w *work) error {
				if w.sync { // it has begun, and is not logged before the sync fails
					<-late
				}
				return nil
			}
			s.gate <- nil
			synctest.Wait()
			require.Equal(t, []int{1}, s.published)
			begun := committing(q, true)
			s.gate <- broken
			synctest.Wait()
			require.Equal(t, []int{1, -2, -3, -4}, s.published)
			require.NoError(t, errs[0])
			for _, err := range errs[1:] {
				require.ErrorIs(t, err, broken)
			}
			close(late)
			synctest.Wait()
			require.ErrorIs(t, begun[0], broken, "it must not be seen, for what failed would be too")
			require.Equal(t, []int{1, -2, -3, -4, -1}, s.published)
			s.fake.prepare = nil
			after := committing(q, false, true)
			s.gate <- nil
			synctest.Wait()
			require.Equal(t, []error{nil, nil}, after, "Prepare let them in")
		})
	}
}

func TestAFailedInsertFailsTheGroupsBehindIt(t *testing.T) {
	inBothQueues(t, func(t *testing.T, s *syncing, q *Queue[*work]) {
		broken := errors.New("broken")
		s.insert = func(w *work) error {
			if w.name == 2 {
				return broken
			}
			return nil
		}
		errs := committing(q, true, false, true, false, true)
		s.gate <- nil
		synctest.Wait()
		require.Equal(t, []int{1, 2, -3, -4, -5}, s.published)
		require.Equal(t, []error{nil, nil, broken, broken, broken}, errs)
		require.EqualValues(t, 1, q.Stats().Syncs, "none for those that have failed")
	})
}

func TestAGroupThatFailsInLogFailsNoOther(t *testing.T) {
	inBothQueues(t, func(t *testing.T, s *syncing, q *Queue[*work]) {
		broken := errors.New("broken")
		inner := s.log
		s.log = func(g *Group[*work]) error {
			if g.Works()[0].name == 1 {
				return broken
			}
			return inner(g)
		}
		errs := committing(q, true, true, false, false)
		s.gate <- nil
		synctest.Wait()
		require.Equal(t, []int{1, -2, 3, 4}, s.published)
		require.Equal(t, []error{nil, broken, nil, nil}, errs)
	})
}

func TestExclusiveAndDrainWaitForTheSync(t *testing.T) {
	inBothQueues(t, func(t *testing.T, s *syncing, q *Queue[*work]) {
		errs := committing(q, true, true)
		ran := 0
		go q.Exclusive(func() error { ran = len(s.published); return nil })
		synctest.Wait()
		drained := 0
		s.fake.prepare = func(w *work) error {
			q.Drain()
			drained = len(s.published)
			return nil
		}
		go q.Commit(&work{name: 2, sync: true})
		synctest.Wait()
		require.Zero(t, ran)
		s.gate <- nil
		synctest.Wait()
		require.Zero(t, ran)
		s.gate <- nil
		synctest.Wait()
		require.Equal(t, 2, ran)
		require.Equal(t, 2, drained)
		require.Equal(t, []error{nil, nil}, errs)
		s.gate <- nil
		synctest.Wait()
		require.Equal(t, []int{1, 2, 3}, s.published)
	})
}

// A group of many is spread, waits for a sync behind another, and its members are told by its own cascade.
func TestMembersOfAGroupHearOfTheSyncThroughTheirCloser(t *testing.T) {
	for _, n := range []int{1, 2, 3, 40, 300} {
		inBothQueues(t, func(t *testing.T, s *syncing, q *Queue[*work]) {
			first := committing(q, true)
			together := make(chan bool)
			s.fake.prepare = func(*work) error { <-together; return nil }
			syncs := make([]bool, n)
			for i := range syncs {
				syncs[i] = true
			}
			errs := committing(q, syncs...)
			close(together)
			synctest.Wait()
			require.Len(t, s.groups, 2)
			s.gate <- nil
			synctest.Wait()
			require.NoError(t, first[0])
			require.EqualError(t, errs[n-1], "not yet")
			s.gate <- nil
			synctest.Wait()
			require.Equal(t, make([]error, n), errs)
			require.Len(t, s.published, 1+n)
		})
	}
}

// Nothing is acknowledged before a sync that began after it was logged, and visible never goes back.
func TestNothingIsAcknowledgedBeforeItsSyncUnderStress(t *testing.T) {
	for _, pipelined := range []bool{false, true} {
		syncStress(t, pipelined)
	}
}

func syncStress(t *testing.T, pipelined bool) {
	s, q := newSyncing()
	q.Pipelined = pipelined
	var logged, safe atomic.Int64
	inner := s.log
	s.log = func(g *Group[*work]) error {
		err := inner(g)
		logged.Store(int64(s.last))
		return err
	}
	s.sync = func() error {
		upTo := logged.Load()
		for range 20 {
			runtime.Gosched()
		}
		safe.Store(max(safe.Load(), upTo))
		return nil
	}
	last := 0
	s.fake.publish = func(g *Group[*work], err error) {
		for _, w := range g.Works() {
			if w.seq != last+1 {
				t.Errorf("%d is published after %d", w.seq, last)
			}
			last = w.seq
		}
		s.visible.Store(int64(last))
	}
	q.stages = ordered{s}
	var all sync.WaitGroup
	var exclusives atomic.Int64
	for g := range 48 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 7))
			for i := range 200 {
				w := &work{sync: r.IntN(3) == 0}
				if err := q.Commit(w); err != nil {
					t.Error(err)
				}
				if s.visible.Load() < int64(w.seq) || w.sync && safe.Load() < int64(w.seq) {
					t.Errorf("%d is acknowledged, and %d safe", w.seq, safe.Load())
				}
				if i%40 == 0 {
					q.Exclusive(func() error {
						if int64(s.last) != s.visible.Load() {
							t.Error("not everything is published")
						}
						exclusives.Add(1)
						return nil
					})
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 48*5, exclusives.Load())
	require.Equal(t, 48*200, last)
	require.Nil(t, q.newest.Load())
	require.Nil(t, q.unsettled.oldest)
	require.Nil(t, q.line.oldest)
	t.Logf("%d groups, %d syncs", q.Stats().Groups, q.Stats().Syncs)
}

// ordered leaves visible to the test's publish.
type ordered struct{ *syncing }

func (o ordered) Publish(g *Group[*work], err error) { o.fake.publish(g, err) }
