package ashlar

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/manifest"
	"github.com/ashlardb/ashlar/sstable"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/writegroup"
)

// Open opens the database in dir, ours or RocksDB's, or makes one. Every family on disk is opened; o gives options by
// name. Writes that were in the log are in tables when it returns.
//
// The order: LOCK, manifest, trees, logs replayed, a new log, one edit with what recovery wrote, the OPTIONS file, and
// then what nobody names is deleted. A crash in between leaves a database that opens as well.
func Open(dir string, o *Options) (*DB, error) { return open(dir, o, false) }

// open is Open, with twoPhase for package txn, which takes over the transactions that it finds prepared.
func open(dir string, o *Options, twoPhase bool) (db *DB, err error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	d := newDB(dir, o)
	d.twoPhase = twoPhase
	defer func() {
		if err != nil {
			d.abandon()
			db, err = nil, during(err, "open %s", dir)
		}
	}()
	if _, err := d.isFresh(); err != nil {
		return nil, err // before anything is made
	}
	if err := d.makeDirs(); err != nil {
		return nil, err
	}
	if d.lock, err = d.fs.Lock(d.path(fname.Lock, 0)); err != nil {
		return nil, err
	}
	fresh, err := d.isFresh()
	if err != nil {
		return nil, err
	}
	if err := d.openLog(); err != nil {
		return nil, err
	}
	if err := d.openIdentity(); err != nil {
		return nil, err
	}
	mo := manifest.Options{Comparer: d.comparer, OnObsolete: d.tableObsolete, DBID: d.identity, KeepLogs: d.preparedLog, Logf: func(format string, args ...any) {
		d.log.Warn(fmt.Sprintf(format, args...))
	}}
	if fresh {
		d.versions, err = manifest.Create(d.fs, d.dir, mo)
	} else {
		d.versions, err = manifest.Recover(d.fs, d.dir, mo)
	}
	if err != nil {
		if errors.Is(err, manifest.ErrMismatch) {
			err = fmt.Errorf("%w: %w", ErrInvalidArgument, err)
		}
		return nil, err
	}
	if err := d.openFamilies(fresh); err != nil {
		return nil, err
	}
	names, err := d.recover()
	if err != nil {
		return nil, err
	}
	d.writeOptionsFile()
	live := map[uint64]bool{}
	for num := range d.versions.LiveFiles() {
		live[num] = true
	}
	d.deleteUnknown(names, live)
	d.start()
	return d, nil
}

func newDB(dir string, o *Options) *DB {
	d := &DB{opts: o.withDefaults(), dir: dir, finished: make(chan struct{}), told: make(chan struct{}), resuming: make(semaphore, 1)}
	d.fs, d.walDir = d.opts.FS, d.opts.WALDir
	if d.walDir == "" {
		d.walDir = dir
	}
	d.cond.L, d.eventCond.L, d.cleaner.cond.L = &d.mu, &d.mu, &d.cleaner.mu
	d.cache = d.opts.BlockCache
	if d.cache == nil {
		d.cache = cache.New(32 << 20)
	}
	d.session = newSessionID()
	d.dbOpts.Store(&d.opts)
	d.delays = newDelayer(d.opts.DelayedWriteRate)
	d.handles.track = d.opts.TrackHandles
	d.families.Store(&[]*ColumnFamily{})
	d.prepared.byName = map[string]*preparedWrites{}
	d.commits.New = func() any { return new(commit) }
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.tables = sstable.NewTables(d.fs, d.dir, d.opts.MaxOpenFiles, d.cache)
	d.hist = d.opts.Statistics.hist()
	d.opts.Statistics.add(d)
	d.writes = writegroup.New[*commit](committer{d})
	d.setDials()
	d.log = slog.New(slog.DiscardHandler)
	return d
}

// setDials applies what the options, dbbench and benchmarks vary in the write path.
func (d *DB) setDials() {
	d.writes.Pipelined = d.opts.EnablePipelinedWrite
	lab := &d.opts.lab
	d.writes.Wake = lab.Wake
	if lab.Yields != 0 {
		d.writes.Yields = lab.Yields
	}
	if lab.Gauges != nil {
		d.writes.Trace = lab.Gauges.Add
	}
}

// abandon undoes an Open that failed.
func (d *DB) abandon() {
	d.cancel()
	for _, cf := range d.ColumnFamilies() {
		if cf.tree != nil {
			cf.tree.CloseLocked()
		}
	}
	for _, s := range d.cleaner.retired {
		s.Free()
	}
	if d.wals != nil {
		d.wals.Close()
	}
	if d.versions != nil {
		d.versions.Close()
	}
	d.tables.Close()
	d.opts.Statistics.remove(d)
	if d.logFile != nil {
		d.logFile.Close()
	}
	if d.lock != nil {
		d.lock.Close()
	}
}

// makeDirs makes the database's directories, so that they survive a crash.
func (d *DB) makeDirs() error {
	for _, dir := range []string{d.dir, d.walDir} {
		if _, err := d.fs.Stat(dir); err == nil {
			continue
		}
		if err := d.fs.MkdirAll(dir); err != nil {
			return err
		}
		if err := d.fs.SyncDir(d.fs.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// isFresh says whether there is no database yet, and refuses what the options rule out. Where tables or logs lie about,
// there was one, and its CURRENT was lost: no new one is made over it.
func (d *DB) isFresh() (bool, error) {
	_, err := d.fs.Stat(d.path(fname.Current, 0))
	switch {
	case err == nil && d.opts.ErrorIfExists:
		return false, invalid("there is a database (ErrorIfExists)")
	case err == nil || !errors.Is(err, fs.ErrNotExist):
		return false, err
	case d.opts.ErrorIfMissing:
		return false, invalid("there is no database (ErrorIfMissing)")
	}
	names, err := d.fs.List(d.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for _, name := range names {
		if kind, _, ok := fname.Parse(name); ok && (kind == fname.Table || kind == fname.Log) {
			return false, &CorruptionError{File: d.path(fname.Current, 0), Offset: -1, Err: fmt.Errorf("it is missing, but %s is there", name)}
		}
	}
	return true, nil
}

// openLog begins the file LOG, unless the user has a logger.
func (d *DB) openLog() error {
	if d.opts.Logger != nil {
		d.log = d.opts.Logger
		return nil
	}
	path := d.path(fname.InfoLog, 0)
	if _, err := d.fs.Stat(path); err == nil {
		if err := d.fs.Rename(path, d.path(fname.OldInfoLog, uint64(time.Now().UnixMicro()))); err != nil {
			return err
		}
	}
	f, err := d.fs.Create(path)
	if err != nil {
		return err
	}
	d.logFile = f
	d.log = slog.New(slog.NewTextHandler(dropErrors{f}, nil))
	d.log.Info("open", "dir", d.dir, "session", d.session)
	return nil
}

// dropErrors lets a database live on when its LOG cannot be written.
type dropErrors struct{ w io.Writer }

func (d dropErrors) Write(p []byte) (int, error) {
	_, _ = d.w.Write(p)
	return len(p), nil
}

// openIdentity reads IDENTITY, or makes one: a random UUID.
func (d *DB) openIdentity() error {
	path := d.path(fname.Identity, 0)
	if b, err := vfs.ReadFile(d.fs, path); err == nil && len(strings.TrimSpace(string(b))) > 0 {
		d.identity = strings.TrimSpace(string(b))
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var u [16]byte
	rand.Read(u[:])
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	d.identity = fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
	return vfs.WriteFileAtomic(d.fs, d.path(fname.Temp, 0), path, []byte(d.identity))
}

// newSessionID returns 20 random digits in base 36, RocksDB's form.
func newSessionID() string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	var b [20]byte
	rand.Read(b[:])
	for i := range b {
		b[i] = digits[int(b[i])%len(digits)]
	}
	return string(b[:])
}

// comparer tells the manifest which order the options want for a family.
func (d *DB) comparer(name, stored string) *kv.Comparer {
	if d.creating != nil {
		return d.creating
	}
	if c, ok := d.opts.ColumnFamilies[name]; ok {
		return c.Comparator
	}
	if c := d.opts.Comparator; name == DefaultColumnFamilyName || stored == "" || c.Name == stored {
		return c
	}
	return nil // one of the built-in orders, by its stored name
}

// openFamilies makes the handles of the families on disk, or of the default one.
func (d *DB) openFamilies(fresh bool) error {
	found := map[string]bool{}
	for _, f := range d.versions.Families() {
		found[f.Name] = true
		opts := *d.opts.family(f.Name)
		opts.Comparator = f.Version.Comparer()
		cf, err := d.newFamily(f.ID, f.Name, &opts)
		if err != nil {
			return err
		}
		if err := d.openTables(cf, f.Version); err != nil {
			return err
		}
		d.addFamilyLocked(cf)
	}
	for name := range d.opts.ColumnFamilies {
		if !found[name] && name != DefaultColumnFamilyName {
			return invalid("Options.ColumnFamilies names %q, which is not in the database; make it with CreateColumnFamily", name)
		}
	}
	d.family = d.familyByID(0)
	return nil
}

// openTables looks at every table that a version names: a missing or damaged one is an error of Open, not of a later
// read. With bounded open files only their presence and size are checked.
func (d *DB) openTables(cf *ColumnFamily, v *manifest.Version) error {
	for level, f := range v.All() {
		if !d.tables.Unbounded() {
			info, err := d.fs.Stat(d.path(fname.Table, f.Num))
			if err != nil {
				return err
			}
			if uint64(info.Size()) != f.Size {
				return &CorruptionError{File: d.path(fname.Table, f.Num), Offset: -1, ColumnFamily: cf.name,
					Err: fmt.Errorf("it has %d bytes, and the manifest says %d", info.Size(), f.Size)}
			}
			continue
		}
		h, err := d.tables.Get(f.Num, f.Size, f.LargestSeq, cf.tablesAt(level))
		if err != nil {
			return cf.readError(err)
		}
		h.Release()
	}
	return nil
}

// start lets the background work begin.
func (d *DB) start() {
	go d.clean()
	go d.tellEvents()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened = true
	for _, cf := range d.ColumnFamilies() {
		d.updateStallLocked(cf)
	}
	d.scheduleLocked()
}
