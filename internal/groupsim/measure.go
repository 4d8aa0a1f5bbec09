package groupsim

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ashlardb/ashlar/writegroup"
)

// Measured is what a group of the real queue took: medians over rounds.
type Measured struct {
	Members int
	Wakes   int // of the leader, to launch
	Launch  time.Duration
	Path    time.Duration // from Prepare's end to the hand-over
	Last    time.Duration // from the launch to the last member's insert
	Told    time.Duration // from Publish to the last member's return
}

// Measure runs groups of n through a writegroup.Queue, whose members sleep when the group is formed, and whose stages
// burn what w says. locked writers are locked to threads. The way's Launch and Done are the same.
func Measure(n, rounds int, way Way, locked bool, w Work) Measured {
	c := &crowd{n: n, work: w, alone: way.Alone, traced: make(chan Measured, n), began: time.Now(), pause: 200*time.Microsecond + time.Duration(n)*2*time.Microsecond}
	if locked {
		c.pause = 2*time.Millisecond + time.Duration(n)*50*time.Microsecond
	}
	q := writegroup.New[int](c)
	q.Wake, q.Trace = way.Done, c.trace
	c.stats = q.Stats
	var all []Measured
	var running sync.WaitGroup
	begin, ended := make([]chan struct{}, n), make(chan time.Duration, n)
	for i := range n {
		begin[i] = make(chan struct{}, 1)
		running.Go(func() {
			if locked {
				runtime.LockOSThread() // and never unlocked: the thread ends with its goroutine
			}
			for range begin[i] {
				c.arrived.Add(1)
				_ = q.Commit(i)
				ended <- time.Since(c.began) - time.Duration(c.published.Load())
			}
		})
	}
	for len(all) < rounds {
		c.arrived.Store(0)
		for _, b := range begin {
			b <- struct{}{}
		}
		var told time.Duration
		for range n {
			told = max(told, <-ended)
		}
		for members := 0; members < n; { // more than one group if somebody was late
			m := <-c.traced
			if members += m.Members; m.Members == n {
				m.Told = told
				all = append(all, m)
			}
		}
	}
	for _, b := range begin {
		close(b)
	}
	running.Wait()
	median := func(of func(Measured) time.Duration) time.Duration {
		d := make([]time.Duration, 0, rounds)
		for _, m := range all {
			d = append(d, of(m))
		}
		slices.Sort(d)
		return d[len(d)/2]
	}
	return Measured{
		Members: n, Wakes: all[0].Wakes,
		Launch: median(func(m Measured) time.Duration { return m.Launch }),
		Path:   median(func(m Measured) time.Duration { return m.Path }),
		Last:   median(func(m Measured) time.Duration { return m.Last }),
		Told:   median(func(m Measured) time.Duration { return m.Told }),
	}
}

// crowd are the stages of a measured queue. Its leader waits in Prepare until all have come and sleep. If one comes later
// still, its group may run while members of the one before read wakes and published; such rounds are not counted.
type crowd struct {
	n         int
	work      Work
	alone     bool
	pause     time.Duration
	arrived   atomic.Int64
	stats     func() writegroup.Stats
	before    uint64       // leader's wakes when the group was launched
	wakes     atomic.Int64 // since
	published atomic.Int64 // when, since began
	began     time.Time
	traced    chan Measured // one for each group, Told left out
}

func (c *crowd) Prepare(int) error {
	for c.arrived.Load() < int64(c.n) {
		time.Sleep(50 * time.Microsecond)
	}
	time.Sleep(c.pause)
	return nil
}

func (c *crowd) Admit(_, _, _, _ int) writegroup.Admission { return writegroup.Join }
func (c *crowd) Size(int) int                              { return 1 }

func (c *crowd) Log(g *writegroup.Group[int]) (spread bool, err error) {
	burn(c.work.Log + time.Duration(g.Len())*c.work.LogEach)
	c.before = c.stats().LeaderWakes
	return !c.alone, nil
}

func (c *crowd) Insert(*writegroup.Group[int], int) error {
	burn(c.work.Insert)
	return nil
}

// Sync is never asked for.
func (c *crowd) Sync() error { return nil }

func (c *crowd) Publish(g *writegroup.Group[int], _ error) {
	burn(c.work.Publish)
	// The leader has counted its wakes before its own insert.
	c.wakes.Store(int64(c.stats().LeaderWakes - c.before))
	c.published.Store(int64(time.Since(c.began)))
}

func (c *crowd) trace(t *writegroup.Times) {
	m := Measured{Members: t.Members, Wakes: int(c.wakes.Load()), Path: t.HandedOver - t.Prepared}
	if len(t.Starts) > 0 {
		m.Launch, m.Last = t.Launched-t.Logged, slices.Max(t.Starts)-t.Logged
	}
	c.traced <- m
}

func burn(d time.Duration) {
	if d > 0 {
		for begin := time.Now(); time.Since(begin) < d; {
		}
	}
}
