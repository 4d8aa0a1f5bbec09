package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/vfs"
)

// statistic returns the number behind a name in the statistics.
func statistic(t *testing.T, stdout, name string) int {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (?:.* )?COUNT : (\d+)`).FindStringSubmatch(stdout)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	return n
}

func TestOldAndNewWakeUpRunInOneBinary(t *testing.T) {
	for _, wake := range []string{"one_by_one", "sqrt"} {
		for _, from := range []string{"2", "-1"} {
			stdout, _ := play(t, vfs.NewMem(), "--benchmarks=fillrandom,check", "--num=200", "--threads=64", "--db=db", "--seed=1",
				"--write_wake="+wake, "--write_spread_from="+from, "--statistics")
			require.Equal(t, 64*200, statistic(t, stdout, "rocksdb.number.keys.written"))
			require.Greater(t, statistic(t, stdout, "ashlar.write.wakes.leader"), 0)
			if wake == "one_by_one" {
				require.Zero(t, statistic(t, stdout, "ashlar.write.wakes.helper"))
			}
			if from == "2" {
				require.Greater(t, statistic(t, stdout, "ashlar.write.groups.spread"), 0)
			} else {
				require.Zero(t, statistic(t, stdout, "ashlar.write.groups.spread"))
			}
			require.NotContains(t, stdout, ".nanos ", "nothing is timed unless asked for")
		}
	}
}

func TestStepsOfWriteGroupsArePrintedOnDemandHoweverWritersWait(t *testing.T) {
	for _, yields := range []string{"-1", "0", "10"} {
		stdout, _ := play(t, vfs.NewMem(), "--benchmarks=fillrandom", "--num=200", "--threads=64", "--db=db", "--seed=1",
			"--write_spread_from=2", "--write_path_stats", "--write_yields="+yields)
		groups := statistic(t, stdout, "rocksdb.write.self")
		require.Equal(t, groups, statistic(t, stdout, "ashlar.write.alone.path.nanos")+statistic(t, stdout, "ashlar.write.spread.path.nanos"))
		require.Equal(t, statistic(t, stdout, "ashlar.write.groups.spread"), statistic(t, stdout, "ashlar.write.spread.skew.leader.nanos"))
		sizes := 0
		for _, line := range strings.Split(stdout, "\n") {
			if name, _, ok := strings.Cut(line, " COUNT"); ok && strings.HasPrefix(name, "ashlar.write.groups.of.") {
				sizes += statistic(t, stdout, name)
			}
		}
		require.Equal(t, groups, sizes)
	}
}
