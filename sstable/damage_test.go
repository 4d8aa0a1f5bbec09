package sstable

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/checksum"
	"github.com/ashlardb/ashlar/internal/compress"
	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
	"github.com/ashlardb/ashlar/vfs"
)

// blob is a read-only file of bytes.
type blob struct{ *bytes.Reader }

func (b blob) Close() error                { return nil }
func (b blob) Sync() error                 { return nil }
func (b blob) Size() (int64, error)        { return b.Reader.Size(), nil }
func (b blob) Truncate(int64) error        { return errors.ErrUnsupported }
func (b blob) Write(p []byte) (int, error) { return 0, errors.ErrUnsupported }

func openBytes(b []byte, o ReaderOptions) (*Reader, error) {
	return Open(blob{bytes.NewReader(b)}, "t", o)
}

func fileBytes(tb testing.TB, fs vfs.FS, name string) []byte {
	f, err := fs.Open(name)
	require.NoError(tb, err)
	defer f.Close()
	n, err := f.Size()
	require.NoError(tb, err)
	b := make([]byte, n)
	_, err = f.ReadAt(b, 0)
	require.NoError(tb, err)
	return b
}

// readAll reads a table in every way. It returns whether anything was reported; what is not reported must be right,
// unless want is nil, when it only must not panic.
func readAll(tb testing.TB, b []byte, want *twin) (reported bool) {
	return readAllWith(tb, b, want, ReaderOptions{})
}

func readAllWith(tb testing.TB, b []byte, want *twin, o ReaderOptions) (reported bool) {
	r, err := openBytes(b, o)
	if err != nil {
		expected(tb, err)
		return true
	}
	defer r.Close()
	for _, o := range []IterOptions{{}, {Readahead: 512}} {
		i := r.NewIter(o)
		n := 0
		for e := i.First(); e != nil; e = i.Next() {
			if want != nil {
				same(tb, want.entries[n], e)
			}
			n++
		}
		if err := i.Err(); err != nil {
			expected(tb, err)
			require.Nil(tb, i.Next())
			require.Nil(tb, i.Prev())
			require.Error(tb, i.Err(), "the walk stays where the damage is")
			reported = true
		} else if want != nil {
			require.Len(tb, want.entries, n)
		}
		if want != nil {
			n = len(want.entries)
		}
		for e := i.Last(); e != nil; e = i.Prev() {
			n--
			if want != nil {
				same(tb, want.entries[n], e)
			}
		}
		if err := i.Close(); err != nil {
			expected(tb, err)
			reported = true
		}
	}
	if want == nil {
		g := lookup.Get{User: []byte("key00001"), Seq: kv.MaxSeq}
		r.Get(&g, false)
		g.Release()
		r.Tombstones().Cover(g.User, g.Seq)
		return reported
	}
	for n, e := range want.entries {
		if n > 0 && n%7 != 0 && bytes.Equal(e.Key.User, want.entries[n-1].Key.User) {
			continue
		}
		g := lookup.Get{User: e.Key.User, Seq: e.Key.Seq()}
		if err := r.Get(&g, false); err != nil {
			expected(tb, err)
			reported = true
			g.Release()
			continue
		}
		if e.Key.Kind() == kv.KindMerge {
			require.NotZero(tb, g.Operands())
			g.Release()
			continue
		}
		require.Equal(tb, e.Key.Kind(), g.Kind)
		if g.State == lookup.Found {
			require.Equal(tb, string(e.Value), string(g.Value))
		}
		g.Release()
	}
	if !reported { // what no read came by: partitions of filters for the older versions of a key
		err := r.VerifyChecksums(tb.Context())
		if reported = err != nil; reported {
			expected(tb, err)
		}
	}
	return reported
}

func same(tb testing.TB, want kv.Entry, e *kv.Entry) {
	if kv.Bytewise.CompareKeys(want.Key, e.Key) != 0 || !bytes.Equal(want.Value, e.Value) {
		require.FailNow(tb, "wrong data", "%v = %q, want %v = %q", e.Key, e.Value, want.Key, want.Value)
	}
}

func expected(tb testing.TB, err error) {
	if errors.Is(err, corrupt.ErrNotSupported) {
		return
	}
	var c *corrupt.Error
	require.True(tb, errors.As(err, &c), "%v", err)
	require.Equal(tb, "t", c.File)
	require.GreaterOrEqual(tb, c.Offset, int64(0))
}

func TestFlippedBytesAreReportedOrHarmless(t *testing.T) {
	tw := some(rand.New(rand.NewPCG(1, 1)), kv.Bytewise, 12)
	for version := 2; version <= 7; version++ {
		fs := vfs.NewMem()
		tw.write(t, fs, "t", WriterOptions{
			FormatVersion: version, BlockSize: 200, Filter: filter.Bloom(10),
			TwoLevelIndex: version%2 == 1, PartitionFilters: version%2 == 1, MetadataBlockSize: 1, HashUtilRatio: 0.75 * float64(version%2),
			Compression: []compress.Type{compress.None, compress.Snappy, compress.ZSTD, compress.LZ4}[version%4],
			Checksum:    []checksum.Type{checksum.XXH3, checksum.CRC32C}[version%2],
		})
		b := fileBytes(t, fs, "t")
		require.False(t, readAll(t, b, &tw))
		silent := 0
		step := 2
		if raceEnabled {
			step = 17
		}
		for n := 0; n < len(b); n += step {
			c := bytes.Clone(b)
			c[n] ^= byte(1 + n*37%255)
			if !readAll(t, c, &tw) {
				silent++
			}
		}
		// Padding in the footer is all that nothing covers; the fields of an old footer may fail in ways that look like
		// other tables, but not like this one.
		require.LessOrEqual(t, silent, 40, "version %d", version)
	}
}

// Ribbon needs some hundred keys, or it is a Bloom filter; and what is left to the cache is read when it is asked for. Only
// the tail is damaged here, where all that is.
func TestFlippedBytesOfEveryKindOfFilterAreReportedOrHarmless(t *testing.T) {
	tw := some(rand.New(rand.NewPCG(8, 1)), kv.Bytewise, 400)
	tw.entries = slices.CompactFunc(tw.entries, func(a, b kv.Entry) bool { // one kind for each number
		return bytes.Equal(a.Key.User, b.Key.User) && a.Key.Seq() == b.Key.Seq()
	})
	for name, o := range filterKinds() {
		for _, cached := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,CacheMeta=%v", name, cached), func(t *testing.T) {
				t.Parallel()
				fs := vfs.NewMem()
				m := tw.write(t, fs, "t", o)
				b := fileBytes(t, fs, "t")
				tail, step, silent, flips := len(b)-int(m.TailSize), 37, 0, 0
				if raceEnabled {
					step = 211
				}
				for n := tail; n < len(b); n += step {
					c := bytes.Clone(b)
					c[n] ^= byte(1 + n*37%255)
					flips++
					if !readAllWith(t, c, &tw, ReaderOptions{CacheMeta: cached, Cache: testCache(), PrefixExtractor: o.PrefixExtractor}) {
						silent++
					}
				}
				require.LessOrEqual(t, silent, flips/10+1, "hardly more than the padding of the footer is covered by nothing")
			})
		}
	}
}

func TestCutTablesAreReported(t *testing.T) {
	tw := some(rand.New(rand.NewPCG(2, 1)), kv.Bytewise, 30)
	fs := vfs.NewMem()
	tw.write(t, fs, "t", WriterOptions{BlockSize: 200})
	b := fileBytes(t, fs, "t")
	for n := range b {
		_, err := openBytes(b[:n], ReaderOptions{})
		require.Error(t, err)
		expected(t, err)
	}
}

// TestNoChecksumNeverPanics flips bytes that nothing protects.
func TestFlippedBytesWithoutChecksumsNeverPanic(t *testing.T) {
	tw := some(rand.New(rand.NewPCG(3, 1)), kv.Bytewise, 30)
	for _, pack := range []compress.Type{compress.None, compress.Snappy, compress.LZ4} {
		fs := vfs.NewMem()
		tw.write(t, fs, "t", WriterOptions{
			BlockSize: 200, Filter: filter.Bloom(10), Checksum: checksum.None, Compression: pack,
			TwoLevelIndex: pack != compress.LZ4, PartitionFilters: pack == compress.None, MetadataBlockSize: 100, HashUtilRatio: 0.75,
		})
		b := fileBytes(t, fs, "t")
		rng := rand.New(rand.NewPCG(4, 4))
		for range 400 {
			c := bytes.Clone(b)
			for range 1 + rng.IntN(3) {
				c[rng.IntN(len(c))] = byte(rng.IntN(256))
			}
			readAll(t, c, nil)
		}
	}
}

func TestAWalkStopsAtDamageAndTriesAgain(t *testing.T) {
	tw := some(rand.New(rand.NewPCG(5, 1)), kv.Bytewise, 200)
	fs := vfs.NewMem()
	tw.write(t, fs, "t", WriterOptions{BlockSize: 300, Compression: compress.None})
	b := fileBytes(t, fs, "t")
	r, err := openBytes(b, ReaderOptions{})
	require.NoError(t, err)
	hurt := r.index.handles[r.index.len()/2]
	b[hurt.Offset+5] ^= 1 // r reads the same bytes
	i := r.NewIter(IterOptions{})
	n := 0
	for e := i.First(); e != nil; e = i.Next() {
		same(t, tw.entries[n], e)
		n++
	}
	var c *corrupt.Error
	require.True(t, errors.As(i.Err(), &c))
	require.Equal(t, int64(hurt.Offset), c.Offset)
	require.Less(t, n, len(tw.entries))
	require.Nil(t, i.Next())
	require.Nil(t, i.Prev())
	b[hurt.Offset+5] ^= 1
	require.Error(t, i.Err())
	require.NotNil(t, i.SeekGE(tw.entries[n].Key, nil))
	require.NoError(t, i.Err())
	require.NoError(t, i.Close())
	require.NoError(t, r.VerifyChecksums(t.Context()))
}

func FuzzTableOpen(f *testing.F) {
	tw := some(rand.New(rand.NewPCG(6, 1)), kv.Bytewise, 20)
	for version := 2; version <= 7; version++ {
		fs := vfs.NewMem()
		// Without checksums the fuzzer gets past them.
		tw.write(f, fs, "t", WriterOptions{FormatVersion: version, BlockSize: 150, Checksum: checksum.None, Filter: filter.Bloom(10)})
		f.Add(fileBytes(f, fs, "t"))
		with := tw
		with.tombstones = ranges("b", "key00005", 7, "key00003", "key00009", 5000)
		with.write(f, fs, "t", WriterOptions{FormatVersion: version, BlockSize: 150, Checksum: checksum.None})
		f.Add(fileBytes(f, fs, "t"))
	}
	f.Fuzz(func(t *testing.T, b []byte) { readAll(t, b, nil) })
}

func FuzzFooter(f *testing.F) {
	for version := 1; version <= 7; version++ {
		o := footer{version: version, sum: checksum.XXH3, offset: 1000}
		o.metaindex.Size, o.metaindex.Offset, o.index.Size = 100, 895, 50
		if version >= 6 {
			o.base, o.index.Size = 77, 0
		}
		f.Add(o.append(nil), int64(1000+footerSize))
	}
	f.Fuzz(func(t *testing.T, tail []byte, size int64) {
		if size < int64(len(tail)) {
			return // tail is the end of the file
		}
		o, err := parseFooter("t", tail, size)
		if err != nil || o.version == 0 {
			return
		}
		back, err := parseFooter("t", o.append(nil), size)
		require.NoError(t, err)
		require.Equal(t, o, back)
	})
}

func FuzzProperties(f *testing.F) {
	fs := vfs.NewMem()
	twin{cmp: kv.Bytewise}.write(f, fs, "t", WriterOptions{})
	r := open(f, fs, "t", ReaderOptions{})
	f.Add(fileBytes(f, fs, "t")[r.propsAt.Offset:][:r.propsAt.Size])
	f.Add([]byte{0, 0, 0, 0, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		var p, q Properties
		if p.decode("t", 0, b) != nil {
			return
		}
		enc := encodeProperties(&p)
		require.NoError(t, q.decode("t", 0, enc))
		require.Equal(t, enc, encodeProperties(&q))
	})
}
