package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ashlardb/ashlar/examples/raftkv/node"
	"github.com/ashlardb/ashlar/examples/raftkv/peer"
)

// up runs nodes on this machine, each a process of this program, until ctx or the last of them ends. A node that ends is
// not started again: how to do it is printed.
func up(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("up", flag.ContinueOnError)
	f.SetOutput(stderr)
	count := f.Uint64("nodes", 3, "how `many`")
	port := f.Uint64("port", 7001, "the first node's `port` on 127.0.0.1; the others follow")
	dir := f.String("dir", "raftkv-data", "`directory`; each node has one in it, by its id")
	split := f.String("split", "g,n,t", "`keys` at which regions end")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 || *count == 0 || *count > 99 || *port == 0 || *port+*count > 65536 {
		return errors.New("up: want no more words, 1 to 99 nodes, and as many ports")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	addrs := map[uint64]string{}
	for id := uint64(1); id <= *count; id++ {
		addrs[id] = fmt.Sprintf("127.0.0.1:%d", *port+id-1)
	}
	out := &lines{w: stdout}
	var all sync.WaitGroup
	failures := make([]error, *count)
	for id := uint64(1); id <= *count; id++ {
		flags := []string{"node", "-id", fmt.Sprint(id), "-nodes", peer.FormatAddrs(addrs), "-dir", filepath.Join(*dir, fmt.Sprint(id)), "-split", *split}
		cmd := exec.CommandContext(ctx, self, flags...)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 15 * time.Second
		from := &prefixed{out: out, prefix: fmt.Sprintf("%d | ", id)}
		cmd.Stdout, cmd.Stderr = from, from
		all.Go(func() {
			err := cmd.Run()
			from.flush()
			if ctx.Err() != nil {
				return
			}
			failures[id-1] = fmt.Errorf("node %d: %w", id, errors.Join(err, errors.New("ended")))
			out.print(fmt.Sprintf("node %d has ended (%v). To start it again:\n    go run . %s\n", id, cmd.ProcessState, strings.Join(flags, " ")))
		})
	}
	if ready(ctx, addrs) {
		out.print(howTo(addrs, *dir))
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(failures...)
}

// ready waits until some node knows a leader of every region: false if ctx ended, or that took too long.
func ready(ctx context.Context, addrs map[uint64]string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, addr := range addrs {
			if hasLeaders(ctx, addr) {
				return true
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

func hasLeaders(ctx context.Context, addr string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/status", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var s node.Status
	if json.NewDecoder(resp.Body).Decode(&s) != nil {
		return false
	}
	return !slices.ContainsFunc(s.Regions, func(r node.RegionStatus) bool { return r.Leader == 0 })
}

// howTo is what a new user wants to know.
func howTo(addrs map[uint64]string, dir string) string {
	return fmt.Sprintf(`
%d nodes: %s. Data is in %s; end them with Ctrl-C. In another window:

    curl -L -X PUT -d hello http://%[4]s/kv/greeting
    curl http://%[4]s/kv/greeting
    curl -L -d '{"key": "greeting", "old": "hello", "new": "hi"}' http://%[4]s/cas
    curl http://%[4]s/status
    curl 'http://%[4]s/leader?key=greeting'

`, len(addrs), peer.FormatAddrs(addrs), dir, addrs[1])
}

// lines writes what many say, a line at a time.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) print(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.w, s)
}

// prefixed writes each line behind a prefix.
type prefixed struct {
	out    *lines
	prefix string
	rest   []byte // of a line that has not ended
}

func (p *prefixed) Write(b []byte) (int, error) {
	p.rest = append(p.rest, b...)
	for {
		n, line, err := bufio.ScanLines(p.rest, false)
		if n == 0 || err != nil {
			return len(b), nil
		}
		p.out.print(p.prefix + string(line) + "\n")
		p.rest = p.rest[n:]
	}
}

func (p *prefixed) flush() {
	if len(p.rest) > 0 {
		p.out.print(p.prefix + string(p.rest) + "\n")
	}
}
