package main

import (
	"errors"
	"fmt"

	"github.com/ashlardb/ashlar"
)

// maker has what a thread makes keys and values with.
type maker struct {
	keyMaker
	*valueMaker
	key     []byte
	scratch []byte // for values that are made of others
}

func (t *thread) maker() *maker {
	m := &maker{
		keyMaker:   t.cfg.keys(t.work.keySize),
		valueMaker: newValueMaker(t.cfg.values(t.work.valueSize), t.seed+uint64(t.id)),
	}
	m.key = make([]byte, m.keyMaker.size)
	return m
}

// keyOnly is maker for those who write no values.
func (t *thread) keyOnly() *maker {
	m := &maker{keyMaker: t.cfg.keys(t.work.keySize)}
	m.key = make([]byte, m.keyMaker.size)
	return m
}

// Key returns key v, which lives until the next.
func (m *maker) Key(v uint64) []byte {
	m.put(m.key, v)
	return m.key
}

// fill returns a benchmark that writes batches of keys in an order.
func fill(order writeOrder) func(*thread) error {
	return func(t *thread) error {
		ops := t.work.writes
		if ops == 0 {
			ops = int64(t.work.num)
		}
		seconds := int64(0)
		if order == random {
			seconds = t.cfg.duration
		}
		if t.work.num != uint64(t.cfg.num) {
			t.stats.message = fmt.Sprintf("(%d ops)", t.work.num)
		}
		keys := newKeyOrder(order, t.rand, t.work.num, t.seed)
		m := t.maker()
		var batch ashlar.Batch
		for l := t.turnsFor(seconds, ops); l.Next(t.work.batch); {
			batch.Clear()
			bytes := int64(0)
			t.pickDatabase()
			for range t.work.batch {
				v := keys.Next()
				value := m.Next()
				if err := batch.Put(t.family(v), m.Key(v), value); err != nil {
					return fmt.Errorf("put: %w", err)
				}
				bytes += int64(len(m.key) + len(value))
			}
			t.crew.writeRate.wait(bytes)
			if err := t.db.Write(&batch, &t.work.write); err != nil {
				return fmt.Errorf("write: %w", err)
			}
			t.stats.bytes += bytes
			t.stats.Finished(t.work.batch, opWrite)
		}
		return nil
	}
}

// deleteKeys returns a benchmark that deletes batches of keys of the default family in an order.
func deleteKeys(order writeOrder) func(*thread) error {
	return func(t *thread) error {
		seconds := int64(0)
		if order == random {
			seconds = t.cfg.duration
		}
		keys := newKeyOrder(order, t.rand, uint64(t.cfg.num), t.seed)
		m := t.keyOnly()
		var batch ashlar.Batch
		for l := t.turnsFor(seconds, t.work.deletes); l.Next(t.work.batch); {
			batch.Clear()
			t.pickDatabase()
			for range t.work.batch {
				if err := batch.Delete(nil, m.Key(keys.Next())); err != nil {
					return fmt.Errorf("delete: %w", err)
				}
			}
			if err := t.db.Write(&batch, &t.work.write); err != nil {
				return fmt.Errorf("write: %w", err)
			}
			t.stats.Finished(t.work.batch, opDelete)
		}
		return nil
	}
}

// fillSeekSeq writes keys in order, which does not count, and seeks each of them twice.
func fillSeekSeq(t *thread) error {
	if err := fill(sequential)(t); err != nil {
		return err
	}
	t.stats.Start(t.stats.observer, t.id)
	m := t.keyOnly()
	it := t.db.NewIterator(nil)
	defer it.Close()
	expect := func(v int64, move func() bool) error {
		key := m.Key(uint64(v))
		if !move() || string(it.Key()) != string(key) {
			return errors.Join(fmt.Errorf("key %d is not there", v), it.Error())
		}
		t.stats.Finished(1, opSeek)
		return nil
	}
	for v := int64(0); v < t.cfg.num; v++ {
		seek := func() bool { return it.Seek(m.key) }
		if err := expect(v, seek); err != nil {
			return err
		}
		for n := int64(0); n < t.cfg.seekNexts && v+1 < t.cfg.num; n++ {
			v++
			if err := expect(v, it.Next); err != nil {
				return err
			}
		}
		if err := expect(v, seek); err != nil {
			return err
		}
	}
	return nil
}

// updateWith returns a benchmark that reads random keys and writes them again. change makes the new value of the old
// one and says how many bytes count as moved. Where no value was found it gets the last one that was.
func updateWith(kind opKind, change func(m *maker, old []byte, found bool) (value []byte, bytes int)) func(*thread) error {
	return func(t *thread) error {
		m := t.maker()
		found := 0
		var old, got []byte
		for l := t.turns(t.work.updates); l.Next(1); {
			t.pickDatabase()
			key := m.Key(t.rand.Next() % uint64(t.cfg.num))
			var err error
			got, err = t.db.AppendGet(got[:0], key, nil)
			if err == nil {
				found++
				old, got = got, old
			} else if !errors.Is(err, ashlar.ErrNotFound) {
				return fmt.Errorf("get: %w", err)
			}
			value, bytes := change(m, old, err == nil)
			t.crew.writeRate.wait(int64(len(key) + len(value)))
			if err := t.db.Put(key, value, &t.work.write); err != nil {
				return fmt.Errorf("put: %w", err)
			}
			t.stats.bytes += int64(bytes)
			t.stats.Finished(1, kind)
		}
		t.stats.message = fmt.Sprintf("( updates:%d found:%d)", t.work.updates, found)
		return nil
	}
}

// update writes another value; what was read counts too.
func update(m *maker, old []byte, found bool) ([]byte, int) {
	value := m.Next()
	bytes := len(m.key) + len(value)
	if found {
		bytes += len(m.key) + len(old)
	}
	return value, bytes
}

// xorUpdate writes the old value XOR a random one of its length. Where there is none, the random one is written, with
// the length of the last that was there: on an empty database all values are empty. No bytes count.
func xorUpdate(m *maker, old []byte, found bool) ([]byte, int) {
	operand := m.Sized(min(len(old), len(m.text)))
	if !found {
		return operand, 0
	}
	m.scratch = append(m.scratch[:0], old...)
	for i, b := range operand {
		m.scratch[i] ^= b
	}
	return m.scratch, 0
}

// appendUpdate writes the old value with a comma and another behind it.
func appendUpdate(m *maker, old []byte, found bool) ([]byte, int) {
	m.scratch = m.scratch[:0]
	if found && len(old) > 0 {
		m.scratch = append(append(m.scratch, old...), ',')
	}
	m.scratch = append(m.scratch, m.Next()...)
	return m.scratch, len(m.key) + len(m.scratch)
}

// replacements is how many keys an id of randomreplacekeys has.
const replacements = 50

// randomReplaceKeys writes a key for each of numdistinct ids, and then, id by id at random, deletes the id's key and
// writes its next one. A snapshot from before the replacing lives until the end. All threads draw the same ids, and each
// has its own idea of which key is an id's: with more than one thread SingleDelete meets keys that were written twice,
// and what is left in the end is undefined.
func randomReplaceKeys(t *thread) error {
	m := t.maker()
	t.pickDatabase()
	ids := uint64(t.cfg.distinct)
	current := make([]uint64, ids)
	for id := range ids {
		if err := t.db.Put(m.Key(id*replacements), m.Next(), &t.work.write); err != nil {
			return fmt.Errorf("put: %w", err)
		}
	}
	snapshot := t.db.NewSnapshot()
	defer snapshot.Release()
	bell := newGaussian(1)
	for l := t.turns(t.cfg.num); l.Next(1); {
		drawn := bell.Next(float64(ids)/2, t.cfg.stddev)
		id := uint64(min(max(drawn, 0), float64(ids-1)))
		key := m.Key(id*replacements + current[id])
		del := t.db.SingleDelete
		if !t.cfg.singleDeletes {
			del = t.db.Delete
		}
		if err := del(key, &t.work.write); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
		current[id] = (current[id] + 1) % replacements
		if err := t.db.Put(m.Key(id*replacements+current[id]), nil, &t.work.write); err != nil {
			return fmt.Errorf("put: %w", err)
		}
		t.stats.Finished(1, opOther)
	}
	single := 0
	if t.cfg.singleDeletes {
		single = 1
	}
	t.stats.message = fmt.Sprintf("use single deletes: %d, standard deviation: %f\n", single, t.cfg.stddev)
	return nil
}
