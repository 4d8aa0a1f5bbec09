package main

import "fmt"

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
		if err := t.store.Put(nil, m.Key(id*replacements), m.Next(), &t.work.write); err != nil {
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
		del := t.store.SingleDelete
		if !t.cfg.singleDeletes {
			del = t.store.Delete
		}
		if err := del(nil, key, &t.work.write); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
		current[id] = (current[id] + 1) % replacements
		if err := t.store.Put(nil, m.Key(id*replacements+current[id]), nil, &t.work.write); err != nil {
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
