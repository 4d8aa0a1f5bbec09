package txn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/txnbridge"
)

// root is what the root package lets transactions do.
var root = txnbridge.Root.(txnbridge.Doors[ashlar.Options, ashlar.DB, ashlar.ColumnFamily, ashlar.Batch, ashlar.Iterator, ashlar.WriteOptions])

// Timeouts of locks. Zero means the default.
const (
	// NoWait gives up at once.
	NoWait time.Duration = 1
	// WaitForever waits until the lock comes, or a deadlock is found.
	WaitForever time.Duration = -1
)

// Options are those of a pessimistic database. Nil, and each zero field, mean the default.
type Options struct {
	// LockTimeout is how long a transaction waits for a lock, unless its own options say so. 1 s.
	LockTimeout time.Duration
	// WriteLockTimeout is how long a write outside of transactions waits (RocksDB's default_lock_timeout). 1 s.
	WriteLockTimeout time.Duration
	// Stripes is in how many parts the lock table has its own locks. 16.
	Stripes int
}

// TxnOptions are those of a transaction. Nil, and each zero field, mean the default.
type TxnOptions struct {
	// SetSnapshot makes the transaction read as of its beginning; see Txn.SetSnapshot.
	SetSnapshot bool
	// LockTimeout is how long it waits for a lock. That of the database.
	LockTimeout time.Duration
	// NoDeadlockDetect lets it run into its timeout rather than look for deadlocks.
	NoDeadlockDetect bool
	// Expiration is how long it may keep its locks from others. Then they may take them, and if one has, it fails with
	// ErrTimedOut. Zero: as long as it likes.
	Expiration time.Duration
	// Context, if set, ends waits for locks.
	Context context.Context
	// Write is how it is prepared and committed.
	Write ashlar.WriteOptions
}

// DB is a database with transactions. Its own verbs take the column family first; nil is the default one. For everything
// else there is BaseDB.
type DB struct {
	// Constant.
	base  *ashlar.DB
	locks *lockTable // nil: optimistic
	opts  Options

	closed atomic.Bool
	lastID atomic.Uint64

	mu       sync.Mutex
	names    map[string]*Txn // those that have one and are not over
	prepared map[string]*Txn
}

// OpenOptimistic opens a database for transactions that do not wait. It must have no prepared transactions. Families whose
// MaxWriteBufferSizeToMaintain is 0 get -1: the history in which conflicts are looked for.
func OpenOptimistic(dir string, o *ashlar.Options) (*DB, error) {
	base, err := root.Open(dir, withHistory(o), false)
	if err != nil {
		return nil, err
	}
	return newDB(base), nil
}

// OpenPessimistic opens a database for transactions that lock what they use. Those that were prepared when it was last
// in use hold their locks again: see Prepared.
func OpenPessimistic(dir string, o *ashlar.Options, t *Options) (*DB, error) {
	opts := Options{}
	if t != nil {
		opts = *t
	}
	for _, d := range []*time.Duration{&opts.LockTimeout, &opts.WriteLockTimeout} {
		if *d == 0 {
			*d = time.Second
		}
	}
	if opts.Stripes <= 0 {
		opts.Stripes = 16
	}
	base, err := root.Open(dir, o, true)
	if err != nil {
		return nil, err
	}
	d := newDB(base)
	d.opts, d.locks = opts, newLockTable(opts.Stripes)
	if err := d.takePrepared(); err != nil {
		return nil, errors.Join(err, base.Close())
	}
	return d, nil
}

// withHistory returns the options with memtable history for every family.
func withHistory(o *ashlar.Options) *ashlar.Options {
	if o == nil {
		o = &ashlar.Options{}
	}
	c := *o
	c.MaxWriteBufferSizeToMaintain = history(c.MaxWriteBufferSizeToMaintain)
	c.ColumnFamilies = maps.Clone(o.ColumnFamilies)
	for name, f := range c.ColumnFamilies {
		if f != nil {
			copied := *f
			copied.MaxWriteBufferSizeToMaintain = history(f.MaxWriteBufferSizeToMaintain)
			c.ColumnFamilies[name] = &copied
		}
	}
	return &c
}

func history(n int64) int64 {
	if n == 0 {
		return -1
	}
	return n
}

func newDB(base *ashlar.DB) *DB {
	return &DB{base: base, names: map[string]*Txn{}, prepared: map[string]*Txn{}}
}

// takePrepared makes transactions of what Open found prepared.
func (d *DB) takePrepared() error {
	for name, b := range root.Prepared(d.base) {
		t := d.newTxn(&TxnOptions{})
		t.name, t.state = name, prepared
		t.owner.life.Store(ending)
		if err := t.writes.SetData(b.Data()); err != nil {
			return fmt.Errorf("prepared transaction %q: %w", name, err)
		}
		keys, err := keysOf(b)
		if err != nil {
			return fmt.Errorf("prepared transaction %q: %w", name, err)
		}
		for _, k := range keys {
			if err := t.lock(k, true); err != nil {
				return fmt.Errorf("prepared transaction %q: %w", name, err)
			}
		}
		d.names[name], d.prepared[name] = t, t
	}
	return nil
}

// keysOf returns the keys that a batch writes, each once and in order.
func keysOf(b *ashlar.Batch) ([]lockKey, error) {
	var keys []lockKey
	for r := batch.NewReader(b.Data()); ; {
		rec, ok, err := r.Next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		switch {
		case rec.LogData:
		case rec.Kind == kv.KindRangeDelete:
			return nil, fmt.Errorf("ranges cannot be locked: DeleteRange in a pessimistic database: %w", ashlar.ErrNotSupported)
		default:
			keys = append(keys, lockKey{rec.Family, string(rec.Key)})
		}
	}
	slices.SortFunc(keys, lockKey.compare)
	return slices.Compact(keys), nil
}

// BaseDB returns the database below. Writes through it, and through the verbs of a ColumnFamily, take no locks.
func (d *DB) BaseDB() *ashlar.DB { return d.base }

// DefaultColumnFamily and the following are those of the database below.
func (d *DB) DefaultColumnFamily() *ashlar.ColumnFamily { return d.base.DefaultColumnFamily() }
func (d *DB) ColumnFamily(name string) (*ashlar.ColumnFamily, bool) {
	return d.base.ColumnFamily(name)
}
func (d *DB) NewSnapshot() *ashlar.Snapshot { return d.base.NewSnapshot() }
func (d *DB) NewBatch() *ashlar.Batch       { return d.base.NewBatch() }

func (d *DB) family(cf *ashlar.ColumnFamily) *ashlar.ColumnFamily {
	if cf == nil {
		return d.base.DefaultColumnFamily()
	}
	return cf
}

// Get returns a copy of key's value as committed. ErrNotFound if there is none.
func (d *DB) Get(cf *ashlar.ColumnFamily, key []byte, o *ashlar.ReadOptions) ([]byte, error) {
	return d.family(cf).Get(key, o)
}

// NewIterator returns an iterator over what is committed.
func (d *DB) NewIterator(cf *ashlar.ColumnFamily, o *ashlar.ReadOptions) *ashlar.Iterator {
	return d.family(cf).NewIterator(o)
}

// Put sets key to value.
func (d *DB) Put(cf *ashlar.ColumnFamily, key, value []byte, o *ashlar.WriteOptions) error {
	return d.writeOne(o, func(b *ashlar.Batch) error { return b.Put(cf, key, value) })
}

// Delete removes key.
func (d *DB) Delete(cf *ashlar.ColumnFamily, key []byte, o *ashlar.WriteOptions) error {
	return d.writeOne(o, func(b *ashlar.Batch) error { return b.Delete(cf, key) })
}

// SingleDelete removes a key that was put at most once; see ashlar.Batch.SingleDelete.
func (d *DB) SingleDelete(cf *ashlar.ColumnFamily, key []byte, o *ashlar.WriteOptions) error {
	return d.writeOne(o, func(b *ashlar.Batch) error { return b.SingleDelete(cf, key) })
}

// Merge adds an operand to key; see ashlar.Batch.Merge.
func (d *DB) Merge(cf *ashlar.ColumnFamily, key, operand []byte, o *ashlar.WriteOptions) error {
	return d.writeOne(o, func(b *ashlar.Batch) error { return b.Merge(cf, key, operand) })
}

func (d *DB) writeOne(o *ashlar.WriteOptions, verb func(*ashlar.Batch) error) error {
	b := d.base.NewBatch()
	if err := verb(b); err != nil {
		return err
	}
	return d.Write(b, o)
}

// Write does all of b, or nothing. In a pessimistic database it first locks the keys of b, as a transaction would, in
// their order, so that writes do not deadlock with each other.
func (d *DB) Write(b *ashlar.Batch, o *ashlar.WriteOptions) error {
	if d.locks == nil {
		return d.base.Write(b, o)
	}
	keys, err := keysOf(b)
	if err != nil {
		return err
	}
	own := &owner{id: d.lastID.Add(1)}
	for n, k := range keys {
		r := request{owner: own, key: k, exclusive: true, timeout: d.opts.WriteLockTimeout, detect: true}
		if err = d.locks.lock(context.Background(), r); err != nil {
			keys = keys[:n]
			break
		}
	}
	if err == nil {
		err = d.base.Write(b, o)
	}
	for _, k := range keys {
		d.locks.unlock(own, k)
	}
	return d.explain(err)
}

// explain gives a deadlock the names of the families.
func (d *DB) explain(err error) error {
	if e, ok := errors.AsType[*DeadlockError](err); ok {
		for i := range e.Cycle {
			for _, cf := range d.base.ColumnFamilies() {
				if cf.ID() == e.Cycle[i].family {
					e.Cycle[i].ColumnFamily = cf.Name()
				}
			}
		}
	}
	return err
}

// Begin begins a transaction. It must be ended, with Commit or Rollback; Rollback after Commit does nothing, so that
//
//	t := db.Begin(nil)
//	defer t.Rollback()
//
// is right. On a closed database every verb of it gives ErrClosed.
func (d *DB) Begin(o *TxnOptions) *Txn {
	if o == nil {
		o = &TxnOptions{}
	}
	t := d.newTxn(o)
	var err error
	if t.release, err = root.Hold(d.base); err == nil && d.closed.Load() {
		t.release()
		err = ashlar.ErrClosed
	}
	if err != nil {
		t.state, t.failed = over, err
		return t
	}
	if o.SetSnapshot {
		t.SetSnapshot()
	}
	return t
}

// Prepared returns the transactions that are prepared and neither committed nor rolled back, by name: those that survived
// a crash, and those of now.
func (d *DB) Prepared() []*Txn {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []*Txn
	for _, t := range d.prepared {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *Txn) int { return strings.Compare(a.name, b.name) })
	return all
}

// Update runs fn in a transaction and commits it. If fn or the commit meets a conflict (ErrBusy, ErrTryAgain, a lock's
// ErrTimedOut) the transaction is rolled back and fn runs again, in a new one, until it succeeds or ctx ends. Any other
// error of fn is returned, and nothing is written. fn may commit or roll back by itself.
func (d *DB) Update(ctx context.Context, fn func(*Txn) error) error {
	for try := 0; ; try++ {
		err := d.updateOnce(ctx, fn)
		if !isConflict(err) {
			return err
		}
		if cerr := pause(ctx, try); cerr != nil {
			return fmt.Errorf("%w; the last conflict: %w", cerr, err)
		}
	}
}

func (d *DB) updateOnce(ctx context.Context, fn func(*Txn) error) error {
	t := d.Begin(&TxnOptions{Context: ctx})
	defer t.Rollback()
	if err := fn(t); err != nil || t.state == over {
		return err
	}
	return t.Commit()
}

func isConflict(err error) bool {
	return errors.Is(err, ashlar.ErrBusy) || errors.Is(err, ashlar.ErrTryAgain) || errors.Is(err, ashlar.ErrTimedOut)
}

// pause lets others go on before the next try: longer each time, up to 10 ms or so, and by chance, so that two who are in
// each other's way do not stay in step.
func pause(ctx context.Context, try int) error {
	if err := ctx.Err(); err != nil || try == 0 {
		return err
	}
	limit := time.Microsecond * time.Duration(20<<min(try, 9))
	timer := time.NewTimer(rand.N(limit))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close closes the database below. Who waits for a lock gets ErrClosed. Transactions that are not over make it return
// ErrBusy, and the last one's end finishes it; prepared ones do not, they will be there after the next Open.
func (d *DB) Close() error {
	if !d.closed.CompareAndSwap(false, true) {
		return ashlar.ErrClosed
	}
	if d.locks != nil {
		close(d.locks.closing)
	}
	return d.base.Close()
}
