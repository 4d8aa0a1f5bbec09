package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Keys of timeseries are an id and the time of the write, which is the number of writes before it:
//
//	+-- id, big-endian, 8 bytes --+-- time, big-endian, 8 bytes --+-- '0' up to the key's size --+
const seriesKey = 16

// seriesFits refuses keys that have no room for both.
func seriesFits(c *config) error {
	if c.keySize < seriesKey || c.keysPerPrefix > 0 {
		return fmt.Errorf("wants keys of %d bytes or more, without prefixes", seriesKey)
	}
	return nil
}

// timeSeries has the first thread write, and the others read series, or delete
// what has become too old. The writer is not part of the totals; it has a line of its own.
func timeSeries(t *thread) error {
	if t.id > 0 {
		old := t.cfg.expireStyle == "delete" && int64(t.id) <= t.cfg.deletionThreads
		return readSeries(t, old)
	}
	if err := writeSeries(t); err != nil {
		return err
	}
	t.stats.Stop()
	t.stats.excluded = false
	own := mergeStats([]*threadStats{&t.stats})
	t.stats.excluded = true
	t.notes += own.String("timeseries write")
	return nil
}

// writeSeries puts values for random ids, each at a time of its own.
func writeSeries(t *thread) error {
	t.stats.excluded = true
	m := t.maker()
	for l := t.turns(t.work.writes); l.Next(1); {
		t.pickDatabase()
		key := m.Key(t.rand.Next() % uint64(t.cfg.idRange))
		binary.BigEndian.PutUint64(key[8:], t.crew.ticks.Add(1)-1)
		value := m.Next()
		if err := t.store.Put(nil, key, value, &t.work.write); err != nil {
			return fmt.Errorf("put: %w", err)
		}
		t.stats.bytes += int64(len(key) + len(value))
		t.stats.Finished(1, opWrite)
		t.crew.writeRate.wait(int64(len(key) + len(value)))
	}
	return nil
}

// readSeries walks the series of random ids until the writer has ended. With expire it deletes each series' entries that
// are more than time_range old, and reads no further than to the first that is not.
func readSeries(t *thread, expire bool) error {
	m := t.keyOnly()
	var buffer [256]byte
	read, found := int64(0), int64(0)
	for t.crew.done.Load() == 0 && !t.crew.failed.Load() {
		key := m.Key(t.rand.Next() % uint64(t.cfg.idRange))
		clear(key[len(key)-8:])
		id := key[:8]
		read++
		it := t.db.NewIterator(t.cfg.tables.readOptions())
		ok := it.Seek(key)
		if ok && bytes.HasPrefix(it.Key(), id) {
			found++
		}
		for ; ok && bytes.HasPrefix(it.Key(), id); ok = it.Next() {
			t.stats.bytes += int64(len(it.Key()))
			if !expire {
				copy(buffer[:], it.Value())
				t.stats.bytes += int64(len(it.Value()))
				t.stats.Finished(1, opRead)
				continue
			}
			if t.crew.ticks.Load()-binary.BigEndian.Uint64(it.Key()[8:]) <= uint64(t.cfg.timeRange) {
				break
			}
			if err := t.store.Delete(nil, it.Key(), &t.work.write); err != nil {
				return errors.Join(fmt.Errorf("delete: %w", err), it.Close())
			}
			t.stats.Finished(1, opDelete)
		}
		if err := it.Close(); err != nil {
			return fmt.Errorf("seek: %w", err)
		}
		t.crew.readRate.wait(1)
	}
	t.stats.message = fmt.Sprintf("(%d of %d found)", found, read)
	return nil
}
