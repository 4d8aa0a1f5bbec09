package itest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/examples/raftkv/node"
	"github.com/ashlardb/ashlar/examples/raftkv/peer"
)

// asNode, in the environment, makes this binary a node.
const asNode = "RAFTKV_ITEST_NODE"

func TestMain(m *testing.M) {
	if os.Getenv(asNode) == "" {
		os.Exit(m.Run())
	}
	go func() { // no node outlives the test
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := node.Run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// process is a node in a process of its own, with a directory that outlives it.
type process struct {
	dir   string
	cmd   *exec.Cmd
	log   *os.File
	alive io.Closer // the process ends if it is closed, by whatever end of this one
	ended chan error
}

// processes makes them with directories in one, which stays if the test fails, with the logs: then the nodes are made to
// write there what each goroutine does.
func processes(t *testing.T) func(id uint64) machine {
	dir, err := os.MkdirTemp("", "raftkv-")
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			require.NoError(t, os.RemoveAll(dir))
			return
		}
		t.Logf("the nodes' logs are in %s", dir)
	})
	return func(id uint64) machine {
		return &process{dir: filepath.Join(dir, fmt.Sprint(id))}
	}
}

func (p *process) start(t *testing.T, o node.Options) {
	var err error
	p.log, err = os.OpenFile(p.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	args := []string{"-id", fmt.Sprint(o.ID), "-nodes", peer.FormatAddrs(o.Nodes), "-dir", p.dir, "-tick", o.Tick.String(),
		"-log-entries", fmt.Sprint(o.LogEntries), "-write-buffer-size", o.WriteBufferSize.String(), fmt.Sprintf("-join=%t", o.Join), "-faults", "-v"}
	for name, value := range o.Apply.All() {
		args = append(args, "-"+name, value)
	}
	p.cmd = exec.Command(os.Args[0], args...)
	p.cmd.Env = append(os.Environ(), asNode+"=1")
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.alive, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	cmd, ended := p.cmd, make(chan error, 1)
	p.ended = ended
	go func() { ended <- cmd.Wait() }()
}

// signal tells the process something; it must be running.
func (p *process) signal(t *testing.T, s os.Signal) {
	select {
	case err := <-p.ended:
		p.ended <- err
		require.NoError(t, err, "%s ended by itself", p.dir)
		t.Fatalf("%s ended by itself", p.dir)
	default:
	}
	require.NoError(t, p.cmd.Process.Signal(s))
}

func (p *process) kill(t *testing.T) {
	p.signal(t, syscall.SIGKILL)
	<-p.ended
	require.NoError(t, p.log.Close())
}

func (p *process) close(t *testing.T) {
	p.signal(t, syscall.SIGCONT)
	if t.Failed() {
		p.signal(t, syscall.SIGQUIT)
		<-p.ended
		return
	}
	p.signal(t, os.Interrupt)
	require.NoError(t, <-p.ended, "%s", p.dir)
	require.NoError(t, p.log.Close())
}
