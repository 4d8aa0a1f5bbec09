package main

import (
	"fmt"

	"github.com/ashlardb/ashlar"
)

// beside returns a benchmark whose first thread does one thing and whose others do another.
func beside(first, others func(*thread) error) func(*thread) error {
	return func(t *thread) error {
		if t.id == 0 {
			return first(t)
		}
		return others(t)
	}
}

// writeUntilDone puts random keys into the default family, and deletes ranges of it if flags say so, until every other
// thread has ended, or with finish_after_writes until all writes are done. It is not part of the totals.
func writeUntilDone(t *thread) error {
	return untilDone(t, func(key, value []byte) error { return t.store.Put(nil, key, value, &t.work.write) })
}

// mergeUntilDone is writeUntilDone with merges for puts.
func mergeUntilDone(t *thread) error {
	return untilDone(t, func(key, value []byte) error { return t.store.Merge(nil, key, value, &t.work.write) })
}

func untilDone(t *thread, write func(key, value []byte) error) error {
	t.stats.excluded = true
	m, ranges := t.maker(), t.rangeDeletes()
	var batch ashlar.Batch
	for n := int64(0); !t.crew.failed.Load(); n++ {
		t.pickDatabase()
		if t.cfg.finishAfterWrites && n >= t.work.writes ||
			!t.cfg.finishAfterWrites && t.crew.done.Load() >= int64(t.crew.size-1) {
			break
		}
		key := m.Key(t.rand.Next() % uint64(t.cfg.num))
		value := m.Next()
		t.crew.writeRate.wait(int64(len(key) + len(value)))
		if err := write(key, value); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		t.stats.bytes += int64(len(key) + len(value))
		t.stats.Finished(1, opWrite)
		if ranges.due() {
			batch.Clear()
			if err := ranges.add(&batch, nil, t.rand.Next()%uint64(t.cfg.num)); err != nil {
				return fmt.Errorf("delete range: %w", err)
			}
			if err := t.store.Write(&batch, &t.work.write); err != nil {
				return fmt.Errorf("delete range: %w", err)
			}
			t.stats.Finished(1, opWrite)
		}
	}
	t.notes += ranges.note()
	return nil
}

// scanAgain walks the default family, from the first key again whenever it is through.
func scanAgain(t *thread) error {
	it := t.db.NewIterator(t.cfg.tables.readOptions())
	defer it.Close()
	for l := t.turns(t.work.reads); l.Next(1); {
		if it.Valid() {
			it.Next()
		} else {
			it.SeekToFirst()
		}
		if err := it.Error(); err != nil {
			return fmt.Errorf("scan: %w", err)
		}
		t.stats.Finished(1, opSeek)
	}
	return nil
}
