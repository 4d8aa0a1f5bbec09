package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/txn"
)

// randomTransaction adds the same random number to one random key of each of transaction_sets sets, whose sums so stay
// equal, if the writes are atomic and nothing else writes between its reads and its write. Values are decimal numbers, and
// a key is its set's number, from 1 on, in four digits, and a number behind it.
//
// With transactions that holds with any number of threads, and verifySums looks. Without, it writes plain batches, and
// with more than one thread updates are lost.
//
// What is drawn from the thread's generator is db_bench's, coin by coin; the order of the sets is not, there too it is
// different with each run.
func randomTransaction(t *thread) error {
	a := &adder{t: t, shuffle: newMersenne(t.seed + uint64(t.id)), sets: make([]int64, t.cfg.transactionSets)}
	for i := range a.sets {
		a.sets[i] = int64(i)
	}
	do := a.batched
	if t.txns != nil {
		do = a.transaction
	}
	for l := t.turns(t.work.updates); l.Next(1); {
		if err := do(); err != nil {
			return err
		}
		a.done++
		t.stats.Finished(1, opOther)
	}
	if t.txns != nil {
		t.stats.message = fmt.Sprintf("( transactions:%d aborts:%d)", a.done, a.aborts)
	} else {
		t.stats.message = fmt.Sprintf("( batches:%d )", a.done)
	}
	return nil
}

// adder does the transactions of one thread.
type adder struct {
	t            *thread
	shuffle      *mersenne // not the thread's, which draws db_bench's keys
	sets         []int64
	batch        ashlar.Batch
	key, value   []byte
	done, aborts int
}

// oneIn throws a die of n sides.
func (a *adder) oneIn(n uint64) bool { return a.t.rand.Below(n) == 0 }

// begin draws the number that is added, and an order of the sets.
func (a *adder) begin() (add uint64) {
	add = 1 + a.t.rand.Next()%100
	for i := len(a.sets) - 1; i > 0; i-- {
		j := a.shuffle.Next() % uint64(i+1)
		a.sets[i], a.sets[j] = a.sets[j], a.sets[i]
	}
	return add
}

// pick draws a key of a set.
func (a *adder) pick(set int64) {
	a.key = fmt.Appendf(a.key[:0], "%04d%d", set+1, a.t.rand.Next()%uint64(a.t.cfg.num))
}

// sum makes the new value of what was read. A key that is not there counts as 0.
func (a *adder) sum(add uint64, old []byte, err error) error {
	before := uint64(0)
	if err == nil {
		if before, err = strconv.ParseUint(string(old), 10, 64); err != nil {
			return fmt.Errorf("value of %q: %w", a.key, err)
		}
	} else if !errors.Is(err, ashlar.ErrNotFound) {
		return fmt.Errorf("get: %w", err)
	}
	a.value = strconv.AppendUint(a.value[:0], before+add, 10)
	a.t.stats.bytes += int64(len(a.key) + len(a.value))
	a.sleep()
	return nil
}

// sleep waits up to transaction_sleep between a read and a write.
func (a *adder) sleep() {
	if most := uint64(a.t.cfg.transactionSleep); most > 0 {
		time.Sleep(time.Duration(a.shuffle.Next()%most) * time.Microsecond)
	}
}

// batched reads, and writes one batch.
func (a *adder) batched() error {
	a.batch.Clear()
	add := a.begin()
	for _, set := range a.sets {
		a.pick(set)
		var err error
		a.value, err = a.t.db.AppendGet(a.value[:0], a.key, nil)
		if err := a.sum(add, a.value, err); err != nil {
			return err
		}
		if err := a.batch.Put(nil, a.key, a.value); err != nil {
			return fmt.Errorf("put: %w", err)
		}
	}
	if err := a.t.store.Write(&a.batch, &a.t.work.write); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// transaction reads and writes in one transaction, which it commits 19 times of 20. One that meets a conflict counts as
// aborted, and is not tried again.
func (a *adder) transaction() error {
	c := a.t.cfg
	x := a.t.txns.Begin(&txn.TxnOptions{
		SetSnapshot: c.transactionSnapshot,
		LockTimeout: max(time.Duration(c.lockTimeout)*time.Millisecond, txn.NoWait),
		// Nor does db_bench ask for it.
		NoDeadlockDetect: true,
		Write:            a.t.work.write,
	})
	defer x.Rollback()
	err := a.within(x)
	if errors.Is(err, ashlar.ErrBusy) || errors.Is(err, ashlar.ErrTimedOut) || errors.Is(err, ashlar.ErrTryAgain) {
		a.aborts++
		return nil
	}
	return err
}

func (a *adder) within(x *txn.Txn) error {
	if a.t.cfg.transactionDB {
		if err := x.SetName(fmt.Sprintf("txn%d-%d", a.t.id, a.done)); err != nil {
			return err
		}
		if x.Snapshot() == nil || a.oneIn(2) {
			x.SetSnapshot()
		}
	}
	add := a.begin()
	for _, set := range a.sets {
		a.pick(set)
		// What is read by Get may change before it is written. With a snapshot that is found out; without, someone's
		// addition would be lost.
		get := x.Get
		if a.oneIn(2) || x.Snapshot() == nil {
			get = x.GetForUpdate
		}
		old, err := get(nil, a.key, nil)
		if err := a.sum(add, old, err); err != nil {
			return err
		}
		remove := x.SingleDelete
		if set%4 == 0 {
			remove = x.Delete
		}
		if err := remove(nil, a.key); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
		if err := x.Put(nil, a.key, a.value); err != nil {
			return fmt.Errorf("put: %w", err)
		}
	}
	if a.t.cfg.transactionDB && !a.oneIn(10) {
		if err := x.Prepare(); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		a.oneIn(20) // db_bench has the commit write a key more then
	}
	if a.oneIn(20) {
		return x.Rollback()
	}
	if err := x.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// verifySums checks that the values of each set have the same sum. Without transactions there is nothing to verify.
func (b *bench) verifySums() error {
	if b.txns == nil {
		return nil
	}
	if err := b.sumsAlike(); err != nil {
		fmt.Fprintln(b.stdout, "RandomTransactionVerify FAILED!!")
		return err
	}
	fmt.Fprintln(b.stdout, "RandomTransactionVerify Success.")
	return nil
}

func (b *bench) sumsAlike() error {
	snapshot := b.db.NewSnapshot()
	defer snapshot.Release()
	first := uint64(0)
	for set := range b.cfg.transactionSets {
		sum := uint64(0)
		it := b.db.Prefix(fmt.Appendf(nil, "%04d", set+1), &ashlar.ReadOptions{Snapshot: snapshot})
		for key, value := range it.All() {
			n, err := strconv.ParseUint(string(value), 10, 64)
			if err != nil {
				return errors.Join(fmt.Errorf("value of %q: %w", key, err), it.Close())
			}
			sum += n
		}
		if err := it.Close(); err != nil {
			return err
		}
		if set == 0 {
			first = sum
		} else if sum != first {
			return fmt.Errorf("RandomTransactionVerify found inconsistent totals: Set[0]: %d, Set[%d]: %d", first, set, sum)
		}
	}
	return nil
}
