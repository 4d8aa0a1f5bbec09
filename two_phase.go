package ashlar

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/lsm"
	"github.com/ashlardb/ashlar/writegroup"
)

// Two-phase commits, RocksDB's WriteCommitted. Users see them in package txn.
//
//	prepare   begin, the writes, end and the name go to the log, and not into memtables. They take no sequence numbers
//	          yet.
//	commit    a mark with the name goes to the log; the writes, kept in memory since, go into memtables with the numbers
//	          that are due.
//	rollback  a mark with the name goes to the log, and that is all.
//
// What is prepared needs the log in which it stands until it is rolled back, or committed and flushed. A log is not kept
// for that alone when there is a reason to begin a new one: when Open does, when Resume does, and when the logs have grown
// too large, what is prepared is carried over. It is written to the new log behind a rollback of itself, so that whoever
// reads both logs has it once.

// phase is what a work is to a two-phase commit.
type phase uint8

const (
	noPhase phase = iota
	preparePhase
	commitPhase
	rollbackPhase
)

// preparedWrites is what one transaction has prepared.
type preparedWrites struct {
	name  string
	batch *Batch
	log   uint64 // where it stands; 0 until it is prepared
	busy  bool   // a phase is under way
}

// preparedList is what is prepared, or about to be, by name. Guarded by DB.mu.
type preparedList struct{ byName map[string]*preparedWrites }

// uses are what the work puts into memtables.
func (c *commit) uses() []use {
	if c.phase == preparePhase {
		return nil
	}
	return c.batch.uses
}

// record is what goes to the log: how many records it counts, how many sequence numbers it takes, and its bytes.
func (c *commit) record() (records uint32, takes kv.Seq, body []byte) {
	switch c.phase {
	case preparePhase:
		return c.batch.count, 0, c.mark
	case commitPhase:
		return 0, kv.Seq(c.batch.count), c.mark
	case rollbackPhase:
		return 0, 0, c.mark
	}
	return c.batch.count, kv.Seq(c.batch.count), batch.Body(c.batch.data)
}

// endPhases notes what the works of a group have prepared, committed and rolled back. The group is being published, so
// the log in which it stands, and the memtables that it is in, are still the current ones.
func (d *DB) endPhases(g *writegroup.Group[*commit]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, c := range g.Works() {
		if g.Err(i) != nil {
			continue
		}
		switch c.phase {
		case preparePhase:
			c.txn.log = d.wals.Current()
		case commitPhase:
			for _, u := range c.batch.uses {
				cf := d.familyByID(u.family)
				if cf != nil && (cf.mem.PreparedLog == 0 || cf.mem.PreparedLog > c.txn.log) {
					cf.mem.PreparedLog = c.txn.log
				}
			}
			delete(d.prepared.byName, c.txn.name)
		case rollbackPhase:
			delete(d.prepared.byName, c.txn.name)
		}
	}
}

// preparedLogLocked is the first log with something prepared that is neither done for nor in tables, once the memtables
// given are; the largest number if there is none.
func (d *DB) preparedLogLocked(flushed []*lsm.Mem) uint64 {
	low := uint64(math.MaxUint64)
	if !d.twoPhase {
		return low
	}
	for _, p := range d.prepared.byName {
		if p.log != 0 {
			low = min(low, p.log)
		}
	}
	for _, cf := range d.ColumnFamilies() {
		if cf.tree == nil {
			continue // Open is under way
		}
		for _, m := range append([]*lsm.Mem{cf.tree.MemLocked()}, cf.tree.ImmLocked()...) {
			if m.PreparedLog != 0 && !slices.Contains(flushed, m) {
				low = min(low, m.PreparedLog)
			}
		}
	}
	return low
}

// preparedLog is preparedLogLocked for those who do not hold mu.
func (d *DB) preparedLog() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.preparedLogLocked(nil)
}

// preparedBefore returns what is prepared in logs below number, by name.
func (d *DB) preparedBefore(number uint64) (all []*preparedWrites) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.prepared.byName {
		if p.log != 0 && p.log < number {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *preparedWrites) int { return strings.Compare(a.name, b.name) })
	return all
}

// carryPrepared begins a new log for what is prepared in logs up to number, if there is any. It waits for writes that are
// being synced; if they fail it does too. Only the leader calls it.
func (d *DB) carryPrepared(number uint64) error {
	if !d.twoPhase || number >= d.wals.Current() {
		return nil
	}
	if err := d.settle(); err != nil {
		return err
	}
	carried := d.preparedBefore(number + 1)
	if len(carried) == 0 {
		return nil
	}
	// From now on the older log may go, and what it prepared is in the new one alone, which nobody reads behind a hole: the
	// logs between must be safe.
	err := d.wals.Sync()
	if err == nil {
		_, err = d.startLog(carried)
	}
	if err != nil {
		return d.setBackgroundError(reasonLog, err)
	}
	return nil
}

// carriedRecord is what a new log says of p: that it is rolled back, as older logs have it, and prepared.
func carriedRecord(p *preparedWrites, seq kv.Seq) []byte {
	rec := appendPrepare(batch.AppendRollback(batch.Init(nil), p.name), p)
	batch.SetHeader(rec, seq, p.batch.count)
	return rec
}

func appendPrepare(dst []byte, p *preparedWrites) []byte {
	dst = batch.AppendBeginPrepare(dst)
	dst = append(dst, batch.Body(p.batch.Data())...)
	return batch.AppendEndPrepare(dst, p.name)
}

// maxTransactionName is RocksDB's limit.
const maxTransactionName = 512

// prepare makes the writes of b safe under a name, as far as o asks for, without doing them. b must not change any more.
func (d *DB) prepare(name string, b *Batch, o *WriteOptions) error {
	switch {
	case !d.twoPhase:
		return during(ErrNotSupported, "the database is not open for two-phase commits")
	case name == "" || len(name) > maxTransactionName:
		return invalid("the name of a prepared transaction has 1 to %d bytes, not %d", maxTransactionName, len(name))
	case o != nil && o.DisableWAL:
		return invalid("what is prepared must be in the log")
	}
	if err := b.fits(d); err != nil {
		return err
	}
	p := &preparedWrites{name: name, batch: b, busy: true}
	d.mu.Lock()
	if d.prepared.byName[name] != nil {
		d.mu.Unlock()
		return invalid("there is a prepared transaction of the name %q", name)
	}
	d.prepared.byName[name] = p
	d.mu.Unlock()
	err := d.runPhase(p, preparePhase, b, appendPrepare(nil, p), o)
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.prepared.byName, name)
	}
	return err
}

// commitPrepared does what was prepared.
func (d *DB) commitPrepared(name string, o *WriteOptions) error {
	p, err := d.takePrepared(name)
	if err != nil {
		return err
	}
	return d.runPhase(p, commitPhase, p.batch, batch.AppendCommit(nil, name), o)
}

// rollbackPrepared forgets what was prepared.
func (d *DB) rollbackPrepared(name string, o *WriteOptions) error {
	p, err := d.takePrepared(name)
	if err != nil {
		return err
	}
	return d.runPhase(p, rollbackPhase, new(Batch), batch.AppendRollback(nil, name), o)
}

// takePrepared finds what is prepared under a name and keeps others from ending it at the same time.
func (d *DB) takePrepared(name string) (*preparedWrites, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.prepared.byName[name]
	if p == nil || p.log == 0 {
		return nil, fmt.Errorf("prepared transaction %q: %w", name, ErrNotFound)
	}
	if p.busy {
		return nil, fmt.Errorf("prepared transaction %q: %w", name, ErrBusy)
	}
	p.busy = true
	return p, nil
}

// runPhase writes the mark of a phase, with b the writes that it is about. An error leaves things as they were.
func (d *DB) runPhase(p *preparedWrites, ph phase, b *Batch, mark []byte, o *WriteOptions) error {
	own := WriteOptions{}
	if o != nil {
		own = *o
	}
	own.DisableWAL, own.LowPri = false, false // a commit frees locks: it is not made to wait for others
	c := d.newCommit(b)
	c.phase, c.mark, c.txn = ph, mark, p
	err := d.commit(c, &own)
	d.mu.Lock()
	defer d.mu.Unlock()
	p.busy = false
	return err
}

// preparedTransactions returns all that is prepared, by name.
func (d *DB) preparedTransactions() []*preparedWrites { return d.preparedBefore(math.MaxUint64) }
