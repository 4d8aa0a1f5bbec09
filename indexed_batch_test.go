package ashlar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/vfs"
)

// overlay is the dumb twin of an IndexedBatch: maps for what the database holds at the moment read, and a list of writes.
type overlay struct {
	cmp    *Comparator
	base   map[string]string
	writes []overlayWrite
	saved  []int
}

type overlayWrite struct {
	key, value    string
	remove, merge bool
	end           string // with remove: the keys from key to here, in the family's order
}

func (o *overlay) all() map[string]string {
	m := map[string]string{}
	for k, v := range o.base {
		m[k] = v
	}
	for _, w := range o.writes {
		old, ok := m[w.key]
		switch {
		case w.end != "":
			for k := range m {
				if o.cmp.CompareUser([]byte(k), []byte(w.key)) >= 0 && o.cmp.CompareUser([]byte(k), []byte(w.end)) < 0 {
					delete(m, k)
				}
			}
		case w.remove:
			delete(m, w.key)
		case w.merge && ok:
			m[w.key] = old + "," + w.value
		default:
			m[w.key] = w.value
		}
	}
	return m
}

// requireIteratorShows drives an iterator at random against sorted keys.
func requireIteratorShows(t *testing.T, it *Iterator, want map[string]string, cmp *Comparator, lower, upper []byte, rng *rand.Rand, keys []string) {
	t.Helper()
	var sorted []string
	for k := range want {
		if (lower == nil || cmp.CompareUser([]byte(k), lower) >= 0) && (upper == nil || cmp.CompareUser([]byte(k), upper) < 0) {
			sorted = append(sorted, k)
		}
	}
	slices.SortFunc(sorted, func(a, b string) int { return cmp.CompareUser([]byte(a), []byte(b)) })
	at := -1
	for range 60 {
		switch x := rng.IntN(10); {
		case x == 0:
			it.SeekToFirst()
			at = 0
		case x == 1:
			it.SeekToLast()
			at = len(sorted) - 1
		case x == 2:
			k := keys[rng.IntN(len(keys))]
			it.Seek([]byte(k))
			at = 0
			for at < len(sorted) && cmp.CompareUser([]byte(sorted[at]), []byte(k)) < 0 {
				at++
			}
		case x == 3:
			k := keys[rng.IntN(len(keys))]
			it.SeekForPrev([]byte(k))
			at = len(sorted) - 1
			for at >= 0 && cmp.CompareUser([]byte(sorted[at]), []byte(k)) > 0 {
				at--
			}
		case !it.Valid():
			continue
		case x < 7:
			it.Next()
			at++
		default:
			it.Prev()
			at--
		}
		require.NoError(t, it.Error())
		require.Equal(t, at >= 0 && at < len(sorted), it.Valid(), "place %d of %d", at, len(sorted))
		if it.Valid() {
			require.NotEmpty(t, it.Key(), "bug bank 43: a key is never empty")
			require.Equal(t, sorted[at], string(it.Key()))
			require.Equal(t, want[sorted[at]], string(it.Value()))
		}
	}
}

// Bug bank 23, facebook/rocksdb#5260.
func TestAnIndexedBatchShowsWhatWasPutIntoADeletedRange(t *testing.T) {
	db := mustOpen(t, "db", memOptions(vfs.NewMem()))
	mustPut(t, db.DefaultColumnFamily(), "a0", "gone", nil)
	mustPut(t, db.DefaultColumnFamily(), "b", "stays", nil)
	b := db.NewIndexedBatch()
	require.NoError(t, b.Put(nil, []byte("a4"), []byte("before")))
	require.NoError(t, b.DeleteRange(nil, []byte("a"), []byte("b")))
	for _, k := range []string{"a1", "a2", "a3"} {
		require.NoError(t, b.Put(nil, []byte(k), []byte("v")))
	}
	it := b.NewIterator(nil, nil)
	var got []string
	for k := range it.All() {
		got = append(got, string(k))
	}
	require.NoError(t, it.Close())
	require.Equal(t, []string{"a1", "a2", "a3", "b"}, got)
	for _, k := range []string{"a0", "a4"} {
		_, err := b.GetFromBatchAndDB(nil, []byte(k), nil)
		require.ErrorIs(t, err, ErrNotFound)
	}
	require.NoError(t, db.Write(b.Batch(), nil))
	require.Len(t, readForward(t, db.DefaultColumnFamily()), 4)
}

// Bug bank 61, facebook/rocksdb#5577 and #8135.
func TestAnIndexedBatchMergesIntoTheDatabasesValue(t *testing.T) {
	o := memOptions(vfs.NewMem())
	o.MergeOperator = StringAppendOperator(",")
	db := mustOpen(t, "db", o)
	mustPut(t, db.DefaultColumnFamily(), "A", "1", nil)
	b := db.NewIndexedBatch()
	require.NoError(t, b.Merge(nil, []byte("A"), []byte("2")))
	require.NoError(t, b.Put(nil, []byte("k"), []byte("v1")))
	require.NoError(t, b.Merge(nil, []byte("k"), []byte("v2")))
	for key, want := range map[string]string{"A": "1,2", "k": "v1,v2"} {
		v, err := b.GetFromBatchAndDB(nil, []byte(key), nil)
		require.NoError(t, err)
		require.Equal(t, want, string(v))
	}
	it := b.NewIterator(nil, nil)
	require.True(t, it.SeekToFirst())
	require.Equal(t, "1,2", string(it.Value()))
	require.True(t, it.Next())
	require.Equal(t, "v1,v2", string(it.Value()))
	require.NoError(t, it.Close())
	require.NoError(t, db.Write(b.Batch(), nil))
	require.Equal(t, "1,2", valueOf(t, db.DefaultColumnFamily(), "A"))
	require.Equal(t, "v1,v2", valueOf(t, db.DefaultColumnFamily(), "k"))
}

// Random batches over random databases, with snapshots, bounds, save points and writes beside, read in every way. Bug bank
// 43 is among it: a snapshot, Put and Delete mixed, Next to the end.
func TestBugBank043AnIndexedBatchShowsItsWritesOverTheDatabases(t *testing.T) {
	for _, cmp := range []*Comparator{BytewiseComparator, ReverseBytewiseComparator} {
		for seed := range uint64(12) {
			rng := rand.New(rand.NewPCG(seed, 7))
			db, err := Open("db", &Options{FS: vfs.NewMem(), ColumnFamilyOptions: ColumnFamilyOptions{Comparator: cmp, WriteBufferSize: 64 << 10, MergeOperator: StringAppendOperator(",")}})
			require.NoError(t, err)
			var keys []string
			for i := range 25 {
				keys = append(keys, fmt.Sprintf("k%02d", i))
			}
			key := func() string { return keys[rng.IntN(len(keys))] }
			now := map[string]string{}
			change := func() {
				k := key()
				switch rng.IntN(5) {
				case 0:
					end := key()
					if cmp.CompareUser([]byte(k), []byte(end)) < 0 {
						require.NoError(t, db.DeleteRange([]byte(k), []byte(end), nil))
						maps.DeleteFunc(now, func(x, _ string) bool {
							return cmp.CompareUser([]byte(x), []byte(k)) >= 0 && cmp.CompareUser([]byte(x), []byte(end)) < 0
						})
					}
					return
				case 2:
					require.NoError(t, db.Delete([]byte(k), nil))
					delete(now, k)
					return
				case 1:
					v := fmt.Sprint("merge", rng.IntN(1000))
					require.NoError(t, db.Merge([]byte(k), []byte(v), nil))
					if old, ok := now[k]; ok {
						v = old + "," + v
					}
					now[k] = v
					return
				}
				now[k] = fmt.Sprint("db", rng.IntN(1000))
				require.NoError(t, db.Put([]byte(k), []byte(now[k]), nil))
			}
			for range 20 {
				change()
			}
			if rng.IntN(2) == 0 {
				require.NoError(t, db.Flush(context.Background(), nil))
			}
			twin := overlay{cmp: cmp, base: now}
			o := &ReadOptions{}
			if rng.IntN(2) == 0 {
				o.Snapshot = db.NewSnapshot()
				twin.base = (&overlay{base: now}).all()
			}
			if rng.IntN(2) == 0 {
				o.IterateLowerBound, o.IterateUpperBound = []byte(key()), []byte(key())
			}
			b := db.NewIndexedBatch()
			for range 150 {
				switch x := rng.IntN(21); {
				case x < 3:
					w := overlayWrite{key: key(), value: fmt.Sprint("operand", rng.IntN(1000)), merge: true}
					require.NoError(t, b.Merge(nil, []byte(w.key), []byte(w.value)))
					twin.writes = append(twin.writes, w)
				case x < 6:
					w := overlayWrite{key: key(), value: fmt.Sprint("batch", rng.IntN(1000))}
					require.NoError(t, b.Put(nil, []byte(w.key), []byte(w.value)))
					twin.writes = append(twin.writes, w)
				case x < 9:
					w := overlayWrite{key: key(), remove: true}
					if rng.IntN(2) == 0 {
						require.NoError(t, b.Delete(nil, []byte(w.key)))
					} else {
						require.NoError(t, b.SingleDelete(db.DefaultColumnFamily(), []byte(w.key)))
					}
					twin.writes = append(twin.writes, w)
				case x == 9:
					b.SetSavePoint()
					twin.saved = append(twin.saved, len(twin.writes))
				case x == 10 && len(twin.saved) > 0:
					require.NoError(t, b.RollbackToSavePoint())
					n := len(twin.saved) - 1
					twin.writes, twin.saved = twin.writes[:twin.saved[n]], twin.saved[:n]
				case x == 11 && len(twin.saved) > 0:
					require.NoError(t, b.PopSavePoint())
					twin.saved = twin.saved[:len(twin.saved)-1]
				case x == 12:
					require.NoError(t, b.PutLogData([]byte("note")))
				case x == 13:
					change()
				case x == 14:
					w := overlayWrite{key: key(), end: key(), remove: true}
					err := b.DeleteRange(nil, []byte(w.key), []byte(w.end))
					if cmp.CompareUser([]byte(w.key), []byte(w.end)) > 0 {
						require.ErrorIs(t, err, ErrInvalidArgument)
						continue
					}
					require.NoError(t, err)
					if w.key != w.end {
						twin.writes = append(twin.writes, w)
					}
				case x == 15 && rng.IntN(10) == 0:
					b.Clear()
					twin.writes, twin.saved = nil, nil
				case x < 18:
					k := key()
					want, ok := twin.all()[k]
					got, err := b.GetFromBatchAndDB(nil, []byte(k), o)
					if !ok {
						require.ErrorIs(t, err, ErrNotFound)
					} else {
						require.NoError(t, err)
						require.Equal(t, want, string(got))
					}
				default:
					it := b.NewIterator(nil, o)
					want := twin.all()
					if rng.IntN(2) == 0 {
						// What comes later does not show.
						require.NoError(t, b.Put(nil, []byte("k00"), []byte("later")))
						twin.writes = append(twin.writes, overlayWrite{key: "k00", value: "later"})
					}
					requireIteratorShows(t, it, want, cmp, o.IterateLowerBound, o.IterateUpperBound, rng, keys)
					require.NoError(t, it.Refresh(o.Snapshot))
					requireIteratorShows(t, it, twin.all(), cmp, o.IterateLowerBound, o.IterateUpperBound, rng, keys)
					require.NoError(t, it.Close())
				}
				require.Equal(t, len(twin.writes), b.Count())
			}
			if o.Snapshot != nil {
				o.Snapshot.Release()
			}
			require.NoError(t, db.Write(b.Batch(), nil))
			twin.base = now
			it := db.NewIterator(nil)
			requireIteratorShows(t, it, twin.all(), cmp, nil, nil, rng, keys)
			require.NoError(t, it.Close())
			mustClose(t, db)
		}
	}
}

func TestAnIndexedBatchKeepsFamiliesApart(t *testing.T) {
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
	users, err := db.CreateColumnFamily("users", &ColumnFamilyOptions{Comparator: ReverseBytewiseComparator})
	require.NoError(t, err)
	mustPut(t, users, "a", "1", nil)
	b := db.NewIndexedBatch()
	require.NoError(t, b.Put(nil, []byte("x"), []byte("default")))
	require.NoError(t, b.Put(users, []byte("b"), []byte("2")))
	require.NoError(t, b.Delete(users, []byte("a")))
	require.NoError(t, b.Put(users, []byte("c"), []byte("3")))
	it := b.NewIterator(users, nil)
	var got []string
	for k, v := range it.All() {
		got = append(got, string(k)+string(v))
	}
	require.NoError(t, it.Close())
	require.Equal(t, []string{"c3", "b2"}, got)
	_, err = b.GetFromBatchAndDB(users, []byte("x"), nil)
	require.ErrorIs(t, err, ErrNotFound)

	copied := db.NewIndexedBatch()
	require.NoError(t, copied.SetData(b.Data()))
	v, err := copied.GetFromBatchAndDB(users, []byte("c"), nil)
	require.NoError(t, err)
	require.Equal(t, "3", string(v))
	require.Error(t, copied.SetData([]byte("no batch")))
	require.Equal(t, 4, copied.Count())

	other := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
	require.ErrorIs(t, b.Put(other.DefaultColumnFamily(), []byte("k"), nil), ErrInvalidArgument)
	_, err = b.GetFromBatchAndDB(other.DefaultColumnFamily(), []byte("k"), nil)
	require.ErrorIs(t, err, ErrInvalidArgument)
	require.ErrorIs(t, b.NewIterator(other.DefaultColumnFamily(), nil).Error(), ErrInvalidArgument)
	require.ErrorIs(t, b.RollbackToSavePoint(), ErrNotFound)
	require.ErrorIs(t, b.PopSavePoint(), ErrNotFound)
}

func TestIteratorsOfAnIndexedBatchOutliveItsChanges(t *testing.T) {
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
	b := db.NewIndexedBatch()
	b.SetSavePoint()
	for i := range 100 {
		require.NoError(t, b.Put(nil, fmt.Appendf(nil, "k%03d", i), fmt.Appendf(nil, "v%03d", i)))
	}
	it := b.NewIterator(nil, nil)
	require.NoError(t, b.RollbackToSavePoint())
	for i := range 100 {
		require.NoError(t, b.Put(nil, fmt.Appendf(nil, "x%03d", i), []byte("overwritten")))
	}
	n := 0
	for k, v := range it.All() {
		require.Equal(t, fmt.Sprintf("k%03d", n), string(k))
		require.Equal(t, fmt.Sprintf("v%03d", n), string(v))
		n++
	}
	require.Equal(t, 100, n)
	require.NoError(t, it.Close())
	// Deleting what one walks over is what a batch is for.
	it = b.NewIterator(nil, nil)
	for k := range it.All() {
		require.NoError(t, b.Delete(nil, k))
	}
	require.NoError(t, it.Close())
	require.NoError(t, db.Write(b.Batch(), nil))
	require.Empty(t, readForward(t, db.DefaultColumnFamily()))
}

func TestAnIndexedBatchAfterClose(t *testing.T) {
	db, err := Open("db", &Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	b := db.NewIndexedBatch()
	require.NoError(t, b.Put(nil, []byte("k"), []byte("v")))
	it := b.NewIterator(nil, nil)
	require.ErrorIs(t, db.Close(), ErrBusy)
	_, err = b.GetFromBatchAndDB(nil, []byte("k"), nil)
	require.ErrorIs(t, err, ErrClosed)
	require.False(t, it.SeekToFirst())
	require.ErrorIs(t, it.Close(), ErrClosed)
	it = b.NewIterator(nil, nil)
	require.ErrorIs(t, it.Error(), ErrClosed)
	require.True(t, errors.Is(db.Write(b.Batch(), nil), ErrClosed))
}
