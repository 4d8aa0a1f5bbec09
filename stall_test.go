package ashlar

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/vfs"
)

func TestStallRules(t *testing.T) {
	const gib = 1 << 30
	full := (&ColumnFamilyOptions{}).withDefaults()
	four := full
	four.MaxWriteBufferNumber = 4
	small := full
	small.SoftPendingCompactionBytesLimit, small.HardPendingCompactionBytesLimit = 100, 200
	for _, tc := range []struct {
		name string
		in   stallInput
		want stallState
	}{
		{"nothing to wait for", stallInput{autoCompact: true}, stallState{}},
		{"one full memtable of two", stallInput{unflushed: 1, autoCompact: true}, stallState{}},
		{"as many as there may be", stallInput{unflushed: 2, autoCompact: true}, stallState{kind: stallStop, cause: causeMemtable}},
		{"memtables count without compactions too", stallInput{unflushed: 2}, stallState{kind: stallStop, cause: causeMemtable}},
		{"with more than three the last but one delays", stallInput{unflushed: 3, o: &four, autoCompact: true}, stallState{kind: stallDelay, cause: causeMemtable}},
		{"but not the one before", stallInput{unflushed: 2, o: &four, autoCompact: true}, stallState{}},
		{"7 files of level 0", stallInput{l0: 7, autoCompact: true}, stallState{}},
		{"8 files press", stallInput{l0: 8, autoCompact: true}, stallState{kind: stallPressure}},
		{"19 too", stallInput{l0: 19, autoCompact: true}, stallState{kind: stallPressure}},
		{"20 delay", stallInput{l0: 20, autoCompact: true}, stallState{kind: stallDelay, cause: causeL0}},
		{"33", stallInput{l0: 33, autoCompact: true}, stallState{kind: stallDelay, cause: causeL0}},
		{"34 are near a stop", stallInput{l0: 34, autoCompact: true}, stallState{kind: stallDelay, cause: causeL0, near: true}},
		{"36 stop", stallInput{l0: 36, autoCompact: true}, stallState{kind: stallStop, cause: causeL0}},
		{"not when nobody compacts", stallInput{l0: 360, pending: 1 << 60}, stallState{}},
		{"debt presses from twice the base level on", stallInput{pending: gib / 2, autoCompact: true}, stallState{kind: stallPressure}},
		{"less does not", stallInput{pending: gib/2 - 1, autoCompact: true}, stallState{}},
		{"a large bottom bears more", stallInput{pending: gib, bottommost: 16 * gib, autoCompact: true}, stallState{}},
		{"an eighth of it", stallInput{pending: 2 * gib, bottommost: 16 * gib, autoCompact: true}, stallState{kind: stallPressure}},
		{"soft limit", stallInput{pending: 64 * gib, autoCompact: true}, stallState{kind: stallDelay, cause: causePending}},
		{"just below it", stallInput{pending: 64*gib - 1, autoCompact: true}, stallState{kind: stallPressure}},
		{"three quarters to the hard one", stallInput{pending: 175, o: &small, autoCompact: true}, stallState{kind: stallDelay, cause: causePending, near: true}},
		{"hard limit", stallInput{pending: 256 * gib, autoCompact: true}, stallState{kind: stallStop, cause: causePending}},
		{"memtables come first", stallInput{unflushed: 2, l0: 99, pending: 1 << 60, autoCompact: true}, stallState{kind: stallStop, cause: causeMemtable}},
		{"a stop before a delay", stallInput{l0: 20, pending: 256 * gib, autoCompact: true}, stallState{kind: stallStop, cause: causePending}},
	} {
		if tc.in.o == nil {
			tc.in.o = &full
		}
		require.Equal(t, tc.want, decideStall(tc.in), tc.name)
	}
}

// More of what stalls never makes it milder.
func TestStallsGrowWithTheirCauses(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		o := ColumnFamilyOptions{
			MaxWriteBufferNumber: 2 + rng.IntN(5), Level0FileNumCompactionTrigger: 1 + rng.IntN(10), Level0SlowdownWritesTrigger: rng.IntN(30),
			Level0StopWritesTrigger: rng.IntN(40), SoftPendingCompactionBytesLimit: rng.Uint64N(1000), HardPendingCompactionBytesLimit: rng.Uint64N(2000),
			MaxBytesForLevelBase: rng.Uint64N(100),
		}
		o = o.withDefaults()
		in := stallInput{unflushed: rng.IntN(8), l0: rng.IntN(50), pending: rng.Uint64N(3000), bottommost: rng.Uint64N(3000), o: &o, autoCompact: rng.IntN(5) > 0}
		a := decideStall(in)
		switch rng.IntN(3) {
		case 0:
			in.unflushed++
		case 1:
			in.l0++
		default:
			in.pending++
		}
		require.LessOrEqual(t, a.kind, decideStall(in).kind, "%+v %+v", in, o)
	}
}

func TestADelayerHandsOutItsRate(t *testing.T) {
	for _, n := range []int{100, 10_000, 1 << 20} {
		d := delayer{max: 1 << 20, rate: 1 << 20}
		d.set(stallState{kind: stallDelay}, 0, false)
		begin := time.Unix(1000, 0)
		now := begin
		bytes := 0
		for now.Sub(begin) < 10*time.Second {
			wait := d.delay(now, n)
			require.GreaterOrEqual(t, wait, time.Duration(0))
			now = now.Add(wait + 10*time.Microsecond)
			bytes += n
		}
		require.InEpsilon(t, 1<<20, float64(bytes)/now.Sub(begin).Seconds(), 0.35, "%d bytes at a time", n)
	}
}

func TestADelayerTurnsItsRateAsTheDebtMoves(t *testing.T) {
	d := delayer{max: 1 << 20, rate: 1 << 20}
	delay, near, stop := stallState{kind: stallDelay}, stallState{kind: stallDelay, near: true}, stallState{kind: stallStop}
	require.Zero(t, d.delay(time.Unix(1, 0), 1<<30), "off")
	d.set(delay, 100, false)
	require.EqualValues(t, 1<<20, d.rate)
	d.set(delay, 100, false)
	require.EqualValues(t, 838860, d.rate, "the debt has not fallen")
	d.set(delay, 90, false)
	require.EqualValues(t, 1<<20-1, d.rate, "it has")
	d.set(near, 90, false)
	require.EqualValues(t, (1<<20-1)*6/10, d.rate, "near a stop")
	d.set(stop, 90, false)
	d.set(delay, 80, true)
	require.EqualValues(t, (1<<20-1)*6/10*6/10, d.rate, "out of a stop")
	for range 100 {
		d.set(near, 80, false)
	}
	require.EqualValues(t, minDelayRate, d.rate)
	d.set(stallState{}, 0, false)
	require.False(t, d.on)
	require.EqualValues(t, minDelayRate*14/10, d.rate, "recovery raises it")
	for i := range 100 {
		d.set(delay, uint64(1000-i), false)
	}
	require.EqualValues(t, 1<<20, d.rate, "up to the most")

	d = delayer{max: maxDelayRate, rate: maxDelayRate}
	for i := range 50 {
		d.set(delay, uint64(1000-i), false)
		require.LessOrEqual(t, d.delay(time.Unix(1, 0), 1<<20), refillEvery)
	}
}

// held opens a database whose background does nothing until let go.
func held(t *testing.T, change func(*Options)) (db *DB, letGo func()) {
	o := memOptions(vfs.NewMem())
	if change != nil {
		change(o)
	}
	db, err := Open("db", o)
	require.NoError(t, err)
	db.mu.Lock()
	db.opened = false
	db.mu.Unlock()
	return db, func() {
		db.mu.Lock()
		defer db.mu.Unlock()
		db.opened = true
		db.scheduleLocked()
	}
}

// stopWrites makes full memtables until writes stop.
func stopWrites(t *testing.T, db *DB) {
	for i := range 2 {
		mustPut(t, db.DefaultColumnFamily(), fmt.Sprint("full", i), "v", nil)
		require.NoError(t, db.Flush(context.Background(), &FlushOptions{NoWait: true}))
	}
	v, ok := db.Property("rocksdb.is-write-stopped")
	require.True(t, ok)
	require.Equal(t, "1", v)
}

func TestAStopHoldsWritersUntilAFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, letGo := held(t, nil)
		stopWrites(t, db)
		ctx, cancel := context.WithCancel(context.Background())
		var b Batch
		require.NoError(t, b.Put(nil, []byte("cancelled"), nil))
		var wg sync.WaitGroup
		var mu sync.Mutex
		got := map[string]error{}
		run := func(name string, f func() error) {
			wg.Go(func() {
				err := f()
				mu.Lock()
				defer mu.Unlock()
				got[name] = err
			})
			synctest.Wait()
		}
		run("leader", func() error { return db.WriteContext(ctx, &b, nil) })
		run("plain", func() error { return db.Put([]byte("plain"), nil, nil) })
		run("synced", func() error { return db.Put([]byte("synced"), nil, Sync) })
		run("quick", func() error { return db.Put([]byte("quick"), nil, &WriteOptions{NoSlowdown: true}) })
		mu.Lock()
		require.Len(t, got, 1)
		require.ErrorIs(t, got["quick"], ErrIncomplete)
		mu.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, "", valueOf(t, db.DefaultColumnFamily(), "plain"), "reads go on, and nothing was written")

		cancel()
		synctest.Wait()
		mu.Lock()
		require.ErrorIs(t, got["leader"], context.Canceled)
		require.Len(t, got, 2, "the next one leads and waits")
		mu.Unlock()
		run("quick again", func() error { return db.Put([]byte("quick"), nil, &WriteOptions{NoSlowdown: true}) })
		letGo()
		wg.Wait()
		require.ErrorIs(t, got["quick again"], ErrIncomplete)
		require.NoError(t, got["plain"])
		require.NoError(t, got["synced"])
		require.Len(t, must(contentOf(db.DefaultColumnFamily())), 4)
		require.Equal(t, time.Hour.Microseconds(), int64(db.Metrics().StallMicros))
		require.NoError(t, db.Close())
	})
}

func TestCloseAndErrorsEndAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		for _, want := range []error{ErrClosed, broken} {
			db, _ := held(t, nil)
			stopWrites(t, db)
			done, closed := make(chan error, 1), make(chan error, 1)
			go func() { done <- db.Put([]byte("a"), nil, nil) }()
			synctest.Wait()
			if want == broken {
				db.setBackgroundError(reasonLog, broken)
				synctest.Wait()
			}
			go func() { closed <- db.Close() }()
			require.ErrorIs(t, <-done, want)
			require.NoError(t, <-closed)
		}
	})
}

func TestADelayTakesAsLongAsTheRateSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, _ := held(t, func(o *Options) { o.DelayedWriteRate = 1 << 20 })
		set := func(k stallKind) {
			db.mu.Lock()
			defer db.mu.Unlock()
			db.stall = stallState{kind: k}
			db.delays.set(db.stall, 0, false)
			db.stalled.Store(uint32(k))
			db.cond.Broadcast()
		}
		set(stallDelay)
		start := time.Now()
		value := string(make([]byte, 1000))
		const n = 30
		for i := range n {
			mustPut(t, db.DefaultColumnFamily(), fmt.Sprint(i), value, nil)
		}
		require.InEpsilon(t, n*1000.0/(1<<20), time.Since(start).Seconds(), 0.3)
		require.ErrorIs(t, eventually(func() error { return db.Put([]byte("k"), nil, &WriteOptions{NoSlowdown: true}) }), ErrIncomplete)

		// A low-priority write makes way under pressure already, others do not.
		set(stallPressure)
		start = time.Now()
		mustPut(t, db.DefaultColumnFamily(), "k", value, nil)
		require.Zero(t, time.Since(start))
		mustPut(t, db.DefaultColumnFamily(), "k", value, &WriteOptions{LowPri: true})
		require.Positive(t, time.Since(start))
		start = time.Now()
		set(stallNone)
		mustPut(t, db.DefaultColumnFamily(), "k", value, &WriteOptions{LowPri: true})
		require.Zero(t, time.Since(start))
		require.NoError(t, db.Close())
	})
}

// eventually calls f until it fails.
func eventually(f func() error) error {
	for range 100 {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}
