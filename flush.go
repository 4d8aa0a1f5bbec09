package ashlar

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ashlardb/ashlar/compaction"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/internal/tombstone"
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
func (d *DB) flush(job flushJob) error { return d.flushTogether([]flushJob{job}, false) }

// flushTogether runs jobs and installs them at once: after a crash all of it is there or nothing. With all they are those
// of every family.
func (d *DB) flushTogether(jobs []flushJob, all bool) error {
	start := time.Now()
	files, err := d.runFlush(jobs, all)
	took := time.Since(start)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, job := range jobs {
		job.sv.Release()
		d.flushes--
		job.cf.flushing = false
		if len(job.mems) > 0 {
			info := FlushInfo{ColumnFamily: job.cf.name, Duration: took, Err: err}
			if err == nil && files[i] != nil {
				info.FileNumber, info.Bytes = files[i].Num, files[i].Size
			}
			d.flushEndedLocked(info, len(job.mems))
		}
		if err != nil && d.ctx.Err() == nil && !job.cf.dropped.Load() {
			d.setBackgroundErrorLocked(reasonFlush, during(err, "flush column family %q", job.cf.name))
		}
	}
	d.scheduleLocked()
	d.cond.Broadcast()
	return err
}

func (d *DB) flushEndedLocked(info FlushInfo, memtables int) {
	if info.Err == nil {
		d.counters.flushes.Add(1)
		d.counters.flushBytes.Add(info.Bytes)
		d.hist.Add(stats.FlushTime, uint64(info.Duration.Microseconds()))
	}
	d.eventLocked(func() {
		d.log.Info("flush", "family", info.ColumnFamily, "memtables", memtables, "table", info.FileNumber, "bytes", info.Bytes,
			"took", info.Duration, "error", info.Err)
		if tell := d.opts.Listener.OnFlushCompleted; tell != nil {
			tell(info)
		}
	})
}

// runFlush returns the table of each job, nil where there was nothing to write.
func (d *DB) runFlush(jobs []flushJob, all bool) (files []*manifest.File, err error) {
	if !all && (len(d.ColumnFamilies()) > 1 || d.twoPhase) {
		// A batch may have written to several families. If this one's part went into a table while the log that holds the
		// others' parts was lost, half of the batch would be left. And a log that is kept for a prepared transaction must
		// be whole, since recovery goes no further than to where a log is damaged.
		if err := d.wals.SyncClosed(); err != nil {
			return nil, err
		}
	}
	last := kv.MaxSeq
	if all {
		last = d.visibleSeq() // Resume says why
	}
	known := false // to the manifest, whose affair the files then are
	defer func() {
		if err != nil && !known {
			for _, f := range files {
				if f != nil {
					d.tableObsolete(f)
				}
			}
		}
	}()
	for _, job := range jobs {
		var f *manifest.File
		if len(job.mems) > 0 {
			if f, err = d.writeLevel0(d.ctx, job.cf, job.mems, d.snapshots.list(), last); err != nil {
				return files, err
			}
		}
		files = append(files, f)
	}
	edits, err := d.flushEdits(jobs, files)
	if err != nil {
		return files, err
	}
	known = true
	err = d.versions.Apply(edits, func(vs []*manifest.Version) {
		d.mu.Lock()
		defer d.mu.Unlock()
		for i, job := range jobs {
			if vs[i] != nil && !job.cf.dropped.Load() {
				job.cf.tree.FlushedLocked(job.mems, vs[i])
				d.updateStallLocked(job.cf)
			}
		}
	})
	d.obsoleteManifests()
	if err != nil {
		known = !errors.Is(err, manifest.ErrNoFamily) // one that was dropped meanwhile: nothing was written
		return files, during(err, "write the manifest")
	}
	return files, d.dropLogs()
}

// published shows, from the first entry on, those up to a sequence number.
type published struct {
	kv.Iterator
	last kv.Seq
}

func (p *published) First() *kv.Entry { return p.skip(p.Iterator.First()) }
func (p *published) Next() *kv.Entry  { return p.skip(p.Iterator.Next()) }

func (p *published) skip(e *kv.Entry) *kv.Entry {
	for e != nil && e.Key.Seq() > p.last {
		e = p.Iterator.Next()
	}
	return e
}

// flushEdits says what the manifest is to know once the files of jobs take the place of their memtables.
func (d *DB) flushEdits(jobs []flushJob, files []*manifest.File) ([]*manifest.Edit, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	flushed := map[*ColumnFamily][]*lsm.Mem{}
	for _, job := range jobs {
		if job.cf.dropped.Load() {
			return nil, ErrColumnFamilyDropped
		}
		flushed[job.cf] = job.mems
	}
	var done []*lsm.Mem
	for _, job := range jobs {
		done = append(done, job.mems...)
	}
	low := min(d.wals.Current(), d.preparedLogLocked(done))
	for _, cf := range d.ColumnFamilies() {
		low = min(low, cf.logNumberLocked(flushed[cf]))
	}
	var edits []*manifest.Edit
	for i, job := range jobs {
		edit := &manifest.Edit{
			Family: job.cf.id, LogNumber: new(job.cf.logNumberLocked(job.mems)),
			LastSeq: new(d.visibleSeq()), MinLogToKeep: new(low),
		}
		if files[i] != nil {
			edit.Add = []manifest.AddedFile{{Level: 0, File: files[i]}}
		}
		edits = append(edits, edit)
	}
	return edits, nil
}

// writeLevel0 writes memtables, newest first, to one table, synced and with its name safe. It returns nil if nothing is
// left to be written. What has a number beyond last is left out.
func (d *DB) writeLevel0(ctx context.Context, cf *ColumnFamily, mems []*lsm.Mem, snapshots []kv.Seq, last kv.Seq) (*manifest.File, error) {
	f := compaction.Flush{OldestAncestorTime: d.now()}
	for _, m := range mems {
		var it kv.Iterator = m.NewIter()
		if last < kv.MaxSeq {
			it = &published{it, last}
		}
		f.Inputs = append(f.Inputs, it)
		f.Tombstones = m.AppendTombstones(f.Tombstones)
	}
	if last < kv.MaxSeq {
		for i, l := range f.Tombstones {
			f.Tombstones[i] = tombstone.New(cf.opts.Comparator, slices.DeleteFunc(slices.Clone(l.All()), func(t tombstone.Tombstone) bool {
				return t.Seq > last
			}))
		}
	}
	res, err := compaction.RunFlush(ctx, f, d.env(cf, 0, false, snapshots))
	if err == nil {
		err = d.adopt(cf, res.Files, 0)
	}
	if res.Unmerged > 0 {
		d.log.Warn("flush leaves merge operands as they are", "family", cf.name, "keys", res.Unmerged)
	}
	if err != nil || len(res.Files) == 0 {
		d.discard(res)
		return nil, err
	}
	return res.Files[0], nil
}

// Flush writes what the memtables of the families hold to tables; without families, of all of them, but for those that are
// dropped meanwhile. It waits for the tables to be there, unless o says otherwise.
func (d *DB) Flush(ctx context.Context, o *FlushOptions, cfs ...*ColumnFamily) error {
	all := len(cfs) == 0
	if all {
		cfs = d.ColumnFamilies()
	}
	passable := func(err error) bool { return err == nil || all && errors.Is(err, ErrColumnFamilyDropped) }
	for _, cf := range cfs {
		if cf.db != d {
			return invalid("Flush: column family %q is of another database", cf.name)
		}
		if err := cf.usable(); !passable(err) {
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
		if err := d.waitFlushed(ctx, cf); !passable(err) {
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

// flushAll flushes what waits in all families, in the caller's goroutine and past background errors, for Resume. It
// syncs no log, since one that failed cannot be; what a batch wrote to several families comes into tables at once
// instead. And it tells the manifest which logs are not needed any more, be there anything to flush or not.
func (d *DB) flushAll(ctx context.Context) error {
	d.mu.Lock()
	if err := d.awaitFlushesLocked(ctx); err != nil {
		d.mu.Unlock()
		return err
	}
	var jobs []flushJob
	for _, cf := range d.ColumnFamilies() {
		jobs = append(jobs, d.prepareFlushLocked(cf))
	}
	d.mu.Unlock()
	return during(d.flushTogether(jobs, true), "flush")
}

// awaitFlushes waits for the flushes that run. While an error stands that writes do not get past, no other begins.
func (d *DB) awaitFlushes(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.awaitFlushesLocked(ctx)
}

func (d *DB) awaitFlushesLocked(ctx context.Context) error {
	defer d.wakeAt(ctx)()
	for d.flushes > 0 && ctx.Err() == nil && !d.closing {
		d.cond.Wait()
	}
	if ctx.Err() == nil && d.closing {
		return ErrClosed
	}
	return ctx.Err()
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
