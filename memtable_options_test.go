package ashlar

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/lsm"
	"github.com/ashlardb/ashlar/memtable"
	"github.com/ashlardb/ashlar/vfs"
)

// History is the youngest memtables that are enough for as many bytes as were asked for, and no more.
func TestHistoryIsAsLongAsAsked(t *testing.T) {
	ctx := context.Background()
	db := mustOpen(t, "db", memOptions(vfs.NewMem()))
	cf := db.DefaultColumnFamily()
	rng := rand.New(rand.NewPCG(1, 1))
	limit := uint64(0)
	history := func() (bytes uint64, mems []*lsm.Mem) {
		sv := cf.tree.Acquire()
		defer sv.Release()
		require.Len(t, sv.Mems(), 1)
		return uint64(sv.Mems()[0].Bytes()), sv.History()
	}
	longest := 0
	for i := range 200 {
		if rng.IntN(10) == 0 {
			limit = rng.Uint64N(100_000)
			require.NoError(t, db.SetOptions(map[string]string{"max_write_buffer_size_to_maintain": fmt.Sprint(limit)}))
		}
		_, before := history()
		mustPut(t, cf, fmt.Sprint(i), strings.Repeat("v", rng.IntN(10_000)), nil)
		require.NoError(t, db.Flush(ctx, nil))
		bytes, mems := history()
		for n, m := range mems {
			require.Less(t, bytes, limit, "after %d flushes the memtables before the %d. suffice", i+1, n)
			bytes += uint64(m.Bytes())
		}
		if bytes < limit {
			require.Len(t, mems, len(before)+1, "nothing is dropped while it is not enough")
		}
		longest = max(longest, len(mems))
	}
	require.Greater(t, longest, 5)
}

// What Latest says of a key is right, and that it knows nothing of before since is right too: checked against all that was
// written, with flushes and changes of the limit between.
// TestAllMemoryOfMemtablesIsCounted compares the properties with one another: what they mean is RocksDB's.
func TestAllMemoryOfMemtablesIsCounted(t *testing.T) {
	o := memOptions(vfs.NewMem())
	o.MaxWriteBufferSizeToMaintain = 8 << 20
	o.MemtablePrefixBloomSizeRatio, o.MemtableWholeKeyFiltering = 0.1, true
	db, err := Open("db", o)
	require.NoError(t, err)
	bloom := int64(float64(o.WriteBufferSize) * 0.1)
	property := func(name string) int64 {
		s, ok := db.Property("rocksdb." + name)
		require.True(t, ok)
		n, err := strconv.ParseInt(s, 10, 64)
		require.NoError(t, err)
		return n
	}
	empty := property("cur-size-active-mem-table")
	require.InDelta(t, bloom, empty, 64, "the filter counts")
	mustPut(t, db.DefaultColumnFamily(), "a", string(make([]byte, 10_000)), nil)
	full := property("cur-size-active-mem-table")
	require.Greater(t, full, empty+10_000)
	require.Equal(t, full, property("cur-size-all-mem-tables"))
	require.Equal(t, full, property("size-all-mem-tables"))
	require.NoError(t, db.Flush(context.Background(), nil))
	require.Equal(t, empty, property("cur-size-all-mem-tables"))
	require.Equal(t, empty+full, property("size-all-mem-tables"), "what was flushed is kept")
	f := db.Metrics().Families[0]
	require.Equal(t, empty, f.MemtableBytes)
	require.Equal(t, full, f.MemtableHistoryBytes)
	require.NoError(t, db.Close())
}

func TestLatestInHistoryIsRight(t *testing.T) {
	ctx := context.Background()
	db := mustOpen(t, "db", memOptions(vfs.NewMem()))
	cf := db.DefaultColumnFamily()
	rng := rand.New(rand.NewPCG(2, 1))
	latest := map[string]kv.Seq{}
	found, unknown := 0, 0
	for range 3000 {
		switch n := rng.IntN(100); {
		case n < 2:
			limit := []string{"0", "-1", "20000", "1M"}[rng.IntN(4)]
			require.NoError(t, db.SetOptions(map[string]string{"max_write_buffer_size_to_maintain": limit}))
		case n < 10:
			require.NoError(t, db.Flush(ctx, nil))
		case n < 60:
			key := fmt.Sprint(rng.IntN(300))
			mustPut(t, cf, key, strings.Repeat("v", rng.IntN(300)), nil)
			latest[key] = kv.Seq(db.LatestSequenceNumber())
		default:
			key := fmt.Sprint(rng.IntN(300))
			sv := cf.tree.Acquire()
			seq, since := sv.Latest([]byte(key))
			sv.Release()
			if seq > 0 {
				require.Equal(t, latest[key], seq)
				found++
			} else {
				require.LessOrEqual(t, latest[key], since)
				unknown++
			}
		}
	}
	require.Greater(t, found, 100)
	require.Greater(t, unknown, 100)
}

func TestHistoryIsNotReadAndNotKeptBeyondClose(t *testing.T) {
	ctx := context.Background()
	o := memOptions(vfs.NewMem())
	o.MaxWriteBufferSizeToMaintain = -1
	db := mustOpen(t, "db", o)
	cf := db.DefaultColumnFamily()
	mustPut(t, cf, "k", "old", nil)
	require.NoError(t, db.Flush(ctx, nil))
	require.NoError(t, cf.Delete([]byte("k"), nil))
	require.NoError(t, db.CompactRange(ctx, nil, nil, nil))
	require.Equal(t, "", valueOf(t, cf, "k"))
	require.Empty(t, readForward(t, cf))
	require.Empty(t, readBackward(t, cf))
	require.Zero(t, db.Metrics().Families[0].ImmutableMemtables)
}

// After so many range deletes a memtable is flushed, without a byte limit in sight.
func TestManyRangeDeletesFlushAMemtable(t *testing.T) {
	ctx := context.Background()
	o := memOptions(vfs.NewMem())
	o.MemtableMaxRangeDeletions, o.WriteBufferSize = 10, 64<<20
	db := mustOpen(t, "db", o)
	for i := range 95 {
		require.NoError(t, db.DeleteRange(fmt.Appendf(nil, "%02d", i), fmt.Appendf(nil, "%02d", i+1), nil))
		require.NoError(t, db.WaitForCompact(ctx)) // or one flush might write two memtables
	}
	require.EqualValues(t, 9, db.Metrics().Flushes)
	require.NoError(t, db.SetOptions(map[string]string{"memtable_max_range_deletions": "0"}))
	for i := range 95 {
		require.NoError(t, db.DeleteRange(fmt.Appendf(nil, "%02d", i), fmt.Appendf(nil, "%02d", i+1), nil))
	}
	require.NoError(t, db.WaitForCompact(ctx))
	require.EqualValues(t, 9, db.Metrics().Flushes, "the limit is off")
}

// kindsOf are the kinds of a key's versions in the memtable, newest first: a letter each.
func kindsOf(cf *ColumnFamily, key string) string {
	var b strings.Builder
	var it memtable.Iterator
	it.Init(cf.mem.Table)
	for e := it.SeekGE(kv.SeekKey([]byte(key), kv.MaxSeq), nil); e != nil && string(e.Key.User) == key; e = it.Next() {
		b.WriteByte(map[kv.Kind]byte{kv.KindMerge: 'm', kv.KindValue: 'v', kv.KindDelete: 'd'}[e.Key.Kind()])
	}
	return b.String()
}

func TestSuccessiveMergesAreFolded(t *testing.T) {
	ctx := context.Background()
	fs := vfs.NewMem()
	o := memOptions(fs)
	o.MergeOperator, o.MaxSuccessiveMerges = StringAppendOperator(","), 2
	db := mustOpen(t, "db", o)
	cf := db.DefaultColumnFamily()
	add := func(key string, operands ...string) {
		for _, s := range operands {
			require.NoError(t, cf.Merge([]byte(key), []byte(s), nil))
		}
	}
	add("k", "a", "b")
	require.Equal(t, "mm", kindsOf(cf, "k"))
	add("k", "c")
	require.Equal(t, "vmm", kindsOf(cf, "k"), "the third finds two before it")
	snapshot := db.NewSnapshot()
	add("k", "d", "e", "f")
	require.Equal(t, "vmmvmm", kindsOf(cf, "k"))
	require.Equal(t, "a,b,c,d,e,f", valueOf(t, cf, "k"))
	old, err := cf.Get([]byte("k"), &ReadOptions{Snapshot: snapshot})
	require.NoError(t, err)
	require.Equal(t, "a,b,c", string(old))
	snapshot.Release()

	// In one batch, and on a deleted key.
	var b Batch
	require.NoError(t, b.Put(cf, []byte("in a batch"), []byte("1")))
	require.NoError(t, b.Delete(cf, []byte("k")))
	for _, s := range []string{"x", "y", "z"} {
		require.NoError(t, b.Merge(cf, []byte("in a batch"), []byte(s)))
		require.NoError(t, b.Merge(cf, []byte("k"), []byte(s)))
	}
	require.NoError(t, db.Write(&b, nil))
	require.Equal(t, "vmmv", kindsOf(cf, "in a batch"))
	require.Equal(t, "vmmd", kindsOf(cf, "k")[:4])
	require.Equal(t, "1,x,y,z", valueOf(t, cf, "in a batch"))
	require.Equal(t, "x,y,z", valueOf(t, cf, "k"))

	// Under a range delete.
	add("r", "a", "b")
	require.NoError(t, db.DeleteRange([]byte("r"), []byte("s"), nil))
	add("r", "c")
	require.Equal(t, "c", valueOf(t, cf, "r"))

	// The base is in a table: taken if it is in the cache, else the operand stays as it is.
	mustPut(t, cf, "base", "0", nil)
	require.NoError(t, db.Flush(ctx, nil))
	add("base", "1", "2", "3")
	require.Equal(t, "mmm", kindsOf(cf, "base"), "no file is read for it")
	require.Equal(t, "0,1,2,3", valueOf(t, cf, "base"))
	add("base", "4")
	require.Equal(t, "vmmm", kindsOf(cf, "base"), "now it is in the cache")

	// The log has the operands; what recovery makes of them is the same.
	want := must(contentOf(cf))
	require.NoError(t, db.SyncWAL(ctx))
	left := mustOpen(t, "db", func() *Options { c := *o; c.FS = fs.Crash(nil); return &c }())
	require.Equal(t, want, must(contentOf(left.DefaultColumnFamily())))

	require.NoError(t, db.SetOptions(map[string]string{"max_successive_merges": "0"}))
	add("k", "1", "2", "3", "4")
	require.Equal(t, "mmmm", kindsOf(cf, "k")[:4])
}

// A folded value may be much larger than its operand. It is not made where the memtable has no room for it.
func TestFoldedValuesDoNotOverfillAMemtable(t *testing.T) {
	o := memOptions(vfs.NewMem())
	o.MergeOperator, o.MaxSuccessiveMerges, o.MaxWriteBufferNumber = StringAppendOperator(","), 1, 10
	db := mustOpen(t, "db", o)
	var want bytes.Buffer
	for i := range 60 {
		operand := bytes.Repeat([]byte{'a' + byte(i%26)}, 20_000)
		if i > 0 {
			want.WriteByte(',')
		}
		want.Write(operand)
		require.NoError(t, db.Merge([]byte("k"), operand, nil), i)
		require.Equal(t, want.String(), valueOf(t, db.DefaultColumnFamily(), "k")) // which brings it into the cache
	}
	require.NoError(t, db.BackgroundError())
}

// With pipelined writes groups are let in while others are inserted: folded is what takes no more room than its operand.
func TestPipelinedWritesFoldWhatIsNotLonger(t *testing.T) {
	for _, c := range []struct {
		op    MergeOperator
		kinds string
		want  string
	}{
		{UInt64AddOperator, "vmmvmm", "\x06\x00\x00\x00\x00\x00\x00\x00"},
		{StringAppendOperator(","), "mmmmmm", strings.TrimPrefix(strings.Repeat(",\x01\x00\x00\x00\x00\x00\x00\x00", 6), ",")},
	} {
		o := memOptions(vfs.NewMem())
		o.MergeOperator, o.MaxSuccessiveMerges, o.EnablePipelinedWrite = c.op, 2, true
		db := mustOpen(t, "db", o)
		for range 6 {
			require.NoError(t, db.Merge([]byte("k"), []byte{1, 0, 0, 0, 0, 0, 0, 0}, nil))
		}
		require.Equal(t, c.kinds, kindsOf(db.DefaultColumnFamily(), "k"))
		require.Equal(t, c.want, valueOf(t, db.DefaultColumnFamily(), "k"))
	}
}

// A table whose range deletes hide much is as heavy as what they hide: level 0 goes down with one file, long before its
// trigger, and takes with it what is hidden.
func TestRangeDeletesThatHideMuchAreCompactedEarly(t *testing.T) {
	ctx := context.Background()
	o := memOptions(vfs.NewMem())
	o.Compression, o.Level0FileNumCompactionTrigger, o.DisableAutoCompactions = NoCompression, 10, true
	db := mustOpen(t, "db", o)
	for i := range 2000 {
		mustPut(t, db.DefaultColumnFamily(), fmt.Sprintf("k%05d", i), fmt.Sprintf("%0200d", i), nil)
	}
	require.NoError(t, db.CompactRange(ctx, nil, nil, nil))
	size := func() (n uint64) {
		for _, l := range db.Metrics().Families[0].Levels {
			n += l.Bytes
		}
		return n
	}
	all := size()
	hidden := func() uint64 {
		sv := db.tree.Acquire()
		defer sv.Release()
		return sv.Version().Level(0)[0].CompensatedRangeDeletionSize
	}
	for _, c := range []struct {
		begin, end string
		want       float64 // part of all
	}{
		{"k00000", "k01000", 0.5}, {"k00500", "k00600", 0.05}, {"a", "b", 0}, {"k02000", "z", 0}, {"k00007", "z", 1},
	} {
		require.NoError(t, db.DeleteRange([]byte(c.begin), []byte(c.end), nil))
		require.NoError(t, db.Flush(ctx, nil))
		require.InDelta(t, c.want, float64(hidden())/float64(all), 0.05, "%s to %s", c.begin, c.end)
	}
	require.NoError(t, db.SetOptions(map[string]string{"disable_auto_compactions": "false"}))
	require.NoError(t, db.WaitForCompact(ctx))
	require.Less(t, size(), all/10)
	require.Empty(t, readForward(t, db.DefaultColumnFamily()))
}
