package raftapply

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAChangeOfMembersIsSaidRightBehindItsWrite, wherever it stands in its task.
func TestAChangeOfMembersIsSaidRightBehindItsWrite(t *testing.T) {
	for _, places := range [][]uint64{{1}, {2}, {4}, {1, 2}, {3, 4}, {1, 4}} {
		f := newFixture(t, newEngine(t), nil)
		f.add(1)
		commands := repeat(4, opAdd, 0, 0)
		for _, p := range places {
			commands[p-1] = command(opAdd|opConf, 1, 0)
		}
		var applied []uint64 // when a change was said
		f.onApplied = func(all []Applied) {
			for _, a := range all {
				require.Equal(t, a.State, f.stored(1), "what is said is written")
				for _, c := range a.ConfChanges {
					require.Equal(t, ConfChange, c.Kind)
					require.Equal(t, a.State.Applied, c.Index, "nothing was applied behind it")
					applied = append(applied, c.Index)
				}
			}
		}
		f.send(1, commands...).once(t, f.run)
		require.Equal(t, places, applied)
		require.EqualValues(t, len(places), f.Stats().Flushes[FlushConf])
	}
}

// TestARefusedChangeOfMembersIsNotSaid, and leaves nothing behind but its index.
func TestARefusedChangeOfMembersIsNotSaid(t *testing.T) {
	f := newFixture(t, newEngine(t), nil)
	f.add(1)
	res := f.send(1, command(opConf|opRefuse, 0, 0)).once(t, f.run)
	require.ErrorIs(t, res[0].Err, errRefused)
	require.Len(t, f.said, 1)
	require.Empty(t, f.said[0].ConfChanges)
	require.EqualValues(t, 1, f.stored(1).Applied)
	require.Empty(t, readSums(f.db.DB, 1, nil))
}

// TestAReplicaThatIsTakenOutAppliesNothingMore: what stands behind is failed, in the same task and in later ones.
func TestAReplicaThatIsTakenOutAppliesNothingMore(t *testing.T) {
	f := newFixture(t, newEngine(t), nil)
	f.add(1)
	first := f.send(1, command(opAdd, 0, 0), command(opAdd|opConf|opRemove, 0, 0), command(opAdd, 0, 0))
	second := f.send(1, command(opAdd, 0, 0))
	f.run()
	res := first.once(t, nil)
	require.NoError(t, res[0].Err)
	require.NoError(t, res[1].Err)
	require.ErrorIs(t, res[2].Err, ErrRegionRemoved)
	require.ErrorIs(t, second.once(t, nil)[0].Err, ErrRegionRemoved)
	require.Len(t, f.said, 1)
	require.True(t, f.said[0].Removed)
	require.Len(t, f.said[0].ConfChanges, 1)
	require.EqualValues(t, 2, f.stored(1).Applied)
	require.Equal(t, map[byte]uint64{0: 2}, readSums(f.db.DB, 1, nil))
	require.ErrorIs(t, f.Send(Task{Region: 1}), ErrNoRegion)
	f.add(1)
	require.EqualValues(t, 3, f.next[1], "made anew, it goes on from its data")
}
