package main

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/ashlardb/ashlar/vfs"
	"github.com/stretchr/testify/require"
)

// number finds the first number behind a pattern.
func number(t *testing.T, out, pattern string) float64 {
	t.Helper()
	m := regexp.MustCompile(pattern + ` *([0-9.]+)`).FindStringSubmatch(out)
	require.NotNil(t, m, "%s in\n%s", pattern, out)
	n, err := strconv.ParseFloat(m[1], 64)
	require.NoError(t, err)
	return n
}

func TestApplyMixCountsWhatItDoes(t *testing.T) {
	out, _ := play(t, vfs.NewMem(), "--benchmarks=applymix", "--apply_duration=300ms", "--apply_pause=1ms", "--apply_small_rate=200",
		"--apply_bulk_regions=2", "--apply_pairs=1", "--apply_yield_write_size=16 KiB", "--seed=1")
	_, on, ok := regexpCut(out, `yield 16KiB`)
	require.True(t, ok, out)
	number(t, out, `yield off, 1 worker\(s\);`) // how much of it was done in time is up to the machine
	number(t, on, `worker\(s\);`)
	number(t, on, "bulk +:")
	require.Zero(t, number(t, out, "yields +: bytes"))
	require.Positive(t, number(t, on, "yields +: bytes"))
	require.Positive(t, number(t, on, "flushes +: keys"))
	require.Greater(t, number(t, on, "keys per flush"), 1.0)
	require.Contains(t, out, "medians of 1 pairs, yield off and 16KiB")
	require.Regexp(t, `small p99 ms +off +[0-9.]+ +on +[0-9.]+ +off/on`, out)
}

func TestApplyUniformCountsWhatItDoes(t *testing.T) {
	out, _ := play(t, vfs.NewMem(), "--benchmarks=applyuniform", "--apply_duration=200ms", "--apply_workers=2")
	number(t, out, `yield 32KiB, 2 worker\(s\);`)
	require.Positive(t, number(t, out, "turns +:"))
	require.NotContains(t, out, "bulk")
}

func TestApplyFlagsAreReadAsPeopleWriteThem(t *testing.T) {
	for flag, wrong := range map[string]string{
		"--apply_yield_write_size=many": "a size of", "--apply_duration=10": "duration", "--apply_workers=0": "want 1 or more",
		"--apply_small_rate=0": "want more than 0",
	} {
		err := newConfig().flags.parse([]string{flag})
		require.ErrorContains(t, err, wrong, flag)
	}
	c := newConfig()
	require.NoError(t, c.flags.parse([]string{"--apply_yield_write_size", "1.5MiB", "--apply_duration=2m"}))
	require.EqualValues(t, 3<<19, c.apply.yield)
	require.EqualValues(t, 120e9, c.apply.length)
}

// regexpCut cuts s around the first match.
func regexpCut(s, pattern string) (before, after string, found bool) {
	at := regexp.MustCompile(pattern).FindStringIndex(s)
	if at == nil {
		return s, "", false
	}
	return s[:at[0]], s[at[1]:], true
}
