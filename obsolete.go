package ashlar

import (
	"errors"
	"io/fs"
	"slices"
	"sync"

	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/lsm"
	"github.com/ashlardb/ashlar/manifest"
)

// What nobody uses any more: superversions, and files that no version names. Readers put them into a queue, and one
// goroutine frees and deletes, so that no reader waits for either.

// cleaner is the queue. mu is a leaf.
type cleaner struct {
	mu      sync.Mutex
	cond    sync.Cond
	retired []*lsm.Superversion
	files   []obsoleteFile
	busy    bool
	closing bool
}

type obsoleteFile struct {
	kind fname.Kind
	num  uint64
}

// retire takes a superversion whose last reader is gone.
func (d *DB) retire(s *lsm.Superversion) {
	c := &d.cleaner
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = append(c.retired, s)
	c.cond.Broadcast()
}

// tableObsolete takes a table that no version names any more. The manifest calls it.
func (d *DB) tableObsolete(f *manifest.File) { d.obsolete(fname.Table, f.Num) }

func (d *DB) obsolete(kind fname.Kind, nums ...uint64) {
	c := &d.cleaner
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range nums {
		c.files = append(c.files, obsoleteFile{kind, n})
	}
	c.cond.Broadcast()
}

// clean frees and deletes until the database is closed and nothing is left alive in it.
func (d *DB) clean() {
	c := &d.cleaner
	c.mu.Lock()
	for {
		for len(c.retired) == 0 && len(c.files) == 0 && !(c.closing && d.superversions.Load() == 0) {
			c.busy = false
			c.cond.Broadcast()
			c.cond.Wait()
		}
		c.busy = true
		retired, files := c.retired, c.files
		c.retired, c.files = nil, nil
		if len(retired) == 0 && len(files) == 0 {
			c.busy = false
			c.mu.Unlock()
			d.finish()
			return
		}
		c.mu.Unlock()
		for _, s := range retired {
			s.Free()
		}
		if n := len(retired); n > 0 {
			d.counts.Add(stats.NumberSuperversionCleanups, uint64(n))
		}
		d.tables.Trim()
		for _, f := range files {
			d.deleteFile(f)
		}
		c.mu.Lock()
	}
}

// waitClean returns when the cleaner has nothing to do. Tests use it to look at a directory that is at rest.
func (d *DB) waitClean() {
	c := &d.cleaner
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.busy || len(c.retired) > 0 || len(c.files) > 0 {
		c.cond.Wait()
	}
}

func (d *DB) deleteFile(f obsoleteFile) {
	path := d.path(f.kind, f.num)
	if f.kind == fname.Table {
		d.tables.Evict(f.num)
	}
	err := d.fs.Remove(path)
	if err == nil && f.kind == fname.Table {
		d.counts.Add(stats.FilesDeletedImmediately, 1)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		// The next Open deletes what no version names.
		d.log.Warn("delete file", "path", path, "error", err)
	}
	if f.kind == fname.Table {
		d.mu.Lock()
		d.eventLocked(func() {
			if tell := d.opts.Listener.OnTableFileDeleted; tell != nil {
				tell(TableFileInfo{Path: path, Err: err})
			}
		})
		d.mu.Unlock()
	}
}

// dropLogs lets go of the logs that every family has flushed past. The manifest has to know first: flushes of two
// families that end at the same time have each counted on the other's log, and a log that recovery asks for and does not
// find is a hole, behind which it applies nothing.
func (d *DB) dropLogs() error {
	d.mu.Lock()
	low := d.minLogLocked()
	d.mu.Unlock()
	if low > d.versions.MinLogToKeep() {
		err := d.versions.Apply([]*manifest.Edit{{MinLogToKeep: new(low)}}, nil)
		d.obsoleteManifests()
		if err != nil {
			return during(err, "write the manifest")
		}
	}
	d.obsolete(fname.Log, d.wals.DropBelow(d.versions.MinLogToKeep())...)
	return nil
}

// obsoleteManifests deletes the manifests that others have taken the place of.
func (d *DB) obsoleteManifests() { d.obsolete(fname.Manifest, d.versions.ObsoleteManifests()...) }

// minLogLocked is the first log that any family, or a prepared transaction, may still need.
func (d *DB) minLogLocked() uint64 {
	low := min(d.wals.Current(), d.preparedLogLocked(nil))
	for _, cf := range d.ColumnFamilies() {
		low = min(low, cf.logNumberLocked(nil))
	}
	return low
}

// logNumberLocked is the first log that may hold data of the family that is in no table, once the memtables given are
// in one.
func (c *ColumnFamily) logNumberLocked(flushed []*lsm.Mem) uint64 {
	imm := c.tree.ImmLocked()
	for i := len(imm) - 1; i >= 0; i-- {
		if !slices.Contains(flushed, imm[i]) {
			return imm[i].LogNumber
		}
	}
	return c.tree.MemLocked().LogNumber
}

// keepInfoLogs is how many LOG files of earlier opens are kept.
const keepInfoLogs = 10

// deleteUnknown removes, at Open, what a crash has left: tables that no version names, logs that nobody needs, older
// manifests, temporary files. Older OPTIONS files go when a new one is written. Files that are not a database's are left alone.
func (d *DB) deleteUnknown(names []string, live map[uint64]bool) {
	oldLogs := newest(names, fname.OldInfoLog, keepInfoLogs)
	for _, name := range names {
		kind, num, ok := fname.Parse(name)
		if !ok {
			continue
		}
		gone := false
		switch kind {
		case fname.Table:
			gone = !live[num]
		case fname.Manifest:
			gone = num < d.versions.ManifestNumber()
		case fname.OldInfoLog:
			gone = !oldLogs[num]
		case fname.Log:
			gone = num < d.wals.Current()
		case fname.Temp, fname.OptionsTemp:
			gone = true
		}
		if gone {
			dir := d.dir
			if kind == fname.Log {
				dir = d.walDir
			}
			if err := d.fs.Remove(d.fs.Join(dir, name)); err != nil {
				d.log.Warn("delete file", "name", name, "error", err)
			}
		}
	}
}

// newest returns the n highest numbers among the names of a kind.
func newest(names []string, kind fname.Kind, n int) map[uint64]bool {
	top := map[uint64]bool{}
	for _, name := range names {
		if k, num, ok := fname.Parse(name); ok && k == kind {
			top[num] = true
			if len(top) > n {
				low := num
				for x := range top {
					low = min(low, x)
				}
				delete(top, low)
			}
		}
	}
	return top
}
