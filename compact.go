package ashlar

import (
	"context"
	"errors"
	"time"

	"github.com/ashlardb/ashlar/compaction"
	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/internal/tombstone"
	"github.com/ashlardb/ashlar/lsm"
	"github.com/ashlardb/ashlar/manifest"
	"github.com/ashlardb/ashlar/sstable"
)

// A compaction carries out a plan of the picker: prepare under mu (mark the plan's files busy), run without a lock,
// install under mu.

// readahead is how much of an input a compaction reads at a time.
const readahead = 1 << 20

// startCompactionLocked prepares a plan and starts it. done, if set, is told the files written and the result once it is
// installed.
func (d *DB) startCompactionLocked(cf *ColumnFamily, plan *compaction.Plan, done func([]uint64, error)) {
	cf.busy.Start(plan)
	cf.compacting++
	d.compactions++
	sv := cf.tree.Acquire() // keeps the input files alive
	go d.compact(cf, sv, plan, done)
}

// compact runs and installs.
func (d *DB) compact(cf *ColumnFamily, sv *lsm.Superversion, plan *compaction.Plan, done func([]uint64, error)) {
	start := time.Now()
	res, err := d.runCompaction(cf, plan)
	sv.Release()
	info := CompactionInfo{
		ColumnFamily: cf.name, Reason: plan.Reason.String(), OutputLevel: plan.OutputLevel,
		BytesRead: res.BytesRead, BytesWritten: res.BytesWritten, Duration: time.Since(start), Err: err,
	}
	for _, in := range plan.Inputs {
		for _, f := range in.Files {
			info.Inputs = append(info.Inputs, f.Num)
		}
	}
	for _, f := range res.Files {
		info.Outputs = append(info.Outputs, f.Num)
	}
	d.log.Info("compaction", "family", cf.name, "plan", plan.String(), "outputs", len(res.Files), "read", res.BytesRead,
		"written", res.BytesWritten, "unmerged", res.Unmerged, "took", info.Duration, "error", err)
	if err == nil {
		d.hist.Add(stats.CompactionTime, uint64(info.Duration.Microseconds()))
		d.hist.Add(stats.NumFilesInSingleCompaction, uint64(len(info.Inputs)))
		d.counters.compactions.Add(1)
		d.counters.compactBytesRead.Add(res.BytesRead)
		d.counters.compactBytesWritten.Add(res.BytesWritten)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	cf.busy.Done(plan)
	cf.compacting--
	d.compactions--
	if err != nil && d.ctx.Err() == nil && !cf.dropped.Load() {
		d.setBackgroundErrorLocked(reasonCompaction, during(err, "compact column family %q", cf.name))
	}
	d.eventLocked(func() {
		if tell := d.opts.Listener.OnCompactionCompleted; tell != nil {
			tell(info)
		}
	})
	if done != nil {
		done(info.Outputs, err)
	}
	d.scheduleLocked()
	d.cond.Broadcast()
}

func (d *DB) runCompaction(cf *ColumnFamily, plan *compaction.Plan) (compaction.Result, error) {
	var res compaction.Result
	var err error
	if plan.Kind == compaction.Rewrite {
		env := d.env(cf, plan.OutputLevel, plan.Bottommost, d.snapshots.list())
		if res, err = compaction.Run(d.ctx, plan, env); err != nil {
			d.discard(res)
			return res, err
		}
		if err := d.adopt(cf, res.Files, plan.OutputLevel+1); err != nil {
			d.discard(res)
			return res, err
		}
	}
	edit := res.Edit(plan)
	edit.Family = cf.id
	err = d.versions.Apply([]*manifest.Edit{edit}, func(vs []*manifest.Version) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if vs[0] == nil || cf.dropped.Load() {
			return
		}
		cf.tree.InstallLocked(vs[0])
		d.updateStallLocked(cf)
	})
	d.obsoleteManifests()
	if errors.Is(err, manifest.ErrNoFamily) {
		d.discard(res) // dropped meanwhile
	}
	return res, during(err, "write the manifest")
}

// discard removes the files of a job that failed before the manifest knew them.
func (d *DB) discard(res compaction.Result) {
	nums := res.Remove
	for _, f := range res.Files {
		nums = append(nums, f.Num)
	}
	d.obsolete(fname.Table, nums...)
}

// adopt makes new tables' names safe and opens them: one that cannot be read must not take the place of its inputs. It
// estimates what their range deletes hide on the levels from below on, so that compactions take such tables early.
func (d *DB) adopt(cf *ColumnFamily, files []*manifest.File, below int) error {
	if len(files) == 0 {
		return nil
	}
	if err := d.fs.SyncDir(d.dir); err != nil {
		return err
	}
	tables := cf.live.Load().tablesAt(max(below-1, 0))
	for _, f := range files {
		h, err := d.tables.Get(f.Num, f.Size, f.LargestSeq, tables)
		if err != nil {
			return err
		}
		if l := h.Reader().Tombstones(); l != nil {
			f.CompensatedRangeDeletionSize = cf.hiddenBytes(l, below)
		}
		h.Release()
	}
	return nil
}

// hiddenBytes estimates what range deletes hide on the levels from one on. Tables that are not open are not opened for it.
func (c *ColumnFamily) hiddenBytes(l *tombstone.List, from int) uint64 {
	if c.tree == nil {
		return 0 // recovery: the tree has not been looked at yet
	}
	sv := c.tree.Acquire()
	if sv == nil {
		return 0
	}
	defer sv.Release()
	return compaction.HiddenBytes(c.opts.Comparator, sv.Version(), from, l, func(f *manifest.File, user []byte) uint64 {
		h, ok := c.db.tables.Reader(f.Num)
		if !ok {
			return f.Size / 2
		}
		defer h.Release()
		return h.Reader().ApproximateOffset(user)
	})
}

// env gives a job its means: how tables are opened and made. All of a job's tables are made with the options of its
// beginning.
func (d *DB) env(cf *ColumnFamily, level int, bottommost bool, snapshots []kv.Seq) compaction.Env {
	o := cf.live.Load()
	return compaction.Env{
		Comparer:  cf.opts.Comparator,
		Operator:  cf.opts.MergeOperator,
		Snapshots: snapshots,
		Now:       d.now,
		Open: func(f *manifest.File) (kv.Iterator, error) {
			h, err := d.tables.Get(f.Num, f.Size, f.LargestSeq, o.tablesAt(1))
			if err != nil {
				return nil, err
			}
			return &jobIter{h.Reader().NewIter(sstable.IterOptions{Readahead: readahead}), h}, nil
		},
		Tombstones: func(f *manifest.File) (*tombstone.List, error) {
			h, err := d.tables.Get(f.Num, f.Size, f.LargestSeq, o.tablesAt(1))
			if err != nil {
				return nil, err
			}
			defer h.Release()
			return h.Reader().Tombstones(), nil
		},
		Create: func() (*sstable.Writer, uint64, error) {
			num := d.versions.NewFileNum()
			w, err := cf.createTable(o, num, level, bottommost)
			return w, num, err
		},
	}
}

// jobIter is a table's iterator with the handle that keeps the table open.
type jobIter struct {
	*sstable.Iterator
	h sstable.Handle
}

func (i *jobIter) Close() error {
	err := i.Iterator.Close()
	i.h.Release()
	return err
}

// CompactRange compacts all of begin <= key <= end, nil being open, down to the deepest level that holds any of it, and
// waits for that.
func (c *ColumnFamily) CompactRange(ctx context.Context, begin, end []byte, o *CompactRangeOptions) error {
	d := c.db
	if err := c.usable(); err != nil {
		return err
	}
	if o == nil {
		o = &CompactRangeOptions{}
	}
	if err := d.Flush(ctx, nil, c); err != nil {
		return err
	}
	defer d.wakeAt(ctx)()
	d.mu.Lock()
	d.manual++
	defer func() {
		d.manual--
		d.scheduleLocked()
		d.cond.Broadcast()
		d.mu.Unlock()
	}()
	return c.compactRangeLocked(ctx, begin, end, o)
}

// compactRangeLocked works down level by level. Level 0 goes to the base level, each deeper one to the next, as far as
// the data reached when it began; the deepest is rewritten in place only
// when forced, and then whatever this call has not written just before.
func (c *ColumnFamily) compactRangeLocked(ctx context.Context, begin, end []byte, o *CompactRangeOptions) error {
	v := c.tree.VersionLocked()
	r := kv.Range{Start: begin, End: end, EndInclusive: true}
	deepest := 0
	for n := range v.NumLevels() {
		if len(v.Overlapping(n, r)) > 0 {
			deepest = n
		}
	}
	done := map[uint64]bool{} // files that were written here
	for level := 0; level <= deepest; level++ {
		output := level + 1
		switch {
		case level == 0:
			output, _ = c.live.Load().picker.Targets(v)
			output = max(output, 1)
			deepest = max(deepest, 1)
		case level == deepest && !o.ForceBottommost:
			return nil
		case level == deepest:
			output = level
		}
		moved, err := c.compactLevelLocked(ctx, level, output, begin, end, done)
		if err != nil {
			return err
		}
		if level == 0 {
			if moved {
				deepest = max(deepest, output)
			}
			level = output - 1 // what lies between is empty
		}
		v = c.tree.VersionLocked()
	}
	return nil
}

// compactLevelLocked compacts what a level holds of the range into output, a bounded piece at a time. It adds the files that
// it writes to done, and rewrites none in place that is there.
func (c *ColumnFamily) compactLevelLocked(ctx context.Context, level, output int, begin, end []byte, done map[uint64]bool) (moved bool, err error) {
	d := c.db
	for {
		if err := c.jobError(ctx); err != nil {
			return moved, err
		}
		plan, next, wait := c.live.Load().picker.PickRange(c.tree.VersionLocked(), level, output, begin, end, done, &c.busy)
		if wait {
			d.cond.Wait()
			continue
		}
		if plan == nil {
			return moved, nil
		}
		moved = true
		var result error
		finished := false
		d.startCompactionLocked(c, plan, func(outputs []uint64, err error) {
			for _, num := range outputs {
				done[num] = true
			}
			result, finished = err, true
		})
		for !finished {
			d.cond.Wait()
		}
		if result != nil {
			return moved, c.readError(result)
		}
		if next == nil {
			return moved, nil
		}
		begin = next
	}
}

// jobError says why a job should not go on.
func (c *ColumnFamily) jobError(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.usable(); err != nil {
		return err
	}
	if c.db.closing {
		return ErrClosed
	}
	if e := c.db.bgError.Load(); e != nil {
		return e
	}
	return nil
}

// WaitForCompact returns when nothing is left to flush or compact, of what is done without being asked.
func (d *DB) WaitForCompact(ctx context.Context) error {
	defer d.wakeAt(ctx)()
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if err := d.family.jobError(ctx); err != nil {
			return err
		}
		d.scheduleLocked()
		waiting := d.flushes + d.compactions
		for _, cf := range d.ColumnFamilies() {
			waiting += len(cf.tree.ImmLocked())
		}
		if waiting == 0 {
			return nil
		}
		d.cond.Wait()
	}
}
