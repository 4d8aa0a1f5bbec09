package ashlar

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/writelab"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/writegroup"
)

func TestGroupsSpreadWhereThatIsFaster(t *testing.T) {
	for _, c := range []struct {
		members, entries, procs int
		want                    bool
	}{
		{1, 100_000, 64, false}, // nobody to share with
		{1000, 1000, 1, false},  // nothing to run on
		{2, 2000, 2, false},     // the other core may have other work
		{2, 2000, 3, false},
		{2, 2000, 4, true}, // large batches
		{100, 100, 4, false},
		{32, 32 * 4, 4, true},
		{64, 64, 8, true},
		{16, 16, 160, false}, // as RocksDB, which has helpers from 20 on
		{24, 24, 160, true},
		{8, 8, 160, false},
	} {
		require.Equal(t, c.want, spreads(c.members, c.entries, c.procs), "%+v", c)
	}
	// More cores, or more entries for as many members, never turn it off.
	for members := 1; members <= 300; members++ {
		for _, each := range []int{1, 2, 7, 50} {
			for procs := 1; procs <= 300; procs *= 2 {
				if spreads(members, members*each, procs) {
					require.True(t, spreads(members, members*each, procs*2))
					require.True(t, spreads(members, members*each*2, procs))
				}
			}
		}
	}
}

func TestDialsReachTheQueue(t *testing.T) { synctest.Test(t, testDials) }

func testDials(t *testing.T) {
	var g writelab.Gauges
	o := &Options{FS: vfs.NewMem()}
	writelab.Set(o, writelab.Dials{Wake: writegroup.WakeOneByOne, Yields: 7, SpreadFrom: 2, Gauges: &g})
	db := mustOpen(t, "db", o)
	require.Equal(t, writegroup.WakeOneByOne, db.writes.Wake)
	require.Equal(t, 7, db.writes.Yields)
	writeTogether(t, db, 50, func(int) *WriteOptions { return nil })
	m := db.Metrics()
	require.EqualValues(t, 50, m.WriteQueue.Works)
	require.EqualValues(t, 1, m.WriteQueue.Spread)
	require.Zero(t, m.WriteQueue.HelperWakes)
	require.EqualValues(t, 2*49, m.WriteQueue.LeaderWakes)
	require.EqualValues(t, 1, m.WriteQueue.Groups)
	_, groups := g.Critical()
	require.Equal(t, m.WriteQueue.Groups, groups)
}

// Writers of both kinds wait; the leader takes those of its own, and the next all others.
func TestWritersOfTwoKindsFormTwoGroups(t *testing.T) {
	for name, second := range map[string]*WriteOptions{
		"sync": Sync, "no log": {DisableWAL: true}, "in a hurry": {NoSlowdown: true}, "low priority": {LowPri: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
			writeTogether(t, db, 40, func(i int) *WriteOptions {
				if i%2 == 0 {
					return nil
				}
				return second
			})
			s := db.Metrics().WriteQueue
			require.EqualValues(t, 40, s.Works)
			require.EqualValues(t, 2, s.Groups, "%s: sizes %v", name, s.Sizes)
		})
	}
}

// writeTogether has n writers each put a key; they all wait in the queue before the first leads. To be called in a
// synctest bubble.
func writeTogether(t *testing.T, db *DB, n int, how func(int) *WriteOptions) {
	t.Helper()
	var all sync.WaitGroup
	require.NoError(t, db.exclusive(func() error {
		for i := range n {
			all.Go(func() {
				if err := db.Put(fmt.Appendf(nil, "key%03d", i), []byte("value"), how(i)); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		return nil
	}))
	all.Wait()
	for i := range n {
		v, err := db.Get(fmt.Appendf(nil, "key%03d", i), nil)
		require.NoError(t, err)
		require.Equal(t, "value", string(v))
	}
}
