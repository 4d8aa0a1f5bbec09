package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"

	"github.com/ashlardb/ashlar/vfs"
)

func main() { os.Exit(run(os.Args[1:], vfs.OS, os.Stdout, os.Stderr)) }

// run is main: it returns the exit code. Whatever is wrong with the command line is told before anything is done.
func run(args []string, fsys vfs.FS, stdout, stderr io.Writer) int {
	c := newConfig()
	switch err := c.flags.parse(args); {
	case err == errHelp:
		printHelp(stdout, c)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "ERROR: %v\n", err)
		return 1
	}
	tasks, err := parseTasks(c.benchmarks)
	if err == nil {
		err = fit(tasks, c)
	}
	if err = errors.Join(err, c.validate()); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	setMemory(c)
	b := newBench(c, fsys, stdout, stderr)
	if err := profiled(c, func() error { return b.runAll(tasks) }); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// isTerminal says whether w is one; a device will do.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// profiled calls fn and writes the profiles that the flags ask for.
func profiled(c *config, fn func() error) (err error) {
	if c.cpuProfile != "" {
		f, err := os.Create(c.cpuProfile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return errors.Join(err, f.Close())
		}
		defer func() {
			pprof.StopCPUProfile()
			err = errors.Join(err, f.Close())
		}()
	}
	if c.memProfile != "" {
		f, err := os.Create(c.memProfile)
		if err != nil {
			return err
		}
		defer func() {
			runtime.GC()
			err = errors.Join(err, pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
		}()
	}
	return fn()
}

// printHelp lists flags and benchmarks.
func printHelp(w io.Writer, c *config) {
	fmt.Fprint(w, "dbbench: db_bench's benchmarks on Ashlar, with its flags and in its words.\n\nBenchmarks:\n")
	for _, b := range benchmarks {
		fmt.Fprintf(w, "  %-22s -- %s\n", b.name, b.help)
	}
	c.flags.printHelp(w)
}
