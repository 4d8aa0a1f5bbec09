package ashlar

import (
	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/txnbridge"
	"github.com/ashlardb/ashlar/writegroup"
)

// Preconditions: a write may ask something of the database that has to be true when it is done, and fails alone, out of
// its group, if it is not. The leader asks, right before the log, when every group before is in the memtables. What the
// works before it in the same group are about to write is not: groupChecks knows that. (RocksDB does not let such writes
// into groups.)
//
// They are package txn's; users see its optimistic transactions.

// view is what a precondition may ask.
type view struct{ d *DB }

var _ txnbridge.View = view{}

// Latest returns the number of the newest version of a key that is in memory, 0 if there is none, and since: every later
// write is in memory. A family that is gone was never written to.
func (v view) Latest(family uint32, key []byte) (seq, since kv.Seq) {
	cf := v.d.familyByID(family)
	if cf == nil {
		return 0, 0
	}
	if v.d.checks.wrote(cf, key) {
		return kv.MaxSeq, 0
	}
	sv := cf.tree.Acquire()
	if sv == nil {
		return 0, 0
	}
	defer sv.Release()
	return sv.Latest(key)
}

// groupChecks knows what the first works of a group write, from when a check in the group asks.
type groupChecks struct {
	works  int
	keys   map[groupKey]struct{}
	ranges []batch.Record
}

type groupKey struct {
	family uint32
	key    string
}

// add takes in the works of a group before the one that is checked; those that failed write nothing.
func (c *groupChecks) add(before []*commit, g *writegroup.Group[*commit]) {
	for ; c.works < len(before); c.works++ {
		w := before[c.works]
		if g.Err(c.works) != nil || w.phase == preparePhase {
			continue
		}
		for r := batch.NewReader(w.batch.data); ; {
			rec, ok, err := r.Next()
			if err != nil || !ok {
				break // Insert will say it
			}
			switch {
			case rec.LogData:
			case rec.Kind == kv.KindRangeDelete:
				c.ranges = append(c.ranges, rec)
			default:
				if c.keys == nil {
					c.keys = map[groupKey]struct{}{}
				}
				c.keys[groupKey{rec.Family, string(rec.Key)}] = struct{}{}
			}
		}
	}
}

// wrote says whether a work before this one in the group writes key.
func (c *groupChecks) wrote(cf *ColumnFamily, key []byte) bool {
	if _, ok := c.keys[groupKey{cf.id, string(key)}]; ok {
		return true
	}
	for _, r := range c.ranges {
		cmp := cf.opts.Comparator
		if r.Family == cf.id && cmp.CompareUser(key, r.Key) >= 0 && cmp.CompareUser(key, r.Value) < 0 {
			return true
		}
	}
	return false
}

func (c *groupChecks) reset() {
	if c.works > 0 {
		c.works, c.keys, c.ranges = 0, nil, nil
	}
}

// writeIf is Write with a precondition.
func (d *DB) writeIf(b *Batch, o *WriteOptions, check func(txnbridge.View) error) error {
	if err := b.fits(d); err != nil {
		return err
	}
	c := d.newCommit(b)
	c.check = check
	return d.commit(c, o)
}

// latestAnywhere returns the number of the newest version of a key if it is later than after, else that or an older one.
func (c *ColumnFamily) latestAnywhere(key []byte, after kv.Seq) (kv.Seq, error) {
	sv := c.tree.Acquire()
	if sv == nil {
		return 0, c.unusable()
	}
	defer sv.Release()
	seq, err := sv.LatestAnywhere(key, after)
	if err != nil {
		return 0, c.readError(err)
	}
	return seq, nil
}
