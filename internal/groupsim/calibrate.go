package groupsim

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Kind is what writers are.
type Kind uint8

const (
	// GoroutineKind is the engine's.
	GoroutineKind Kind = iota
	// LockedKind are goroutines locked to threads.
	LockedKind
	// FutexKind are threads that sleep on a futex, as those of a C++ program do.
	FutexKind
)

// String returns the kind's name.
func (k Kind) String() string { return [...]string{"goroutines", "locked threads", "futexes"}[k] }

// ErrNoFutex is the error of calibrating futexes where there are none.
var ErrNoFutex = errors.New("only Linux has futexes")

// sleepers is how many are woken in a burst.
const sleepers = 64

// Calibrate measures what a wake costs here, as medians over rounds, and returns a machine with that cost and the cores that
// there are.
//
//	Wake     a burst of wakes, by their number, on all cores
//	Switch   a burst on one core, until all have run, by their number, less Wake
//	Hop      one wake while a core is idle, until it has run, less Switch; 0 with one core
func Calibrate(kind Kind, rounds int) (Machine, error) {
	if kind == FutexKind && !hasFutex {
		return Machine{}, ErrNoFutex
	}
	cores := runtime.GOMAXPROCS(0)
	m := Machine{Name: fmt.Sprintf("%v measured here", kind), Cores: cores, Chain: kind == GoroutineKind}
	m.Wake, _ = bursts(kind, sleepers, rounds, false)
	wake, ran := bursts(kind, sleepers, rounds, true)
	m.Switch = max(ran-wake, 0)
	if cores > 1 {
		_, one := bursts(kind, 1, rounds, false)
		m.Hop = max(one-m.Switch, 0)
	}
	return m, nil
}

// sleeper is one that is woken.
type sleeper interface {
	sleep()
	wake()
}

type onChannel chan struct{}

func (c onChannel) sleep() { <-c }
func (c onChannel) wake()  { c <- struct{}{} }

// bursts wakes n sleepers at a time and returns, by n, what that took the waker, and how long it was until all had run.
// With oneCore they all share one with the waker.
func bursts(kind Kind, n, rounds int, oneCore bool) (wake, ran time.Duration) {
	if oneCore && kind != FutexKind {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	var all sync.WaitGroup
	var up atomic.Int64
	var last atomic.Int64 // when the last one ran, since begin
	var begin time.Time
	group := make([]sleeper, n)
	quit := false
	for i := range group {
		var s sleeper = onChannel(make(chan struct{}, 1))
		if kind == FutexKind {
			s = newFutex()
		}
		group[i] = s
		all.Go(func() {
			if kind != GoroutineKind {
				runtime.LockOSThread() // and never unlocked: the thread ends with its goroutine
			}
			if kind == FutexKind && oneCore {
				pin()
			}
			for {
				s.sleep()
				if quit {
					return
				}
				if up.Add(1) == int64(n) {
					last.Store(int64(time.Since(begin)))
				}
			}
		})
	}
	var wakes, rans []time.Duration
	done := make(chan struct{})
	go func() { // pinned, it must end with its thread
		defer close(done)
		if kind == FutexKind {
			runtime.LockOSThread()
			if oneCore {
				pin()
			}
		}
		for range rounds {
			time.Sleep(time.Millisecond) // they fall asleep
			up.Store(0)
			last.Store(0)
			begin = time.Now()
			for _, s := range group {
				s.wake()
			}
			wakes = append(wakes, time.Since(begin))
			for last.Load() == 0 {
				if oneCore {
					time.Sleep(10 * time.Microsecond)
				}
			}
			rans = append(rans, time.Duration(last.Load()))
		}
		time.Sleep(time.Millisecond)
		quit = true
		for _, s := range group {
			s.wake()
		}
	}()
	<-done
	all.Wait()
	slices.Sort(wakes)
	slices.Sort(rans)
	return wakes[rounds/2] / time.Duration(n), rans[rounds/2] / time.Duration(n)
}
