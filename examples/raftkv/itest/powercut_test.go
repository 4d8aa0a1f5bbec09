package itest

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
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
	fs   *vfs.Mem
	node *node.Node
}

func (v *virtual) start(t *testing.T, o node.Options) {
	o.Dir, o.FS, o.Logger = "/db", v.fs, slog.New(slog.NewTextHandler(io.Discard, nil))
	var err error
	v.node, err = node.Open(o)
	require.NoError(t, err)
}

// kill cuts the power: of what was not synced, a part is lost. First the node is cut off, so that it can tell nobody about
// what it does later.
func (v *virtual) kill(t *testing.T) {
	everyone := make([]uint64, 64)
	for i := range everyone {
		everyone[i] = uint64(i + 1)
	}
	v.node.Transport().Faults.Set(peer.Cut{DropTo: everyone, DropFrom: everyone})
	v.fs = v.fs.Crash(v.rng)
	v.close(t)
}

func (v *virtual) close(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, v.node.Close(ctx))
}

// TestNemesisCutsThePower: what was acknowledged survives that machines lose what they did not sync, also all of them.
func TestNemesisCutsThePower(t *testing.T) {
	t.Parallel()
	eachSeed(t, func(t *testing.T, seed uint64, duration time.Duration) {
		c := newCluster(t, seed, func(id uint64) machine {
			return &virtual{rng: rand.New(rand.NewPCG(seed, 1000+id)), fs: vfs.NewMem()}
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
