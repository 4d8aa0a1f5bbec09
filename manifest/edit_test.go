package manifest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/kv"
)

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(s))
	require.NoError(t, err)
	return b
}

// What RocksDB 7.8 wrote when it flushed one key while it recovered.
const rocksFlush = `02 05  09 00  03 0a  04 01
	67 00 08 e0 08  09 6b 01 01 00 00 00 00 00 00  09 6b 01 01 00 00 00 00 00 00  01 01
	05 05 c4 ae b6 d8 06  06 01 00  07 00  08 07 55 6e 6b 6e 6f 77 6e
	0c 10 70 37 f2 08 59 fc 06 ac de 55 f1 14 40 fe c8 d1  01`

func TestFlushEditHasRocksDBsBytes(t *testing.T) {
	b := unhex(t, rocksFlush)
	var e Edit
	require.NoError(t, e.Decode("MANIFEST-000009", 7, b))
	k := kv.MakeKey([]byte("k"), 1, kv.KindValue)
	f := &File{
		Num: 8, Size: 1120, Smallest: k, Largest: k, SmallestSeq: 1, LargestSeq: 1, OldestAncestorTime: 1796052804,
		UniqueID: [16]byte(unhex(t, "7037f20859fc06acde55f11440fec8d1")), extra: unhex(t, "0700 0807 556e6b6e6f776e"),
	}
	require.Equal(t, Edit{
		LogNumber: new(uint64(5)), PrevLog: new(uint64(0)), NextFile: new(uint64(10)), LastSeq: new(kv.Seq(1)),
		Add: []AddedFile{{0, f}},
	}, e)
	require.Equal(t, b, e.Append(nil))
}

func TestFamilyCreationHasRocksDBsBytes(t *testing.T) {
	b := append(append(unhex(t, "01 1a"), "leveldb.BytewiseComparator"...), append(unhex(t, "c8 01 01  c9 01 05"), "alpha"...)...)
	e := Edit{Family: 1, AddFamily: "alpha", Comparer: kv.Bytewise.Name}
	require.Equal(t, b, e.Append(nil))
	var got Edit
	require.NoError(t, got.Decode("m", 0, b))
	require.Equal(t, e, got)
}

func TestSmallestManifestHasRocksDBsBytes(t *testing.T) {
	e := Edit{LogNumber: new(uint64(0)), NextFile: new(uint64(2)), LastSeq: new(kv.Seq(0))}
	require.Equal(t, unhex(t, "02 00 03 02 04 00"), e.Append(nil))
	var none Edit
	require.Empty(t, none.Append(nil))
	require.NoError(t, none.Decode("m", 0, nil))
	require.Equal(t, Edit{}, none)
}

// wholeEdit has every field.
func wholeEdit() *Edit {
	return &Edit{
		Family: 300, AddFamily: "f", DropFamily: true, Comparer: "c", DBID: "id",
		Add: []AddedFile{
			{6, &File{
				Num: 1 << 40, Size: 1 << 41, Smallest: kv.MakeKey([]byte("a"), 9, kv.KindValue), Largest: kv.Key{User: []byte("b"), Trailer: rangeEnd},
				SmallestSeq: 3, LargestSeq: kv.MaxSeq, Epoch: 4, OldestAncestorTime: 5, CreationTime: 6, UniqueID: [16]byte{15: 1},
				TailSize: 7, CompensatedRangeDeletionSize: 8, MarkedForCompaction: true, extra: []byte{9, 1, 2, 17, 1, 'x'},
			}},
			{0, &File{Num: 2, Smallest: kv.MakeKey([]byte{}, 1, 0), Largest: kv.MakeKey([]byte{}, 1, 0)}},
		},
		Delete:    []DeletedFile{{0, 3}, {63, 4}},
		LogNumber: new(uint64(10)), NextFile: new(uint64(11)), LastSeq: new(kv.Seq(12)), MinLogToKeep: new(uint64(13)),
		MaxFamily: new(uint32(14)), PrevLog: new(uint64(0)), InGroup: true, Remaining: 15,
	}
}

func TestEveryFieldComesBack(t *testing.T) {
	v := reflect.ValueOf(*wholeEdit())
	for i := range v.NumField() {
		require.False(t, v.Field(i).IsZero(), "wholeEdit leaves %s out", v.Type().Field(i).Name)
	}
	var got Edit
	require.NoError(t, got.Decode("m", 0, wholeEdit().Append(nil)))
	require.Equal(t, *wholeEdit(), got)
}

func TestEditKeepsNoneOfTheRecord(t *testing.T) {
	b := wholeEdit().Append(nil)
	var got Edit
	require.NoError(t, got.Decode("m", 0, b))
	clear(b)
	require.Equal(t, *wholeEdit(), got)
}

func TestCutEditIsCorruption(t *testing.T) {
	e := wholeEdit()
	b := e.Append(nil)
	var got Edit
	ends := 0
	for n := range b {
		if err := got.Decode("dir/MANIFEST-000004", 77, b[:n]); err != nil {
			require.ErrorIs(t, err, corrupt.Err)
			require.ErrorContains(t, err, "dir/MANIFEST-000004: at 77: edit: ")
		} else {
			ends++
		}
	}
	require.Equal(t, 16, ends, "a cut between two fields is not seen here; the log's checksum sees it")
}

func TestOldFormsOfNewFileAreRead(t *testing.T) {
	key := "09 6b 01 01 00 00 00 00 00 00"
	k := kv.MakeKey([]byte("k"), 1, kv.KindValue)
	want := &File{Num: 8, Size: 9, Smallest: k, Largest: k}
	for _, c := range []struct {
		form string
		seq  kv.Seq
	}{
		{"07 02 08 09" + key + key, 0},
		{"64 02 08 09" + key + key + "05 05", 5},
		{"66 02 08 00 09" + key + key + "05 05", 5},
		{"67 02 08 09" + key + key + "05 05 01", 5},
	} {
		var e Edit
		require.NoError(t, e.Decode("m", 0, unhex(t, c.form)), c.form)
		want.SmallestSeq, want.LargestSeq = c.seq, c.seq
		require.Equal(t, []AddedFile{{2, want}}, e.Add)
	}
}

func TestFieldsOfNoUseAreSkipped(t *testing.T) {
	for _, form := range []string{
		"05 01 09 6b 01 01 00 00 00 00 00 00", // compaction cursor
		"84 40 07 02 80 08 01",                // 8196, a log's addition: number 7, size 1024
		"84 40 07 01",                         //
		"85 40 07",                            // 8197, a log's deletion
		"86 40 00",                            // 8198, no timestamps
		"87 40 05 07 02 80 08 01",             // 8199
		"88 40 01 07",                         // 8200
		"89 40 01 01",                         // 8201
		"8b 40 02 80 08",                      // 8203
		"ff 7f 03 01 02 03",                   // one of the future's
	} {
		var e Edit
		require.NoError(t, e.Decode("m", 0, unhex(t, form+"02 05")), form)
		require.Equal(t, Edit{LogNumber: new(uint64(5))}, e, form)
	}
}

func TestLogsToKeepMayHideInAFile(t *testing.T) {
	key := "09 6b 01 01 00 00 00 00 00 00"
	var e Edit
	require.NoError(t, e.Decode("m", 0, unhex(t, "0a 04 67 00 08 09"+key+key+"01 01 03 08 05 00 00 00 00 00 00 00 01")))
	require.Equal(t, uint64(5), *e.MinLogToKeep)
}

func TestWhatWouldBeMisreadIsRefused(t *testing.T) {
	key := "09 6b 01 01 00 00 00 00 00 00"
	file := "67 00 08 09" + key + key + "01 01 "
	for form, text := range map[string]string{
		"90 03 00":                             "blob files", // 400
		"91 03 00":                             "blob files",
		"82 40 00":                             "blob files",
		"83 40 00":                             "blob files",
		"86 40 01 07":                          "user-defined timestamps",
		file + "04 01 07 01":                   "file 000008 has values in blob files",
		file + "0a 01 07 01":                   "file 000008 has user-defined timestamps",
		file + "10 01 00 01":                   "file 000008 has user-defined timestamps",
		file + "41 01 02 01":                   "file 000008 lies outside the database's directory",
		file + "42 01 02 01":                   "file 000008 has a field 66, which may not be skipped",
		"66 00 08 01 09" + key + key + "01 01": "file 000008 lies outside the database's directory",
	} {
		var e Edit
		err := e.Decode("MANIFEST-000004", 9, unhex(t, form))
		require.ErrorIs(t, err, corrupt.ErrNotSupported, form)
		require.ErrorContains(t, err, "MANIFEST-000004: at 9: edit: "+text)
	}
	for form, text := range map[string]string{
		"7f":                            "unknown tag 127",
		"06 40 01":                      "level 64 is out of range",
		"04 ff ff ff ff ff ff ff ff 01": "last sequence 144115188075855871 is out of range",
		"c9 01 00":                      "a family without a name",
		"84 40 07 03":                   "unknown field 3 of a log",
		"67 00 08 09 03 01 02 03":       "the smallest key has 3 bytes",
		file + "0c 02 01 01 01":         "unique id of 2 bytes",
		file + "0d 02 01 01 01":         "field 13 of file 000008 is 1 bytes too long",
		"01 ff ff ff ff ff ff ff ff 7f": "the comparer is damaged",
		"ff ff ff ff 7f":                "the tag is damaged",
	} {
		var e Edit
		err := e.Decode("m", 0, unhex(t, form))
		require.ErrorIs(t, err, corrupt.Err, form)
		require.ErrorContains(t, err, text)
	}
}

func FuzzEditDecode(f *testing.F) {
	f.Add(unhex(f, rocksFlush))
	f.Add(wholeEdit().Append(nil))
	f.Add(unhex(f, "05 01 09 6b 01 01 00 00 00 00 00 00 84 40 07 02 80 08 01 88 40 01 07 ac 02 03"))
	f.Add(binary.AppendUvarint([]byte{1}, 1<<40))
	f.Fuzz(func(t *testing.T, b []byte) {
		var e, again Edit
		if err := e.Decode("m", 0, b); err != nil {
			return
		}
		c := e.Append(nil)
		if err := again.Decode("m", 0, c); err != nil {
			t.Fatalf("%x was written as %x and refused: %v", b, c, err)
		}
		if !reflect.DeepEqual(&e, &again) {
			t.Fatalf("%+v came back as %+v", e, again)
		}
		if d := again.Append(nil); !bytes.Equal(c, d) {
			t.Fatalf("%x was written again as %x", c, d)
		}
	})
}
