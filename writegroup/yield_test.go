package writegroup

import (
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOfManyWaitingWritersAFewYieldAndTheOthersSleep(t *testing.T) {
	const waiters, yielders = 8, 3
	f := &fake{spread: func(int) bool { return false }}
	q := New[*work](f)
	q.Yields, q.yielders = math.MaxInt, yielders
	logging, asleep := make(chan struct{}), make(chan struct{})
	f.log = func(g *Group[*work]) error {
		if g.Works()[0].name == 0 {
			close(logging)
			<-asleep
		}
		return nil
	}
	var all sync.WaitGroup
	all.Go(func() { require.NoError(t, q.Commit(&work{})) })
	<-logging
	for i := range waiters {
		all.Go(func() { require.NoError(t, q.Commit(&work{name: i + 1})) })
	}
	for count := 0; count < waiters-yielders; runtime.Gosched() {
		count = 0
		for s := q.newest.Load(); s != nil; s = s.older {
			if s.state.Load() == parked {
				count++
			}
		}
	}
	close(asleep)
	all.Wait()
	s := q.Stats()
	require.EqualValues(t, waiters-yielders, s.Parks)
	require.EqualValues(t, yielders, s.Yields)
	require.Zero(t, q.yielding.Load())
}
