// Package ashlar is an embeddable key-value engine: a log-structured merge tree with column families, in pure Go, in
// RocksDB's file formats. RocksDB's tools open its databases, and it opens RocksDB's.
//
// # Five nouns
//
//   - DB is an open database. Its own verbs are those of the default family.
//   - ColumnFamily is a key space with options of its own. Families share one log, so a Batch may write to several at
//     once: all of it is seen or none.
//   - Batch is a list of writes that are done together.
//   - Iterator walks keys in order, both ways, as of the moment it was made.
//   - Snapshot is a moment to read at.
//
// # A working loop
//
//	db, err := ashlar.Open("dir", nil)
//	if err != nil { … }
//	defer db.Close()
//
//	err = db.Put([]byte("user/1"), []byte("Ada"), nil)
//	name, err := db.Get([]byte("user/1"), nil) // ErrNotFound if there is none
//
//	it := db.Prefix([]byte("user/"), nil)
//	defer it.Close()
//	for k, v := range it.All() { … }
//	if err := it.Error(); err != nil { … }
//
// Merge writes a step instead of a value ("add 1"): a family's MergeOperator makes values of them when they are read or
// compacted, so that a counter costs no read. RocksDB's operators are built in.
//
// # What is durable when
//
//   - A write with Sync is on disk when it returns: it survives a power cut.
//   - A write without is with the operating system when it returns: it survives a killed process. A power cut keeps a
//     prefix of what was written: never a later write without an earlier one, never half of a batch.
//   - A write with DisableWAL is safe once its memtable is flushed. Flush waits for that; Close does it.
//
// A group of writes becomes visible to reads at once, after it is as safe as its members asked for.
//
// # Defaults
//
// They are RocksDB's, save these, each so that every RocksDB since 6.6 can read the files and nothing has to be set to
// get a good engine: a missing database is made; tables are written with format_version 5, Snappy and xxHash64.
//
// # Errors
//
// Every error matches a sentinel (ErrNotFound, ErrClosed, ErrCorruption, …) with errors.Is, or is one of the operating
// system's. A *CorruptionError tells file, offset and family. Nothing panics, exits, or writes to stderr. After an error
// in the background that stops writes, reads go on; BackgroundError tells it, and Resume, which is also tried every
// second, ends it once its cause is gone.
//
// # What to give back
//
// Only a DB, an Iterator and a Snapshot have to be closed or released. Values that Get returns are copies. A slice that
// is lent out says in its comment how long it lives; a slice that is given in is never kept.
package ashlar
