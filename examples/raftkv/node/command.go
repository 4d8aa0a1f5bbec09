package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ashlardb/ashlar/examples/raftkv/peer"
	"github.com/ashlardb/ashlar/raftapply"
)

// parseFlags reads the flags of a node. Those of raftapply's configuration have its names.
func parseFlags(args []string, stderr io.Writer) (Options, error) {
	apply := raftapply.DefaultConfig()
	o := Options{Apply: &apply, Splits: DefaultSplits(), WriteBufferSize: 16 * raftapply.MiB}
	f := flag.NewFlagSet("node", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Uint64Var(&o.ID, "id", 0, "this node's `id`, from 1")
	f.Func("nodes", "all nodes' addresses, `ID=HOST:PORT,…`", func(s string) (err error) {
		o.Nodes, err = peer.ParseAddrs(s)
		return err
	})
	f.StringVar(&o.Dir, "dir", "", "`directory` of the database")
	f.BoolVar(&o.Join, "join", false, "a new node that waits for POST /admin/add at one of the others")
	f.Func("split", "`keys` at which regions end, with commas between; \"\" for one region (default g,n,t)", func(s string) error {
		o.Splits = parseSplits(s)
		return nil
	})
	f.DurationVar(&o.Tick, "tick", 100*time.Millisecond, "raft's clock; a leader is missed after ten")
	f.Uint64Var(&o.LogEntries, "log-entries", 10000, "applied entries kept for nodes that are behind; who needs older ones gets a snapshot")
	f.Var(&o.WriteBufferSize, "write-buffer-size", "`size` of a column family's memtable")
	f.BoolVar(&o.verbose, "v", false, "log what happens, not only what goes wrong")
	f.BoolVar(&o.Faults, "faults", false, "for tests: serve /debug/fault, which cuts the node off others")
	for name, value := range apply.All() {
		f.Func(name, fmt.Sprintf("raftapply's setting (default %s)", value), func(s string) error { return apply.Set(name, s) })
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("node: unexpected %q", f.Arg(0))
	}
	return o, nil
}

func parseSplits(s string) [][]byte {
	var splits [][]byte
	for part := range strings.SplitSeq(s, ",") {
		if s != "" {
			splits = append(splits, []byte(part))
		}
	}
	return splits
}

// pidFile, in a node's directory, has its process id.
const pidFile = "pid"

// Run is the command of one node: it runs until ctx ends, or the node fails.
func Run(ctx context.Context, args []string, stderr io.Writer) (err error) {
	o, err := parseFlags(args, stderr)
	if err != nil {
		return err
	}
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelInfo
	}
	o.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	n, err := Open(o)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = errors.Join(err, n.Close(ctx))
	}()
	pid := filepath.Join(o.Dir, pidFile)
	if err := os.WriteFile(pid, fmt.Append(nil, os.Getpid(), "\n"), 0o644); err != nil {
		return err
	}
	defer os.Remove(pid)
	fmt.Fprintf(stderr, "node %d serves http://%s, process %d\n", o.ID, o.Nodes[o.ID], os.Getpid())
	select {
	case <-ctx.Done():
		fmt.Fprintf(stderr, "node %d ends\n", o.ID)
		return nil
	case err := <-n.Failed():
		return err
	}
}
