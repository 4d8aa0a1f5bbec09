package main

import (
	"errors"
	"fmt"

	"github.com/ashlardb/ashlar"
)

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
		if err := t.store.Put(nil, key, m.Next(), &t.work.write); err != nil {
			return fmt.Errorf("put: %w", err)
		}
		writes++
		t.stats.Finished(1, opWrite)
	}
	t.stats.message = fmt.Sprintf("( reads:%d writes:%d total:%d found:%d)", reads, writes, t.work.updates, found)
	return nil
}
