package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ashlardb/ashlar"
)

// A triple is one key with each of three endings, which are written and deleted together and so are always alike.
const endings = "012"

// triples reads and writes them. It belongs to a thread.
type triples struct {
	t      *thread
	batch  ashlar.Batch
	key    []byte
	values [len(endings)][]byte
	errs   [len(endings)]error
}

// ended returns key with an ending; it lives until the next.
func (p *triples) ended(key []byte, ending byte) []byte {
	p.key = append(append(p.key[:0], key...), ending)
	return p.key
}

// get says whether a triple is there. One whose three are not alike is an error.
func (p *triples) get(key []byte) (found bool, err error) {
	s := p.t.db.NewSnapshot()
	defer s.Release()
	for i := range endings {
		p.values[i], err = p.t.db.AppendGet(p.values[i][:0], p.ended(key, endings[i]), &ashlar.ReadOptions{Snapshot: s})
		if err != nil && !errors.Is(err, ashlar.ErrNotFound) {
			return false, fmt.Errorf("get: %w", err)
		}
		if p.errs[i] = err; err != nil {
			p.values[i] = p.values[i][:0]
		}
	}
	for i := range p.values {
		if (p.errs[i] == nil) != (p.errs[0] == nil) || !slices.Equal(p.values[i], p.values[0]) {
			return false, fmt.Errorf("inconsistent values for key %x: %x, %x, %x", key, p.values[0], p.values[1], p.values[2])
		}
	}
	return p.errs[0] == nil, nil
}

func (p *triples) write(key []byte, add func(b *ashlar.Batch, key []byte) error) error {
	p.batch.Clear()
	for i := range endings {
		if err := add(&p.batch, p.ended(key, endings[i])); err != nil {
			return err
		}
	}
	return p.t.store.Write(&p.batch, &p.t.work.write)
}

func (p *triples) put(key, value []byte) error {
	return p.write(key, func(b *ashlar.Batch, key []byte) error { return b.Put(nil, key, value) })
}

func (p *triples) remove(key []byte) error {
	return p.write(key, func(b *ashlar.Batch, key []byte) error { return b.Delete(nil, key) })
}

// randomWithVerify reads, writes and deletes triples of numdistinct keys, readwritepercent reads of a hundred operations
// and deletepercent deletes, the reads first, and verifies what it reads. db_bench goes on where it finds a difference;
// this ends.
func randomWithVerify(t *thread) error {
	m := t.maker()
	m.keyMaker = t.cfg.keys(t.work.keySize, uint64(t.cfg.distinct))
	p := &triples{t: t}
	gets, puts, deletes := int64(0), int64(0), int64(0) // left of a hundred
	got, put, deleted, found := 0, 0, 0, 0
	for range t.work.updates {
		if t.crew.failed.Load() {
			return nil
		}
		t.pickDatabase()
		if gets == 0 && puts == 0 && deletes == 0 {
			gets, deletes = t.cfg.readPercent, t.cfg.deletePercent
			puts = 100 - gets - deletes
		}
		key := m.Key(t.rand.Next() % uint64(t.cfg.distinct))
		switch {
		case gets > 0:
			there, err := p.get(key)
			if err != nil {
				return err
			}
			if there {
				found++
			}
			gets--
			got++
			t.stats.Finished(1, opRead)
		case puts > 0:
			if err := p.put(key, m.Next()); err != nil {
				return fmt.Errorf("put: %w", err)
			}
			puts--
			put++
			t.stats.Finished(1, opWrite)
		default:
			if err := p.remove(key); err != nil {
				return fmt.Errorf("delete: %w", err)
			}
			deletes--
			deleted++
			t.stats.Finished(1, opDelete)
		}
	}
	t.stats.message = fmt.Sprintf("( get:%d put:%d del:%d total:%d found:%d)", got, put, deleted, t.work.updates, found)
	return nil
}

// sharesOfHundred refuses what leaves no room for puts.
func sharesOfHundred(c *config) error {
	if c.readPercent+c.deletePercent > 100 {
		return errors.New("wants readwritepercent and deletepercent of 100 together at most")
	}
	return nil
}
