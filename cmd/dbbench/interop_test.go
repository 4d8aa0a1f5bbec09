package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/vfs"
)

// These tests need RocksDB's tools, 7.8 or later.

// tool returns where a tool of RocksDB's is. Where there is none, it is a failure with CI set, and otherwise ok is false.
func tool(t *testing.T, name string) (path string, ok bool) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, true
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s of RocksDB is not installed", name)
	}
	t.Logf("%s of RocksDB is not installed; nothing was compared", name)
	return "", false
}

// dbBench runs db_bench.
func dbBench(t *testing.T, path string, args ...string) (stdout string) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := exec.Command(path, append(args, "--progress_reports=0")...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	require.NoError(t, cmd.Run(), errOut.String())
	return out.String()
}

func TestDatabasesHoldTheBytesThatDbBenchWrites(t *testing.T) {
	bench, ok := tool(t, "db_bench")
	ldb, ok2 := tool(t, "ldb")
	if !ok || !ok2 {
		return
	}
	for name, line := range map[string]string{
		"in order":  "--benchmarks=fillseq,deleteseq --deletes=100",
		"at random": "--benchmarks=fillrandom,overwrite,deleterandom,updaterandom,readrandomwriterandom",
		// Found counts of what is drawn with a skew and with bounds are compared too.
		"reads": "--benchmarks=fillrandom,readrandom,seekrandom,readmissing,multireadrandom,readseq,readreverse,fillseekseq " +
			"--read_random_exp_range=5 --seek_nexts=3 --max_scan_distance=5",
		"made of others":  "--benchmarks=xorupdaterandom,appendrandom,overwrite,xorupdaterandom,seekrandom --reverse_iterator --seek_nexts=2",
		"batches":         "--benchmarks=fillrandom --batch_size=7 --key_size=5 --value_size=33 --compression_ratio=0.23",
		"prefixes":        "--benchmarks=fillsync,overwrite --keys_per_prefix=10 --prefix_size=11 --key_size=30 --writes=50",
		"replacing":       "--benchmarks=randomreplacekeys --stddev=300",
		"transactions":    "--benchmarks=randomtransaction --transaction_sets=1",
		"column families": "--benchmarks=fillrandom,readrandom,readrandom --num_column_families=3",
	} {
		t.Run(name, func(t *testing.T) {
			args := append(strings.Fields(line), "--num=2000", "--seed=7")
			ours, theirs := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "db")
			stdout, _ := play(t, vfs.OS, append(args, "--db="+ours)...)
			require.Equal(t, results(dbBench(t, bench, append(args, "--db="+theirs)...)), results(stdout))
			families := []string{"default"}
			if strings.Contains(line, "num_column_families") {
				families = append(families, "column_family_name_000001", "column_family_name_000002")
			}
			for _, family := range families {
				scan := func(dir string) []string {
					out, err := exec.Command(ldb, "--db="+dir, "scan", "--hex", "--column_family="+family).Output()
					require.NoError(t, err)
					return strings.Split(string(out), "\n")
				}
				want := scan(theirs)
				require.Greater(t, len(want), 1)
				require.Equal(t, want, scan(ours))
			}
		})
	}
}

func TestDbBenchReadsOurDatabaseAndWeReadIts(t *testing.T) {
	bench, ok := tool(t, "db_bench")
	if !ok {
		return
	}
	ours, theirs := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "db")
	write := []string{"--benchmarks=fillrandom,compact,overwrite", "--num=3000", "--seed=3", "--writes=1500", "--bloom_bits=10"}
	play(t, vfs.OS, append(write, "--db="+ours)...)
	dbBench(t, bench, append(write, "--db="+theirs)...)
	read := []string{"--benchmarks=readrandom,readseq,seekrandom", "--num=3000", "--seed=4", "--use_existing_db=1"}
	want := results(dbBench(t, bench, append(read, "--db="+theirs)...))
	require.Regexp(t, `^readrandom 3000 MB/s \([1-9]\d+ of 3000 found\)$`, want[0])
	stdout, _ := play(t, vfs.OS, append(read, "--db="+ours)...)
	require.Equal(t, want, results(stdout), "we read ours")
	require.Equal(t, want, results(dbBench(t, bench, append(read, "--db="+ours)...)), "db_bench reads ours")
	stdout, _ = play(t, vfs.OS, append(read, "--db="+theirs)...)
	require.Equal(t, want, results(stdout), "we read its")
}

func TestOurFlagsAndBenchmarksAreDbBenchs(t *testing.T) {
	bench, ok := tool(t, "db_bench")
	if !ok {
		return
	}
	help, _ := exec.Command(bench, "--help").CombinedOutput() // it exits with 1
	for _, f := range newConfig().flags.flags {
		require.Equal(t, !f.own, regexp.MustCompile(`(?m)^    -`+f.name+` \(`).Match(help), f.name)
	}
}
