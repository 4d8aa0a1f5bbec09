package main

import (
	"fmt"

	"github.com/ashlardb/ashlar"
)

// rangeDeletes says when a thread that writes deletes a range of keys, and does so: behind every
// writes_per_range_tombstone-th entry once writes_before_delete_range are written, max_num_range_tombstones times. It
// belongs to the thread.
type rangeDeletes struct {
	before, every, most int64
	width               uint64
	expand              bool // key by key, to compare with
	written, done       int64
	keys                keyMaker
	begin, end          []byte
}

func (t *thread) rangeDeletes() *rangeDeletes {
	c := t.cfg
	r := &rangeDeletes{
		before: c.rangesAfter, every: c.rangeEvery, most: c.ranges, width: uint64(c.rangeWidth), expand: c.expandRanges,
		keys: c.keys(t.work.keySize, uint64(c.num)),
	}
	r.begin, r.end = make([]byte, r.keys.size), make([]byte, r.keys.size)
	return r
}

// due counts an entry, and says whether a range is to be deleted behind it.
func (r *rangeDeletes) due() bool {
	r.written++
	n := r.written - r.before
	if r.every == 0 || n <= 0 || n%r.every != 0 || n/r.every > r.most {
		return false
	}
	r.done++
	return true
}

// add has b delete the keys from number first on.
func (r *rangeDeletes) add(b *ashlar.Batch, cf *ashlar.ColumnFamily, first uint64) error {
	if !r.expand {
		r.keys.put(r.begin, first)
		r.keys.put(r.end, first+r.width)
		return b.DeleteRange(cf, r.begin, r.end)
	}
	for v := first; v < first+r.width; v++ {
		r.keys.put(r.begin, v)
		if err := b.Delete(cf, r.begin); err != nil {
			return err
		}
	}
	return nil
}

// note is the line about them, if there were any.
func (r *rangeDeletes) note() string {
	if r.done == 0 {
		return ""
	}
	return fmt.Sprintf("Number of range deletions: %d\n", r.done)
}
