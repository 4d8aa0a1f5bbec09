package itest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/examples/raftkv/node"
	"github.com/ashlardb/ashlar/examples/raftkv/peer"
	"github.com/ashlardb/ashlar/vfs"
)

// virtual is a node in this process, on a file system in memory.
type virtual struct {
	rng  *rand.Rand
	disk *disk
	node *node.Node
}

// disk is a file system whose power can be cut: then no sync ends well any more. So what the node goes on doing for a
// moment makes nothing safe, and it acknowledges nothing that the disk after the cut does not have.
type disk struct {
	*vfs.Mem
	mu  sync.RWMutex // held by syncs for reading
	off bool         // guarded by mu
}

// cut returns what is left: of what was not synced, a part.
func (d *disk) cut(rng *rand.Rand) *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
	return &disk{Mem: d.Mem.Crash(rng)}
}

func (d *disk) powered(sync func() error) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.off {
		return errors.New("no power")
	}
	return sync()
}

func (d *disk) SyncDir(dir string) error {
	return d.powered(func() error { return d.Mem.SyncDir(dir) })
}

func (d *disk) Create(name string) (vfs.File, error) {
	f, err := d.Mem.Create(name)
	return diskFile{f, d}, err
}

type diskFile struct {
	vfs.File
	d *disk
}

func (f diskFile) Sync() error { return f.d.powered(f.File.Sync) }

func (v *virtual) start(t *testing.T, o node.Options) {
	o.Dir, o.FS, o.Logger = "/db", v.disk, slog.New(slog.NewTextHandler(io.Discard, nil))
	var err error
	v.node, err = node.Open(o)
	require.NoError(t, err)
}

// kill cuts the power, and the network first.
func (v *virtual) kill(t *testing.T) {
	everyone := make([]uint64, 64)
	for i := range everyone {
		everyone[i] = uint64(i + 1)
	}
	v.node.Transport().Faults.Set(peer.Cut{DropTo: everyone, DropFrom: everyone})
	v.disk = v.disk.cut(v.rng)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := v.node.Close(ctx) // it has no power, so it may fail, but not hang
	requireEnded(t, ctx, err)
}

func (v *virtual) close(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := v.node.Close(ctx)
	requireEnded(t, ctx, err)
	require.NoError(t, err)
}

// requireEnded requires that something ended before ctx; else it writes down what each goroutine does.
func requireEnded(t *testing.T, ctx context.Context, err error) {
	if ctx.Err() == nil {
		return
	}
	name := filepath.Join(os.TempDir(), fmt.Sprintf("raftkv-goroutines-%d", time.Now().UnixNano()))
	all := make([]byte, 8<<20)
	require.NoError(t, os.WriteFile(name, all[:runtime.Stack(all, true)], 0o644))
	t.Fatalf("the node does not end: %v; what each goroutine does is in %s", err, name)
}

// TestNemesisCutsThePower: what was acknowledged survives that machines lose what they did not sync, also all of them.
func TestNemesisCutsThePower(t *testing.T) {
	t.Parallel()
	eachSeed(t, func(t *testing.T, seed uint64, duration time.Duration) {
		c := newCluster(t, seed, func(id uint64) machine {
			return &virtual{rng: rand.New(rand.NewPCG(seed, 1000+id)), disk: &disk{Mem: vfs.NewMem()}}
		})
		n := &nemesis{c, startLoad(t, seed, c.clientAddrs()), duration < time.Second, map[string]int{}}
		n.run(map[string]func(){
			"power of one":    func() { n.killSome(n.any()) },
			"power of leader": func() { n.killSome(n.leader(n.rng.IntN(len(prefixes)))) },
			"power of all":    func() { n.killSome(n.ids()...) },
		}, duration)
		n.load.end()
		n.settle()
		n.load.readBack(t)
		n.report(t)
	})
}
