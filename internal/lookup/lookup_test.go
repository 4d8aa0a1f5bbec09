package lookup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/merge"
	"github.com/ashlardb/ashlar/internal/offheap"
)

func TestFirstVisibleVersionDecides(t *testing.T) {
	for _, c := range []struct {
		name  string
		seq   kv.Seq
		state State
		value string
	}{
		{"before all", 1, Pending, ""},
		{"at the put", 2, Found, "old"},
		{"at the delete", 5, Deleted, ""},
		{"at the newest", 9, Found, "new"},
		{"at the merge", 10, Found, "new"},
		{"at what is not built", 11, Unsupported, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := Get{User: []byte("k"), Seq: c.seq}
			more := true
			for _, v := range []struct {
				seq  kv.Seq
				kind kv.Kind
				val  string
			}{{11, kv.KindBlobIndex, "?"}, {10, kv.KindMerge, "+1"}, {8, kv.KindValue, "new"}, {4, kv.KindSingleDel, ""}, {2, kv.KindValue, "old"}} {
				if more {
					more = g.Offer(kv.MakeTrailer(v.seq, v.kind), []byte(v.val))
				}
			}
			require.Equal(t, c.state, g.State)
			require.Equal(t, c.value, string(g.Value))
			require.Equal(t, c.state == Pending, more)
			require.Equal(t, c.seq == 10, g.Merging())
			g.Release()
		})
	}
}

func TestARangeDeleteHidesWhatIsOlder(t *testing.T) {
	offer := func(g *Get, seqs ...kv.Seq) {
		for _, s := range seqs {
			if !g.Offer(kv.MakeTrailer(s, kv.KindValue), []byte("v")) {
				return
			}
		}
	}
	g := Get{Seq: 9}
	g.Cover(0)
	require.False(t, g.Covered())
	g.Cover(6)
	g.Cover(4)
	offer(&g, 12, 7, 3)
	require.Equal(t, Found, g.State, "newer than the range delete")
	require.True(t, g.Covered())
	require.Equal(t, Found, g.State)

	g = Get{Seq: 9}
	g.Cover(6)
	offer(&g, 5)
	require.Equal(t, Deleted, g.State)

	g = Get{Seq: 9}
	g.Cover(6)
	require.Equal(t, Pending, g.State)
	require.True(t, g.Covered(), "nothing was offered, and nothing older counts")
	require.Equal(t, Deleted, g.State)
}

func TestMergeTakesOperandsOldestFirst(t *testing.T) {
	op := merge.StringAppend{Delimiter: ","}
	for _, c := range []struct {
		name, want string
		base       kv.Kind
	}{
		{"on a value", "v,1,2,3", kv.KindValue},
		{"on a delete", "1,2,3", kv.KindDelete},
		{"on nothing", "1,2,3", kv.KindMax},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := Get{User: []byte("k"), Seq: 9}
			for n := 3; n > 0; n-- {
				require.True(t, g.Offer(kv.MakeTrailer(kv.Seq(4+n), kv.KindMerge), []byte{'0' + byte(n)}))
				require.Equal(t, Pending, g.State)
			}
			if c.base != kv.KindMax {
				require.False(t, g.Offer(kv.MakeTrailer(4, c.base), []byte("v")))
			}
			require.Equal(t, 3, g.Operands())
			require.NoError(t, g.Merge(op))
			require.Equal(t, Found, g.State)
			require.Equal(t, c.want, string(g.Value))
			g.Release()
			require.False(t, g.Merging())
			require.Nil(t, g.Value)
		})
	}
}

func TestReleaseGivesBackEveryPinOnce(t *testing.T) {
	blocks := cache.New(0)
	before := offheap.Live()
	for operands := range 4 {
		g := Get{User: []byte("k"), Seq: 9}
		for n := range operands {
			g.Offer(kv.MakeTrailer(kv.Seq(8-n), kv.KindMerge), []byte("x"))
			g.Pin(blocks.Alloc(100))
		}
		g.Offer(kv.MakeTrailer(1, kv.KindValue), []byte("v"))
		g.Pin(blocks.Alloc(100))
		g.Release()
		g.Release()
	}
	require.Equal(t, before, offheap.Live())
}

func TestMergesNeedNoMemoryOnceTheyHaveIt(t *testing.T) {
	var op kv.MergeOperator = merge.UInt64Add{}
	one := []byte{1, 0, 0, 0, 0, 0, 0, 0}
	read := func() {
		g := Get{User: one, Seq: 99}
		for n := range 20 {
			g.Offer(kv.MakeTrailer(kv.Seq(50-n), kv.KindMerge), one)
		}
		if err := g.Merge(op); err != nil || g.Value[0] != 20 {
			t.Error(g.Value, err)
		}
		g.Release()
	}
	read()
	require.Less(t, testing.AllocsPerRun(100, read), 3.0, "less than an allocation for each operand; a pool may be emptied")
}
