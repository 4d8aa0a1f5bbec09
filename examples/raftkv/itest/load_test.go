package itest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/examples/raftkv/client"
)

const (
	clients       = 5
	keysPerRegion = 5
	// opTimeout is how long a client tries. A fault lasts less, so that few outcomes stay unknown, which are what makes a
	// history hard to check.
	opTimeout = 10 * time.Second
)

// prefixes are the first letters of keys, one for each of the default regions.
var prefixes = []string{"a", "h", "o", "u"}

// load is the clients: five that are checked, and one bulk writer that stands in their way.
type load struct {
	t       *testing.T
	h       *history
	stop    context.CancelFunc
	ctx     context.Context
	all     sync.WaitGroup
	clients []*client.Client
	slots   map[string]slotState // the bulk writer's
	bulks   int                  // bulk inserts that were committed
	failed  atomic.Int64         // operations that nobody took
}

func startLoad(t *testing.T, seed uint64, addrs []string) *load {
	l := &load{t: t, h: newHistory(), slots: map[string]slotState{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	t.Cleanup(l.end)
	for i := range clients + 1 {
		l.clients = append(l.clients, client.New(addrs))
		t.Cleanup(l.clients[i].Close)
	}
	for i := range clients {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		l.all.Go(func() {
			for n := 0; l.ctx.Err() == nil; n++ {
				l.one(i, rng, n)
			}
		})
	}
	l.all.Go(func() {
		for n := 0; l.ctx.Err() == nil; n++ {
			l.bulk(prefixes[n%len(prefixes)], n)
		}
	})
	return l
}

// end waits for the operations that are under way.
func (l *load) end() {
	l.stop()
	l.all.Wait()
}

func (l *load) setAddrs(addrs []string) {
	for _, c := range l.clients {
		c.SetAddrs(addrs)
	}
}

// key returns one of the keys that are checked.
func key(i int) string {
	return fmt.Sprintf("%s%d", prefixes[i%len(prefixes)], i/len(prefixes))
}

// one does a random operation.
func (l *load) one(i int, rng *rand.Rand, n int) {
	k, v := key(rng.IntN(keysPerRegion*len(prefixes))), fmt.Sprintf("%d.%d", i, n)
	switch rng.IntN(10) {
	case 0:
		l.do(i, input{op: "delete", key: k})
	case 1, 2, 3:
		l.do(i, input{op: "put", key: k, value: v})
	case 4, 5, 6:
		old := l.do(i, input{op: "get", key: k}).value
		l.do(i, input{"cas", k, old, v})
	default:
		l.do(i, input{op: "get", key: k})
	}
}

// do does an operation and notes it, unless it certainly did nothing.
func (l *load) do(i int, in input) (out output) {
	ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	c, call := l.clients[i], l.h.now()
	var err error
	switch in.op {
	case "get":
		out.value, err = c.Get(ctx, in.key)
	case "put":
		err = c.Put(ctx, in.key, in.value)
	case "delete":
		err = c.Delete(ctx, in.key)
	case "cas":
		out.swapped, err = c.CAS(ctx, in.key, pointer(in.old), pointer(in.value))
	}
	switch {
	case errors.Is(err, client.ErrNotFound):
		err = nil
	case errors.Is(err, client.ErrUnknown):
		out.unknown, err = true, nil
	case errors.Is(err, client.ErrUnavailable):
		l.failed.Add(1)
		return output{}
	}
	if err != nil {
		l.t.Errorf("%+v: %v", in, err)
		return output{}
	}
	l.h.add(i, call, in, out)
	return out
}

func pointer(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// bulk inserts many keys in two steps. It is not in the history: it makes work for the regions to share.
func (l *load) bulk(prefix string, n int) {
	ctx, cancel := context.WithTimeout(l.ctx, opTimeout)
	defer cancel()
	slot := fmt.Sprintf("%sbulk%02d", prefix, n%64)
	l.slots[slot] = slotState{tried: n}
	puts, keys := bulkRows(slot, n)
	c := l.clients[clients]
	start, err := c.Prewrite(ctx, puts)
	var locked *client.LockedError
	if errors.As(err, &locked) { // an insert before this one, of which nothing was heard
		if err = c.Rollback(ctx, locked.Start, keys); err == nil {
			start, err = c.Prewrite(ctx, puts)
		}
	}
	if err == nil {
		err = c.Commit(ctx, start, keys)
	}
	switch {
	case err == nil:
		l.slots[slot] = slotState{tried: n, committed: true}
		l.bulks++
	case !errors.Is(err, client.ErrUnknown) && !errors.Is(err, client.ErrUnavailable):
		l.t.Errorf("bulk insert: %v", err)
	}
}

// slotState is the last insert of the same keys.
type slotState struct {
	tried     int
	committed bool
}

// bulkRows are the rows of an insert: of a slot, always the same keys.
func bulkRows(slot string, n int) (puts map[string]string, keys []string) {
	puts = map[string]string{}
	for i := range 100 {
		k := fmt.Sprintf("%s-%03d", slot, i)
		puts[k] = fmt.Sprintf("%d-%0100d", n, i)
		keys = append(keys, k)
	}
	return puts, keys
}

// readBack reads every key once more, which an acknowledged write must answer, and checks the history.
func (l *load) readBack(t *testing.T) {
	l.end()
	for i := range keysPerRegion * len(prefixes) {
		before := l.h.len()
		l.do(0, input{op: "get", key: key(i)})
		require.Equal(t, before+1, l.h.len(), "nobody answers for %s", key(i))
	}
	l.h.check(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	looked := 0
	for slot, s := range l.slots {
		if !s.committed || looked == 5 {
			continue
		}
		looked++
		rows, _ := bulkRows(slot, s.tried)
		for k, want := range rows {
			got, err := l.clients[0].Get(ctx, k)
			require.NoError(t, err, k)
			require.Equal(t, want, got, k)
		}
	}
}
