// Package txn has transactions on top of a database: writes that are done together, over reads that nobody has changed
// meanwhile.
//
// There are two kinds of database, opened by two functions, with the same Txn:
//
//   - OpenOptimistic. Nobody waits. A transaction remembers the keys that it writes or gets for update, and the moment of
//     each; Commit fails with ErrBusy if one of them was written since. It looks into memtables only, and into
//     flushed ones that are kept for it (ashlar.ColumnFamilyOptions.MaxWriteBufferSizeToMaintain). Where these do not
//     reach back far enough it fails with ErrTryAgain: nothing may have happened, but a new try is needed.
//   - OpenPessimistic. A transaction locks the keys that it writes or gets for update, and who wants one too waits for it:
//     up to LockTimeout, then ErrTimedOut. A circle of transactions that wait for each other is found when it closes: the
//     one who closes it gets a *DeadlockError, which tells the circle and matches ErrBusy.
//
// After any of these errors Rollback and begin again; DB.Update does so until it succeeds:
//
//	err := db.Update(ctx, func(t *txn.Txn) error {
//		v, err := t.GetForUpdate(nil, key, nil)
//		if err != nil {
//			return err
//		}
//		return t.Put(nil, key, next(v))
//	})
//
// # What is seen
//
// A transaction sees its own writes over the database. Others see them when it has committed, all at once.
//
// With SetSnapshot, in TxnOptions or the method, it reads the database as of that moment, and writing a key that was
// written after it is a conflict: found at the write (pessimistic) or at the commit (optimistic). That is snapshot
// isolation. Without, each read sees what is committed then. (RocksDB's transactions read at their snapshot only when
// the read options name it; these do so unless the read options name another.)
//
// Lost updates do not happen to keys read with GetForUpdate, nor, under a snapshot, to keys read with Get. Write skew
// does: two transactions may each read, with Get, what the other one writes. Read with GetForUpdate (or GetForShare) what
// must not change, and transactions are as if done one after the other. A key that is not there can be got for update
// too; a range of keys cannot.
//
// # Two-phase commit
//
// In a pessimistic database a transaction with a name can be prepared: its writes are in the log, not visible, its keys
// stay locked, and nothing but Commit and Rollback, which will not fail for a conflict, is left to do. It survives a
// crash: after Open, Prepared lists it. A database with prepared transactions opens with OpenPessimistic only. The log is
// RocksDB's (WriteCommitted), whose tools read it: the OPTIONS file says allow_2pc.
//
// # Writes beside transactions
//
// The DB's own verbs write at once, and take locks as a transaction would. The verbs of a ColumnFamily, and of BaseDB,
// take none: optimistic transactions notice what they write, pessimistic ones do not.
//
// # Threads
//
// A DB may be used by many goroutines, a Txn by one at a time. Deadlocks are looked for unless NoDeadlockDetect is set;
// RocksDB looks only when asked to.
package txn
