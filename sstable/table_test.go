package sstable

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/checksum"
	"github.com/ashlardb/ashlar/internal/compress"
	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/vfs"
)

func TestTablesOfEveryFormReadBackLikeASortedSlice(t *testing.T) {
	round := uint64(0)
	for version := 2; version <= 7; version++ {
		for sum := checksum.Default; sum <= checksum.XXH3; sum++ {
			for _, pack := range []compress.Type{compress.None, compress.Snappy, compress.Zlib, compress.LZ4, compress.LZ4HC, compress.ZSTD} {
				if round++; raceEnabled && round%8 != 0 {
					continue
				}
				rng := rand.New(rand.NewPCG(round, 1))
				cmp := kv.Bytewise
				if round%5 == 0 {
					cmp = kv.ReverseBytewise
				}
				tw := some(rng, cmp, 1+rng.IntN(200))
				fs := vfs.NewMem()
				o := WriterOptions{
					FormatVersion: version, Checksum: sum, Compression: pack,
					BlockSize:                 []int{0, 64, 300, 2000}[round%4],
					BlockRestartInterval:      []int{0, 1, 3}[round%3],
					IndexBlockRestartInterval: []int{0, 2, 16}[round%3],
				}
				if round%2 == 0 {
					o.Filter = []filter.Policy{filter.Bloom(10), filter.Ribbon(10), filter.StandardBloom(10)}[round/2%3]
				}
				if round%3 > 0 {
					o.TwoLevelIndex, o.PartitionFilters = true, round%3 == 1
					o.MetadataBlockSize = []int{0, 1, 100}[round/3%3]
				}
				if round%4 == 0 {
					o.HashUtilRatio = 0.75
				}
				if round%7 < 4 {
					o.PrefixExtractor = []kv.SliceTransform{kv.FixedPrefix(6), kv.CappedPrefix(7), kv.Noop, kv.FixedPrefix(100)}[round%7]
					o.NoWholeKeyFiltering = round%4 > 1
				}
				m := tw.write(t, fs, "t", o)
				r := open(t, fs, "t", ReaderOptions{Comparer: cmp, Cache: testCache(), PrefixExtractor: o.PrefixExtractor})
				require.Equal(t, o.Filter != nil, r.HasFilter())
				p := r.Properties()
				require.Equal(t, uint64(len(tw.entries)), p.Entries)
				require.Equal(t, uint64(version), p.FormatVersion)
				require.Equal(t, uint64(r.Size()), m.Size)
				require.Equal(t, m.Size-p.TailStart, m.TailSize)
				require.Equal(t, tw.entries[0].Key.String(), m.Smallest.String())
				require.Equal(t, tw.entries[len(tw.entries)-1].Key.String(), m.Largest.String())
				for _, io := range []IterOptions{{}, {Readahead: 1 << 10}, {DontFillCache: true}} {
					i := r.NewIter(io)
					tw.checkWalks(t, rng, i, 40)
					require.NoError(t, i.Close())
				}
				tw.checkGets(t, rng, r, 100)
				tw.checkMultiGet(t, rng, r, 100)
				require.NoError(t, r.VerifyChecksums(t.Context()))
				require.NoError(t, r.Close())
			}
		}
	}
}

func TestEmptyTable(t *testing.T) {
	fs := vfs.NewMem()
	tw := twin{cmp: kv.Bytewise}
	m := tw.write(t, fs, "t", WriterOptions{Filter: filter.Bloom(10)})
	require.Zero(t, m.Entries)
	r := open(t, fs, "t", ReaderOptions{})
	defer r.Close()
	i := r.NewIter(IterOptions{})
	tw.checkWalks(t, rand.New(rand.NewPCG(1, 1)), i, 100)
	require.NoError(t, i.Close())
	tw.checkGets(t, rand.New(rand.NewPCG(1, 1)), r, 10)
	tw.checkMultiGet(t, rand.New(rand.NewPCG(1, 1)), r, 10)
	require.Zero(t, r.ApproximateOffset([]byte("x")))
}

func TestWriterRefusesKeysOutOfOrder(t *testing.T) {
	for _, second := range []kv.Key{
		kv.MakeKey([]byte("b"), 5, kv.KindValue), // the same
		kv.MakeKey([]byte("b"), 6, kv.KindValue), // newer
		kv.MakeKey([]byte("a"), 1, kv.KindValue),
	} {
		f, err := vfs.NewMem().Create("t")
		require.NoError(t, err)
		w := NewWriter(f, "t", WriterOptions{})
		require.NoError(t, w.Add(kv.MakeKey([]byte("b"), 5, kv.KindValue), nil))
		require.ErrorContains(t, w.Add(second, nil), "does not come after")
		_, err = w.Finish()
		require.Error(t, err, "the table stays refused")
	}
}

func TestWriterRefusesWhatABlockCannotHold(t *testing.T) {
	if raceEnabled {
		return // a gigabyte, which is not touched otherwise
	}
	for _, e := range []kv.Entry{
		{Key: kv.MakeKey([]byte("k"), 1, kv.KindValue), Value: make([]byte, MaxEntrySize)},
		{Key: kv.MakeKey(make([]byte, maxKeySize+1), 1, kv.KindValue)},
	} {
		f, err := vfs.NewMem().Create("t")
		require.NoError(t, err)
		w := NewWriter(f, "t", WriterOptions{})
		require.ErrorContains(t, w.Add(e.Key, e.Value), "too long for a table")
		w.Abandon()
	}
	f, err := vfs.NewMem().Create("t")
	require.NoError(t, err)
	w := NewWriter(f, "t", WriterOptions{})
	require.ErrorIs(t, w.Add(kv.MakeKey([]byte("k"), 1, kv.KindRangeDelete), nil), corrupt.ErrNotSupported)
	w.Abandon()
}

// broken is a file where one method fails.
type broken struct {
	vfs.File
	write, sync, closed bool
	closes              int
}

var errBroken = errors.New("broken")

func (b *broken) Write(p []byte) (int, error) {
	if b.write {
		return 0, errBroken
	}
	return b.File.Write(p)
}

func (b *broken) Sync() error {
	if b.sync {
		return errBroken
	}
	return b.File.Sync()
}

func (b *broken) Close() error {
	b.closes++
	err := b.File.Close()
	if b.closed {
		return errBroken
	}
	return err
}

func TestAFailedWriterStaysFailedAndClosesItsFile(t *testing.T) {
	for _, b := range []*broken{{write: true}, {sync: true}, {closed: true}} {
		f, err := vfs.NewMem().Create("t")
		require.NoError(t, err)
		b.File = f
		w := NewWriter(b, "t", WriterOptions{})
		require.NoError(t, w.Add(kv.MakeKey([]byte("k"), 1, kv.KindValue), nil))
		_, err = w.Finish()
		require.ErrorIs(t, err, errBroken)
		require.Equal(t, 1, b.closes)
		require.ErrorIs(t, w.Add(kv.MakeKey([]byte("l"), 1, kv.KindValue), nil), errBroken)
	}
}

// filterKinds are options for every kind of filter that a table can have.
func filterKinds() map[string]WriterOptions {
	kinds := map[string]WriterOptions{}
	for name, p := range map[string]filter.Policy{"Bloom": filter.Bloom(10), "StandardBloom": filter.StandardBloom(10), "Ribbon": filter.Ribbon(10)} {
		o := WriterOptions{Filter: p}
		kinds[name] = o
		o.PrefixExtractor = kv.FixedPrefix(6)
		kinds[name+", whole keys and prefixes"] = o
		o.NoWholeKeyFiltering = true
		kinds[name+", prefixes"] = o
		o.TwoLevelIndex, o.PartitionFilters, o.MetadataBlockSize = true, true, 64
		kinds[name+", prefixes in partitions"] = o
		o.NoWholeKeyFiltering = false
		kinds[name+", whole keys and prefixes in partitions"] = o
		o.PrefixExtractor = nil
		kinds[name+" in partitions"] = o
	}
	return kinds
}

func TestBottommostTableHasNoFilterWhenHitsAreWhatMatters(t *testing.T) {
	tw := some(rand.New(rand.NewPCG(1, 1)), kv.Bytewise, 50)
	for _, hits := range []bool{false, true} {
		for _, bottom := range []bool{false, true} {
			for name, kind := range filterKinds() {
				t.Run(fmt.Sprintf("OptimizeFiltersForHits=%v,Bottommost=%v,%s", hits, bottom, name), func(t *testing.T) {
					fs := vfs.NewMem()
					kind.OptimizeFiltersForHits, kind.Bottommost = hits, bottom
					tw.write(t, fs, "t", kind)
					r := open(t, fs, "t", ReaderOptions{PrefixExtractor: kind.PrefixExtractor})
					defer r.Close()
					require.Equal(t, !(hits && bottom), r.HasFilter())
					require.Equal(t, !(hits && bottom), r.Properties().FilterSize > 0)
					require.Equal(t, !(hits && bottom), r.Properties().FilterPolicy != "")
				})
			}
		}
	}
}
