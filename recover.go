package ashlar

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/lsm"
	"github.com/ashlardb/ashlar/manifest"
	"github.com/ashlardb/ashlar/memtable"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/wal"
)

// mappedWindow is how much of a log is mapped at a time: enough that making another one does not count, few enough that
// databases with little in them do not take much of the disk.
const mappedWindow = 16 << 20

// recovery replays the logs into memtables and these into tables of level 0. The edits are kept until everything is
// replayed and then applied as one: a crash before leaves the old manifest and the logs, and the next Open does it again.
type recovery struct {
	d     *DB
	mems  map[*ColumnFamily]*lsm.Mem
	edits map[*ColumnFamily]*manifest.Edit
	hint  memtable.Hint
	// prepared is what two-phase commits have prepared and not ended yet.
	prepared map[string]*preparedWrites
}

// recover replays what the logs hold, begins a new log, and opens the trees. It returns the names found in the
// database's directories.
func (d *DB) recover() (names []string, err error) {
	if names, err = d.fs.List(d.dir); err != nil {
		return nil, err
	}
	if d.walDir != d.dir {
		more, err := d.fs.List(d.walDir)
		if err != nil {
			return nil, err
		}
		names = append(names, more...)
	}
	first := d.versions.FirstLog()
	var logs []wal.Log
	for _, name := range names {
		kind, num, ok := fname.Parse(name)
		if !ok || kind == fname.OldInfoLog || !kind.HasNum() {
			continue
		}
		d.versions.MarkFileNumUsed(num)
		if kind == fname.Log && num >= first {
			logs = append(logs, wal.Log{Number: num, Path: d.path(fname.Log, num)})
		}
	}
	slices.SortFunc(logs, func(a, b wal.Log) int { return int(int64(a.Number) - int64(b.Number)) })

	r := &recovery{d: d, mems: map[*ColumnFamily]*lsm.Mem{}, edits: map[*ColumnFamily]*manifest.Edit{}, prepared: map[string]*preparedWrites{}}
	defer func() {
		for _, m := range r.mems {
			m.Table.Release()
		}
	}()
	found, err := wal.Recover(d.fs, logs, d.opts.WALRecoveryMode, d.versions.MinLogToKeep(), d.versions.LastSeq(), r.apply)
	for _, e := range found.Damage {
		d.log.Warn("recovery left out", "error", e)
	}
	if err != nil {
		return nil, err
	}
	if found.Stopped {
		if err := d.checkStop(found); err != nil {
			return nil, err
		}
	}
	if err := r.takePrepared(); err != nil {
		return nil, err
	}
	d.log.Info("recovered", "logs", len(logs), "batches", found.Batches, "bytes", found.Bytes, "last", found.LastSeq,
		"stopped", found.Stopped, "damage", found.DamageCount)
	for cf := range r.mems {
		if err := r.flush(cf); err != nil {
			return nil, err
		}
	}
	d.lastSeq = found.LastSeq
	return names, r.install(found)
}

// checkStop refuses a state in which one family's tables hold what came after the place where recovery stopped, since
// another family's part of it is lost.
func (d *DB) checkStop(found wal.Recovered) error {
	for _, cf := range d.ColumnFamilies() {
		if d.versions.LogNumber(cf.id) <= found.StoppedLog {
			continue
		}
		v := d.versions.Current(cf.id)
		defer v.Unref()
		for _, f := range v.All() {
			if f.LargestSeq > found.Last.LastSeq {
				return &CorruptionError{
					File: d.path(fname.Log, found.StoppedLog), Offset: found.StoppedAt, ColumnFamily: cf.name,
					Err: fmt.Errorf("recovery stops at sequence number %d, but table %d of the family holds numbers up to %d: the families would not be of one time",
						found.Last.LastSeq, f.Num, f.LargestSeq),
				}
			}
		}
	}
	return nil
}

// takePrepared makes what is left prepared the database's.
func (r *recovery) takePrepared() error {
	if len(r.prepared) > 0 && !r.d.twoPhase {
		names := slices.Sorted(maps.Keys(r.prepared))
		return fmt.Errorf("the log holds %d prepared transactions, %q among them: open it with package txn: %w", len(names), names[0], ErrNotSupported)
	}
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	for name, p := range r.prepared {
		r.d.prepared.byName[name] = p
	}
	return nil
}

// apply replays one record of log num.
func (r *recovery) apply(num uint64, rec []byte) error {
	seq := batch.Seq(rec)
	for rd := batch.NewLogReader(rec); ; {
		op, ok, err := rd.Next()
		if err != nil || !ok {
			return err
		}
		switch {
		case op.LogData:
		case op.Mark == batch.NoMark:
			err = r.replay(num, op, seq)
			seq++
		case op.Mark == batch.BeginPrepare:
			err = r.prepare(num, &rd)
		case op.Mark == batch.Commit:
			seq, err = r.commit(num, string(op.Key), seq)
		case op.Mark == batch.Rollback:
			delete(r.prepared, string(op.Key))
		}
		if err != nil {
			return err
		}
	}
}

// replay does one write of log num. Writes to families that were dropped, or that have flushed past this log, count but
// are not done again.
func (r *recovery) replay(num uint64, op batch.Record, seq kv.Seq) error {
	cf := r.d.familyByID(op.Family)
	if cf == nil || num < r.d.versions.LogNumber(cf.id) {
		return nil
	}
	return r.insert(cf, num, op, seq)
}

// prepare keeps the writes up to the end mark.
func (r *recovery) prepare(num uint64, rd *batch.Reader) error {
	b := &Batch{data: batch.Init(nil)}
	start := *rd
	for end := rd.Offset(); ; end = rd.Offset() {
		op, ok, err := rd.Next()
		if err != nil || !ok {
			return err // wal.Recover has checked that there is an end
		}
		switch {
		case op.Mark == batch.EndPrepare:
			b.data = append(b.data, start.Bytes(end)...)
			r.prepared[string(op.Key)] = &preparedWrites{name: string(op.Key), batch: b, log: num}
			return b.measure(0, 1)
		case !op.LogData:
			b.count++
		}
	}
}

// commit does what was prepared, from seq on, and returns the next number. What is not there was committed, and has gone
// into tables together with what it was committed with.
func (r *recovery) commit(num uint64, name string, seq kv.Seq) (kv.Seq, error) {
	p := r.prepared[name]
	if p == nil {
		return seq, nil
	}
	delete(r.prepared, name)
	for rd := batch.NewReader(p.batch.data); ; {
		op, ok, err := rd.Next()
		if err != nil || !ok {
			return seq, err
		}
		if op.LogData {
			continue
		}
		if err := r.replay(num, op, seq); err != nil {
			return seq, err
		}
		seq++
	}
}

func (r *recovery) insert(cf *ColumnFamily, num uint64, op batch.Record, seq kv.Seq) error {
	switch op.Kind {
	case kv.KindValue, kv.KindDelete, kv.KindSingleDel, kv.KindRangeDelete:
	case kv.KindMerge: // also without a merge operator: operands are kept for one who has it
	default:
		return fmt.Errorf("log %d: column family %q: key %q: a %v: %w", num, cf.name, op.Key, op.Kind, ErrNotSupported)
	}
	need := needs(op.Kind, op.Key, op.Value)
	m := r.mems[cf]
	if m != nil && (cf.memFull(m, 0) || m.Arena().Capacity()-int(m.Bytes()) < need) {
		if err := r.flush(cf); err != nil {
			return err
		}
		m = nil
	}
	if m == nil {
		var err error
		if m, err = cf.newMem(need, num); err != nil {
			return err
		}
		r.mems[cf] = m
		r.hint = memtable.Hint{}
	}
	if op.Kind == kv.KindRangeDelete {
		m.AddTombstone(op.Key, op.Value, seq)
		return nil
	}
	return m.Insert(&r.hint, op.Key, kv.MakeTrailer(seq, op.Kind), op.Value)
}

// flush writes a family's memtable to a table of level 0.
func (r *recovery) flush(cf *ColumnFamily) error {
	m := r.mems[cf]
	f, err := r.d.writeLevel0(r.d.ctx, cf, []*lsm.Mem{m}, nil, kv.MaxSeq)
	if err != nil {
		return during(err, "flush column family %q", cf.name)
	}
	if f != nil {
		e := r.edit(cf)
		e.Add = append(e.Add, manifest.AddedFile{Level: 0, File: f})
	}
	m.Table.Release()
	delete(r.mems, cf)
	return nil
}

func (r *recovery) edit(cf *ColumnFamily) *manifest.Edit {
	if r.edits[cf] == nil {
		r.edits[cf] = &manifest.Edit{Family: cf.id}
	}
	return r.edits[cf]
}

// install begins a new log, with what is prepared carried over, writes the edits, and opens the trees on the result.
func (r *recovery) install(found wal.Recovered) error {
	d := r.d
	d.wals = wal.NewSet(d.fs, d.walDir, found.Last)
	if d.opts.WALMapped == MappedWALOn || d.opts.WALMapped == DefaultMappedWAL && vfs.MapsSafely(d.fs, d.walDir) {
		d.wals.Window = int64(min(d.opts.WriteBufferSize, mappedWindow))
	}
	log, err := d.startLog(d.preparedTransactions())
	if err != nil {
		return err
	}
	d.visible.Store(uint64(d.lastSeq))
	families := d.ColumnFamilies()
	var edits []*manifest.Edit
	for _, cf := range families {
		e := r.edit(cf)
		e.LogNumber, e.LastSeq, e.MinLogToKeep = new(log), new(d.lastSeq), new(log)
		edits = append(edits, e)
	}
	if err := d.versions.Apply(edits, nil); err != nil {
		return during(err, "write the manifest")
	}
	for _, cf := range families {
		mem, err := cf.newMem(0, log)
		if err != nil {
			return err
		}
		v := d.versions.Current(cf.id)
		cf.openTreeLocked(mem, v)
		v.Unref()
	}
	return nil
}
