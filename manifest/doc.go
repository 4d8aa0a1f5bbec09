// Package manifest keeps the tree's table of contents: which tables there are, on which level of which family, and from
// where on the write-ahead logs are still needed.
//
// # Nouns
//
//   - A File describes one table and never changes.
//   - A Version is one family's files at a moment, level by level. It is immutable and counted: as long as somebody
//     holds a reference, none of its files is deleted.
//   - An Edit is the difference between two versions, with what else changed: log number, sequence, families.
//   - The VersionSet has each family's current version and the manifest, a log of edits. Replaying the edits from the
//     start gives the current versions again.
//
// # On disk
//
// CURRENT is one line with the name of the manifest in use:
//
//	"MANIFEST-000005\n"
//
// The manifest is a file of log records (package wal draws them). The first ones are a snapshot: everything that there
// was when the file was begun. Each record is one edit, drawn in edit.go. An edit takes effect as a whole or not at
// all, and so does a run of edits marked as an atomic group.
//
// A record that a crash cut short at the end of the file is ignored, and zeros after the last record too; it was never
// acknowledged. Damage before that is corruption and names the file and the offset.
//
// # Writing
//
// Recover only reads. The first Apply after it begins a new manifest with a snapshot, and so does the first Apply after
// a failed one, since nobody knows what a failed write or sync has left at the end of the file. The order is: write the
// snapshot and the edits, sync the file, write the name to NNNNNN.dbtmp, sync that, rename it to CURRENT, sync the
// directory. Only then are the edits acknowledged, the new versions installed and the old manifest given up.
//
// # Threads
//
// Apply may be called by many goroutines and lets one at a time through, under the set's mutex, which it holds while it
// writes and while it calls install. Everything that reads (Current, LogNumber, NewFileNum, …) is atomic and never waits
// for Apply. In the order of locks the set's mutex stands before the database's and every leaf.
//
// # Versions of RocksDB
//
// Manifests of RocksDB 5 to 11.9 are read. What is written can be read by RocksDB 7.8 and later: tags 1, 2, 3, 4, 6, 9,
// 10, 103, 200 to 203, 300 and 8193. Epoch numbers (since RocksDB 7.10) are written always and inferred as RocksDB does
// when a file has none. Blob files, user-defined timestamps and files outside the database's directory are refused with
// an error that matches corrupt.ErrNotSupported.
package manifest
