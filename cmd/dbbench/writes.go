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
	shape := t.cfg.values(t.work.valueSize)
	m := &maker{
		keyMaker:   t.cfg.keys(t.work.keySize, uint64(t.cfg.num)),
		valueMaker: newValueMaker(shape, t.texts.of(shape), t.seed+uint64(t.id)),
	}
	m.key = make([]byte, m.keyMaker.size)
	return m
}

// keyOnly is maker for those who write no values.
func (t *thread) keyOnly() *maker {
	m := &maker{keyMaker: t.cfg.keys(t.work.keySize, uint64(t.cfg.num))}
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
		ranges := t.rangeDeletes()
		keys := newKeyOrder(order, t.rand, t.work.num+uint64(ranges.most), t.seed)
		stages := t.families.stages()
		perStage := (ops-1)/stages + 1
		m := t.maker()
		var batch ashlar.Batch
		for l := t.turnsFor(seconds, ops); l.Next(t.work.batch); {
			batch.Clear()
			bytes := int64(0)
			if stages > 1 {
				if err := t.families.stage(min(l.done, ops-1) / perStage); err != nil {
					return err
				}
			}
			t.pickDatabase()
			for range t.work.batch {
				v := keys.Next()
				value := m.Next()
				if err := batch.Put(t.family(v), m.Key(v), value); err != nil {
					return fmt.Errorf("put: %w", err)
				}
				bytes += int64(len(m.key) + len(value))
				if ranges.due() {
					if err := ranges.add(&batch, t.family(v), keys.Next()); err != nil {
						return fmt.Errorf("delete range: %w", err)
					}
				}
			}
			t.crew.writeRate.wait(bytes)
			if err := t.store.Write(&batch, &t.work.write); err != nil {
				return fmt.Errorf("write: %w", err)
			}
			t.stats.bytes += bytes
			t.stats.Finished(t.work.batch, opWrite)
		}
		t.notes += ranges.note()
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
			if err := t.store.Write(&batch, &t.work.write); err != nil {
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
