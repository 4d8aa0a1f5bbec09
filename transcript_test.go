package ashlar

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ashlardb/ashlar/internal/script"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/vfs/faultfs"
)

// The plays in testdata/io show the order in which files are created, written, synced, renamed and removed. Each says
// which rule its order follows; one that changes is to be judged anew. "go test -run Transcripts -rewrite" writes them.

func TestTranscripts(t *testing.T) {
	script.RunAll(t, "testdata/io/*.txt", func(t *testing.T) script.Command {
		p := &transcript{t: t, mem: vfs.NewMem()}
		p.mount()
		t.Cleanup(func() {
			if p.db != nil {
				p.db.Close()
			}
		})
		return p.do
	})
}

// transcript is one play. The answer of a command is what it did to the file system, or why it failed. What the cleaner
// removes comes last, and removals that follow each other are sorted: their order does not matter.
//
//	open [auto]      with automatic compactions
//	close            crash: all that was not synced is gone; kill: it stays
//	put KEY [sync] [FAMILY...]
//	flush [nowait] [FAMILY]; compact; create FAMILY; drop FAMILY; syncwal; resume
//	hold             holds back flushes until release
//	fail ...         a rule of package faultfs
type transcript struct {
	t   *testing.T
	mem *vfs.Mem
	fs  *faultfs.FS
	db  *DB

	mu      sync.Mutex
	gate    chan bool // held calls wait for it to be closed
	running chan bool // the cleaner waits for it to be closed
}

func (p *transcript) mount() {
	p.fs = faultfs.Wrap(p.mem)
	p.fs.OnCall = func(c faultfs.Call) {
		p.mu.Lock()
		gate, running := p.gate, p.running
		p.mu.Unlock()
		if running != nil && c.Op == faultfs.Remove {
			<-running
		}
		if gate != nil && c.Op == faultfs.Create && strings.HasSuffix(c.Name, ".sst") {
			<-gate
		}
	}
	p.fs.Record(faultfs.Names)
}

func (p *transcript) do(cmd string, args []string, _ string) string {
	if p.db != nil && cmd != "close" && cmd != "crash" && cmd != "kill" {
		p.setRunning(make(chan bool))
	}
	err := p.run(cmd, args)
	if p.running != nil {
		close(p.running)
		p.setRunning(nil)
	}
	if p.db != nil && p.gate == nil {
		atRest(p.db)
	}
	var lines []string
	removals := 0 // at the end of lines
	for line := range strings.Lines(p.fs.Journal()) {
		switch {
		case strings.Contains(line, "db/LOG"), strings.HasPrefix(line, "mkdir"), strings.HasPrefix(line, "lock"):
			continue
		case strings.HasPrefix(line, "remove"):
			removals++
		default:
			removals = 0
		}
		lines = append(lines, line)
		slices.Sort(lines[len(lines)-removals:])
	}
	if err != nil {
		lines = append(lines, fmt.Sprintln("error:", err))
	}
	return strings.Join(lines, "")
}

func (p *transcript) setRunning(c chan bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = c
}

func (p *transcript) family(name string) *ColumnFamily {
	cf, ok := p.db.ColumnFamily(name)
	if !ok {
		p.t.Fatalf("no family %q", name)
	}
	return cf
}

func (p *transcript) run(cmd string, args []string) (err error) {
	ctx := context.Background()
	has := func(word string) bool { return slices.Contains(args, word) }
	switch cmd {
	case "open":
		o := memOptions(p.fs)
		o.DisableAutoCompactions = !has("auto")
		p.db, err = Open("db", o)
		return err
	case "close":
		err, p.db = p.db.Close(), nil
		return err
	case "crash", "kill":
		left := p.mem.Clone()
		if cmd == "crash" {
			left = p.mem.Crash(nil)
		}
		p.db.Close()
		p.db, p.mem = nil, left
		p.mount()
		return nil
	case "put":
		b := p.db.NewBatch()
		o := &WriteOptions{}
		families := []*ColumnFamily{nil}
		for _, word := range args[1:] {
			if word == "sync" {
				o.Sync = true
				continue
			}
			families = append(families, p.family(word))
		}
		for _, cf := range families {
			if err := b.Put(cf, []byte(args[0]), []byte(args[0])); err != nil {
				return err
			}
		}
		return p.db.Write(b, o)
	case "flush":
		o := &FlushOptions{NoWait: has("nowait")}
		if len(args) > 0 && args[len(args)-1] != "nowait" {
			return p.db.Flush(ctx, o, p.family(args[len(args)-1]))
		}
		return p.db.Flush(ctx, o)
	case "compact":
		return p.db.CompactRange(ctx, nil, nil, nil)
	case "create":
		_, err = p.db.CreateColumnFamily(args[0], nil)
		return err
	case "drop":
		return p.db.DropColumnFamily(p.family(args[0]))
	case "syncwal":
		return p.db.SyncWAL(ctx)
	case "resume":
		return p.db.Resume(ctx)
	case "fail":
		return p.fs.Add("fail " + strings.Join(args, " "))
	case "hold", "release":
		p.mu.Lock()
		gate := p.gate
		if p.gate = nil; cmd == "hold" {
			p.gate = make(chan bool)
		}
		p.mu.Unlock()
		if gate != nil {
			close(gate)
			return p.db.WaitForCompact(ctx)
		}
		return nil
	}
	return fmt.Errorf("%s: no such command", cmd)
}
