// Package txnbridge is the door between the root package and package txn: what transactions need of a database that is
// no part of the public API. The root fills it in when it is initialised, and package txn, which imports the root, takes
// it from there. The type parameters stand for the root's types, which this package cannot name.
package txnbridge

import (
	"iter"

	"github.com/ashlardb/ashlar/internal/kv"
)

// View is what a precondition may ask. It lives for the call.
type View interface {
	// Latest returns the sequence number of the newest version of a key that is in memory, 0 if there is none, and
	// since: every write after that is in memory. So a key was not written after since if seq does not say so.
	Latest(family uint32, key []byte) (seq, since kv.Seq)
}

// Doors are the functions behind the door.
type Doors[Options, DB, ColumnFamily, Batch, Iterator, WriteOptions any] struct {
	// Open opens a database. With twoPhase it takes over what it finds prepared; without, that is an error.
	Open func(dir string, o *Options, twoPhase bool) (*DB, error)
	// WriteIf is DB.Write if check returns nil. The leader of the write group calls it, right before the log: it must
	// not wait, nor call the database other than through the View.
	WriteIf func(d *DB, b *Batch, o *WriteOptions, check func(View) error) error
	// LatestAnywhere returns the number of the newest version of a key, from tables too, if it is later than after;
	// else that or an older one.
	LatestAnywhere func(c *ColumnFamily, key []byte, after kv.Seq) (kv.Seq, error)
	// Prepare makes b safe under a name without doing it. b must not change any more. CommitPrepared does it and
	// RollbackPrepared forgets it: ErrNotFound if nothing is prepared under the name.
	Prepare                          func(d *DB, name string, b *Batch, o *WriteOptions) error
	CommitPrepared, RollbackPrepared func(d *DB, name string, o *WriteOptions) error
	// Prepared walks what is prepared, by name.
	Prepared func(d *DB) iter.Seq2[string, *Batch]
	// FailedIterator is an iterator that shows nothing but an error.
	FailedIterator func(err error) *Iterator
	// Hold makes Close of the database wait for release.
	Hold func(d *DB) (release func(), err error)
}

// Root is the Doors of the root package, with its own types.
var Root any
