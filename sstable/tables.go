// Open readers by file number.
//
//  1. An entry is in its shard's map from the moment someone began to open it. The others wait for him.
//  2. refs counts handles, and one for the map. Who brings it to zero closes the reader.
//  3. More than the limit are open only while all of them are in use. Shards have their part of the limit each.
//  4. A table that could not be opened leaves the map, and the next Get tries again.

package sstable

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/vfs"
)

const tableShards = 16

// FamilyOptions say how the tables of a column family are read.
type FamilyOptions struct {
	Comparer        *kv.Comparer
	Filter          filter.Policy
	PrefixExtractor kv.SliceTransform
	// CacheMeta, HighPriority and Pin are those of ReaderOptions.
	CacheMeta, HighPriority, Pin bool
	// Stats may be nil.
	Stats *Stats
}

// Tables are the open tables of a database. All methods may be called from many goroutines.
type Tables struct {
	fs    vfs.FS
	dir   string
	cache *cache.Cache

	unbounded atomic.Bool
	shards    [tableShards]tableShard
}

type tableShard struct {
	mu    sync.Mutex
	m     map[uint64]*openTable
	ring  []*openTable // all of m, for the clock
	hand  int
	limit int // negative: none
	_     [64]byte
}

// openTable is a reader, or one that is being opened.
type openTable struct {
	num   uint64
	refs  atomic.Int32
	used  atomic.Bool // since the hand passed
	done  atomic.Bool // set before ready is closed
	ready chan struct{}
	r     *Reader // r and err are set before done
	err   error
}

// NewTables returns the tables of the database in dir. At most maxOpen stay open that nobody uses; negative is no limit.
func NewTables(fs vfs.FS, dir string, maxOpen int, c *cache.Cache) *Tables {
	t := &Tables{fs: fs, dir: dir, cache: c}
	for n := range t.shards {
		s := &t.shards[n]
		s.m = map[uint64]*openTable{}
		s.limit = shardLimit(maxOpen)
	}
	t.unbounded.Store(maxOpen < 0)
	return t
}

// Handle is a reader in use.
type Handle struct{ t *openTable }

// Reader returns the reader. It is used before Release only.
func (h Handle) Reader() *Reader { return h.t.r }

// Release gives the handle back, once.
func (h Handle) Release() { h.t.release() }

// Handle returns the handle that a reader was got with, for one who has kept the reader alone. Only readers that come
// from Tables have one.
func (r *Reader) Handle() Handle { return Handle{r.table} }

func (o *openTable) release() {
	if o.refs.Add(-1) == 0 && o.r != nil {
		o.r.Close()
	}
}

// Get returns the table with the given file number, opening it if need be. size is its length in the manifest, and
// largestSeq the largest sequence number there. The caller releases the handle.
func (t *Tables) Get(num, size uint64, largestSeq kv.Seq, o *FamilyOptions) (Handle, error) {
	s := &t.shards[num%tableShards]
	s.mu.Lock()
	e := s.m[num]
	if e != nil {
		e.refs.Add(1)
		s.mu.Unlock()
		if !e.used.Load() {
			e.used.Store(true)
		}
		if !e.done.Load() {
			<-e.ready
		}
		if e.err != nil {
			err := e.err
			e.release()
			return Handle{}, err
		}
		return Handle{e}, nil
	}
	e = &openTable{num: num, ready: make(chan struct{})}
	e.refs.Store(2)
	s.m[num] = e
	s.ring = append(s.ring, e)
	out := s.evictLocked()
	s.mu.Unlock()
	for _, x := range out {
		x.release()
	}

	if e.r, e.err = t.openCounted(num, size, largestSeq, o); e.r != nil {
		e.r.table = e
	}
	e.done.Store(true)
	close(e.ready)
	if err := e.err; err != nil {
		t.drop(e)
		e.release()
		return Handle{}, err
	}
	return Handle{e}, nil
}

// evictLocked takes tables that nobody uses out of the shard until it keeps its limit. The caller releases them, without
// the lock.
func (s *tableShard) evictLocked() (out []*openTable) {
	for looks := 2 * len(s.ring); s.limit >= 0 && len(s.ring) > s.limit && looks > 0; looks-- {
		if s.hand >= len(s.ring) {
			s.hand = 0
		}
		e := s.ring[s.hand]
		if e.refs.Load() > 1 || e.used.Swap(false) {
			s.hand++
			continue
		}
		out = append(out, s.removeLocked(s.hand))
	}
	return out
}

func (s *tableShard) removeLocked(n int) *openTable {
	e := s.ring[n]
	last := len(s.ring) - 1
	s.ring[n], s.ring[last] = s.ring[last], nil
	s.ring = s.ring[:last]
	delete(s.m, e.num)
	return e
}

// drop takes e out of its shard, if it is still there, and gives back the map's reference.
func (t *Tables) drop(e *openTable) {
	s := &t.shards[e.num%tableShards]
	s.mu.Lock()
	found := false
	for n := range s.ring {
		if s.ring[n] == e {
			s.removeLocked(n)
			found = true
			break
		}
	}
	s.mu.Unlock()
	if found {
		e.release()
	}
}

func (t *Tables) openCounted(num, size uint64, largestSeq kv.Seq, o *FamilyOptions) (*Reader, error) {
	if o.Stats == nil {
		return t.open(num, size, largestSeq, o)
	}
	start := o.Stats.Histograms.Start()
	r, err := t.open(num, size, largestSeq, o)
	o.Stats.Histograms.Since(stats.TableOpenIO, start)
	o.Stats.Add(stats.NoFileOpens, 1)
	if err != nil {
		o.Stats.Add(stats.NoFileErrors, 1)
	}
	return r, err
}

func (t *Tables) open(num, size uint64, largestSeq kv.Seq, o *FamilyOptions) (*Reader, error) {
	path := t.fs.Join(t.dir, fname.Make(fname.Table, num))
	f, err := t.fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("table %d: %w", num, err)
	}
	has, err := f.Size()
	if err == nil && uint64(has) != size {
		err = corrupt.At(path, -1, "file has %d bytes, and %d in the manifest", has, size)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return Open(f, path, ReaderOptions{
		Comparer: o.Comparer, Filter: o.Filter, PrefixExtractor: o.PrefixExtractor, Cache: t.cache, CacheMeta: o.CacheMeta,
		HighPriority: o.HighPriority, Pin: o.Pin, LargestSeq: largestSeq, Stats: o.Stats,
	})
}

// Evict closes the table once its last handle is released. It is called when the file is about to be removed.
func (t *Tables) Evict(num uint64) {
	s := &t.shards[num%tableShards]
	s.mu.Lock()
	e := s.m[num]
	s.mu.Unlock()
	if e != nil {
		t.drop(e)
	}
}

// MemoryUsage is about how many bytes the open readers keep for indexes and filters.
func (t *Tables) MemoryUsage() (n int64) {
	t.each(func(e *openTable) {
		if e.done.Load() && e.r != nil {
			n += e.r.MemoryUsage()
		}
	})
	return n
}

// Unbounded says whether all tables stay open until they are evicted, so that nothing is lost when someone keeps a handle
// for long.
func (t *Tables) Unbounded() bool { return t.unbounded.Load() }

// Limit changes how many tables stay open that nobody uses; negative is no limit. Nothing is closed for it before Trim, or
// before another table is opened.
func (t *Tables) Limit(maxOpen int) {
	t.unbounded.Store(maxOpen < 0)
	for n := range t.shards {
		s := &t.shards[n]
		s.mu.Lock()
		s.limit = shardLimit(maxOpen)
		s.mu.Unlock()
	}
}

// Trim closes what is too many and was in use when there was occasion to close it.
func (t *Tables) Trim() {
	if t.Unbounded() {
		return
	}
	for n := range t.shards {
		s := &t.shards[n]
		s.mu.Lock()
		out := s.evictLocked()
		s.mu.Unlock()
		for _, e := range out {
			e.release()
		}
	}
}

func shardLimit(maxOpen int) int {
	if maxOpen < 0 {
		return -1
	}
	return (maxOpen + tableShards - 1) / tableShards
}

// Reader returns the open reader of a table with a handle, or false if it is not open.
func (t *Tables) Reader(num uint64) (Handle, bool) {
	s := &t.shards[num%tableShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.m[num]
	if e == nil || !e.done.Load() || e.err != nil {
		return Handle{}, false
	}
	e.refs.Add(1)
	return Handle{e}, true
}

// Open is how many tables are open.
func (t *Tables) Open() (n int) {
	t.each(func(*openTable) { n++ })
	return n
}

func (t *Tables) each(f func(*openTable)) {
	for n := range t.shards {
		s := &t.shards[n]
		s.mu.Lock()
		for _, e := range s.ring {
			f(e)
		}
		s.mu.Unlock()
	}
}

// Close closes all tables; one that is in use, when its last handle is released.
func (t *Tables) Close() {
	var all []*openTable
	t.each(func(e *openTable) { all = append(all, e) })
	for _, e := range all {
		t.drop(e)
	}
}
