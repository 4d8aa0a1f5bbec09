package txn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/vfs"
)

func TestATransactionSeesItsOwnWritesAndOthersSeeThemAtOnce(t *testing.T) {
	bothKinds(t, func(t *testing.T, db *DB) {
		users, err := db.base.CreateColumnFamily("users", nil)
		require.NoError(t, err)
		set(t, db, "a", "0")
		set(t, db, "b", "0")
		x := db.Begin(nil)
		put(t, x, "a", "1")
		require.NoError(t, x.Delete(nil, []byte("b")))
		require.NoError(t, x.Put(users, []byte("u"), []byte("1")))
		require.NoError(t, x.SingleDelete(users, []byte("v")))
		require.Equal(t, "1", value(t, x.Get, "a"))
		require.Empty(t, value(t, x.Get, "b"))
		require.Equal(t, map[string]string{"a": "1"}, shown(t, x.NewIterator(nil, nil)))
		require.Equal(t, map[string]string{"u": "1"}, shown(t, x.NewIterator(users, nil)))
		require.Equal(t, map[string]string{"a": "0", "b": "0"}, shown(t, db.NewIterator(nil, nil)))
		require.NoError(t, x.Commit())
		require.Equal(t, map[string]string{"a": "1"}, contents(t, db.DefaultColumnFamily()))
		require.Equal(t, map[string]string{"u": "1"}, contents(t, users))

		y := db.Begin(nil)
		put(t, y, "a", "2")
		require.NoError(t, y.Rollback())
		require.Equal(t, "1", value(t, db.Get, "a"))
		require.ErrorIs(t, y.Merge(nil, []byte("a"), nil), ashlar.ErrInvalidArgument)
		z := db.Begin(nil)
		require.NoError(t, z.Merge(nil, []byte("a"), nil), "it is found at the commit that the default family has no operator")
		require.ErrorIs(t, z.Commit(), ashlar.ErrInvalidArgument)
		require.NoError(t, z.Rollback())
	})
}

func TestATransactionThatIsOverTakesNothing(t *testing.T) {
	bothKinds(t, func(t *testing.T, db *DB) {
		for _, end := range []func(*Txn) error{(*Txn).Commit, (*Txn).Rollback} {
			x := db.Begin(&TxnOptions{SetSnapshot: true})
			put(t, x, "k", "v")
			x.SetSavePoint()
			require.NoError(t, end(x))
			require.NoError(t, x.Rollback(), "as often as one likes")
			require.ErrorIs(t, x.Commit(), ashlar.ErrInvalidArgument)
			require.ErrorIs(t, x.Put(nil, []byte("k"), nil), ashlar.ErrInvalidArgument)
			require.ErrorIs(t, x.RollbackToSavePoint(), ashlar.ErrInvalidArgument)
			_, err := x.Get(nil, []byte("k"), nil)
			require.ErrorIs(t, err, ashlar.ErrInvalidArgument)
			it := x.NewIterator(nil, nil)
			require.False(t, it.SeekToFirst())
			require.ErrorIs(t, it.Close(), ashlar.ErrInvalidArgument)
			x.SetSnapshot()
			require.Nil(t, x.Snapshot())
			x.SetSavePoint()
		}
	})
}

// anomaly is a schedule of two transactions, each of which reads and then writes: first both read, then both write, then
// both commit, as far as nobody has to wait.
type anomaly struct {
	name string
	// steps are those of the first and of the second.
	steps [2]func(x *Txn) []func() error
	// snapshot: both have one.
	snapshot bool
	ok       bool // it is allowed, and both commit; else one fails, or they come one after the other
}

func both(f func(x *Txn) []func() error) [2]func(x *Txn) []func() error {
	return [2]func(x *Txn) []func() error{f, f}
}

var anomalies = []anomaly{
	{"lost update, read for update", both(increment((*Txn).GetForUpdate)), false, false},
	{"lost update, read for a share", both(increment((*Txn).GetForShare)), false, false},
	{"lost update, read from a snapshot", both(increment((*Txn).Get)), true, false},
	{"write skew, plain reads, is allowed", skew("a", "b", (*Txn).Get), true, true},
	{"write skew, reads for update", skew("a", "b", (*Txn).GetForUpdate), false, false},
	{"write skew, reads for a share", skew("a", "b", (*Txn).GetForShare), false, false},
	{"write skew over keys that are not there", skew("new1", "new2", (*Txn).GetForUpdate), false, false},
}

// play runs the schedule and returns how the two ended.
func play(steps [2][]func() error, txns [2]*Txn) (errs [2]error) {
	var turns [2]chan struct{}
	var wg sync.WaitGroup
	for i, x := range txns {
		turns[i] = make(chan struct{}, 10)
		wg.Go(func() {
			for _, step := range append(steps[i], x.Commit) {
				<-turns[i]
				if errs[i] = step(); errs[i] != nil {
					x.Rollback()
					return
				}
			}
		})
	}
	for range len(steps[0]) + 1 {
		for i := range turns {
			turns[i] <- struct{}{}
			synctest.Wait()
		}
	}
	wg.Wait()
	return errs
}

type reader func(x *Txn, cf *ashlar.ColumnFamily, key []byte, o *ashlar.ReadOptions) ([]byte, error)

// increment adds one to "a".
func increment(read reader) func(x *Txn) []func() error {
	return func(x *Txn) []func() error {
		n := 0
		return []func() error{
			func() error {
				v, err := read(x, nil, []byte("a"), nil)
				n, _ = strconv.Atoi(string(v))
				return err
			},
			func() error { return x.Put(nil, []byte("a"), []byte(strconv.Itoa(n+1))) },
		}
	}
}

// skew is two transactions that each read what the other one writes.
func skew(a, b string, read reader) (steps [2]func(x *Txn) []func() error) {
	for i, from := range []string{a, b} {
		to := []string{b, a}[i]
		steps[i] = func(x *Txn) []func() error {
			return []func() error{
				func() error {
					_, err := read(x, nil, []byte(from), nil)
					if errors.Is(err, ashlar.ErrNotFound) {
						return nil
					}
					return err
				},
				func() error { return x.Put(nil, []byte(to), fmt.Append(nil, x.ID())) },
			}
		}
	}
	return steps
}

// What the isolation promises, and write skew, which it does not: see the package's documentation. Locks are waited for
// half a minute.
func TestIsolation(t *testing.T) {
	for _, a := range anomalies {
		for name, pessimistic := range map[string]bool{"optimistic": false, "pessimistic": true} {
			t.Run(a.name+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					db, err := openKind(pessimistic, memOptions(vfs.NewMem()))
					require.NoError(t, err)
					set(t, db, "a", "0")
					set(t, db, "b", "0")
					o := &TxnOptions{SetSnapshot: a.snapshot, LockTimeout: 30 * time.Second}
					x, y := db.Begin(o), db.Begin(o)
					errs := play([2][]func() error{a.steps[0](x), a.steps[1](y)}, [2]*Txn{x, y})
					failed := errors.Join(errs[:]...)
					switch {
					case a.ok:
						require.NoError(t, failed)
					case failed != nil:
						require.True(t, errs[0] == nil || errs[1] == nil, "%v", failed)
						require.True(t, isConflict(failed), "%v", failed)
					default:
						require.Equal(t, "lost update, read for update, pessimistic", a.name+", "+name)
						require.Equal(t, "2", value(t, db.Get, "a"), "one waited for the other, and saw what it wrote")
					}
					mustClose(t, db)
				})
			})
		}
	}
}

func TestReadsWithoutASnapshotSeeWhatIsCommittedThen(t *testing.T) {
	bothKinds(t, func(t *testing.T, db *DB) {
		set(t, db, "k", "1")
		x, y := db.Begin(nil), db.Begin(&TxnOptions{SetSnapshot: true})
		set(t, db, "k", "2")
		require.Equal(t, "2", value(t, x.Get, "k"))
		require.Equal(t, "1", value(t, y.Get, "k"))
		require.Equal(t, map[string]string{"k": "1"}, shown(t, y.NewIterator(nil, nil)))
		s := db.NewSnapshot()
		defer s.Release()
		v, err := y.Get(nil, []byte("k"), &ashlar.ReadOptions{Snapshot: s})
		require.NoError(t, err)
		require.Equal(t, "2", string(v), "the read options' snapshot counts first")
		y.SetSnapshot()
		require.Equal(t, "2", value(t, y.Get, "k"))
		require.NotNil(t, y.Snapshot())
		set(t, db, "k", "3")
		y.ClearSnapshot()
		require.Equal(t, "3", value(t, y.Get, "k"))
		require.NoError(t, x.Rollback())
		require.NoError(t, y.Commit())
	})
}

// A key written after the snapshot is a conflict, wherever its newest version is by then.
func TestWritingWhatChangedAfterTheSnapshotIsAConflict(t *testing.T) {
	for _, where := range []string{"memtable", "table", "bottom"} {
		bothKinds(t, func(t *testing.T, db *DB) {
			ctx := context.Background()
			set(t, db, "k", "1")
			set(t, db, "other", "1")
			x := db.Begin(&TxnOptions{SetSnapshot: true})
			set(t, db, "k", "2")
			switch where {
			case "table":
				require.NoError(t, db.base.Flush(ctx, nil))
			case "bottom":
				require.NoError(t, db.base.CompactRange(ctx, nil, nil, &ashlar.CompactRangeOptions{ForceBottommost: true}))
			}
			err := x.Put(nil, []byte("k"), []byte("3"))
			if db.locks != nil {
				require.ErrorIs(t, err, ashlar.ErrBusy)
				require.Zero(t, db.locks.held(), "the lock was given back")
				require.NoError(t, x.Put(nil, []byte("other"), []byte("2")), "it was not written after the snapshot")
				require.NoError(t, x.Commit())
				return
			}
			require.NoError(t, err)
			err = x.Commit()
			if where == "memtable" {
				require.ErrorIs(t, err, ashlar.ErrBusy)
			} else {
				require.ErrorIs(t, err, ashlar.ErrTryAgain, "the memtables do not reach back far enough")
			}
			require.Equal(t, "2", value(t, db.Get, "k"))
			require.NoError(t, x.Rollback())
		})
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		seq, since, at kv.Seq
		want           error
	}{
		{0, 0, 0, nil}, {5, 0, 5, nil}, {6, 0, 5, ashlar.ErrBusy}, {0, 5, 5, nil}, {0, 6, 5, ashlar.ErrTryAgain},
		{7, 6, 5, ashlar.ErrBusy}, {7, 6, 7, nil}, {kv.MaxSeq, 0, 100, ashlar.ErrBusy},
	} {
		err := judge(fakeView{c.seq, c.since}, lockKey{0, "k"}, c.at)
		if c.want == nil {
			require.NoError(t, err, c)
		} else {
			require.ErrorIs(t, err, c.want, c)
		}
	}
}

type fakeView struct{ seq, since kv.Seq }

func (v fakeView) Latest(uint32, []byte) (seq, since kv.Seq) { return v.seq, v.since }

// Bug bank 151, facebook/rocksdb#1431: put, close, reopen, begin, put, commit at once.
func TestATransactionRightAfterOpenCommits(t *testing.T) {
	m := vfs.NewMem()
	db := mustOpen(t, false, m)
	set(t, db, "k", "1")
	mustClose(t, db)
	db = mustOpen(t, false, m)
	for _, o := range []*TxnOptions{nil, {SetSnapshot: true}} {
		x := db.Begin(o)
		v, err := x.GetForUpdate(nil, []byte("k"), nil)
		require.NoError(t, err)
		require.Equal(t, "1", string(v))
		put(t, x, "k", "1")
		require.NoError(t, x.Commit())
		// And right after a memtable was switched.
		require.NoError(t, db.base.Flush(context.Background(), nil))
	}
	cf, err := db.base.CreateColumnFamily("new", nil)
	require.NoError(t, err)
	x := db.Begin(&TxnOptions{SetSnapshot: true})
	set(t, db, "x", "y")
	require.NoError(t, x.Put(cf, []byte("k"), nil))
	require.NoError(t, x.Commit())
}

// A family made after the transaction began has a history from its beginning.
func TestAYoungFamilyHasItsWholeHistory(t *testing.T) {
	db := mustOpen(t, false, vfs.NewMem())
	x := db.Begin(&TxnOptions{SetSnapshot: true})
	set(t, db, "x", "y")
	cf, err := db.base.CreateColumnFamily("new", nil)
	require.NoError(t, err)
	require.NoError(t, x.Put(cf, []byte("k"), nil))
	require.NoError(t, x.Commit())
}

// Bug bank 152, facebook/rocksdb#14168: two transactions on one key commit at the same time, in one write group or in two.
func TestOfTwoOptimisticTransactionsOnOneKeyOneCommits(t *testing.T) {
	db := mustOpen(t, false, vfs.NewMem())
	rounds := 300
	for round := range rounds {
		const n = 4
		var all [n]*Txn
		for i := range all {
			all[i] = db.Begin(nil)
			put(t, all[i], "k", fmt.Sprint(round, i))
		}
		var wg sync.WaitGroup
		var errs [n]error
		for i, x := range all {
			wg.Go(func() { errs[i] = x.Commit() })
			wg.Go(func() { _ = db.Put(nil, fmt.Appendf(nil, "other%d", i), nil, nil) }) // company for the group
		}
		wg.Wait()
		committed := 0
		for i, err := range errs {
			if err == nil {
				committed++
				require.Equal(t, fmt.Sprint(round, i), value(t, db.Get, "k"))
				continue
			}
			require.ErrorIs(t, err, ashlar.ErrBusy)
			require.NoError(t, all[i].Rollback())
		}
		require.Equal(t, 1, committed)
	}
}

// Bug bank 155: db_bench's randomtransaction, with transactions of both kinds and from many goroutines. Each adds the same
// number to one key of each of two sets, whose sums must stay equal.
func TestTheSumsOfRandomTransactionsStayEqual(t *testing.T) {
	bothKinds(t, func(t *testing.T, db *DB) {
		const keys, sets = 8, 2
		var wg sync.WaitGroup
		var done, failed atomic.Int64
		for g := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 9))
				for i := range 60 {
					x := db.Begin(&TxnOptions{SetSnapshot: rng.IntN(2) == 0, LockTimeout: time.Minute})
					if db.locks != nil {
						if err := x.SetName(fmt.Sprintf("%d/%d", g, i)); err != nil {
							t.Error(err)
						}
					}
					err := addToSets(x, rng, keys, sets)
					if err == nil && db.locks != nil && rng.IntN(10) < 9 {
						err = x.Prepare()
					}
					if err == nil && rng.IntN(20) > 0 {
						err = x.Commit()
					}
					if err != nil && !isConflict(err) {
						t.Error(err)
					}
					if err == nil {
						done.Add(1)
					} else {
						failed.Add(1)
					}
					if err := x.Rollback(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		var sums [sets]int
		for s := range sums {
			it := db.DefaultColumnFamily().Prefix(fmt.Appendf(nil, "%04d", s+1), nil)
			for _, v := range it.All() {
				n, err := strconv.Atoi(string(v))
				require.NoError(t, err)
				sums[s] += n
			}
			require.NoError(t, it.Close())
		}
		require.Equal(t, sums[0], sums[1])
		require.NotZero(t, sums[0])
		t.Logf("%d done, %d failed", done.Load(), failed.Load())
	})
}

func addToSets(x *Txn, rng *rand.Rand, keys, sets int) error {
	by := 1 + rng.IntN(100)
	for _, s := range rng.Perm(sets) {
		key := fmt.Appendf(nil, "%04d%d", s+1, rng.IntN(keys))
		v, err := x.GetForUpdate(nil, key, nil)
		if err != nil && !errors.Is(err, ashlar.ErrNotFound) {
			return err
		}
		old, _ := strconv.Atoi(string(v))
		if err := x.SingleDelete(nil, key); err != nil {
			return err
		}
		if err := x.Put(nil, key, strconv.AppendInt(nil, int64(old+by), 10)); err != nil {
			return err
		}
	}
	return nil
}

func TestUpdateTriesAgainUntilItSucceeds(t *testing.T) {
	bothKinds(t, func(t *testing.T, db *DB) {
		const goroutines, rounds = 8, 40
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for range rounds {
					err := db.Update(context.Background(), func(x *Txn) error {
						v, err := x.GetForUpdate(nil, []byte("n"), nil)
						if err != nil && !errors.Is(err, ashlar.ErrNotFound) {
							return err
						}
						n, _ := strconv.Atoi(string(v))
						return x.Put(nil, []byte("n"), strconv.AppendInt(nil, int64(n+1), 10))
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		require.Equal(t, strconv.Itoa(goroutines*rounds), value(t, db.Get, "n"))

		mine := errors.New("mine")
		require.Equal(t, mine, db.Update(context.Background(), func(x *Txn) error {
			put(t, x, "n", "lost")
			return mine
		}))
		require.NoError(t, db.Update(context.Background(), func(x *Txn) error { return x.Rollback() }))
		require.Equal(t, strconv.Itoa(goroutines*rounds), value(t, db.Get, "n"))
		ctx, cancel := context.WithCancel(context.Background())
		tries := 0
		err := db.Update(ctx, func(x *Txn) error {
			if tries++; tries == 3 {
				cancel()
			}
			return fmt.Errorf("still %w", ashlar.ErrBusy)
		})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, ashlar.ErrBusy)
		require.Equal(t, 3, tries)
	})
}

func TestTransactionsDeadlockAndTheCircleIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := openKind(true, memOptions(vfs.NewMem()))
		require.NoError(t, err)
		x, y := db.Begin(nil), db.Begin(nil)
		put(t, x, "a", "x")
		put(t, y, "b", "y")
		done := make(chan error)
		go func() { done <- x.Put(nil, []byte("b"), []byte("x")) }()
		synctest.Wait()
		err = y.Put(nil, []byte("a"), []byte("y"))
		var dead *DeadlockError
		require.ErrorAs(t, err, &dead)
		require.ErrorIs(t, err, ashlar.ErrBusy)
		require.Equal(t, []Wait{
			{Txn: y.ID(), ColumnFamily: "default", Key: []byte("a"), Exclusive: true},
			{Txn: x.ID(), ColumnFamily: "default", Key: []byte("b"), Exclusive: true},
		}, dead.Cycle)
		require.NoError(t, y.Rollback())
		require.NoError(t, <-done)
		require.NoError(t, x.Commit())

		// One that does not look runs into its timeout, as does a plain write.
		o := &TxnOptions{NoDeadlockDetect: true, LockTimeout: time.Second}
		x, y = db.Begin(o), db.Begin(o)
		put(t, x, "a", "x")
		put(t, y, "b", "y")
		go func() { done <- x.Put(nil, []byte("b"), []byte("x")) }()
		require.ErrorIs(t, y.Put(nil, []byte("a"), []byte("y")), ashlar.ErrTimedOut)
		require.ErrorIs(t, <-done, ashlar.ErrTimedOut)
		start := time.Now()
		require.ErrorIs(t, db.Put(nil, []byte("a"), nil, nil), ashlar.ErrTimedOut)
		require.Equal(t, time.Second, time.Since(start))
		require.NoError(t, x.Rollback())
		require.NoError(t, y.Rollback())
		mustClose(t, db)
	})
}

func TestPlainWritesTakeLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := openKind(true, memOptions(vfs.NewMem()))
		require.NoError(t, err)
		x := db.Begin(nil)
		put(t, x, "b", "x")
		done := make(chan error)
		go func() {
			b := db.NewBatch()
			for _, k := range []string{"c", "b", "a", "b"} {
				if err := b.Put(nil, []byte(k), []byte("plain")); err != nil {
					done <- err
				}
			}
			done <- db.Write(b, nil)
		}()
		synctest.Wait()
		require.Empty(t, value(t, db.Get, "a"))
		require.NoError(t, x.Commit())
		require.NoError(t, <-done)
		require.Equal(t, map[string]string{"a": "plain", "b": "plain", "c": "plain"}, contents(t, db.DefaultColumnFamily()))
		require.NoError(t, db.Delete(nil, []byte("a"), nil))
		require.NoError(t, db.SingleDelete(nil, []byte("c"), nil))
		require.Equal(t, map[string]string{"b": "plain"}, contents(t, db.DefaultColumnFamily()))
		mustClose(t, db)
	})
}

func TestSavePointsTakeBackWritesAndLocks(t *testing.T) {
	bothKinds(t, func(t *testing.T, db *DB) {
		x := db.Begin(nil)
		require.ErrorIs(t, x.RollbackToSavePoint(), ashlar.ErrNotFound)
		require.ErrorIs(t, x.PopSavePoint(), ashlar.ErrNotFound)
		put(t, x, "a", "1")
		x.SetSavePoint()
		put(t, x, "a", "2")
		put(t, x, "b", "2")
		x.SetSavePoint()
		put(t, x, "c", "3")
		require.NoError(t, x.PopSavePoint())
		x.SetSavePoint()
		put(t, x, "d", "4")
		require.NoError(t, x.RollbackToSavePoint())
		require.Equal(t, map[string]string{"a": "2", "b": "2", "c": "3"}, shown(t, x.NewIterator(nil, nil)))
		require.NoError(t, x.RollbackToSavePoint())
		require.Equal(t, map[string]string{"a": "1"}, shown(t, x.NewIterator(nil, nil)))
		// The others may be written by everybody again, and that is no conflict.
		for _, k := range []string{"b", "c", "d"} {
			set(t, db, k, "db")
		}
		require.NoError(t, x.Commit())
		require.Equal(t, map[string]string{"a": "1", "b": "db", "c": "db", "d": "db"}, contents(t, db.DefaultColumnFamily()))
	})
}

func TestAnExpiredTransactionFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := openKind(true, memOptions(vfs.NewMem()))
		require.NoError(t, err)
		x := db.Begin(&TxnOptions{Expiration: time.Second})
		put(t, x, "k", "x")
		set(t, db, "other", "1")
		start := time.Now()
		y := db.Begin(nil)
		put(t, y, "k", "y")
		require.Equal(t, time.Second, time.Since(start))
		require.ErrorIs(t, x.Commit(), ashlar.ErrTimedOut)
		require.ErrorIs(t, x.Put(nil, []byte("z"), nil), ashlar.ErrTimedOut)
		require.NoError(t, x.Rollback())
		require.NoError(t, y.Commit())
		require.Equal(t, "y", value(t, db.Get, "k"))
		mustClose(t, db)
	})
}

func TestCloseWithTransactionsOpen(t *testing.T) {
	for _, pessimistic := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			db, err := openKind(pessimistic, memOptions(vfs.NewMem()))
			require.NoError(t, err)
			x, y := db.Begin(nil), db.Begin(&TxnOptions{SetSnapshot: true})
			put(t, x, "k", "v")
			done := make(chan error)
			go func() {
				_, err := y.GetForUpdate(nil, []byte("k"), nil)
				if !pessimistic && errors.Is(err, ashlar.ErrNotFound) {
					err = ashlar.ErrClosed
				}
				done <- err
			}()
			synctest.Wait()
			if pessimistic {
				defer func() { require.Zero(t, db.locks.held()) }()
			} else {
				require.ErrorIs(t, <-done, ashlar.ErrClosed)
				go func() { done <- ashlar.ErrClosed }()
			}
			err = db.Close()
			require.ErrorIs(t, err, ashlar.ErrBusy)
			require.ErrorContains(t, err, "2 open transaction(s)")
			require.ErrorIs(t, <-done, ashlar.ErrClosed)
			require.ErrorIs(t, x.Commit(), ashlar.ErrClosed)
			_, err = x.Get(nil, []byte("k"), nil)
			require.ErrorIs(t, err, ashlar.ErrClosed)
			require.NoError(t, x.Rollback())
			require.NoError(t, y.Rollback())
			z := db.Begin(nil)
			require.ErrorIs(t, z.Put(nil, []byte("k"), nil), ashlar.ErrClosed)
			require.ErrorIs(t, z.Commit(), ashlar.ErrClosed)
			require.NoError(t, z.Rollback())
			require.ErrorIs(t, db.Put(nil, []byte("k"), nil, nil), ashlar.ErrClosed)
			require.ErrorIs(t, db.Close(), ashlar.ErrClosed)
		})
	}
}

// Everything at once, for the race detector: both kinds, many goroutines, flushes, families that come and go.
func TestTransactionsFromManyGoroutines(t *testing.T) {
	bothKinds(t, func(t *testing.T, db *DB) {
		const goroutines, accounts, total = 16, 10, 1000
		set(t, db, "0", strconv.Itoa(total))
		var wg, helpers sync.WaitGroup
		stop := make(chan struct{})
		helpers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := db.base.Flush(context.Background(), nil); err != nil {
					t.Error(err)
				}
				cf, err := db.base.CreateColumnFamily(fmt.Sprint("f", i), nil)
				if err == nil {
					err = db.base.DropColumnFamily(cf)
				}
				if err != nil {
					t.Error(err)
				}
				sum := 0
				it := db.NewIterator(nil, nil)
				for _, v := range it.All() {
					n, _ := strconv.Atoi(string(v))
					sum += n
				}
				if err := it.Close(); err != nil || sum != total {
					t.Errorf("the sum is %d: %v", sum, err)
				}
			}
		})
		for g := range goroutines {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 4))
				for range 25 {
					from, to := strconv.Itoa(rng.IntN(accounts)), strconv.Itoa(rng.IntN(accounts))
					err := db.Update(context.Background(), func(x *Txn) error { return transfer(x, from, to, rng.IntN(50)) })
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		close(stop)
		helpers.Wait()
	})
}

// transfer moves an amount, as far as it is there.
func transfer(x *Txn, from, to string, amount int) error {
	balance := func(key string) (int, error) {
		v, err := x.GetForUpdate(nil, []byte(key), nil)
		if err != nil && !errors.Is(err, ashlar.ErrNotFound) {
			return 0, err
		}
		n, _ := strconv.Atoi(string(v))
		return n, nil
	}
	a, err := balance(from)
	if err != nil {
		return err
	}
	amount = min(amount, a)
	if err := x.Put(nil, []byte(from), []byte(strconv.Itoa(a-amount))); err != nil {
		return err
	}
	b, err := balance(to)
	if err != nil {
		return err
	}
	return x.Put(nil, []byte(to), []byte(strconv.Itoa(b+amount)))
}
