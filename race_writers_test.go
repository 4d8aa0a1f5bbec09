package ashlar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/writelab"
	"github.com/ashlardb/ashlar/vfs"
)

// Writers of all kinds at once, each with keys of its own, so that each knows at any moment what the database must show of
// them. A write that returned nil is there at once and for ever; of one that returned an error nothing is ever seen, in no
// family. Every error is one that the write asked for.

// content is what families hold, by their ids.
type content map[uint32]map[string]string

// crowd is a database with its writers.
type crowd struct {
	t       *testing.T
	db      *DB
	steady  []*ColumnFamily                 // those that stay
	passing atomic.Pointer[ColumnFamily]    // one that will be dropped, or was
	closing atomic.Bool                     // Close is about to be called, or was
	writes  atomic.Int64                    // that have returned
	answers [len(crowdAnswers)]atomic.Int64 // how many got each of crowdAnswers
	enough  int64                           // so many writes, and a few rounds of each helper, come before Close
	ready   sync.WaitGroup                  // until they have
	ticks   []chan struct{}                 // of the helpers: each does one thing for so many writes
}

var crowdAnswers = [...]error{nil, ErrIncomplete, context.Canceled, ErrColumnFamilyDropped, ErrClosed}

// crowdEdit is one entry of a batch.
type crowdEdit struct {
	cf         *ColumnFamily
	verb       byte // '=' put, '-' delete, '~' single delete, '+' merge, '/' range delete from key to value
	key, value string
}

func (e crowdEdit) add(b *Batch) error {
	key, value := []byte(e.key), []byte(e.value)
	switch e.verb {
	case '=':
		return b.Put(e.cf, key, value)
	case '-':
		return b.Delete(e.cf, key)
	case '~':
		return b.SingleDelete(e.cf, key)
	case '+':
		return b.Merge(e.cf, key, value)
	}
	return b.DeleteRange(e.cf, key, value)
}

func (e crowdEdit) alone(o *WriteOptions) error {
	key, value := []byte(e.key), []byte(e.value)
	switch e.verb {
	case '=':
		return e.cf.Put(key, value, o)
	case '-':
		return e.cf.Delete(key, o)
	case '~':
		return e.cf.SingleDelete(key, o)
	case '+':
		return e.cf.Merge(key, value, o)
	}
	return e.cf.DeleteRange(key, value, o)
}

// change does the edit to what the family holds.
func (e crowdEdit) change(m map[string]string) {
	old, there := m[e.key]
	switch {
	case e.verb == '=' || e.verb == '+' && !there:
		m[e.key] = e.value
	case e.verb == '+':
		m[e.key] = old + "," + e.value
	case e.verb == '/':
		maps.DeleteFunc(m, func(k, _ string) bool { return e.key <= k && k < e.value })
	default:
		delete(m, e.key)
	}
}

// crowdWriter is one writer. want is what the database must show of its keys.
type crowdWriter struct {
	*crowd
	id   int
	rng  *rand.Rand
	want content
}

// edits draws the entries of a batch, and returns with them what the families they name hold after it.
func (w *crowdWriter) edits(serial int) (edits []crowdEdit, after content) {
	after = content{}
	families := w.steady
	if cf := w.passing.Load(); cf != nil && w.rng.IntN(4) == 0 {
		families = append([]*ColumnFamily{cf}, families...)
	}
	for i := range 1 + w.rng.IntN(3) {
		cf := families[w.rng.IntN(len(families))]
		if i == 0 {
			cf = families[0]
		}
		m := after[cf.ID()]
		if m == nil {
			m = maps.Clone(w.want[cf.ID()])
			if m == nil {
				m = map[string]string{}
			}
			after[cf.ID()] = m
		}
		at := w.rng.IntN(6)
		e := crowdEdit{cf: cf, key: fmt.Sprintf("%03d/k%x", w.id, at), value: fmt.Sprint(serial, strings.Repeat("v", w.rng.IntN(300)))}
		switch n := w.rng.IntN(20); {
		case n < 8:
			e.verb = '='
		case n < 11:
			e.verb = '-'
		case n < 15:
			e.verb = '+'
		case n < 17:
			e.verb, e.value = '/', fmt.Sprintf("%03d/k%x", w.id, at+1+w.rng.IntN(6))
		default: // keys that are put once between two single deletes
			e.verb, e.key = '=', fmt.Sprintf("%03d/s%d", w.id, at)
			if _, there := m[e.key]; there {
				e.verb = '~'
			}
		}
		e.change(m)
		edits = append(edits, e)
	}
	return edits, after
}

// write does one write, and says whether to go on.
func (w *crowdWriter) write(serial int) bool {
	edits, after := w.edits(serial)
	o := &WriteOptions{NoSlowdown: w.rng.IntN(4) == 0, LowPri: w.rng.IntN(8) == 0}
	switch w.rng.IntN(4) {
	case 0:
		o.Sync = true
	case 1:
		o.DisableWAL = true
	}
	how := w.rng.IntN(12)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	closed := w.db.closed.Load()
	gone := slices.ContainsFunc(edits, func(e crowdEdit) bool { return e.cf.dropped.Load() })
	var err error
	if how > 3 && len(edits) == 1 {
		err = edits[0].alone(o)
	} else {
		b := w.db.NewBatch()
		for _, e := range edits {
			err = errors.Join(err, e.add(b))
		}
		switch {
		case err != nil:
		case how > 2:
			err = w.db.Write(b, o)
		case how == 0:
			cancel()
			err = w.db.WriteContext(ctx, b, o)
		default:
			go cancel()
			err = w.db.WriteContext(ctx, b, o)
		}
	}
	answer := 0
	switch {
	case err == nil && !closed && !gone:
		w.took(edits, after)
	case errors.Is(err, ErrIncomplete) && o.NoSlowdown:
		answer = 1
	case errors.Is(err, context.Canceled) && how <= 2:
		answer = 2
	case errors.Is(err, ErrColumnFamilyDropped) && slices.ContainsFunc(edits, w.passes):
		answer = 3
	case errors.Is(err, ErrClosed) && w.closing.Load():
		answer = 4
	default:
		w.t.Errorf("writer %d: %+v, closed before: %v, dropped before: %v: %v", w.id, *o, closed, gone, err)
	}
	w.answers[answer].Add(1)
	n := w.writes.Add(1)
	if n == w.enough {
		w.ready.Done()
	}
	if n%8 == 0 {
		select {
		case w.ticks[n/8%int64(len(w.ticks))] <- struct{}{}:
		default:
		}
	}
	return answer != 4 && !w.t.Failed()
}

// passes says whether the edit's family may be dropped under it.
func (w *crowdWriter) passes(e crowdEdit) bool { return !slices.Contains(w.steady, e.cf) }

// took enters a write that was acknowledged, and looks whether it is there.
func (w *crowdWriter) took(edits []crowdEdit, after content) {
	maps.Copy(w.want, after)
	e := edits[w.rng.IntN(len(edits))]
	want, there := after[e.cf.ID()][e.key]
	got, err := e.cf.Get([]byte(e.key), nil)
	switch {
	case errors.Is(err, ErrClosed) && w.closing.Load():
	case errors.Is(err, ErrColumnFamilyDropped) && w.passes(e):
	case errors.Is(err, ErrNotFound) && !there:
	case err != nil || string(got) != want || !there:
		w.t.Errorf("writer %d: after %c %s: %.30q, %v; want %.30q, %v", w.id, e.verb, e.key, got, err, want, there)
	}
}

// help does what goes on beside the writers, until the database is closed.
func (c *crowd) help(ticks <-chan struct{}, do func(i int) error) {
	for i := 0; ; i++ {
		<-ticks
		switch err := do(i); {
		case err == nil:
			if i == 3 {
				c.ready.Done()
			}
		case c.closing.Load() && (errors.Is(err, ErrClosed) || errors.Is(err, context.Canceled)):
			return
		default:
			c.t.Error(err)
			return
		}
	}
}

// helpers are what goes on beside the writers.
func (c *crowd) helpers(rng *rand.Rand) []func(i int) error {
	ctx := context.Background()
	return []func(i int) error{
		func(i int) error {
			return c.db.Flush(ctx, &FlushOptions{NoWait: i%2 == 0}, c.steady[:i%(len(c.steady)+1)]...)
		},
		func(i int) error {
			from, to := fmt.Appendf(nil, "%03d", i%200), fmt.Appendf(nil, "%03d", i%200+50)
			return c.steady[i%len(c.steady)].CompactRange(ctx, from, to, &CompactRangeOptions{ForceBottommost: i%5 == 0})
		},
		func(i int) error { // families come and go
			if i%2 == 1 {
				return c.db.DropColumnFamily(c.passing.Load()) // and they go on writing to it
			}
			cf, err := c.db.CreateColumnFamily(fmt.Sprint("passing", i), nil)
			if err == nil {
				c.passing.Store(cf)
			}
			return err
		},
		func(i int) error {
			if i%3 == 0 {
				return c.db.SyncWAL(ctx)
			}
			return c.db.FlushWAL(i%3 == 1)
		},
		func(i int) error { // a snapshot shows the same twice
			s := c.db.NewSnapshot()
			defer s.Release()
			var seen [2][]string
			from := fmt.Appendf(nil, "%03d", rng.IntN(256))
			for n := range seen {
				it := c.steady[i%len(c.steady)].NewIterator(&ReadOptions{Snapshot: s, IterateLowerBound: from})
				for ok := it.SeekToFirst(); ok && len(seen[n]) < 50; ok = it.Next() {
					seen[n] = append(seen[n], fmt.Sprintf("%s=%s", it.Key(), it.Value()))
				}
				if err := it.Close(); err != nil {
					return err
				}
			}
			if !slices.Equal(seen[0], seen[1]) {
				return fmt.Errorf("a snapshot showed %.200q, then %.200q", seen[0], seen[1])
			}
			return nil
		},
	}
}

// write lets writers at the database until there were enough writes, and closes it amid them. It returns what it must hold.
func (c *crowd) write(writers int, seed uint64) content {
	var all, helpers sync.WaitGroup
	c.ready.Add(1)
	for _, do := range c.helpers(rand.New(rand.NewPCG(seed, 1000))) {
		tick := make(chan struct{}, 1)
		c.ticks = append(c.ticks, tick)
		c.ready.Add(1)
		helpers.Go(func() { c.help(tick, do) })
	}
	wants := make([]content, writers)
	for id := range writers {
		w := &crowdWriter{crowd: c, id: id, rng: rand.New(rand.NewPCG(seed, uint64(id))), want: content{}}
		wants[id] = w.want
		all.Go(func() {
			for serial := 0; w.write(serial); serial++ {
			}
		})
	}
	closedAfter := func(g *sync.WaitGroup) chan struct{} {
		done := make(chan struct{})
		go func() {
			g.Wait()
			close(done)
		}()
		return done
	}
	ended := closedAfter(&all)
	select {
	case <-closedAfter(&c.ready):
	case <-ended: // the test has failed
	}
	c.closing.Store(true)
	if err := c.db.Close(); err != nil && !errors.Is(err, ErrBusy) { // busy with the iterator
		c.t.Error(err)
	}
	<-ended
	for _, tick := range c.ticks {
		close(tick)
	}
	helpers.Wait()
	<-c.db.finished
	union := content{}
	for _, want := range wants {
		for id, m := range want {
			if union[id] == nil {
				union[id] = map[string]string{}
			}
			maps.Copy(union[id], m)
		}
	}
	return union
}

func namesOfFamilies(db *DB) (names []string) {
	for _, cf := range db.ColumnFamilies() {
		names = append(names, cf.Name())
	}
	return names
}

func TestManyWritersOfAllKindsBesideEverythingLoseNothingAndKeepNothingThatWasRefused(t *testing.T) {
	const writers = 256
	rounds, enough := 1, int64(8*writers)
	if longRun() {
		rounds, enough = 3, 40*writers
	}
	seed := newSeed()
	t.Logf("seed %d", seed)
	for round := range rounds {
		for i, mode := range logModes {
			t.Run(fmt.Sprintf("%d %+v", round, mode), func(t *testing.T) {
				o := memOptions(vfs.NewMem())
				o.MergeOperator = StringAppendOperator(",")
				o.MaxBackgroundJobs = 4
				o.Level0SlowdownWritesTrigger, o.Level0StopWritesTrigger = 4, 6
				mode.set(o)
				switch (i + round) % 3 { // who inserts
				case 0:
					writelab.Set(o, writelab.Dials{SpreadFrom: 2})
				case 1:
					o.NoConcurrentMemtableWrite = true
				}
				db, err := Open("db", o)
				require.NoError(t, err)
				c := &crowd{t: t, db: db, steady: []*ColumnFamily{db.DefaultColumnFamily()}, enough: enough}
				for _, name := range []string{"second", "third"} {
					cf, err := db.CreateColumnFamily(name, nil)
					require.NoError(t, err)
					c.steady = append(c.steady, cf)
				}
				want := c.write(writers, seed+uint64(round*len(logModes)+i))
				for n, answer := range crowdAnswers {
					t.Logf("%d writes: %v", c.answers[n].Load(), answer)
				}
				require.NotZero(t, c.answers[0].Load())

				db, err = Open("db", o)
				require.NoError(t, err)
				require.Subset(t, namesOfFamilies(db), []string{"default", "second", "third"})
				for _, cf := range db.ColumnFamilies() {
					if want[cf.ID()] == nil {
						want[cf.ID()] = map[string]string{}
					}
					found, err := contentOf(cf)
					require.NoError(t, err)
					require.Equal(t, want[cf.ID()], found, cf.Name())
				}
				checkClean(t, db)
				require.NoError(t, db.Close())
			})
		}
	}
}
