package lsm_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
	"github.com/ashlardb/ashlar/internal/merge"
	"github.com/ashlardb/ashlar/lsm"
	"github.com/ashlardb/ashlar/manifest"
	"github.com/ashlardb/ashlar/memtable"
	"github.com/ashlardb/ashlar/sstable"
	"github.com/ashlardb/ashlar/vfs"
)

// splitTree has three levels whose tables were cut anywhere, also amid the versions of a key, as RocksDB may do it.
func splitTree(t *testing.T, rng *rand.Rand) *lsm.Superversion {
	fs := vfs.NewMem()
	require.NoError(t, fs.MkdirAll("db"))
	seq, num := kv.Seq(1000), uint64(10)
	var levels [4][]*manifest.File
	for n := 1; n < len(levels); n++ {
		// Newer levels come first, and have later sequence numbers.
		var keys []kv.Key
		seq -= 100
		for i := range 60 {
			kind := []kv.Kind{kv.KindValue, kv.KindMerge, kv.KindMerge, kv.KindMerge, kv.KindDelete}[rng.IntN(5)]
			keys = append(keys, kv.MakeKey(fmt.Appendf(nil, "k%02d", rng.IntN(12)), seq+kv.Seq(i), kind))
		}
		slices.SortFunc(keys, kv.Bytewise.CompareKeys)
		for len(keys) > 0 {
			part := keys[:min(1+rng.IntN(12), len(keys))]
			keys = keys[len(part):]
			name := "db/" + fname.Make(fname.Table, num)
			f, err := fs.Create(name)
			require.NoError(t, err)
			w := sstable.NewWriter(f, name, sstable.WriterOptions{BlockSize: 1 + rng.IntN(200)})
			for _, k := range part {
				value := fmt.Append(nil, k.Seq())
				if k.Kind() == kv.KindDelete {
					value = nil
				}
				require.NoError(t, w.Add(k, value))
			}
			m, err := w.Finish()
			require.NoError(t, err)
			levels[n] = append(levels[n], &manifest.File{Num: num, Size: m.Size, Smallest: m.Smallest, Largest: m.Largest,
				SmallestSeq: m.SmallestSeq, LargestSeq: m.LargestSeq})
			num++
		}
	}
	arena, err := memtable.NewArena(1 << 16)
	require.NoError(t, err)
	limit := []int{-1, 1}[rng.IntN(2)]
	tree := lsm.NewTree(lsm.Options{
		Comparer: kv.Bytewise, Tables: sstable.NewTables(fs, "db", limit, cache.New(1<<20)), Live: new(atomic.Int64),
		Settings: lsm.Settings{Family: &sstable.FamilyOptions{}, Family0: &sstable.FamilyOptions{}},
		Retire:   func(*lsm.Superversion) {},
	}, lsm.NewMem(memtable.New(kv.Bytewise, arena, 0), 0), manifest.NewVersion(kv.Bytewise, levels[:]...))
	return tree.Acquire()
}

// TestMultiGetFollowsAKeyOverTheTablesThatItsVersionsAreSplitOver compares it with Get.
func TestMultiGetFollowsAKeyOverTheTablesThatItsVersionsAreSplitOver(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		sv := splitTree(t, rng)
		tell := func(g *lookup.Get) string {
			if g.Merging() {
				require.NoError(t, g.Merge(merge.StringAppend{Delimiter: ","}))
			}
			defer g.Release()
			return fmt.Sprintf("%q at %d: %v %s", g.User, g.Seq, g.State == lookup.Found, g.Value)
		}
		for range 20 {
			gets, got, want := make([]lookup.Get, 1+rng.IntN(20)), []string{}, []string{}
			b := lookup.Batch{Done: func(g *lookup.Get, err error) {
				require.NoError(t, err)
				got = append(got, tell(g))
			}}
			for i := range gets {
				gets[i] = lookup.Get{User: fmt.Appendf(nil, "k%02d", rng.IntN(14)), Seq: kv.Seq(600 + rng.IntN(500))}
			}
			slices.SortFunc(gets, func(x, y lookup.Get) int { return kv.Bytewise.Compare(x.User, y.User) })
			for i := range gets {
				b.Open = append(b.Open, &gets[i])
				g := lookup.Get{User: gets[i].User, Seq: gets[i].Seq}
				require.NoError(t, sv.Get(&g))
				want = append(want, tell(&g))
			}
			sv.MultiGet(&b)
			require.ElementsMatch(t, want, got)
		}
		sv.Release()
	}
}
