package ashlar

import (
	"context"
	"slices"
	"time"

	"github.com/ashlardb/ashlar/compaction"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/lsm"
	"github.com/ashlardb/ashlar/manifest"
)

// A flush writes a family's full memtables to one table of level 0: prepare under mu, run without a lock, install under
// mu. One at a time for each family, so that tables come in the order of their memtables.

// flushJob is a flush of everything that waited when it was prepared.
type flushJob struct {
	cf   *ColumnFamily
	sv   *lsm.Superversion // keeps the memtables alive
	mems []*lsm.Mem        // newest first
}

func (d *DB) prepareFlushLocked(cf *ColumnFamily) flushJob {
	cf.flushing = true
	d.flushes++
	return flushJob{cf, cf.tree.Acquire(), cf.tree.ImmLocked()}
}

// startFlushLocked prepares a flush and starts it.
func (d *DB) startFlushLocked(cf *ColumnFamily) {
	job := d.prepareFlushLocked(cf)
	go func() { _ = d.flush(job) }() // it keeps its error as the background error
}

// flush runs and installs a job.
func (d *DB) flush(job flushJob) error {
	cf := job.cf
	start := time.Now()
	f, err := d.runFlush(cf, job.mems)
	job.sv.Release()
	info := FlushInfo{ColumnFamily: cf.name, Duration: time.Since(start), Err: err}
	if f != nil {
		info.FileNumber, info.Bytes = f.Num, f.Size
	}
	d.log.Info("flush", "family", cf.name, "memtables", len(job.mems), "table", info.FileNumber, "bytes", info.Bytes,
		"took", info.Duration, "error", err)
	if err == nil {
		d.counters.flushes.Add(1)
		d.counters.flushBytes.Add(info.Bytes)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.flushes--
	cf.flushing = false
	d.eventLocked(func() {
		if tell := d.opts.Listener.OnFlushCompleted; tell != nil {
			tell(info)
		}
	})
	if err != nil && d.ctx.Err() == nil && !cf.dropped.Load() {
		d.setBackgroundErrorLocked(reasonFlush, during(err, "flush column family %q", cf.name))
	}
	d.scheduleLocked()
	d.cond.Broadcast()
	return err
}

func (d *DB) runFlush(cf *ColumnFamily, mems []*lsm.Mem) (*manifest.File, error) {
	if len(d.ColumnFamilies()) > 1 {
		// A batch may have written to several families. If this one's part went into a table while the log that holds the
		// others' parts was lost, half of the batch would be left.
		if err := d.wals.SyncClosed(); err != nil {
			return nil, err
		}
	}
	f, err := d.writeLevel0(d.ctx, cf, mems, d.snapshots.list())
	if err != nil {
		return nil, err
	}
	edit := &manifest.Edit{Family: cf.id}
	if f != nil {
		edit.Add = []manifest.AddedFile{{Level: 0, File: f}}
	}
	d.mu.Lock()
	if cf.dropped.Load() {
		d.mu.Unlock()
		if f != nil {
			d.tableObsolete(f)
		}
		return nil, ErrColumnFamilyDropped
	}
	edit.LogNumber = new(cf.logNumberLocked(mems))
	edit.LastSeq = new(d.visibleSeq())
	low := *edit.LogNumber
	for _, c := range d.ColumnFamilies() {
		if c != cf {
			low = min(low, c.logNumberLocked(nil))
		}
	}
	edit.MinLogToKeep = new(low)
	d.mu.Unlock()
	err = d.versions.Apply([]*manifest.Edit{edit}, func(vs []*manifest.Version) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if vs[0] == nil || cf.dropped.Load() {
			return
		}
		cf.tree.FlushedLocked(mems, vs[0])
		d.updateStallLocked(cf)
	})
	d.obsoleteManifests()
	if err != nil {
		return nil, during(err, "write the manifest")
	}
	d.dropLogs()
	return f, nil
}

// writeLevel0 writes memtables, newest first, to one table, synced and with its name safe. It returns nil if nothing is
// left to be written.
func (d *DB) writeLevel0(ctx context.Context, cf *ColumnFamily, mems []*lsm.Mem, snapshots []kv.Seq) (*manifest.File, error) {
	var inputs []kv.Iterator
	for _, m := range mems {
		inputs = append(inputs, m.NewIter())
	}
	res, err := compaction.RunFlush(ctx, compaction.Flush{Inputs: inputs, OldestAncestorTime: d.now()}, d.env(cf, 0, false, snapshots))
	if err == nil {
		err = d.adopt(cf, res.Files)
	}
	if err != nil || len(res.Files) == 0 {
		d.discard(res)
		return nil, err
	}
	return res.Files[0], nil
}

// Flush writes what the memtables of the families hold to tables; without families, of all of them. It waits for the
// tables to be there, unless o says otherwise.
func (d *DB) Flush(ctx context.Context, o *FlushOptions, cfs ...*ColumnFamily) error {
	if len(cfs) == 0 {
		cfs = d.ColumnFamilies()
	}
	for _, cf := range cfs {
		if cf.db != d {
			return invalid("Flush: column family %q is of another database", cf.name)
		}
		if err := cf.usable(); err != nil {
			return err
		}
	}
	err := d.exclusive(func() error {
		for _, cf := range cfs {
			if cf.dropped.Load() || cf.mem.Empty() {
				continue
			}
			if err := d.switchMemtable(cf, 0); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || o != nil && o.NoWait {
		return err
	}
	for _, cf := range cfs {
		if err := d.waitFlushed(ctx, cf); err != nil {
			return err
		}
	}
	return nil
}

// waitFlushed returns when every memtable that waits for its flush now is in a table.
func (d *DB) waitFlushed(ctx context.Context, cf *ColumnFamily) error {
	defer d.wakeAt(ctx)()
	d.mu.Lock()
	defer d.mu.Unlock()
	wait := cf.tree.ImmLocked()
	for {
		left := slices.ContainsFunc(cf.tree.ImmLocked(), func(m *lsm.Mem) bool { return slices.Contains(wait, m) })
		switch e := d.bgError.Load(); {
		case cf.dropped.Load():
			return during(ErrColumnFamilyDropped, "column family %q", cf.name)
		case !left:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case e != nil && e.severity >= severityHard:
			return e
		case d.closing:
			return ErrClosed
		}
		d.cond.Wait()
	}
}

// wakeAt wakes everyone who waits on cond when ctx ends. The function that it returns undoes that.
func (d *DB) wakeAt(ctx context.Context) func() bool {
	return context.AfterFunc(ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.cond.Broadcast()
	})
}

// flushNow flushes what waits in a family, in the caller's goroutine and past background errors, for Resume.
func (d *DB) flushNow(ctx context.Context, cf *ColumnFamily) error {
	defer d.wakeAt(ctx)()
	d.mu.Lock()
	for cf.flushing && ctx.Err() == nil && !d.closing {
		d.cond.Wait()
	}
	err := ctx.Err()
	if err == nil && d.closing {
		err = ErrClosed
	}
	if err != nil || cf.dropped.Load() || len(cf.tree.ImmLocked()) == 0 {
		d.mu.Unlock()
		return err
	}
	job := d.prepareFlushLocked(cf)
	d.mu.Unlock()
	return during(d.flush(job), "flush column family %q", cf.name)
}

func (d *DB) immOf(cf *ColumnFamily) []*lsm.Mem {
	d.mu.Lock()
	defer d.mu.Unlock()
	return cf.tree.ImmLocked()
}

// flushUnlogged saves, at Close, what no log holds.
func (d *DB) flushUnlogged() error {
	err := d.writes.Exclusive(func() error {
		for _, cf := range d.ColumnFamilies() {
			if cf.unlogged() && !cf.mem.Empty() {
				if err := d.switchMemtable(cf, 0); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, cf := range d.ColumnFamilies() {
		if err := d.waitFlushed(d.ctx, cf); err != nil {
			return err
		}
	}
	return nil
}
