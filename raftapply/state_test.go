package raftapply

import (
	"encoding/hex"
	"testing"

	"github.com/ashlardb/ashlar"
	"github.com/stretchr/testify/require"
)

func TestTheFormOfAnApplyState(t *testing.T) {
	s := ApplyState{Applied: 0x0102, AppliedTerm: 3, Commit: 0x0405, CommitTerm: 6}
	p, err := s.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, "01"+"0000000000000102"+"0000000000000003"+"0000000000000405"+"0000000000000006"+"7fb08516", hex.EncodeToString(p))
	require.Equal(t, "01020000000000000007"+"03", hex.EncodeToString(ApplyStateKey(7)))
	for i := range p {
		bad := append([]byte(nil), p...)
		bad[i] ^= 1
		require.ErrorIs(t, new(ApplyState).UnmarshalBinary(bad), ashlar.ErrCorruption, "byte %d", i)
		require.ErrorIs(t, new(ApplyState).UnmarshalBinary(p[:i]), ashlar.ErrCorruption)
	}
}

func FuzzApplyState(f *testing.F) {
	for _, s := range []ApplyState{{}, {1, 2, 3, 4}, {5, 5, 4, 4}} {
		p, _ := s.MarshalBinary()
		f.Add(p)
		f.Add(p[1:])
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var s ApplyState
		if err := s.UnmarshalBinary(p); err != nil {
			require.ErrorIs(t, err, ashlar.ErrCorruption)
			require.Zero(t, s)
			return
		}
		again, err := s.MarshalBinary()
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}

// TestADamagedStateIsNotTakenForAnEmptyOne.
func TestADamagedStateIsNotTakenForAnEmptyOne(t *testing.T) {
	f := newFixture(t, newEngine(t), nil)
	require.NoError(t, f.states.Put(ApplyStateKey(1), []byte("x"), nil))
	_, err := f.Register(1, newAdder(f.db.DB, 1), nil)
	require.ErrorIs(t, err, ashlar.ErrCorruption)
	require.ErrorContains(t, err, "region 1")
	require.ErrorContains(t, err, DefaultStateFamily)
}

// TestARegionBeginsWhereItIsTold unless the database knows better.
func TestARegionBeginsWhereItIsTold(t *testing.T) {
	f := newFixture(t, newEngine(t), nil)
	begin := RegionOptions{Initial: ApplyState{Applied: 5, AppliedTerm: 5}}
	s, err := f.Register(1, newAdder(f.db.DB, 1), &begin)
	require.NoError(t, err)
	require.Equal(t, ApplyState{5, 5, 5, 5}, s)
	f.next[1] = 6
	f.send(1, command(opAdd, 0, 0)).once(t, f.run)
	require.ErrorIs(t, f.Remove(canceled(), 1), canceled().Err())
	f.run()
	s, err = f.Register(1, newAdder(f.db.DB, 1), &begin)
	require.NoError(t, err)
	require.Equal(t, ApplyState{6, 1, 6, 1}, s)
}
