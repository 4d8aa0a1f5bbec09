package main

import (
	"context"

	"github.com/ashlardb/ashlar"
)

// defaultBenchmarks is what runs without --benchmarks.
const defaultBenchmarks = "fillseq,fillsync,fillrandom,overwrite,readrandom,newiterator,seekrandom,readseq,readreverse," +
	"compactall,readrandom,seekrandom,readseq,readreverse,fill100K,crc32c,xxhash,xxhash64,xxh3,compress,uncompress"

// thousandth makes the key space a thousandth. The number of operations stays, as it does in db_bench.
func thousandth(w *work) { w.num = max(w.num/1000, 1) }

// benchmarks are all that there are.
var benchmarks = []benchmark{
	{name: "fillseq", fresh: true, run: fill(sequential), help: "write keys in order"},
	{name: "fillbatch", fresh: true, run: fill(sequential), help: "fillseq in batches of 1000",
		prepare: func(w *work) { w.batch = 1000 }},
	{name: "fillrandom", fresh: true, run: fill(random), help: "write random keys"},
	{name: "filluniquerandom", fresh: true, single: true, run: fill(unique), help: "write each key once, in a random order, in one thread"},
	{name: "fillsync", fresh: true, run: fill(random), help: "write random keys of num/1000, each write synced",
		prepare: func(w *work) { thousandth(w); w.write.Sync = true }},
	{name: "fill100K", fresh: true, run: fill(random), help: "write values of 100,000 bytes to random keys of num/1000",
		prepare: func(w *work) { thousandth(w); w.valueSize = 100_000 }},
	{name: "overwrite", run: fill(random), help: "write random keys into the database that is there"},
	{name: "updaterandom", run: updateWith(opUpdate, update), help: "read and write random keys"},
	{name: "xorupdaterandom", run: updateWith(opOther, xorUpdate), help: "read and write random keys, the new value being the old one XOR a random one"},
	{name: "appendrandom", run: updateWith(opUpdate, appendUpdate), help: "read and write random keys, the new value being the old one with more behind it"},
	{name: "mergerandom", fits: needsOperator, run: mergeRandom, help: "merge values into random keys of merge_keys"},
	{name: "randomreplacekeys", fresh: true, run: randomReplaceKeys, help: "delete the old key of a random id and write its new one"},
	{name: "randomtransaction", run: randomTransaction, after: (*bench).verifySums,
		help: "a get and a put for each of transaction_sets keys, in a batch or a transaction, which is verified"},
	{name: "timeseries", fresh: true, fits: seriesFits, run: timeSeries,
		help: "one thread writes values of ids as time goes by, the others read them by id"},
	{name: "deleteseq", run: deleteKeys(sequential), help: "delete keys in order"},
	{name: "deleterandom", run: deleteKeys(random), help: "delete random keys"},
	{name: "fillseekseq", oneFamily: true, run: fillSeekSeq, help: "write keys in order, then seek each",
		prepare: func(w *work) { w.writes = int64(w.num) }},

	{name: "readrandom", run: readRandom, help: "get random keys"},
	{name: "readmissing", run: readRandom, help: "get random keys that are a byte longer than those there are",
		prepare: func(w *work) { w.keySize++ }},
	{name: "multireadrandom", run: multiReadRandom, help: "get batch_size random keys at a time"},
	{name: "readrandomfast", run: readRandomFast, help: "get random keys, some of which are beyond those there are"},
	{name: "readrandomsmall", run: readRandom, help: "a thousandth of readrandom",
		prepare: func(w *work) { w.reads /= 1000 }},
	{name: "readseq", run: scan(true), help: "walk forward"},
	{name: "readreverse", run: scan(false), help: "walk backward"},
	{name: "readtocache", single: true, run: scan(true), help: "walk forward over num keys in one thread",
		prepare: func(w *work) { w.reads = int64(w.num) }},
	{name: "seekrandom", run: seekRandom, help: "make an iterator, seek a random key, take seek_nexts steps"},
	{name: "newiterator", run: newIterator, help: "make iterators"},
	{name: "readwhilewriting", extra: 1, run: beside(writeUntilDone, readRandom), help: "readrandom beside one more thread that writes"},
	{name: "readwhilemerging", extra: 1, fits: needsOperator, run: beside(mergeUntilDone, readRandom), help: "readrandom beside one more thread that merges"},
	{name: "readwhilescanning", extra: 1, run: beside(scanAgain, readRandom), help: "readrandom beside one more thread that walks"},
	{name: "seekrandomwhilewriting", extra: 1, run: beside(writeUntilDone, seekRandom), help: "seekrandom beside one more thread that writes"},
	{name: "seekrandomwhilemerging", extra: 1, fits: needsOperator, run: beside(mergeUntilDone, seekRandom), help: "seekrandom beside one more thread that merges"},
	{name: "newiteratorwhilewriting", extra: 1, run: beside(writeUntilDone, newIterator), help: "newiterator beside one more thread that writes"},
	{name: "multireadwhilewriting", extra: 1, run: beside(writeUntilDone, multiReadRandom), help: "multireadrandom beside one more thread that writes"},
	{name: "readrandomwriterandom", run: readRandomWriteRandom, help: "readwritepercent gets of random keys, then puts, in turns"},

	{name: "readrandommergerandom", fits: needsOperator, run: readRandomMergeRandom, help: "mergereadpercent merges into random keys of merge_keys, the others gets"},
	{name: "mixgraph", fits: mixFits, run: mixGraph, help: "gets, puts and seeks as a model of a social graph has it"},
	{name: "randomwithverify", fits: sharesOfHundred, run: randomWithVerify, help: "gets, puts and deletes of three keys at a time, which have to be alike"},

	{name: "acquireload", run: acquireLoad, help: "load an atomic pointer, a thousand times an operation"},
	{name: "crc32c", run: checksumOf(ashlar.CRC32cChecksum, opChecksum), help: "CRC-32C of block_size bytes"},
	{name: "xxhash", run: checksumOf(ashlar.XXHashChecksum, opHash), help: "XXH32 of block_size bytes"},
	{name: "xxhash64", run: checksumOf(ashlar.XXHash64, opHash), help: "XXH64 of block_size bytes"},
	{name: "xxh3", run: checksumOf(ashlar.XXH3, opHash), help: "XXH3 of block_size bytes"},
	{name: "compress", run: compressBlocks, help: "compress block_size bytes"},
	{name: "uncompress", run: uncompressBlocks, help: "reverse that"},

	{name: "compact", single: true, run: compact, help: "compact everything, the last level too, with a result line"},
	{name: "verifychecksum", single: true, run: func(t *thread) error { return t.db.VerifyChecksum(context.Background()) }, help: "read every table and verify its checksums"},
	{name: "applymix", action: (*bench).applyMix, help: "small writes beside a bulk load, through package raftapply; not one of db_bench's"},
	{name: "applyuniform", action: (*bench).applyUniform, help: "the same small writes everywhere; not one of db_bench's"},
	{name: "compactall", action: (*bench).compactAll, help: "compact everything"},
	{name: "flush", action: (*bench).flush, help: "flush the memtables"},
	{name: "waitforcompaction", action: (*bench).waitForCompaction, help: "wait until no flush and no compaction is due"},
	{name: "check", action: (*bench).check, help: "walk everything and find broken invariants; not one of db_bench's"},
	{name: "verify", action: (*bench).verify, help: "compare with the database truth_db"},
	{name: "stats", action: property("rocksdb.stats"), help: "print the property rocksdb.stats"},
	{name: "resetstats", action: func(b *bench) error { return b.db.ResetStats() }, help: "have stats count from zero"},
	{name: "levelstats", action: property("rocksdb.levelstats"), help: "print files and megabytes by level"},
	{name: "sstables", action: property("rocksdb.sstables"), help: "print the property rocksdb.sstables"},
	{name: "memstats", help: "print what memtables hold", action: property("rocksdb.num-immutable-mem-table",
		"rocksdb.cur-size-active-mem-table", "rocksdb.cur-size-all-mem-tables", "rocksdb.size-all-mem-tables",
		"rocksdb.num-entries-active-mem-table", "rocksdb.num-entries-imm-mem-tables")},
}

// unsupported are db_bench's other benchmarks, and what they would need.
var unsupported = map[string]string{
	"approximatememtablestats":      "there are no approximate sizes",
	"approximatesizerandom":         "there are no approximate sizes",
	"backup":                        "there are no backups",
	"block_cache_entry_stats":       "the cache does not know what its blocks are",
	"cache_report_problems":         "the cache has no report",
	"compact0":                      "files are not compacted by name",
	"compact1":                      "files are not compacted by name",
	"fillanddeleteuniquerandom":     "fills do not delete",
	"fillseqdeterministic":          "files are not compacted by name",
	"filluniquerandomdeterministic": "files are not compacted by name",
	"getmergeoperands":              "operands cannot be read",
	"heapprofile":                   "--memprofile writes a profile",
	"multiscan":                     "one iterator walks one range",
	"openandcompact":                "compactions run in their own process",
	"readrandomoperands":            "operands cannot be read",
	"readtorowcache":                "there is no row cache",
	"replay":                        "nothing is traced",
	"restore":                       "there are no backups",
	"stats_history":                 "the database keeps no history of its counters",
	"verifyfilechecksums":           "tables have no checksum of the whole file",
}
