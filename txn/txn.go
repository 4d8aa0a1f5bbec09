package txn

import (
	"context"
	"fmt"
	"time"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/txnbridge"
)

// Txn is a transaction. One goroutine at a time uses it. Make one with DB.Begin.
type Txn struct {
	db    *DB
	owner *owner // of its locks; with the transaction's ID
	opts  TxnOptions
	name  string

	state    state
	failed   error // why it was over from the beginning
	release  func()
	writes   *ashlar.IndexedBatch
	snapshot *ashlar.Snapshot

	// tracked are the keys that it writes or got for update.
	tracked map[lockKey]tracked
	// marks has, for each save point, the keys tracked since.
	marks [][]lockKey
}

// tracked is what is known of a key: optimistic, at which sequence number it must not have changed since; pessimistic,
// that its lock is held.
type tracked struct {
	seq kv.Seq
}

type state uint8

const (
	started state = iota
	prepared
	over
)

func (d *DB) newTxn(o *TxnOptions) *Txn {
	t := &Txn{db: d, owner: &owner{id: d.lastID.Add(1)}, opts: *o, writes: d.base.NewIndexedBatch(), tracked: map[lockKey]tracked{}}
	t.release = func() {}
	if o.LockTimeout == 0 {
		t.opts.LockTimeout = d.opts.LockTimeout
	}
	if o.Context == nil {
		t.opts.Context = context.Background()
	}
	if o.Expiration > 0 {
		t.owner.expires = time.Now().Add(o.Expiration)
	}
	return t
}

// ID is the transaction's number, by which a DeadlockError names it.
func (t *Txn) ID() uint64 { return t.owner.id }

// usable is nil while reads are allowed, and for writing while writes are.
func (t *Txn) usable(writing bool) error {
	switch {
	case t.failed != nil:
		return t.failed
	case t.db.closed.Load():
		return ashlar.ErrClosed
	case t.state == over:
		return fmt.Errorf("%w: the transaction is over", ashlar.ErrInvalidArgument)
	case writing && t.state == prepared:
		return fmt.Errorf("%w: the transaction is prepared", ashlar.ErrInvalidArgument)
	case t.state == started && t.owner.lost(time.Now()):
		return t.expiredError()
	}
	return nil
}

func (t *Txn) expiredError() error {
	return fmt.Errorf("the transaction has expired: %w", ashlar.ErrTimedOut)
}

// SetSnapshot makes the transaction read the database as of now, and take writes of others after now to keys that it
// writes from here on for conflicts. It may be called again, for a later moment.
func (t *Txn) SetSnapshot() {
	if t.usable(false) != nil {
		return
	}
	t.ClearSnapshot()
	t.snapshot = t.db.base.NewSnapshot()
}

// ClearSnapshot makes the transaction read what is committed at each read, as it does without SetSnapshot.
func (t *Txn) ClearSnapshot() {
	if t.snapshot != nil {
		t.snapshot.Release()
		t.snapshot = nil
	}
}

// Snapshot returns the snapshot that SetSnapshot took, nil without one. It lives until the next SetSnapshot or
// ClearSnapshot, or the end of the transaction.
func (t *Txn) Snapshot() *ashlar.Snapshot { return t.snapshot }

// read gives read options the transaction's snapshot.
func (t *Txn) read(o *ashlar.ReadOptions) *ashlar.ReadOptions {
	if t.snapshot == nil || o != nil && o.Snapshot != nil {
		return o
	}
	own := ashlar.ReadOptions{}
	if o != nil {
		own = *o
	}
	own.Snapshot = t.snapshot
	return &own
}

// Get returns a copy of key's value: the transaction's own, or else the database's. ErrNotFound if there is none. Others
// may change it meanwhile.
func (t *Txn) Get(cf *ashlar.ColumnFamily, key []byte, o *ashlar.ReadOptions) ([]byte, error) {
	if err := t.usable(false); err != nil {
		return nil, err
	}
	return t.writes.GetFromBatchAndDB(cf, key, t.read(o))
}

// GetForUpdate is Get for a key that must not change until the commit, whether it is there or not.
func (t *Txn) GetForUpdate(cf *ashlar.ColumnFamily, key []byte, o *ashlar.ReadOptions) ([]byte, error) {
	if err := t.track(cf, key, true); err != nil {
		return nil, err
	}
	return t.Get(cf, key, o)
}

// GetForShare is GetForUpdate for a key that the transaction does not mean to write: others may get it so too. Writing it
// all the same waits for them. In an optimistic database it is GetForUpdate.
func (t *Txn) GetForShare(cf *ashlar.ColumnFamily, key []byte, o *ashlar.ReadOptions) ([]byte, error) {
	if err := t.track(cf, key, false); err != nil {
		return nil, err
	}
	return t.Get(cf, key, o)
}

// NewIterator returns an iterator over the transaction's writes up to now on top of the database's. Others may change what
// it shows meanwhile. It must be closed.
func (t *Txn) NewIterator(cf *ashlar.ColumnFamily, o *ashlar.ReadOptions) *ashlar.Iterator {
	if err := t.usable(false); err != nil {
		return root.FailedIterator(err)
	}
	return t.writes.NewIterator(cf, t.read(o))
}

// Put sets key to value.
func (t *Txn) Put(cf *ashlar.ColumnFamily, key, value []byte) error {
	if err := t.track(cf, key, true); err != nil {
		return err
	}
	return t.writes.Put(cf, key, value)
}

// Delete removes key.
func (t *Txn) Delete(cf *ashlar.ColumnFamily, key []byte) error {
	if err := t.track(cf, key, true); err != nil {
		return err
	}
	return t.writes.Delete(cf, key)
}

// SingleDelete removes a key that was put at most once; see ashlar.Batch.SingleDelete.
func (t *Txn) SingleDelete(cf *ashlar.ColumnFamily, key []byte) error {
	if err := t.track(cf, key, true); err != nil {
		return err
	}
	return t.writes.SingleDelete(cf, key)
}

// Merge adds an operand to key, which the family's merge operator applies when the key is read. To transactions it is a
// write like others: two of them that merge into one key are in each other's way.
func (t *Txn) Merge(cf *ashlar.ColumnFamily, key, operand []byte) error {
	if err := t.track(cf, key, true); err != nil {
		return err
	}
	return t.writes.Merge(cf, key, operand)
}

// track sees to it that a key does not change until the commit, or that the commit notices.
func (t *Txn) track(cf *ashlar.ColumnFamily, key []byte, exclusive bool) error {
	if err := t.usable(true); err != nil {
		return err
	}
	cf = t.db.family(cf)
	k := lockKey{cf.ID(), string(key)}
	if t.db.locks == nil {
		if _, ok := t.tracked[k]; !ok {
			t.note(k, tracked{t.since()})
		}
		return nil
	}
	_, had := t.tracked[k]
	if err := t.lock(k, exclusive); err != nil {
		return t.db.explain(err)
	}
	if had || t.snapshot == nil {
		return nil
	}
	// With the lock nobody writes it any more; but somebody may have, after the snapshot.
	at := kv.Seq(t.snapshot.SequenceNumber())
	seq, err := root.LatestAnywhere(cf, key, at)
	if err == nil && seq > at {
		err = fmt.Errorf("key %q of column family %q was written after the snapshot: %w", key, cf.Name(), ashlar.ErrBusy)
	}
	if err != nil {
		t.forget(k)
	}
	return err
}

// since is the moment after which a key that is tracked from now on must not have been written.
func (t *Txn) since() kv.Seq {
	if t.snapshot != nil {
		return kv.Seq(t.snapshot.SequenceNumber())
	}
	return kv.Seq(t.db.base.LatestSequenceNumber())
}

// lock takes the lock of a key.
func (t *Txn) lock(k lockKey, exclusive bool) error {
	r := request{owner: t.owner, key: k, exclusive: exclusive, timeout: t.opts.LockTimeout, detect: !t.opts.NoDeadlockDetect}
	if err := t.db.locks.lock(t.opts.Context, r); err != nil {
		return err
	}
	if _, ok := t.tracked[k]; !ok {
		t.note(k, tracked{})
	}
	return nil
}

func (t *Txn) note(k lockKey, v tracked) {
	t.tracked[k] = v
	if n := len(t.marks); n > 0 {
		t.marks[n-1] = append(t.marks[n-1], k)
	}
}

// forget gives up a key that was noted last.
func (t *Txn) forget(k lockKey) {
	delete(t.tracked, k)
	if n := len(t.marks); n > 0 {
		t.marks[n-1] = t.marks[n-1][:len(t.marks[n-1])-1]
	}
	t.db.locks.unlock(t.owner, k)
}

// SetSavePoint remembers what the transaction has written, on top of the save points before.
func (t *Txn) SetSavePoint() {
	if t.usable(true) != nil {
		return
	}
	t.writes.SetSavePoint()
	t.marks = append(t.marks, nil)
}

// RollbackToSavePoint takes back what was written since the last save point, and lets go of the keys that were locked or
// noted since; the snapshot stays. ErrNotFound without a save point.
func (t *Txn) RollbackToSavePoint() error {
	if err := t.usable(true); err != nil {
		return err
	}
	if err := t.writes.RollbackToSavePoint(); err != nil {
		return err
	}
	n := len(t.marks) - 1
	for _, k := range t.marks[n] {
		delete(t.tracked, k)
		if t.db.locks != nil {
			t.db.locks.unlock(t.owner, k)
		}
	}
	t.marks = t.marks[:n]
	return nil
}

// PopSavePoint forgets the last save point. ErrNotFound without one.
func (t *Txn) PopSavePoint() error {
	if err := t.usable(true); err != nil {
		return err
	}
	if err := t.writes.PopSavePoint(); err != nil {
		return err
	}
	n := len(t.marks) - 1
	if n > 0 {
		t.marks[n-1] = append(t.marks[n-1], t.marks[n]...)
	}
	t.marks = t.marks[:n]
	return nil
}

// Name returns what SetName gave.
func (t *Txn) Name() string { return t.name }

// SetName names the transaction, which Prepare asks for: once, with 1 to 512 bytes that no other one has that is not over.
// Optimistic transactions have no names.
func (t *Txn) SetName(name string) error {
	if err := t.usable(true); err != nil {
		return err
	}
	if t.db.locks == nil {
		return fmt.Errorf("two-phase commit of an optimistic transaction: %w", ashlar.ErrNotSupported)
	}
	if name == "" || len(name) > 512 || t.name != "" {
		return fmt.Errorf("%w: a transaction gets one name, of 1 to 512 bytes", ashlar.ErrInvalidArgument)
	}
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	if t.db.names[name] != nil {
		return fmt.Errorf("%w: there is a transaction of the name %q", ashlar.ErrInvalidArgument, name)
	}
	t.name, t.db.names[name] = name, t
	return nil
}

// Prepare makes the transaction's writes safe, as far as its write options say, without doing them: nothing is left but
// Commit or Rollback, also after a crash and by another process (DB.Prepared).
func (t *Txn) Prepare() error {
	if err := t.usable(true); err != nil {
		return err
	}
	if t.db.locks == nil {
		return fmt.Errorf("two-phase commit of an optimistic transaction: %w", ashlar.ErrNotSupported)
	}
	if t.name == "" {
		return fmt.Errorf("%w: only a transaction with a name can be prepared", ashlar.ErrInvalidArgument)
	}
	if !t.owner.life.CompareAndSwap(active, ending) {
		return t.expiredError()
	}
	if err := root.Prepare(t.db.base, t.name, t.writes.Batch(), &t.opts.Write); err != nil {
		t.owner.life.Store(active)
		return err
	}
	t.ClearSnapshot()
	t.marks = nil
	t.db.mu.Lock()
	t.db.prepared[t.name] = t
	t.db.mu.Unlock()
	t.state = prepared
	t.release() // Close need not wait for it
	return nil
}

// Commit does the transaction's writes and ends it. After an error it is as it was before: it may be tried again after
// ErrBusy or ErrTryAgain only with the same result, so that what is left is Rollback.
func (t *Txn) Commit() error {
	if err := t.usable(false); err != nil {
		return err
	}
	var err error
	switch {
	case t.state == prepared:
		err = root.CommitPrepared(t.db.base, t.name, &t.opts.Write)
	case t.db.locks == nil:
		if t.writes.Len() > emptyBatch || len(t.tracked) > 0 {
			err = root.WriteIf(t.db.base, t.writes.Batch(), &t.opts.Write, t.unchanged)
		}
	case !t.owner.life.CompareAndSwap(active, ending):
		return t.expiredError()
	default:
		if t.writes.Len() > emptyBatch {
			err = t.db.base.Write(t.writes.Batch(), &t.opts.Write)
		}
		if err != nil {
			t.owner.life.Store(active)
		}
	}
	if err == nil {
		t.end()
	}
	return err
}

// emptyBatch is the length of a batch with nothing in it.
const emptyBatch = 12

// unchanged is an optimistic transaction's precondition.
func (t *Txn) unchanged(v txnbridge.View) error {
	for k, at := range t.tracked {
		if err := judge(v, k, at.seq); err != nil {
			return err
		}
	}
	return nil
}

// judge says whether a key may have been written after a moment.
func judge(v txnbridge.View, k lockKey, at kv.Seq) error {
	seq, since := v.Latest(k.family, []byte(k.key))
	switch {
	case seq > at:
		return fmt.Errorf("key %q was written meanwhile: %w", k.key, ashlar.ErrBusy)
	case at < since:
		return fmt.Errorf("the memtables no longer tell whether key %q was written meanwhile: %w", k.key, ashlar.ErrTryAgain)
	}
	return nil
}

// Rollback ends the transaction without its writes. After Commit or Rollback it does nothing.
func (t *Txn) Rollback() error {
	switch t.state {
	case over:
		return nil
	case prepared:
		if err := t.usable(false); err != nil {
			return err
		}
		if err := root.RollbackPrepared(t.db.base, t.name, &t.opts.Write); err != nil {
			return err
		}
	}
	t.end()
	return nil
}

// end lets go of everything.
func (t *Txn) end() {
	t.state = over
	t.ClearSnapshot()
	t.owner.life.Store(ending)
	if t.db.locks != nil {
		for k := range t.tracked {
			t.db.locks.unlock(t.owner, k)
		}
	}
	t.tracked, t.marks = nil, nil
	if t.name != "" {
		t.db.mu.Lock()
		delete(t.db.names, t.name)
		delete(t.db.prepared, t.name)
		t.db.mu.Unlock()
	}
	t.release()
}
