package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/ashlardb/ashlar"
)

// randomTransaction adds the same random number to one random key of each of transaction_sets sets, whose sums so stay
// equal if the writes are atomic and nothing else writes between its reads and its write. In one thread, that is; with
// more, updates are lost, for it writes plain batches. Values are decimal numbers, and a key is its set's number, from 1
// on, in four digits, and a number behind it.
func randomTransaction(t *thread) error {
	sets := make([]int64, t.cfg.transactionSets)
	for i := range sets {
		sets[i] = int64(i)
	}
	shuffle := newMersenne(t.seed + uint64(t.id)) // not the thread's, which draws db_bench's keys
	batches := 0
	var batch ashlar.Batch
	var key, value []byte
	for l := t.turns(t.work.updates); l.Next(1); {
		batch.Clear()
		add := 1 + t.rand.Next()%100
		for i := len(sets) - 1; i > 0; i-- {
			j := shuffle.Next() % uint64(i+1)
			sets[i], sets[j] = sets[j], sets[i]
		}
		bytes := 0
		for _, set := range sets {
			key = fmt.Appendf(key[:0], "%04d%d", set+1, t.rand.Next()%uint64(t.cfg.num))
			old := uint64(0)
			var err error
			value, err = t.db.AppendGet(value[:0], key, nil)
			if err == nil {
				if old, err = strconv.ParseUint(string(value), 10, 64); err != nil {
					return fmt.Errorf("value of %q: %w", key, err)
				}
			} else if !errors.Is(err, ashlar.ErrNotFound) {
				return fmt.Errorf("get: %w", err)
			}
			value = strconv.AppendUint(value[:0], old+add, 10)
			if err := batch.Put(nil, key, value); err != nil {
				return fmt.Errorf("put: %w", err)
			}
			bytes += len(key) + len(value)
		}
		if err := t.db.Write(&batch, &t.work.write); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		batches++
		t.stats.bytes += int64(bytes)
		t.stats.Finished(1, opOther)
	}
	t.stats.message = fmt.Sprintf("( batches:%d )", batches)
	return nil
}
