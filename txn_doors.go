package ashlar

import (
	"iter"
	"sync"

	"github.com/ashlardb/ashlar/internal/txnbridge"
)

// What package txn may do beyond the public API; see package txnbridge.

func init() {
	txnbridge.Root = txnbridge.Doors[Options, DB, ColumnFamily, Batch, Iterator, WriteOptions]{
		Open:             open,
		WriteIf:          (*DB).writeIf,
		LatestAnywhere:   (*ColumnFamily).latestAnywhere,
		Prepare:          (*DB).prepare,
		CommitPrepared:   (*DB).commitPrepared,
		RollbackPrepared: (*DB).rollbackPrepared,
		Prepared: func(d *DB) iter.Seq2[string, *Batch] {
			return func(yield func(string, *Batch) bool) {
				for _, p := range d.preparedTransactions() {
					if !yield(p.name, p.batch) {
						return
					}
				}
			}
		},
		FailedIterator: func(err error) *Iterator { return &Iterator{err: err} },
		Hold:           (*DB).hold,
	}
}

// hold makes Close wait for release, as it does for an iterator.
func (d *DB) hold() (release func(), err error) {
	h := d.handles.add(handleTransaction, "")
	release = sync.OnceFunc(func() { d.closeHandle(handleTransaction, h) })
	if d.closed.Load() {
		// Close may have counted the open handles before this one came in.
		release()
		return func() {}, ErrClosed
	}
	return release, nil
}
