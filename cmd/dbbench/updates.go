package main

import (
	"errors"
	"fmt"

	"github.com/ashlardb/ashlar"
)

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
			if err := t.store.Put(nil, key, value, &t.work.write); err != nil {
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
