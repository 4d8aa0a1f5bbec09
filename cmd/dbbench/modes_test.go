package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/vfs"
)

func TestTransactionsKeepTheSumsAlikeInManyThreads(t *testing.T) {
	for _, line := range []string{
		"--optimistic_transaction_db", "--optimistic_transaction_db --transaction_set_snapshot --transaction_sleep=2",
		"--transaction_db", "--transaction_db --transaction_set_snapshot --transaction_sets=9",
	} {
		args := append(strings.Fields(line), "--benchmarks=randomtransaction[X2],check", "--threads=8", "--num=5", "--writes=100",
			"--db=db", "--seed=3", "--transaction_lock_timeout=0")
		stdout, _ := play(t, vfs.NewMem(), args...)
		require.Equal(t, 1, strings.Count(stdout, "\nRandomTransactionVerify Success.\n"), line)
		lines := results(stdout)
		require.Len(t, lines, 2)
		m := regexp.MustCompile(`^randomtransaction 800 MB/s \( transactions:100 aborts:(\d+)\)$`).FindStringSubmatch(lines[0])
		require.NotNil(t, m, lines[0])
	}
}

func TestConflictsCountAsAbortsAndAreNotTriedAgain(t *testing.T) {
	// A lock that another holds for good: every transaction that draws its key is aborted.
	fsys := vfs.NewMem()
	b, c := newBench(newConfig(), fsys, new(bytes.Buffer), new(bytes.Buffer)), newConfig()
	require.NoError(t, c.flags.parse([]string{"--transaction_db", "--num=1", "--transaction_sets=1", "--writes=30", "--db=db", "--transaction_lock_timeout=0"}))
	b.cfg, b.work, b.cache = c, c.work(), ashlar.NewCache(1<<20)
	require.NoError(t, b.open())
	holder := b.txns.Begin(nil)
	require.NoError(t, holder.Put(nil, []byte("00010"), []byte("5")))
	sum, err := b.runOnce(&benchmark{name: "randomtransaction", run: randomTransaction})
	require.NoError(t, err)
	require.Equal(t, "( transactions:30 aborts:30)", sum.message)
	require.NoError(t, holder.Rollback())
	sum, err = b.runOnce(&benchmark{name: "randomtransaction", run: randomTransaction})
	require.NoError(t, err)
	require.Equal(t, "( transactions:30 aborts:0)", sum.message)
	require.NoError(t, b.close())
}

func TestSumsThatDifferAreToldAndEndWithOne(t *testing.T) {
	fsys := vfs.NewMem()
	db, err := ashlar.Open("db", &ashlar.Options{FS: fsys})
	require.NoError(t, err)
	require.NoError(t, db.Put([]byte("0002x"), []byte("1"), nil)) // a key of set 1 that no transaction writes
	require.NoError(t, db.Close())
	var out, errOut bytes.Buffer
	code := run([]string{"--benchmarks=randomtransaction", "--use_existing_db", "--num=10", "--db=db", "--optimistic_transaction_db"}, fsys, &out, &errOut)
	require.Equal(t, 1, code)
	require.Contains(t, out.String(), "\nRandomTransactionVerify FAILED!!\n")
	require.Regexp(t, `inconsistent totals: Set\[0\]: \d+, Set\[1\]: \d+\n$`, errOut.String())
}

func TestEveryBenchmarkWritesThroughALockingDatabase(t *testing.T) {
	for _, b := range benchmarks {
		if b.action != nil {
			continue
		}
		stdout, _ := play(t, vfs.NewMem(), "--benchmarks=fillseq,"+b.name+",check", "--num=50", "--db=db", "--seed=1", "--transaction_db",
			"--merge_operator=max")
		require.GreaterOrEqual(t, len(results(stdout)), 2, b.name)
	}
}

func TestFillsGoThroughHotFamiliesInStages(t *testing.T) {
	fsys := vfs.NewMem()
	play(t, fsys, "--benchmarks=fillseq,flush", "--num=600", "--db=db", "--num_column_families=6", "--num_hot_column_families=2", "--threads=2")
	db, err := ashlar.Open("db", &ashlar.Options{FS: fsys})
	require.NoError(t, err)
	require.Len(t, db.ColumnFamilies(), 6)
	for i := range 6 {
		cf := db.DefaultColumnFamily()
		if i > 0 {
			var ok bool
			cf, ok = db.ColumnFamily(fmt.Sprintf("column_family_name_%06d", i))
			require.True(t, ok)
		}
		it := cf.NewIterator(nil)
		for key := range it.All() {
			require.Equal(t, uint64(i%2), binary.BigEndian.Uint64(key)%2)
		}
		require.True(t, it.SeekToFirst())
		require.NoError(t, it.Close())
	}
	require.NoError(t, db.Close())
}

func TestVerifyFindsEachKindOfDifference(t *testing.T) {
	fsys := vfs.NewMem()
	fill := func(dir string, pairs ...string) {
		db, err := ashlar.Open(dir, &ashlar.Options{FS: fsys})
		require.NoError(t, err)
		for _, p := range pairs {
			k, v, _ := strings.Cut(p, "=")
			require.NoError(t, db.Put([]byte(k), []byte(v), nil))
		}
		require.NoError(t, db.Close())
	}
	fill("truth", "a=1", "b=2")
	fill("same", "a=1", "b=2")
	fill("more", "a=1", "aa=1", "b=2")
	fill("last", "a=1", "b=2", "c=3")
	fill("less", "a=1")
	fill("other", "a=1", "b=3")
	for dir, want := range map[string]string{
		"same": "", "less": "verify: key 62 of truth: not found\n", "other": "verify: key 62 is 33, want 32\n",
		"more": "verify: key 6161 is 31, where truth has 62: 32\n", "last": "verify: key 63 is not in truth\n",
	} {
		var out, errOut bytes.Buffer
		code := run([]string{"--benchmarks=verify", "--use_existing_db", "--db=" + dir, "--truth_db=truth"}, fsys, &out, &errOut)
		if want == "" {
			require.Equal(t, 0, code, errOut.String())
			require.Contains(t, errOut.String(), "Verifying db >= truth_db with ::Get...\nVerifying db == truth_db...\n...Verified\n")
			continue
		}
		require.Equal(t, 1, code, dir)
		require.True(t, strings.HasSuffix(errOut.String(), want), "%s: %s", dir, errOut.String())
	}
}

func TestTriplesThatAreNotAlikeAreFound(t *testing.T) {
	for _, torn := range []string{"0", "1", "2"} {
		fsys := vfs.NewMem()
		db, err := ashlar.Open("db", &ashlar.Options{FS: fsys})
		require.NoError(t, err)
		c := newConfig()
		m := maker{keyMaker: c.keys(16, 1), key: make([]byte, 16)}
		require.NoError(t, db.Put(append(m.Key(0), torn...), nil, nil)) // an empty value, where the others have none
		require.NoError(t, db.Close())
		var out, errOut bytes.Buffer
		code := run([]string{"--benchmarks=randomwithverify", "--use_existing_db", "--numdistinct=1", "--num=10", "--db=db"}, fsys, &out, &errOut)
		require.Equal(t, 1, code)
		require.Contains(t, errOut.String(), "randomwithverify: inconsistent values for key 0000000000000000")
	}
}

// series returns how many entries of timeseries are in a database, and fails if one is older than oldest.
func series(t *testing.T, fsys vfs.FS, oldest uint64) (n int) {
	t.Helper()
	db, err := ashlar.Open("db", &ashlar.Options{FS: fsys})
	require.NoError(t, err)
	it := db.NewIterator(nil)
	for key := range it.All() {
		require.GreaterOrEqual(t, binary.BigEndian.Uint64(key[8:]), oldest)
		n++
	}
	require.NoError(t, it.Close())
	require.NoError(t, db.Close())
	return n
}

func TestOldEntriesOfASeriesAreDeletedByItsReaders(t *testing.T) {
	fsys := vfs.NewMem()
	stdout, _ := play(t, fsys, "--benchmarks=timeseries", "--num=500", "--key_id_range=3", "--db=db", "--seed=1")
	require.Contains(t, stdout, "timeseries write : ")
	require.Equal(t, 500, series(t, fsys, 0), "each at a time of its own")

	// A reader by itself, at a time when all but the last ten are too old.
	c := newConfig()
	require.NoError(t, c.flags.parse([]string{"--key_id_range=3", "--time_range=10", "--expire_style=delete", "--db=db", "--use_existing_db"}))
	b := newBench(c, fsys, new(bytes.Buffer), new(bytes.Buffer))
	b.work, b.cache = c.work(), ashlar.NewCache(1<<20)
	require.NoError(t, b.open())
	r := &thread{bench: b, crew: &crew{}, rand: newMersenne(1)}
	r.crew.ticks.Store(500)
	// It ends with the writer, which here is another that waits for the deletes.
	go func() {
		defer r.crew.done.Add(1)
		for b.db.LatestSequenceNumber() < 500+490 && !r.crew.failed.Load() {
			runtime.Gosched()
		}
	}()
	r.stats.Start(&observer{now: b.now}, 1)
	require.NoError(t, readSeries(r, true))
	require.NoError(t, b.close())
	require.Equal(t, 10, series(t, fsys, 490))
}

func TestRepeatedReadsOfOneSeedAreTheSame(t *testing.T) {
	found := func() string {
		stdout, _ := play(t, vfs.NewMem(), "--benchmarks=fillrandom,readrandommergerandom", "--num=300", "--db=db", "--seed=9",
			"--merge_operator=stringappend", "--merge_keys=20", "--value_size=10")
		return results(stdout)[1]
	}
	first := found()
	require.Equal(t, first, found())
	longest, err := strconv.Atoi(strings.TrimSuffix(first[strings.LastIndex(first, ":")+1:], ")"))
	require.NoError(t, err)
	require.Greater(t, longest, 10, "values grow")
}
