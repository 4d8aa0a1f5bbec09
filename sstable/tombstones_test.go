package sstable

import (
	"bytes"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
	"github.com/ashlardb/ashlar/internal/tombstone"
	"github.com/ashlardb/ashlar/sstable/block"
	"github.com/ashlardb/ashlar/vfs"
)

// ranges makes range deletes of start, end and number in turns.
func ranges(words ...any) (all []tombstone.Tombstone) {
	for ; len(words) > 0; words = words[3:] {
		all = append(all, tombstone.Tombstone{Start: []byte(words[0].(string)), End: []byte(words[1].(string)), Seq: kv.Seq(words[2].(int))})
	}
	return all
}

func TestRangeDeletesComeBack(t *testing.T) {
	for version := 2; version <= 7; version++ {
		for _, order := range []*kv.Comparer{kv.Bytewise, kv.ReverseBytewise} {
			tw := some(rand.New(rand.NewPCG(1, 1)), order, 40)
			tw.tombstones = ranges("key00020", "key00030", 50, "a", "b", 7, "key00010", "key00025", 2000, "key00010", "key00011", 3, "c", "c", 9)
			if order != kv.Bytewise {
				for n := range tw.tombstones {
					x := &tw.tombstones[n]
					x.Start, x.End = x.End, x.Start
				}
			}
			fs := vfs.NewMem()
			m := tw.write(t, fs, "t", WriterOptions{FormatVersion: version, Filter: filter.Bloom(10)})
			r := open(t, fs, "t", ReaderOptions{Comparer: order})
			want := tombstone.New(order, tw.tombstones)
			require.ElementsMatch(t, want.All(), r.Tombstones().All())
			require.Len(t, want.All(), 4)
			require.EqualValues(t, len(tw.entries)+4, r.Properties().Entries)
			require.EqualValues(t, len(tw.entries)+4, m.Entries)
			require.EqualValues(t, 4, r.Properties().RangeDeletions)
			require.EqualValues(t, m.Deletes, r.Properties().Deletions)
			require.EqualValues(t, 2000, m.LargestSeq)
			require.EqualValues(t, 2000, r.Properties().LargestSeq)
			require.NoError(t, r.VerifyChecksums(t.Context()))
			tw.checkWalks(t, rand.New(rand.NewPCG(2, 2)), r.NewIter(IterOptions{}), 100)
			require.NoError(t, r.Close())
		}
	}
}

func TestATablesBoundsIncludeItsRangeDeletes(t *testing.T) {
	point := func(user string, seq kv.Seq) []kv.Entry {
		return []kv.Entry{{Key: kv.MakeKey([]byte(user), seq, kv.KindValue)}}
	}
	for _, c := range []struct {
		name              string
		entries           []kv.Entry
		tombstones        []tombstone.Tombstone
		smallest, largest string
	}{
		{"alone", nil, ranges("b", "d", 5), `"b"#5,RANGEDEL`, `"d"#72057594037927935,RANGEDEL`},
		{"around", point("c", 9), ranges("b", "d", 5), `"b"#5,RANGEDEL`, `"d"#72057594037927935,RANGEDEL`},
		{"inside", append(point("a", 9), point("z", 8)...), ranges("b", "d", 5), `"a"#9,SET`, `"z"#8,SET`},
		{"end at the last key", point("d", 9), ranges("b", "d", 5), `"b"#5,RANGEDEL`, `"d"#9,SET`},
		{"start at the first key, newer", point("b", 4), ranges("b", "d", 5), `"b"#5,RANGEDEL`, `"d"#72057594037927935,RANGEDEL`},
		{"start at the first key, older", point("b", 6), ranges("b", "d", 5), `"b"#6,SET`, `"d"#72057594037927935,RANGEDEL`},
		{"several", nil, ranges("c", "x", 5, "b", "d", 3, "b", "c", 4), `"b"#4,RANGEDEL`, `"x"#72057594037927935,RANGEDEL`},
	} {
		t.Run(c.name, func(t *testing.T) {
			tw := twin{cmp: kv.Bytewise, entries: c.entries, tombstones: c.tombstones}
			m := tw.write(t, vfs.NewMem(), "t", WriterOptions{})
			require.Equal(t, c.smallest, m.Smallest.String())
			require.Equal(t, c.largest, m.Largest.String())
		})
	}
}

func TestATableOfRangeDeletesAloneIsRead(t *testing.T) {
	fs := vfs.NewMem()
	tw := twin{cmp: kv.Bytewise, tombstones: ranges("b", "d", 5)}
	m := tw.write(t, fs, "t", WriterOptions{Filter: filter.Bloom(10)})
	require.EqualValues(t, 5, m.SmallestSeq)
	require.EqualValues(t, 5, m.LargestSeq)
	r := open(t, fs, "t", ReaderOptions{})
	defer r.Close()
	require.False(t, r.HasFilter())
	i := r.NewIter(IterOptions{})
	require.Nil(t, i.First())
	require.Nil(t, i.Last())
	require.Nil(t, i.SeekGE(kv.SeekKey([]byte("c"), kv.MaxSeq), nil))
	require.Nil(t, i.Next())
	require.Nil(t, i.SeekLT(kv.SeekKey([]byte("c"), kv.MaxSeq)))
	require.Nil(t, i.Prev())
	require.NoError(t, i.Close())
	g := lookup.Get{User: []byte("c"), Seq: 9}
	require.NoError(t, r.Get(&g, false))
	require.Equal(t, lookup.Pending, g.State)
	require.EqualValues(t, 5, r.Tombstones().Cover([]byte("c"), 9))
	require.Zero(t, r.ApproximateOffset([]byte("c")))
	require.NotZero(t, r.MemoryUsage())
	require.NoError(t, r.VerifyChecksums(t.Context()))
}

// fullOfRanges is a table's bytes, and where its range deletes stand.
func fullOfRanges(t *testing.T) (b []byte, at block.Handle) {
	tw := some(rand.New(rand.NewPCG(1, 1)), kv.Bytewise, 12)
	tw.tombstones = ranges("b", "key00005", 7, "key00003", "key00009", 500)
	fs := vfs.NewMem()
	tw.write(t, fs, "t", WriterOptions{})
	b = fileBytes(t, fs, "t")
	r, err := openBytes(b, ReaderOptions{})
	require.NoError(t, err)
	meta, err := r.metaBlock(r.foot.metaindex, nil)
	require.NoError(t, err)
	for s := block.NewScanner(meta); s.Next(); {
		if string(s.Key) == metaRangeDel {
			at, _, _ = block.ParseHandle(s.Value)
		}
	}
	require.NotZero(t, at.Size)
	return b, at
}

func TestDamagedRangeDeletesAreReported(t *testing.T) {
	b, at := fullOfRanges(t)
	for n := range at.Size + block.TrailerSize {
		c := bytes.Clone(b)
		c[at.Offset+n] ^= 0x10
		_, err := openBytes(c, ReaderOptions{})
		var e *corrupt.Error
		require.ErrorAs(t, err, &e, "byte %d", n)
		require.EqualValues(t, at.Offset, e.Offset)
	}
	// A metaindex that names no range deletes where there are some: the checksum is right, the table is not.
	fs := vfs.NewMem()
	f, err := fs.Create("t")
	require.NoError(t, err)
	w := NewWriter(f, "t", WriterOptions{})
	require.NoError(t, w.Add(kv.MakeKey([]byte("a"), 1, kv.KindValue), nil))
	w.props.RangeDeletions = 1
	_, err = w.Finish()
	require.NoError(t, err)
	_, err = openBytes(fileBytes(t, fs, "t"), ReaderOptions{})
	require.ErrorContains(t, err, "no range deletes")
}

// Tables that were made to be ingested have one number for all, range deletes included.
func TestAGlobalSequenceNumberIsThatOfRangeDeletesToo(t *testing.T) {
	fs := vfs.NewMem()
	f, err := fs.Create("t")
	require.NoError(t, err)
	w := NewWriter(f, "t", WriterOptions{})
	require.NoError(t, w.Add(kv.MakeKey([]byte("a"), 0, kv.KindValue), nil))
	require.NoError(t, w.AddTombstone([]byte("b"), []byte("c"), 0))
	w.props.ExternalVersion = 2
	_, err = w.Finish()
	require.NoError(t, err)
	r := open(t, fs, "t", ReaderOptions{LargestSeq: 77})
	defer r.Close()
	require.EqualValues(t, 77, r.Tombstones().Cover([]byte("b"), kv.MaxSeq))
}

func TestARangeDeleteOutOfBoundsIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	f, err := fs.Create("t")
	require.NoError(t, err)
	w := NewWriter(f, "t", WriterOptions{})
	require.ErrorContains(t, w.AddTombstone([]byte("a"), bytes.Repeat([]byte("b"), maxKeySize+1), 1), "too long")
	require.Error(t, w.AddTombstone([]byte("a"), []byte("b"), 1), "after an error the writer is done")
	w.Abandon()
}

func TestRocksDBReadsOurRangeDeletes(t *testing.T) {
	tw := some(rand.New(rand.NewPCG(1, 1)), kv.Bytewise, 100)
	tw.tombstones = ranges("key00020", "key00030", 50, "a", "b", 7, "key00010", "key00025", 2000)
	for version := 2; version <= 5; version++ {
		file := filepath.Join(t.TempDir(), "000012.sst")
		tw.write(t, vfs.OS, file, WriterOptions{FormatVersion: version})
		requireThreeRanges(t, file)
	}
	alone := twin{cmp: kv.Bytewise, tombstones: tw.tombstones}
	file := filepath.Join(t.TempDir(), "000013.sst")
	alone.write(t, vfs.OS, file, WriterOptions{})
	requireThreeRanges(t, file)
}

func requireThreeRanges(t *testing.T, file string) {
	out, ok := sstDump(t, file, "--command=verify", "--verify_checksum")
	if !ok {
		return
	}
	require.Contains(t, out, "The file is ok")
	out, _ = sstDump(t, file, "--command=check", "--show_properties")
	require.Contains(t, out, "# range deletions: 3")
}
