package ashlar

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/internal/txnbridge"
	"github.com/ashlardb/ashlar/memtable"
	"github.com/ashlardb/ashlar/wal"
	"github.com/ashlardb/ashlar/writegroup"
)

// A write, from Put to visible. Writers queue up (package writegroup); the first leads a group:
//
//	Prepare   room: background error, full memtables, size of the logs, stalls. Before the group is formed, so that who
//	          comes meanwhile rides along.
//	Admit     who else may come: same DisableWAL, NoSlowdown and LowPri; Sync only behind a Sync. Others are passed over.
//	          Within the size limit, which closes the group.
//	Log       numbers for each batch, one record and one write(2) for the group (none: a mapped log, ManualWALFlush).
//	Insert    into the memtables, by the leader alone or by all at once.
//	Sync      if anyone asked for it: one fsync for all groups that are that far, while later ones are logged and inserted.
//	Publish   visible moves to the group's last number: all of it is seen at once, after it is as safe as was asked.
//
// Only the leader touches d.lastSeq, the mutable memtables' places and the logs' tail; the role is handed over, with
// everything the one before has written, when the group is inserted.
//
// With EnablePipelinedWrite the role is handed over when the group is logged. Groups insert one after the other all the
// same, and what is said below of syncs is true of inserts too; a precondition waits until all before is in the memtables.
//
// When a sync fails its groups are in the memtables and will never be published: they have failed, and no later write
// gets in until Resume has flushed these memtables without them, or the database is opened anew. So that no table holds
// what may fail yet, a memtable and its log are only switched when everything in them is published.

// groupSlack is the room that a memtable keeps beyond its write buffer and the leader's batch, for what the other members
// of a group bring.
func (o *ColumnFamilyOptions) groupSlack() int {
	return int(min(max(o.WriteBufferSize/8, 256<<10), 8<<20))
}

// commit is one Write on its way.
type commit struct {
	ctx   context.Context
	batch *Batch
	opts  WriteOptions
	seq   kv.Seq
	hints []familyHint
	own   Batch // the batch of a single-key write

	// Package txn's, through two_phase.go and precondition.go.
	check func(txnbridge.View) error // asked by the leader, before the log
	phase phase                      // of a two-phase commit
	mark  []byte                     // what goes to the log instead of batch, in a phase
	txn   *preparedWrites            // whose phase it is

	// Of its group, if it is the first in it.
	last   kv.Seq   // last number; 0 if Log failed each of its members
	end    wal.Mark // where its record ends
	phases bool     // there is a work of a two-phase commit in it
	spread bool     // its members insert side by side
	needs  int      // what it may take of memtables; 0 unless writes are pipelined
}

// familyHint remembers where the last insert into a family's memtable went.
type familyHint struct {
	family uint32
	hint   memtable.Hint
}

func (c *commit) hint(family uint32) *memtable.Hint {
	for i := range c.hints {
		if c.hints[i].family == family {
			return &c.hints[i].hint
		}
	}
	c.hints = append(c.hints, familyHint{family: family})
	return &c.hints[len(c.hints)-1].hint
}

// NewBatch returns an empty batch. It is the same as new(Batch).
func (d *DB) NewBatch() *Batch { return new(Batch) }

// Write does all of b, or nothing. Afterwards b is unchanged and may be written again. An empty batch is written too,
// so that Sync with one makes everything before it safe.
func (d *DB) Write(b *Batch, o *WriteOptions) error {
	return d.WriteContext(context.Background(), b, o)
}

// WriteContext is Write for a caller who may give up: ctx counts until the group's record goes to the log. After that
// the write is done, whatever ctx says.
func (d *DB) WriteContext(ctx context.Context, b *Batch, o *WriteOptions) error {
	if err := b.fits(d); err != nil {
		return err
	}
	c := d.newCommit(b)
	c.ctx = ctx
	return d.commit(c, o)
}

// newCommit returns a commit of b.
func (d *DB) newCommit(b *Batch) *commit {
	c := d.commits.Get().(*commit)
	c.ctx, c.batch = context.Background(), b
	b.Data()
	return c
}

// single returns a commit with an empty batch of its own, for commitSingle.
func (d *DB) single() *commit {
	c := d.commits.Get().(*commit)
	c.own.Clear()
	c.ctx, c.batch = context.Background(), &c.own
	return c
}

func (d *DB) commitSingle(c *commit, o *WriteOptions) error { return d.commit(c, o) }

func (d *DB) commit(c *commit, o *WriteOptions) error {
	c.opts, c.last, c.phases, c.spread, c.needs = WriteOptions{}, 0, false, false, 0
	if o != nil {
		c.opts = *o
	}
	if c.opts.Sync && c.opts.DisableWAL {
		return invalid("Sync asks for the log that DisableWAL leaves out")
	}
	start := d.hist.Start()
	err := d.makeWay(c)
	switch {
	case err != nil:
	case c.ctx.Done() == nil:
		err = d.writes.Commit(c)
	default:
		err = d.writes.CommitContext(c.ctx, c)
	}
	d.hist.Since(stats.DBWrite, start)
	if d.hist != nil {
		d.hist.Add(stats.BytesPerWrite, uint64(c.batch.Len()))
	}
	c.batch, c.ctx = nil, nil
	c.check, c.phase, c.mark, c.txn = nil, noPhase, nil, nil
	if cap(c.own.data) <= 64<<10 {
		d.commits.Put(c)
	}
	return err
}

// committer is the DB as writegroup sees it.
type committer struct{ d *DB }

// writable is nil unless the database is closed or an error in the background has stopped writes.
func (d *DB) writable() error {
	if d.closed.Load() {
		return ErrClosed
	}
	return d.broken()
}

// Prepare makes room for the leader's batch.
func (s committer) Prepare(c *commit) error {
	d := s.d
	if err := d.writable(); err != nil {
		return err
	}
	if len(d.touched) > 0 {
		if err := d.switchFull(); err != nil {
			return err
		}
	}
	if uint64(d.wals.TotalSize()) > d.maxTotalWAL.Load() {
		if err := d.switchOldest(); err != nil {
			return err
		}
	}
	if stallKind(d.stalled.Load()) >= stallDelay {
		if err := d.waitForRoom(c); err != nil {
			return err
		}
	}
	for _, u := range c.uses() {
		cf := d.familyByID(u.family)
		if cf == nil {
			continue // Log refuses it
		}
		if d.room(cf) < u.bytes+cf.live.Load().groupSlack() {
			if err := d.switchMemtable(cf, u.bytes); err != nil {
				return err
			}
		}
	}
	d.groupNeeds = 0
	return nil
}

// room is how many bytes a family's mutable memtable can still take.
func (d *DB) room(cf *ColumnFamily) int {
	return cf.mem.Arena().Capacity() - int(cf.mem.Bytes()) - int(d.underWay.Load())
}

// Admit says whether next joins lead's group of n members and size bytes.
func (s committer) Admit(lead, next *commit, n, size int) writegroup.Admission {
	d := s.d
	if next.opts.Sync && !lead.opts.Sync || next.opts.DisableWAL != lead.opts.DisableWAL ||
		next.opts.NoSlowdown != lead.opts.NoSlowdown || next.opts.LowPri != lead.opts.LowPri {
		return writegroup.PassOver
	}
	// A small leader is not kept waiting for a big group.
	limit := int(min(d.opts.MaxWriteBatchGroupSize, math.MaxInt))
	if l := lead.batch.Len(); l <= limit/8 {
		limit = l + limit/8
	}
	if size+next.batch.Len() > limit {
		return writegroup.CloseGroup
	}
	needs := d.groupNeeds
	for _, u := range next.uses() {
		needs += u.bytes
		if cf := d.familyByID(u.family); cf != nil && cf.mem != nil && d.room(cf) < needs+leaderUse(lead, u.family) {
			return writegroup.CloseGroup
		}
	}
	d.groupNeeds = needs
	return writegroup.Join
}

func leaderUse(lead *commit, family uint32) int {
	for _, u := range lead.uses() {
		if u.family == family {
			return u.bytes
		}
	}
	return 0
}

func (s committer) Size(c *commit) int { return c.batch.Len() }

// What it costs to insert side by side, in nanoseconds, by BenchmarkGroup and groupsim -calibrate, on 2 processors. A random
// insert took 0.9 to 2 µs, a wake 0.13 to 0.22 µs of the waker and 0.5 to 0.7 µs of the core that let the woken run. Where no
// core was free (load 4), groups of 8 to 256 took, spread, 1.0 to 1.3 times as long with batches of one entry, 0.9 to 1.2 with
// 4 entries, 0.8 to 1.05 with 16, 0.9 to 1.0 with 64; at a load of 15 up to 1.4 times. With nothing beside, 1.0 to 1.8, 0.8 to
// 1.25, 0.6 to 1.1 and 0.65 to 1.0 times: what takes less than a millisecond loses, since the second core comes late
// (docs/write-group.md).
const (
	insertCost = 1000   // an entry
	wakeCost   = 800    // a member
	spreadCost = 20_000 // the group: until other cores have come
)

// spreads says whether the members of a group insert their own batches, with so many processors: when that is faster than
// the leader's doing it for them, even if half of the processors have other work. So with fewer than 4 they never do.
func spreads(members, entries, procs int) bool {
	cores := min(procs/2, members)
	if cores < 2 {
		return false
	}
	return (entries*insertCost+members*wakeCost)/cores+spreadCost < entries*insertCost
}

// spreads decides for the group that was logged.
func (d *DB) spreads(members, entries int) bool {
	if from := d.opts.lab.SpreadFrom; from != 0 {
		return from > 0 && members >= from
	}
	return members > 1 && !d.opts.NoConcurrentMemtableWrite && spreads(members, entries, runtime.GOMAXPROCS(0))
}

// Log writes the group's record.
func (s committer) Log(g *writegroup.Group[*commit]) (spread bool, err error) {
	d := s.d
	works := g.Works()
	first := d.lastSeq + 1
	parts := append(d.parts[:0], d.header[:])
	var count uint32   // of records
	var numbers kv.Seq // that they take
	sync, size, phases := false, 0, slices.ContainsFunc(works, func(c *commit) bool { return c.phase != noPhase })
	if phases {
		first++ // one is left out: wal.Set.SetLastSeq says why
	}
	for i, c := range works {
		if err := d.admissible(c, works[:i], g); err != nil {
			g.Fail(i, err)
			continue
		}
		c.seq = first + numbers
		records, takes, body := c.record()
		count += records
		numbers += takes
		size += c.batch.Len()
		sync = sync || c.opts.Sync
		parts = append(parts, body)
	}
	d.parts = parts
	d.checks.reset()
	if len(parts) == 1 {
		return false, nil
	}
	// The numbers are used up even if the record fails: part of it may be in the file, and none may ever stand for two
	// writes.
	d.lastSeq = first - 1 + numbers
	works[0].last, works[0].phases = d.lastSeq, phases
	if !works[0].opts.DisableWAL {
		batch.SetHeader(d.header[:], first, count)
		var err error
		if d.opts.ManualWALFlush && !sync {
			err = d.wals.Buffer(parts...)
		} else {
			err = d.wals.Append(parts...)
		}
		if err != nil {
			return false, d.setBackgroundError(reasonLog, during(err, "write the log"))
		}
		d.counters.walBytes.Add(uint64(size))
		d.counters.walWrites.Add(uint64(len(parts) - 1))
		if phases {
			d.wals.SetLastSeq(d.lastSeq)
		}
		works[0].end = d.wals.Mark()
		if sync {
			g.NeedSync()
		}
	}
	clear(parts)
	needs := 0
	for _, c := range works {
		for _, u := range c.uses() {
			needs += u.bytes
			if cf := d.familyByID(u.family); cf != nil && !cf.touched {
				cf.touched = true
				d.touched = append(d.touched, cf)
			}
		}
	}
	if d.opts.EnablePipelinedWrite {
		works[0].needs = needs
		d.underWay.Add(int64(needs))
	}
	d.lastGroup = size
	d.counters.bytesWritten.Add(uint64(size))
	d.counters.groups.Add(1)
	d.counters.writes.Add(uint64(len(works)))
	d.counters.keysWritten.Add(uint64(numbers))
	works[0].spread = d.spreads(len(works), int(numbers)) && !d.folds(works)
	return works[0].spread, nil
}

// admissible checks that every family a batch names is there and can make something of what it is given, and the work's
// precondition. before are the works of group g that come before it.
func (d *DB) admissible(c *commit, before []*commit, g *writegroup.Group[*commit]) error {
	if c.phase == commitPhase {
		return nil // what was prepared will be done; a family dropped since has no use for its part
	}
	for _, u := range c.batch.uses {
		cf := d.familyByID(u.family)
		if cf == nil {
			return during(ErrColumnFamilyDropped, "write to column family %d", u.family)
		}
		if u.merges > 0 && cf.opts.MergeOperator == nil {
			return cf.noMergeOperator()
		}
	}
	if c.check == nil {
		return nil
	}
	d.writes.AwaitInserts()
	d.checks.add(before, g)
	return c.check(view{d})
}

// Insert puts one member's batch into the memtables.
func (s committer) Insert(g *writegroup.Group[*commit], c *commit) error {
	d := s.d
	if c.phase == preparePhase {
		return nil
	}
	seq, spread := c.seq, g.Works()[0].spread
	for r := batch.NewReader(c.batch.data); ; {
		rec, ok, err := r.Next()
		if err != nil || !ok {
			return err
		}
		if rec.LogData {
			continue
		}
		cf := d.familyByID(rec.Family)
		if cf == nil { // dropped since it was prepared
			seq++
			continue
		}
		h := &cf.hint
		if spread {
			h = c.hint(rec.Family)
		}
		if rec.Kind == kv.KindMerge && !spread {
			rec.Kind, rec.Value = cf.fold(g, rec.Key, rec.Value, seq)
		}
		if rec.Kind == kv.KindRangeDelete {
			cf.mem.AddTombstone(rec.Key, rec.Value, seq)
		} else if err := cf.mem.Insert(h, rec.Key, kv.MakeTrailer(seq, rec.Kind), rec.Value); err != nil {
			return fmt.Errorf("insert into column family %q: %w", cf.name, err)
		}
		if c.opts.DisableWAL {
			cf.mem.Unlogged.Store(true)
		}
		seq++
	}
}

// Sync makes every group that is logged safe.
func (s committer) Sync() error {
	d := s.d
	start := d.hist.Start()
	if err := d.wals.Sync(); err != nil {
		d.wals.Refuse(d.accepted, err)
		return d.setBackgroundError(reasonLog, during(err, "sync the log"))
	}
	d.hist.Since(stats.WALFileSync, start)
	d.counters.walSyncs.Add(1)
	return nil
}

// Publish makes the group visible.
func (s committer) Publish(g *writegroup.Group[*commit], err error) {
	d := s.d
	c := g.Works()[0]
	if c.needs > 0 {
		d.underWay.Add(-int64(c.needs))
	}
	if err != nil {
		if d.bgError.Load() == nil {
			// The record is in the log, part of it in memtables: nothing that this process does can put that right.
			d.setBackgroundError(reasonMemtable, err)
		}
		return
	}
	if c.last == 0 {
		return
	}
	if c.phases {
		d.endPhases(g)
	}
	if !c.opts.DisableWAL {
		d.accepted = c.end
	}
	d.visible.Store(uint64(c.last))
}

// switchFull gives every family whose memtable is full a new one.
func (d *DB) switchFull() error {
	for i, cf := range d.touched {
		cf.touched = false
		if cf.dropped.Load() || !cf.memFull(cf.mem, d.underWay.Load()) {
			continue
		}
		d.writes.AwaitInserts() // perhaps it is not full after all
		if !cf.memFull(cf.mem, 0) {
			continue
		}
		if err := d.switchMemtable(cf, 0); err != nil {
			cf.touched = true
			d.touched = append(d.touched[:0], d.touched[i:]...)
			return err
		}
	}
	clear(d.touched)
	d.touched = d.touched[:0]
	return nil
}

// switchOldest flushes the families that pin the oldest log: quiet ones, whose few writes would keep every log since.
// With one family the write buffer bounds the logs by itself, unless it is a prepared transaction that pins it.
func (d *DB) switchOldest() error {
	oldest := d.wals.Numbers()[0]
	if err := d.carryPrepared(oldest); err != nil {
		return err
	}
	families := d.ColumnFamilies()
	if len(families) < 2 && !d.twoPhase {
		return nil
	}
	for _, cf := range families {
		d.mu.Lock()
		pins := len(cf.tree.ImmLocked()) == 0 && !cf.mem.Empty() &&
			(cf.mem.LogNumber <= oldest || cf.mem.PreparedLog != 0 && cf.mem.PreparedLog <= oldest)
		d.mu.Unlock()
		if pins {
			if err := d.switchMemtable(cf, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// switchMemtable makes a family's memtable wait for its flush and starts a new one, with room for need bytes, and a new
// log if the current one holds anything. It waits for writes that are being synced; if they fail it does too. Only the
// leader calls it.
func (d *DB) switchMemtable(cf *ColumnFamily, need int) error {
	if err := d.settle(); err != nil {
		return err
	}
	return d.rotate(cf, need)
}

// settle waits for writes that are being synced. If they fail it does too. Only the leader calls it.
func (d *DB) settle() error {
	d.writes.Drain()
	return d.broken()
}

// rotate is switchMemtable when all is published that will be.
func (d *DB) rotate(cf *ColumnFamily, need int) error {
	log := d.wals.Current()
	if !d.wals.CurrentEmpty() {
		var err error
		if log, err = d.startLog(nil); err != nil {
			return d.setBackgroundError(reasonLog, err)
		}
	}
	mem, err := cf.newMem(need, log)
	if err != nil {
		return err
	}
	d.mu.Lock()
	if cf.mem.Empty() {
		// Nothing to flush: it was too small for a big batch.
		mem.LogNumber = max(mem.LogNumber, cf.mem.LogNumber)
	}
	cf.tree.RotateLocked(mem)
	cf.mem = mem
	cf.hint = memtable.Hint{}
	d.skipLogsLocked()
	d.updateStallLocked(cf)
	d.scheduleLocked()
	d.mu.Unlock()
	return nil
}

// startLog begins a new log, which takes over what is prepared and carried from older ones, and returns its number. Only
// the leader calls it, when all is published that will be, and Open.
func (d *DB) startLog(carried []*preparedWrites) (uint64, error) {
	log := d.versions.NewFileNum()
	recs := make([][]byte, len(carried))
	for i, p := range carried {
		d.lastSeq++
		recs[i] = carriedRecord(p, d.lastSeq+1)
	}
	if err := d.wals.Create(log, recs...); err != nil {
		return 0, during(err, "start log %d", log)
	}
	if len(recs) > 0 {
		d.wals.SetLastSeq(d.lastSeq)
	}
	d.accepted = d.wals.Mark()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range carried {
		p.log = log
	}
	return log, nil
}

// skipLogsLocked makes families that have written nothing need no log before the current one. Only the leader calls it.
func (d *DB) skipLogsLocked() {
	log := d.wals.Current()
	for _, cf := range d.ColumnFamilies() {
		if cf.mem.Empty() {
			cf.mem.LogNumber = log
		}
	}
}

// exclusive runs fn while nobody writes and no memtable switches.
func (d *DB) exclusive(fn func() error) error {
	return d.writes.Exclusive(func() error {
		if err := d.writable(); err != nil {
			return err
		}
		return fn()
	})
}
