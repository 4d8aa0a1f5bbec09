package txn

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/vfs/faultfs"
)

func prepare(t testing.TB, db *DB, name string, sync bool, writes ...string) *Txn {
	t.Helper()
	x := db.Begin(&TxnOptions{Write: ashlar.WriteOptions{Sync: sync}})
	require.NoError(t, x.SetName(name))
	for i := 0; i < len(writes); i += 2 {
		put(t, x, writes[i], writes[i+1])
	}
	require.NoError(t, x.Prepare())
	return x
}

func names(db *DB) (all []string) {
	for _, p := range db.Prepared() {
		all = append(all, p.Name())
	}
	return all
}

func TestWhatIsPreparedSurvivesACrashAndIsDoneOnCommit(t *testing.T) {
	m := vfs.NewMem()
	db := mustOpen(t, true, m)
	set(t, db, "a", "0")
	x := prepare(t, db, "one", true, "a", "1", "b", "1")
	prepare(t, db, "two", true, "c", "2")
	prepare(t, db, "three", true, "d", "3")
	require.Equal(t, "0", value(t, db.Get, "a"), "prepared is not committed")
	require.Equal(t, "1", value(t, x.Get, "a"))
	require.ErrorIs(t, x.Put(nil, []byte("z"), nil), ashlar.ErrInvalidArgument)
	require.ErrorIs(t, x.Prepare(), ashlar.ErrInvalidArgument)
	require.ErrorIs(t, x.SetName("again"), ashlar.ErrInvalidArgument)

	for range 2 { // the second time it was carried over
		m = m.Crash(nil)
		db = mustOpen(t, true, m)
		require.Equal(t, []string{"one", "three", "two"}, names(db))
		require.Equal(t, map[string]string{"a": "0"}, contents(t, db.DefaultColumnFamily()))
	}
	one, three, two := db.Prepared()[0], db.Prepared()[1], db.Prepared()[2]
	// Its keys are locked, and its name taken.
	y := db.Begin(&TxnOptions{LockTimeout: NoWait})
	require.ErrorIs(t, y.Put(nil, []byte("b"), nil), ashlar.ErrTimedOut)
	require.ErrorIs(t, y.SetName("one"), ashlar.ErrInvalidArgument)
	require.NoError(t, y.Rollback())
	require.Equal(t, map[string]string{"a": "1", "b": "1"}, shown(t, one.NewIterator(nil, nil)))
	require.NoError(t, one.Commit())
	require.NoError(t, two.Rollback())
	want := map[string]string{"a": "1", "b": "1"}
	require.Equal(t, want, contents(t, db.DefaultColumnFamily()))
	db = mustOpen(t, true, m.Clone())
	require.Equal(t, []string{"three"}, names(db))
	require.Equal(t, want, contents(t, db.DefaultColumnFamily()))
	require.ErrorIs(t, one.Commit(), ashlar.ErrInvalidArgument)
	require.NoError(t, one.Rollback())
	require.NoError(t, three.Commit())
}

func TestPreparedTransactionsNeedAPessimisticDatabase(t *testing.T) {
	m := vfs.NewMem()
	db := mustOpen(t, true, m)
	x := prepare(t, db, "x", false, "k", "v")
	mustClose(t, db)
	require.ErrorIs(t, x.Commit(), ashlar.ErrClosed)
	require.ErrorIs(t, x.Rollback(), ashlar.ErrClosed)
	_, err := ashlar.Open("db", memOptions(m))
	require.ErrorIs(t, err, ashlar.ErrNotSupported)
	require.ErrorContains(t, err, `"x"`)
	_, err = OpenOptimistic("db", memOptions(m))
	require.ErrorIs(t, err, ashlar.ErrNotSupported)
	db = mustOpen(t, true, m)
	require.NoError(t, db.Prepared()[0].Rollback())
	mustClose(t, db)
	plain, err := ashlar.Open("db", memOptions(m))
	require.NoError(t, err)
	require.NoError(t, plain.Close())

	opt := mustOpen(t, false, vfs.NewMem())
	y := opt.Begin(nil)
	require.ErrorIs(t, y.SetName("y"), ashlar.ErrNotSupported)
	require.ErrorIs(t, y.Prepare(), ashlar.ErrNotSupported)
	require.NoError(t, y.Rollback())
}

func TestPrepareAsksForANameAndForTheLog(t *testing.T) {
	db := mustOpen(t, true, vfs.NewMem())
	x := db.Begin(&TxnOptions{Write: ashlar.WriteOptions{DisableWAL: true}})
	require.ErrorIs(t, x.Prepare(), ashlar.ErrInvalidArgument)
	require.ErrorIs(t, x.SetName(""), ashlar.ErrInvalidArgument)
	require.ErrorIs(t, x.SetName(strings.Repeat("x", 513)), ashlar.ErrInvalidArgument)
	require.NoError(t, x.SetName("x"))
	require.ErrorIs(t, x.Prepare(), ashlar.ErrInvalidArgument)
	require.Empty(t, db.Prepared())
	require.NoError(t, x.Rollback())
	// An empty one can be prepared as well.
	prepare(t, db, "x", false)
	require.NoError(t, db.Prepared()[0].Commit())
}

func logsIn(t testing.TB, m *vfs.Mem) (logs []string) {
	t.Helper()
	all, err := m.List("db")
	require.NoError(t, err)
	for _, name := range all {
		if strings.HasSuffix(name, ".log") {
			logs = append(logs, name)
		}
	}
	return logs
}

// Its log is kept while it is prepared, and after the commit until what it wrote is in a table.
func TestTheLogOfAPreparedTransactionIsKeptAsLongAsItIsNeeded(t *testing.T) {
	ctx := context.Background()
	m := vfs.NewMem()
	db := mustOpen(t, true, m)
	first := logsIn(t, m)[0]
	x := prepare(t, db, "x", false, "k", "v")
	y := prepare(t, db, "y", false, "l", "w")
	for i := range 3 {
		set(t, db, "other", fmt.Sprint(i))
		require.NoError(t, db.base.Flush(ctx, nil))
	}
	require.Contains(t, logsIn(t, m), first)
	for _, c := range []*vfs.Mem{m.Clone(), m.Crash(nil), m.Crash(rand.New(rand.NewPCG(1, 1)))} {
		again := mustOpen(t, true, c)
		require.Equal(t, []string{"x", "y"}, names(again))
		require.Equal(t, "2", value(t, again.Get, "other"))
	}
	require.NoError(t, x.Commit())
	require.NoError(t, y.Rollback())
	again := mustOpen(t, true, m.Clone())
	require.Empty(t, names(again))
	require.Equal(t, map[string]string{"k": "v", "other": "2"}, contents(t, again.DefaultColumnFamily()))
	require.NoError(t, db.base.Flush(ctx, nil))
	set(t, db, "other", "3")
	require.NoError(t, db.base.Flush(ctx, nil))
	mustClose(t, db)
	require.NotContains(t, logsIn(t, m), first)
	again = mustOpen(t, true, m)
	require.Equal(t, map[string]string{"k": "v", "other": "3"}, contents(t, again.DefaultColumnFamily()))
}

// One that stays prepared for long does not keep every log since.
func TestLogsStayBoundedWhileATransactionIsPrepared(t *testing.T) {
	m := vfs.NewMem()
	o := memOptions(m)
	o.MaxTotalWALSize = 200 << 10
	db, err := OpenPessimistic("db", o, nil)
	require.NoError(t, err)
	x := prepare(t, db, "x", false, "k", "v")
	big := strings.Repeat("x", 4<<10)
	for i := range 400 {
		set(t, db, fmt.Sprint("other", i%50), big)
	}
	require.NoError(t, db.base.Flush(context.Background(), nil))
	require.LessOrEqual(t, len(logsIn(t, m)), 10, "400 writes took 25 memtables")
	again := mustOpen(t, true, m.Crash(nil))
	require.Equal(t, []string{"x"}, names(again))
	require.NoError(t, x.Commit())
	again = mustOpen(t, true, m.Clone())
	require.Equal(t, "v", value(t, again.Get, "k"))
	require.Empty(t, names(again))
	mustClose(t, db)
}

func TestACommitPassesOverFamiliesThatWereDropped(t *testing.T) {
	m := vfs.NewMem()
	db := mustOpen(t, true, m)
	cf, err := db.base.CreateColumnFamily("gone", nil)
	require.NoError(t, err)
	x := db.Begin(nil)
	require.NoError(t, x.SetName("x"))
	require.NoError(t, x.Put(cf, []byte("a"), []byte("1")))
	put(t, x, "b", "2")
	require.NoError(t, x.Put(cf, []byte("c"), []byte("3")))
	put(t, x, "d", "4")
	require.NoError(t, x.Prepare())
	require.NoError(t, db.base.DropColumnFamily(cf))
	before := m.Clone()
	require.NoError(t, x.Commit())
	require.ErrorIs(t, x.Commit(), ashlar.ErrInvalidArgument)
	want := map[string]string{"b": "2", "d": "4"}
	require.Equal(t, want, contents(t, db.DefaultColumnFamily()))
	again := mustOpen(t, true, m.Clone())
	require.Equal(t, want, contents(t, again.DefaultColumnFamily()))
	require.Equal(t, db.base.LatestSequenceNumber(), again.base.LatestSequenceNumber())
	again = mustOpen(t, true, before)
	require.NoError(t, again.Prepared()[0].Commit())
	require.Equal(t, want, contents(t, again.DefaultColumnFamily()))
}

// The sync of a phase comes when its record is in the log, and the writes of a commit in memtables. When it fails, what the
// phase would have changed is as before, for those who look, after Resume, and after a crash.
func TestAPhaseWhoseSyncFailsLeavesThingsAsTheyWere(t *testing.T) {
	for _, phase := range []string{"prepare", "commit", "rollback"} {
		t.Run(phase, func(t *testing.T) {
			m := vfs.NewMem()
			f := faultfs.Wrap(m)
			db := mustOpen(t, true, f)
			x := db.Begin(&TxnOptions{Write: ashlar.WriteOptions{Sync: true}})
			require.NoError(t, x.SetName("x"))
			put(t, x, "k", "v")
			do, want := x.Prepare, []string(nil)
			if phase != "prepare" {
				require.NoError(t, x.Prepare())
				do, want = x.Commit, []string{"x"}
			}
			if phase == "rollback" {
				do = x.Rollback
			}
			require.NoError(t, f.Add("fail sync *.log once"))
			require.ErrorIs(t, do(), syscall.EIO)
			before := func(db *DB) {
				require.Equal(t, want, names(db))
				require.Empty(t, contents(t, db.DefaultColumnFamily()))
			}
			before(db)
			require.NoError(t, db.base.Resume(context.Background()))
			before(db)
			for _, left := range []*vfs.Mem{m.Clone(), m.Crash(nil)} {
				before(mustOpen(t, true, left))
			}
			require.NoError(t, do(), "it can be tried again")
			left := mustOpen(t, true, m.Crash(nil))
			switch phase {
			case "prepare":
				require.Equal(t, []string{"x"}, names(left))
			case "commit":
				require.Equal(t, map[string]string{"k": "v"}, contents(t, left.DefaultColumnFamily()))
			case "rollback":
				want = nil
				before(left)
			}
			if phase == "prepare" {
				require.NoError(t, x.Rollback())
			}
		})
	}
}

// Bug bank 131, facebook/rocksdb#9762: a full disk, room again, Resume, with something prepared. Whatever call it was that
// failed first.
func TestAFullDiskIsGotOverWithTransactionsPrepared(t *testing.T) {
	ctx := context.Background()
	for _, rule := range []string{"fail sync *.log with ENOSPC", "fail write *.log with ENOSPC", "fail create *.sst with ENOSPC", "fail write MANIFEST-* with ENOSPC"} {
		t.Run(rule, func(t *testing.T) {
			m := vfs.NewMem()
			f := faultfs.Wrap(m)
			db, err := OpenPessimistic("db", memOptions(f), nil)
			require.NoError(t, err)
			x := prepare(t, db, "x", true, "k", "v")
			y := prepare(t, db, "y", true, "l", "w")
			require.NoError(t, f.Add(rule))
			z := db.Begin(&TxnOptions{Write: ashlar.WriteOptions{Sync: true}})
			require.NoError(t, z.SetName("z"))
			put(t, z, "z", "z")
			zerr := z.Prepare()
			err = db.base.Put([]byte("other"), []byte("1"), ashlar.Sync)
			if err == nil {
				err = db.base.Flush(ctx, nil)
			}
			require.Error(t, err)
			require.ErrorIs(t, db.base.BackgroundError(), ashlar.ErrNoSpace)
			require.ErrorIs(t, db.base.BackgroundError(), syscall.ENOSPC)
			require.Error(t, x.Commit())
			require.Contains(t, names(db), "x")
			f.Clear()
			require.NoError(t, db.base.Resume(ctx))
			left := mustOpen(t, true, m.Crash(nil))
			require.Subset(t, names(left), []string{"x", "y"}, "what was safe is still so")
			require.Equal(t, zerr == nil, len(names(left)) == 3)
			if zerr != nil {
				require.NoError(t, z.Prepare(), "it can be tried again")
			}
			require.NoError(t, x.Commit())
			require.NoError(t, y.Rollback())
			require.NoError(t, z.Commit())
			set(t, db, "after", "all")
			require.NoError(t, db.base.SyncWAL(ctx))
			want := contents(t, db.DefaultColumnFamily())
			require.Equal(t, "v", want["k"])
			require.Equal(t, "z", want["z"])
			left = mustOpen(t, true, m.Crash(nil))
			require.Equal(t, want, contents(t, left.DefaultColumnFamily()))
			require.Empty(t, names(left))
			mustClose(t, db)
		})
	}
}

// What is prepared in a log that nothing else needs is carried to a new one. A flush that began before lets the old log go,
// though the logs between were never synced; the machine loses them, and what is prepared is there all the same.
func TestWhatIsCarriedToANewLogIsSafeThoughLogsBetweenWereNot(t *testing.T) {
	ctx := context.Background()
	m := vfs.NewMem()
	f := faultfs.Wrap(m)
	writing, goOn := make(chan struct{}), make(chan struct{})
	var hold atomic.Bool
	f.OnCall = func(c faultfs.Call) {
		if strings.HasSuffix(c.Name, ".sst") && hold.CompareAndSwap(true, false) {
			close(writing)
			<-goOn
		}
	}
	o := memOptions(f)
	o.MaxTotalWALSize = 20 << 10
	db := mustOpenWith(t, true, o)
	users, err := db.base.CreateColumnFamily("users", nil)
	require.NoError(t, err)
	prepare(t, db, "x", true, "k", "v")
	set(t, db, "a", "1")
	require.NoError(t, db.base.Flush(ctx, nil))
	require.NoError(t, db.Put(users, []byte("u"), []byte("1"), nil))
	hold.Store(true)
	flushed := make(chan error)
	go func() { flushed <- db.base.Flush(ctx, nil, users) }()
	<-writing
	set(t, db, "b", strings.Repeat("2", 25<<10))
	set(t, db, "c", "3")
	close(goOn)
	require.NoError(t, <-flushed)
	left := mustOpen(t, true, m.Crash(nil))
	require.Equal(t, []string{"x"}, names(left))
	require.NotContains(t, contents(t, left.DefaultColumnFamily()), "c", "which was never safe")
}

// life is a database in use by one goroutine, whose states are all known: a crash must leave one of them.
type life struct {
	mapped ashlar.MappedWAL
	seed   uint64
	rng    *rand.Rand
	states []lifeState // states[n] is what holds after n steps
	now    atomic.Int64
	safe   atomic.Int64 // this many steps survive a power cut
	mu     sync.Mutex
	picker *rand.Rand
	odds   float64
	left   []lifeCrash
}

// lifeState is what is committed, by family and key, and what is prepared, by name, as a batch.
type lifeState struct {
	families map[string]map[string]string
	prepared map[string]string
}

func (s lifeState) clone() lifeState {
	c := lifeState{families: map[string]map[string]string{}, prepared: maps.Clone(s.prepared)}
	for name, m := range s.families {
		c.families[name] = maps.Clone(m)
	}
	return c
}

type lifeCrash struct {
	fs        *vfs.Mem
	low, high int // the states that it may have left
	at        string
}

func (l *life) crash(m *vfs.Mem, at string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.picker.Float64() >= l.odds {
		return
	}
	done, safe := int(l.now.Load()), int(l.safe.Load())
	for kind, left := range []*vfs.Mem{m.Clone(), m.Crash(nil), m.Crash(rand.New(rand.NewPCG(l.picker.Uint64(), 1)))} {
		c := lifeCrash{fs: left, low: safe, at: fmt.Sprintf("seed %d, kind %d, before %s in step %d", l.seed, kind, at, done+1)}
		if kind == 0 {
			c.low = done
		}
		c.high = int(l.now.Load()) + 1
		l.left = append(l.left, c)
	}
}

// stateOf reads what a database holds.
func stateOf(t testing.TB, db *DB) lifeState {
	t.Helper()
	s := lifeState{families: map[string]map[string]string{}, prepared: map[string]string{}}
	for _, cf := range db.base.ColumnFamilies() {
		s.families[cf.Name()] = contents(t, cf)
	}
	for _, p := range db.Prepared() {
		s.prepared[p.Name()] = string(p.writes.Data())
	}
	return s
}

func (l *life) options(fs vfs.FS) *ashlar.Options {
	o := memOptions(fs)
	o.MaxTotalWALSize = 150 << 10
	o.WALMapped = l.mapped
	return o
}

// live runs some steps, with a crash taken before each call of the file system.
func (l *life) live(t *testing.T, steps int) {
	m := vfs.NewMem()
	f := faultfs.Wrap(m)
	db, err := OpenPessimistic("db", l.options(f), nil)
	require.NoError(t, err)
	_, err = db.base.CreateColumnFamily("users", nil)
	require.NoError(t, err)
	require.NoError(t, db.base.SyncWAL(context.Background()))
	state := lifeState{families: map[string]map[string]string{"default": {}, "users": {}}, prepared: map[string]string{}}
	l.states = []lifeState{state.clone()}
	f.OnCall = func(c faultfs.Call) { l.crash(m, fmt.Sprint(c.Op, " ", c.Name)) }
	txns := map[string]*Txn{}
	writes := map[string][]func(map[string]map[string]string){}
	step := func(sync bool, do func() error) {
		l.mu.Lock()
		l.states = append(l.states, state.clone())
		l.mu.Unlock()
		require.NoError(t, do())
		n := l.now.Add(1)
		if sync {
			l.safe.Store(n)
		}
	}
	for n := range steps {
		sync := l.rng.IntN(3) == 0
		switch x := l.rng.IntN(12); {
		case x < 4: // prepare
			name := fmt.Sprint("txn", n)
			tx := db.Begin(&TxnOptions{Write: ashlar.WriteOptions{Sync: sync}})
			require.NoError(t, tx.SetName(name))
			for range 1 + l.rng.IntN(4) {
				family, key, value := "default", fmt.Sprintf("%s/%d", name, l.rng.IntN(3)), strings.Repeat("v", l.rng.IntN(6<<10))
				if l.rng.IntN(2) == 0 {
					family = "users"
				}
				cf, _ := db.ColumnFamily(family)
				if l.rng.IntN(4) == 0 {
					require.NoError(t, tx.Delete(cf, []byte(key)))
					writes[name] = append(writes[name], func(f map[string]map[string]string) { delete(f[family], key) })
					continue
				}
				require.NoError(t, tx.Put(cf, []byte(key), []byte(value)))
				writes[name] = append(writes[name], func(f map[string]map[string]string) { f[family][key] = value })
			}
			txns[name] = tx
			state.prepared[name] = string(tx.writes.Data())
			step(sync, tx.Prepare)
		case x < 9 && len(txns) > 0: // commit or roll back
			var name string
			for name = range txns {
				break
			}
			delete(state.prepared, name)
			tx := txns[name]
			delete(txns, name)
			if l.rng.IntN(3) == 0 {
				step(tx.opts.Write.Sync, tx.Rollback)
				continue
			}
			for _, w := range writes[name] {
				w(state.families)
			}
			step(tx.opts.Write.Sync, tx.Commit)
		case x == 9:
			require.NoError(t, db.base.Flush(context.Background(), nil))
		case x == 10 && l.rng.IntN(3) == 0:
			mustClose(t, db)
			l.safe.Store(l.now.Load())
			db, err = OpenPessimistic("db", l.options(f), nil)
			require.NoError(t, err)
			for _, p := range db.Prepared() {
				txns[p.Name()] = p
			}
			require.Equal(t, state, stateOf(t, db))
		default:
			key, value := fmt.Sprint("plain", l.rng.IntN(5)), strings.Repeat("p", l.rng.IntN(6<<10))
			state.families["default"][key] = value
			step(sync, func() error { return db.Put(nil, []byte(key), []byte(value), &ashlar.WriteOptions{Sync: sync}) })
		}
	}
	mustClose(t, db)
	f.OnCall = nil
}

// judge opens what a crash left.
func (l *life) judge(t *testing.T, c lifeCrash) {
	db, err := OpenPessimistic("db", l.options(c.fs), nil)
	require.NoError(t, err, c.at)
	got := stateOf(t, db)
	found := -1
	for n := c.low; n <= min(c.high, len(l.states)-1) && found < 0; n++ {
		if maps.Equal(got.prepared, l.states[n].prepared) && maps.EqualFunc(got.families, l.states[n].families, maps.Equal[map[string]string]) {
			found = n
		}
	}
	require.GreaterOrEqual(t, found, 0, "%s: neither of the states %d to %d; prepared %v", c.at, c.low, c.high, names(db))
	// And it lives on.
	for n, p := range db.Prepared() {
		if n%2 == 0 {
			require.NoError(t, p.Commit(), c.at)
		} else {
			require.NoError(t, p.Rollback(), c.at)
		}
	}
	got = stateOf(t, db)
	require.Empty(t, got.prepared)
	mustClose(t, db)
	again, err := OpenPessimistic("db", l.options(c.fs), nil)
	require.NoError(t, err, c.at)
	require.Equal(t, got, stateOf(t, again), c.at)
	mustClose(t, again)
}

// A life with two-phase commits is cut off before calls of the file system, by the death of the process and by that of the
// machine: what is left is one of its states, with all that was safe, what is prepared included.
func TestTwoPhaseCommitsSurviveCrashesAtEveryWrite(t *testing.T) {
	lives, odds := 2, 0.06
	if os.Getenv("ASHLAR_LONG") != "" {
		lives, odds = 4, 0.5
	}
	crashes := 0
	for range lives {
		seed := rand.Uint64() >> 32
		l := &life{seed: seed, mapped: []ashlar.MappedWAL{ashlar.MappedWALOff, ashlar.MappedWALOn}[seed%2], rng: rand.New(rand.NewPCG(seed, 1)), picker: rand.New(rand.NewPCG(seed, 2)), odds: odds}
		l.live(t, 80)
		for _, c := range l.left {
			l.judge(t, c)
		}
		crashes += len(l.left)
	}
	t.Logf("%d crashes", crashes)
}

// RocksDB opens a log with the marks, since the OPTIONS file says allow_2pc, and reads what we read.
func TestRocksDBReadsOurTwoPhaseCommits(t *testing.T) {
	if _, err := exec.LookPath("ldb"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v; Debian has it in rocksdb-tools", err)
		}
		t.Logf("nothing is checked: %v; Debian has it in rocksdb-tools", err)
		return
	}
	dir := filepath.Join(t.TempDir(), "db")
	db, err := OpenPessimistic(dir, nil, nil)
	require.NoError(t, err)
	set(t, db, "plain", "1")
	x := prepare(t, db, "commits", false, "a", "1", "b", "2")
	y := prepare(t, db, "rolls back", false, "c", "3")
	set(t, db, "between", "2")
	require.NoError(t, x.Commit())
	require.NoError(t, y.Rollback())
	require.NoError(t, x.Rollback())
	z := db.Begin(nil)
	put(t, z, "unprepared", "4")
	require.NoError(t, z.Commit())
	carried := prepare(t, db, "carried", false, "d", "5")
	mustClose(t, db)
	db, err = OpenPessimistic(dir, nil, nil)
	require.NoError(t, err)
	carried = db.Prepared()[0]
	require.NoError(t, carried.Commit())
	set(t, db, "last", "6")
	x = prepare(t, db, "again", true, "a", "7", "e", "8")
	require.NoError(t, x.Commit())
	want := contents(t, db.DefaultColumnFamily())
	last := db.base.LatestSequenceNumber()
	mustClose(t, db)

	ldb := func(args ...string) string {
		out, err := exec.Command("ldb", append([]string{"--db=" + dir}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
	out := ldb("dump_wal", "--walfile="+logs[0], "--header", "--print_value")
	for _, mark := range []string{"BEGIN_PREPARE", "END_PREPARE(0x" + strings.ToUpper(hex.EncodeToString([]byte("again"))), "COMMIT(0x", "ROLLBACK(0x"} {
		require.Contains(t, out, mark)
	}
	got := map[string]string{}
	for line := range strings.Lines(ldb("scan")) {
		k, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " : ")
		require.True(t, ok, line)
		got[k] = v
	}
	require.Equal(t, want, got)
	ldb("put", "from", "ldb")
	want["from"] = "ldb"
	db, err = OpenPessimistic(dir, nil, nil)
	require.NoError(t, err)
	require.Equal(t, want, contents(t, db.DefaultColumnFamily()))
	require.Equal(t, last+1, db.base.LatestSequenceNumber(), "RocksDB counts as we do")
	mustClose(t, db)
}
