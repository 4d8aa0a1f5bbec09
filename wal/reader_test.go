package wal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/corrupt"
)

// walk reads a file to its end, resuming after damage, and tells what it met: records by length, damage by kind and
// offset.
func walk(t testing.TB, file []byte, number uint64) string {
	r := NewReader(bytes.NewReader(file), int64(len(file)), "x.log", number)
	var met []string
	for {
		rec, _, err := r.Next()
		if err == io.EOF {
			return strings.Join(met, ", ")
		}
		if d, ok := err.(*Damage); ok {
			_, _, again := r.Next()
			require.Same(t, d, again)
			met = append(met, fmt.Sprintf("%v at %d", d.Kind, d.Offset))
			if len(met) > len(file)+1 {
				t.Fatal("reading does not end")
			}
			r.Resume()
			continue
		}
		if err != nil {
			require.ErrorIs(t, err, corrupt.ErrNotSupported)
			r.Resume()
			_, _, again := r.Next()
			require.Equal(t, err, again)
			return strings.Join(append(met, "not supported"), ", ")
		}
		met = append(met, fmt.Sprint(len(rec)))
	}
}

func TestReaderNamesTheDamage(t *testing.T) {
	small := write(t, pattern(10), pattern(20), pattern(30))                                        // at 0, 17, 44; 81 bytes
	large := write(t, pattern(20_000), pattern(20_000), pattern(100), pattern(40_000))              // at 0, 20007, ~40021, ~40128; 3 blocks
	flip := func(b []byte, at int) []byte { b = bytes.Clone(b); b[at] ^= 1; return b }              //
	zero := func(b []byte, from, to int) []byte { b = bytes.Clone(b); clear(b[from:to]); return b } //
	zeros := func(b []byte, n int) []byte { return append(bytes.Clone(b), make([]byte, n)...) }
	old := func(records ...[]byte) []byte { return naiveWrite(4, 6, records...) }
	own := func(records ...[]byte) []byte { return naiveWrite(4, 7, records...) }
	fragments := func(f ...[]byte) []byte { return slices.Concat(f...) }
	full := func(n int) []byte { return naiveFragment(1, 0, pattern(n)) }
	frag := func(typ byte, n int) []byte { return naiveFragment(typ, 0, pattern(n)) }

	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"nothing", nil, ""},
		{"whole", small, "10, 20, 30"},
		{"whole, large", large, "20000, 20000, 100, 40000"},
		{"1 byte missing", small[:80], "10, 20, torn tail at 44"},
		{"header only", small[:51], "10, 20, torn tail at 44"},
		{"6 bytes of a header", small[:50], "10, 20, torn tail at 44"},
		{"1 byte of a header", small[:45], "10, 20, torn tail at 44"},
		{"cut between fragments", large[:BlockSize], "20000, torn tail at 20007"},
		{"3 zeros behind", zeros(small, 3), "10, 20, 30"},
		{"5000 zeros behind", zeros(small, 5000), "10, 20, 30"},
		{"100000 zeros behind", zeros(small, 100_000), "10, 20, 30"},
		{"zeros only", zeros(nil, 100_000), ""},
		{"half a record, then zeros", zeros(small[:60], 90_000), "10, 20, torn tail at 44"},
		{"half a header, then zeros", zeros(small[:48], 90_000), "10, 20, torn tail at 44"},
		{"first fragment, then zeros", zeros(large[:BlockSize], 90_000), "20000, torn tail at 20007"},
		{"half a fragmented record, then zeros", zeros(large[:40_000], 90_000), "20000, torn tail at 32768"},
		{"last record bad", flip(small, 70), "10, 20, torn tail at 44"},
		{"middle record bad", flip(small, 30), "10, bad record at 17"},
		{"first fragment bad", flip(large, 25_000), "20000, bad record at 20007, 100, 40000"},
		{"last fragment bad", flip(large, 33_000), "20000, bad record at 32768"},
		{"length too large", flip(large, 20_007+5), "20000, bad record at 20007, 100, 40000"},
		{"type bad", flip(small, 17+6), "10, bad record at 17"},
		{"hole over a header", zero(large, 20_007, 24_000), "20000, hole at 20007, 100, 40000"},
		{"hole over a block", zero(large, BlockSize, 2*BlockSize), "20000, hole at 32768"},
		{"hole at the beginning", zero(small, 0, 17), "hole at 0"},
		{"long hole", append(zeros(large[:20_007], 10*BlockSize-20_007), small...), "20000, hole at 20007, 10, 20, 30"},
		{"long hole, ending inside a block", append(zeros(large[:20_007], 10*BlockSize), write(t, pattern(20_000))...),
			"20000, hole at 20007, hole at 327680, bad record at 360448"},
		{"full inside a record", fragments(frag(2, 5), full(3), full(4)), "bad record at 0, 3, 4"},
		{"first inside a record", fragments(frag(2, 5), frag(2, 6), frag(4, 1), full(4)), "bad record at 0, 7, 4"},
		{"middle without first", fragments(full(1), frag(3, 5), frag(4, 6), full(4)), "1, bad record at 8, bad record at 20, 4"},
		{"empty fragments", fragments(frag(2, 0), frag(3, 0), frag(4, 0)), "0"},
		{"unknown type below 128", fragments(full(1), frag(12, 5), full(4)), "1, bad record at 8, 4"},
		{"unknown type from 128 on", fragments(full(1), frag(140, 5), frag(128, 0), full(4)), "1, 4"},
		{"type zero with a payload", fragments(full(1), frag(0, 5), full(4)), "1, bad record at 8, 4"},
		{"predecessor of RocksDB", fragments(frag(130, 24), full(4)), "bad record at 0, 4"}, // impossible numbers
		{"predecessor, too short", fragments(frag(130, 23), full(4)), "bad record at 0, 4"},
		{"timestamps of no size", fragments(naiveFragment(10, 0, make([]byte, 12)), full(4)), "4"},
		{"timestamps, cut short", fragments(naiveFragment(10, 0, make([]byte, 11)), full(4)), "bad record at 0, 4"},
		{"timestamps", fragments(full(4), naiveFragment(10, 0, []byte{1, 0, 0, 0, 8, 0}), full(4)), "4, not supported"},
		{"no compression", fragments(naiveFragment(9, 0, []byte{0, 0, 0, 0}), full(4)), "4"},
		{"unknown compression", fragments(naiveFragment(9, 0, []byte{4, 0, 0, 0}), full(4)), "not supported"},
		{"compression too late", fragments(full(1), naiveFragment(9, 0, []byte{7, 0, 0, 0}), full(4)), "1, bad record at 8, 4"},
		{"not zstd", fragments(naiveFragment(9, 0, []byte{7, 0, 0, 0}), full(4)), "bad record at 11"},

		{"recycled, then its earlier life", append(own(pattern(10)), old(pattern(3), pattern(4))...), "10, old record at 21"},
		{"recycled, its own after the old", fragments(own(pattern(10)), old(pattern(3)), own(pattern(5))), "10, old record at 21, 5"},
		{"recycled, only its earlier life", old(pattern(3), pattern(4)), "old record at 0"},
		{"recycled, cut by its earlier life", append(naiveFragment(6, 7, pattern(10)), old(pattern(3))...), "torn tail at 0, old record at 21"},
		{"recycled, then rubbish", append(own(pattern(10)), old(pattern(300))[5:]...), "10, torn tail at 21"},
		{"recycled, padding of 9", own(pattern(BlockSize-11-9), pattern(5)), "32748, 5"},
	} {
		require.Equal(t, c.want, walk(t, c.file, 7), c.name)
	}
}

func TestEveryCutOfALogIsATornTailOrClean(t *testing.T) {
	file := write(t, pattern(10), pattern(40_000), pattern(3))
	ends := map[int]int{0: 0, 17: 1, 17 + 40_014: 2, len(file): 3}
	for n := range len(file) + 1 {
		if n > 100 && n < 32_600 || n > 33_000 && n < 40_000 {
			continue
		}
		r := NewReader(bytes.NewReader(file), int64(n), "x.log", 0)
		records := 0
		for {
			_, _, err := r.Next()
			if err == nil {
				records++
				continue
			}
			want, whole := ends[n]
			if whole {
				require.Equal(t, io.EOF, err, "cut at %d", n)
				require.Equal(t, want, records)
			} else {
				d, ok := err.(*Damage)
				require.True(t, ok, "cut at %d: %v", n, err)
				require.Equal(t, TornTail, d.Kind)
			}
			break
		}
	}
}

func TestDamageIsACorruptionWithAPlace(t *testing.T) {
	file := write(t, pattern(10), pattern(20), pattern(30))
	file[20] ^= 1
	r := NewReader(bytes.NewReader(file), int64(len(file)), "db/000007.log", 7)
	_, _, err := r.Next()
	require.NoError(t, err)
	require.Equal(t, int64(17), r.End())
	_, _, err = r.Next()
	require.EqualError(t, err, "db/000007.log: at 17: bad record: wrong checksum of 27 bytes (corruption)")
	require.ErrorIs(t, err, corrupt.Err)
	var e *corrupt.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, int64(17), e.Offset)
	require.Equal(t, int64(17), r.End())
}

func TestAReadErrorIsNotCorruption(t *testing.T) {
	fs := newFakeFS()
	fs.put(3, write(t, pattern(10)))
	f, err := fs.Open("db/000003.log")
	require.NoError(t, err)
	fs.fail["read 000003.log"] = true
	r := NewReader(f, 17, "db/000003.log", 3)
	_, _, err = r.Next()
	require.EqualError(t, err, "db/000003.log: reading at 0: injected")
	require.NotErrorIs(t, err, corrupt.Err)
	require.ErrorIs(t, err, errInjected)
	clear(fs.fail)
	_, _, err = r.Next()
	require.ErrorIs(t, err, errInjected)
	r.Resume()
	_, _, err = r.Next()
	require.Equal(t, io.EOF, err)
}

// A file may get shorter between the moment its size was asked for and the moment it is read.
func TestAShrunkFileEndsWhereItEnds(t *testing.T) {
	file := write(t, pattern(40_000), pattern(20))
	for _, n := range []int{0, 5, 20_000, 32_768, 32_770, 40_014, 40_020, len(file)} {
		r := NewReader(bytes.NewReader(file[:n]), int64(len(file))+100_000, "x.log", 0)
		for {
			if _, _, err := r.Next(); err != nil {
				if d, ok := err.(*Damage); ok {
					require.Equal(t, TornTail, d.Kind)
				} else {
					require.Equal(t, io.EOF, err)
				}
				break
			}
		}
	}
}

func TestCompressedRecordsAreRead(t *testing.T) {
	e, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	rec := bytes.Repeat([]byte("all work and no play "), 5000)
	noise := bytes.Clone(pattern(100_000))
	for i := range noise {
		noise[i] ^= byte(i * i >> 3)
	}
	file := naiveFragment(9, 0, []byte{7, 0, 0, 0})
	tail := naiveWrite(0, 0, make([]byte, 4), e.EncodeAll(rec, nil), e.EncodeAll(noise, nil), e.EncodeAll(nil, nil))
	got := readAll(t, append(file, tail[len(file):]...), 0)
	require.Len(t, got, 3)
	require.True(t, bytes.Equal(rec, got[0]) && bytes.Equal(noise, got[1]) && len(got[2]) == 0)
}

// Bug bank 89, facebook/rocksdb#15007: in a log that is compressed and recycled, a record of several fragments ends so
// close before its block's end that zeros follow; the next has a checksum of its own.
func TestBugBank089CompressedRecordsBehindThePaddingOfARecycledLogAreRead(t *testing.T) {
	e, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	noise := make([]byte, 2*BlockSize)
	rand.NewChaCha8([32]byte{}).Read(noise)
	for left := range recyclableHeaderSize + 3 {
		// As many bytes of noise as fill two blocks but for what is to be left.
		n := 2*BlockSize - left - 3*recyclableHeaderSize
		for len(e.EncodeAll(noise[:n], nil)) > 2*BlockSize-left-3*recyclableHeaderSize {
			n--
		}
		first, second := noise[:n], []byte("the next record")
		file := naiveWrite(4, 7, nil, e.EncodeAll(first, nil), e.EncodeAll(second, nil))
		copy(file, naiveFragment(9, 0, []byte{7, 0, 0, 0})) // instead of the empty one
		got := readAll(t, file, 7)
		require.Len(t, got, 2, "%d left", left)
		require.True(t, bytes.Equal(first, got[0]), "%d left", left)
		require.Equal(t, second, got[1], "%d left", left)
	}
}

func FuzzLogReader(f *testing.F) {
	f.Add(write(f, pattern(10), pattern(20)), uint64(0))
	f.Add(write(f, pattern(33_000), pattern(20)), uint64(0))
	f.Add(naiveWrite(4, 7, pattern(33_000), pattern(20)), uint64(7))
	f.Add(append(naiveFragment(9, 0, []byte{7, 0, 0, 0}), naiveFragment(1, 0, []byte("\x28\xb5\x2f\xfd"))...), uint64(0))
	f.Add(append(naiveFragment(2, 0, nil), make([]byte, 100)...), uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, number uint64) {
		walk(t, b, number)
		// Again, with each fragment's checksum made right, so that what is behind it is reached.
		b = bytes.Clone(b)
		for at := 0; at+headerSize <= len(b); {
			h := parseHeader(b[at:])
			end := at + h.size()
			if end > len(b) || end > (at/BlockSize+1)*BlockSize {
				break
			}
			good := naiveFragment(byte(h.typ), uint32(number), b[at+h.typ.headerSize():end])
			binary.LittleEndian.PutUint32(b[at:], binary.LittleEndian.Uint32(good))
			if h.typ.recyclable() && number&1 == 0 {
				copy(b[at:], good)
			}
			at = end
			if BlockSize-at%BlockSize < headerSize {
				at = (at/BlockSize + 1) * BlockSize
			}
		}
		walk(t, b, number)
	})
}
