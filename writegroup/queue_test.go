package writegroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// work is what the tests commit. Its stages write down what happened to it.
type work struct {
	name     int
	sync     bool // joins only groups whose leader is sync too
	bound    bool // and closes those that it may not join
	hurry    bool // a stall refuses it
	logErr   error
	seq      int // given by Log
	logged   int
	inserted atomic.Int32
	by       uint64 // goroutine of its Insert
}

// fake are stages whose callbacks a test may replace. What it writes down is not guarded: Log and Publish are alone.
type fake struct {
	prepare func(*work) error
	spread  func(n int) bool
	log     func(g *Group[*work]) error
	insert  func(*work) error
	publish func(g *Group[*work], err error)
	admit   func(next *work) // before the answer
	sync    func() error

	last    int // sequence of the last logged work
	groups  [][]int
	errs    []error
	visible atomic.Int64
}

func (f *fake) Prepare(w *work) error {
	if f.prepare == nil {
		return nil
	}
	return f.prepare(w)
}

func (f *fake) Admit(lead, next *work, _, _ int) Admission {
	if f.admit != nil {
		f.admit(next)
	}
	switch {
	case lead.sync || !next.sync:
		return Join
	case next.bound:
		return CloseGroup
	}
	return PassOver
}

func (f *fake) Size(*work) int { return 1 }

func (f *fake) Log(g *Group[*work]) (spread bool, err error) {
	var names []int
	for i, w := range g.Works() {
		names = append(names, w.name)
		if w.logErr != nil {
			g.Fail(i, w.logErr)
			continue
		}
		f.last++
		w.seq = f.last
		w.logged++
	}
	f.groups = append(f.groups, names)
	if f.log != nil {
		if err := f.log(g); err != nil {
			return true, err
		}
	}
	return f.spread == nil || f.spread(g.Len()), nil
}

func (f *fake) Insert(_ *Group[*work], w *work) error {
	w.inserted.Add(1)
	w.by = goroutine()
	if f.insert == nil {
		return nil
	}
	return f.insert(w)
}

func (f *fake) Sync() error {
	if f.sync == nil {
		return nil
	}
	return f.sync()
}

func (f *fake) Publish(g *Group[*work], err error) {
	f.errs = append(f.errs, err)
	if err == nil {
		for _, w := range g.Works() {
			if w.seq > 0 { // in the order of the log: the last is the highest
				f.visible.Store(int64(w.seq))
			}
		}
	}
	if f.publish != nil {
		f.publish(g, err)
	}
}

// goroutine returns the caller's number.
func goroutine() uint64 {
	var buf [64]byte
	fields := bytes.Fields(buf[:runtime.Stack(buf[:], false)])
	n, _ := strconv.ParseUint(string(fields[1]), 10, 64)
	return n
}

// together commits works so that all but the first queue up, in their order, while the first waits in Prepare. It returns
// their results, and the goroutines they were committed by. To be called in a synctest bubble.
func together(f *fake, q *Queue[*work], works []*work) (errs []error, by []uint64) {
	gate := make(chan struct{})
	inner := f.prepare
	f.prepare = func(w *work) error {
		if w == works[0] {
			<-gate
		}
		if inner != nil {
			return inner(w)
		}
		return nil
	}
	errs, by = make([]error, len(works)), make([]uint64, len(works))
	var all sync.WaitGroup
	for i, w := range works {
		all.Go(func() {
			by[i] = goroutine()
			errs[i] = q.Commit(w)
		})
		synctest.Wait()
	}
	close(gate)
	all.Wait()
	f.prepare = inner
	return errs, by
}

func newWorks(n int) []*work {
	works := make([]*work, n)
	for i := range works {
		works[i] = &work{name: i}
	}
	return works
}

func TestLeaderWakesTwoRootsOfTheGroupAndHelpersTheRest(t *testing.T) {
	for _, n := range []int{1, 2, 19, 20, 23, 100, 1000} {
		for _, spread := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{spread: func(int) bool { return spread }}
				q := New[*work](f)
				var atPublish Stats
				f.publish = func(*Group[*work], error) { atPublish = q.Stats() }
				works := newWorks(n)
				errs, by := together(f, q, works)

				require.Len(t, f.groups, 1)
				for i, w := range works {
					require.NoError(t, errs[i])
					require.Equal(t, i, f.groups[0][i])
					require.EqualValues(t, 1, w.inserted.Load())
					if spread {
						require.Equal(t, by[i], w.by, "each inserts its own")
					} else {
						require.Equal(t, by[0], w.by, "the leader inserts all")
					}
				}
				most := 2 * math.Sqrt(float64(n))
				if n < cascadeFrom {
					most = float64(n - 1)
				}
				rounds := uint64(0)
				if spread {
					require.LessOrEqual(t, float64(atPublish.LeaderWakes), most)
					require.EqualValues(t, n-1, atPublish.LeaderWakes+atPublish.HelperWakes)
					rounds = 1
				} else {
					require.Zero(t, atPublish.LeaderWakes+atPublish.HelperWakes)
				}
				synctest.Wait() // for helpers that count their wakes
				after := q.Stats()
				require.LessOrEqual(t, float64(after.LeaderWakes-atPublish.LeaderWakes), most, "to say done")
				require.EqualValues(t, (rounds+1)*uint64(n-1), after.LeaderWakes+after.HelperWakes)
				require.EqualValues(t, 1, after.Groups)
				require.EqualValues(t, n, after.Works)
			})
		}
	}
}

func TestLeaderWakesAllWhenToldTo(t *testing.T) {
	for _, spread := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{spread: func(int) bool { return spread }}
			q := New[*work](f)
			q.Wake = WakeOneByOne
			errs, by := together(f, q, newWorks(100))
			synctest.Wait()
			for _, err := range errs {
				require.NoError(t, err)
			}
			s := q.Stats()
			require.Zero(t, s.HelperWakes)
			require.EqualValues(t, 99*(1+s.Spread), s.LeaderWakes)
			require.Len(t, by, 100)
		})
	}
}

func TestTraceTellsWhenAGroupGotWhere(t *testing.T) {
	for _, n := range []int{1, 5, 40} {
		for _, spread := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
				f := &fake{spread: func(int) bool { return spread }}
				q := New[*work](f)
				var all []Times
				q.Trace = func(tm *Times) { all = append(all, *tm) }
				traced := false
				f.prepare = func(w *work) error { traced = w.name == 0; time.Sleep(ms(1)); return nil }
				f.log = func(*Group[*work]) error { time.Sleep(ms(2)); return nil }
				f.insert = func(*work) error { time.Sleep(ms(3)); return nil }
				f.publish = func(*Group[*work], error) { time.Sleep(ms(4)) }
				together(f, q, newWorks(n))
				synctest.Wait()
				require.True(t, traced)
				require.Len(t, all, 1)
				tm := all[0]
				require.Equal(t, ms(1), tm.Prepared-tm.Elected)
				require.Equal(t, tm.Prepared, tm.Gathered)
				require.Equal(t, ms(2), tm.Logged-tm.Gathered)
				require.Equal(t, ms(4), tm.Published-tm.Inserted)
				require.Equal(t, tm.Published, tm.HandedOver)
				require.Equal(t, tm.HandedOver, tm.Told)
				require.Zero(t, tm.Handed)
				require.Equal(t, n, tm.Members)
				require.Equal(t, WakeSquareRoot.Stride(n), tm.Stride)
				if spread && n > 1 {
					require.Equal(t, tm.Logged, tm.Launched)
					require.Equal(t, ms(3), tm.Inserted-tm.Logged, "side by side")
					require.Len(t, tm.Starts, n)
					for _, start := range tm.Starts {
						require.Equal(t, tm.Logged, start)
					}
				} else {
					require.Equal(t, ms(3*n), tm.Inserted-tm.Logged, "one after the other")
					require.Empty(t, tm.Starts)
				}
			})
		}
	}
}

func TestTraceTellsWhoWasHandedTheLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		q := New[*work](f)
		var mu sync.Mutex
		var all []Times
		q.Trace = func(tm *Times) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, *tm)
		}
		works := newWorks(3)
		works[1].sync, works[1].bound = true, true
		f.publish = func(*Group[*work], error) { time.Sleep(time.Second) }
		together(f, q, works)
		synctest.Wait()
		require.Len(t, all, 2)
		if all[0].Handed != 0 { // they end at about the same time
			all[0], all[1] = all[1], all[0]
		}
		require.Zero(t, all[0].Handed)
		require.Equal(t, all[1].Elected, all[1].Handed)
		require.GreaterOrEqual(t, all[1].Handed, all[0].Published)
	})
}

func TestGroupIsPublishedOnceAfterEveryInsertAndBeforeAnyReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inserted, published, returned atomic.Int32
		f := &fake{}
		f.insert = func(w *work) error {
			time.Sleep(time.Duration(w.name%7) * time.Millisecond)
			inserted.Add(1)
			return nil
		}
		f.publish = func(g *Group[*work], err error) {
			require.EqualValues(t, 50, inserted.Load())
			time.Sleep(time.Second)
			require.Zero(t, returned.Load())
			published.Add(1)
		}
		q := New[*work](f)
		gate := make(chan struct{})
		f.prepare = func(*work) error { <-gate; return nil }
		for _, w := range newWorks(50) {
			go func() {
				require.NoError(t, q.Commit(w))
				require.EqualValues(t, 1, published.Load())
				returned.Add(1)
			}()
		}
		synctest.Wait()
		close(gate)
		synctest.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 50, returned.Load())
	})
}

func TestOldestPassedOverLeadsTheNextGroup(t *testing.T) {
	for _, c := range []struct {
		sync, bound []int
		want        string
	}{
		{sync: []int{3, 6}, want: "[[0 1 2 4 5 7] [3 6]]"},    // nobody before them leads a synced group
		{sync: []int{3, 6, 7}, want: "[[0 1 2 4 5] [3 6 7]]"}, // the newest is passed over
		{sync: []int{1, 2}, want: "[[0 3 4 5 6 7] [1 2]]"},    // the newest goes ahead
		{sync: []int{1, 3, 5}, want: "[[0 2 4 6 7] [1 3 5]]"}, // each other
		{sync: []int{1, 2, 3, 4, 5, 6, 7}, want: "[[0] [1 2 3 4 5 6 7]]"},
		{sync: []int{0, 3}, want: "[[0 1 2 3 4 5 6 7]]"},
		{sync: []int{1, 3}, bound: []int{3}, want: "[[0 2] [1 3 4 5 6 7]]"}, // 3 closes the group
		{sync: []int{1}, bound: []int{1}, want: "[[0] [1 2 3 4 5 6 7]]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{}
			q := New[*work](f)
			works := newWorks(8)
			for _, i := range c.sync {
				works[i].sync = true
			}
			for _, i := range c.bound {
				works[i].bound = true
			}
			var leaders []int
			f.prepare = func(w *work) error { leaders = append(leaders, w.name); return nil }
			errs, _ := together(f, q, works)
			for i, err := range errs {
				require.NoError(t, err)
				require.EqualValues(t, 1, works[i].inserted.Load())
			}
			require.Equal(t, c.want, fmt.Sprint(f.groups))
			require.Len(t, leaders, len(f.groups))
			require.Nil(t, q.newest.Load())
		})
	}
}

// While the group is formed others come, behind a newest that goes ahead of those passed over.
func TestWritersWhoComeWhileOthersAreMovedStayInOrder(t *testing.T) {
	for at := 1; at < 6; at++ { // which one is asked when they come
		synctest.Test(t, func(t *testing.T) {
			f := &fake{}
			q := New[*work](f)
			works := newWorks(9)
			works[1].sync, works[3].sync, works[7].sync = true, true, true
			var late sync.WaitGroup
			f.admit = func(next *work) {
				if next.name != at || len(f.groups) > 0 {
					return
				}
				for _, w := range works[6:] {
					was := q.newest.Load()
					late.Go(func() { require.NoError(t, q.Commit(w)) })
					for q.newest.Load() == was {
						runtime.Gosched()
					}
				}
			}
			errs, _ := together(f, q, works[:6])
			late.Wait()
			for _, err := range errs {
				require.NoError(t, err)
			}
			require.Equal(t, "[0 2 4 5]", fmt.Sprint(f.groups[0][:4]))
			var rest []int
			for _, g := range f.groups {
				rest = append(rest, g...)
			}
			if len(f.groups[0]) == 4 {
				require.Equal(t, "[[0 2 4 5] [1 3 6 7 8]]", fmt.Sprint(f.groups))
			} else { // the last was moved, and its links showed who had come
				require.Equal(t, "[[0 2 4 5 6 8] [1 3 7]]", fmt.Sprint(f.groups))
			}
			require.Len(t, rest, 9)
			require.Nil(t, q.newest.Load())
		})
	}
}

// Unsynced writers never cease to come, and each group passes the synced ones over: none of them waits for longer than
// it takes those before it to lead.
func TestNobodyIsPassedOverForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		f.log = func(*Group[*work]) error { time.Sleep(time.Millisecond); return nil }
		q := New[*work](f)
		var stop atomic.Bool
		var all, synced sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				for !stop.Load() {
					require.NoError(t, q.Commit(&work{name: i}))
				}
			})
		}
		time.Sleep(time.Second)
		for i := range 5 {
			synced.Go(func() {
				before := q.Stats().Groups
				require.NoError(t, q.Commit(&work{name: 100 + i, sync: true}))
				require.LessOrEqual(t, q.Stats().Groups-before, uint64(3), "the group that ran, its members' next, and ours")
			})
		}
		synced.Wait()
		stop.Store(true)
		all.Wait()
	})
}

func TestExclusiveIsNotPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		q := New[*work](f)
		gate := make(chan struct{})
		f.prepare = func(w *work) error {
			if w.name == 0 {
				<-gate
			}
			return nil
		}
		works := newWorks(6)
		works[1].sync = true
		var all sync.WaitGroup
		for i, w := range works {
			if i == 4 {
				all.Go(func() {
					require.NoError(t, q.Exclusive(func() error {
						require.Equal(t, "[[0 2 3] [1]]", fmt.Sprint(f.groups))
						return nil
					}))
				})
				synctest.Wait()
			}
			all.Go(func() { require.NoError(t, q.Commit(w)) })
			synctest.Wait()
		}
		close(gate)
		all.Wait()
		require.Equal(t, "[[0 2 3] [1] [4 5]]", fmt.Sprint(f.groups))
	})
}

func TestGroupFormsAfterPrepareAndTakesThoseWhoCameMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		q := New[*work](f)
		first := true
		f.prepare = func(*work) error {
			if first {
				first = false
				time.Sleep(time.Hour)
			}
			return nil
		}
		var all sync.WaitGroup
		for i, w := range newWorks(5) {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Minute)
				require.NoError(t, q.Commit(w))
			})
		}
		all.Wait()
		require.Equal(t, "[[0 1 2 3 4]]", fmt.Sprint(f.groups))
	})
}

func TestVisibleNeverGoesBack(t *testing.T) {
	for _, pipelined := range []bool{false, true} {
		visibleStress(t, pipelined)
	}
}

func visibleStress(t *testing.T, pipelined bool) {
	f := &fake{spread: func(n int) bool { return n%2 == 0 }}
	q := New[*work](f)
	q.Pipelined = pipelined
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	readers.Go(func() {
		for seen := int64(0); ; {
			now := f.visible.Load()
			if now < seen {
				t.Errorf("a reader saw %d after %d", now, seen)
			}
			seen = now
			select {
			case <-stop:
				return
			default:
				runtime.Gosched()
			}
		}
	})
	for range 32 {
		writers.Go(func() {
			for range 300 {
				w := &work{}
				if err := q.Commit(w); err != nil {
					t.Error(err)
				}
				if now := f.visible.Load(); now < int64(w.seq) {
					t.Errorf("visible is %d after the commit of %d", now, w.seq)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
}

func TestWorkThatFailsInLogFailsAlone(t *testing.T) {
	for _, n := range []int{1, 5, 40} {
		for _, spread := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				dropped := errors.New("family dropped")
				f := &fake{spread: func(int) bool { return spread }}
				q := New[*work](f)
				works := newWorks(n)
				for i := 0; i < n; i += 3 { // leader and helpers among them
					works[i].logErr = dropped
				}
				f.publish = func(g *Group[*work], err error) {
					require.NoError(t, err)
					require.Equal(t, dropped, g.Err(0))
				}
				errs, _ := together(f, q, works)
				require.Len(t, f.groups, 1)
				for i, w := range works {
					if i%3 == 0 {
						require.Equal(t, dropped, errs[i])
						require.Zero(t, w.inserted.Load())
					} else {
						require.NoError(t, errs[i])
						require.EqualValues(t, 1, w.inserted.Load())
					}
				}
			})
		}
	}
}

func TestErrorOfLogOrInsertFailsTheWholeGroup(t *testing.T) {
	broken := errors.New("broken")
	for _, n := range []int{1, 5, 40} {
		for _, spread := range []bool{false, true} {
			for _, stage := range []string{"log", "insert", "panic in Log", "panic in Insert", "panic in Publish"} {
				inBothQueues(t, func(t *testing.T, s *syncing, q *Queue[*work]) {
					f := &fake{spread: func(int) bool { return spread }}
					q.stages = f
					own := errors.New("own")
					works := newWorks(n)
					last := works[n-1]
					if n > 1 {
						works[0].logErr = own
					}
					active := true
					switch stage {
					case "log", "panic in Log":
						f.log = func(*Group[*work]) error {
							if active && stage == "log" {
								return broken
							} else if active {
								panic(broken)
							}
							return nil
						}
					case "insert", "panic in Insert":
						f.insert = func(w *work) error {
							if w == last && stage == "insert" {
								return broken
							} else if w == last {
								panic(broken)
							}
							return nil
						}
					case "panic in Publish":
						f.publish = func(*Group[*work], error) {
							if active {
								panic(broken)
							}
						}
					}
					errs, _ := together(f, q, works)
					require.Len(t, f.errs, 1, "published once")
					for i, err := range errs {
						if i == 0 && n > 1 {
							require.Equal(t, own, err)
							continue
						}
						require.ErrorIs(t, err, broken)
						var p *PanicError
						if errors.As(err, &p) {
							require.Equal(t, stage, "panic in "+p.Stage)
							require.Equal(t, stage+": broken", err.Error())
							require.NotEmpty(t, p.Stack)
						}
						if stage != "panic in Publish" {
							require.Equal(t, err, f.errs[0])
						}
					}
					if stage == "log" || stage == "panic in Log" {
						require.Zero(t, last.inserted.Load())
					}
					active = false
					require.NoError(t, q.Commit(&work{name: -1}), "the queue goes on")
				})
			}
		}
	}
}

func TestLeaderThatFailsInPrepareFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		q := New[*work](f)
		f.prepare = func(w *work) error {
			switch w.name {
			case 0:
				return errors.New("no room")
			case 1:
				panic("bug")
			}
			return nil
		}
		errs, _ := together(f, q, newWorks(6))
		require.EqualError(t, errs[0], "no room")
		require.EqualError(t, errs[1], "panic in Prepare: bug")
		for _, err := range errs[2:] {
			require.NoError(t, err)
		}
		require.Equal(t, "[[2 3 4 5]]", fmt.Sprint(f.groups))
	})
}

// shy panics when it is asked to admit.
type shy struct{ *fake }

func (shy) Admit(_, next *work, _, _ int) Admission {
	if next.name == 2 {
		panic("bug")
	}
	return Join
}

func TestPanicInAdmitFailsTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		q := New[*work](shy{f})
		errs, _ := together(f, q, newWorks(3))
		require.EqualError(t, errs[0], "panic in Admit: bug")
		require.EqualError(t, errs[1], "panic in Admit: bug")
		require.NoError(t, errs[2])
		require.Len(t, f.errs, 2)
	})
}

func TestStallRefusesThoseInAHurryWhetherTheyWaitedOrCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stalled := errors.New("write stall")
		f := &fake{}
		q := New[*work](f)
		begin, end := make(chan struct{}), make(chan struct{})
		first := true
		f.prepare = func(*work) error {
			if !first {
				return nil
			}
			first = false
			<-begin
			q.BeginStall(func(w *work) error {
				if w.hurry {
					return stalled
				}
				return nil
			})
			<-end
			q.EndStall()
			return nil
		}
		works := newWorks(9)
		errs := make([]error, len(works))
		returned := make([]atomic.Bool, len(works))
		commit := func(i int) {
			go func() {
				errs[i] = q.Commit(works[i])
				returned[i].Store(true)
			}()
			synctest.Wait()
		}
		for _, i := range []int{1, 2, 4, 5, 7} { // first, middle, two in a row, newest
			works[i].hurry = true
		}
		commit(0)
		for i := 1; i <= 5; i++ {
			commit(i)
		}
		close(begin)
		synctest.Wait()
		for i := 6; i <= 8; i++ {
			commit(i)
		}
		for i := range works {
			require.Equal(t, works[i].hurry, returned[i].Load(), "work %d", i)
		}
		close(end)
		synctest.Wait()
		for i, w := range works {
			if w.hurry {
				require.Equal(t, stalled, errs[i])
				require.Zero(t, w.logged)
			} else {
				require.NoError(t, errs[i])
			}
		}
		require.Equal(t, "[[0 3 6 8]]", fmt.Sprint(f.groups))
		require.NoError(t, q.Commit(&work{hurry: true}), "no stall any more")
	})
}

func TestCancelledWriterLeavesTheQueueAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		q := New[*work](f)
		gate := make(chan struct{})
		f.prepare = func(w *work) error {
			if w.name == 0 {
				<-gate
			}
			return nil
		}
		works := newWorks(6)
		errs := make([]error, len(works))
		cancel := make([]context.CancelFunc, len(works))
		for i, w := range works {
			var ctx context.Context
			ctx, cancel[i] = context.WithCancel(t.Context())
			go func() { errs[i] = q.CommitContext(ctx, w) }()
			synctest.Wait()
		}
		for _, i := range []int{2, 5, 4} { // middle, newest, then what is newest now
			cancel[i]()
			synctest.Wait()
			require.ErrorIs(t, errs[i], context.Canceled)
		}
		close(gate)
		synctest.Wait()
		require.Equal(t, "[[0 1 3]]", fmt.Sprint(f.groups))
		for _, i := range []int{0, 1, 3} {
			require.NoError(t, errs[i])
			cancel[i]()
		}
	})
}

func TestCancelledLeaderFailsAloneAndHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		q := New[*work](f)
		gate := make(chan struct{})
		f.prepare = func(w *work) error { <-gate; return nil }
		ctx, cancel := context.WithCancel(t.Context())
		works := newWorks(3)
		errs := make([]error, 3)
		go func() { errs[0] = q.CommitContext(ctx, works[0]) }()
		synctest.Wait()
		for i := 1; i < 3; i++ {
			go func() { errs[i] = q.Commit(works[i]) }()
			synctest.Wait()
		}
		cancel()
		close(gate)
		synctest.Wait()
		require.ErrorIs(t, errs[0], context.Canceled)
		require.NoError(t, errs[1])
		require.NoError(t, errs[2])
		require.Equal(t, "[[1 2]]", fmt.Sprint(f.groups))
		require.ErrorIs(t, q.CommitContext(ctx, &work{}), context.Canceled)
	})
}

func TestCancellingDoesNotCountOnceTheGroupIsFormed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		q := New[*work](f)
		ctx, cancel := context.WithCancel(t.Context())
		f.log = func(*Group[*work]) error { cancel(); time.Sleep(time.Second); return nil }
		prepared := make(chan struct{})
		f.prepare = func(*work) error { <-prepared; return nil }
		works := newWorks(2)
		errs := []error{errors.New("none yet"), errors.New("none yet")}
		for i, w := range works {
			go func() { errs[i] = q.CommitContext(ctx, w) }()
			synctest.Wait()
		}
		close(prepared)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []error{nil, nil}, errs)
		require.Equal(t, "[[0 1]]", fmt.Sprint(f.groups))
	})
}

func TestExclusiveRunsAloneBetweenGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		q := New[*work](f)
		gate := make(chan struct{})
		f.prepare = func(w *work) error {
			if w.name == 0 {
				<-gate
			}
			return nil
		}
		full := errors.New("full")
		var all sync.WaitGroup
		for i, w := range newWorks(6) {
			all.Go(func() {
				if i == 3 {
					require.Equal(t, full, q.Exclusive(func() error {
						require.Equal(t, "[[0 1 2]]", fmt.Sprint(f.groups))
						require.EqualValues(t, 3, f.visible.Load())
						time.Sleep(time.Minute)
						require.Len(t, f.groups, 1)
						return full
					}))
					return
				}
				require.NoError(t, q.Commit(w))
			})
			synctest.Wait()
		}
		q.BeginStall(func(*work) error { return nil }) // asks no Exclusive, which has no work
		q.EndStall()
		close(gate)
		all.Wait()
		require.Equal(t, "[[0 1 2] [4 5]]", fmt.Sprint(f.groups))
		require.EqualError(t, q.Exclusive(func() error { panic("bug") }), "panic in Exclusive: bug")
		require.NoError(t, q.Commit(&work{}))
	})
}

func TestEveryWorkIsDoneExactlyOnceUnderStress(t *testing.T) {
	for n, yields := range []int{0, 50, 0, 50} {
		f := &fake{spread: func(n int) bool { return n%3 != 0 }}
		q := New[*work](f)
		q.Yields, q.Pipelined = yields, n >= 2
		if yields > 0 { // once with, once without
			q.Wake = WakeOneByOne
			q.Trace = func(tm *Times) {
				if tm.Elected < tm.Handed || tm.Told < tm.HandedOver || tm.Members == 0 {
					t.Errorf("%+v", *tm)
				}
			}
		}
		own, refused := errors.New("own"), errors.New("refused")
		f.log = func(*Group[*work]) error { runtime.Gosched(); return nil }
		f.prepare = func(w *work) error {
			if w.name%64 == 1 { // as a stalled leader does
				q.BeginStall(func(w *work) error {
					if w.hurry {
						return refused
					}
					return nil
				})
				runtime.Gosched()
				q.EndStall()
			}
			return nil
		}
		inside := 0 // guarded by being exclusive
		var all sync.WaitGroup
		var ok, out atomic.Int64
		for g := range 64 {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(g), 1))
				for i := range 200 {
					w := &work{name: r.IntN(1000), sync: r.IntN(3) == 0, hurry: r.IntN(8) == 0, bound: r.IntN(8) == 0}
					if r.IntN(16) == 0 {
						w.logErr = own
					}
					ctx, cancel := context.Background(), func() {}
					if r.IntN(4) == 0 {
						ctx, cancel = context.WithCancel(ctx)
						go cancel()
					}
					if i%50 == 0 {
						if err := q.Exclusive(func() error { inside++; return nil }); err != nil {
							t.Error(err)
						}
					}
					err := q.CommitContext(ctx, w)
					cancel()
					switch {
					case err == nil:
						ok.Add(1)
						if w.logged != 1 || w.inserted.Load() != 1 || f.visible.Load() < int64(w.seq) {
							t.Errorf("logged %d times, inserted %d times", w.logged, w.inserted.Load())
						}
					case err == own || err == refused || err == context.Canceled:
						out.Add(1)
						if w.logged != 0 || w.inserted.Load() != 0 {
							t.Errorf("%v, and still written", err)
						}
					default:
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 64*200, ok.Load()+out.Load())
		require.Equal(t, 64*4, inside)
		require.EqualValues(t, ok.Load(), f.last)
		require.Nil(t, q.newest.Load(), "the queue is empty")
		s := q.Stats()
		require.EqualValues(t, len(f.groups), s.Groups)
	}
}

func TestStatsCountGroupsBySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		q := New[*work](f)
		for _, n := range []int{1, 1, 3, 4, 100} {
			together(f, q, newWorks(n))
		}
		synctest.Wait()
		s := q.Stats()
		require.EqualValues(t, 5, s.Groups)
		require.EqualValues(t, 109, s.Works)
		require.EqualValues(t, 3, s.Spread)
		require.Equal(t, [16]uint64{0: 2, 1: 1, 2: 1, 6: 1}, s.Sizes)
		require.EqualValues(t, 2*(2+3+99), s.LeaderWakes+s.HelperWakes)
		require.EqualValues(t, s.LeaderWakes+s.HelperWakes, s.Parks+s.Yields)
	})
}
