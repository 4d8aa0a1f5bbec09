package wal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/batch"
)

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// write returns a file with the records.
func write(t testing.TB, records ...[]byte) []byte {
	fs := newFakeFS()
	f, err := fs.Create("x")
	require.NoError(t, err)
	w := NewWriter(f)
	for _, rec := range records {
		require.NoError(t, w.Append(rec))
	}
	require.NoError(t, w.Close())
	require.Equal(t, int64(len(fs.files["x"])), w.Size())
	return fs.files["x"]
}

// naiveFragment is one fragment, made without the code under test. number is added to recyclable types.
func naiveFragment(typ byte, number uint32, payload []byte) []byte {
	b := []byte{typ}
	if typ >= 5 && typ <= 8 || typ == 11 || typ == 131 {
		b = binary.LittleEndian.AppendUint32(b, number)
	}
	b = append(b, payload...)
	crc := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	out := binary.LittleEndian.AppendUint32(nil, bits.RotateLeft32(crc, -15)+0xa282ead8)
	return append(binary.LittleEndian.AppendUint16(out, uint16(len(payload))), b...)
}

// naiveWrite is the Writer's dumb twin: it lays out the whole file record by record. base 4 makes recyclable types.
func naiveWrite(base byte, number uint32, records ...[]byte) (file []byte) {
	head := 7
	if base == 4 {
		head = 11
	}
	for _, rec := range records {
		var pieces [][]byte
		at := len(file)
		for {
			if room := BlockSize - at%BlockSize; room < head {
				at += room
			}
			n := min(len(rec), BlockSize-at%BlockSize-head)
			pieces = append(pieces, rec[:n])
			rec, at = rec[n:], at+head+n
			if len(rec) == 0 {
				break
			}
		}
		for i, p := range pieces {
			typ := byte(3)
			switch {
			case len(pieces) == 1:
				typ = 1
			case i == 0:
				typ = 2
			case i == len(pieces)-1:
				typ = 4
			}
			if room := BlockSize - len(file)%BlockSize; room < head {
				file = append(file, make([]byte, room)...)
			}
			file = append(file, naiveFragment(base+typ, number, p)...)
		}
	}
	return file
}

// readAll reads a file that has no damage.
func readAll(t testing.TB, file []byte, number uint64) (records [][]byte) {
	r := NewReader(bytes.NewReader(file), int64(len(file)), "x.log", number)
	for {
		rec, _, err := r.Next()
		if err == io.EOF {
			return records
		}
		require.NoError(t, err)
		records = append(records, bytes.Clone(rec))
	}
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + 1)
	}
	return b
}

func TestRecordHasRocksDBsBytes(t *testing.T) {
	rec := batch.AppendPut(batch.Init(nil), 0, []byte("k"), []byte("v"))
	batch.SetHeader(rec, 1, 1)
	require.Equal(t, unhex(t, "e75a4d0011000101000000000000000100000001016b0176"), write(t, rec))
}

func TestFragmentsAreCutWhereRocksDBCutsThem(t *testing.T) {
	file := write(t, pattern(33020))
	require.Equal(t, header{binary.LittleEndian.Uint32(file), 32761, typeFirst}, parseHeader(file))
	require.Equal(t, header{binary.LittleEndian.Uint32(file[32768:]), 259, typeLast}, parseHeader(file[32768:]))
	require.Len(t, file, 32768+7+259)
}

func TestRecordsAtEveryEdgeOfABlockComeBack(t *testing.T) {
	bytesOf := pattern(4 * BlockSize)
	var sizes []int
	for n := range 40 {
		sizes = append(sizes, n, BlockSize-30+n, 2*BlockSize-40+n, 3*BlockSize-45+n)
	}
	for _, size := range sizes {
		for _, before := range []int{-1, 0, BlockSize - 7 - 7 - 10} {
			var records [][]byte
			if before >= 0 {
				records = append(records, bytesOf[:before])
			}
			records = append(records, bytesOf[:size], []byte("after"), nil, bytesOf[:9])
			file := write(t, records...)
			if !bytes.Equal(naiveWrite(0, 0, records...), file) {
				t.Fatalf("file of a record of %d bytes after %d differs", size, before)
			}
			for base, number := range map[byte]uint64{0: 0, 4: 1<<32 + 77} {
				got := readAll(t, naiveWrite(base, uint32(number), records...), number)
				require.Len(t, got, len(records))
				for i := range got {
					require.True(t, bytes.Equal(records[i], got[i]), "record %d of size %d after %d", i, size, before)
				}
			}
		}
	}
}

func TestPartsMakeOneRecord(t *testing.T) {
	rec := pattern(100_000)
	fs := newFakeFS()
	f, _ := fs.Create("x")
	w := NewWriter(f)
	require.NoError(t, w.Append(nil, rec[:12], rec[12:12], rec[12:40_000], rec[40_000:], nil))
	require.NoError(t, w.Append())
	require.NoError(t, w.Flush())
	require.NoError(t, w.Flush())
	require.Equal(t, []string{"create x", "write x"}, fs.take())
	require.Equal(t, write(t, rec, nil), fs.files["x"])
}

func TestWriterIsBrokenForGoodAfterAnError(t *testing.T) {
	for _, what := range []string{"write x", "sync x"} {
		fs := newFakeFS()
		f, _ := fs.Create("x")
		w := NewWriter(f)
		fs.fail[what] = true
		require.NoError(t, w.Append([]byte("a")))
		require.ErrorIs(t, w.Sync(), errInjected)
		clear(fs.fail)
		fs.take()
		require.ErrorIs(t, w.Append([]byte("b")), errInjected)
		require.ErrorIs(t, w.Flush(), errInjected)
		require.ErrorIs(t, w.Sync(), errInjected)
		require.ErrorIs(t, w.Close(), errInjected)
		require.Equal(t, []string{"close x"}, fs.take())
	}
}

type shortFile struct{ *fakeFile }

func (f shortFile) Write(p []byte) (int, error) { return len(p) - 1, nil }

func TestAShortWriteIsAnError(t *testing.T) {
	w := NewWriter(shortFile{})
	require.NoError(t, w.Append([]byte("a")))
	require.ErrorIs(t, w.Flush(), io.ErrShortWrite)
}

type nullFile struct{ *fakeFile }

func (nullFile) Write(p []byte) (int, error) { return len(p), nil }

func TestAppendAllocatesNothing(t *testing.T) {
	w := NewWriter(nullFile{})
	head, body := pattern(12), pattern(70_000)
	require.Zero(t, testing.AllocsPerRun(200, func() {
		if errors.Join(w.Append(head, body, body[:100]), w.Flush()) != nil {
			panic("failed")
		}
	}))
}

func BenchmarkAppend(b *testing.B) {
	w := NewWriter(nullFile{})
	head, body := pattern(12), pattern(120)
	b.SetBytes(132)
	b.ReportAllocs()
	for b.Loop() {
		if w.Append(head, body) != nil || w.Flush() != nil {
			b.Fatal("failed")
		}
	}
}

func FuzzLogRoundTrip(f *testing.F) {
	f.Add([]byte{1, 2, 3}, uint16(5), uint16(40000))
	f.Add([]byte{}, uint16(32754), uint16(0))
	f.Fuzz(func(t *testing.T, rec []byte, a, b uint16) {
		records := [][]byte{pattern(int(a)), rec, pattern(int(b)), rec}
		file := write(t, records...)
		if !bytes.Equal(file, naiveWrite(0, 0, records...)) {
			t.Fatal("the file is not the naive one")
		}
		got := readAll(t, file, 0)
		if len(got) != len(records) {
			t.Fatalf("%d records came back", len(got))
		}
		for i := range got {
			if !bytes.Equal(got[i], records[i]) {
				t.Fatalf("record %d differs", i)
			}
		}
	})
}
