// Package lsm is the tree of one column family: the memtables that take its writes, the tables of its levels, and the
// superversion, which is what one read sees of both.
//
//	handle (root)     ColumnFamily ──> Tree
//	                                    │ current (atomic)
//	                                    ▼
//	one read sees     Superversion ──┬─> mem        takes writes
//	                                 ├─> imm …      full, newest first, wait for their flush
//	                                 └─> Version    files of each level (package manifest)
//
// A tree knows nothing of logs, write groups or other trees. It does not lock: the root's mutex guards what changes it
// (the methods that end in Locked), and readers take a reference to the current superversion without any lock.
package lsm
