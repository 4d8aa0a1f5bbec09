package ashlar

import (
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
	"github.com/ashlardb/ashlar/internal/merge"
	"github.com/ashlardb/ashlar/memtable"
	"github.com/ashlardb/ashlar/writegroup"
)

// Merge operands folded as they are written, so that a key that is merged into again and again does not make its reads
// slower and slower (MaxSuccessiveMerges). The log has the operand all the same; recovery folds nothing.
//
// It needs the versions before this one in place, so the members of a group in which something may be folded do not
// insert side by side. The value is read from memory alone, as RocksDB does it by default: a writer does no I/O for it.

// folds says whether an operand of works may be folded.
func (d *DB) folds(works []*commit) bool {
	for _, c := range works {
		for _, u := range c.uses() {
			if u.merges > 0 {
				if cf := d.familyByID(u.family); cf != nil && cf.live.Load().MaxSuccessiveMerges > 0 {
					return true
				}
			}
		}
	}
	return false
}

// fold returns what an operand of group g goes into the memtable as: itself, or the value that it makes.
func (c *ColumnFamily) fold(g *writegroup.Group[*commit], key, operand []byte, seq kv.Seq) (kv.Kind, []byte) {
	most := c.live.Load().MaxSuccessiveMerges
	if most <= 0 || c.opts.MergeOperator == nil || !c.merged(key, seq, most) {
		return kv.KindMerge, operand
	}
	sv := c.tree.Acquire()
	if sv == nil {
		return kv.KindMerge, operand
	}
	defer sv.Release()
	get := lookup.Get{User: key, Seq: seq - 1, CacheOnly: true}
	defer get.Release()
	if c.get(sv, &get, nil) != nil || get.State == lookup.Unsupported {
		return kv.KindMerge, operand
	}
	value, err := merge.Full(c.opts.MergeOperator, nil, key, get.Value, get.State == lookup.Found, [][]byte{operand})
	if err != nil || len(value) > len(operand) && !c.hasRoom(g, memtable.MaxEntrySize(len(key), len(value))) {
		return kv.KindMerge, operand
	}
	return kv.KindValue, value
}

// hasRoom says whether the memtable can take so many bytes beyond what group g was let in for. With pipelined writes other
// groups are let in meanwhile, and it cannot be known.
func (c *ColumnFamily) hasRoom(g *writegroup.Group[*commit], n int) bool {
	return !c.db.opts.EnablePipelinedWrite && c.db.room(c)-n >= c.groupNeeds(g)
}

// merged says whether the newest versions of a key before seq in the memtable are n operands, or more.
func (c *ColumnFamily) merged(key []byte, seq kv.Seq, n int) bool {
	var it memtable.Iterator
	it.Init(c.mem.Table)
	for e := it.SeekGE(kv.SeekKey(key, seq), nil); e != nil && n > 0; e = it.Next() {
		if string(e.Key.User) != string(key) || e.Key.Kind() != kv.KindMerge {
			return false
		}
		n--
	}
	return n == 0
}

// groupNeeds is the room of the memtable that a group was let in for.
func (c *ColumnFamily) groupNeeds(g *writegroup.Group[*commit]) (n int) {
	for _, w := range g.Works() {
		n += leaderUse(w, c.id)
	}
	return n
}
