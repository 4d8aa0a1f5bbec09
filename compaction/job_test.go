package compaction

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/compress"
	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/iterator/itertest"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/manifest"
	"github.com/ashlardb/ashlar/sstable"
	"github.com/ashlardb/ashlar/vfs"
)

// lab is a family with real tables in memory and with everything that was ever written beside them.
type lab struct {
	rng       *rand.Rand
	l         *Leveled
	fs        *vfs.Mem
	num       uint64
	epoch     uint64
	seq       kv.Seq
	levels    [7][]*manifest.File
	content   map[uint64][]kv.Entry // of each table
	mem       []kv.Entry            // newest last
	written   []kv.Entry            // the model: all versions ever
	snapshots []kv.Seq
	single    map[string]bool // keys with one value that no SingleDel has taken yet
	busy      Busy
	running   []labJob
	split     bool // tables are taken apart anywhere, as RocksDB may do it
}

// labJob is a plan that was started and the snapshots of that moment.
type labJob struct {
	plan      *Plan
	snapshots []kv.Seq
}

func newLab(seed uint64, o LeveledOptions) *lab {
	return &lab{rng: rand.New(rand.NewPCG(seed, 8)), l: NewLeveled(kv.Bytewise, o), fs: vfs.NewMem(),
		content: map[uint64][]kv.Entry{}, single: map[string]bool{}}
}

func tiny() LeveledOptions {
	return LeveledOptions{L0Trigger: 3, MaxBytesForLevelBase: 6000, Multiplier: 3, TargetFileSizeBase: 1500, MaxCompactionBytes: 9000}
}

func (d *lab) version() *manifest.Version { return manifest.NewVersion(kv.Bytewise, d.levels[:]...) }

func (d *lab) write(user string, kind kv.Kind, value string) {
	d.seq++
	e := kv.Entry{Key: kv.MakeKey([]byte(user), d.seq, kind)}
	if kind == kv.KindValue {
		e.Value = []byte(value)
	}
	d.mem = append(d.mem, e)
	d.written = append(d.written, e)
}

func (d *lab) put(user, value string) { d.write(user, kv.KindValue, value) }
func (d *lab) delete(user string)     { d.write(user, kv.KindDelete, "") }

type tableIter struct {
	kv.Iterator
	r *sstable.Reader
}

func (i tableIter) Close() error { return errors.Join(i.Iterator.Close(), i.r.Close()) }

func name(num uint64) string { return fmt.Sprintf("%06d.sst", num) }

func (d *lab) env(snapshots []kv.Seq) Env {
	return Env{
		Comparer: kv.Bytewise,
		Open: func(f *manifest.File) (kv.Iterator, error) {
			file, err := d.fs.Open(name(f.Num))
			if err != nil {
				return nil, err
			}
			r, err := sstable.Open(file, name(f.Num), sstable.ReaderOptions{})
			if err != nil {
				return nil, err
			}
			return tableIter{r.NewIter(sstable.IterOptions{}), r}, nil
		},
		Create: func() (*sstable.Writer, uint64, error) {
			d.num++
			f, err := d.fs.Create(name(d.num))
			if err != nil {
				return nil, d.num, err
			}
			return sstable.NewWriter(f, name(d.num), sstable.WriterOptions{Compression: compress.None, BlockSize: 200}), d.num, nil
		},
		Snapshots: snapshots,
		Now:       func() uint64 { return 1700000000 },
	}
}

// install applies the edit of a job that has succeeded, and looks at what it made.
func (d *lab) install(p *Plan, r Result) error {
	total := uint64(0)
	for _, f := range r.Files {
		it, err := d.env(nil).Open(f)
		if err != nil {
			return err
		}
		var all []kv.Entry
		for e := it.First(); e != nil; e = it.Next() {
			all = append(all, kv.Entry{Key: e.Key.Clone(), Value: bytes.Clone(e.Value)})
		}
		if err := it.Close(); err != nil {
			return err
		}
		total += uint64(len(all))
		d.content[f.Num] = all
		if len(all) == 0 || f.Smallest.String() != all[0].Key.String() || f.Largest.String() != all[len(all)-1].Key.String() {
			return fmt.Errorf("file %v has %s", f, text(all))
		}
	}
	for i := 1; i < len(r.Files); i++ {
		if bytes.Equal(r.Files[i-1].Largest.User, r.Files[i].Smallest.User) {
			return fmt.Errorf("files %v and %v share a key", r.Files[i-1], r.Files[i])
		}
	}
	if total != r.EntriesWritten || len(r.Remove) > 0 {
		return fmt.Errorf("%d entries in files, result %+v", total, r)
	}
	if d.split && p.OutputLevel > 0 {
		if err := d.takeApart(&r); err != nil {
			return err
		}
	}
	e := r.Edit(p)
	for _, del := range e.Delete {
		d.levels[del.Level] = slices.DeleteFunc(d.levels[del.Level], func(f *manifest.File) bool { return f.Num == del.Num })
	}
	for _, add := range e.Add {
		d.levels[add.Level] = append(d.levels[add.Level], add.File)
	}
	return d.version().Check(kv.Bytewise)
}

// takeApart makes two tables of some, with no regard to user keys.
func (d *lab) takeApart(r *Result) error {
	var files []*manifest.File
	for _, f := range r.Files {
		all := d.content[f.Num]
		if len(all) < 2 || d.rng.IntN(3) > 0 {
			files = append(files, f)
			continue
		}
		at := 1 + d.rng.IntN(len(all)-1)
		for _, part := range [][]kv.Entry{all[:at], all[at:]} {
			w, num, err := d.env(nil).Create()
			if err != nil {
				return err
			}
			for _, e := range part {
				if err := w.Add(e.Key, e.Value); err != nil {
					return err
				}
			}
			m, err := w.Finish()
			if err != nil {
				return err
			}
			d.content[num] = part
			files = append(files, &manifest.File{Num: num, Size: m.Size, Smallest: m.Smallest, Largest: m.Largest,
				SmallestSeq: m.SmallestSeq, LargestSeq: m.LargestSeq, Epoch: f.Epoch})
		}
	}
	r.Files = files
	return nil
}

func (d *lab) flush() error {
	itertest.Sort(kv.Bytewise, d.mem)
	d.epoch++
	// Two memtables at once.
	var parts [2][]kv.Entry
	for i, e := range d.mem {
		parts[i%2] = append(parts[i%2], e)
	}
	r, err := RunFlush(context.Background(), Flush{Epoch: d.epoch, Inputs: []kv.Iterator{
		itertest.New(kv.Bytewise, parts[0]), itertest.New(kv.Bytewise, parts[1]),
	}}, d.env(d.snapshots))
	if err != nil {
		return err
	}
	if len(r.Files) > 1 || r.EntriesRead != uint64(len(d.mem)) {
		return fmt.Errorf("a flush of %d entries made %+v", len(d.mem), r)
	}
	d.mem = nil
	return d.install(&Plan{}, r)
}

func (d *lab) start(p *Plan) {
	if p != nil {
		d.busy.Start(p)
		d.running = append(d.running, labJob{p, slices.Clone(d.snapshots)})
	}
}

func (d *lab) end(i int) error {
	j := d.running[i]
	d.running = slices.Delete(d.running, i, i+1)
	r, err := Run(context.Background(), j.plan, d.env(j.snapshots))
	d.busy.Done(j.plan)
	if err != nil {
		return err
	}
	if err := d.install(j.plan, r); err != nil {
		return fmt.Errorf("%v: %w", j.plan, err)
	}
	return nil
}

// do runs one plan at once.
func (d *lab) do(p *Plan) error {
	d.start(p)
	return d.end(len(d.running) - 1)
}

// get reads as the engine does: level by level, and the first that has a version that may be seen decides.
func (d *lab) get(user string, at kv.Seq) string {
	has := func(all []kv.Entry) bool {
		return slices.ContainsFunc(all, func(e kv.Entry) bool { return string(e.Key.User) == user && e.Key.Seq() <= at })
	}
	if has(d.mem) {
		return see(d.mem, user, at)
	}
	v := d.version()
	for _, f := range v.Level(0) {
		if has(d.content[f.Num]) {
			return see(d.content[f.Num], user, at)
		}
	}
	for level := 1; level < 7; level++ {
		var all []kv.Entry
		for _, f := range v.Overlapping(level, kv.Range{Start: []byte(user), End: []byte(user), EndInclusive: true}) {
			all = append(all, d.content[f.Num]...)
		}
		if has(all) {
			return see(all, user, at)
		}
	}
	return "nothing"
}

func (d *lab) check() error {
	users := map[string]bool{}
	for _, e := range d.written {
		users[string(e.Key.User)] = true
	}
	for user := range users {
		for _, at := range append(slices.Clone(d.snapshots), kv.MaxSeq) {
			if want, got := see(d.written, user, at), d.get(user, at); want != got {
				return fmt.Errorf("%s at %d (snapshots %v) is %.40s, want %.40s\n%s", user, at, d.snapshots, got, want, d.version().DebugString())
			}
		}
	}
	return nil
}

// toTheBottom does what CompactRange over all does, and returns every entry that is left.
func (d *lab) toTheBottom() (left []kv.Entry, err error) {
	if err := d.flush(); err != nil {
		return nil, err
	}
	base, _ := d.l.Targets(d.version())
	last := 0
	for level := range d.version().All() {
		last = max(last, level)
	}
	last = max(last, base)
	for level := 0; level <= last; level++ {
		output := level + 1
		switch {
		case level == 0:
			output = base
		case level == last:
			output = last
		}
		for begin := []byte(nil); ; {
			p, next, wait := d.l.PickRange(d.version(), level, output, begin, nil, &d.busy)
			if wait {
				return nil, errors.New("nothing runs, and there is something to wait for")
			}
			if p != nil {
				if err := d.do(p); err != nil {
					return nil, err
				}
			}
			if begin = next; next == nil {
				break
			}
		}
	}
	for _, f := range d.version().All() {
		left = append(left, d.content[f.Num]...)
	}
	return left, nil
}

func playLab(seed uint64, ops []byte) error {
	o := tiny()
	o.DynamicLevelBytes = seed%2 == 0
	d := newLab(seed, o)
	d.split = seed%3 == 0
	for i, op := range ops {
		user := fmt.Sprintf("key%02d", op>>3)
		var err error
		switch op & 7 {
		case 0, 1:
			d.put(user, fmt.Sprintf("%s@%d%s", user, d.seq+1, strings.Repeat(".", d.rng.IntN(400))))
		case 2:
			d.delete(user)
		case 3:
			if user = "single" + user[3:]; d.single[user] {
				d.write(user, kv.KindSingleDel, "")
			} else {
				d.put(user, fmt.Sprintf("%s@%d", user, d.seq+1))
			}
			d.single[user] = !d.single[user]
		case 4:
			if len(d.snapshots) < 5 {
				d.snapshots = append(d.snapshots, d.seq)
			} else {
				d.snapshots = slices.Delete(d.snapshots, int(op>>3)%5, int(op>>3)%5+1)
			}
		case 5:
			if len(d.mem) > 0 {
				err = d.flush()
			}
		case 6:
			d.start(d.l.Pick(d.version(), &d.busy))
			if len(d.running) > 0 && d.rng.IntN(2) == 0 {
				err = d.end(d.rng.IntN(len(d.running)))
			}
		case 7:
			oldest := d.seq
			if len(d.snapshots) > 0 {
				oldest = d.snapshots[0]
			}
			if op>>3&1 == 0 {
				d.start(d.l.PickBottommost(d.version(), oldest, &d.busy))
			} else {
				level := d.rng.IntN(6)
				output := level + 1
				if level == 0 {
					output, _ = d.l.Targets(d.version())
				}
				p, _, _ := d.l.PickRange(d.version(), level, output, []byte(user), nil, &d.busy)
				d.start(p)
			}
		}
		if err != nil {
			return err
		}
		if i%16 == 15 {
			if err := d.check(); err != nil {
				return fmt.Errorf("after %d operations: %w", i+1, err)
			}
		}
	}
	for len(d.running) > 0 {
		if err := d.end(0); err != nil {
			return err
		}
	}
	if err := d.check(); err != nil {
		return err
	}
	d.snapshots = nil
	left, err := d.toTheBottom()
	if err != nil {
		return err
	}
	if err := d.check(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, e := range left {
		if e.Key.Kind() != kv.KindValue || seen[string(e.Key.User)] {
			return fmt.Errorf("%v is left at the bottom", e.Key)
		}
		seen[string(e.Key.User)] = true
	}
	return nil
}

func FuzzCompactionKeepsReads(f *testing.F) {
	f.Add(uint64(1), []byte("\x00\x08\x12\x05\x04\x00\x02\x05\x06\x0f\x06"))
	f.Add(uint64(6), bytes.Repeat([]byte{0, 8, 3, 4, 5, 2, 11, 3, 5, 6, 15, 7, 17, 33, 5, 6}, 6))
	f.Fuzz(func(t *testing.T, seed uint64, ops []byte) {
		if err := playLab(seed, ops[:min(len(ops), 400)]); err != nil {
			t.Fatal(err)
		}
	})
}

// Snapshots come and go, tables are tiny and split anywhere, and every snapshot reads the same all the time.
func TestSnapshotsAndTheTipReadTheSameAfterAnyCompaction(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for seed := range uint64(24) {
		ops := make([]byte, 500)
		for i := range ops {
			ops[i] = byte(rng.Uint32())
		}
		if err := playLab(seed, ops); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// google/leveldb#184
func TestNothingIsLeftOfDeletedKeysAfterAFullCompaction(t *testing.T) {
	d := newLab(1, tiny())
	for _, prefix := range []string{"a", "b"} {
		for i := range 300 {
			d.put(fmt.Sprintf("%s%04d", prefix, i), strings.Repeat("v", 50))
			if i%60 == 59 {
				require.NoError(t, d.flush())
				for p := d.l.Pick(d.version(), nil); p != nil; p = d.l.Pick(d.version(), nil) {
					require.NoError(t, d.do(p))
				}
			}
		}
	}
	for i := range 300 {
		d.delete(fmt.Sprintf("b%04d", i))
	}
	left, err := d.toTheBottom()
	require.NoError(t, err)
	require.Len(t, left, 300)
	require.NoError(t, d.check())
}

// dgraph-io/badger#2143
func TestADeleteFromLevel0DoesNotPassALevelThatHoldsData(t *testing.T) {
	o := tiny()
	o.DynamicLevelBytes = true
	d := newLab(1, o)
	d.put("k", "old")
	for i := range 40 {
		d.put(fmt.Sprintf("a%03d", i), strings.Repeat("v", 500))
	}
	_, err := d.toTheBottom()
	require.NoError(t, err)
	require.NotEmpty(t, d.levels[6])
	// Level 4 gets data, level 5 stays empty.
	d.put("k", "newer")
	require.NoError(t, d.flush())
	d.levels[4], d.levels[0] = d.levels[0], nil
	d.delete("k")
	for range 3 {
		d.put("z", "filler")
		require.NoError(t, d.flush())
	}
	base, _ := d.l.Targets(d.version())
	require.Equal(t, 4, base)
	for p := d.l.Pick(d.version(), nil); p != nil; p = d.l.Pick(d.version(), nil) {
		require.NoError(t, d.do(p))
		require.Equal(t, "nothing", d.get("k", kv.MaxSeq))
	}
	require.Empty(t, d.levels[0])
	_, err = d.toTheBottom()
	require.NoError(t, err)
	require.Equal(t, "nothing", d.get("k", kv.MaxSeq))
}

// facebook/rocksdb, HISTORY of 5.8; #2722
func TestATombstoneOutlivesMergesInsideLevel0(t *testing.T) {
	d := newLab(1, tiny())
	d.put("k", "old")
	d.put("m", "old")
	require.NoError(t, d.flush())
	d.delete("k")
	require.NoError(t, d.flush())
	for range 3 {
		d.put("x", "filler")
		require.NoError(t, d.flush())
	}
	// The newest four, without the one that holds what the tombstone hides.
	p := d.l.mergeNewest(d.version(), 4, IntraLevel0, nil)
	p.Inputs[0].Files = p.Inputs[0].Files[:4]
	require.False(t, p.Bottommost)
	require.NoError(t, d.do(p))
	require.Len(t, d.levels[0], 2)
	require.Equal(t, "nothing", d.get("k", kv.MaxSeq))
	require.Equal(t, "x:6 k:3-", reversed(d.content[d.version().Level(0)[0].Num]))
	require.NoError(t, d.check())
}

func reversed(all []kv.Entry) string {
	all = slices.Clone(all)
	slices.Reverse(all)
	return text(all)
}

func TestTablesEndAtTheirSizeAndNeverInsideAKey(t *testing.T) {
	d := newLab(1, tiny())
	for i := range 60 {
		d.put(fmt.Sprintf("k%02d", i), strings.Repeat("v", 100))
	}
	for range 60 {
		d.put("k30", strings.Repeat("v", 100))
		d.snapshots = append(d.snapshots, d.seq)
	}
	require.NoError(t, d.flush())
	require.Len(t, d.levels[0], 1)
	p, _, _ := d.l.PickRange(d.version(), 0, 1, nil, nil, nil)
	require.NoError(t, d.do(p))
	require.NoError(t, d.check())
	files := d.version().Level(1)
	require.Greater(t, len(files), 4)
	for _, f := range files[:len(files)-1] {
		require.Greater(t, f.Size, uint64(1500))
		if n := len(d.content[f.Num]); n < 60 {
			require.Less(t, f.Size, uint64(4000))
		}
	}
	for _, f := range files {
		require.Equal(t, uint64(1), f.Epoch)
		require.Equal(t, uint64(1700000000), f.CreationTime)
		require.NotZero(t, f.TailSize)
	}
}

func TestAFlushOfNothingMakesNoTable(t *testing.T) {
	d := newLab(1, tiny())
	it := itertest.New(kv.Bytewise, nil)
	r, err := RunFlush(t.Context(), Flush{Inputs: []kv.Iterator{it}}, d.env(nil))
	require.NoError(t, err)
	require.Equal(t, Result{}, r)
	require.True(t, it.Closed)
	require.Zero(t, d.num)
	require.Equal(t, &manifest.Edit{}, r.Edit(&Plan{}))

	// Put and SingleDelete of a key may meet in a memtable.
	r, err = RunFlush(t.Context(), Flush{Inputs: []kv.Iterator{itertest.New(kv.Bytewise, versions("a:2~ a:1"))}}, d.env(nil))
	require.NoError(t, err)
	require.Empty(t, r.Files)
	require.Equal(t, uint64(2), r.EntriesRead)
}

// full makes a tree whose next job writes many tables.
func full(t *testing.T) (*lab, *Plan) {
	d := newLab(1, tiny())
	for i := range 60 {
		d.put(fmt.Sprintf("k%02d", i), strings.Repeat("v", 200))
		if i%20 == 19 {
			d.put("k00", "v")
			require.NoError(t, d.flush())
		}
	}
	p := d.l.Pick(d.version(), nil)
	require.Equal(t, 3, p.NumFiles())
	return d, p
}

func TestAFailedJobNamesWhatItLeaves(t *testing.T) {
	broken := errors.New("no space left on device")
	for create := 1; create <= 4; create++ {
		d, p := full(t)
		env := d.env(nil)
		made := env.Create
		n := 0
		var first uint64
		env.Create = func() (*sstable.Writer, uint64, error) {
			w, num, err := made()
			if n++; first == 0 {
				first = num
			}
			if n == create {
				w.Abandon()
				return nil, num, broken
			}
			return w, num, err
		}
		r, err := Run(t.Context(), p, env)
		require.ErrorIs(t, err, broken)
		require.Empty(t, r.Files)
		require.Len(t, r.Remove, create)
		slices.Sort(r.Remove)
		require.Equal(t, first, r.Remove[0])
		require.Equal(t, d.num, r.Remove[create-1])
		require.NoError(t, d.do(p), "the inputs are as they were")
		require.NoError(t, d.check())
	}
}

func TestAJobThatCannotOpenAnInputClosesTheOthers(t *testing.T) {
	d, p := full(t)
	gone := errors.New("000002.sst is missing")
	env := d.env(nil)
	var opened []*itertest.Slice
	env.Open = func(f *manifest.File) (kv.Iterator, error) {
		if len(opened) == 2 {
			return nil, gone
		}
		opened = append(opened, itertest.New(kv.Bytewise, d.content[f.Num]))
		return opened[len(opened)-1], nil
	}
	r, err := Run(t.Context(), p, env)
	require.ErrorIs(t, err, gone)
	require.Empty(t, r.Remove)
	for _, it := range opened {
		require.True(t, it.Closed)
	}
}

func TestACancelledJobStopsAndCleansUp(t *testing.T) {
	d, p := full(t)
	ctx, cancel := context.WithCancel(t.Context())
	env := d.env(nil)
	opens := 0
	open := env.Open
	env.Open = func(f *manifest.File) (kv.Iterator, error) {
		if opens++; opens == 2 {
			cancel()
		}
		return open(f)
	}
	r, err := Run(ctx, p, env)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, r.Files)
	require.Empty(t, r.Remove)
}

func TestAPanicOfAUsersComparerFailsTheJobOnly(t *testing.T) {
	d, p := full(t)
	cmp := *kv.ReverseBytewise // not bytewise: each comparison is a call
	calls := 0
	cmp.Compare = func(a, b []byte) int {
		if calls++; calls > 100 {
			panic("a user's mistake")
		}
		return bytes.Compare(a, b)
	}
	env := d.env(nil)
	env.Comparer = &cmp
	r, err := Run(t.Context(), p, env)
	require.ErrorContains(t, err, "a user's mistake")
	require.Empty(t, r.Files)
	require.NotEmpty(t, r.Remove)
	require.NoError(t, d.do(p))
}

func TestAMergeOperandFailsTheJob(t *testing.T) {
	d := newLab(1, tiny())
	it := itertest.New(kv.Bytewise, []kv.Entry{{Key: kv.MakeKey([]byte("k"), 1, kv.KindValue)}, {Key: kv.MakeKey([]byte("m"), 1, kv.KindMerge)}})
	r, err := RunFlush(t.Context(), Flush{Inputs: []kv.Iterator{it}}, d.env(nil))
	require.ErrorIs(t, err, corrupt.ErrNotSupported)
	require.Len(t, r.Remove, 1)
}

func TestAMoveChangesLevelsAndNothingElse(t *testing.T) {
	v := version(t, `L1: 10[a..b]110 11[c..d]10
		L2: 20[x..y]10`)
	l := small(nil)
	p := l.Pick(v, nil)
	require.Equal(t, Move, p.Kind)
	r, err := Run(t.Context(), p, Env{})
	require.NoError(t, err)
	e := r.Edit(p)
	require.Equal(t, []manifest.DeletedFile{{Level: 1, Num: 10}, {Level: 1, Num: 11}}, e.Delete)
	require.Equal(t, []manifest.AddedFile{{Level: 2, File: v.Level(1)[0]}, {Level: 2, File: v.Level(1)[1]}}, e.Add)
}

func TestBottommostRewriteEndsAfterOne(t *testing.T) {
	d := newLab(1, tiny())
	for i := range 20 {
		d.put(fmt.Sprintf("k%02d", i), "v")
		d.delete(fmt.Sprintf("k%02d", (i+7)%20))
	}
	d.snapshots = []kv.Seq{20}
	require.NoError(t, d.flush())
	p, _, _ := d.l.PickRange(d.version(), 0, 1, nil, nil, nil)
	require.NoError(t, d.do(p))
	require.Nil(t, d.l.PickBottommost(d.version(), 20, nil))
	d.snapshots = nil
	n := 0
	for p := d.l.PickBottommost(d.version(), d.seq, nil); p != nil; p = d.l.PickBottommost(d.version(), d.seq, nil) {
		require.NoError(t, d.do(p))
		n++
	}
	require.Equal(t, 1, n)
	require.NoError(t, d.check())
	require.Zero(t, d.levels[1][0].LargestSeq)
}

func Example() {
	d := newLab(1, LeveledOptions{L0Trigger: 2})
	d.put("apple", "red")
	d.put("banana", "yellow")
	d.flush()
	d.delete("banana")
	d.flush()

	p := d.l.Pick(d.version(), &d.busy) // under the database's lock
	fmt.Println(p)
	d.busy.Start(p)
	r, err := Run(context.Background(), p, d.env(nil)) // without it
	d.busy.Done(p)
	fmt.Println(r.EntriesRead, "versions read,", r.EntriesWritten, "written, error:", err)
	fmt.Println(r.Files[0])
	// Output:
	// level 0 files: rewrite L0[2 1] -> L1, bottommost
	// 3 versions read, 1 written, error: <nil>
	// 000003[apple#0,SET..apple#0,SET]
}
