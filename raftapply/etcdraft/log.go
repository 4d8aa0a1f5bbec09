package etcdraft

import (
	"errors"
	"fmt"
	"sync"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
)

// raftLog is a group's log on disk, as raft reads it. The group's goroutine reads; the appender moves its ends.
//
//  1. Entries cut.index+1 .. last.index are in the database, and no others of the group.
//  2. last moves after the write. raft reads nothing behind what it was told is written.
//  3. cut moves before the write that deletes. Who finds an entry missing looks at cut again.
//  4. No read begins before cut: there are tombstones, as many as there ever were entries.
//  5. The end is in memory too, as entryCache says, and how long the log is in bytes, as logSizes does: both move with
//     last and cut.
type raftLog struct {
	family *ashlar.ColumnFamily
	group  raftapply.RegionID
	// What raft starts with.
	hard *raftpb.HardState
	conf *raftpb.ConfState
	// makeSnapshot is the group's, called on its goroutine.
	makeSnapshot func() (*raftpb.Snapshot, error)

	mu        sync.Mutex
	cut, last entryID
	cache     entryCache
	sizes     logSizes
}

var _ raft.Storage = (*raftLog)(nil)

// loadLog finds the ends of the log, and how long it is.
func loadLog(family *ashlar.ColumnFamily, group raftapply.RegionID, c *Config) (*raftLog, error) {
	l := &raftLog{family: family, group: group, sizes: newLogSizes(c.LogBytes)}
	if !c.NoLogCache {
		l.cache.limit = c.LogCacheBytes
	}
	value, found, err := get(family, groupKey(group, cutSuffix), nil)
	if err != nil {
		return nil, err
	}
	if found {
		if l.cut, err = decodeCut(value); err != nil {
			return nil, err
		}
	}
	l.last = l.cut
	l.sizes.cut(l.cut.index)
	it := family.Range(logKey(group, l.cut.index+1), groupKey(group, hardSuffix), nil)
	defer it.Close()
	if it.SeekToFirst() {
		if first := logIndex(it.Key()); first != l.cut.index+1 {
			return nil, corrupt("the log begins behind %v, but its first entry is %d", l.cut, first)
		}
		for ok := true; ok; ok = it.Next() {
			l.last.index = logIndex(it.Key())
			if l.last.term, _, err = decodeTerm(l.last.index, it.Value()); err != nil {
				return nil, err
			}
			l.sizes.add(l.last.index, uint64(len(it.Value())))
		}
	}
	return l, it.Error()
}

func get(cf *ashlar.ColumnFamily, key []byte, o *ashlar.ReadOptions) (value []byte, found bool, err error) {
	value, err = cf.Get(key, o)
	if errors.Is(err, ashlar.ErrNotFound) {
		return nil, false, nil
	}
	return value, err == nil, err
}

// getProto reads a protobuf. Without one, m stays as it is.
func getProto(cf *ashlar.ColumnFamily, key []byte, o *ashlar.ReadOptions, m proto.Message) (found bool, err error) {
	value, found, err := get(cf, key, o)
	if err == nil && found {
		if e := proto.Unmarshal(value, m); e != nil {
			err = corrupt("column family %q, key %x: %v", cf.Name(), key, e)
		}
	}
	return found, err
}

func (l *raftLog) bounds() (cut, last entryID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut, l.last
}

// grow says that entries are in the database, and the last of them is the log's.
func (l *raftLog) grow(entries []*raftpb.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cache.put(entries)
	l.sizes.truncate(entries[0].GetIndex())
	for _, e := range entries {
		l.sizes.add(e.GetIndex(), uint64(entryHead+len(e.GetData())))
		l.last = entryID{e.GetIndex(), e.GetTerm()}
	}
}

// shorten says that the log now begins behind cut.
func (l *raftLog) shorten(cut entryID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	l.cache.cut(cut.index)
	l.sizes.cut(cut.index)
}

// reset says that the log is empty and goes on behind at.
func (l *raftLog) reset(at entryID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut, l.last = at, at
	l.cache.clear()
	l.sizes = logSizes{step: l.sizes.step, begin: sizeMark{index: at.index}}
}

// cached calls get with the end of the log that is in memory.
func cached[T any](l *raftLog, get func(*entryCache) (T, bool)) (T, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return get(&l.cache)
}

func (l *raftLog) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return l.hard, l.conf, nil
}

func (l *raftLog) FirstIndex() (uint64, error) {
	cut, _ := l.bounds()
	return cut.index + 1, nil
}

func (l *raftLog) LastIndex() (uint64, error) {
	_, last := l.bounds()
	return last.index, nil
}

func (l *raftLog) Snapshot() (*raftpb.Snapshot, error) { return l.makeSnapshot() }

func (l *raftLog) Term(index uint64) (uint64, error) {
	cut, last := l.bounds()
	switch {
	case index < cut.index:
		return 0, raft.ErrCompacted
	case index > last.index:
		return 0, raft.ErrUnavailable
	case index == cut.index:
		return cut.term, nil
	case index == last.index:
		return last.term, nil
	}
	term, ok := cached(l, func(c *entryCache) (uint64, bool) { return c.term(index) })
	if ok {
		return term, nil
	}
	err := l.family.GetPinned(logKey(l.group, index), nil, func(value []byte) (err error) {
		term, _, err = decodeTerm(index, value)
		return err
	})
	if errors.Is(err, ashlar.ErrNotFound) {
		return 0, l.missing(index)
	}
	return term, err
}

// missing says why an entry that was in bounds is not there.
func (l *raftLog) missing(index uint64) error {
	if cut, _ := l.bounds(); index <= cut.index {
		return raft.ErrCompacted
	}
	return corrupt("group %d: entry %d is missing in the log", l.group, index)
}

func (l *raftLog) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	cut, last := l.bounds()
	switch {
	case lo <= cut.index:
		return nil, raft.ErrCompacted
	case hi > last.index+1:
		return nil, raft.ErrUnavailable
	}
	entries, ok := cached(l, func(c *entryCache) ([]*raftpb.Entry, bool) { return c.get(lo, hi, maxSize) })
	if ok {
		return entries, nil
	}
	size := uint64(0)
	it := l.family.Range(logKey(l.group, lo), logKey(l.group, hi), nil)
	defer it.Close()
	next := lo
	for ok := it.SeekToFirst(); ok; ok = it.Next() {
		if index := logIndex(it.Key()); index != next {
			return nil, l.missing(next)
		}
		e, err := decodeEntry(next, it.Value())
		if err != nil {
			return nil, fmt.Errorf("group %d: %w", l.group, err)
		}
		if size += uint64(proto.Size(e)); size > maxSize && len(entries) > 0 {
			return entries, nil
		}
		entries = append(entries, e)
		next++
	}
	if err := it.Error(); err != nil {
		return nil, err
	}
	if next < hi {
		return nil, l.missing(next)
	}
	return entries, nil
}
