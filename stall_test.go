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
	manual := full
	manual.DisableAutoCompactions = true
	four := full
	four.MaxWriteBufferNumber = 4
	small := full
	small.SoftPendingCompactionBytesLimit, small.HardPendingCompactionBytesLimit = 100, 200
	for _, tc := range []struct {
		name string
		in   stallInput
		want stallState
	}{
		{"nothing to wait for", stallInput{}, stallState{}},
		{"one full memtable of two", stallInput{unflushed: 1}, stallState{}},
		{"as many as there may be", stallInput{unflushed: 2}, stallState{kind: stallStop, cause: causeMemtable}},
		{"memtables count without compactions too", stallInput{unflushed: 2, o: &manual}, stallState{kind: stallStop, cause: causeMemtable}},
		{"with more than three the last but one delays", stallInput{unflushed: 3, o: &four}, stallState{kind: stallDelay, cause: causeMemtable}},
		{"but not the one before", stallInput{unflushed: 2, o: &four}, stallState{}},
		{"7 files of level 0", stallInput{l0: 7}, stallState{}},
		{"8 files press", stallInput{l0: 8}, stallState{kind: stallPressure}},
		{"19 too", stallInput{l0: 19}, stallState{kind: stallPressure}},
		{"20 delay", stallInput{l0: 20}, stallState{kind: stallDelay, cause: causeL0}},
		{"33", stallInput{l0: 33}, stallState{kind: stallDelay, cause: causeL0}},
		{"34 are near a stop", stallInput{l0: 34}, stallState{kind: stallDelay, cause: causeL0, near: true}},
		{"36 stop", stallInput{l0: 36}, stallState{kind: stallStop, cause: causeL0}},
		{"where the user compacts they only press", stallInput{l0: 360, pending: 1 << 60, o: &manual}, stallState{kind: stallPressure}},
		{"debt presses from twice the base level on", stallInput{pending: gib / 2, bottommost: 1}, stallState{kind: stallPressure}},
		{"less does not", stallInput{pending: gib/2 - 1, bottommost: 1}, stallState{}},
		{"with nothing at the bottom, from a quarter of the soft limit on", stallInput{pending: 16 * gib}, stallState{kind: stallPressure}},
		{"less does not", stallInput{pending: 16*gib - 1}, stallState{}},
		{"a large bottom bears more", stallInput{pending: gib, bottommost: 16 * gib}, stallState{}},
		{"an eighth of it", stallInput{pending: 2 * gib, bottommost: 16 * gib}, stallState{kind: stallPressure}},
		{"soft limit", stallInput{pending: 64 * gib}, stallState{kind: stallDelay, cause: causePending}},
		{"just below it", stallInput{pending: 64*gib - 1}, stallState{kind: stallPressure}},
		{"three quarters to the hard one", stallInput{pending: 176, o: &small}, stallState{kind: stallDelay, cause: causePending, near: true}},
		{"not quite", stallInput{pending: 175, o: &small}, stallState{kind: stallDelay, cause: causePending}},
		{"hard limit", stallInput{pending: 256 * gib}, stallState{kind: stallStop, cause: causePending}},
		{"memtables come first", stallInput{unflushed: 2, l0: 99, pending: 1 << 60}, stallState{kind: stallStop, cause: causeMemtable}},
		{"a stop before a delay", stallInput{l0: 20, pending: 256 * gib}, stallState{kind: stallStop, cause: causePending}},
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
			MaxBytesForLevelBase: rng.Uint64N(100), DisableAutoCompactions: rng.IntN(5) == 0,
		}
		o = o.withDefaults()
		in := stallInput{unflushed: rng.IntN(8), l0: rng.IntN(50), pending: rng.Uint64N(3000), bottommost: rng.Uint64N(3000), o: &o}
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
		d := newDelayer(1 << 20)
		begin := time.Unix(1000, 0)
		require.Zero(t, d.delay(begin, 1<<30), "nobody is delayed")
		d.change(stallChange{to: stallState{kind: stallDelay}})
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

// The arithmetic of one delay, step by step: a credit of one interval to begin with, refilled each millisecond, and debts
// that move the next refill.
func TestADelaysCreditAndDebt(t *testing.T) {
	d := newDelayer(1_000_000) // 1000 bytes a millisecond
	d.change(stallChange{to: stallState{kind: stallDelay}})
	ms := func(n float64) time.Time { return time.Unix(1000, int64(n*1e6)) }
	for i, step := range []struct {
		at   float64 // ms
		n    int
		want float64 // ms
	}{
		{0, 0, 0},          // nothing costs nothing
		{0, 600, 0},        // of 1000
		{0.5, 400, 0},      // which are used up
		{0.5, 1, 1},        // the least that one waits
		{1.5, 2500, 2.001}, // there are 1000 for the interval and 499 for what passed since the refill; that is moved
		{30, 1000, 0},      // what was idle is credit
		{30, 20_000, 0},
		{31, 100_000, 93.501},
	} {
		got := d.delay(ms(step.at), step.n)
		require.InDelta(t, step.want, got.Seconds()*1000, 0.001, "step %d", i)
	}
}

func TestADelayersRateFollowsTheDebt(t *testing.T) {
	const rate, most = 1 << 20, 4 << 20
	normal, press := stallState{}, stallState{kind: stallPressure}
	delay, near, stop := stallState{kind: stallDelay}, stallState{kind: stallDelay, near: true}, stallState{kind: stallStop}
	for _, tc := range []struct {
		name    string
		delayed int // families delayed before, this one included
		c       stallChange
		want    uint64
		lowPri  uint64
	}{
		{"the first delay begins with the rate as it was", 0, stallChange{from: normal, to: delay, debtBefore: 1, debt: 9}, rate, lowPriInitial},
		{"even near a stop", 0, stallChange{from: normal, to: near}, rate, lowPriInitial},
		{"and after one", 0, stallChange{from: stop, to: delay, wasStopped: true}, rate, lowPriInitial},
		{"while another family is delayed it turns", 1, stallChange{from: normal, to: delay, debtBefore: 1, debt: 9}, rate * 8 / 10, lowPriInitial},
		{"the debt has grown", 1, stallChange{from: delay, to: delay, debtBefore: 5, debt: 6}, rate * 8 / 10, lowPriInitial},
		{"or not moved", 1, stallChange{from: delay, to: delay, debtBefore: 5, debt: 5}, rate * 8 / 10, lowPriInitial},
		{"there was none", 1, stallChange{from: delay, to: delay, debt: 5}, rate, lowPriInitial},
		{"it has shrunk", 1, stallChange{from: delay, to: delay, debtBefore: 5, debt: 4}, rate * 125 / 100, lowPriInitial},
		{"near a stop, whatever the debt does", 1, stallChange{from: delay, to: near, debtBefore: 5, debt: 4}, rate * 6 / 10, lowPriInitial},
		{"another family had stopped writes", 1, stallChange{from: delay, to: delay, debtBefore: 5, debt: 4, wasStopped: true}, rate * 6 / 10, lowPriInitial},
		{"where the user compacts it is always the most", 1, stallChange{from: delay, to: near, manual: true}, most, lowPriInitial},
		{"a stop leaves it", 1, stallChange{from: delay, to: stop, debtBefore: 5, debt: 9}, rate, lowPriInitial},
		{"recovery raises it", 1, stallChange{from: delay, to: normal}, rate * 14 / 10, rate / 4},
		{"to pressure too", 1, stallChange{from: delay, to: press}, rate * 14 / 10, rate / 4},
		{"not recovery from a stop", 0, stallChange{from: stop, to: normal}, rate, lowPriInitial},
		{"nor what was well already", 1, stallChange{from: normal, to: normal}, rate, lowPriInitial},
	} {
		d := newDelayer(most)
		d.rate, d.delayed = rate, tc.delayed
		d.change(tc.c)
		require.Equal(t, tc.want, d.rate, tc.name)
		require.Equal(t, tc.lowPri, d.lowPri.rate, tc.name)
		want := tc.delayed
		if tc.c.from.kind == stallDelay {
			want--
		}
		if tc.c.to.kind == stallDelay {
			want++
		}
		require.Equal(t, want, d.delayed, tc.name)
	}
}

func TestADelayersRateHasEnds(t *testing.T) {
	near, less := stallState{kind: stallDelay, near: true}, stallChange{debtBefore: 2, debt: 1}
	less.from, less.to = stallState{kind: stallDelay}, stallState{kind: stallDelay}
	for _, most := range []uint64{1 << 20, NoLimit} {
		d := newDelayer(most)
		d.change(stallChange{to: near})
		for range 200 {
			d.change(stallChange{from: near, to: near})
		}
		require.EqualValues(t, minDelayRate, d.rate)
		for range 200 {
			d.change(less)
		}
		require.EqualValues(t, min(most, maxDelayRate), d.rate)
		require.LessOrEqual(t, d.delay(time.Unix(1, 0), 1<<10), refillEvery)
	}
	// A rate below the floor that the user wants is left alone.
	d := newDelayer(100)
	d.change(stallChange{to: near})
	d.change(stallChange{from: near, to: near})
	require.EqualValues(t, 100, d.rate)
}

func TestABucketGivesWhatItHasAndThenItsRate(t *testing.T) {
	for _, n := range []int{1, 100, 1 << 20} {
		b := bucket{rate: 1 << 20}
		begin := time.Unix(1000, 0)
		now, bytes := begin, 0
		for now.Sub(begin) < 10*time.Second {
			now = now.Add(b.take(now, n) + time.Microsecond)
			bytes += n
		}
		require.InEpsilon(t, 1<<20, float64(bytes)/now.Sub(begin).Seconds(), 0.15, "%d bytes at a time", n)
	}
	b := bucket{rate: 1000}
	at := time.Unix(1000, 0)
	require.Zero(t, b.take(at, 100), "a tenth of a second's bytes are there")
	require.Equal(t, time.Second, b.take(at, 1000))
	require.Equal(t, 2*time.Second, b.take(at, 1000), "who comes next comes after that")
	require.Zero(t, b.take(at.Add(time.Hour), 100), "an idle hour")
	require.Equal(t, time.Millisecond, b.take(at.Add(time.Hour), 1), "counts for a tenth of a second")
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
		db, _ := held(t, func(o *Options) { o.DelayedWriteRate, o.MaxWriteBufferNumber = 1<<20, 4 })
		for i := range 3 { // of 4
			mustPut(t, db.DefaultColumnFamily(), fmt.Sprint("full", i), "v", nil)
			require.NoError(t, db.Flush(context.Background(), &FlushOptions{NoWait: true}))
		}
		rate, _ := db.Property("rocksdb.actual-delayed-write-rate")
		require.Equal(t, "1048576", rate)
		start := time.Now()
		value := string(make([]byte, 1000))
		const n = 30
		for i := range n {
			mustPut(t, db.DefaultColumnFamily(), fmt.Sprint(i), value, nil)
		}
		took := time.Since(start)
		require.InEpsilon(t, n*1000.0/(1<<20), took.Seconds(), 0.3)
		require.ErrorIs(t, eventually(func() error { return db.Put([]byte("k"), nil, &WriteOptions{NoSlowdown: true}) }), ErrIncomplete)
		delays := db.Metrics().Families[0].WriteStalls.MemtableLimit.Delays
		require.EqualValues(t, 1, delays.Count)
		require.Equal(t, took, delays.HeldFor)
		require.Equal(t, took, delays.Duration)
		require.Greater(t, delays.Groups, uint64(n/3))

		require.NoError(t, db.SetOptions(map[string]string{"max_write_buffer_number": "9"}))
		rate, _ = db.Property("rocksdb.actual-delayed-write-rate")
		require.Equal(t, "0", rate)
		start = time.Now()
		mustPut(t, db.DefaultColumnFamily(), "k", value, nil)
		require.Zero(t, time.Since(start))
		require.NoError(t, db.Close())
	})
}

// pressed opens a database whose compactions are behind, and are left to the user.
func pressed(t *testing.T) *DB {
	o := memOptions(vfs.NewMem())
	o.DisableAutoCompactions, o.Level0FileNumCompactionTrigger = true, 1
	db, err := Open("db", o)
	require.NoError(t, err)
	for i := range 2 {
		mustPut(t, db.DefaultColumnFamily(), fmt.Sprint(i), "v", nil)
		require.NoError(t, db.Flush(context.Background(), nil))
	}
	require.Equal(t, "pressure", db.Metrics().Families[0].Stall)
	return db
}

func TestLowPriorityWritesMakeWayUnderPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := pressed(t)
		value := string(make([]byte, 64<<10))
		low := &WriteOptions{LowPri: true}
		start := time.Now()
		for i := range 10 {
			mustPut(t, db.DefaultColumnFamily(), fmt.Sprint(i), value, nil)
		}
		require.Zero(t, time.Since(start), "others do not")
		const n = 32
		for i := range n {
			mustPut(t, db.DefaultColumnFamily(), fmt.Sprint(i), value, low)
		}
		require.InEpsilon(t, float64(n*len(value)-lowPriInitial/lowPriAhead)/lowPriInitial, time.Since(start).Seconds(), 0.05)
		require.Equal(t, time.Since(start), db.Metrics().LowPriHeldFor)
		require.ErrorIs(t, db.Put([]byte("k"), nil, &WriteOptions{LowPri: true, NoSlowdown: true}), ErrIncomplete)

		// They hold nobody up while they wait: they are not in the queue.
		done := make(chan error, 3)
		go func() { done <- db.Put([]byte("k"), []byte(value), low) }()
		synctest.Wait()
		start = time.Now()
		mustPut(t, db.DefaultColumnFamily(), "other", value, nil)
		require.Zero(t, time.Since(start))
		require.Empty(t, done)

		// A wait ends when its context does, and with the pressure.
		ctx, cancel := context.WithCancel(context.Background())
		var b Batch
		require.NoError(t, b.Put(nil, []byte("given up"), []byte(value)))
		go func() { done <- db.WriteContext(ctx, &b, low) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, db.SetOptions(map[string]string{"level0_file_num_compaction_trigger": "1000"}))
		require.NoError(t, <-done)
		require.Zero(t, time.Since(start))
		mustPut(t, db.DefaultColumnFamily(), "k", value, low)
		require.Zero(t, time.Since(start))
		require.NoError(t, db.Close())
	})
}

func TestCloseEndsTheWaitOfALowPriorityWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := pressed(t)
		done := make(chan error, 1)
		go func() { done <- db.Put([]byte("k"), make([]byte, 1<<20), &WriteOptions{LowPri: true}) }()
		synctest.Wait()
		require.NoError(t, db.Close())
		require.ErrorIs(t, <-done, ErrClosed)
	})
}

// A stop is told of, counted and timed, for the family that it comes from and the rule behind it.
func TestStallsAreAccountedForByFamilyAndRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []StallInfo
		db, letGo := held(t, func(o *Options) {
			o.Listener.OnStallConditionsChanged = func(i StallInfo) { events = append(events, i) }
		})
		other, err := db.CreateColumnFamily("other", nil)
		require.NoError(t, err)
		for range 2 {
			mustPut(t, other, "k", "v", nil)
			require.NoError(t, db.Flush(context.Background(), &FlushOptions{NoWait: true}, other))
		}
		time.Sleep(time.Minute) // stopped, but nobody writes
		done := make(chan error)
		go func() { done <- db.Put([]byte("k"), nil, nil) }()
		time.Sleep(time.Hour)
		text, ok := other.Property("rocksdb.cf-write-stall-stats")
		require.True(t, ok)
		require.Equal(t, "Write Stall (count): cf-l0-file-count-limit-delays-with-ongoing-compaction: 0, "+
			"cf-l0-file-count-limit-stops-with-ongoing-compaction: 0, l0-file-count-limit-delays: 0, l0-file-count-limit-stops: 0, "+
			"memtable-limit-delays: 0, memtable-limit-stops: 1, pending-compaction-bytes-delays: 0, "+
			"pending-compaction-bytes-stops: 0, total-delays: 0, total-stops: 1\n", text)
		require.Equal(t, time.Hour+time.Minute, db.Metrics().Families[1].WriteStalls.MemtableLimit.Stops.Duration, "up to now")
		letGo()
		require.NoError(t, <-done)
		time.Sleep(time.Hour)
		m := db.Metrics()
		require.Equal(t, StallTimes{1, time.Hour + time.Minute, 1, time.Hour}, m.Families[1].WriteStalls.MemtableLimit.Stops)
		require.Equal(t, m.Families[1].WriteStalls.MemtableLimit, m.Families[1].WriteStalls.Total())
		require.Zero(t, m.Families[0].WriteStalls, "it was not the default family")
		text, ok = db.Property("rocksdb.db-write-stall-stats")
		require.True(t, ok)
		require.Equal(t, "Write Stall (count): write-buffer-manager-limit-stops: 0\n", text)
		require.NoError(t, db.Close())
		require.Equal(t, []StallInfo{
			{"other", "stopped", "memtable-limit", "normal", "", 0},
			{"other", "normal", "", "stopped", "memtable-limit", time.Hour + time.Minute},
		}, events)
	})
}

func TestAStallRecordSumsUpByCondition(t *testing.T) {
	var r stallRecord
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	state := stallState{}
	enter := func(second int, k stallKind, c stallCause, busy bool) time.Duration {
		to := stallState{kind: k, cause: c}
		d := r.change(state, to, at(second), busy)
		state = to
		return d
	}
	require.Zero(t, enter(0, stallDelay, causeL0, true))
	require.Equal(t, 5*time.Second, enter(5, stallStop, causeL0, true))
	enter(6, stallDelay, causeL0, false)
	enter(8, stallStop, causePending, true)
	enter(11, stallDelay, causePending, true)
	enter(15, stallPressure, causeNone, true)
	enter(100, stallDelay, causeMemtable, true)
	got := r.at(state, at(106))
	require.Equal(t, WriteStalls{
		L0FileCountLimit:              CauseStalls{StallTimes{Count: 2, Duration: 7 * time.Second}, StallTimes{Count: 1, Duration: time.Second}},
		PendingCompactionBytes:        CauseStalls{StallTimes{Count: 1, Duration: 4 * time.Second}, StallTimes{Count: 1, Duration: 3 * time.Second}},
		MemtableLimit:                 CauseStalls{Delays: StallTimes{Count: 1, Duration: 6 * time.Second}},
		L0DelaysWithOngoingCompaction: 1, L0StopsWithOngoingCompaction: 1,
	}, got)
	require.Equal(t, got, r.at(state, at(106)), "looking changes nothing")
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
