package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fake stands for dbbench: it remembers its command lines, and whether a directory was there and empty.
type fake struct {
	lines []string
	dirs  map[string]int // runs in each
	fresh bool
	ops   func(args []string) int
}

func (f *fake) start(_ string, args []string) (string, error) {
	f.lines = append(f.lines, strings.Join(args, " "))
	dir := value(args, "db")
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		f.fresh = false
	}
	f.dirs[dir]++
	return fmt.Sprintf("DB path: [x]\n%-12s :       1.000 micros/op %d ops/sec 3.000 seconds 9 operations;\n"+
		"STATISTICS:\nrocksdb.write.self COUNT : 10\nrocksdb.write.other COUNT : 30\nashlar.write.wakes.leader COUNT : 25\n",
		value(args, "benchmarks"), f.ops(args)), nil
}

// value is that of a flag, the last if it is given twice.
func value(args []string, name string) (v string) {
	for _, a := range args {
		if s, ok := strings.CutPrefix(a, "--"+name+"="); ok {
			v = s
		}
	}
	return v
}

func newFake(ops func(args []string) int) *fake {
	return &fake{dirs: map[string]int{}, fresh: true, ops: ops}
}

func TestWaysOfACellTakeTurnsAndEachRunHasADirectoryOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	f := newFake(func([]string) int { return 1000 })
	var out strings.Builder
	require.NoError(t, run([]string{"-rows=fillrandom,overwrite", "-threads=1,8", "-rounds=2", "-dir", dir, "--", "--sync"}, &out, io.Discard, f.start))
	var order []string
	for _, l := range f.lines {
		args := strings.Fields(l)
		if way := value(args, "write_wake"); way != "" {
			order = append(order, value(args, "benchmarks")+" "+value(args, "threads")+" "+way)
			require.Equal(t, "--sync", args[len(args)-1])
			require.Contains(t, args, "--statistics")
		} else {
			require.NotContains(t, l, "--sync", "filling is not measured")
		}
	}
	require.Equal(t, []string{
		"fillrandom 1 one_by_one", "fillrandom 1 sqrt", "fillrandom 8 one_by_one", "fillrandom 8 sqrt",
		"overwrite 1 one_by_one", "overwrite 1 sqrt", "overwrite 8 one_by_one", "overwrite 8 sqrt",
		"fillrandom 1 sqrt", "fillrandom 1 one_by_one", "fillrandom 8 sqrt", "fillrandom 8 one_by_one",
		"overwrite 1 sqrt", "overwrite 1 one_by_one", "overwrite 8 sqrt", "overwrite 8 one_by_one",
	}, order)
	require.True(t, f.fresh)
	require.Len(t, f.dirs, 16)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestRowsThatReadBeginOnAFilledDatabase(t *testing.T) {
	for _, row := range allRows {
		f := newFake(func([]string) int { return 1 })
		require.NoError(t, run([]string{"-rows=" + row.name, "-threads=4", "-rounds=1", "-dir", t.TempDir()}, io.Discard, io.Discard, f.start))
		filled := slices.Contains([]string{"overwrite", "updaterandom", "xorupdaterandom"}, row.name)
		if !filled {
			require.Len(t, f.lines, 2)
			require.NotContains(t, f.lines[0], "use_existing_db")
			continue
		}
		require.Len(t, f.lines, 4)
		require.Contains(t, f.lines[0], "--benchmarks=fillseq")
		require.Contains(t, f.lines[1], "--use_existing_db")
		require.Equal(t, value(strings.Fields(f.lines[0]), "db"), value(strings.Fields(f.lines[1]), "db"))
	}
}

func TestWorkIsBoundedByTimeOrByOperations(t *testing.T) {
	s := &settings{num: 5000, writes: 800, duration: 2 * time.Second}
	line := func(row string) []string { return s.line(cell{row, 8, 0}, 0, "db") }
	require.Equal(t, "2", value(line("fillrandom"), "duration"))
	require.Empty(t, value(line("fillrandom"), "writes"))
	require.Equal(t, "100", value(line("fillseq"), "writes"))
	require.Empty(t, value(line("fillseq"), "duration"))
	s.duration = 0
	for _, row := range allRows {
		l := line(row.name)
		require.Empty(t, value(l, "duration"))
		if row.name == "randomreplacekeys" {
			require.Equal(t, "100", value(l, "num"))
		} else {
			require.Equal(t, "100", value(l, "writes"))
			require.Equal(t, "5000", value(l, "num"))
		}
	}
}

func TestTableHasTheMedians(t *testing.T) {
	n := 0
	f := newFake(func(args []string) int {
		n++
		if value(args, "write_wake") == "sqrt" {
			return []int{3000, 1000, 2000}[n%3]
		}
		return []int{4000, 9000, 1}[n%3]
	})
	var out strings.Builder
	require.NoError(t, run([]string{"-rows=fillsync", "-threads=64", "-rounds=3", "-dir", t.TempDir()}, &out, io.Discard, f.start))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 3)
	for _, l := range lines {
		require.Equal(t, strings.Count(lines[0], "|"), strings.Count(l, "|"))
	}
	require.Regexp(t, `^\| fillsync \| 64 \| \d+ \| \d+ \| [0-9.]+ \| 4.00 \| 4.00 \| 2.50 \| 2.50 \|$`, lines[2])
	require.Equal(t, result{ops: 4, members: 2, wakes: 1}, medians([]result{{9, 1, 1}, {4, 2, 0}, {1, 3, 5}}))
	require.Equal(t, 3.0, medians([]result{{ops: 4}, {ops: 2}}).ops, "of an even number: the middle")
}

func TestWhatGoesWrongIsTold(t *testing.T) {
	fails := func(string, []string) (string, error) { return "", errors.New("no such binary") }
	for args, want := range map[string]string{
		"-rows=fillrandom,nosuch": "-rows: 'nosuch' is none of ",
		"-threads=1,0":            "-threads: '0' is no number of threads",
		"-threads=":               "-threads: '' is no number of threads",
		"-rounds=0":               "want at least one round",
		"-duration=1500ms":        "-duration: want whole seconds",
		"-nosuch":                 "flag provided but not defined",
		"-rows=fillseq":           "fillseq, 1 threads, one_by_one: no such binary",
	} {
		require.ErrorContains(t, run(strings.Fields(args), io.Discard, io.Discard, fails), want, args)
	}
	silent := func(string, []string) (string, error) { return "nothing of use", nil }
	require.ErrorContains(t, run([]string{"-rows=fillseq"}, io.Discard, io.Discard, silent), "dbbench printed no ")
	_, err := command("false", nil)
	require.Error(t, err)
}

func TestEightRowsRunOnTheRealThing(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "dbbench")
	out, err := exec.Command("go", "build", "-o", binary, "../dbbench").CombinedOutput()
	require.NoError(t, err, string(out))
	var table strings.Builder
	require.NoError(t, run([]string{"-dbbench", binary, "-threads=2", "-rounds=1", "-num=1000", "-writes=20", "-duration=0",
		"-dir", t.TempDir()}, &table, io.Discard, command))
	for _, row := range allRows {
		require.Regexp(t, `(?m)^\| `+row.name+` \| 2 \| [1-9]\d* \| [1-9]\d* \| `, table.String())
	}
}
