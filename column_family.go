package ashlar

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/ashlardb/ashlar/compaction"
	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/lsm"
	"github.com/ashlardb/ashlar/manifest"
	"github.com/ashlardb/ashlar/memtable"
	"github.com/ashlardb/ashlar/sstable"
)

// DefaultColumnFamilyName is the name of the family that every database has.
const DefaultColumnFamilyName = "default"

// ColumnFamily is a handle to one column family: a key space of its own, with options of its own, that shares the log
// and the write group with the others, so that a batch may write to several at once. It lives as long as its DB and
// needs no closing. All methods may be called from many goroutines.
type ColumnFamily struct {
	// Constant after the family was made.
	db   *DB
	id   uint32
	name string
	opts fixedOptions
	tree *lsm.Tree

	counts sstable.Stats // atomic by itself

	// Atomics, stored under db.mu.
	live    atomic.Pointer[liveOptions]
	dropped atomic.Bool

	statsBase atomic.Pointer[FamilyMetrics] // at the last ResetStats

	// mem is the tree's memtable that takes writes. Owned by the write leader, who alone changes it (with db.mu held).
	mem     *lsm.Mem
	hint    memtable.Hint // of inserts that the leader does
	touched bool          // in db.touched

	// Guarded by db.mu.
	flushing   bool
	compacting int // jobs running
	busy       compaction.Busy
	stall      stallState
	stalls     stallRecord
	pending    uint64 // bytes that compactions have to move
	bottommost bool   // a snapshot was released: look for files that can be rewritten now
}

// family is the name under which DB embeds its default family.
type family = ColumnFamily

// Name returns the family's name.
func (c *ColumnFamily) Name() string { return c.name }

// ID returns the number under which batches and the manifest know the family. It is never given to another.
func (c *ColumnFamily) ID() uint32 { return c.id }

// Options returns the options that the family has now, defaults filled in and changes by SetOptions included.
func (c *ColumnFamily) Options() ColumnFamilyOptions {
	o := c.live.Load().ColumnFamilyOptions
	o.CompressionPerLevel = slices.Clone(o.CompressionPerLevel)
	return o
}

// DefaultColumnFamily returns the family that every database has.
func (d *DB) DefaultColumnFamily() *ColumnFamily { return d.family }

// ColumnFamily returns a family by name.
func (d *DB) ColumnFamily(name string) (*ColumnFamily, bool) {
	for _, c := range *d.families.Load() {
		if c != nil && c.name == name {
			return c, true
		}
	}
	return nil, false
}

// ColumnFamilies returns the families, in the order in which they were made.
func (d *DB) ColumnFamilies() []*ColumnFamily {
	var all []*ColumnFamily
	for _, c := range *d.families.Load() {
		if c != nil {
			all = append(all, c)
		}
	}
	return all
}

// familyByID returns a live family, or nil.
func (d *DB) familyByID(id uint32) *ColumnFamily {
	if all := *d.families.Load(); uint64(id) < uint64(len(all)) {
		return all[id]
	}
	return nil
}

// CreateColumnFamily makes a family, with the options given or, if nil, with those that the database has for its name.
// It is on disk when the call returns.
func (d *DB) CreateColumnFamily(name string, o *ColumnFamilyOptions) (*ColumnFamily, error) {
	if name == "" {
		return nil, invalid("a column family needs a name")
	}
	opts := d.opts.family(name)
	if o != nil {
		if err := o.validate(name); err != nil {
			return nil, err
		}
		full := o.withDefaults()
		opts = &full
	}
	var cf *ColumnFamily
	err := d.exclusive(func() error {
		if _, ok := d.ColumnFamily(name); ok {
			return invalid("column family %q exists", name)
		}
		id := d.versions.NewFamilyID()
		var err error
		if cf, err = d.newFamily(id, name, opts); err != nil {
			return err
		}
		mem, err := cf.newMem(0, d.wals.Current())
		if err != nil {
			return err
		}
		mem.Since = 0 // nothing was written to it before
		edit := &manifest.Edit{Family: id, AddFamily: name, Comparer: opts.Comparator.Name}
		edit.LogNumber = new(d.wals.Current())
		d.creating = opts.Comparator
		defer func() { d.creating = nil }()
		if err := d.applyEdits([]*manifest.Edit{edit}, func(vs []*manifest.Version) {
			cf.openTreeLocked(mem, vs[0])
			d.addFamilyLocked(cf)
		}); err != nil {
			mem.Release()
			return err
		}
		d.writeOptionsFile()
		return nil
	})
	if err != nil {
		return nil, during(err, "create column family %q", name)
	}
	return cf, nil
}

// DropColumnFamily removes a family and all it holds. Iterators and snapshots that are open go on reading it; every
// other use of the handle gives ErrColumnFamilyDropped.
func (d *DB) DropColumnFamily(cf *ColumnFamily) error {
	if d.closed.Load() {
		return ErrClosed
	}
	if cf == nil || cf.db != d {
		return invalid("DropColumnFamily: the family is not of this database")
	}
	if cf.id == 0 {
		return invalid("the default column family cannot be dropped")
	}
	err := d.exclusive(func() error {
		if cf.dropped.Load() {
			return ErrColumnFamilyDropped
		}
		if err := d.applyEdits([]*manifest.Edit{{Family: cf.id, DropFamily: true}}, func([]*manifest.Version) {
			cf.dropped.Store(true)
			d.removeFamilyLocked(cf)
			cf.tree.CloseLocked()
			d.updateStallLocked(cf)
		}); err != nil {
			return err
		}
		d.writeOptionsFile()
		if err := d.dropLogs(); err != nil {
			return d.setBackgroundError(reasonManifest, err)
		}
		return nil
	})
	return during(err, "drop column family %q", cf.name)
}

// ListColumnFamilies returns the names of the families of a database that need not be open.
func ListColumnFamilies(dir string, o *Options) ([]string, error) {
	full := o.withDefaults()
	vs, err := manifest.Recover(full.FS, dir, manifest.Options{})
	if err != nil {
		return nil, during(err, "list column families of %s", dir)
	}
	defer vs.Close()
	var names []string
	for _, f := range vs.Families() {
		names = append(names, f.Name)
	}
	return names, nil
}

// newFamily makes a handle; its tree is opened once there is a version.
func (d *DB) newFamily(id uint32, name string, o *ColumnFamilyOptions) (*ColumnFamily, error) {
	cf := &ColumnFamily{db: d, id: id, name: name, opts: fixedOptions{o.Comparator, o.MergeOperator, o.PrefixExtractor}}
	cf.counts.Histograms = d.hist
	cf.live.Store(newLiveOptions(o, &cf.counts))
	return cf, nil
}

// tablesAt says how the tables of a level are opened.
func (c *ColumnFamily) tablesAt(level int) *sstable.FamilyOptions {
	return c.live.Load().tablesAt(level)
}

// openTreeLocked gives the family its tree.
func (c *ColumnFamily) openTreeLocked(mem *lsm.Mem, v *manifest.Version) {
	c.mem = mem
	c.tree = lsm.NewTree(lsm.Options{
		Comparer: c.opts.Comparator, Tables: c.db.tables, Settings: c.live.Load().treeSettings(),
		Retire: c.db.retire, Live: &c.db.superversions,
	}, mem, v)
	c.pending = c.live.Load().picker.PendingBytes(v)
}

// newMem makes the next memtable, with room for the write buffer, what a group may add to it, and need bytes.
func (c *ColumnFamily) newMem(need int, log uint64) (*lsm.Mem, error) {
	o := c.live.Load()
	size := int(o.WriteBufferSize) + int(o.WriteBufferSize)/8
	a, err := memtable.NewArena(max(size, need) + o.groupSlack())
	if err != nil {
		return nil, during(err, "memtable of column family %q", c.name)
	}
	table := memtable.New(c.opts.Comparator, a, log)
	table.UseBloom(memtable.NewBloom(int(float64(o.WriteBufferSize)*o.MemtablePrefixBloomSizeRatio),
		o.MemtableWholeKeyFiltering, c.opts.PrefixExtractor))
	m := lsm.NewMem(table, log)
	m.Since = c.db.lastSeq
	return m, nil
}

// usable is nil while the family may be used.
func (c *ColumnFamily) usable() error {
	if c.db.closed.Load() {
		return ErrClosed
	}
	if c.dropped.Load() {
		return during(ErrColumnFamilyDropped, "column family %q", c.name)
	}
	return nil
}

// memFull says whether a memtable is to be flushed, with so many bytes that are still to come.
func (c *ColumnFamily) memFull(m *lsm.Mem, coming int64) bool {
	o := c.live.Load()
	return uint64(m.Bytes()+coming) >= o.WriteBufferSize ||
		o.MemtableMaxRangeDeletions > 0 && m.RangeDeletes() >= o.MemtableMaxRangeDeletions
}

// writerOptions are those of a table of this family at a level.
func (c *ColumnFamily) writerOptions(o *liveOptions, num uint64, level int, bottommost bool) sstable.WriterOptions {
	comp := o.Compression
	if n := len(o.CompressionPerLevel); n > 0 {
		comp = o.CompressionPerLevel[min(level, n-1)]
	}
	if bottommost && o.BottommostCompression != DefaultCompression {
		comp = o.BottommostCompression
	}
	operator := ""
	if o.MergeOperator != nil {
		operator = o.MergeOperator.Name()
	}
	w := sstable.WriterOptions{
		Comparer: o.Comparator, MergeOperator: operator, Filter: o.Table.FilterPolicy,
		OptimizeFiltersForHits: o.OptimizeFiltersForHits, Bottommost: bottommost,
		PrefixExtractor: o.PrefixExtractor, NoWholeKeyFiltering: o.Table.NoWholeKeyFiltering,
		BlockSize: o.Table.BlockSize, BlockRestartInterval: o.Table.BlockRestartInterval,
		IndexBlockRestartInterval: o.Table.IndexBlockRestartInterval, MetadataBlockSize: o.Table.MetadataBlockSize,
		TwoLevelIndex: o.Table.IndexType == TwoLevelIndexSearch, PartitionFilters: o.Table.PartitionFilters,
		Compression: comp, Checksum: o.Table.Checksum, FormatVersion: o.Table.FormatVersion,
		FamilyID: c.id, FamilyName: c.name, DBID: c.db.identity, SessionID: c.db.session, FileNumber: num,
		CreationTime: c.db.now(), FileCreationTime: c.db.now(),
	}
	if o.Table.DataBlockIndexType == DataBlockBinaryAndHash {
		w.HashUtilRatio = o.Table.DataBlockHashTableUtilRatio
	}
	return w
}

func (c *ColumnFamily) createTable(o *liveOptions, num uint64, level int, bottommost bool) (*sstable.Writer, error) {
	path := c.db.path(fname.Table, num)
	f, err := c.db.fs.Create(path)
	if err != nil {
		return nil, err
	}
	return sstable.NewWriter(f, path, c.writerOptions(o, num, level, bottommost)), nil
}

// KeyMayExist is false if there is certainly no such key, as far as memtables, filters and the block cache can tell: it
// reads no file, but for what it takes to open a table. Where it cannot tell, and where a read would give an error, it
// is true.
func (c *ColumnFamily) KeyMayExist(key []byte, o *ReadOptions) bool {
	var here ReadOptions
	if o != nil {
		here = *o
	}
	here.ReadTier = BlockCacheTier
	return !errors.Is(c.GetPinned(key, &here, func([]byte) error { return nil }), ErrNotFound)
}

// The one-line verbs.

// Put sets key to value.
func (c *ColumnFamily) Put(key, value []byte, o *WriteOptions) error {
	w := c.db.single()
	if err := w.batch.Put(c, key, value); err != nil {
		return err
	}
	return c.db.commitSingle(w, o)
}

// Delete removes key. It is no error if there is no such key.
func (c *ColumnFamily) Delete(key []byte, o *WriteOptions) error {
	w := c.db.single()
	if err := w.batch.Delete(c, key); err != nil {
		return err
	}
	return c.db.commitSingle(w, o)
}

// SingleDelete removes a key that was put at most once since it was last single-deleted; see Batch.SingleDelete.
func (c *ColumnFamily) SingleDelete(key []byte, o *WriteOptions) error {
	w := c.db.single()
	if err := w.batch.SingleDelete(c, key); err != nil {
		return err
	}
	return c.db.commitSingle(w, o)
}

// DeleteRange removes the keys from begin (included) to end (excluded); see Batch.DeleteRange.
func (c *ColumnFamily) DeleteRange(begin, end []byte, o *WriteOptions) error {
	w := c.db.single()
	if err := w.batch.DeleteRange(c, begin, end); err != nil {
		return err
	}
	w.batch.Data() // it is empty if the range is
	return c.db.commitSingle(w, o)
}

// Merge adds an operand to key: the value that reads see is what the family's merge operator makes of the value before and
// the operand. Nothing is read for it. ErrInvalidArgument if the family has no merge operator.
func (c *ColumnFamily) Merge(key, operand []byte, o *WriteOptions) error {
	w := c.db.single()
	if err := w.batch.Merge(c, key, operand); err != nil {
		return err
	}
	return c.db.commitSingle(w, o)
}
