package main

import (
	"bytes"
	"fmt"
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
	const mix = "--mix_get_ratio=0.5 --mix_put_ratio=0.3 --mix_seek_ratio=0.2"
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
		"hot families":    "--benchmarks=fillrandom,readrandom --num_column_families=6 --num_hot_column_families=2",
		"locked": "--benchmarks=fillrandom,randomtransaction,deleterandom,randomtransaction --transaction_db --transaction_sets=1 " +
			"--transaction_set_snapshot --num=300",
		"merges": "--benchmarks=fillrandom,mergerandom,readrandommergerandom,compact --merge_operator=stringappend --merge_keys=300",
		"ranges": "--benchmarks=fillrandom,overwrite,readrandom --writes_per_range_tombstone=100 --max_num_range_tombstones=7 " +
			"--range_tombstone_width=30 --writes_before_delete_range=150",
		"ranges, key by key": "--benchmarks=fillseq,overwrite --writes_per_range_tombstone=100 --max_num_range_tombstones=7 " +
			"--expand_range_tombstones --batch_size=3",
		"triples":         "--benchmarks=randomwithverify,randomwithverify --numdistinct=50 --readwritepercent=30 --deletepercent=20",
		"series":          "--benchmarks=timeseries --key_id_range=70 --key_size=20",
		"mixed":           "--benchmarks=fillrandom,mixgraph " + mix,
		"mixed, hot keys": "--benchmarks=fillrandom,mixgraph --key_dist_a=0.002312 --key_dist_b=0.3467 " + mix,
		"mixed, hot ranges": "--benchmarks=fillrandom,mixgraph --key_dist_a=0.002312 --key_dist_b=0.3467 --keyrange_dist_a=14.18 " +
			"--keyrange_dist_b=-2.917 --keyrange_dist_c=0.0164 --keyrange_dist_d=-0.08082 --keyrange_num=30 " + mix,
		"strides": "--benchmarks=fillrandom,readrandom,multireadrandom,readrandomfast,readrandomsmall,readtocache " +
			"--multiread_stride=3 --batch_size=4",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"--num=1000", "--seed=7"}, strings.Fields(line)...)
			ours, theirs := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "db")
			stdout, _ := play(t, vfs.OS, append(args, "--db="+ours)...)
			wanted := dbBench(t, bench, append(args, "--db="+theirs)...)
			if name != "series" { // where db_bench divides by zero
				require.Equal(t, results(wanted), results(stdout))
			}
			for _, line := range []string{"Number of range deletions", "RandomTransactionVerify Success."} {
				require.Equal(t, strings.Count(wanted, line), strings.Count(stdout, line))
			}
			families := []string{"default"}
			if _, n, ok := strings.Cut(line, "num_column_families="); ok {
				for i := 1; i < int(n[0]-'0'); i++ {
					families = append(families, fmt.Sprintf("column_family_name_%06d", i))
				}
			}
			for _, family := range families {
				scan := func(dir string) []string {
					out, err := exec.Command(ldb, "--db="+dir, "scan", "--hex", "--column_family="+family).Output()
					require.NoError(t, err)
					// db_bench's transactions write this key at their commits, for what can be done then.
					return strings.Split(strings.Replace(string(out), "0x636174 : 0x646F67\n", "", 1), "\n")
				}
				want := scan(theirs)
				require.Greater(t, len(want), 1)
				require.Equal(t, want, scan(ours))
			}
		})
	}
}

func TestMergeOperatorsMakeWhatRocksDBsMake(t *testing.T) {
	bench, ok := tool(t, "db_bench")
	ldb, ok2 := tool(t, "ldb")
	if !ok || !ok2 {
		return
	}
	for _, name := range []string{"put", "uint64add", "stringappendtest", "max", "bytesxor"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"--benchmarks=fillrandom,mergerandom,mergerandom,compact", "--num=300", "--seed=5", "--value_size=8", "--merge_operator=" + name}
			ours, theirs := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "db")
			play(t, vfs.OS, append(args, "--db="+ours)...)
			dbBench(t, bench, append(args, "--db="+theirs)...)
			scan := func(dir string) string {
				out, err := exec.Command(ldb, "--db="+dir, "scan", "--hex").Output()
				require.NoError(t, err)
				return string(out)
			}
			want := scan(theirs)
			require.Greater(t, len(want), 100*len("0x : 0x\n"))
			require.Equal(t, want, scan(ours))
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
	_, part, _ := strings.Cut(string(help), "/db_bench_tool.cc:")
	part, _, _ = strings.Cut(part, "Flags from ")
	// Flags of RocksDB 7.8 whose defaults are others in 11.9 or here.
	others := map[string]bool{
		"benchmarks": true, "db": true, "cache_size": true, "cache_type": true, "checksum_type": true, "compression_level": true,
		"enable_pipelined_write": true, "level_compaction_dynamic_level_bytes": true, "perf_level": true, "bloom_bits": true,
		"transaction_sets": true, "subcompactions": true, "slow_usecs": true, "seed": true, "write_buffer_size": true,
		"transaction_lock_timeout": true, "target_file_size_base": true,
	}
	described := regexp.MustCompile(`(?ms)^    -(\w+) \(.*?\)\s+type: (\w+)\s+default: (\S+)$`).FindAllStringSubmatch(part, -1)
	require.Greater(t, len(described), 300)
	for _, m := range described {
		f := newConfig().flags.byName[m[1]]
		require.NotNil(t, f, "flag %s of db_bench is not known", m[1])
		if !others[m[1]] {
			want, err := f.parse(strings.Trim(m[3], `"`))
			require.NoError(t, err, m[1])
			def, err := f.parse(f.def)
			require.NoError(t, err)
			require.Equal(t, want, def, m[1])
		}
	}
}
