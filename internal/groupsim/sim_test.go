package groupsim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/writegroup"
)

func TestEveryCommitIsDoneOnWhateverMachine(t *testing.T) {
	for _, m := range []func(int) Machine{Threads, Yielding, Goroutines} {
		for _, cores := range []int{1, 2, 160} {
			for _, writers := range []int{1, 2, 20, 60} {
				for _, way := range []Way{OneByOne, Launched, Cascade, Alone} {
					r := Run(m(cores), Typical, writers, way, 150)
					require.Equal(t, 150, r.Commits, "%v %d %v", m(cores), writers, way)
					require.LessOrEqual(t, r.Members(), float64(writers))
					require.Greater(t, r.Time, r.Path)
					require.Equal(t, r, Run(m(cores), Typical, writers, way, 150), "it can be repeated")
				}
			}
		}
	}
}

// A writer alone spends what its work costs, to the nanosecond.
func TestWriterAloneTakesTheSumOfItsSteps(t *testing.T) {
	w := Work{Think: 1, Prepare: 2, Log: 4, LogEach: 8, Insert: 16, Publish: 32}
	for _, way := range []Way{OneByOne, Cascade, Alone} {
		m := Machine{Cores: 1, Switch: 1000}
		r := Run(m, w, 1, way, 10)
		require.EqualValues(t, 1000+10*63, r.Time)
		require.EqualValues(t, 10*62, r.Path)
		require.Equal(t, 10, r.Groups)
		require.Zero(t, r.Wakes)
	}
}

// With a core for each, the times of a group are sums that can be written down.
func TestGroupOfSleepersTakesWhatArithmeticSays(t *testing.T) {
	const wake, hop, sw, log, insert = 1_000, 10_000, 500, 7_000, 3_000
	m := Machine{Cores: 1100, Wake: wake, Hop: hop, Switch: sw}
	w := Work{Log: log, Insert: insert}
	for _, n := range []int{2, 19, 20, 23, 100, 1000} {
		s := writegroup.WakeSquareRoot.Stride(n)
		// One by one: the last of n-1 wakes, a hop, its insert.
		r := RunGroup(m, w, n, OneByOne)
		require.Equal(t, n-1, r.Wakes)
		require.EqualValues(t, (n-1)*wake, r.Launch)
		require.EqualValues(t, (n-1)*wake+hop+sw, r.Last)
		require.EqualValues(t, log+(n-1)*wake+hop+sw+insert, r.Path)
		require.EqualValues(t, (n-1)*wake+hop+sw, r.Told)
		if n < 20 {
			require.Equal(t, r, RunGroup(m, w, n, Cascade))
			continue
		}
		// Cascade: the leader's wakes; and the last helper's, after its own hop.
		r = RunGroup(m, w, n, Cascade)
		leader := s - 1 + (n-1)/s
		require.Equal(t, leader, r.Wakes)
		require.EqualValues(t, leader*wake, r.Launch)
		chain := 0
		for k := 1; k < s; k++ {
			chain = max(chain, k*wake+hop+sw+(n-1-k)/s*wake)
		}
		last := max(chain, leader*wake) + hop + sw
		require.EqualValues(t, last, r.Last)
		require.GreaterOrEqual(t, int(r.Path), log+last)
		require.LessOrEqual(t, int(r.Path), log+last+insert+hop+sw)
		// Launch only: the same to insert, one by one to say done.
		l := RunGroup(m, w, n, Launched)
		require.Equal(t, r.Path, l.Path)
		require.EqualValues(t, (n-1)*wake+hop+sw, l.Told)
	}
}

func TestOneCoreDoesOneThingAtATime(t *testing.T) {
	m := Machine{Cores: 1, Wake: 100, Hop: 5000, Switch: 10}
	r := RunGroup(m, Work{Insert: 1000}, 50, OneByOne)
	require.EqualValues(t, 49*100+50*1000+49*10, r.Path, "no hop: there is no other core to wake")
	require.EqualValues(t, 49*110, r.Told)
}

func TestChainWakesOneCoreAtATime(t *testing.T) {
	m := Machine{Cores: 9, Hop: 1000}
	w := Work{Insert: time.Millisecond}
	require.EqualValues(t, 1000, RunGroup(m, w, 9, OneByOne).Last, "a core for each, all at once")
	m.Chain = true
	require.EqualValues(t, 8*1000, RunGroup(m, w, 9, OneByOne).Last)
}

func TestWhoLooksIsWokenForATouch(t *testing.T) {
	m := Machine{Cores: 64, Wake: 1000, Hop: 10_000, Look: time.Second, Touch: 10}
	r := Run(m, Typical, 64, OneByOne, 640)
	require.Less(t, r.Launch, time.Duration(r.Wakes)*100)
	m.Look = 1
	slow := Run(m, Typical, 64, OneByOne, 640)
	require.EqualValues(t, slow.Wakes*1000, slow.Launch)
	require.Greater(t, slow.Time, r.Time)
	m.Cores = 63 // not one for each
	m.Look = time.Second
	require.EqualValues(t, 1000, func() time.Duration {
		r := Run(m, Typical, 64, OneByOne, 640)
		return r.Launch / time.Duration(r.Wakes)
	}())
}

// The claim: the more writers, the more the cascade brings; with few it changes nothing.
func TestCascadeGainsWithTheNumberOfCores(t *testing.T) {
	before := 0.99
	for _, cores := range []int{8, 32, 96} {
		old := Run(Threads(cores), Typical, cores, OneByOne, 20*cores)
		now := Run(Threads(cores), Typical, cores, Cascade, 20*cores)
		gain := now.PerSecond() / old.PerSecond()
		if cores < 20 {
			require.Equal(t, old, now)
			continue
		}
		require.Greater(t, gain, before, fmt.Sprint(cores))
		before = gain
	}
}

// The real queue makes the wakes that the model counts.
func TestModelCountsTheWakesOfTheRealQueue(t *testing.T) {
	for _, n := range []int{2, 20, 64, 1024} {
		for _, way := range []Way{OneByOne, Cascade} {
			model := RunGroup(Goroutines(2), Typical, n, way)
			real := Measure(n, 3, way, false, Work{})
			require.Equal(t, n, real.Members)
			require.Equal(t, model.Wakes, real.Wakes, "n = %d, %v", n, way)
		}
	}
}

// With threads in place of goroutines the rules are the same.
func TestModelCountsTheWakesOfThreads(t *testing.T) {
	for _, n := range []int{16, 64} {
		for _, way := range []Way{OneByOne, Cascade} {
			require.Equal(t, RunGroup(Threads(2), Typical, n, way).Wakes, Measure(n, 1, way, true, Work{}).Wakes)
		}
	}
}

func TestCalibrationGivesCostsOfEachKind(t *testing.T) {
	for _, kind := range []Kind{GoroutineKind, LockedKind, FutexKind} {
		m, err := Calibrate(kind, 3)
		if err != nil {
			require.Equal(t, FutexKind, kind)
			require.ErrorIs(t, err, ErrNoFutex)
			continue
		}
		require.Positive(t, m.Wake, kind)
		require.GreaterOrEqual(t, m.Hop, time.Duration(0))
		require.GreaterOrEqual(t, m.Switch, time.Duration(0))
		require.Equal(t, kind == GoroutineKind, m.Chain)
	}
}
