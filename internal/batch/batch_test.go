package batch

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/kv"
)

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

func records(b []byte) (recs []Record, err error) {
	r := NewReader(b)
	for {
		rec, ok, err := r.Next()
		if err != nil || !ok {
			return recs, err
		}
		recs = append(recs, rec)
	}
}

func TestPutHasRocksDBsBytes(t *testing.T) {
	b := AppendPut(Init(nil), 0, []byte("k"), []byte("v"))
	SetHeader(b, 1, 1)
	require.Equal(t, unhex(t, "01000000000000000100000001016b0176"), b)

	b = AppendPut(Init(nil), 1, []byte("wal-key"), []byte("wal-val-1"))
	require.Equal(t, append([]byte{5, 1, 7}, "wal-key\x09wal-val-1"...), Body(b))
}

func TestEachRecordComesBack(t *testing.T) {
	key, value := []byte("key"), bytes.Repeat([]byte("v"), 300)
	for _, family := range []uint32{0, 1, 127, 128, math.MaxUint32} {
		b := Init(nil)
		b = AppendPut(b, family, key, value)
		b = AppendDelete(b, family, key)
		b = AppendLogData(b, []byte("blob"))
		b = append(b, tagNoop, tagNoop)
		b = AppendSingleDelete(b, family, key)
		b = AppendMerge(b, family, key, nil)
		b = AppendDeleteRange(b, family, []byte("a"), []byte("b"))
		b = append(b, tagNoop)
		SetHeader(b, 77, 5)
		require.NoError(t, Validate(b))
		require.Equal(t, kv.Seq(77), Seq(b))
		require.Equal(t, uint32(5), Count(b))
		recs, err := records(b)
		require.NoError(t, err)
		require.Equal(t, []Record{
			{Kind: kv.KindValue, Family: family, Key: key, Value: value},
			{Kind: kv.KindDelete, Family: family, Key: key},
			{LogData: true, Key: []byte("blob")},
			{Kind: kv.KindSingleDel, Family: family, Key: key},
			{Kind: kv.KindMerge, Family: family, Key: key, Value: []byte{}},
			{Kind: kv.KindRangeDelete, Family: family, Key: []byte("a"), Value: []byte("b")},
		}, recs)
	}
}

func TestDefaultFamilyIsReadInBothForms(t *testing.T) {
	b := append(Init(nil), tagFamilyPut, 0, 1, 'k', 1, 'v')
	recs, err := records(b)
	require.NoError(t, err)
	require.Equal(t, []Record{{Kind: kv.KindValue, Key: []byte("k"), Value: []byte("v")}}, recs)
}

func TestEmptyBatchesAreValid(t *testing.T) {
	b := Init(nil)
	require.NoError(t, Validate(b))
	require.NoError(t, Validate(AppendLogData(b, nil)))
}

func TestEveryCutInsideARecordIsCorruption(t *testing.T) {
	b := AppendPut(Init(nil), 300, []byte("key"), []byte("value"))
	SetHeader(b, 1, 1)
	require.NoError(t, Validate(b))
	for n := range len(b) {
		require.ErrorIs(t, Validate(b[:n]), corrupt.Err, "cut at %d", n)
	}
}

func TestBadBatchesAreRefused(t *testing.T) {
	put := AppendPut(Init(nil), 0, []byte("k"), []byte("v"))
	with := func(seq kv.Seq, count uint32, more ...byte) []byte {
		b := append(bytes.Clone(put), more...)
		SetHeader(b, seq, count)
		return b
	}
	for _, c := range []struct {
		name, want string
		b          []byte
	}{
		{"short header", "batch: at 0: 11 bytes are too short for a header (corruption)", make([]byte, 11)},
		{"count too small", "batch: at 8: the header counts 0 records, there are 1 (corruption)", with(1, 0)},
		{"count too large", "batch: at 8: the header counts 2 records, there are 1 (corruption)", with(1, 2)},
		{"unknown tag", "batch: at 17: unknown tag 0x14 (corruption)", with(1, 1, 0x14)},
		{"huge key", "batch: at 17: record with tag 0x00 is cut short (corruption)",
			with(1, 2, binary.AppendUvarint([]byte{tagDelete}, math.MaxUint64)...)},
		{"family of 33 bits", "batch: at 17: record with tag 0x04 is cut short (corruption)",
			with(1, 2, binary.AppendUvarint([]byte{tagFamilyDelete}, 1<<32)...)},
		{"sequence of 57 bits", "batch: at 0: sequence number 72057594037927936 with 1 records does not fit 56 bits (corruption)",
			with(kv.MaxSeq+1, 1)},
		{"last sequence of 57 bits", "batch: at 0: sequence number 72057594037927935 with 2 records does not fit 56 bits (corruption)",
			with(kv.MaxSeq, 2, tagDelete, 0)},
	} {
		err := Validate(c.b)
		require.EqualError(t, err, c.want, c.name)
		require.ErrorIs(t, err, corrupt.Err)
	}
	require.NoError(t, Validate(with(kv.MaxSeq, 1)))
}

func TestForeignFeaturesAreNotSupported(t *testing.T) {
	for _, tag := range []byte{0x09, 0x0A, 0x0B, 0x0C, 0x10, 0x11, 0x12, 0x13, 0x15, 0x16, 0x17, 0x18, 0x19} {
		_, err := records(append(Init(nil), tag))
		require.ErrorIs(t, err, corrupt.ErrNotSupported, "tag %#x", tag)
		require.NotErrorIs(t, err, corrupt.Err)
	}
	_, err := records(append(Init(nil), tagNoop, 0x09))
	require.EqualError(t, err, "batch: at 12: two-phase commit (tag 0x09): not supported")
}

func TestMarksAreReadFromLogsOnly(t *testing.T) {
	b := AppendBeginPrepare(Init(nil))
	b = AppendEndPrepare(AppendPut(b, 0, []byte("k"), []byte("v")), "x")
	b = AppendRollback(AppendCommit(b, "y"), "")
	SetHeader(b, 1, 1)
	require.Equal(t, "0901016b01760a01780b01790c00", hex.EncodeToString(Body(b)), "RocksDB's bytes")
	marked, err := ValidateLog(b)
	require.NoError(t, err)
	require.True(t, marked)
	require.ErrorIs(t, Validate(b), corrupt.ErrNotSupported)
	var got []Record
	r := NewLogReader(b)
	second := r
	for {
		off := r.Offset()
		rec, ok, err := r.Next()
		require.NoError(t, err)
		if !ok {
			break
		}
		moved := second.At(off)
		again, _, _ := moved.Next()
		require.Equal(t, rec, again)
		rec.Key, rec.Value = append([]byte(nil), rec.Key...), nil
		got = append(got, rec)
	}
	require.Equal(t, []Record{
		{Mark: BeginPrepare}, {Kind: kv.KindValue, Key: []byte("k")}, {Mark: EndPrepare, Key: []byte("x")},
		{Mark: Commit, Key: []byte("y")}, {Mark: Rollback},
	}, got)
	_, err = ValidateLog(b[:len(b)-3])
	require.ErrorIs(t, err, corrupt.Err)
}

func TestAnErrorStays(t *testing.T) {
	r := NewReader(append(AppendDelete(Init(nil), 0, []byte("k")), 0xff))
	_, ok, err := r.Next()
	require.True(t, ok)
	require.NoError(t, err)
	_, ok, first := r.Next()
	require.False(t, ok)
	_, ok, second := r.Next()
	require.False(t, ok)
	require.Error(t, first)
	require.Equal(t, first, second)
}

func TestReadingAllocatesNothing(t *testing.T) {
	b := AppendPut(AppendDelete(Init(nil), 9, []byte("a")), 0, []byte("k"), []byte("v"))
	SetHeader(b, 1, 2)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if Validate(b) != nil {
			panic("invalid")
		}
	}))
}

func FuzzBatchDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add(unhex(f, "01000000000000000100000001016b0176"))
	f.Add(AppendLogData(AppendDeleteRange(Init(nil), 4, []byte("a"), []byte("b")), []byte("x")))
	f.Add(append(Init(nil), tagBeginPrepare))
	f.Fuzz(func(t *testing.T, b []byte) {
		if marked, err := ValidateLog(b); err == nil && !marked && Validate(b) != nil {
			t.Fatal("valid in a log, without marks, and not elsewhere")
		}
		recs, err := records(b)
		if len(recs) > len(b) {
			t.Fatal("more records than bytes")
		}
		if err != nil {
			return
		}
		// What was read, written again, reads the same.
		out := Init(nil)
		for _, rec := range recs {
			out = appendRecord(out, rec)
		}
		again, err := records(out)
		if err != nil {
			t.Fatal(err)
		}
		require.Equal(t, recs, again)
	})
}

func appendRecord(dst []byte, rec Record) []byte {
	switch {
	case rec.LogData:
		return AppendLogData(dst, rec.Key)
	case rec.Kind == kv.KindValue:
		return AppendPut(dst, rec.Family, rec.Key, rec.Value)
	case rec.Kind == kv.KindDelete:
		return AppendDelete(dst, rec.Family, rec.Key)
	case rec.Kind == kv.KindSingleDel:
		return AppendSingleDelete(dst, rec.Family, rec.Key)
	case rec.Kind == kv.KindMerge:
		return AppendMerge(dst, rec.Family, rec.Key, rec.Value)
	case rec.Kind == kv.KindRangeDelete:
		return AppendDeleteRange(dst, rec.Family, rec.Key, rec.Value)
	}
	panic("no such record")
}

// script makes records of arbitrary bytes: a kind, a family, and lengths of what follows.
func script(b []byte) (recs []Record, counted uint32) {
	take := func(n int) []byte {
		n = min(n, len(b))
		p := b[:n:n]
		b = b[n:]
		return p
	}
	for len(b) > 4 {
		h := take(4)
		rec := Record{Family: uint32(h[1]) * 0x01010101, Key: take(int(h[2]))}
		switch h[0] % 6 {
		case 0:
			rec.Kind, rec.Value = kv.KindValue, take(int(h[3]))
		case 1:
			rec.Kind = kv.KindDelete
		case 2:
			rec.Kind = kv.KindSingleDel
		case 3:
			rec.Kind, rec.Value = kv.KindMerge, take(int(h[3]))
		case 4:
			rec.Kind, rec.Value = kv.KindRangeDelete, take(int(h[3]))
		case 5:
			rec.LogData, rec.Family = true, 0
		}
		if !rec.LogData {
			counted++
		}
		recs = append(recs, rec)
	}
	return recs, counted
}

func FuzzBatchRoundTrip(f *testing.F) {
	f.Add(uint64(1), []byte("\x00\x00\x03\x05keyvalue\x01\x01\x03\x00key\x05\x00\x02\x00xy"))
	f.Fuzz(func(t *testing.T, seq uint64, b []byte) {
		seq &= uint64(kv.MaxSeq) >> 1
		want, counted := script(b)
		out := Init(nil)
		for _, rec := range want {
			out = appendRecord(out, rec)
		}
		SetHeader(out, kv.Seq(seq), counted)
		if err := Validate(out); err != nil {
			t.Fatal(err)
		}
		got, err := records(out)
		if err != nil {
			t.Fatal(err)
		}
		require.Equal(t, len(want), len(got))
		for i := range want {
			require.True(t, want[i].Kind == got[i].Kind && want[i].LogData == got[i].LogData && want[i].Family == got[i].Family)
			require.True(t, bytes.Equal(want[i].Key, got[i].Key) && bytes.Equal(want[i].Value, got[i].Value))
		}
	})
}
