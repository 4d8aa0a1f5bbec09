package itest

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/examples/raftkv/node"
)

var (
	durationFlag = flag.Duration("duration", 0, "how long a nemesis test goes on; default 1ms, with ASHLAR_LONG 1m. Each fault comes once at least")
	seedsFlag    = flag.String("seeds", "", "seeds of the nemesis tests; default 1, with ASHLAR_LONG 1,2,3,4,5")
)

// eachSeed runs a test for as long as the flags say.
func eachSeed(t *testing.T, run func(t *testing.T, seed uint64, duration time.Duration)) {
	duration, seeds := time.Millisecond, "1"
	if os.Getenv("ASHLAR_LONG") != "" {
		duration, seeds = time.Minute, "1,2,3,4,5"
	}
	if *durationFlag != 0 {
		duration = *durationFlag
	}
	if *seedsFlag != "" {
		seeds = *seedsFlag
	}
	for text := range strings.SplitSeq(seeds, ",") {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "-seeds")
		t.Run("seed="+text, func(t *testing.T) { run(t, seed, duration) })
	}
}

// nemesis does harm to a cluster under load, one fault after the other, each ended before the next.
type nemesis struct {
	*cluster
	load   *load
	brief  bool
	counts map[string]int
}

// hold keeps a fault up for a time, and in a brief run no longer than until the clients have been told enough.
func (n *nemesis) hold(longest time.Duration) {
	enough := math.MaxInt
	if n.brief {
		enough = n.load.h.len() + 30
	}
	end := time.Now().Add(time.Duration(n.rng.Int64N(int64(longest))))
	for time.Now().Before(end) && n.load.h.len() < enough {
		pause(5 * time.Millisecond)
	}
}

// run does every fault once in random order, and then goes on until the time is over.
func (n *nemesis) run(faults map[string]func(), duration time.Duration) {
	end := time.Now().Add(duration)
	for first := true; first || time.Now().Before(end); first = false {
		names := slices.Sorted(maps.Keys(faults))
		n.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			if n.t.Failed() {
				return
			}
			began, before := time.Now(), n.load.h.len()
			faults[name]()
			n.counts[name]++
			n.progress(name)
			n.t.Logf("%s: %v, %d operations", name, time.Since(began).Round(time.Millisecond), n.load.h.len()-before)
		}
	}
}

// progress requires that clients get answers once a fault is over.
func (n *nemesis) progress(after string) {
	enough := n.load.h.len() + 10
	n.until("answers after "+after, func() error {
		if now := n.load.h.len(); now < enough {
			return fmt.Errorf("%d operations of %d", now, enough)
		}
		return nil
	})
}

func (n *nemesis) report(t *testing.T) {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(n.counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, n.counts[name]))
	}
	t.Logf("%d operations (%d unknown, %d not taken), %d bulk inserts; %s", n.load.h.len(), n.load.h.unknown,
		n.load.failed.Load(), n.load.bulks, strings.Join(parts, ", "))
}

// TestNemesisOnProcesses: whatever happens to processes and to the network between them, clients see one copy.
func TestNemesisOnProcesses(t *testing.T) {
	t.Parallel()
	eachSeed(t, func(t *testing.T, seed uint64, duration time.Duration) {
		c := newCluster(t, seed, processes(t))
		n := &nemesis{c, startLoad(t, seed, c.clientAddrs()), duration < time.Second, map[string]int{}}
		n.run(map[string]func(){
			"kill one":       func() { n.killSome(n.any()) },
			"kill leader":    func() { n.killSome(n.leader(n.rng.IntN(len(prefixes)))) },
			"kill all":       func() { n.killSome(n.ids()...) },
			"stop":           func() { n.pauseOne(n.any()) },
			"isolate leader": func() { n.isolate(n.leader(n.rng.IntN(len(prefixes)))) },
			"one way":        n.oneWay,
			"bridge":         n.bridge,
			"yield size":     n.flipYield,
			"transfer":       n.transfer,
			"members":        n.changeMembers,
			"left behind":    n.leaveBehind,
		}, duration)
		n.load.end()
		n.settle()
		n.load.readBack(t)
		n.report(t)
	})
}

func (n *nemesis) killSome(ids ...uint64) {
	for _, id := range ids {
		n.kill(id)
	}
	n.hold(time.Second)
	for _, id := range ids {
		n.start(id)
	}
	n.ready()
}

func (n *nemesis) pauseOne(id uint64) {
	p := n.machines[id].(*process)
	p.signal(n.t, syscall.SIGSTOP)
	n.hold(2 * time.Second)
	p.signal(n.t, syscall.SIGCONT)
	n.ready()
}

// isolate cuts a node off in both directions.
func (n *nemesis) isolate(id uint64) {
	n.partition(func(a, b uint64) bool { return a == id || b == id })
}

// oneWay loses what one node says to another.
func (n *nemesis) oneWay() {
	from, to := n.any(), n.any()
	n.partition(func(a, b uint64) bool { return a == from && b == to })
}

// bridge leaves one node that sees two that do not see each other.
func (n *nemesis) bridge() {
	middle := n.any()
	n.partition(func(a, b uint64) bool { return a != middle && b != middle })
}

// partition loses what a says to b where lost says so.
func (n *nemesis) partition(lost func(a, b uint64) bool) {
	whom := map[uint64][]uint64{}
	for _, a := range n.ids() {
		for _, b := range n.ids() {
			if a != b && lost(a, b) {
				whom[a] = append(whom[a], b)
			}
		}
	}
	n.cut(whom)
	n.hold(2 * time.Second)
	n.cut(nil)
	n.ready()
}

// flipYield changes how regions share the workers.
func (n *nemesis) flipYield() {
	for _, size := range []string{"0", "off", "32KiB"} {
		for _, id := range n.ids() {
			n.until("a setting", func() error {
				return n.post(id, "/admin/config", map[string]string{"apply-yield-write-size": size})
			})
		}
		n.hold(200 * time.Millisecond)
	}
}

func (n *nemesis) transfer() {
	for region := range prefixes {
		to := n.any()
		n.until("a new leader", func() error {
			return n.post(n.any(), "/admin/transfer", map[string]uint64{"region": uint64(region + 1), "to": to})
		})
	}
}

// changeMembers adds a node and takes one of the others away, for good.
func (n *nemesis) changeMembers() {
	ids := n.ids()
	added, removed := ids[len(ids)-1]+1, n.any()
	n.newNode(added)
	n.joined[added] = true
	n.start(added)
	helper := ids[0]
	n.until("a node more", func() error {
		return n.call(n.t.Context(), helper, http.MethodPost, "/admin/add", map[string]any{"id": added, "addr": n.addrs[added]}, nil)
	})
	n.until("a node less", func() error {
		return n.call(n.t.Context(), added, http.MethodPost, "/admin/remove", map[string]any{"id": removed}, nil)
	})
	n.kill(removed)
	delete(n.machines, removed)
	delete(n.addrs, removed)
	n.load.setAddrs(n.clientAddrs())
	n.ready()
	n.until("the same members everywhere", func() error {
		for _, id := range n.ids() {
			s, err := n.status(id)
			if err != nil {
				return err
			}
			for _, r := range s.Regions {
				if !slices.Equal(n.ids(), slices.Sorted(slices.Values(r.Voters))) {
					return fmt.Errorf("node %d: region %d: %v", id, r.Region, r.Voters)
				}
			}
		}
		return nil
	})
}

// leaveBehind stops a node until the log that it needs is gone, so that it has to take a snapshot.
func (n *nemesis) leaveBehind() {
	lead := n.leader(0)
	slow := n.any()
	for slow == lead {
		slow = n.any()
	}
	before, err := n.status(slow)
	require.NoError(n.t, err)
	p := n.machines[slow].(*process)
	p.signal(n.t, syscall.SIGSTOP)
	i := 0
	n.until("a shorter log", func() error {
		i++
		ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
		defer cancel()
		if err := n.load.clients[clients].Put(ctx, "aslow", fmt.Sprint(i)); err != nil {
			return err
		}
		var s node.Status
		if i%20 > 0 {
			return fmt.Errorf("%d writes", i)
		}
		if s, err = n.status(lead); err == nil && s.Regions[0].First <= before.Regions[0].Last+1 {
			err = fmt.Errorf("the log begins at %d, before %d", s.Regions[0].First, before.Regions[0].Last)
		}
		return err
	})
	p.signal(n.t, syscall.SIGCONT)
	n.until("a snapshot", func() error {
		s, err := n.status(slow)
		if err == nil && s.Regions[0].First <= before.Regions[0].Last+1 {
			err = fmt.Errorf("node %d: %+v", slow, s.Regions[0])
		}
		return err
	})
	n.ready()
}
