package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr, child); err != nil {
		fmt.Fprintln(os.Stderr, "hitsbench:", err)
		os.Exit(1)
	}
}

// settings are what the flags say.
type settings struct {
	dir    string
	keys   int
	reads  int
	rounds int
	cache  int64
	seed   uint64
	part   string // of a child: "load" or "read"
	hits   bool   // of a child
}

func parse(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{}
	f := flag.NewFlagSet("hitsbench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&s.dir, "dir", os.TempDir(), "where the `directory` of the databases is made")
	f.IntVar(&s.keys, "keys", 3_000_000, "keys of each database")
	f.IntVar(&s.reads, "reads", 100_000, "reads of each kind in a round")
	f.IntVar(&s.rounds, "rounds", 5, "readings of each database")
	f.Int64Var(&s.cache, "cache", 0, "`bytes` of the block cache; 0: a third of the keys and values")
	f.Uint64Var(&s.seed, "seed", 1, "of the keys that are read; each round has one more")
	f.StringVar(&s.part, "part", "", "what a process that hitsbench starts does: load, or read")
	f.BoolVar(&s.hits, "hits", false, "the option, in a process that hitsbench starts")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("what is '%s'?", f.Arg(0))
	}
	if s.keys < 10 || s.reads < 1 || s.rounds < 1 || s.cache < 0 {
		return nil, fmt.Errorf("want at least ten keys, one read and one round, and no cache of negative size")
	}
	return s, nil
}

// line is the command line of the process that does part.
func (s *settings) line(part string, hits bool, dir string, cache int64, round int) []string {
	return []string{
		"-part", part, "-hits=" + strconv.FormatBool(hits), "-dir", dir, "-cache", strconv.FormatInt(cache, 10),
		"-keys", strconv.Itoa(s.keys), "-reads", strconv.Itoa(s.reads), "-seed", strconv.FormatUint(s.seed+uint64(round), 10),
	}
}

// run does a child's part, or starts the children by start and prints the tables.
func run(args []string, stdout, stderr io.Writer, start func(args []string, result any) error) error {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	switch s.part {
	case "":
	case "load":
		return encode(stdout)(load(s))
	case "read":
		return encode(stdout)(read(s))
	default:
		return fmt.Errorf("-part: '%s' is neither load nor read", s.part)
	}

	dir, err := os.MkdirTemp(s.dir, "hitsbench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := func(hits bool) string { return filepath.Join(dir, onOff(hits)) }
	var loaded [2]sizes
	var rounds [2][]reading
	for way, hits := range ways {
		if err := start(s.line("load", hits, path(hits), 0, 0), &loaded[way]); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "loaded %s: %+v\n", onOff(hits), loaded[way])
	}
	cache := s.cache
	if cache == 0 {
		cache = int64(loaded[0].Raw / 3)
	}
	for round := range s.rounds {
		for i := range ways {
			way := (i + round) % len(ways)
			var r reading
			if err := start(s.line("read", ways[way], path(ways[way]), cache, round), &r); err != nil {
				return err
			}
			rounds[way] = append(rounds[way], r)
			fmt.Fprintf(stderr, "round %d %s: %+v\n", round+1, onOff(ways[way]), r)
		}
	}
	_, err = io.WriteString(stdout, tables(cache, loaded, rounds))
	return err
}

// ways are the values of the option, in the order of all results.
var ways = [2]bool{false, true}

func onOff(hits bool) string {
	if hits {
		return "on"
	}
	return "off"
}

func encode(w io.Writer) func(result any, err error) error {
	return func(result any, err error) error {
		if err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(result)
	}
}

// child runs hitsbench once more and decodes what it prints.
func child(args []string, result any) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", cmd, err)
	}
	return json.Unmarshal(out, result)
}
