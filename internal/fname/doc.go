// Package fname makes and reads the names of the files in a database directory. They are RocksDB's:
//
//	CURRENT              names the manifest in use
//	MANIFEST-000005      edits of the tree                    (package manifest)
//	000007.log           write-ahead log                      (package wal)
//	000009.sst           table; 000009.ldb in old databases   (package sstable)
//	000011.blob          blob file: recognised, never read
//	OPTIONS-000013       the options in words
//	IDENTITY  LOCK  LOG  LOG.old.1700000000000000
//	000005.dbtmp         a file on its way to another name: CURRENT takes its manifest's number, IDENTITY 0
//	OPTIONS-000013.dbtmp
//
// One counter numbers tables, logs, manifests and options files alike, so a number names one file. Numbers are written
// with at least six digits and read with any number of them. A name that Make would write differently ("10.sst",
// "000010.ldb") is still a file of its kind: whoever deletes what a directory lists must use the listed name, and
// whoever opens a file must use Make's.
//
// A name that Parse does not know belongs to somebody else and is left alone.
package fname
