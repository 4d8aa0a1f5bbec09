// Dbbench runs RocksDB's db_bench on Ashlar: its benchmarks under its flags, with its keys, its values, its counting and
// its output lines, so that the two can be laid side by side, and scripts that read db_bench's output read this one's.
//
//	dbbench --benchmarks=fillseq,readrandom[X3] --num=1000000 --db=<dir> --threads=8
//
//	fillseq      :       1.412 micros/op 707964 ops/sec 1.413 seconds 1000000 operations;   78.3 MB/s
//
// micros/op is what one thread needs for an operation: the threads' seconds over all operations. ops/sec is by the clock
// on the wall. With T threads each does num operations, and the one is about T million over the other.
//
// dbbench --help lists the benchmarks and the flags. Each flag of db_bench that is known here is honoured, or accepted
// since it cannot change anything, or refused with any value but its default; --help says which. An unknown flag or
// benchmark ends the program with exit code 1 before anything is done.
//
// # Like db_bench
//
//   - randomreplacekeys, timeseries and whatever begins with fill, fillseekseq excepted, make the database anew, and are
//     skipped with --use_existing_db. Without that flag the database in --db is destroyed first thing. Only files with a database's
//     names are removed.
//   - fillsync and fill100K divide the key space by 1000, not the number of operations; --writes bounds that.
//   - Thread i of the process, from 1, draws from a Mersenne twister with seed --seed+i. Keys and values are db_bench's,
//     byte by byte and in its order, save the shuffles of filluniquerandom and randomtransaction and sizes of values that
//     are not fixed. With a seed every run of one thread is the same.
//   - --transaction_db and --optimistic_transaction_db open the databases of package txn. With the first every write locks
//     its keys. randomtransaction does not try again what met a conflict; it counts as aborted. In the end the sums of the
//     sets are compared.
//   - The time of an operation, for --histogram, begins when the one before ends: making the key is part of it.
//
// # Unlike db_bench
//
//   - Defaults that differ are told in the header, each with a line: NOTE.
//   - The text that values are cut from is made once, before the clock runs, and threads share it. db_bench's make one
//     each, a megabyte, which is much of a short run of many threads.
//   - Where db_bench prints what is wrong and goes on, this ends with exit code 1: sums of randomtransaction that differ,
//     triples of randomwithverify that are not alike.
//   - An optimistic transaction without a snapshot reads for update what it writes; db_bench crashes.
//   - verify opens --truth_db for writing. It must not be in use.
//   - "... finished N ops" appears when stderr is a terminal only. --stats_interval reports anywhere.
//   - A key space that would be empty after division by 1000 has one key; db_bench crashes.
//   - --cpuprofile and --memprofile write profiles for go tool pprof. check is a benchmark that finds broken invariants.
//   - applymix and applyuniform feed package raftapply; docs/raft-apply.md tells what they show.
//   - GOGC is 400, and GOMEMLIMIT three quarters of the memory that the machine or the control group has, less the block
//     cache and the memtables, which are outside Go's heap. The environment variables have precedence.
//
// # Where things are
//
//	flagset.go   gflags' syntax             keys.go, values.go, random.go …   what is written, byte by byte
//	flags_*.go   the flags, and options     stats.go, reporter.go, header.go  what is printed
//	tasks.go     --benchmarks               benchmarks.go                     the table of benchmarks, and
//	bench.go     the run: threads, turns    writes.go, reads.go, apply.go …   what each does
//	store.go     opening, families          database.go                       destroying, counters
//	apply*.go    loads for package raftapply
//
// A flag of db_bench for something that the engine lacks stands in flags_other.go, or, where it is about tables, filters
// and memtables, in flags_tables.go, with the reason that its error tells.
//
// A thread owns its generator and its statistics; the database, the crew and the reporter are shared.
package main
