package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr, command); err != nil {
		fmt.Fprintln(os.Stderr, "wakebench:", err)
		os.Exit(1)
	}
}

// allRows are the benchmarks of the table, and whether each wants a database that has been filled.
var allRows = []struct {
	name   string
	filled bool
}{
	{"fillrandom", false}, {"fillseq", false}, {"fillsync", false}, {"overwrite", true},
	{"randomreplacekeys", false}, {"randomtransaction", false}, {"updaterandom", true}, {"xorupdaterandom", true},
}

// ways are the values of --write_wake.
var ways = [2]string{"one_by_one", "sqrt"}

// settings are what the flags say.
type settings struct {
	dbbench, dir string
	rows         []string
	threads      []int
	rounds       int
	num, writes  int
	duration     time.Duration
	seed         uint64
	extra        []string // given to each run that is measured
}

func parse(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{}
	var all []string
	for _, r := range allRows {
		all = append(all, r.name)
	}
	f := flag.NewFlagSet("wakebench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&s.dbbench, "dbbench", "dbbench", "the `binary`, a path or a name to be found in PATH")
	f.StringVar(&s.dir, "dir", os.TempDir(), "where the `directories` of the databases are made")
	rows := f.String("rows", strings.Join(all, ","), "`benchmarks`")
	threads := f.String("threads", "1,8,64,256", "`numbers` of threads")
	f.IntVar(&s.rounds, "rounds", 3, "runs of each cell")
	f.IntVar(&s.num, "num", 100_000, "keys of a database")
	f.IntVar(&s.writes, "writes", 300_000, "operations of all threads together, where -duration does not count")
	f.DurationVar(&s.duration, "duration", 3*time.Second, "of a run, in whole seconds; 0: -writes operations instead")
	f.Uint64Var(&s.seed, "seed", 1708494134896523, "of the keys; each round has one more")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	s.rows, s.extra = strings.Split(*rows, ","), f.Args()
	for _, r := range s.rows {
		if !slices.Contains(all, r) {
			return nil, fmt.Errorf("-rows: '%s' is none of %s", r, strings.Join(all, ", "))
		}
	}
	for word := range strings.SplitSeq(*threads, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-threads: '%s' is no number of threads", word)
		}
		s.threads = append(s.threads, n)
	}
	if s.rounds < 1 || s.num < 1000 || s.writes < 1 {
		return nil, fmt.Errorf("want at least one round, one write and 1000 keys")
	}
	if s.duration < 0 || s.duration%time.Second != 0 {
		return nil, fmt.Errorf("-duration: want whole seconds")
	}
	return s, nil
}

// line is the command line of a run that is measured.
func (s *settings) line(c cell, round int, db string) []string {
	args := []string{
		"--benchmarks=" + c.row, "--db=" + db, "--threads=" + strconv.Itoa(c.threads), "--num=" + strconv.Itoa(s.num),
		"--seed=" + strconv.FormatUint(s.seed+uint64(round), 10), "--write_wake=" + ways[c.way], "--statistics",
	}
	// randomreplacekeys goes by num, and not by writes; its keys are those of numdistinct either way.
	perThread := strconv.Itoa(max(s.writes/c.threads, 1))
	switch {
	case s.duration == 0 && c.row == "randomreplacekeys":
		args = append(args, "--num="+perThread)
	case s.duration == 0 || c.row == "fillseq":
		args = append(args, "--writes="+perThread)
	default:
		// A few operations between looks at the clock: with many threads, and syncs, each does few in a second.
		args = append(args, fmt.Sprintf("--duration=%d", int(s.duration.Seconds())), "--ops_between_duration_checks=10")
	}
	if c.filled() {
		args = append(args, "--use_existing_db")
	}
	return append(args, s.extra...)
}

// fillLine is the command line that fills a database.
func (s *settings) fillLine(db string) []string {
	return []string{"--benchmarks=fillseq", "--db=" + db, "--num=" + strconv.Itoa(s.num)}
}

// cell is one run's place in the table.
type cell struct {
	row     string
	threads int
	way     int // of ways
}

func (c cell) filled() bool {
	for _, r := range allRows {
		if r.name == c.row {
			return r.filled
		}
	}
	return false
}

// run runs every cell and prints the table. start runs dbbench and returns what it prints.
func run(args []string, stdout, stderr io.Writer, start func(binary string, args []string) (string, error)) error {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	results := map[cell][]result{}
	for round := range s.rounds {
		for _, row := range s.rows {
			for _, threads := range s.threads {
				for i := range ways {
					c := cell{row, threads, (i + round) % len(ways)}
					r, err := s.measure(c, round, start)
					if err != nil {
						return fmt.Errorf("%s, %d threads, %s: %w", row, threads, ways[c.way], err)
					}
					results[c] = append(results[c], r)
					fmt.Fprintf(stderr, "round %d  %-18s %4d threads  %-10s %9.0f ops/s\n", round+1, row, threads, ways[c.way], r.ops)
				}
			}
		}
	}
	_, err = io.WriteString(stdout, table(s, results))
	return err
}

// measure does one run, in a directory of its own that is gone afterwards.
func (s *settings) measure(c cell, round int, start func(binary string, args []string) (string, error)) (r result, err error) {
	db, err := os.MkdirTemp(s.dir, "wakebench")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(db)
	if c.filled() {
		if _, err := start(s.dbbench, s.fillLine(db)); err != nil {
			return r, err
		}
	}
	out, err := start(s.dbbench, s.line(c, round, db))
	if err != nil {
		return r, err
	}
	return parseResult(c.row, out)
}
