package ashlar

import (
	"errors"
	"fmt"
	"time"

	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/lsm"
	"github.com/ashlardb/ashlar/sstable"
)

// view is the one place where a read fixes what it sees: first the superversion, then the sequence number. The other
// way round, a version of a key could be overwritten and flushed away in between (facebook/rocksdb#1816, #6973).
func (c *ColumnFamily) view(o *ReadOptions) (*lsm.Superversion, kv.Seq, error) {
	sv := c.tree.Acquire()
	if sv == nil {
		return nil, 0, c.unusable()
	}
	if o != nil && o.Snapshot != nil {
		if o.Snapshot.db != c.db {
			sv.Release()
			return nil, 0, invalid("the snapshot is of another database")
		}
		return sv, o.Snapshot.seq, nil
	}
	return sv, c.db.visibleSeq(), nil
}

// unusable says why the family's tree is gone.
func (c *ColumnFamily) unusable() error {
	if err := c.usable(); err != nil {
		return err
	}
	return ErrClosed
}

// Get returns a copy of key's value. ErrNotFound if there is none.
func (c *ColumnFamily) Get(key []byte, o *ReadOptions) ([]byte, error) {
	return c.AppendGet(nil, key, o)
}

// AppendGet appends key's value to dst and returns the result; it allocates nothing if the value fits. On an error,
// ErrNotFound included, it returns dst as it was.
func (c *ColumnFamily) AppendGet(dst, key []byte, o *ReadOptions) ([]byte, error) {
	return c.appendGet(dst, key, o, nil)
}

// appendGet is AppendGet with the writes of a batch, if there is one, on top of the database.
func (c *ColumnFamily) appendGet(dst, key []byte, o *ReadOptions, over *IndexedBatch) ([]byte, error) {
	start := c.db.hist.Start()
	sv, seq, err := c.view(o)
	if err != nil {
		return dst, err
	}
	g := lookup.Get{User: key, Seq: seq}
	setTier(&g, o)
	err = c.get(sv, &g, over)
	c.count(&g, start)
	if err == nil && g.State == lookup.Found {
		if dst == nil {
			dst = make([]byte, 0, len(g.Value))
		}
		dst = append(dst, g.Value...)
		g.Release()
		sv.Release()
		return dst, nil
	}
	g.Release()
	sv.Release()
	return dst, c.failedGet(&g, err)
}

// count counts a point read that began at start.
func (c *ColumnFamily) count(g *lookup.Get, start time.Time) {
	g.Tally.Flush(&c.counts.Set, stats.BytesRead, uint64(len(g.Value)))
	if h := c.db.hist; h != nil {
		h.Since(stats.DBGet, start)
		h.Add(stats.BytesPerRead, uint64(len(g.Value)))
		h.Add(stats.ReadNumMergeOperands, uint64(g.Operands()))
	}
}

// get walks down the tree, over which the writes of a batch may stand, and applies merge operands, if it came upon any.
func (c *ColumnFamily) get(sv *lsm.Superversion, g *lookup.Get, over *IndexedBatch) error {
	var err error
	if over == nil || !over.get(c, g) {
		err = sv.Get(g)
	}
	if err == nil {
		err = c.merge(g)
	}
	return err
}

// merge applies the merge operands that a read came upon, if there are any.
func (c *ColumnFamily) merge(g *lookup.Get) error {
	if !g.Merging() {
		return nil
	}
	err := g.Merge(c.opts.MergeOperator)
	if err != nil {
		c.counts.Add(stats.NumberMergeFailures, 1)
		err = c.mergeError(err)
	}
	return err
}

// setTier passes on how the read is to be done.
func setTier(g *lookup.Get, o *ReadOptions) {
	if o != nil {
		g.CacheOnly, g.DontFillCache = o.ReadTier == BlockCacheTier, o.DontFillCache
	}
}

// failedGet is the error of a read that found no value.
func (c *ColumnFamily) failedGet(g *lookup.Get, err error) error {
	switch {
	case err != nil:
		return c.readError(err)
	case g.State == lookup.Unsupported:
		return fmt.Errorf("column family %q: key %q is a %v: %w", c.name, g.User, g.Kind, ErrNotSupported)
	}
	return ErrNotFound
}

// readError gives an error from below its sentinel, and says whose data it was.
func (c *ColumnFamily) readError(err error) error {
	if errors.Is(err, sstable.ErrNotCached) {
		return ErrIncomplete
	}
	if errors.Is(err, sstable.ErrCacheFull) {
		return fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	if e, ok := errors.AsType[*corrupt.Error](err); ok && e.ColumnFamily == "" {
		e.ColumnFamily = c.name
	}
	return classify(err)
}

// GetPinned calls fn with key's value in place, without a copy. The value must not be changed, nor used after fn has
// returned. It returns fn's error, or ErrNotFound without having called it. A Close meanwhile gives ErrBusy, and fn's
// return finishes it.
func (c *ColumnFamily) GetPinned(key []byte, o *ReadOptions, fn func(value []byte) error) error {
	start := c.db.hist.Start()
	sv, seq, err := c.view(o)
	if err != nil {
		return err
	}
	g := lookup.Get{User: key, Seq: seq}
	setTier(&g, o)
	err = c.get(sv, &g, nil)
	c.count(&g, start)
	if err == nil && g.State == lookup.Found {
		h := c.db.handles.add(handlePinned, c.name)
		defer func() {
			g.Release()
			sv.Release()
			c.db.closeHandle(handlePinned, h)
		}()
		return fn(g.Value)
	}
	g.Release()
	sv.Release()
	return c.failedGet(&g, err)
}
