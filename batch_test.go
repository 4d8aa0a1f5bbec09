package ashlar

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/vfs"
)

func TestABatchCountsAndMeasures(t *testing.T) {
	var b Batch
	require.Zero(t, b.Count())
	require.Equal(t, batch.HeaderSize, b.Len())
	require.NoError(t, b.Put(nil, []byte("a"), []byte("1")))
	require.NoError(t, b.Delete(nil, []byte("b")))
	require.NoError(t, b.SingleDelete(nil, []byte("c")))
	require.NoError(t, b.PutLogData([]byte("blob")))
	require.Equal(t, 3, b.Count())
	require.Len(t, b.Data(), b.Len())
	require.NoError(t, batch.Validate(b.Data()))
	b.Clear()
	require.Zero(t, b.Count())
	require.Equal(t, batch.HeaderSize, b.Len())
	require.Len(t, b.Data(), b.Len())
}

func TestABatchCopiesWhatItIsGiven(t *testing.T) {
	db := openMem(t, vfs.NewMem())
	k, v := []byte("key"), []byte("value")
	var b Batch
	require.NoError(t, b.Put(nil, k, v))
	clear(k)
	clear(v)
	data := append([]byte(nil), b.Data()...)
	var c Batch
	require.NoError(t, c.SetData(data))
	clear(data)
	require.NoError(t, db.Write(&c, nil))
	require.Equal(t, "value", valueOf(t, db.DefaultColumnFamily(), "key"))
	require.NoError(t, db.Write(&c, nil), "it may be written again")
	require.EqualValues(t, 2, db.LatestSequenceNumber())
	require.NoError(t, db.Close())
}

func TestSavePoints(t *testing.T) {
	var b Batch
	require.ErrorIs(t, b.RollbackToSavePoint(), ErrNotFound)
	require.ErrorIs(t, b.PopSavePoint(), ErrNotFound)
	b.SetSavePoint()
	require.NoError(t, b.Put(nil, []byte("a"), nil))
	b.SetSavePoint()
	require.NoError(t, b.Put(nil, []byte("b"), nil))
	b.SetSavePoint()
	require.NoError(t, b.Put(nil, []byte("c"), nil))
	require.NoError(t, b.PopSavePoint())
	require.Equal(t, 3, b.Count())
	require.NoError(t, b.RollbackToSavePoint())
	require.Equal(t, 1, b.Count())
	require.NoError(t, b.RollbackToSavePoint())
	require.Zero(t, b.Count())
	require.Equal(t, batch.HeaderSize, b.Len())
	require.ErrorIs(t, b.RollbackToSavePoint(), ErrNotFound)
	require.NoError(t, b.Put(nil, []byte("d"), nil))
	require.Equal(t, 1, b.Count())
	require.NoError(t, batch.Validate(b.Data()))
	b.SetSavePoint()
	b.Clear()
	require.ErrorIs(t, b.PopSavePoint(), ErrNotFound, "Clear forgets them")
}

// The twin measures what is left from its beginning.
func TestARollbackLeavesTheBatchAsItWas(t *testing.T) {
	o := memOptions(vfs.NewMem())
	o.MergeOperator = StringAppendOperator(",")
	db := mustOpen(t, "db", o)
	families := []*ColumnFamily{nil, must(db.CreateColumnFamily("a", nil)), must(db.CreateColumnFamily("b", nil))}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		var b Batch
		add := func() {
			for range rng.IntN(4) {
				cf, key := families[rng.IntN(3)], make([]byte, rng.IntN(200))
				switch rng.IntN(5) {
				case 0:
					require.NoError(t, b.Put(cf, key, key))
				case 1:
					require.NoError(t, b.Delete(cf, key))
				case 2:
					require.NoError(t, b.Merge(cf, key, key))
				case 3:
					require.NoError(t, b.DeleteRange(cf, key, append(key, 1)))
				case 4:
					require.NoError(t, b.PutLogData(key))
				}
			}
		}
		for range 3 {
			add()
			b.SetSavePoint()
		}
		for range 3 {
			add()
			require.NoError(t, b.RollbackToSavePoint())
			var twin Batch
			require.NoError(t, twin.SetData(bytes.Clone(b.Data())))
			require.ElementsMatch(t, twin.uses, b.uses)
			require.Equal(t, twin.ranges, b.ranges)
			require.Equal(t, twin.Count(), b.Count())
		}
	}
}

func TestARollbackReadsWhatItTakesBackAndNoMore(t *testing.T) {
	var b Batch
	require.NoError(t, b.Put(nil, []byte("kept"), nil))
	b.SetSavePoint()
	require.NoError(t, b.Put(nil, []byte("taken back"), nil))
	b.data[batch.HeaderSize] = 0xff // the record that is kept could not be read any more
	require.NoError(t, b.RollbackToSavePoint())
}

// A batch is of the database of its families, and forgets it with them.
func TestARollbackForgetsTheDatabaseOfWhatItTakesBack(t *testing.T) {
	var b Batch
	b.SetSavePoint()
	require.NoError(t, b.Put(openMem(t, vfs.NewMem()).DefaultColumnFamily(), []byte("k"), nil))
	require.NoError(t, b.RollbackToSavePoint())
	require.NoError(t, b.Put(openMem(t, vfs.NewMem()).DefaultColumnFamily(), []byte("k"), nil))
}

func TestSetDataRefusesWhatIsNoBatchAndKeepsTheOldOne(t *testing.T) {
	var b Batch
	require.NoError(t, b.Put(nil, []byte("a"), []byte("1")))
	before := string(b.Data())
	wrong := append([]byte(nil), b.Data()...)
	for n := range wrong {
		require.ErrorIs(t, b.SetData(wrong[:n]), ErrInvalidArgument, "%d bytes", n)
	}
	wrong[8]++ // the count
	require.ErrorIs(t, b.SetData(wrong), ErrInvalidArgument)
	require.ErrorIs(t, b.SetData(append([]byte(before), 200)), ErrInvalidArgument)
	require.Equal(t, before, string(b.Data()))
	require.NoError(t, b.SetData([]byte(before)))
}

func TestSetDataWithKindsThatAreNotBuiltIsRefused(t *testing.T) {
	db := openMem(t, vfs.NewMem())
	for _, data := range [][]byte{
		batch.AppendMerge(batch.Init(nil), 0, []byte("k"), []byte("v")),
		batch.AppendDeleteRange(batch.Init(nil), 0, []byte("b"), []byte("a")), // it ends before it begins
		append(batch.Init(nil), 0x16, 1, 'k', 1, 'v'),                         // wide columns
	} {
		batch.SetHeader(data, 0, 1)
		var b Batch
		err := b.SetData(data)
		if err == nil {
			err = db.Write(&b, nil)
		}
		require.Error(t, err)
		require.True(t, errors.Is(err, ErrNotSupported) || errors.Is(err, ErrInvalidArgument), "%v", err)
		require.NoError(t, db.BackgroundError())
	}
	require.NoError(t, db.Put([]byte("a"), []byte("b"), nil), "nothing was harmed")
	require.NoError(t, db.Close())
	require.NoError(t, must(Open("db", memOptions(db.fs))).Close())
}

func TestABatchOfFamiliesOfTwoDatabasesIsRefused(t *testing.T) {
	one, two := openMem(t, vfs.NewMem()), openMem(t, vfs.NewMem())
	var b Batch
	require.NoError(t, b.Put(one.DefaultColumnFamily(), []byte("a"), nil))
	require.ErrorIs(t, b.Put(two.DefaultColumnFamily(), []byte("b"), nil), ErrInvalidArgument)
	require.Equal(t, 1, b.Count())
	require.ErrorIs(t, two.Write(&b, nil), ErrInvalidArgument)
	require.NoError(t, one.Write(&b, nil))
	require.NoError(t, one.Close())
	require.NoError(t, two.Close())
}

func TestABatchLargerThanAMemtable(t *testing.T) {
	db := openMem(t, vfs.NewMem())
	var b Batch
	for i := range 40 {
		require.NoError(t, b.Put(nil, fmt.Appendf(nil, "k%02d", i), make([]byte, 100<<10)))
	}
	require.NoError(t, db.Write(&b, nil))
	require.NoError(t, db.Put([]byte("small"), []byte("v"), nil))
	require.NoError(t, db.Write(&b, nil))
	for i := range 40 {
		v, err := db.Get(fmt.Appendf(nil, "k%02d", i), nil)
		require.NoError(t, err)
		require.Len(t, v, 100<<10)
	}
	checkClean(t, db)
	require.NoError(t, db.Close())
}

func TestWritesToNumbersThatNoFamilyHasAreRefused(t *testing.T) {
	db := openMem(t, vfs.NewMem())
	data := batch.AppendPut(batch.Init(nil), 77, []byte("k"), []byte("v"))
	batch.SetHeader(data, 0, 1)
	var b Batch
	require.NoError(t, b.SetData(data))
	require.ErrorIs(t, db.Write(&b, nil), ErrColumnFamilyDropped)
	require.Zero(t, db.LatestSequenceNumber())
	require.NoError(t, db.Close())
}
