package compaction

// A job reads its inputs once, in order, and writes tables; the manifest is the caller's business.
//
//  1. A job touches nothing but what its Env hands it, and takes no lock.
//  2. Either it returns finished, synced tables, or an error and the numbers of files to remove.
//  3. No output is empty, though there may be only range deletes in it, none holds part of a user key, and on level 0
//     there is at most one.
//  4. Decisions about versions go by Env.Snapshots, captured when the job was started: one that is released meanwhile
//     keeps what it kept, one that is taken meanwhile is newer than every input.

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/ashlardb/ashlar/internal/iterator"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/tombstone"
	"github.com/ashlardb/ashlar/manifest"
	"github.com/ashlardb/ashlar/sstable"
)

// Env is what a job cannot do by itself.
type Env struct {
	// Comparer is the family's order.
	Comparer *kv.Comparer
	// Operator is the family's merge operator. Without one operands stay as they are.
	Operator kv.MergeOperator
	// Open returns an iterator over a table, which the job closes. A job that reads level 0 has one open for each file
	// there, and one more for each other level.
	Open func(*manifest.File) (kv.Iterator, error)
	// Tombstones returns a table's range deletes, of which those parts count that are in the file's bounds; nil says that
	// no table has any.
	Tombstones func(*manifest.File) (*tombstone.List, error)
	// Create begins a new table under a new number. Where a number is returned with an error, it is among those to
	// remove.
	Create func() (w *sstable.Writer, num uint64, err error)
	// Snapshots are the sequence numbers that somebody may read at beside the latest one, at the moment when the job was
	// started. Every entry of the inputs must be visible at the latest one by then.
	Snapshots []kv.Seq
	// Now is the time in seconds since 1970, for File.CreationTime; nil leaves it unknown.
	Now func() uint64
}

// Result is what a job did.
type Result struct {
	// Files are the new tables, in order of their keys, with all that the manifest needs to know.
	Files []*manifest.File
	// Remove are the numbers of the files that a failed job leaves. A job that succeeded leaves none.
	Remove []uint64

	// BytesRead is the size of the input tables, 0 for a flush; BytesWritten that of Files.
	BytesRead, BytesWritten uint64
	// EntriesRead and EntriesWritten count versions of keys. The difference is what no reader could see any more.
	EntriesRead, EntriesWritten uint64
	// Unmerged counts the keys whose merge operands stay because the operator failed on them, or there is none.
	Unmerged uint64
}

// Edit returns the change that puts the result in place of p's inputs. For a Move the result is empty and the inputs
// themselves change their level. The caller adds the family.
func (r Result) Edit(p *Plan) *manifest.Edit {
	e := &manifest.Edit{}
	for _, in := range p.Inputs {
		for _, f := range in.Files {
			e.Delete = append(e.Delete, manifest.DeletedFile{Level: in.Level, Num: f.Num})
			if p.Kind == Move {
				e.Add = append(e.Add, manifest.AddedFile{Level: p.OutputLevel, File: f})
			}
		}
	}
	for _, f := range r.Files {
		e.Add = append(e.Add, manifest.AddedFile{Level: p.OutputLevel, File: f})
	}
	return e
}

// Run carries out p. It returns soon after ctx is done, with its error. A panic, as a user's comparer may cause, becomes
// an error. A Move has nothing to run.
func Run(ctx context.Context, p *Plan, env Env) (Result, error) {
	if p.Kind == Move {
		return Result{}, nil
	}
	j := &job{env: env, plan: p, epoch: p.Epoch(), ancestor: p.OldestAncestorTime()}
	j.res.BytesRead = p.InputBytes()
	if p.OutputLevel > 0 {
		j.below = newBelow(p.Below)
	}
	return j.run(ctx, func() error {
		for _, in := range p.Inputs {
			if err := j.open(in); err != nil {
				return err
			}
			if err := j.collect(in); err != nil {
				return err
			}
		}
		return nil
	})
}

// Flush is what RunFlush makes one table of level 0 from.
type Flush struct {
	// Inputs are iterators over memtables, which the job closes, whatever happens.
	Inputs []kv.Iterator
	// Tombstones are the memtables' range deletes.
	Tombstones []*tombstone.List
	// Epoch is the table's; 0 lets the manifest give it the next one.
	Epoch uint64
	// OldestAncestorTime is when the oldest of the data came, in seconds since 1970; 0 is unknown.
	OldestAncestorTime uint64
}

// RunFlush writes what survives of f's inputs into one table. There is none if nothing survives. Deletions always do:
// what they hide may be in older tables. The rest is as with Run; the edit of a flush is Result.Edit(&Plan{}) and the
// log number that the caller adds.
func RunFlush(ctx context.Context, f Flush, env Env) (Result, error) {
	j := &job{env: env, plan: &Plan{}, epoch: f.Epoch, ancestor: f.OldestAncestorTime, inputs: f.Inputs}
	for _, l := range f.Tombstones {
		j.tombstones = append(j.tombstones, l.All()...)
	}
	return j.run(ctx, func() error { return nil })
}

// job is one run. It lives on one goroutine.
type job struct {
	env             Env
	plan            *Plan
	epoch, ancestor uint64
	below           *below
	inputs          []kv.Iterator
	tombstones      []tombstone.Tombstone
	ranges          *ranges

	w       *sstable.Writer // the table being written, or nil
	num     uint64          // its number
	settled bool            // it keeps operands for good
	parents grandparents
	res     Result
}

func (j *job) run(ctx context.Context, open func() error) (Result, error) {
	err := guard(open)
	// Merging takes over also what an open that failed half-way has opened.
	in := iterator.Merging(j.env.Comparer, j.inputs...)
	if err == nil {
		err = guard(func() error { return j.write(ctx, in) })
	}
	if e := guard(in.Close); e != nil && !errors.Is(err, e) {
		err = errors.Join(err, e)
	}
	if err == nil {
		return j.res, nil
	}
	if j.w != nil {
		j.w.Abandon()
		j.res.Remove = append(j.res.Remove, j.num)
	}
	for _, f := range j.res.Files {
		j.res.Remove = append(j.res.Remove, f.Num)
	}
	j.res.Files, j.res.BytesWritten, j.res.EntriesWritten = nil, 0, 0
	return j.res, err
}

// open adds the iterators over an input. Files of level 0 overlap, those of another level are a run.
func (j *job) open(in Input) error {
	if in.Level > 0 && len(in.Files) > 1 {
		bounds := func(i int) (kv.Key, kv.Key) { return in.Files[i].Smallest, in.Files[i].Largest }
		j.inputs = append(j.inputs, iterator.NewConcat(j.env.Comparer, len(in.Files), bounds, func(i int) (kv.Iterator, error) {
			return j.env.Open(in.Files[i])
		}))
		return nil
	}
	for _, f := range in.Files {
		it, err := j.env.Open(f)
		if err != nil {
			return err
		}
		j.inputs = append(j.inputs, it)
	}
	return nil
}

// collect adds an input's range deletes.
func (j *job) collect(in Input) error {
	if j.env.Tombstones == nil {
		return nil
	}
	for _, f := range in.Files {
		l, err := j.env.Tombstones(f)
		if err != nil {
			return err
		}
		j.tombstones = tombstone.Truncate(j.tombstones, j.env.Comparer, l.All(), f.Smallest, f.Largest)
	}
	return nil
}

// guard runs f and makes an error of a panic.
func guard(f func() error) (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("compaction: panic: %v\n%s", x, debug.Stack())
		}
	}()
	return f()
}

func (j *job) write(ctx context.Context, in kv.Iterator) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	snapshots := slices.Clone(j.env.Snapshots)
	slices.Sort(snapshots)
	list := tombstone.New(j.env.Comparer, j.tombstones)
	s := &survivors{
		cmp: j.env.Comparer, op: j.env.Operator, it: in, snapshots: snapshots, bottom: j.plan.Bottommost, below: j.below, ranges: list,
		limit: sstable.MaxEntrySize, stop: ctx.Err,
	}
	j.ranges = newRanges(j.env.Comparer, list, snapshots, j.below, j.plan.Grandparents)
	j.parents = grandparents{files: j.plan.Grandparents}
	for e := s.next(); e != nil; e = s.next() {
		if s.fresh {
			s.fresh = false
			user := e.Key.User
			if user == nil {
				user = []byte{} // the empty key is not the end
			}
			if err := j.goTo(user); err != nil {
				return err
			}
		}
		if err := j.add(e); err != nil {
			return err
		}
		j.settled, s.stuck = j.settled || s.stuck, false
	}
	j.res.EntriesRead, j.res.Unmerged = s.read, s.unmerged
	if s.err != nil {
		return s.err
	}
	if err := j.goTo(nil); err != nil {
		return err
	}
	return j.finish(nil)
}

// goTo gets from the last key to user, a key that the table has no version of (nil: to the end), and ends the table, or
// several, on the way if it should not go on.
func (j *job) goTo(user []byte) error {
	if j.plan.TargetOutputSize == 0 {
		return nil
	}
	for _, k := range j.ranges.stops(user) {
		if err := j.maybeCut(k); err != nil {
			return err
		}
	}
	if user == nil {
		return nil
	}
	return j.maybeCut(user)
}

// maybeCut ends the table if it should not go on to user.
func (j *job) maybeCut(user []byte) error {
	p := place{
		target: j.plan.TargetOutputSize, limit: j.plan.MaxOutputSize, maxCompaction: j.plan.MaxCompactionBytes,
		overlapped: j.parents.overlapped,
	}
	p.passed = j.parents.advance(j.env.Comparer, user)
	p.boundaries, p.overlapping, p.gap = j.parents.boundaries, j.parents.overlapped, !j.parents.inside
	if j.w == nil && !j.ranges.pending(user) {
		return nil
	}
	if j.w != nil {
		p.size = j.w.EstimatedSize()
	}
	if !p.shouldCut() {
		return nil
	}
	j.parents.begin()
	return j.finish(user)
}

func (j *job) add(e *kv.Entry) error {
	if err := j.create(); err != nil {
		return err
	}
	j.res.EntriesWritten++
	return j.w.Add(e.Key, e.Value)
}

// create begins a table, unless there is one.
func (j *job) create() error {
	if j.w != nil {
		return nil
	}
	w, num, err := j.env.Create()
	if err != nil {
		if num != 0 {
			j.res.Remove = append(j.res.Remove, num)
		}
		return err
	}
	j.w, j.num = w, num
	return nil
}

// finish ends the table in hand before user, if there is anything in it, and describes it.
func (j *job) finish(user []byte) error {
	for _, p := range j.ranges.take(user) {
		if err := j.create(); err != nil {
			return err
		}
		for _, seq := range p.seqs {
			if err := j.w.AddTombstone(p.start, p.end, seq); err != nil {
				return err
			}
		}
	}
	if j.w == nil {
		return nil
	}
	w := j.w
	j.w = nil // it closes its file, whether it succeeds or not
	m, err := w.Finish()
	if err != nil {
		j.res.Remove = append(j.res.Remove, j.num)
		return err
	}
	f := &manifest.File{
		Num: j.num, Size: m.Size,
		Smallest: m.Smallest, Largest: m.Largest, SmallestSeq: m.SmallestSeq, LargestSeq: m.LargestSeq,
		Epoch: j.epoch, OldestAncestorTime: j.ancestor,
		UniqueID: m.UniqueID, TailSize: m.TailSize, Settled: j.settled,
	}
	j.settled = false
	if j.env.Now != nil {
		f.CreationTime = j.env.Now()
	}
	j.res.Files = append(j.res.Files, f)
	j.res.BytesWritten += f.Size
	return nil
}
