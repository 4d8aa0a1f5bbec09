package ashlar

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/manifest"
	"github.com/ashlardb/ashlar/sstable"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/wal"
	"github.com/ashlardb/ashlar/writegroup"
)

// DB is an open database. It has the verbs of its default column family. All methods may be called from many
// goroutines.
//
// Lock order: the leader's role in writes, then the manifest's lock, then mu, then leaves (snapshots, handles, cleaner,
// and the locks of parts). Nothing is read or written, and no callback of the user's is called, with mu held. Flushes and
// compactions never wait for the leader; the leader may wait for them, on cond.
type DB struct {
	*family // the default family

	// Constant after Open.
	opts     Options // those of Open
	dir      string
	walDir   string
	fs       vfs.FS
	lock     io.Closer // of the file LOCK
	identity string    // IDENTITY
	twoPhase bool      // open for package txn: there may be prepared transactions
	session  string    // new with each Open; with identity and a file's number it names a table for all time
	cache    *Cache
	tables   *sstable.Tables
	versions *manifest.VersionSet
	wals     *wal.Set
	writes   *writegroup.Queue[*commit]
	log      *slog.Logger
	logFile  io.Closer
	commits  sync.Pool
	ctx      context.Context // of background work; cancelled by Close
	cancel   context.CancelFunc
	finished chan struct{} // closed when the database is closed for good
	told     chan struct{} // closed when the listener has been told the last event

	// Atomics.
	visible       atomic.Uint64                   // sequence number that readers use; stored by Publish
	closed        atomic.Bool                     // stored by Close
	families      atomic.Pointer[[]*ColumnFamily] // by id, nil for dropped ones; stored under mu
	bgError       atomic.Pointer[backgroundError] // stored under mu
	dbOpts        atomic.Pointer[Options]         // opts with what SetDBOptions has changed; stored under mu
	stalled       atomic.Uint32                   // stall.kind, for the leader's quick look; stored under mu
	maxTotalWAL   atomic.Uint64                   // stored under mu
	superversions atomic.Int64                    // not yet freed
	underWay      atomic.Int64                    // memtable bytes of groups that are logged and not published, if writes are pipelined
	statsBase     atomic.Pointer[Metrics]         // at the last ResetStats
	counters      counters
	counts        stats.Set         // what is nobody's family
	hist          *stats.Histograms // of Options.Statistics; constant after Open, nil measures nothing

	// Owned by the write leader, and by whoever has the queue to itself (exclusive).
	lastSeq    kv.Seq // last number given out
	header     [batch.HeaderSize]byte
	parts      [][]byte
	touched    []*ColumnFamily // written to since the leader last looked whether their memtables are full
	checks     groupChecks     // what the checks of a group are to know of its works before
	lastGroup  int             // bytes of the last group, which pay for the next one's delay
	groupNeeds int             // memtable bytes that the members of the group being formed need
	creating   *Comparator     // the order of the family that is being made

	// Owned by the one who publishes (package writegroup), and by the leader when nothing is left to be published.
	accepted wal.Mark // what is published ends there in the current log

	// Guarded by mu. cond tells of every change that someone may wait for.
	mu          sync.Mutex
	cond        sync.Cond
	opened      bool
	closing     bool
	flushes     int           // running
	compactions int           // running
	manual      int           // calls of CompactRange, SetOptions and SetDBOptions under way
	turn        int           // whose compaction is looked for first
	stall       stallState    // the strictest of the families'
	stalledBy   *ColumnFamily // whose it is
	delays      delayer
	retry       *time.Timer
	events      []func()
	eventCond   sync.Cond
	eventsEnded bool
	dropped     stats.Counts // of families that were dropped

	// With locks of their own.
	snapshots snapshotList
	prepared  preparedList
	handles   handleSet
	cleaner   cleaner
	resuming  semaphore
	optionsMu sync.Mutex // writing of the OPTIONS file
}

// semaphore is a mutex that one can give up waiting for.
type semaphore chan struct{}

func (s semaphore) lock(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s semaphore) unlock() { <-s }

func (d *DB) visibleSeq() kv.Seq { return kv.Seq(d.visible.Load()) }

// LatestSequenceNumber is the number of the last write that reads see.
func (d *DB) LatestSequenceNumber() uint64 { return d.visible.Load() }

func (d *DB) now() uint64 { return uint64(time.Now().Unix()) }

// path returns where a file is.
func (d *DB) path(kind fname.Kind, num uint64) string {
	if kind == fname.Log {
		return d.fs.Join(d.walDir, fname.Make(kind, num))
	}
	return d.fs.Join(d.dir, fname.Make(kind, num))
}

// addFamilyLocked makes a family known.
func (d *DB) addFamilyLocked(cf *ColumnFamily) {
	old := *d.families.Load()
	all := make([]*ColumnFamily, max(len(old), int(cf.id)+1))
	copy(all, old)
	all[cf.id] = cf
	d.setFamiliesLocked(all)
}

func (d *DB) removeFamilyLocked(cf *ColumnFamily) {
	cf.counts.AddTo(&d.dropped)
	all := append([]*ColumnFamily(nil), *d.families.Load()...)
	all[cf.id] = nil
	d.setFamiliesLocked(all)
}

func (d *DB) setFamiliesLocked(all []*ColumnFamily) {
	d.families.Store(&all)
	d.limitLogsLocked()
}

// applyEdits writes edits to the manifest and runs install with the new versions, under mu.
func (d *DB) applyEdits(edits []*manifest.Edit, install func([]*manifest.Version)) error {
	err := d.versions.Apply(edits, func(vs []*manifest.Version) {
		d.mu.Lock()
		defer d.mu.Unlock()
		install(vs)
	})
	d.obsoleteManifests()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, manifest.ErrMismatch) || errors.Is(err, manifest.ErrNoFamily):
		return err // refused before anything was written
	}
	return d.setBackgroundError(reasonManifest, during(err, "write the manifest"))
}

// SyncWAL makes every write that has returned survive a power cut, those without the log excepted. With ManualWALFlush
// these are the writes that have left memory: FlushWAL(true) is for all of them.
func (d *DB) SyncWAL(ctx context.Context) error {
	if err := d.writable(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	start := d.hist.Start()
	if err := d.wals.Sync(); err != nil {
		if d.closed.Load() {
			return ErrClosed
		}
		return d.setBackgroundError(reasonLog, during(err, "sync the log"))
	}
	d.hist.Since(stats.WALFileSync, start)
	d.counters.walSyncs.Add(1)
	return nil
}

// FlushWAL hands what ManualWALFlush left in memory to the operating system, and with sync goes on with SyncWAL. Without
// that option each write does the first by itself.
func (d *DB) FlushWAL(sync bool) error {
	err := d.writable()
	if err == nil && d.opts.ManualWALFlush {
		err = d.exclusive(d.flushLog)
	}
	if err != nil || !sync {
		return err
	}
	return d.SyncWAL(context.Background())
}

// flushLog writes what the log has in memory. Only the leader calls it.
func (d *DB) flushLog() error {
	if err := d.wals.Flush(); err != nil {
		return d.setBackgroundError(reasonLog, during(err, "write the log"))
	}
	return nil
}

// Close ends the use of the database: calls in flight are waited for, background work is stopped, and writes that are in
// no log are flushed. Every call after it gives ErrClosed, a second Close included.
//
// An error says that writes that were acknowledged, although not with Sync, may be lost.
//
// With an iterator or a pinned value still open it returns ErrBusy and says which: no call gets in any more, and the last
// of them, when it is closed, finishes the job. Nothing that they show is taken away before.
func (d *DB) Close() error {
	if !d.closed.CompareAndSwap(false, true) {
		return ErrClosed
	}
	// A leader that is held back by a stall is to look up, and leave.
	d.mu.Lock()
	d.cond.Broadcast()
	d.mu.Unlock()
	// With the queue to ourselves every write that got in is done, and none gets in any more.
	unlogged := false
	err := d.writes.Exclusive(func() error {
		for _, cf := range d.ColumnFamilies() {
			unlogged = unlogged || cf.unlogged()
		}
		if d.broken() != nil {
			return nil // and perhaps it is the log
		}
		return during(d.wals.Flush(), "write the log")
	})
	if unlogged {
		if broken := d.broken(); broken != nil {
			err = errors.Join(err, broken) // nothing can be flushed: it is lost
		} else {
			err = errors.Join(err, d.flushUnlogged())
		}
	}
	d.mu.Lock()
	d.closing = true
	if d.retry != nil {
		d.retry.Stop()
	}
	d.cond.Broadcast()
	d.mu.Unlock()
	d.cancel()

	d.mu.Lock()
	for d.flushes+d.compactions+d.manual > 0 {
		d.cond.Wait()
	}
	for _, cf := range d.ColumnFamilies() {
		cf.tree.CloseLocked()
	}
	d.eventsEnded = true
	d.eventCond.Signal()
	d.mu.Unlock()
	<-d.told

	err = errors.Join(err, during(d.wals.Sync(), "sync the log"), d.wals.Close(), d.versions.Close())
	busy := d.handles.busy()
	d.cleaner.mu.Lock()
	d.cleaner.closing = true
	d.cleaner.cond.Broadcast()
	d.cleaner.mu.Unlock()
	if busy != nil {
		return errors.Join(busy, err)
	}
	<-d.finished
	return err
}

// finish lets go of what readers needed. The cleaner calls it when the last of them is gone.
func (d *DB) finish() {
	d.tables.Close()
	d.opts.Statistics.remove(d)
	d.log.Info("closed")
	if d.logFile != nil {
		d.logFile.Close()
	}
	d.lock.Close()
	close(d.finished)
}

// unlogged says whether a memtable holds what no log holds.
func (c *ColumnFamily) unlogged() bool {
	sv := c.tree.Acquire()
	if sv == nil {
		return false
	}
	defer sv.Release()
	for _, m := range sv.Mems() {
		if m.Unlogged.Load() {
			return true
		}
	}
	return false
}
