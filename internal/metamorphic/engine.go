package metamorphic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/vfs"
)

// Engine is the target that is being tested: a database in a file system.
type Engine struct {
	DB *ashlar.DB
	FS vfs.FS

	// Reopened, if set, gives the options of the n-th reopen that names none itself.
	Reopened func(n int) []string

	dir       string
	words     []string
	reverse   map[string]bool // families whose order is reverse
	families  map[string]*ashlar.ColumnFamily
	snapshots map[string]*ashlar.Snapshot
	iters     map[string]*ashlar.Iterator
	cache     *ashlar.Cache
	reopens   int
	batch     ashlar.Batch // used again and again
	values    [][]byte     // of multi-gets, used again
	buf       []byte
}

// Open opens a database with options given by words.
func Open(fs vfs.FS, dir string, words []string) (*Engine, error) {
	e := &Engine{FS: fs, dir: dir, reverse: map[string]bool{}}
	return e, e.open(words)
}

func (e *Engine) open(words []string) error {
	o := &ashlar.Options{FS: e.FS, BlockCache: ashlar.NewCache(1 << 20), ColumnFamilies: map[string]*ashlar.ColumnFamilyOptions{}}
	if err := SetOptions(o, words); err != nil {
		return err
	}
	for name := range e.reverse {
		o.ColumnFamilies[name] = reversed(o)
	}
	db, err := ashlar.Open(e.dir, o)
	if err != nil {
		return err
	}
	e.DB, e.words, e.cache = db, words, o.BlockCache
	e.families, e.snapshots, e.iters = map[string]*ashlar.ColumnFamily{}, map[string]*ashlar.Snapshot{}, map[string]*ashlar.Iterator{}
	for _, cf := range db.ColumnFamilies() {
		e.families[cf.Name()] = cf
	}
	return nil
}

func reversed(o *ashlar.Options) *ashlar.ColumnFamilyOptions {
	c := o.ColumnFamilyOptions
	c.Comparator = ashlar.ReverseBytewiseComparator
	return &c
}

// Family returns a handle by name, also that of a family that was dropped.
func (e *Engine) Family(name string) *ashlar.ColumnFamily { return e.families[name] }

// Close closes everything, and returns what was left behind.
func (e *Engine) Close() error {
	var errs []error
	for _, name := range sortedKeys(e.iters) {
		errs = append(errs, e.iters[name].Close())
	}
	for _, s := range e.snapshots {
		s.Release()
	}
	errs = append(errs, e.DB.Close())
	if n := e.cache.PinnedUsage(); n != 0 {
		errs = append(errs, fmt.Errorf("%d bytes of the cache are pinned after Close", n))
	}
	e.cache.SetCapacity(0)
	if n := e.cache.Usage(); n != 0 {
		errs = append(errs, fmt.Errorf("%d bytes are in a cache without capacity", n))
	}
	return errors.Join(errs...)
}

func sortedKeys[V any](m map[string]V) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Do does an operation.
func (e *Engine) Do(o Op) string {
	switch o.Verb {
	case Put, Delete, SingleDelete, DeleteRange, Merge:
		return e.write(o)
	case Batch:
		return e.writeBatch(o)
	case Snapshot:
		if s := e.snapshots[o.Arg(0)]; s != nil {
			s.Release()
		}
		e.snapshots[o.Arg(0)] = e.DB.NewSnapshot()
		return ok
	case Release:
		s := e.snapshots[o.Arg(0)]
		if s == nil {
			return noSuch
		}
		s.Release()
		s.Release()
		delete(e.snapshots, o.Arg(0))
		return ok
	case Get, GetPinned, MultiGet, Scan, ScanBack, NewIter:
		return e.read(o)
	case First, Last, Seek, SeekForPrev, Next, Prev, Refresh, CloseIter:
		return e.move(o)
	case Flush:
		var cfs []*ashlar.ColumnFamily
		for _, name := range o.Args {
			cf := e.families[name]
			if cf == nil {
				return noSuch
			}
			cfs = append(cfs, cf)
		}
		return answer(e.DB.Flush(context.Background(), nil, cfs...))
	case Compact:
		cf := e.families[o.Family()]
		if cf == nil {
			return noSuch
		}
		return answer(cf.CompactRange(context.Background(), key(o.bound("begin")), key(o.bound("end")),
			&ashlar.CompactRangeOptions{ForceBottommost: o.Flags["force"]}))
	case Configure:
		cf := e.families[o.Family()]
		if cf == nil {
			return noSuch
		}
		changes := map[string]string{}
		for _, word := range o.Args {
			name, value, _ := strings.Cut(word, "=")
			changes[name] = value
		}
		return answer(cf.SetOptions(changes))
	case Wait:
		return answer(e.DB.WaitForCompact(context.Background()))
	case Create:
		return e.create(o)
	case Drop:
		cf := e.families[o.Arg(0)]
		if cf == nil {
			return noSuch
		}
		if err := e.DB.DropColumnFamily(cf); err != nil {
			return answer(err)
		}
		delete(e.reverse, o.Arg(0))
		return ok
	case Reopen:
		return e.reopen(o)
	case Seq:
		return fmt.Sprint(e.DB.LatestSequenceNumber())
	case Check:
		var b strings.Builder
		for err := range e.DB.Check(context.Background()) {
			fmt.Fprintln(&b, err)
		}
		if b.Len() > 0 {
			return b.String()
		}
		return clean
	}
	return "unknown operation"
}

// answer is how the end of an operation without a value stands in a history.
func answer(err error) string {
	switch {
	case err == nil:
		return ok
	case errors.Is(err, ashlar.ErrNotFound):
		return notFound
	case errors.Is(err, ashlar.ErrColumnFamilyDropped):
		return dropped
	}
	return "error: " + err.Error()
}

func key(s *string) []byte {
	if s == nil {
		return nil
	}
	return []byte(*s)
}

func writeOptions(o Op) *ashlar.WriteOptions {
	w := ashlar.WriteOptions{DisableWAL: o.Flags["nowal"], Sync: o.Flags["sync"] && !o.Flags["nowal"]}
	if w == (ashlar.WriteOptions{}) {
		return nil
	}
	return &w
}

func (e *Engine) write(o Op) string {
	cf := e.families[o.Family()]
	if cf == nil {
		return noSuch
	}
	k := []byte(o.Arg(0))
	switch o.Verb {
	case Put:
		return answer(cf.Put(k, Expand(o.Arg(1)), writeOptions(o)))
	case Delete:
		return answer(cf.Delete(k, writeOptions(o)))
	case DeleteRange:
		return answer(cf.DeleteRange(k, []byte(o.Arg(1)), writeOptions(o)))
	case Merge:
		return answer(cf.Merge(k, Expand(o.Arg(1)), writeOptions(o)))
	}
	return answer(cf.SingleDelete(k, writeOptions(o)))
}

func (e *Engine) writeBatch(o Op) string {
	b := &e.batch
	b.Clear()
	for _, in := range o.Batch {
		cf := e.families[in.Family()]
		if cf == nil {
			return noSuch
		}
		var err error
		k := []byte(in.Arg(0))
		switch in.Verb {
		case Put:
			err = b.Put(cf, k, Expand(in.Arg(1)))
		case Delete:
			err = b.Delete(cf, k)
		case SingleDelete:
			err = b.SingleDelete(cf, k)
		case DeleteRange:
			err = b.DeleteRange(cf, k, []byte(in.Arg(1)))
		case Merge:
			err = b.Merge(cf, k, Expand(in.Arg(1)))
		case LogData:
			err = b.PutLogData(k)
		case SavePoint:
			b.SetSavePoint()
		case Rollback:
			if err = b.RollbackToSavePoint(); errors.Is(err, ashlar.ErrNotFound) {
				err = nil
			}
		case Pop:
			if err = b.PopSavePoint(); errors.Is(err, ashlar.ErrNotFound) {
				err = nil
			}
		default:
			err = fmt.Errorf("%s in a batch", in.Verb)
		}
		if err != nil {
			return answer(err)
		}
	}
	if o.Flags["set-data"] {
		var other ashlar.Batch
		if err := other.SetData(b.Data()); err != nil {
			return answer(err)
		}
		b = &other
	}
	return answer(e.DB.Write(b, writeOptions(o)))
}

// readOptions resolves a read's snapshot. false: there is no such one.
func (e *Engine) readOptions(o Op) (*ashlar.ReadOptions, bool) {
	r := &ashlar.ReadOptions{}
	if s := o.Named["snap"]; s != "" {
		if r.Snapshot = e.snapshots[s]; r.Snapshot == nil {
			return nil, false
		}
	}
	r.IterateLowerBound, r.IterateUpperBound = key(o.bound("lower")), key(o.bound("upper"))
	return r, true
}

func (e *Engine) read(o Op) string {
	cf := e.families[o.Family()]
	r, there := e.readOptions(o)
	if cf == nil || !there {
		return noSuch
	}
	switch o.Verb {
	case Get:
		var err error
		if e.buf, err = cf.AppendGet(e.buf[:0], []byte(o.Arg(0)), r); err != nil {
			return answer(err)
		}
		return Shorten(e.buf)
	case GetPinned:
		var got string
		err := cf.GetPinned([]byte(o.Arg(0)), r, func(v []byte) error {
			got = Shorten(v)
			return nil
		})
		if err != nil {
			return answer(err)
		}
		return got
	case MultiGet:
		return e.multiGet(cf, o, r)
	case NewIter:
		i := cf.NewIterator(r)
		if err := i.Error(); err != nil {
			i.Close()
			return answer(err)
		}
		if old := e.iters[o.Arg(0)]; old != nil {
			old.Close()
		}
		e.iters[o.Arg(0)] = i
		return ok
	}
	i := cf.NewIterator(r)
	all := i.All()
	if o.Verb == ScanBack {
		all = i.Backward()
	}
	var b strings.Builder
	for k, v := range all {
		fmt.Fprintln(&b, show(string(k), string(v), true))
	}
	if err := i.Close(); err != nil {
		return answer(err)
	}
	return b.String()
}

func (e *Engine) multiGet(cf *ashlar.ColumnFamily, o Op, r *ashlar.ReadOptions) string {
	keys := make([][]byte, len(o.Args))
	for n, k := range o.Args {
		keys[n] = []byte(k)
	}
	for len(e.values) < len(keys) {
		e.values = append(e.values, nil)
	}
	values, errs := e.values[:len(keys)], make([]error, len(keys))
	cf.MultiGetTo(values, keys, errs, r)
	var b []string
	for n, err := range errs {
		switch {
		case errors.Is(err, ashlar.ErrColumnFamilyDropped):
			return dropped
		case err != nil:
			b = append(b, answer(err))
		default:
			b = append(b, Shorten(values[n]))
		}
	}
	return strings.Join(b, " ")
}

func (e *Engine) move(o Op) string {
	i := e.iters[o.Arg(0)]
	if i == nil {
		return noSuch
	}
	valid := false
	k := []byte(o.Arg(1))
	switch o.Verb {
	case First:
		valid = i.SeekToFirst()
	case Last:
		valid = i.SeekToLast()
	case Seek:
		valid = i.Seek(k)
	case SeekForPrev:
		valid = i.SeekForPrev(k)
	case Next:
		for range o.times() {
			valid = i.Next()
		}
	case Prev:
		for range o.times() {
			valid = i.Prev()
		}
	case Refresh:
		r, there := e.readOptions(o)
		if !there {
			return noSuch
		}
		err := i.Refresh(r.Snapshot)
		if err != nil {
			i.Close()
			delete(e.iters, o.Arg(0))
		}
		return answer(err)
	case CloseIter:
		delete(e.iters, o.Arg(0))
		return answer(errors.Join(i.Close(), i.Close()))
	}
	clear(k) // what is given in is never kept
	if err := i.Error(); err != nil {
		return answer(err)
	}
	if valid != i.Valid() {
		return fmt.Sprintf("returned %v, and Valid is %v", valid, i.Valid())
	}
	return show(string(i.Key()), string(i.Value()), valid)
}

func (e *Engine) create(o Op) string {
	name := o.Arg(0)
	if _, there := e.DB.ColumnFamily(name); there {
		if _, err := e.DB.CreateColumnFamily(name, nil); !errors.Is(err, ashlar.ErrInvalidArgument) {
			return "made twice"
		}
		return exists
	}
	var c *ashlar.ColumnFamilyOptions
	full := &ashlar.Options{}
	if err := SetOptions(full, e.words); err != nil {
		return answer(err)
	}
	if o.Flags["reverse"] {
		c = reversed(full)
		e.reverse[name] = true
	} else {
		c = &full.ColumnFamilyOptions
	}
	cf, err := e.DB.CreateColumnFamily(name, c)
	if err != nil {
		return answer(err)
	}
	e.families[name] = cf
	return ok
}

func (e *Engine) reopen(o Op) string {
	words := o.Args
	if len(words) == 0 {
		words = e.words
		if e.Reopened != nil {
			words = e.Reopened(e.reopens)
		}
	}
	e.reopens++
	if err := e.Close(); err != nil {
		return answer(err)
	}
	return answer(e.open(words))
}
