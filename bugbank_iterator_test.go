package ashlar

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/vfs"
)

// Scenarios of other engines' bug reports, part C: iterators over prefixes, partitions and range deletes.

// spreadOver puts keys into the bottom level, level 0 and the memtable, a third each.
func spreadOver(t *testing.T, o *Options, keys []string) *DB {
	t.Helper()
	o.FS, o.DisableAutoCompactions = vfs.NewMem(), true
	db := mustOpen(t, "db", o)
	for part := range 3 {
		for i := part; i < len(keys); i += 3 {
			mustPut(t, db.DefaultColumnFamily(), keys[i], keys[i], nil)
		}
		switch part {
		case 0:
			require.NoError(t, db.CompactRange(context.Background(), nil, nil, nil))
		case 1:
			require.NoError(t, db.Flush(context.Background(), nil))
		}
	}
	return db
}

// partitioned are filters of prefixes alone, in partitions of a few keys.
func partitioned(prefix SliceTransform) *Options {
	o := &Options{}
	o.PrefixExtractor = prefix
	o.Table = TableOptions{
		FilterPolicy: filter.Bloom(10), NoWholeKeyFiltering: true, PartitionFilters: true, IndexType: TwoLevelIndexSearch,
		MetadataBlockSize: 64, BlockSize: 100,
	}
	return o
}

// facebook/rocksdb#3133: "c" has no key, and "a" has another prefix.
func TestBugBank037SeekForPrevStaysInThePrefix(t *testing.T) {
	for _, o := range []*Options{{}, partitioned(nil)} {
		o.PrefixExtractor = FixedPrefixTransform(1)
		db := spreadOver(t, o, []string{"a", "d"})
		it := db.NewIterator(&ReadOptions{PrefixSameAsStart: true})
		require.False(t, it.SeekForPrev([]byte("c")))
		require.NoError(t, it.Error())
		require.True(t, it.SeekForPrev([]byte("d1")))
		require.Equal(t, "d", string(it.Key()))
		require.NoError(t, it.Close())
		mustClose(t, db)
	}
}

// facebook/rocksdb#12872, #5907: a prefix whose keys lie at the end of one partition and at the beginning of the next.
func TestBugBank038NoPrefixIsMissedInPartitionsOfFilters(t *testing.T) {
	var keys []string
	for p := range 300 {
		for k := range 1 + p%4 {
			keys = append(keys, fmt.Sprintf("p%03d/%d", p, k))
		}
	}
	o := partitioned(FixedPrefixTransform(4))
	db := spreadOver(t, o, keys)
	for range 2 {
		it := db.NewIterator(&ReadOptions{PrefixSameAsStart: true})
		for n, key := range keys {
			prefix := key[:4]
			first := sort.SearchStrings(keys, prefix)
			require.True(t, it.Seek([]byte(prefix)), prefix)
			require.Equal(t, keys[first], string(it.Key()))
			require.True(t, it.Seek([]byte(key)))
			require.Equal(t, key, string(it.Key()))
			require.Equal(t, n > first, it.Prev(), "before %s", key)
			if n > first {
				require.Equal(t, keys[n-1], string(it.Key()))
			}
			require.True(t, it.SeekForPrev([]byte(key)))
			require.Equal(t, key, string(it.Key()))
			require.True(t, it.SeekForPrev([]byte(prefix+"/9")))
			require.Equal(t, prefix, string(it.Key()[:4]))
			require.NoError(t, it.Error())
		}
		require.NoError(t, it.Close())
		require.NoError(t, db.CompactRange(context.Background(), nil, nil, nil)) // all in one table
	}
	mustClose(t, db)
}

// facebook/rocksdb#10144: keys that are too short to have a prefix, below an upper bound that is the next prefix.
func TestBugBank040BoundsThatAreTheNextPrefixHideNoShortKeys(t *testing.T) {
	keys := []string{"", "a", "aa", "aaa", "aaab", "aab", "ab", "aba", "abb", "abbb", "abc", "b", "ba", "baa", "baz", "bb", "c"}
	for _, o := range []*Options{{}, partitioned(nil)} {
		o.PrefixExtractor = FixedPrefixTransform(3)
		db := spreadOver(t, o, keys)
		for _, upper := range append(keys[1:], "aac", "abd") {
			bound := func(total bool) *Iterator {
				return db.NewIterator(&ReadOptions{IterateUpperBound: []byte(upper), TotalOrderSeek: total})
			}
			it, twin := bound(false), bound(true)
			for _, seek := range keys {
				require.Equal(t, twin.Seek([]byte(seek)), it.Seek([]byte(seek)), "seek %q below %q", seek, upper)
				for twin.Valid() {
					require.Equal(t, string(twin.Key()), string(it.Key()), "seek %q below %q", seek, upper)
					require.Equal(t, twin.Next(), it.Next())
				}
				require.Equal(t, twin.SeekForPrev([]byte(seek)), it.SeekForPrev([]byte(seek)))
				for twin.Valid() {
					require.Equal(t, string(twin.Key()), string(it.Key()))
					require.Equal(t, twin.Prev(), it.Prev())
				}
			}
			require.NoError(t, it.Close())
			require.NoError(t, twin.Close())
		}
		mustClose(t, db)
	}
}

// facebook/rocksdb#11718: without flags a seek goes through all keys in order, whatever the prefixes.
func TestBugBank041SeeksAreInTotalOrderUnlessAsked(t *testing.T) {
	keys := []string{"prefix-0000001", "prefix-0000002", "prefiy-0000001", "q"}
	for _, o := range []*Options{{}, partitioned(nil)} {
		o.PrefixExtractor = FixedPrefixTransform(6)
		db := spreadOver(t, o, keys)
		it := db.NewIterator(nil)
		for _, c := range [][2]string{
			{"prefix-0000001", keys[0]}, {"prefix-0000001x", keys[1]}, {"prefix-9999999", keys[2]}, {"absent-0000000", keys[0]},
			{"prefiy-0000002", keys[3]},
		} {
			require.True(t, it.Seek([]byte(c[0])), c[0])
			require.Equal(t, c[1], string(it.Key()), c[0])
		}
		require.Equal(t, keys, shown(it, false))
		require.NoError(t, it.Close())
		mustClose(t, db)
	}
}

// window is a sorted slice between two bounds, walked as an iterator is.
type window struct {
	keys []string
	at   int // -1 and len(keys) are outside
}

func (w *window) valid() bool { return w.at >= 0 && w.at < len(w.keys) }

// walkBeside moves an iterator and a window at random and compares them.
func (w *window) walkBeside(t *testing.T, rng *rand.Rand, it *Iterator, target func() string, steps int) {
	t.Helper()
	same := func(ok bool, what string) {
		t.Helper()
		require.NoError(t, it.Error())
		require.Equal(t, w.valid(), ok, what)
		if ok {
			require.Equal(t, w.keys[w.at], string(it.Key()), what)
		}
	}
	w.at = 0
	same(it.SeekToFirst(), "SeekToFirst")
	for range steps {
		switch what := rng.IntN(8); {
		case what == 0:
			w.at = 0
			same(it.SeekToFirst(), "SeekToFirst")
		case what == 1:
			w.at = len(w.keys) - 1
			same(it.SeekToLast(), "SeekToLast")
		case what == 2:
			k := target()
			w.at = sort.SearchStrings(w.keys, k)
			same(it.Seek([]byte(k)), "Seek "+k)
		case what == 3:
			k := target()
			if w.at = sort.SearchStrings(w.keys, k); w.at == len(w.keys) || w.keys[w.at] != k {
				w.at--
			}
			same(it.SeekForPrev([]byte(k)), "SeekForPrev "+k)
		case w.valid() && what < 6:
			w.at++
			same(it.Next(), "Next")
		case w.valid():
			w.at--
			same(it.Prev(), "Prev")
		}
	}
}

// cockroachdb/pebble#2036, #708: seeks past bounds, steps there and back, bounds that get wider, seeks that only go forward.
func TestBugBank047NoPartitionOfAnIndexIsPassedOver(t *testing.T) {
	rng := rand.New(rand.NewPCG(47, 1))
	key := func(i int) string { return fmt.Sprintf("k%04d", i) }
	var keys []string
	for i := range 600 {
		keys = append(keys, key(2*i))
	}
	db := spreadOver(t, partitioned(nil), keys)
	for range 60 {
		low, high := rng.IntN(1200), rng.IntN(1300)
		for wider := range 3 {
			from, to := key(max(0, low-wider*100)), key(high+wider*100)
			w := &window{}
			if from < to {
				w.keys = keys[sort.SearchStrings(keys, from):sort.SearchStrings(keys, to)]
			}
			it := db.DefaultColumnFamily().Range([]byte(from), []byte(to), nil)
			within := func() string { // an iterator begins at its bounds
				return max(from, min(to, key(rng.IntN(1300))))
			}
			if from < to {
				w.walkBeside(t, rng, it, within, 60)
			}
			for _, k := range w.keys { // forward only
				require.True(t, it.Seek([]byte(k)))
				require.Equal(t, k, string(it.Key()))
			}
			require.NoError(t, it.Close())
		}
	}
	mustClose(t, db)
}

// cockroachdb/pebble#1849: an iterator that has stepped over deleted ranges and then seeks forward shows what a fresh one does.
func TestBugBank049SeeksForwardOverRangeDeletesAreThoseOfAFreshIterator(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(49, seed))
		o := partitioned(nil)
		o.FS, o.DisableAutoCompactions = vfs.NewMem(), true
		db := mustOpen(t, "db", o)
		key := func() string { return fmt.Sprintf("k%03d", rng.IntN(300)) }
		live := map[string]bool{}
		for i := range 400 {
			if rng.IntN(12) > 0 {
				k := key()
				mustPut(t, db.DefaultColumnFamily(), k, k, nil)
				live[k] = true
			} else {
				from, to := key(), key()
				if from > to {
					from, to = to, from
				}
				to = min(to, from+"~~") // most are short
				require.NoError(t, db.DeleteRange([]byte(from), []byte(to), nil))
				for k := range live {
					if k >= from && k < to {
						delete(live, k)
					}
				}
			}
			switch i {
			case 150:
				require.NoError(t, db.CompactRange(ctx, nil, nil, nil))
			case 250, 330:
				require.NoError(t, db.Flush(ctx, nil))
			}
		}
		w := &window{}
		for k := range live {
			w.keys = append(w.keys, k)
		}
		slices.Sort(w.keys)
		it := db.NewIterator(nil)
		for at := 0; at < 300; at += 1 + rng.IntN(6) {
			k := fmt.Sprintf("k%03d", at)
			n := sort.SearchStrings(w.keys, k)
			require.Equal(t, n < len(w.keys), it.Seek([]byte(k)), k)
			for range rng.IntN(3) {
				if it.Valid() {
					require.Equal(t, w.keys[n], string(it.Key()), k)
					n++
					require.Equal(t, n < len(w.keys), it.Next(), k)
				}
			}
		}
		w.walkBeside(t, rng, it, key, 300)
		require.NoError(t, it.Close())
		mustClose(t, db)
	}
}
