package ashlar

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/fname"
)

// Tests with a second process: this binary, run again with ASHLAR_CHILD saying what it is to do.

// TestInASecondProcess is no test but what the other process does.
func TestInASecondProcess(t *testing.T) {
	dir := os.Getenv("ASHLAR_DIR")
	switch os.Getenv("ASHLAR_CHILD") {
	case "write":
		seed, _ := strconv.ParseUint(os.Getenv("ASHLAR_SEED"), 10, 64)
		round, _ := strconv.Atoi(os.Getenv("ASHLAR_ROUND"))
		fmt.Fprintln(os.Stdout, "failed:", writeUntilKilled(dir, seed, round))
	case "read":
		db, err := Open(dir, killOptions())
		for n := 0; err == nil; n++ {
			_, err = contentOf(db.family)
			fmt.Println("read", n)
		}
		fmt.Println("failed:", err)
	case "open":
		_, err := Open(dir, killOptions())
		fmt.Println("locked:", errors.Is(err, ErrLocked), "error:", err)
	}
}

// child starts this binary again. The process is killed at the end of the test, if it still runs.
func child(t *testing.T, what, dir string, env ...string) (cmd *exec.Cmd, out *bufio.Scanner) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "-test.run=^TestInASecondProcess$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), append(env, "ASHLAR_CHILD="+what, "ASHLAR_DIR="+dir)...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, bufio.NewScanner(pipe)
}

func killOptions() *Options {
	o := memOptions(nil)
	o.FS = nil
	o.WALMapped = MappedWALOff
	if os.Getenv("ASHLAR_MAPPED") != "" {
		o.WALMapped = MappedWALOn
	}
	round, _ := strconv.Atoi(os.Getenv("ASHLAR_ROUND"))
	o.EnablePipelinedWrite = round%2 == 1
	return o
}

const killWriters = 4

// killDeed makes the n-th deed of a writer in a round. Both processes make the same ones.
func killDeed(seed uint64, round, writer, n int, families []uint32) *deed {
	rng := rand.New(rand.NewPCG(seed+uint64(round)<<32, uint64(writer)<<32+uint64(n)))
	d := &deed{id: (round*killWriters+writer)*100_000 + n, writer: writer, edits: randomEdits(rng, writer, false, families, 2000), began: 2}
	for i := range d.edits {
		d.edits[i].value = fmt.Sprintf("%06d %s", d.id, d.edits[i].value)
	}
	return d
}

// writeUntilKilled writes from several goroutines, and says on standard output what has returned: "writer n".
func writeUntilKilled(dir string, seed uint64, round int) error {
	db, err := Open(dir, killOptions())
	if err != nil {
		return err
	}
	var ids []uint32
	for _, cf := range db.ColumnFamilies() {
		ids = append(ids, cf.ID())
	}
	failed := make(chan error)
	var out sync.Mutex
	for w := range killWriters {
		go func() {
			for n := 0; ; n++ {
				d := killDeed(seed, round, w, n, ids)
				b, err := d.batch(db)
				if err == nil {
					err = db.Write(b, &WriteOptions{Sync: n%50 == 49})
				}
				if err == nil && w == 0 && n%200 == 99 {
					err = db.Flush(context.Background(), nil)
				}
				if err == nil && w == 1 && n%300 == 150 {
					err = db.CompactRange(context.Background(), nil, nil, nil)
				}
				if err != nil {
					failed <- err
					return
				}
				out.Lock()
				_, err = fmt.Printf("%d %d\n", w, n)
				out.Unlock()
				if err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return <-failed
}

func TestAKilledProcessLosesNoWriteThatReturned(t *testing.T) { killAndReopen(t) }

// The same with a mapped log. What it leaves is opened in every mode, and by RocksDB.
func TestAKilledProcessLosesNothingOfAMappedLog(t *testing.T) {
	t.Setenv("ASHLAR_MAPPED", "1")
	killAndReopen(t)
}

func killAndReopen(t *testing.T) {
	mapped := os.Getenv("ASHLAR_MAPPED") != ""
	rounds := 3
	if longRun() {
		rounds = 100
	}
	seed := newSeed()
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	story := newChronicle()
	db, err := Open(dir, killOptions())
	require.NoError(t, err)
	require.NoError(t, story.create(db, "one"))
	require.NoError(t, story.create(db, "two"))
	require.NoError(t, db.Close())
	writes := 0
	for round := range rounds {
		where := fmt.Sprintf("seed %d, round %d", seed, round)
		cmd, out := child(t, "write", dir, "ASHLAR_SEED="+fmt.Sprint(seed), "ASHLAR_ROUND="+fmt.Sprint(round))
		limit := 1 + rng.IntN(2000)
		returned := make([]int, killWriters) // of each writer, how many
		for n := 0; out.Scan(); n++ {
			var w, i int
			_, err := fmt.Sscanf(out.Text(), "%d %d", &w, &i)
			require.NoError(t, err, "%s: %s", where, out.Text())
			require.Equal(t, returned[w], i, where)
			returned[w]++
			if n == limit {
				time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
				require.NoError(t, cmd.Process.Kill())
			}
		}
		require.ErrorContains(t, cmd.Wait(), "killed", where)

		ids := []uint32{0, 1, 2}
		for w, count := range returned {
			writes += count
			for n := range count + 1 { // the last was under way
				d := killDeed(seed, round, w, n, ids)
				if n < count {
					d.acked = 3
				}
				story.deeds = append(story.deeds, d)
			}
		}
		if mapped {
			openCopies(t, dir, where, story)
		}
		db, err := Open(dir, killOptions())
		require.NoError(t, err, where)
		story, err = story.judge(db, 10, 10, true)
		require.NoError(t, err, where)
		require.NoError(t, db.Close(), where)
		story.clock = 10
	}
	t.Logf("%d rounds, %d writes had returned, seed %d", rounds, writes, seed)
}

// openCopies opens copies of what a killed process left.
func openCopies(t *testing.T, dir, where string, story *chronicle) {
	t.Helper()
	var content pairs
	for _, mode := range []WALRecoveryMode{TolerateCorruptedTailRecords, AbsoluteConsistency, PointInTimeRecovery, SkipAnyCorruptedRecords} {
		o := killOptions()
		o.WALRecoveryMode = mode
		to := t.TempDir()
		copyDir(t, dir, to)
		db, err := Open(to, o)
		require.NoError(t, err, "%s, %v", where, mode)
		_, err = story.judge(db, 10, 10, true)
		require.NoError(t, err, "%s, %v", where, mode)
		content = readForward(t, db.family)
		require.NoError(t, db.Close())
	}
	if needTools(t) {
		to := t.TempDir()
		copyDir(t, dir, to)
		for _, log := range filesOf(t, to, fname.Log) {
			dump := strings.ToLower(tool(t, "ldb", "dump_wal", "--walfile="+log, "--header"))
			if before, last, torn := strings.Cut(dump, "corruption detected"); torn {
				// Of a write that was under way the first header may be missing, and the rest be there.
				require.Contains(t, last, "missing start of fragmented record", where)
				require.NotContains(t, before, "corrupt", where)
			}
		}
		require.Equal(t, content, ldbScan(t, to, DefaultColumnFamilyName), where)
	}
}

// A record that spans blocks is in a mapped log with all but its first header when the process is killed just then. To
// RocksDB that is the end of the log, and to us in each mode.
func TestARecordWithoutItsFirstHeaderEndsAMappedLog(t *testing.T) {
	dir := t.TempDir()
	o := killOptions()
	o.WALMapped = MappedWALOn
	db, err := Open(dir, o)
	require.NoError(t, err)
	defer db.Close()
	mustPut(t, db.family, "small", "v", nil)
	want := readForward(t, db.family)
	start := db.wals.TotalSize()
	mustPut(t, db.family, "large", strings.Repeat("v", 40<<10), nil)

	killed := func() string {
		to := t.TempDir()
		copyDir(t, dir, to)
		logs := filesOf(t, to, fname.Log)
		f, err := os.OpenFile(logs[len(logs)-1], os.O_RDWR, 0)
		require.NoError(t, err)
		defer f.Close()
		var header [8]byte
		_, err = f.ReadAt(header[:], int64(start))
		require.NoError(t, err)
		require.EqualValues(t, 2, header[6], "the first fragment of several")
		_, err = f.WriteAt(make([]byte, 8), int64(start))
		require.NoError(t, err)
		return to
	}
	for _, mode := range []WALRecoveryMode{TolerateCorruptedTailRecords, AbsoluteConsistency, PointInTimeRecovery, SkipAnyCorruptedRecords} {
		o := killOptions()
		o.WALRecoveryMode = mode
		db, err := Open(killed(), o)
		require.NoError(t, err, "%v", mode)
		require.Equal(t, want, readForward(t, db.family), "%v", mode)
		require.NoError(t, db.Close())
	}
	if needTools(t) {
		require.Equal(t, want, ldbScan(t, killed(), DefaultColumnFamilyName))
	}
}

// cockroachdb and badger have had databases that a killed reader left in need of repair (bug bank 106).
func TestBugBank106AKilledReaderDoesNoHarm(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, killOptions())
	require.NoError(t, err)
	for i := range 200 {
		mustPut(t, db.family, fmt.Sprintf("key%03d", i), strings.Repeat("v", 500), nil)
	}
	want, err := contentOf(db.family)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	for range 2 {
		cmd, out := child(t, "read", dir)
		for out.Scan() && out.Text() != "read 3" {
			require.NotContains(t, out.Text(), "failed")
		}
		require.NoError(t, cmd.Process.Kill())
		cmd.Wait()
		db, err := Open(dir, &Options{WALRecoveryMode: AbsoluteConsistency})
		require.NoError(t, err)
		got, err := contentOf(db.family)
		require.NoError(t, err)
		require.Equal(t, want, got)
		checkClean(t, db)
		require.NoError(t, db.Close())
	}
}

// The lock holds against another process, and against this one; closing what could not be had does not let go of it
// (bug bank 139, 140, 142).
func TestBugBank139ADatabaseIsOpenOnce(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, nil)
	require.NoError(t, err)
	open := openFiles(t)
	for range 3 {
		second, err := Open(dir, nil)
		require.ErrorIs(t, err, ErrLocked)
		require.Nil(t, second)
	}
	require.Equal(t, open, openFiles(t), "what a refused Open opened is closed")
	_, out := child(t, "open", dir)
	require.True(t, out.Scan())
	require.Contains(t, out.Text(), "locked: true")
	mustPut(t, db.family, "k", "v", Sync)
	require.NoError(t, db.Close())
	_, out = child(t, "open", dir)
	require.True(t, out.Scan())
	require.Contains(t, out.Text(), "locked: false error: <nil>")
}

// openFiles counts this process's open files that are in a directory of a test.
func openFiles(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0 // not Linux
	}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, os.TempDir()) {
			n++
		}
	}
	return n
}
