package etcdraft

import (
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// entryCache holds the end of a group's log in memory. Every replica reads each entry once more soon after it was written,
// to apply it, and a leader for every follower that is a little behind.
//
//  1. It holds entries that follow each other and are in the database, the last of them the log's last one; or nothing.
//  2. It holds limit bytes at the most, and lets go of the oldest first. An entry that is larger empties it.
//  3. Entries are shared with raft, and with whoever raft hands them to: nobody changes them.
//
// raftLog's mu guards it.
type entryCache struct {
	limit   uint64
	size    uint64 // of entries
	entries []*raftpb.Entry
}

// entryRoom is what an entry takes beside its data, about.
const entryRoom = 128

func roomOf(e *raftpb.Entry) uint64 { return entryRoom + uint64(len(e.GetData())) }

// first returns the index of the first entry that is held, 0 if none is.
func (c *entryCache) first() uint64 {
	if len(c.entries) == 0 {
		return 0
	}
	return c.entries[0].GetIndex()
}

// put takes what was appended to the log; what it replaces there goes.
func (c *entryCache) put(entries []*raftpb.Entry) {
	if len(entries) == 0 {
		return
	}
	first, end := entries[0].GetIndex(), c.first()+uint64(len(c.entries))
	if c.first() == 0 || first < c.first() || first > end {
		c.clear()
	} else {
		keep := first - c.first()
		for _, e := range c.entries[keep:] {
			c.size -= roomOf(e)
		}
		clear(c.entries[keep:])
		c.entries = c.entries[:keep]
	}
	for _, e := range entries {
		c.size += roomOf(e)
		c.entries = append(c.entries, e)
	}
	drop := 0
	for c.size > c.limit {
		c.size -= roomOf(c.entries[drop])
		drop++
	}
	clear(c.entries[:drop])
	c.entries = c.entries[drop:]
}

// cut lets go of the entries up to index, which leave the log.
func (c *entryCache) cut(index uint64) {
	drop := uint64(0)
	for ; drop < uint64(len(c.entries)) && c.entries[drop].GetIndex() <= index; drop++ {
		c.size -= roomOf(c.entries[drop])
	}
	clear(c.entries[:drop])
	c.entries = c.entries[drop:]
}

func (c *entryCache) clear() { c.entries, c.size = nil, 0 }

// get returns the entries of [lo, hi) as raft.Storage's Entries does, if lo is held and hi is not past the end.
func (c *entryCache) get(lo, hi, maxSize uint64) ([]*raftpb.Entry, bool) {
	first := c.first()
	if first == 0 || lo < first || hi > first+uint64(len(c.entries)) {
		return nil, false
	}
	held := c.entries[lo-first : hi-first]
	n, size := 0, uint64(0)
	for _, e := range held {
		if size += uint64(proto.Size(e)); size > maxSize && n > 0 {
			break
		}
		n++
	}
	return append([]*raftpb.Entry(nil), held[:n]...), true
}

// term returns an entry's term, if it is held.
func (c *entryCache) term(index uint64) (uint64, bool) {
	first := c.first()
	if first == 0 || index < first || index >= first+uint64(len(c.entries)) {
		return 0, false
	}
	return c.entries[index-first].GetTerm(), true
}
