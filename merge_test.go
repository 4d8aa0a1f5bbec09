package ashlar

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/vfs"
)

// countingOperator is StringAppend(","), and counts its calls and fails when it is told to.
type countingOperator struct {
	MergeOperator
	full, partial atomic.Int64
	fails, panics atomic.Bool
}

var errMoody = errors.New("not today")

func newCountingOperator() *countingOperator {
	return &countingOperator{MergeOperator: StringAppendOperator(",")}
}

func (c *countingOperator) FullMerge(dst, key, existing []byte, operands [][]byte) ([]byte, error) {
	c.full.Add(1)
	switch {
	case c.fails.Load():
		return nil, errMoody
	case c.panics.Load():
		panic("moody")
	}
	return c.MergeOperator.FullMerge(dst, key, existing, operands)
}

func (c *countingOperator) PartialMerge(dst, key []byte, operands [][]byte) ([]byte, bool) {
	c.partial.Add(1)
	if c.panics.Load() {
		panic("moody")
	}
	return c.MergeOperator.PartialMerge(dst, key, operands)
}

// mergingDB opens a database in memory whose families append.
func mergingDB(t *testing.T, o *Options) *DB {
	t.Helper()
	if o.FS == nil {
		o.FS = vfs.NewMem()
	}
	if o.MergeOperator == nil {
		o.MergeOperator = StringAppendOperator(",")
	}
	return mustOpen(t, "db", o)
}

// doMerges does a play of one-line writes: "a=1" puts, "a+2" merges, "a-" deletes, "a~" deletes singly, "|" flushes and ">"
// compacts all to the bottom.
func doMerges(t *testing.T, cf *ColumnFamily, play string) {
	t.Helper()
	ctx := context.Background()
	for _, w := range strings.Fields(play) {
		i := strings.IndexAny(w, "=+-~|>")
		key, value := []byte(w[:i]), []byte(w[i+1:])
		var err error
		switch w[i] {
		case '=':
			err = cf.Put(key, value, nil)
		case '+':
			err = cf.Merge(key, value, nil)
		case '-':
			err = cf.Delete(key, nil)
		case '~':
			err = cf.SingleDelete(key, nil)
		case '|':
			err = cf.db.Flush(ctx, nil, cf)
		case '>':
			err = cf.CompactRange(ctx, nil, nil, &CompactRangeOptions{ForceBottommost: true})
		}
		require.NoError(t, err, w)
	}
}

// mergesShown reads a family by every way there is and returns it as "a=1 b=2".
func mergesShown(t *testing.T, cf *ColumnFamily, o *ReadOptions) string {
	t.Helper()
	var words []string
	var keys [][]byte
	it := cf.NewIterator(o)
	for k, v := range it.All() {
		words = append(words, string(k)+"="+string(v))
		keys = append(keys, append([]byte{}, k...))
	}
	require.NoError(t, it.Error())
	n := len(words)
	for k, v := range it.Backward() {
		n--
		require.Equal(t, words[n], string(k)+"="+string(v), "backward")
	}
	require.Zero(t, n)
	require.NoError(t, it.Close())
	values, errs := cf.MultiGet(append(keys, keys...), o)
	for n, k := range append(keys, keys...) {
		word := words[n%len(words)]
		require.NoError(t, errs[n])
		require.Equal(t, word, string(k)+"="+string(values[n]), "MultiGet")
		got, err := cf.AppendGet([]byte(string(k)+"="), k, o)
		require.NoError(t, err)
		require.Equal(t, word, string(got), "AppendGet")
		require.NoError(t, cf.GetPinned(k, o, func(v []byte) error {
			require.Equal(t, word, string(k)+"="+string(v), "GetPinned")
			return nil
		}))
	}
	return strings.Join(words, " ")
}

func TestMergesAreSeenByEveryReadWhereverTheirOperandsLie(t *testing.T) {
	for _, tc := range []struct{ name, play, want string }{
		{"in the memtable", "a=1 a+2 a+3 b+4", "a=1,2,3 b=4"},
		{"over the memtable and a table", "a=1 a+2 | a+3 a+4", "a=1,2,3,4"},
		{"over many tables", "a=1 | a+2 | a+3 | b+1 | a+4 | b+2", "a=1,2,3,4 b=1,2"},
		{"over the levels", "a=1 b+1 > a+2 b+2 > a+3 | b+3 a+4", "a=1,2,3,4 b=1,2,3"},
		{"on an empty value", "a= a+2 | b+ b+", "a=,2 b=,"},
		{"on a delete, whose elders are gone (facebook/rocksdb#4698)", "a=1 a+2 a- a+3 | a+4", "a=3,4"},
		{"the same over tables", "a=1 | a+2 | a- | a+3 | a+4", "a=3,4"},
		{"the same over levels", "a=1 a+2 > a- | a+3 >", "a=3"},
		{"on a single delete", "a=1 | a~ a+2 | a+3", "a=2,3"},
		{"a put ends them", "a+1 a+2 | a=3 a+4", "a=3,4"},
		{"a delete ends them", "a+1 | b+1 | a-", "b=1"},
		{"a single operand is a value (facebook/rocksdb#4909)", "a+1 c+2 b+3 >", "a=1 b=3 c=2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fs := vfs.NewMem()
			db := mergingDB(t, &Options{FS: fs})
			doMerges(t, db.DefaultColumnFamily(), tc.play)
			require.Equal(t, tc.want, mergesShown(t, db.DefaultColumnFamily(), nil))
			mustClose(t, db)
			db = mergingDB(t, &Options{FS: fs}) // from the log
			require.Equal(t, tc.want, mergesShown(t, db.DefaultColumnFamily(), nil))
			doMerges(t, db.DefaultColumnFamily(), ">")
			require.Equal(t, tc.want, mergesShown(t, db.DefaultColumnFamily(), nil))
			mustClose(t, db)
		})
	}
}

// facebook/rocksdb#5577, #8135.
func TestBugBank061OneBatchPutsAndMergesAKey(t *testing.T) {
	db := mergingDB(t, &Options{})
	users, err := db.CreateColumnFamily("users", nil)
	require.NoError(t, err)
	var b Batch
	require.NoError(t, b.Put(nil, []byte("k1"), []byte("v1")))
	require.NoError(t, b.Merge(nil, []byte("k1"), []byte("v2")))
	require.NoError(t, b.Merge(users, []byte("k1"), []byte("u1")))
	require.NoError(t, b.Merge(users, []byte("k1"), []byte("u2")))
	b.SetSavePoint()
	require.NoError(t, b.Merge(users, []byte("k1"), []byte("u3")))
	require.NoError(t, b.RollbackToSavePoint())
	require.Equal(t, 4, b.Count())
	var same Batch
	require.NoError(t, same.SetData(b.Data()))
	require.NoError(t, db.Write(&same, nil))
	require.Equal(t, "k1=v1,v2", mergesShown(t, db.DefaultColumnFamily(), nil))
	require.Equal(t, "k1=u1,u2", mergesShown(t, users, nil))
}

func TestASnapshotSeesTheOperandsOfItsTime(t *testing.T) {
	fs := vfs.NewMem()
	db := mergingDB(t, &Options{FS: fs})
	cf := db.DefaultColumnFamily()
	rng := rand.New(rand.NewPCG(1, 1))
	type moment struct {
		s    *Snapshot
		want string
	}
	var moments []moment
	check := func() {
		for _, m := range moments {
			require.Equal(t, m.want, mergesShown(t, cf, &ReadOptions{Snapshot: m.s}))
		}
	}
	for n := range 60 {
		doMerges(t, cf, fmt.Sprintf([]string{"a+%d b=%d", "a+%d b+%d", "b- a+%d c+%d", "a+%d | b+%d", "a+%d b+%d >"}[rng.IntN(5)], n, n))
		if n%3 == 0 {
			moments = append(moments, moment{db.NewSnapshot(), mergesShown(t, cf, nil)})
		}
		if len(moments) > 6 {
			i := rng.IntN(len(moments))
			moments[i].s.Release()
			moments = append(moments[:i], moments[i+1:]...)
		}
	}
	check()
	doMerges(t, cf, ">")
	check()
	for _, m := range moments {
		m.s.Release()
	}
}

// A read after every snapshot is gone and all is compacted has nothing left to merge.
// facebook/rocksdb#4828.
func TestBugBank011ACompleteChainAtTheBottomBecomesAPut(t *testing.T) {
	op := newCountingOperator()
	o := &Options{}
	o.MergeOperator = op
	db := mergingDB(t, o)
	cf := db.DefaultColumnFamily()
	doMerges(t, cf, "k+1 k+2 k+3 z+1")
	s := db.NewSnapshot()
	doMerges(t, cf, "k+4 k+5 k+6 k+7 a+1 >")
	op.full.Store(0)
	require.Equal(t, "a=1 k=1,2,3,4,5,6,7 z=1", mergesShown(t, cf, nil))
	require.NotZero(t, op.full.Load())
	require.Equal(t, "k=1,2,3 z=1", mergesShown(t, cf, &ReadOptions{Snapshot: s}))
	s.Release()
	doMerges(t, cf, ">")
	op.full.Store(0)
	require.Equal(t, "a=1 k=1,2,3,4,5,6,7 z=1", mergesShown(t, cf, nil))
	require.Zero(t, op.full.Load())
	require.NoError(t, db.WaitForCompact(context.Background()))
	require.Zero(t, tableKinds(t, db)[kv.KindMerge])
}

// tableKinds counts what stands in the tables of the default family.
func tableKinds(t *testing.T, db *DB) map[kv.Kind]int {
	t.Helper()
	n := map[kv.Kind]int{}
	cf := db.DefaultColumnFamily()
	v := db.versions.Current(cf.id)
	defer v.Unref()
	for _, f := range v.All() {
		h, err := db.tables.Get(f.Num, f.Size, f.LargestSeq, cf.tablesAt(1))
		require.NoError(t, err)
		n[kv.KindMerge] += int(h.Reader().Properties().MergeOperands)
		n[kv.KindDelete] += int(h.Reader().Properties().Deletions)
		h.Release()
	}
	return n
}

// RocksDB HISTORY: MultiGet with duplicates and a merge.
func TestBugBank062MultiGetOfOneKeyManyTimesAtTheEndOfATable(t *testing.T) {
	db := mergingDB(t, &Options{})
	cf := db.DefaultColumnFamily()
	doMerges(t, cf, "a=1 m=1 > m+2 | b=1 m+3 |")
	m := []byte("m")
	values, errs := cf.MultiGet([][]byte{m, []byte("a"), m, []byte("zz"), m}, nil)
	for _, n := range []int{0, 2, 4} {
		require.NoError(t, errs[n])
		require.Equal(t, "1,2,3", string(values[n]))
	}
	require.ErrorIs(t, errs[3], ErrNotFound)
}

// Next and Prev go to the exact neighbour, whatever mixture of operands, tombstones and hidden versions lies between, and
// do not fall over the bounds (facebook/rocksdb#648, #682, #3989).
func TestTurningRoundAmongMerges(t *testing.T) {
	db := mergingDB(t, &Options{})
	cf := db.DefaultColumnFamily()
	doMerges(t, cf, "a+1 b=1 c=1 d+1 e=1 f=9 > a+2 b+2 c- d+2 | a+3 b- b+3 e+2 d- f+1 g+1 g+2 |")
	s := db.NewSnapshot()
	defer s.Release()
	doMerges(t, cf, "a+hidden b+hidden c+hidden d=hidden e- g+hidden h+hidden")
	for range 12 {
		doMerges(t, cf, "b+more e+more") // more than are stepped over one by one
	}
	for _, bounds := range [][2]string{{"", ""}, {"b", "f"}, {"c", "e"}, {"a", "g"}, {"bb", "ee"}} {
		o := &ReadOptions{Snapshot: s}
		all := []string{"a=1,2,3", "b=3", "e=1,2", "f=9,1", "g=1,2"}
		if bounds[0] != "" {
			o.IterateLowerBound, o.IterateUpperBound = []byte(bounds[0]), []byte(bounds[1])
			var in []string
			for _, w := range all {
				if w[:1] >= bounds[0] && w[:1] < bounds[1] {
					in = append(in, w)
				}
			}
			all = in
		}
		it := cf.NewIterator(o)
		at := func(n int) {
			t.Helper()
			require.NoError(t, it.Error())
			require.Equal(t, n >= 0 && n < len(all), it.Valid())
			if it.Valid() {
				require.Equal(t, all[n], string(it.Key())+"="+string(it.Value()))
			}
		}
		rng := rand.New(rand.NewPCG(3, 3))
		it.SeekToFirst()
		n := 0
		for range 500 {
			at(n)
			switch rng.IntN(6) {
			case 0, 1:
				it.Next()
				n = min(n+1, len(all))
			case 2, 3:
				it.Prev()
				n = max(n-1, -1)
			case 4:
				k := string(rune('a' + rng.IntN(8)))
				it.Seek([]byte(k))
				for n = 0; n < len(all) && all[n][:1] < k; n++ {
				}
			case 5:
				k := string(rune('a' + rng.IntN(8)))
				it.SeekForPrev([]byte(k))
				for n = len(all) - 1; n >= 0 && all[n][:1] > k; n-- {
				}
			}
		}
		require.NoError(t, it.Close())
	}
}

// Operands lie in many blocks, none of which stays in the cache by itself.
func TestEveryBlockThatAnOperandLiesInIsPinned(t *testing.T) {
	o := &Options{BlockCache: NewCache(0)}
	o.Table.BlockSize = 1
	o.DisableAutoCompactions = true
	o.MergeOperator = wholeOnly{StringAppendOperator(",")}
	db := mergingDB(t, o)
	cf := db.DefaultColumnFamily()
	want := "0"
	doMerges(t, cf, "k=0 |")
	var snapshots []*Snapshot
	for n := 1; n <= 40; n++ {
		word := fmt.Sprint(n, strings.Repeat("x", 200))
		want += "," + word
		require.NoError(t, cf.Merge([]byte("k"), []byte(word), nil))
		if n%7 == 0 {
			doMerges(t, cf, "|")
		}
		snapshots = append(snapshots, db.NewSnapshot())
	}
	for range 3 {
		require.Equal(t, "k="+want, mergesShown(t, cf, nil))
		doMerges(t, cf, "| >")
	}
	require.Zero(t, o.BlockCache.PinnedUsage())
	for _, s := range snapshots {
		s.Release()
	}
}

// wholeOnly is an operator without partial merges.
type wholeOnly struct{ MergeOperator }

func (wholeOnly) PartialMerge(dst, _ []byte, _ [][]byte) ([]byte, bool) { return dst, false }

func TestWithoutAnOperatorMergesAreRefusedAndReadsSaySo(t *testing.T) {
	fs := vfs.NewMem()
	db := mergingDB(t, &Options{FS: fs})
	doMerges(t, db.DefaultColumnFamily(), "a=1 b=1 b+2 | b+3 c+1")
	mustClose(t, db)

	db = mustOpen(t, "db", &Options{FS: fs})
	cf := db.DefaultColumnFamily()
	var b Batch
	require.ErrorIs(t, b.Merge(cf, []byte("k"), nil), ErrInvalidArgument)
	require.Zero(t, b.Count())
	require.ErrorIs(t, db.Merge([]byte("k"), nil, nil), ErrInvalidArgument)
	require.NoError(t, b.Merge(nil, []byte("k"), []byte("v"))) // the batch does not know the database
	require.ErrorIs(t, db.Write(&b, nil), ErrInvalidArgument)
	require.NoError(t, b.SetData(b.Data()))
	require.ErrorContains(t, db.Write(&b, nil), `"default"`)
	data := batch.AppendMerge(batch.Init(nil), 7, []byte("k"), nil)
	batch.SetHeader(data, 0, 1)
	require.NoError(t, b.SetData(data))
	require.ErrorIs(t, db.Write(&b, nil), ErrColumnFamilyDropped)

	for range 2 {
		require.Equal(t, "1", string(mustGet(db.Get([]byte("a"), nil))))
		for _, k := range []string{"b", "c"} {
			_, err := db.Get([]byte(k), nil)
			require.ErrorIs(t, err, ErrNotSupported)
			require.ErrorContains(t, err, `"default"`)
			require.ErrorContains(t, err, `"`+k+`"`)
			_, errs := db.MultiGet([][]byte{[]byte(k), []byte("a")}, nil)
			require.ErrorIs(t, errs[0], ErrNotSupported)
			require.NoError(t, errs[1])
			it := db.NewIterator(nil)
			require.False(t, it.Seek([]byte(k)))
			require.ErrorIs(t, it.Error(), ErrNotSupported)
			require.ErrorContains(t, it.Error(), `"`+k+`"`)
			require.False(t, it.SeekForPrev([]byte(k)))
			require.ErrorIs(t, it.Error(), ErrNotSupported)
			require.True(t, it.SeekToFirst())
			require.Equal(t, "a", string(it.Key()))
			require.NoError(t, it.Close())
		}
		doMerges(t, cf, ">")
	}
	mustClose(t, db)

	db = mergingDB(t, &Options{FS: fs})
	require.Equal(t, "a=1 b=1,2,3 c=1", mergesShown(t, db.DefaultColumnFamily(), nil))
}

func mustGet(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func TestAnOperatorsErrorIsTheReadsAndHurtsNoJob(t *testing.T) {
	op := newCountingOperator()
	o := &Options{FS: vfs.NewMem()}
	o.MergeOperator = op
	db := mergingDB(t, o)
	cf := db.DefaultColumnFamily()
	doMerges(t, cf, "a=1 b=1 b+2 c=1")
	op.fails.Store(true)
	for range 2 {
		_, err := db.Get([]byte("b"), nil)
		require.ErrorIs(t, err, errMoody)
		require.ErrorIs(t, err, ErrCorruption)
		require.ErrorContains(t, err, `"b"`)
		require.ErrorIs(t, db.GetPinned([]byte("b"), nil, func([]byte) error { panic("called") }), errMoody)
		it := db.NewIterator(nil)
		require.True(t, it.SeekToFirst())
		require.False(t, it.Next())
		require.ErrorIs(t, it.Error(), errMoody)
		require.False(t, it.Next())
		require.True(t, it.Seek([]byte("c")))
		require.False(t, it.Prev())
		require.ErrorIs(t, it.Error(), errMoody)
		require.ErrorIs(t, it.Close(), errMoody)
		doMerges(t, cf, "| >")
	}
	require.NoError(t, db.BackgroundError())
	op.fails.Store(false)
	require.Equal(t, "a=1 b=1,2 c=1", mergesShown(t, cf, nil))
	doMerges(t, cf, ">")
	require.Equal(t, "a=1 b=1,2 c=1", mergesShown(t, cf, nil))
	require.Zero(t, tableKinds(t, db)[kv.KindMerge])
}

func TestAPanicOfTheOperatorIsAnErrorOfTheReadOrTheJob(t *testing.T) {
	op := newCountingOperator()
	o := &Options{FS: vfs.NewMem()}
	o.MergeOperator = op
	db := mergingDB(t, o)
	cf := db.DefaultColumnFamily()
	doMerges(t, cf, "a=1 b=1 b+2 c=1")
	op.panics.Store(true)
	_, err := db.Get([]byte("b"), nil)
	require.ErrorIs(t, err, ErrCorruption)
	require.ErrorContains(t, err, "moody")
	it := db.NewIterator(nil)
	require.False(t, it.Seek([]byte("b")))
	require.ErrorContains(t, it.Error(), "moody")
	require.Error(t, it.Close())
	require.ErrorContains(t, db.Flush(context.Background(), nil), "moody")
	require.ErrorContains(t, db.BackgroundError(), "moody")
	require.Equal(t, "1", string(mustGet(db.Get([]byte("a"), nil))), "reads go on")
	require.NoError(t, db.Close())

	op.panics.Store(false)
	db = mergingDB(t, o)
	cf = db.DefaultColumnFamily()
	require.Equal(t, "a=1 b=1,2 c=1", mergesShown(t, cf, nil))
	doMerges(t, cf, "b+3 >")
	require.Equal(t, "a=1 b=1,2,3 c=1", mergesShown(t, cf, nil))
}
