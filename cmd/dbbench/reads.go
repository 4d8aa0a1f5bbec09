package main

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/ashlardb/ashlar"
)

// rateStep is how many reads a thread does between looks at --benchmark_read_rate_limit.
const rateStep = 256

// readRandom gets random keys, each from its family.
func readRandom(t *thread) error {
	m := t.keyOnly()
	var value []byte
	read, found := int64(0), int64(0)
	keys := t.readOrder()
	for l := t.turns(t.work.reads); l.Next(1); {
		t.pickDatabase()
		v := keys.Next()
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
	order := t.readOrder()
	order.left = 0 // each batch draws
	for l := t.turns(t.work.reads); l.Next(t.work.batch); {
		t.pickDatabase()
		for _, key := range keys {
			m.put(key, order.Next())
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

// readOrder yields the numbers of keys to read: each drawn, or, with multiread_stride and a batch_size above 1, one drawn
// for a batch and the others that far behind each other. It belongs to its thread.
type readOrder struct {
	t             *thread
	batch, stride uint64
	left          uint64 // of the batch that is on; db_bench's readrandom begins in the midst of one
	key           uint64 // the last one
}

func (t *thread) readOrder() *readOrder {
	r := &readOrder{t: t, batch: uint64(t.work.batch), stride: uint64(t.cfg.stride)}
	if r.strides() {
		r.left = r.batch - 1
	}
	return r
}

func (r *readOrder) strides() bool { return r.stride > 0 && r.batch > 1 }

func (r *readOrder) Next() uint64 {
	num := uint64(r.t.cfg.num)
	if r.left > 0 {
		r.left--
		r.key += r.stride
		return r.key
	}
	r.key = randomKey(r.t.rand, num, r.t.cfg.skew)
	if r.strides() {
		if r.key+(r.batch-1)*r.stride >= num {
			r.key = num - r.batch*r.stride
		}
		r.left = r.batch - 1
	}
	return r.key
}

// readFastStep is how many reads readRandomFast counts at a time.
const readFastStep = 100

// readRandomFast gets random keys of the default family, with a mask for a division: of numbers below the next power of
// two, so that some keys are beyond those that there are.
func readRandomFast(t *thread) error {
	m := t.keyOnly()
	t.pickDatabase()
	mask := uint64(1)<<bits.Len64(uint64(t.cfg.num-1)) - 1
	var value []byte
	read, found, beyond := int64(0), int64(0), int64(0)
	for l, more := t.turns(t.work.reads), true; more && !t.crew.failed.Load(); more = l.Next(readFastStep) {
		for range readFastStep {
			v := t.rand.Next() & mask
			got, err := t.db.AppendGet(value[:0], m.Key(v), nil)
			if err == nil {
				value = got
				found++
			} else if !errors.Is(err, ashlar.ErrNotFound) {
				return fmt.Errorf("get: %w", err)
			}
			if v >= uint64(t.cfg.num) {
				beyond++
			}
		}
		read += readFastStep
		t.crew.readRate.wait(readFastStep)
		t.stats.Finished(readFastStep, opRead)
	}
	t.stats.message = fmt.Sprintf("(%d of %d found, issued %d non-exist keys)\n", found, read, beyond)
	return nil
}

// scan returns a benchmark that walks the default family from one end.
func scan(forward bool) func(*thread) error {
	return func(t *thread) error {
		it := t.db.NewIterator(t.cfg.tables.readOptions())
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
		o := t.cfg.tables.readOptions()
		if far := uint64(t.cfg.maxScan); far > 0 {
			if t.cfg.reverse {
				o.IterateLowerBound = limit.Key(v - min(v, far))
			} else {
				o.IterateUpperBound = limit.Key(min(v+far, uint64(t.cfg.num)))
			}
		}
		key := m.Key(v)
		it := t.db.NewIterator(o)
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
