package metamorphic

import (
	"flag"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/offheap"
)

var (
	seedFlag = flag.Uint64("seed", 0, "seed of the first run; 0 draws one")
	runsFlag = flag.Int("runs", 0, "number of runs; 0 goes on for a few seconds")
	opsFlag  = flag.Int("ops", defaultOps, "operations of a run")
	setsFlag = flag.Int("sets", defaultSets, "databases of a run, with different options")
)

// Bug bank 20 and 22, facebook/rocksdb#2752 and #5392: range deletes among writes of all kinds, under snapshots, through
// flushes and compactions, read in every way.
func TestEveryDatabaseGivesTheModelsAnswers(t *testing.T) {
	seed, runs := *seedFlag, *runsFlag
	if seed == 0 {
		seed = rand.Uint64()>>16 + 1
	}
	if os.Getenv("ASHLAR_LONG") != "" && runs == 0 {
		runs = 1000
	}
	const short = 2 * time.Second
	start := time.Now()
	n := 0
	for ; runs == 0 && (n == 0 || time.Since(start) < short) || n < runs; n++ {
		if runs > 0 && n%50 == 0 {
			t.Logf("run %d after %v", n, time.Since(start).Round(time.Second))
		}
		runOne(t, seed+uint64(n), *opsFlag)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d runs of %d operations on %d databases each, from -seed %d on, in %v", n, *opsFlag, *setsFlag, seed, time.Since(start).Round(time.Millisecond))
}

func runOne(t *testing.T, seed uint64, n int) {
	ops := Generate(seed, n)
	want := History(ops)
	for set := range *setsFlag {
		r := RandomRun(seed, uint64(set))
		goroutines, live := runtime.NumGoroutine(), offheap.Live()
		if f := r.compare(ops, want); f != nil {
			t.Errorf("-seed %d, database %d: operation %d: got\n%s\nwant\n%s", seed, set, f.At, f.Got, f.Want)
			less, f := r.Shrink(ops, 600)
			if f == nil {
				t.Log("it did not fail again")
				return
			}
			t.Errorf("operation %d of this play got\n%s\nwant\n%s\n\n%s", f.At, f.Got, f.Want, r.Script(less))
			return
		}
		require.Equal(t, live, offheap.Live(), "memory of the cache is left: -seed %d, database %d", seed, set)
		require.NoError(t, settle(goroutines), "-seed %d, database %d", seed, set)
	}
}

// settle waits until there are no more goroutines than n. One that has done its work may still be about to end, and on
// a busy machine that takes a while.
func settle(n int) error {
	for start := time.Now(); runtime.NumGoroutine() > n && time.Since(start) < 10*time.Second; {
		runtime.Gosched()
	}
	if got := runtime.NumGoroutine(); got > n {
		return errLeft{got - n}
	}
	return nil
}

type errLeft struct{ n int }

func (e errLeft) Error() string {
	b := make([]byte, 1<<16)
	return string(b[:runtime.Stack(b, true)])
}
