package txn

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar"
)

// locker is an owner in a test of the table alone.
type locker struct {
	*owner
	t *lockTable
}

func newLocker(t *lockTable, id uint64) locker { return locker{&owner{id: id}, t} }

func (l locker) take(key string, exclusive bool, timeout time.Duration) error {
	return l.t.lock(context.Background(), request{
		owner: l.owner, key: lockKey{0, key}, exclusive: exclusive, timeout: timeout, detect: true,
	})
}

func (l locker) give(key string) { l.t.unlock(l.owner, lockKey{0, key}) }

// later takes a lock in a goroutine of its own, and sends the result.
func (l locker) later(key string, exclusive bool, timeout time.Duration) chan error {
	done := make(chan error, 1)
	go func() { done <- l.take(key, exclusive, timeout) }()
	synctest.Wait()
	return done
}

func pending(t *testing.T, done chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Fatalf("did not wait: %v", err)
	default:
	}
}

func TestLocksAreSharedOrExclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newLockTable(4)
		a, b, c := newLocker(table, 1), newLocker(table, 2), newLocker(table, 3)
		require.NoError(t, a.take("k", true, NoWait))
		require.NoError(t, a.take("k", true, NoWait), "taken again")
		require.NoError(t, a.take("k", false, NoWait), "a share of one's own")
		require.ErrorIs(t, b.take("k", false, NoWait), ashlar.ErrTimedOut)
		require.NoError(t, b.take("other", true, NoWait))
		a.give("k")
		require.NoError(t, b.take("k", false, NoWait))
		require.NoError(t, c.take("k", false, NoWait))
		require.ErrorIs(t, a.take("k", true, NoWait), ashlar.ErrTimedOut)
		b.give("k")
		require.NoError(t, c.take("k", true, NoWait), "the only share becomes the whole")
		require.ErrorIs(t, b.take("k", false, NoWait), ashlar.ErrTimedOut)
		c.give("k")
		c.give("k")
		b.give("other")
		require.Zero(t, table.held())
		require.Empty(t, table.graph.waits)
	})
}

func TestAWaitForALockEndsWhenItsTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newLockTable(1)
		a, b := newLocker(table, 1), newLocker(table, 2)
		require.NoError(t, a.take("k", true, NoWait))
		start := time.Now()
		require.ErrorIs(t, b.take("k", true, 3*time.Second), ashlar.ErrTimedOut)
		require.Equal(t, 3*time.Second, time.Since(start))
		forever := b.later("k", true, WaitForever)
		time.Sleep(1000 * time.Hour)
		pending(t, forever)
		a.give("k")
		require.NoError(t, <-forever)

		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		start = time.Now()
		err := table.lock(ctx, request{owner: a.owner, key: lockKey{0, "k"}, exclusive: true, timeout: WaitForever})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(start))

		closed := a.later("k", true, WaitForever)
		close(table.closing)
		require.ErrorIs(t, <-closed, ashlar.ErrClosed)
		b.give("k")
		require.Zero(t, table.held())
		require.Empty(t, table.graph.waits)
	})
}

func TestAQueueIsServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newLockTable(1)
		a, b, c, d, e := newLocker(table, 1), newLocker(table, 2), newLocker(table, 3), newLocker(table, 4), newLocker(table, 5)
		require.NoError(t, a.take("k", false, NoWait))
		whole := b.later("k", true, WaitForever)
		share := c.later("k", false, WaitForever)
		second := d.later("k", false, WaitForever)
		pending(t, share) // it must not keep b waiting for ever
		a.give("k")
		require.NoError(t, <-whole)
		synctest.Wait()
		pending(t, share)
		hasty := e.later("k", true, time.Second)
		b.give("k")
		require.NoError(t, <-share)
		require.NoError(t, <-second)
		require.ErrorIs(t, <-hasty, ashlar.ErrTimedOut)
		// Who leaves the queue lets those behind him have what he stood in the way of.
		hasty = e.later("k", true, time.Second)
		share = a.later("k", false, WaitForever)
		pending(t, share)
		require.ErrorIs(t, <-hasty, ashlar.ErrTimedOut)
		require.NoError(t, <-share)
		for _, l := range []locker{a, c, d} {
			l.give("k")
		}
		require.Zero(t, table.held())
	})
}

// Bug bank 154: facebook/rocksdb HISTORY, 10.x.
func TestAnUpgradeWaitsForTheOtherShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newLockTable(1)
		a, b, c := newLocker(table, 1), newLocker(table, 2), newLocker(table, 3)
		require.NoError(t, a.take("k", false, NoWait))
		require.NoError(t, b.take("k", false, NoWait))
		start := time.Now()
		err := a.take("k", true, time.Second)
		require.ErrorIs(t, err, ashlar.ErrTimedOut)
		require.NotErrorIs(t, err, ashlar.ErrBusy, "it is no deadlock: b waits for nobody")
		require.Equal(t, time.Second, time.Since(start))

		waiting := c.later("k", true, WaitForever)
		upgrade := a.later("k", true, WaitForever)
		pending(t, upgrade)
		b.give("k")
		require.NoError(t, <-upgrade, "it does not stand in line behind c, who waits for it")
		pending(t, waiting)
		a.give("k")
		require.NoError(t, <-waiting)

		// Two who share and both want it all can never have it.
		c.give("k")
		require.NoError(t, a.take("k", false, NoWait))
		require.NoError(t, b.take("k", false, NoWait))
		upgrade = a.later("k", true, WaitForever)
		err = b.take("k", true, WaitForever)
		var dead *DeadlockError
		require.ErrorAs(t, err, &dead)
		require.ErrorIs(t, err, ashlar.ErrBusy)
		require.Len(t, dead.Cycle, 2)
		require.Equal(t, []uint64{2, 1}, []uint64{dead.Cycle[0].Txn, dead.Cycle[1].Txn})
		b.give("k")
		require.NoError(t, <-upgrade)
	})
}

func TestADeadlockIsFoundWhenItCloses(t *testing.T) {
	for _, n := range []int{2, 3, 7} {
		synctest.Test(t, func(t *testing.T) {
			table := newLockTable(3)
			var all []locker
			var waits []chan error
			for i := range n {
				all = append(all, newLocker(table, uint64(i+1)))
				require.NoError(t, all[i].take(fmt.Sprint("k", i), true, NoWait))
			}
			for i := range n - 1 {
				waits = append(waits, all[i].later(fmt.Sprint("k", i+1), i%2 == 0, WaitForever))
			}
			for _, w := range waits {
				pending(t, w)
			}
			start := time.Now()
			err := all[n-1].take("k0", true, WaitForever)
			var dead *DeadlockError
			require.ErrorAs(t, err, &dead)
			require.Zero(t, time.Since(start))
			require.Len(t, dead.Cycle, n)
			for i, w := range dead.Cycle {
				at := (i + n - 1) % n // the last one closed it
				require.Equal(t, uint64(at+1), w.Txn)
				require.Equal(t, fmt.Sprint("k", (at+1)%n), string(w.Key))
			}
			require.Contains(t, err.Error(), fmt.Sprintf(`deadlock: transaction %d waits for key "k0"`, n))
			// It is out of the way, and the others come through one after the other.
			all[n-1].give(fmt.Sprint("k", n-1))
			for i := n - 2; i >= 0; i-- {
				require.NoError(t, <-waits[i])
				all[i].give(fmt.Sprint("k", i+1))
				all[i].give(fmt.Sprint("k", i))
			}
			require.Zero(t, table.held())
			require.Empty(t, table.graph.waits)
		})
	}
}

// A deadlock may go through those who stand in a queue, and one that looks like one but is over is none.
func TestWhoStandsInFrontCountsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newLockTable(1)
		a, b, c := newLocker(table, 1), newLocker(table, 2), newLocker(table, 3)
		require.NoError(t, a.take("x", false, NoWait))
		require.NoError(t, c.take("y", true, NoWait))
		whole := b.later("x", true, time.Minute)
		share := c.later("x", false, WaitForever) // behind b, who waits for a
		err := a.take("y", true, WaitForever)     // c has it
		var dead *DeadlockError
		require.ErrorAs(t, err, &dead)
		require.Len(t, dead.Cycle, 3)
		require.Equal(t, []uint64{1, 3, 2}, []uint64{dead.Cycle[0].Txn, dead.Cycle[1].Txn, dead.Cycle[2].Txn})
		require.ErrorIs(t, <-whole, ashlar.ErrTimedOut)
		require.NoError(t, <-share)
		synctest.Wait()
		late := a.later("y", true, WaitForever) // now c waits for nobody
		pending(t, late)
		c.give("y")
		require.NoError(t, <-late)
	})
}

func TestAnExpiredOwnerLosesItsLocksToWhoWantsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newLockTable(1)
		a, b := newLocker(table, 1), newLocker(table, 2)
		a.expires = time.Now().Add(time.Second)
		require.NoError(t, a.take("k", true, NoWait))
		require.NoError(t, a.take("l", true, NoWait))
		start := time.Now()
		require.NoError(t, b.take("k", true, time.Minute))
		require.Equal(t, time.Second, time.Since(start))
		require.Equal(t, expired, a.life.Load())
		a.give("k") // not its own any more
		require.ErrorIs(t, newLocker(table, 3).take("k", true, NoWait), ashlar.ErrTimedOut)
		require.NoError(t, b.take("l", true, NoWait))

		// Who has begun to commit does not expire.
		c := newLocker(table, 4)
		c.expires = time.Now().Add(time.Second)
		require.NoError(t, c.take("m", true, NoWait))
		c.life.Store(ending)
		require.ErrorIs(t, b.take("m", true, time.Minute), ashlar.ErrTimedOut)
	})
}

// Many owners take and give locks at random: no two have what excludes each other, and everybody ends.
func TestLocksExcludeUnderLoad(t *testing.T) {
	table := newLockTable(4)
	const keys = 5
	var readers, writers [keys]atomic.Int32
	var deadlocks, timeouts atomic.Int32
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 3))
			for round := range 300 {
				o := newLocker(table, uint64(g*1000+round))
				mode := [keys]int{} // 1 share, 2 exclusive
				for range 1 + rng.IntN(4) {
					k, exclusive := rng.IntN(keys), rng.IntN(2) == 0
					timeout := WaitForever
					if rng.IntN(4) == 0 {
						timeout = time.Duration(rng.IntN(100)) * time.Microsecond
					}
					err := o.take(fmt.Sprint(k), exclusive, timeout)
					if err != nil {
						if _, ok := err.(*DeadlockError); ok {
							deadlocks.Add(1)
						} else {
							timeouts.Add(1)
						}
						break
					}
					switch {
					case exclusive && mode[k] < 2:
						if mode[k] == 1 {
							readers[k].Add(-1)
						}
						mode[k] = 2
						if writers[k].Add(1) != 1 || readers[k].Load() != 0 {
							t.Errorf("key %d: %d writers, %d readers", k, writers[k].Load(), readers[k].Load())
						}
					case mode[k] == 0:
						mode[k] = 1
						readers[k].Add(1)
						if writers[k].Load() != 0 {
							t.Errorf("key %d: a reader beside a writer", k)
						}
					}
					runtime.Gosched()
				}
				for k, m := range mode {
					switch m {
					case 1:
						readers[k].Add(-1)
					case 2:
						writers[k].Add(-1)
					}
					if m > 0 {
						o.give(fmt.Sprint(k))
					}
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, table.held())
	require.Empty(t, table.graph.waits)
	t.Logf("%d deadlocks, %d timeouts", deadlocks.Load(), timeouts.Load())
}
