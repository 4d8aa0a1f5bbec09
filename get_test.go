package ashlar

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/vfs"
)

func TestEveryWayToReadAgrees(t *testing.T) {
	for _, policy := range []filter.Policy{nil, filter.Bloom(10), filter.StandardBloom(10)} {
		for _, hits := range []bool{false, true} {
			o := &Options{FS: vfs.NewMem()}
			o.Table.FilterPolicy, o.OptimizeFiltersForHits = policy, hits
			db := layered(t, o)
			var keys, values [][]byte
			for i := range 100 {
				keys, values = append(keys, fmt.Appendf(nil, "k%03d", i)), append(values, nil)
			}
			errs := make([]error, len(keys))
			for range 2 {
				db.MultiGetTo(values, keys, errs, nil)
				for i, k := range keys {
					want := fmt.Sprint(i % 3)
					v, err := db.Get(k, nil)
					dst, err2 := db.AppendGet([]byte("x"), k, nil)
					err3 := db.GetPinned(k, nil, func(v []byte) error { require.Equal(t, want, string(v)); return nil })
					if i >= 90 {
						for _, err := range []error{err, err2, err3, errs[i]} {
							require.ErrorIs(t, err, ErrNotFound)
						}
						require.Nil(t, v)
						require.Equal(t, "x", string(dst))
						require.Empty(t, values[i])
						continue
					}
					require.NoError(t, errors.Join(err, err2, err3, errs[i]))
					require.Equal(t, want, string(v))
					require.Equal(t, "x"+want, string(dst))
					require.Equal(t, want, string(values[i]))
				}
			}
			require.NoError(t, db.CompactRange(context.Background(), nil, nil, &CompactRangeOptions{ForceBottommost: true}))
			checkClean(t, db)
			require.NoError(t, db.Close())
		}
	}
}

func TestGetReturnsACopy(t *testing.T) {
	db := layered(t, &Options{FS: vfs.NewMem()})
	for i := range 3 {
		k := fmt.Appendf(nil, "k%03d", i)
		v, err := db.Get(k, nil)
		require.NoError(t, err)
		v[0] = 'x'
		v, err = db.Get(k, nil)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i), string(v))
	}
	require.NoError(t, db.Close())
}

func TestGetPinnedGivesBackItsPinWhenItsCallbackFailsOrPanics(t *testing.T) {
	o := &Options{FS: vfs.NewMem(), BlockCache: NewCache(0)}
	db := layered(t, o)
	boom := errors.New("boom")
	require.ErrorIs(t, db.GetPinned([]byte("k000"), nil, func([]byte) error {
		require.Positive(t, o.BlockCache.PinnedUsage()+1)
		return boom
	}), boom)
	require.PanicsWithValue(t, boom, func() {
		_ = db.GetPinned([]byte("k000"), nil, func([]byte) error { panic(boom) })
	})
	require.Zero(t, o.BlockCache.PinnedUsage())
	require.NoError(t, db.Close())
}

// Bug bank 62 and 67 (slatedb's assert): strange keys and values.
func TestBugBank062And067StrangeKeys(t *testing.T) {
	db := openMem(t, vfs.NewMem())
	long := make([]byte, 65536)
	big := make([]byte, 1<<20)
	for i := range big {
		big[i] = byte(rand.Uint32())
	}
	for _, k := range [][]byte{long, {}, nil, {0}, {0xff, 0xff}} {
		for _, v := range [][]byte{nil, {}, {0}, big} {
			require.NoError(t, db.Put(k, v, nil))
			for range 2 {
				got, err := db.Get(k, nil)
				require.NoError(t, err)
				require.NotNil(t, got)
				require.Equal(t, string(v), string(got))
				values, errs := db.MultiGet([][]byte{k, k, []byte("none"), k}, nil)
				require.ErrorIs(t, errs[2], ErrNotFound)
				for _, i := range []int{0, 1, 3} {
					require.NoError(t, errs[i])
					require.Equal(t, string(v), string(values[i]))
				}
				require.NoError(t, db.Flush(context.Background(), nil))
			}
		}
	}
	checkClean(t, db)
	require.NoError(t, db.Close())
}

func TestAReadFromTheCacheOnlyDoesNoInputOrOutput(t *testing.T) {
	o := &Options{FS: vfs.NewMem()}
	db := layered(t, o)
	cold := &ReadOptions{ReadTier: BlockCacheTier}
	_, err := db.Get([]byte("k000"), cold)
	require.ErrorIs(t, err, ErrIncomplete)
	v, err := db.Get([]byte("k002"), cold)
	require.NoError(t, err, "it is in the memtable")
	require.Equal(t, "2", string(v))
	it := db.NewIterator(cold)
	require.False(t, it.SeekToFirst())
	require.ErrorIs(t, it.Error(), ErrIncomplete)
	it.Close()
	_, err = db.Get([]byte("k000"), &ReadOptions{DontFillCache: true})
	require.NoError(t, err)
	_, err = db.Get([]byte("k000"), cold)
	require.ErrorIs(t, err, ErrIncomplete)
	_, err = db.Get([]byte("k000"), nil)
	require.NoError(t, err)
	_, err = db.Get([]byte("k000"), cold)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

func TestKeyMayExistIsFalseForWhatIsCertainlyNotThereAndReadsNoFile(t *testing.T) {
	fs := &reading{FS: vfs.NewMem()}
	o := &Options{FS: fs}
	o.Table.FilterPolicy = filter.Bloom(10)
	db := layered(t, o)
	require.NoError(t, db.Close())
	db = must(Open("db", o)) // with nothing in the cache
	mustPut(t, db.DefaultColumnFamily(), "in memory", "", nil)
	require.NoError(t, db.Delete([]byte("k001"), nil))
	fs.do = func(name string) { t.Errorf("%s is read", name) }
	absent := 0
	for i := range 100 {
		if !db.KeyMayExist(fmt.Appendf(nil, "k%03d-", i), nil) {
			absent++
		}
	}
	require.Greater(t, absent, 90, "the filters say so")
	for i := range 90 {
		require.Equal(t, i != 1, db.KeyMayExist(fmt.Appendf(nil, "k%03d", i), nil), "key %d", i)
	}
	require.True(t, db.KeyMayExist([]byte("in memory"), nil))
	require.False(t, db.KeyMayExist([]byte("in memorx"), nil), "no table's range has it")
	s := db.NewSnapshot()
	require.NoError(t, db.Delete([]byte("in memory"), nil))
	require.False(t, db.KeyMayExist([]byte("in memory"), nil))
	require.True(t, db.KeyMayExist([]byte("in memory"), &ReadOptions{Snapshot: s}))
	s.Release()
	fs.do = nil
	require.NoError(t, db.Close())
	require.True(t, db.KeyMayExist([]byte("in memory"), nil), "it cannot tell any more")
}

// Bug bank 16 (facebook/rocksdb H:1424): flushes, writes and snapshots race, and every snapshot reads the same twice.
func TestBugBank016SnapshotsReadTheSameTwice(t *testing.T) {
	db := openMem(t, vfs.NewMem())
	cf := db.DefaultColumnFamily()
	var stop atomic.Bool
	var wg sync.WaitGroup
	fail := make(chan error, 3)
	for w := range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(uint64(w), 0))
			for n := 0; !stop.Load(); n++ {
				k := fmt.Appendf(nil, "k%d", rng.IntN(20))
				err := db.Put(k, fmt.Appendf(nil, "%d", n), nil)
				if rng.IntN(3) == 0 {
					err = db.Delete(k, nil)
				}
				if n%50 == 0 {
					err = errors.Join(err, db.Flush(context.Background(), nil, cf))
				}
				if err != nil {
					fail <- err
					return
				}
			}
		}()
	}
	for range 300 {
		s := db.NewSnapshot()
		read := func() (all string) {
			it := db.NewIterator(&ReadOptions{Snapshot: s})
			for k, v := range it.All() {
				all += fmt.Sprintf("%s=%s ", k, v)
			}
			require.NoError(t, it.Close())
			return all
		}
		first := read()
		for i := range 20 {
			v, err := db.Get(fmt.Appendf(nil, "k%d", i), &ReadOptions{Snapshot: s})
			if !errors.Is(err, ErrNotFound) {
				require.NoError(t, err)
				require.Contains(t, first, fmt.Sprintf("k%d=%s ", i, v))
			}
		}
		require.Equal(t, first, read())
		s.Release()
	}
	stop.Store(true)
	wg.Wait()
	close(fail)
	for err := range fail {
		require.NoError(t, err)
	}
	checkClean(t, db)
	require.NoError(t, db.Close())
}
