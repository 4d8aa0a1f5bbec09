package sstable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
	"github.com/ashlardb/ashlar/internal/merge"
	"github.com/ashlardb/ashlar/internal/tombstone"
	"github.com/ashlardb/ashlar/vfs"
)

// twin is the sorted slice beside the table.
type twin struct {
	cmp        *kv.Comparer
	entries    []kv.Entry
	tombstones []tombstone.Tombstone
}

// some makes about n entries: keys with long and short common beginnings, keys with many versions, tombstones, values
// that compress and values that do not.
func some(rng *rand.Rand, cmp *kv.Comparer, n int) twin {
	t := twin{cmp: cmp}
	for range n {
		user := fmt.Appendf(nil, "key%05d", rng.IntN(n))
		switch rng.IntN(8) {
		case 0:
			user = user[:rng.IntN(len(user)+1)]
		case 1:
			user = append(user, byte(rng.IntN(256)), 0xff)
		}
		versions := 1
		if rng.IntN(20) == 0 {
			versions = 1 + rng.IntN(40)
		}
		for range versions {
			kind := kv.KindValue
			if rng.IntN(5) == 0 {
				kind = []kv.Kind{kv.KindDelete, kv.KindSingleDel, kv.KindMerge, kv.KindMerge}[rng.IntN(4)]
			}
			value := bytes.Repeat([]byte{byte(rng.IntN(256))}, rng.IntN(60))
			if rng.IntN(3) == 0 {
				for j := range value {
					value[j] = byte(rng.IntN(256))
				}
			}
			if kind == kv.KindDelete || kind == kv.KindSingleDel {
				value = nil
			}
			t.entries = append(t.entries, kv.Entry{Key: kv.MakeKey(user, kv.Seq(rng.IntN(1000)), kind), Value: value})
		}
	}
	slices.SortFunc(t.entries, func(a, b kv.Entry) int { return cmp.CompareKeys(a.Key, b.Key) })
	t.entries = slices.CompactFunc(t.entries, func(a, b kv.Entry) bool { return cmp.CompareKeys(a.Key, b.Key) == 0 })
	return t
}

func (t twin) seekGE(k kv.Key) int {
	return sort.Search(len(t.entries), func(n int) bool { return t.cmp.CompareKeys(t.entries[n].Key, k) >= 0 })
}

// write makes the table's file.
func (t twin) write(tb testing.TB, fs vfs.FS, name string, o WriterOptions) Meta {
	o.Comparer = t.cmp
	f, err := fs.Create(name)
	require.NoError(tb, err)
	w := NewWriter(f, name, o)
	for _, e := range t.entries {
		require.NoError(tb, w.Add(e.Key, e.Value))
	}
	for _, x := range t.tombstones {
		require.NoError(tb, w.AddTombstone(x.Start, x.End, x.Seq))
	}
	m, err := w.Finish()
	require.NoError(tb, err)
	return m
}

func open(tb testing.TB, fs vfs.FS, name string, o ReaderOptions) *Reader {
	f, err := fs.Open(name)
	require.NoError(tb, err)
	r, err := Open(f, name, o)
	require.NoError(tb, err)
	return r
}

func testCache() *cache.Cache { return cache.New(8 << 20) }

// checkWalks walks i at random beside the slice.
func (t twin) checkWalks(tb testing.TB, rng *rand.Rand, i kv.Iterator, steps int) {
	pos := -2
	want := func(e *kv.Entry, what string) {
		if e == nil {
			require.NoError(tb, i.Err())
		}
		if pos < 0 || pos >= len(t.entries) {
			require.Nil(tb, e, what)
			return
		}
		require.NotNil(tb, e, what)
		w := t.entries[pos]
		if t.cmp.CompareKeys(w.Key, e.Key) != 0 || !bytes.Equal(w.Value, e.Value) {
			require.FailNow(tb, "wrong entry", "%s: %v = %q, want %v = %q", what, e.Key, e.Value, w.Key, w.Value)
		}
	}
	for range steps {
		switch rng.IntN(20) {
		case 0:
			pos = 0
			want(i.First(), "First")
		case 1:
			pos = len(t.entries) - 1
			want(i.Last(), "Last")
		case 2, 3:
			k := t.target(rng)
			pos = t.seekGE(k)
			want(i.SeekGE(k, nil), fmt.Sprintf("SeekGE %v", k))
		case 4, 5:
			k := t.target(rng)
			pos = t.seekGE(k) - 1
			want(i.SeekLT(k), fmt.Sprintf("SeekLT %v", k))
		default:
			if pos == -2 {
				continue
			}
			run := 1 + rng.IntN(30)
			if rng.IntN(2) == 0 {
				for range run {
					pos = min(pos+1, len(t.entries))
					want(i.Next(), "Next")
				}
			} else {
				for range run {
					pos = max(pos-1, -1)
					want(i.Prev(), "Prev")
				}
			}
		}
	}
}

func (t twin) target(rng *rand.Rand) kv.Key {
	if len(t.entries) == 0 || rng.IntN(8) == 0 {
		return kv.SeekKey(fmt.Appendf(nil, "k%d", rng.IntN(100)), kv.Seq(rng.IntN(1000)))
	}
	k := t.entries[rng.IntN(len(t.entries))].Key.Clone()
	switch rng.IntN(5) {
	case 0:
		k.Trailer += kv.Trailer(rng.IntN(1024)) - 512
	case 1:
		k.User = append(k.User, byte(rng.IntN(256)))
	case 2:
		if n := len(k.User); n > 0 {
			k.User[n-1] += byte(rng.IntN(3)) - 1
		}
	case 3:
		k = kv.SeekKey(k.User, kv.MaxSeq)
	}
	return k
}

// checkGets asks for every key at several sequence numbers, and for keys that are not there.
func (t twin) checkGets(tb testing.TB, rng *rand.Rand, r *Reader, gets int) {
	for range gets {
		k := t.target(rng)
		g := lookup.Get{User: k.User, Seq: k.Seq()}
		skip := rng.IntN(2) == 0
		require.NoError(tb, r.Get(&g, skip))
		want := lookup.Get{User: k.User, Seq: k.Seq()}
		for n := t.seekGE(kv.SeekKey(k.User, k.Seq())); n < len(t.entries); n++ {
			e := t.entries[n]
			if !bytes.Equal(e.Key.User, k.User) || !want.Offer(e.Key.Trailer, e.Value) {
				break
			}
		}
		require.Equal(tb, want.Operands(), g.Operands(), "%v", k)
		if want.Merging() {
			op := merge.StringAppend{Delimiter: "\x00"}
			require.NoError(tb, want.Merge(op))
			require.NoError(tb, g.Merge(op))
		}
		require.Equal(tb, want.State, g.State, "%v", k)
		require.True(tb, bytes.Equal(want.Value, g.Value), "%v", k)
		g.Release()
		want.Release()
	}
}

// checkMultiGet asks for many keys at once, and each for itself.
func (t twin) checkMultiGet(tb testing.TB, rng *rand.Rand, r *Reader, gets int) {
	many := make([]lookup.Get, gets)
	var b lookup.Batch
	done := map[*lookup.Get]string{}
	tell := func(g *lookup.Get) string {
		n := g.Operands()
		if g.Merging() {
			require.NoError(tb, g.Merge(merge.StringAppend{Delimiter: "\x00"}))
		}
		defer g.Release()
		return fmt.Sprintf("%v %d %x", g.State, n, g.Value)
	}
	b.Done = func(g *lookup.Get, err error) {
		require.NoError(tb, err)
		require.Empty(tb, done[g], "it is finished once")
		done[g] = tell(g)
	}
	for i := range many {
		k := t.target(rng)
		if i > 0 && rng.IntN(10) == 0 {
			k.User = many[i-1].User
		}
		many[i] = lookup.Get{User: k.User, Seq: k.Seq()}
	}
	slices.SortFunc(many, func(a, b lookup.Get) int { return t.cmp.CompareUser(a.User, b.User) })
	for i := range many {
		b.Open = append(b.Open, &many[i])
	}
	skip := rng.IntN(2) == 0
	r.MultiGet(&b, b.Open, skip)
	for i := range many {
		g := &many[i]
		want := lookup.Get{User: g.User, Seq: g.Seq}
		require.NoError(tb, r.Get(&want, skip))
		decided := want.State != lookup.Pending
		require.Equal(tb, decided, done[g] != "", "%q", g.User)
		if !decided {
			done[g] = tell(g)
		}
		require.Equal(tb, tell(&want), done[g], "%q", g.User)
	}
}
