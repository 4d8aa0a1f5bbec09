package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/vfs"
)

// play runs dbbench and returns what it prints. Unless args say otherwise, memtables are small. Checksums and compressions
// go through a megabyte.
func play(t *testing.T, fsys vfs.FS, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	c := newConfig()
	require.NoError(t, c.flags.parse(append([]string{"--write_buffer_size=1000000", "--cache_size=1000000"}, args...)))
	require.NoError(t, c.validate())
	tasks, err := parseTasks(c.benchmarks)
	require.NoError(t, err)
	require.NoError(t, fit(tasks, c))
	b := newBench(c, fsys, &out, &errOut)
	b.checksummed, b.compressed, b.loads = 1<<20, 1<<20, 10
	require.NoError(t, b.runAll(tasks), errOut.String())
	return out.String(), errOut.String()
}

var resultLine = regexp.MustCompile(`(?m)^(\S+) +: +[0-9]+\.[0-9]{3} micros/op \d+ ops/sec [0-9]+\.[0-9]{3} seconds (\d+) operations;(.*)$`)

// results returns name, operations and what follows of each result line, rates left out.
func results(stdout string) (lines []string) {
	rate := regexp.MustCompile(`^ +[0-9.]+ MB/s`)
	for _, m := range resultLine.FindAllStringSubmatch(stdout, -1) {
		lines = append(lines, fmt.Sprintf("%s %s%s", m[1], m[2], rate.ReplaceAllString(m[3], " MB/s")))
	}
	return lines
}

func TestEachBenchmarkRunsAndCounts(t *testing.T) {
	want := map[string]string{
		"fillseq":                 "400 MB/s",
		"fillbatch":               "1", // 200 operations fill no batch of 1000: nothing is counted
		"fillrandom":              "400 MB/s",
		"filluniquerandom":        "200 MB/s",
		"fillsync":                `400 MB/s \(1 ops\)`,
		"fill100K":                `400 MB/s \(1 ops\)`,
		"overwrite":               "400 MB/s",
		"updaterandom":            `400 MB/s \( updates:200 found:\d+\)`,
		"xorupdaterandom":         `400 \( updates:200 found:\d+\)`,
		"appendrandom":            `400 MB/s \( updates:200 found:\d+\)`,
		"randomreplacekeys":       `400 use single deletes: 1, standard deviation: 2000.000000`,
		"randomtransaction":       `400 MB/s \( batches:200 \)`,
		"mergerandom":             `400 MB/s \( updates:200\)`,
		"timeseries":              `\d+( MB/s)? \(\d+ of \d+ found\)`, // how far the reader gets is up to the scheduler
		"deleteseq":               "400",
		"deleterandom":            "400",
		"fillseekseq":             "600", // a seek, a step and a seek for two keys
		"readrandom":              `400 MB/s \(200 of 200 found\)`,
		"readmissing":             `400 \(0 of 200 found\)`,
		"multireadrandom":         `400 MB/s \(200 of 200 found\)`,
		"readseq":                 "400 MB/s",
		"readreverse":             "400 MB/s",
		"seekrandom":              `400 MB/s \(200 of 200 found\)`,
		"newiterator":             "400",
		"readwhilewriting":        `400 MB/s \(200 of 200 found\)`,
		"readwhilescanning":       `600 MB/s \(200 of 200 found\)`,
		"readwhilemerging":        `400 MB/s \(200 of 200 found\)`,
		"seekrandomwhilemerging":  `400 MB/s \(200 of 200 found\)`,
		"newiteratorwhilewriting": "400",
		"multireadwhilewriting":   `400 MB/s \(200 of 200 found\)`,
		"readrandomfast":          `600 \(\d+ of 300 found, issued \d+ non-exist keys\)`,
		"readrandomsmall":         `1 \(0 of 0 found\)`,
		"readtocache":             "200 MB/s",
		"readrandommergerandom":   `400 \(reads:\d+ merges:\d+ total:200 hits:\d+ maxlength:\d+\)`,
		"randomwithverify":        `400 \( get:180 put:16 del:4 total:200 found:\d+\)`,
		"mixgraph":                `400 MB/s \( Gets:200 Puts:0 Seek:0, reads 200 in 200 found, avg size: 0.0 value, 0.0 scan\)`,
		"acquireload":             `20 \(each op is 1000 loads\)`,
		"seekrandomwhilewriting":  `400 MB/s \(200 of 200 found\)`,
		"readrandomwriterandom":   `400 \( reads:180 writes:20 total:200 found:180\)`,
		"crc32c":                  `512 MB/s \(4096 per op\)`,
		"xxhash":                  `512 MB/s \(4096 per op\)`,
		"xxhash64":                `512 MB/s \(4096 per op\)`,
		"xxh3":                    `512 MB/s \(4096 per op\)`,
		"compress":                `512 MB/s \(output: [0-9.]+%\)`,
		"uncompress":              "512 MB/s",
		"compact":                 "1",
		"verifychecksum":          "1",
	}
	for _, b := range benchmarks {
		if b.name == "verify" {
			continue // it has a test of its own
		}
		t.Run(b.name, func(t *testing.T) {
			stdout, stderr := play(t, vfs.NewMem(), "--benchmarks=fillseq,"+b.name+",check", "--num=200", "--threads=2",
				"--db=db", "--seed=1", "--seek_nexts=1", "--merge_operator=stringappend")
			require.NotContains(t, stderr, "...")
			lines := results(strings.ReplaceAll(stdout, "timeseries write", "timeseries"))
			if b.name == "timeseries" {
				require.Equal(t, "timeseries 200 MB/s", lines[1])
				lines = append(lines[:1], lines[2:]...)
			}
			if b.action != nil {
				require.Len(t, lines, 1)
				return
			}
			require.Len(t, lines, 2)
			require.Regexp(t, "^"+b.name+" "+want[b.name]+"$", lines[1])
			require.Contains(t, want, b.name)
		})
	}
}

func TestActionsPrintWhatDbBenchPrints(t *testing.T) {
	stdout, _ := play(t, vfs.NewMem(), "--benchmarks=fillseq,flush,waitforcompaction,levelstats,stats,memstats,compactall",
		"--num=100", "--db=db")
	_, stdout, _ = strings.Cut(stdout, "flush memtable\n")
	waited, stdout, _ := strings.Cut(stdout, "\n\n")
	require.Equal(t, "waitforcompaction(db): started\nwaitforcompaction(db): finished", waited)
	require.Contains(t, stdout, "Level Files Size(MB)\n--------------------\n  0        1 ")
	require.Contains(t, stdout, "** Compaction Stats [default] **")
	require.Contains(t, stdout, "\nrocksdb.num-immutable-mem-table: 0\n")
}

func TestResetStatsHasStatsCountFromZero(t *testing.T) {
	stdout, _ := play(t, vfs.NewMem(), "--benchmarks=fillseq,flush,stats,resetstats,stats,overwrite,stats", "--num=100", "--db=db")
	var counts []string
	for _, m := range regexp.MustCompile(`Writes: (\d+), .*\nFlushes: (\d+)`).FindAllStringSubmatch(stdout, -1) {
		counts = append(counts, m[1]+" "+m[2])
	}
	require.Equal(t, []string{"100 1", "0 0", "100 0"}, counts)
}

func TestHeaderIsDbBenchs(t *testing.T) {
	stdout, stderr := play(t, vfs.NewMem(), "--benchmarks=newiterator", "--num=2000", "--db=db", "--seed=1", "--reads=1")
	header, _, _ := strings.Cut(stdout, "NOTE:")
	require.Equal(t, `Keys:       16 bytes each (+ 0 bytes user-defined timestamp)
Values:     100 bytes each (50 bytes after compression)
Entries:    2000
Prefix:    0 bytes
Keys per prefix:    0
RawSize:    0.2 MB (estimated)
FileSize:   0.1 MB (estimated)
Write rate: 0 bytes/second
Read rate: 0 ops/second
Compression: Snappy
Compression sampling rate: 0
Memtablerep: SkipListFactory
Perf Level: 1
`, header)
	require.Contains(t, stdout, "\n------------------------------------------------\nDB path: [db]\n")
	require.Contains(t, stderr, "Date: ")
	stdout, _ = play(t, vfs.NewMem(), "--benchmarks=", "--db=db", "--value_size_distribution_type=uniform")
	require.Contains(t, stdout, "Values:     51250 avg bytes each (25625 bytes after compression)\n"+
		"Values Distribution: uniform (min: 100, max: 102400)\n")
	require.Regexp(t, `^Set seed to \d+ because --seed was 0\n`, stdout)
}

func TestRepeatsAndWarmUpsRunOnTheSameDatabase(t *testing.T) {
	stdout, _ := play(t, vfs.NewMem(), "--benchmarks=fillrandom[W1-X3],readrandom[X2]", "--num=1000", "--db=db", "--seed=1")
	require.Regexp(t, `(?s)DB path: \[db\]
Warming up benchmark by running 1 times
fillrandom   : .*
Running benchmark for 3 times
fillrandom   : .*
fillrandom   : .*
fillrandom \[AVG 2 runs\] : .*
fillrandom   : .*
fillrandom \[AVG 3 runs\] : .*
fillrandom \[AVG    3 runs\] : \d+ \(± \d+\) ops/sec; \d+\.\d{3} ms/op; +[0-9.]+ \(± [0-9.]+\) MB/sec
fillrandom \[MEDIAN 3 runs\] : \d+ ops/sec; +[0-9.]+ MB/sec
DB path: \[db\]
Running benchmark for 2 times
`, stdout)
	// Four fills with seeds of their own leave 1000 × (1 − e⁻⁴) keys.
	var found int
	lines := results(stdout)
	_, err := fmt.Sscanf(lines[len(lines)-1], "readrandom 1000 MB/s (%d of 1000 found)", &found)
	require.NoError(t, err)
	require.InDelta(t, 982, found, 15)
}

func TestTasksAreParsed(t *testing.T) {
	for item, want := range map[string][2]int{
		"fillseq": {0, 1}, "fillseq[X3]": {0, 3}, "fillseq[W2]": {2, 1}, "fillseq[W2-X3]": {2, 3}, "fillseq[x5-w1]": {1, 5},
	} {
		task, err := parseTask(item)
		require.NoError(t, err, item)
		require.Equal(t, "fillseq", task.name)
		require.Equal(t, want, [2]int{task.warmups, task.repeats}, item)
	}
	for item, want := range map[string]string{
		"nosuch":       "unknown benchmark 'nosuch'",
		"backup":       "benchmark 'backup' is not supported: there are no backups",
		"fillseq[X3":   "benchmark 'fillseq[X3': ']' is missing",
		"fillseq[]":    "benchmark 'fillseq[]': '' is neither X and a number of repeats nor W and one of warm-ups",
		"fillseq[X0]":  "benchmark 'fillseq[X0]': 'X0' is neither X and a number of repeats nor W and one of warm-ups",
		"fillseq[X-1]": "benchmark 'fillseq[X-1]': 'X' is neither X and a number of repeats nor W and one of warm-ups",
		"fillseq[Z3]":  "benchmark 'fillseq[Z3]': 'Z3' is neither X and a number of repeats nor W and one of warm-ups",
		"flush[X3]":    "benchmark 'flush[X3]': only what has a result line can be repeated",
	} {
		_, err := parseTask(item)
		require.EqualError(t, err, want)
	}
	tasks, err := parseTasks(" fillseq , ,stats,")
	require.NoError(t, err)
	require.Len(t, tasks, 2)
	tasks, err = parseTasks(defaultBenchmarks)
	require.NoError(t, err)
	require.Len(t, tasks, 21)
}

func TestWrongCommandLineEndsWithOneBeforeAnythingIsDone(t *testing.T) {
	for line, want := range map[string]string{
		"--nosuch":                                         "ERROR: unknown command line flag 'nosuch'\n",
		"--benchmarks=fillseq,nosuch,replay":               "unknown benchmark 'nosuch'\nbenchmark 'replay' is not supported: nothing is traced\n",
		"--benchmarks=fillseq --sync --disable_wal":        "sync needs a log, and disable_wal is set\n",
		"--benchmarks=fillseekseq --num_column_families=2": "benchmark 'fillseekseq' works with one column family only\n",
		"--benchmarks=fillseq,mergerandom":                 "benchmark 'mergerandom' needs --merge_operator\n",
		"--benchmarks=timeseries --key_size=15":            "benchmark 'timeseries' wants keys of 16 bytes or more, without prefixes\n",
		"--benchmarks=randomwithverify --deletepercent=11": "benchmark 'randomwithverify' wants readwritepercent and deletepercent of 100 together at most\n",
		"--benchmarks=fillseq --use_hash_search":           "ERROR: --use_hash_search=true is not supported: indexes have no hash, and their keys are as short as can be\n",
	} {
		fsys := vfs.NewMem()
		var out, errOut bytes.Buffer
		code := run(append(strings.Fields(line), "--db=db"), fsys, &out, &errOut)
		require.Equal(t, 1, code, line)
		require.Equal(t, want, errOut.String(), line)
		require.Empty(t, out.String(), line)
		_, err := fsys.Stat("db")
		require.ErrorIs(t, err, os.ErrNotExist, line)
	}
}

func TestHelpIsNoError(t *testing.T) {
	var out, errOut bytes.Buffer
	require.Equal(t, 0, run([]string{"--help"}, vfs.NewMem(), &out, &errOut))
	require.Empty(t, errOut.String())
	require.Contains(t, out.String(), "--multiread_batched (there is one MultiGet) type: bool default: false")
}

func TestFreshBenchmarksAreSkippedOnAnExistingDatabase(t *testing.T) {
	fsys := vfs.NewMem()
	play(t, fsys, "--benchmarks=fillseq", "--num=100", "--db=db")
	stdout, _ := play(t, fsys, "--benchmarks=fillrandom,randomreplacekeys,readrandom", "--num=100", "--db=db", "--use_existing_db")
	require.Contains(t, stdout, "fillrandom   : skipped (--use_existing_db is true)\n")
	require.Contains(t, stdout, "randomreplacekeys : skipped (--use_existing_db is true)\n")
	require.Equal(t, []string{"readrandom 100 MB/s (100 of 100 found)"}, results(stdout))
	// Without the flag the database is destroyed first thing.
	stdout, _ = play(t, fsys, "--benchmarks=readrandom", "--num=100", "--db=db")
	require.Equal(t, []string{"readrandom 100 (0 of 100 found)"}, results(stdout))
}

func TestDestroyLeavesWhatIsNotADatabases(t *testing.T) {
	fsys := vfs.NewMem()
	play(t, fsys, "--benchmarks=fillseq", "--num=100", "--db=db", "--wal_dir=wal")
	for _, name := range []string{"db/notes.txt", "wal/notes.txt"} {
		f, err := fsys.Create(name)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	require.NoError(t, destroy(fsys, "db", "wal"))
	for _, dir := range []string{"db", "wal"} {
		names, err := fsys.List(dir)
		require.NoError(t, err)
		require.Equal(t, []string{"notes.txt"}, names)
	}
	require.NoError(t, destroy(fsys, "db", "wal"))
	require.NoError(t, destroy(fsys, "nosuch", ""))
}

func TestDestroyRefusesAnOpenDatabase(t *testing.T) {
	fsys := vfs.NewMem()
	db, err := ashlar.Open("db", &ashlar.Options{FS: fsys})
	require.NoError(t, err)
	require.NoError(t, db.Put([]byte("a"), []byte("b"), nil))
	require.ErrorIs(t, destroy(fsys, "db", ""), ashlar.ErrLocked)
	var out, errOut bytes.Buffer
	require.Equal(t, 1, run([]string{"--db=db", "--benchmarks=fillseq", "--num=10"}, fsys, &out, &errOut))
	require.Contains(t, errOut.String(), "destroy db: ")
	require.NoError(t, db.Flush(context.Background(), nil))
	v, err := db.Get([]byte("a"), nil)
	require.NoError(t, err)
	require.Equal(t, "b", string(v))
	require.NoError(t, db.Close())
}

func TestKeysAreInTheFamilyOfTheirNumber(t *testing.T) {
	fsys := vfs.NewMem()
	stdout, _ := play(t, fsys, "--benchmarks=fillseq,readrandom,flush", "--num=300", "--db=db", "--num_column_families=3")
	require.Equal(t, "readrandom 300 MB/s (300 of 300 found)", results(stdout)[1])
	db, err := ashlar.Open("db", &ashlar.Options{FS: fsys})
	require.NoError(t, err)
	for i, name := range []string{"default", "column_family_name_000001", "column_family_name_000002"} {
		cf, ok := db.ColumnFamily(name)
		require.True(t, ok, name)
		it := cf.NewIterator(nil)
		n := 0
		for k := range it.All() {
			require.Equal(t, i, (int(k[6])<<8|int(k[7]))%3)
			n++
		}
		require.NoError(t, it.Close())
		require.Equal(t, 100, n)
	}
	require.NoError(t, db.Close())
	stdout, _ = play(t, fsys, "--benchmarks=readrandom", "--num=300", "--db=db", "--num_column_families=3", "--use_existing_db")
	require.Equal(t, "readrandom 300 MB/s (300 of 300 found)", results(stdout)[0])
}

func TestStatisticsSumOverDatabases(t *testing.T) {
	stdout, _ := play(t, vfs.NewMem(), "--benchmarks=fillseq,fillrandom,overwrite,flush", "--num=100", "--batch_size=10", "--db=db",
		"--statistics", "--histogram")
	require.Contains(t, stdout, "\nSTATISTICS:\n")
	require.Contains(t, stdout, "\nrocksdb.number.keys.written COUNT : 300\n")
	require.Contains(t, stdout, "\nrocksdb.write.self COUNT : 30\n")
	require.Contains(t, stdout, "\nrocksdb.db.write.micros P50 : ")
	require.Equal(t, 3, strings.Count(stdout, "Microseconds per write:\nCount: 10 "))
	stdout, _ = play(t, vfs.NewMem(), "--benchmarks=fillseq", "--num=100", "--db=db", "--statistics", "--stats_level=1")
	require.Equal(t, 1, strings.Count(stdout, "\nrocksdb.number.keys.written COUNT : 100\n"))
	require.NotContains(t, stdout, "rocksdb.db.write.micros P50 : ")
}

func TestDurationEndsRandomBenchmarksAndNotSequentialOnes(t *testing.T) {
	stdout, _ := play(t, vfs.NewMem(), "--benchmarks=fillseq,newiterator", "--num=50", "--db=db", "--duration=1",
		"--ops_between_duration_checks=10")
	lines := results(stdout)
	require.Equal(t, "fillseq 50 MB/s", lines[0])
	var n int
	_, err := fmt.Sscanf(lines[1], "newiterator %d", &n)
	require.NoError(t, err)
	require.Greater(t, n, 50)
}

func TestWritesBoundSyncedFills(t *testing.T) {
	stdout, _ := play(t, vfs.NewMem(), "--benchmarks=fillsync", "--num=5000", "--writes=20", "--db=db")
	require.Equal(t, []string{"fillsync 20 MB/s (5 ops)"}, results(stdout))
}

func TestReportFileAndProfilesAreWritten(t *testing.T) {
	dir := t.TempDir()
	csv, cpu, mem := filepath.Join(dir, "r.csv"), filepath.Join(dir, "cpu"), filepath.Join(dir, "mem")
	var out, errOut bytes.Buffer
	code := run([]string{"--benchmarks=fillseq", "--num=100", "--db=db", "--report_interval_seconds=1", "--report_file", csv,
		"--cpuprofile", cpu, "--memprofile", mem, "--stats_interval=50", "--stats_per_interval=1"}, vfs.NewMem(), &out, &errOut)
	require.Equal(t, 0, code, errOut.String())
	b, err := os.ReadFile(csv)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(b), "secs_elapsed,interval_qps\n"))
	for _, name := range []string{cpu, mem} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.NotZero(t, info.Size())
	}
	require.Equal(t, 2, strings.Count(errOut.String(), "  ... thread 0: ("))
	require.Contains(t, errOut.String(), "** DB Stats **")
}

func TestErrorOfAThreadEndsTheRun(t *testing.T) {
	fsys := vfs.NewMem()
	db, err := ashlar.Open("db", &ashlar.Options{FS: fsys})
	require.NoError(t, err)
	require.NoError(t, db.Put([]byte("00010"), []byte("not a number"), nil))
	require.NoError(t, db.Close())
	var out, errOut bytes.Buffer
	code := run([]string{"--benchmarks=randomtransaction,readrandom", "--use_existing_db", "--num=1", "--writes=1000000000",
		"--threads=2", "--db=db", "--transaction_sets=1"}, fsys, &out, &errOut)
	require.Equal(t, 1, code)
	require.Contains(t, errOut.String(), `randomtransaction: value of "00010": `)
	require.Empty(t, results(out.String()))
}

func TestReportFileThatCannotBeMadeIsAnError(t *testing.T) {
	var out, errOut bytes.Buffer
	code := run([]string{"--benchmarks=fillrandom,readrandom", "--num=100", "--threads=2", "--db=db", "--report_interval_seconds=1",
		"--report_file", filepath.Join(t.TempDir(), "no", "such")}, vfs.NewMem(), &out, &errOut)
	require.Equal(t, 1, code)
	require.Contains(t, errOut.String(), "fillrandom: ")
	require.Empty(t, results(out.String()))
}
