package ashlar

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/txnbridge"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/writegroup"
)

func batchOf(t testing.TB, keys ...string) *Batch {
	t.Helper()
	b := new(Batch)
	for _, k := range keys {
		require.NoError(t, b.Put(nil, []byte(k), []byte("v")))
	}
	return b
}

// write-path.md §9, 3 (facebook/rocksdb#4838): a work whose precondition fails drops out of the group alone, be it the
// leader's, and the others reach the log and the memtables.
func TestAFailedPreconditionDropsOneWorkOutOfItsGroup(t *testing.T) {
	m := vfs.NewMem()
	db := mustOpen(t, "db", memOptions(m))
	no := errors.New("no")
	for _, failing := range []string{"first", "middle", "last", "all"} {
		// A group as the leader has it, since nobody can say who will be in one.
		works := []*commit{db.newCommit(batchOf(t, failing+"a")), db.newCommit(batchOf(t, failing+"b")), db.newCommit(batchOf(t, failing+"c"))}
		fails := map[int]bool{0: failing == "first" || failing == "all", 1: failing == "middle" || failing == "all", 2: failing == "last" || failing == "all"}
		for i, c := range works {
			c.check = func(txnbridge.View) error {
				if fails[i] {
					return no
				}
				return nil
			}
		}
		before := db.LatestSequenceNumber()
		q := writegroup.New[*commit](committer{db})
		hold := make(chan struct{})
		var wg sync.WaitGroup
		var errs [3]error
		wg.Go(func() { _ = q.Exclusive(func() error { <-hold; return nil }) })
		for i, c := range works {
			wg.Go(func() { errs[i] = q.Commit(c) })
		}
		close(hold)
		wg.Wait()
		wrote := uint64(0)
		for i, err := range errs {
			_, got := db.Get([]byte(failing+string("abc"[i])), nil)
			if fails[i] {
				require.ErrorIs(t, err, no)
				require.ErrorIs(t, got, ErrNotFound)
				continue
			}
			require.NoError(t, err)
			require.NoError(t, got)
			wrote++
		}
		require.Equal(t, before+wrote, db.LatestSequenceNumber())
	}
	again := mustOpen(t, "db", memOptions(m.Clone()))
	require.Equal(t, readForward(t, db.DefaultColumnFamily()), readForward(t, again.DefaultColumnFamily()))
}

// What a precondition is told of a key: its newest version in memory, and since when memory has every write.
func TestAPreconditionSeesTheNewestVersionInMemory(t *testing.T) {
	db := mustOpen(t, "db", memOptions(vfs.NewMem()))
	latest := func(key string) (seq, since kv.Seq) {
		require.NoError(t, db.writeIf(new(Batch), nil, func(v txnbridge.View) error {
			seq, since = v.Latest(0, []byte(key))
			return nil
		}))
		return seq, since
	}
	require.Equal(t, "0 0", fmt.Sprint(latest("k")))
	require.NoError(t, db.Write(batchOf(t, "a", "k", "k", "z"), nil))
	require.Equal(t, "3 0", fmt.Sprint(latest("k")))
	require.NoError(t, db.Delete([]byte("k"), nil))
	require.Equal(t, "5 0", fmt.Sprint(latest("k")), "a tombstone is a version")
	require.NoError(t, db.Flush(t.Context(), nil))
	require.Equal(t, "0 5", fmt.Sprint(latest("k")))
	require.NoError(t, db.Put([]byte("k"), nil, nil))
	require.Equal(t, "6 5", fmt.Sprint(latest("k")))
	require.NoError(t, db.writeIf(new(Batch), nil, func(v txnbridge.View) error {
		seq, since := v.Latest(77, []byte("k"))
		require.Zero(t, seq+since, "a family that is not there was never written to")
		return nil
	}))
	for key, after := range map[string]kv.Seq{"a": 0, "k": 5} {
		seq, err := db.latestAnywhere([]byte(key), after)
		require.NoError(t, err)
		require.Greater(t, seq, after)
		seq, err = db.latestAnywhere([]byte(key), 6)
		require.NoError(t, err)
		require.LessOrEqual(t, seq, kv.Seq(6))
	}
}

// The works before it in the group count, those that failed do not.
func TestAPreconditionSeesTheWorksBeforeItInTheGroup(t *testing.T) {
	db := mustOpen(t, "db", memOptions(vfs.NewMem()))
	refused := errors.New("written meanwhile")
	ifUnwritten := func(v txnbridge.View) error {
		if seq, _ := v.Latest(0, []byte("k")); seq > 0 {
			return refused
		}
		return nil
	}
	var works []*commit
	for range 8 {
		c := db.newCommit(batchOf(t, "k"))
		c.check = ifUnwritten
		works = append(works, c)
	}
	var wg sync.WaitGroup
	hold := make(chan struct{})
	wg.Go(func() { _ = db.writes.Exclusive(func() error { <-hold; return nil }) })
	var mu sync.Mutex
	done := 0
	for _, c := range works {
		wg.Go(func() {
			err := db.commit(c, nil)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				done++
			} else if !errors.Is(err, refused) {
				t.Error(err)
			}
		})
	}
	close(hold)
	wg.Wait()
	require.Equal(t, 1, done)
}

// heldInserts are the stages of a database whose inserts wait for the gate.
type heldInserts struct {
	committer
	gate chan bool
}

func (h heldInserts) Insert(g *writegroup.Group[*commit], c *commit) error {
	<-h.gate
	return h.committer.Insert(g, c)
}

// With pipelined writes the group before may be in the log and not in the memtables yet: then the precondition waits.
func TestOfTwoWhoClaimAKeyAtOnceOneGetsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := memOptions(vfs.NewMem())
		o.EnablePipelinedWrite = true
		db, err := Open("db", o)
		require.NoError(t, err)
		gate := make(chan bool)
		db.writes = writegroup.New[*commit](heldInserts{committer{db}, gate})
		db.writes.Pipelined = true
		taken, pending := errors.New("taken"), errors.New("not yet")
		errs := []error{pending, pending}
		for n := range errs {
			go func() {
				errs[n] = db.writeIf(batchOf(t, "k"), nil, func(v txnbridge.View) error {
					if seq, since := v.Latest(0, []byte("k")); seq > since {
						return taken
					}
					return nil
				})
			}()
			synctest.Wait()
		}
		require.Equal(t, []error{pending, pending}, errs)
		close(gate)
		synctest.Wait()
		require.Equal(t, []error{nil, taken}, errs)
		require.NoError(t, db.Close())
	})
}
