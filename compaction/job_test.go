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

	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/iterator/itertest"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/manifest"
	"github.com/ashlardb/ashlar/sstable"
)

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
	for seed := range uint64(9) {
		ops := make([]byte, 350)
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
	p, _, _ := d.l.PickRange(d.version(), 0, 1, nil, nil, nil, nil)
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

func TestAKindThatIsNotBuiltFailsTheJob(t *testing.T) {
	d := newLab(1, tiny())
	it := itertest.New(kv.Bytewise, []kv.Entry{{Key: kv.MakeKey([]byte("k"), 1, kv.KindValue)}, {Key: kv.MakeKey([]byte("m"), 1, kv.KindBlobIndex)}})
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
	p, _, _ := d.l.PickRange(d.version(), 0, 1, nil, nil, nil, nil)
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

// A file whose operands no operator can resolve would be picked for the bottom again and again.
func TestBottommostRewriteEndsAlsoWhereOperandsStay(t *testing.T) {
	d := newLab(1, tiny())
	d.operator = &moody{fail: true}
	d.write("a", kv.KindMerge, "1")
	d.snapshots = []kv.Seq{1}
	d.put("b", "v")
	d.put("b", "w")
	require.NoError(t, d.flush())
	p, _, _ := d.l.PickRange(d.version(), 0, 1, nil, nil, nil, nil)
	require.NoError(t, d.do(p))
	d.snapshots = nil
	n := 0
	for p := d.l.PickBottommost(d.version(), d.seq, nil); p != nil; p = d.l.PickBottommost(d.version(), d.seq, nil) {
		require.NoError(t, d.do(p))
		require.Less(t, n, 2)
		n++
	}
	require.NoError(t, d.check())
	require.True(t, d.levels[1][0].Settled)
	require.NotZero(t, d.levels[1][0].LargestSeq)
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
