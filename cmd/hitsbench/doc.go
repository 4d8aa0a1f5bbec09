// Hitsbench measures what optimize_filters_for_hits does to a database with TiKV's column families: TiKV's pull request 3733
// turned it on for the default family.
//
//	go run ./cmd/hitsbench > hits.md
//
// It loads two databases that differ in nothing else, one with the option off and one with it on, reads both in turn,
// -rounds times, and prints Markdown tables of the medians.
//
// # The data
//
// Each key is committed as TiKV does it: the value, of 64 bytes, is put into "default" under the key and a time; a lock is put
// into "lock", and deleted by the commit, which puts a record into "write". A tenth of the keys then gets a second version, so
// that there is a level above the bottom, ten times smaller. Families have TiKV's settings: blocks of 32 KiB (lock: 16 KiB),
// 10 bits a key, index and filter blocks in the block cache; "write" filters by prefix, the key without its time; "lock" is
// not compressed. The block cache has room for a third of the keys and values; -cache says otherwise.
//
// # The reads
//
//	present   a transaction's read of a key that is there: the lock, which is not; the newest version in "write", by a seek
//	          that asks filters of prefixes; and the value in "default"
//	absent    the same of a key that is not there: the filters of "lock" and "write" say so
//	raw       a Get in "default" of a key that is not there: what TiKV's raw interface does with absent keys
//
// Each reading of a database is a process of its own, which first reads as many present keys uncounted. The resident memory
// is what it has after the present keys.
//
// The exit code is 1 if a run failed, or a read did not find what it should.
package main
