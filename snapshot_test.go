package ashlar

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/model"
	"github.com/ashlardb/ashlar/vfs"
)

func TestSnapshotsSeeAllFamiliesAtOneMoment(t *testing.T) {
	db := openMem(t, vfs.NewMem())
	cf, err := db.CreateColumnFamily("x", nil)
	require.NoError(t, err)
	var b Batch
	require.NoError(t, b.Put(nil, []byte("k"), []byte("1")))
	require.NoError(t, b.Put(cf, []byte("k"), []byte("1")))
	require.NoError(t, db.Write(&b, nil))
	s := db.NewSnapshot()
	require.EqualValues(t, 2, s.SequenceNumber())
	b.Clear()
	require.NoError(t, b.Put(nil, []byte("k"), []byte("2")))
	require.NoError(t, b.Delete(cf, []byte("k")))
	require.NoError(t, db.Write(&b, nil))
	require.NoError(t, db.Flush(context.Background(), nil))
	for _, f := range db.ColumnFamilies() {
		require.NoError(t, f.CompactRange(context.Background(), nil, nil, nil))
		v, err := f.Get([]byte("k"), &ReadOptions{Snapshot: s})
		require.NoError(t, err)
		require.Equal(t, "1", string(v))
	}
	s.Release()
	s.Release()
	require.Zero(t, db.Metrics().Snapshots)
	require.NoError(t, db.Close())
	s.Release()
}

func TestTheListOfSnapshotsIsSortedAndCounts(t *testing.T) {
	db := openMem(t, vfs.NewMem())
	var held []*Snapshot
	rng := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		switch {
		case rng.IntN(2) == 0:
			mustPut(t, db.DefaultColumnFamily(), "k", "v", nil)
		case rng.IntN(2) == 0 || len(held) == 0:
			held = append(held, db.NewSnapshot())
		default:
			i := rng.IntN(len(held))
			held[i].Release()
			held = slices.Delete(held, i, i+1)
		}
		var want []kv.Seq
		for _, s := range held {
			want = append(want, s.seq)
		}
		slices.Sort(want)
		require.EqualValues(t, len(held), db.Metrics().Snapshots)
		oldest := kv.Seq(1 << 40)
		if len(want) > 0 {
			oldest = want[0]
		}
		require.Equal(t, oldest, db.snapshots.oldest(1<<40))
		require.Equal(t, slices.Compact(want), slices.Clip(append([]kv.Seq(nil), db.snapshots.list()...)))
	}
	require.NoError(t, db.Close())
	for _, s := range held {
		s.Release()
	}
}

// What a snapshot kept at the bottom is rewritten by itself once it is released.
func TestAReleasedSnapshotLetsGoOfWhatItKept(t *testing.T) {
	db := openMem(t, vfs.NewMem())
	cf := db.DefaultColumnFamily()
	ctx := context.Background()
	for i := range 100 {
		mustPut(t, cf, fmt.Sprintf("k%02d", i), "old", nil)
	}
	s := db.NewSnapshot()
	for i := range 100 {
		require.NoError(t, db.Delete(fmt.Appendf(nil, "k%02d", i), nil))
	}
	require.NoError(t, db.CompactRange(ctx, nil, nil, nil))
	require.Contains(t, cf.Levels(), "DEL")
	s.Release()
	require.NoError(t, db.WaitForCompact(ctx))
	require.Empty(t, cf.Levels())
	require.NoError(t, db.Close())
}

// Bug bank 2 (google/leveldb#320): rotating snapshots over versions of one key that fill several tables.
func TestBugBank002SnapshotsOverSplitKeys(t *testing.T) {
	o := memOptions(vfs.NewMem())
	o.TargetFileSizeBase, o.MaxBytesForLevelBase, o.Table.BlockSize = 512, 2048, 100
	db, err := Open("db", o)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(5, 6))
	twin := model.New()
	family := twin.Family("default")
	var held []*Snapshot
	check := func() {
		for _, s := range held {
			it := db.NewIterator(&ReadOptions{Snapshot: s})
			var got []model.Entry
			for k, v := range it.All() {
				got = append(got, model.Entry{Key: string(k), Value: string(v)})
			}
			require.NoError(t, it.Close())
			require.Equal(t, family.Entries(s.SequenceNumber(), nil, nil), got)
		}
	}
	ops := 8000
	if longRun() {
		ops = 200_000
	}
	for i := range ops {
		k := fmt.Sprintf("k%03d", rng.IntN(200))
		w := model.Write{Family: family, Key: k, Value: fmt.Sprint("v", i)}
		if rng.IntN(3) == 0 {
			w.Kind = model.Delete
			require.NoError(t, db.Delete([]byte(k), nil))
		} else {
			mustPut(t, db.DefaultColumnFamily(), k, w.Value, nil)
		}
		twin.Apply([]model.Write{w})
		switch rng.IntN(200) {
		case 0:
			held = append(held, db.NewSnapshot())
			if len(held) > 4 {
				n := rng.IntN(len(held))
				held[n].Release()
				held = slices.Delete(held, n, n+1)
			}
		case 1:
			require.NoError(t, db.Flush(context.Background(), nil))
		}
		if i%1000 == 999 {
			check()
		}
	}
	check()
	for _, s := range held {
		s.Release()
	}
	checkClean(t, db)
	require.NoError(t, db.Close())
}

// Bug bank 4 (facebook/rocksdb#2722) and 13 (#8608): snapshots are released while compactions run; what was deleted stays
// deleted.
func TestBugBank004And013SnapshotsReleasedDuringCompactions(t *testing.T) {
	rounds := 60
	if underRace {
		rounds = 15
	}
	db := openMem(t, vfs.NewMem())
	cf := db.DefaultColumnFamily()
	ctx := context.Background()
	const n = 50
	for round := range rounds {
		first := db.NewSnapshot()
		for i := range n {
			mustPut(t, cf, fmt.Sprintf("s%02d", i), fmt.Sprint(round), nil)
			mustPut(t, cf, fmt.Sprintf("d%02d", i), fmt.Sprint(round), nil)
		}
		middle := db.NewSnapshot()
		if round%2 == 0 {
			require.NoError(t, db.Flush(ctx, nil))
		}
		for i := range n {
			require.NoError(t, cf.SingleDelete(fmt.Appendf(nil, "s%02d", i), nil))
			require.NoError(t, cf.Delete(fmt.Appendf(nil, "d%02d", i), nil))
		}
		var wg sync.WaitGroup
		var err error
		wg.Add(1)
		go func() {
			defer wg.Done()
			err = cf.CompactRange(ctx, nil, nil, &CompactRangeOptions{ForceBottommost: true})
		}()
		if round%3 == 0 {
			first.Release()
		}
		middle.Release()
		first.Release()
		wg.Wait()
		require.NoError(t, err)
		for range 2 {
			it := cf.NewIterator(nil)
			require.Empty(t, shown(it, false))
			require.NoError(t, it.Close())
			require.NoError(t, cf.CompactRange(ctx, nil, nil, nil))
		}
	}
	require.NoError(t, db.WaitForCompact(ctx))
	require.Empty(t, cf.Levels())
	require.NoError(t, db.Close())
}
