package main

import (
	"errors"
	"fmt"

	"github.com/ashlardb/ashlar"
)

// rateStep is how many reads a thread does between looks at --benchmark_read_rate_limit.
const rateStep = 256

// readRandom gets random keys, each from its family.
func readRandom(t *thread) error {
	m := t.keyOnly()
	var value []byte
	read, found := int64(0), int64(0)
	for l := t.turns(t.work.reads); l.Next(1); {
		t.pickDatabase()
		v := randomKey(t.rand, uint64(t.cfg.num), t.cfg.skew)
		key := m.Key(v)
		read++
		var err error
		value, err = t.family(v).AppendGet(value[:0], key, nil)
		if err == nil {
			found++
			t.stats.bytes += int64(len(key) + len(value))
		} else if !errors.Is(err, ashlar.ErrNotFound) {
			return fmt.Errorf("get: %w", err)
		}
		if read%rateStep == 0 {
			t.crew.readRate.wait(rateStep)
		}
		t.stats.Finished(1, opRead)
	}
	t.stats.message = fmt.Sprintf("(%d of %d found)\n", found, read)
	return nil
}

// multiReadRandom gets batch_size random keys of the default family at a time.
func multiReadRandom(t *thread) error {
	n := int(t.work.batch)
	m := t.keyOnly()
	keys, values, errs := make([][]byte, n), make([][]byte, n), make([]error, n)
	for i := range keys {
		keys[i] = make([]byte, m.keyMaker.size)
	}
	read, found := int64(0), int64(0)
	for l := t.turns(t.work.reads); l.Next(t.work.batch); {
		t.pickDatabase()
		for _, key := range keys {
			m.put(key, randomKey(t.rand, uint64(t.cfg.num), t.cfg.skew))
		}
		t.db.MultiGetTo(values, keys, errs, nil)
		for i, err := range errs {
			if err == nil {
				found++
				t.stats.bytes += int64(len(keys[i]) + len(values[i]))
			} else if !errors.Is(err, ashlar.ErrNotFound) {
				return fmt.Errorf("multiget: %w", err)
			}
		}
		read += t.work.batch
		t.crew.readRate.wait(t.work.batch)
		t.stats.Finished(t.work.batch, opRead)
	}
	t.stats.message = fmt.Sprintf("(%d of %d found)", found, read)
	return nil
}

// scan returns a benchmark that walks the default family from one end.
func scan(forward bool) func(*thread) error {
	return func(t *thread) error {
		it := t.db.NewIterator(nil)
		defer it.Close()
		first, next := it.SeekToFirst, it.Next
		if !forward {
			first, next = it.SeekToLast, it.Prev
		}
		n := int64(0)
		for ok := first(); ok && n < t.work.reads && !t.crew.failed.Load(); ok = next() {
			t.stats.bytes += int64(len(it.Key()) + len(it.Value()))
			n++
			if n%rateStep == 0 {
				t.crew.readRate.wait(rateStep)
			}
			t.stats.Finished(1, opRead)
		}
		return it.Error()
	}
}

// seekRandom makes an iterator of the default family, seeks a random key, and takes seek_nexts steps from there.
func seekRandom(t *thread) error {
	m, limit := t.keyOnly(), t.keyOnly()
	var buffer [256]byte
	read, found := int64(0), int64(0)
	for l := t.turns(t.work.reads); l.Next(1); {
		v := t.rand.Next() % uint64(t.cfg.num)
		var o ashlar.ReadOptions
		if far := uint64(t.cfg.maxScan); far > 0 {
			if t.cfg.reverse {
				o.IterateLowerBound = limit.Key(v - min(v, far))
			} else {
				o.IterateUpperBound = limit.Key(min(v+far, uint64(t.cfg.num)))
			}
		}
		key := m.Key(v)
		it := t.db.NewIterator(&o)
		it.Seek(key)
		read++
		if it.Valid() && string(it.Key()) == string(key) {
			found++
		}
		for n := int64(0); n < t.cfg.seekNexts && it.Valid(); n++ {
			copy(buffer[:], it.Value())
			t.stats.bytes += int64(len(it.Key()) + len(it.Value()))
			if t.cfg.reverse {
				it.Prev()
			} else {
				it.Next()
			}
		}
		if err := it.Close(); err != nil {
			return fmt.Errorf("seek: %w", err)
		}
		if read%rateStep == 0 {
			t.crew.readRate.wait(rateStep)
		}
		t.stats.Finished(1, opSeek)
	}
	t.stats.message = fmt.Sprintf("(%d of %d found)\n", found, read)
	return nil
}

// newIterator makes iterators and closes them.
func newIterator(t *thread) error {
	for l := t.turns(t.work.reads); l.Next(1); {
		if err := t.db.NewIterator(nil).Close(); err != nil {
			return err
		}
		t.stats.Finished(1, opOther)
	}
	return nil
}

// beside returns a benchmark whose first thread does one thing and whose others do another.
func beside(first, others func(*thread) error) func(*thread) error {
	return func(t *thread) error {
		if t.id == 0 {
			return first(t)
		}
		return others(t)
	}
}

// writeUntilDone puts random keys into the default family until every other thread has ended, or with
// finish_after_writes until all writes are done. It is not part of the totals.
func writeUntilDone(t *thread) error {
	t.stats.excluded = true
	m := t.maker()
	for n := int64(0); ; n++ {
		if t.crew.failed.Load() || t.cfg.finishAfterWrites && n >= t.work.writes ||
			!t.cfg.finishAfterWrites && t.crew.done.Load() >= int64(t.crew.size-1) {
			return nil
		}
		t.pickDatabase()
		key := m.Key(t.rand.Next() % uint64(t.cfg.num))
		value := m.Next()
		t.crew.writeRate.wait(int64(len(key) + len(value)))
		if err := t.db.Put(key, value, &t.work.write); err != nil {
			return fmt.Errorf("put: %w", err)
		}
		t.stats.bytes += int64(len(key) + len(value))
		t.stats.Finished(1, opWrite)
	}
}

// scanAgain walks the default family, from the first key again whenever it is through.
func scanAgain(t *thread) error {
	it := t.db.NewIterator(nil)
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

// readRandomWriteRandom does readwritepercent gets of random keys, then puts up to a hundred operations, and again.
func readRandomWriteRandom(t *thread) error {
	m := t.maker()
	var value []byte
	reads, writes, found := 0, 0, 0
	gets, puts := int64(0), int64(0)
	for l := t.turns(t.work.updates); l.Next(1); {
		t.pickDatabase()
		key := m.Key(t.rand.Next() % uint64(t.cfg.num))
		if gets == 0 && puts == 0 {
			gets, puts = t.cfg.readPercent, 100-t.cfg.readPercent
		}
		if gets > 0 {
			gets--
			var err error
			value, err = t.db.AppendGet(value[:0], key, nil)
			if err == nil {
				found++
			} else if !errors.Is(err, ashlar.ErrNotFound) {
				return fmt.Errorf("get: %w", err)
			}
			reads++
			t.stats.Finished(1, opRead)
			continue
		}
		puts--
		if err := t.db.Put(key, m.Next(), &t.work.write); err != nil {
			return fmt.Errorf("put: %w", err)
		}
		writes++
		t.stats.Finished(1, opWrite)
	}
	t.stats.message = fmt.Sprintf("( reads:%d writes:%d total:%d found:%d)", reads, writes, t.work.updates, found)
	return nil
}
