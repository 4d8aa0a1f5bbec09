package manifest

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/vfs"
)

func TestSmallestManifestThatRocksDBAccepts(t *testing.T) {
	m := newDir(t)
	writeManifest(t, m, nil, base())
	require.Equal(t, unhex(t, "c4c19f5b 0600 01 02 00 03 02 04 00"), []byte(readFile(t, m, "db/MANIFEST-000001")))
	vs := reopen(t, m, Options{})
	require.Equal(t, "last 0, keep 0, families up to 0, id \"\"\n0 default (leveldb.BytewiseComparator) log 0\n", describe(vs))
	require.Equal(t, uint64(2), vs.NewFileNum())
}

func TestDamagedCurrentIsSaidClearly(t *testing.T) {
	m := newDir(t)
	_, err := Recover(m, "db", Options{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "CURRENT")
	for text, want := range map[string]string{
		"":                         "db/CURRENT: at 0: it does not end with a newline (corruption)",
		"MANIFEST-000001":          "db/CURRENT: at 15: it does not end with a newline (corruption)",
		"MANIFEST-\n":              `db/CURRENT: at 0: it names "MANIFEST-", which is no manifest (corruption)`,
		"000001.log\n":             `db/CURRENT: at 0: it names "000001.log", which is no manifest (corruption)`,
		"MANIFEST-000001\n\n":      `db/CURRENT: at 0: it names "MANIFEST-000001\n", which is no manifest (corruption)`,
		"../MANIFEST-000001\n":     `db/CURRENT: at 0: it names "../MANIFEST-000001", which is no manifest (corruption)`,
		strings.Repeat("x", 1<<20): "db/CURRENT: at 256: it does not end with a newline (corruption)",
	} {
		writeFile(t, m, "db/CURRENT", text)
		_, err := Recover(m, "db", Options{})
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, corrupt.Err)
	}
	writeFile(t, m, "db/CURRENT", "MANIFEST-000007\n")
	_, err = Recover(m, "db", Options{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "MANIFEST-000007")
}

func TestManifestMustSayTheLeast(t *testing.T) {
	for want, change := range map[string]func(e *Edit){
		"none of its 1 edits has a log number":       func(e *Edit) { e.LogNumber = nil },
		"none of its 1 edits has a next file number": func(e *Edit) { e.NextFile = nil },
		"none of its 1 edits has a last sequence":    func(e *Edit) { e.LastSeq = nil },
	} {
		e, m := base(), newDir(t)
		change(e)
		writeManifest(t, m, nil, e)
		_, err := Recover(m, "db", Options{})
		require.EqualError(t, err, "db/MANIFEST-000001: "+want+" (corruption)")
	}
	m := newDir(t)
	writeManifest(t, m, nil)
	_, err := Recover(m, "db", Options{})
	require.ErrorContains(t, err, "none of its 0 edits has a log number")
}

func TestEmptyRecordsAreRead(t *testing.T) {
	m := newDir(t)
	writeManifest(t, m, nil, &Edit{}, base(), &Edit{})
	reopen(t, m, Options{})
}

func TestNumbersInUseAreRaisedOverWhatTheManifestSays(t *testing.T) {
	m := newDir(t)
	e := base()
	e.Add = []AddedFile{{0, file(40, "a", "b")}}
	e.LogNumber = new(uint64(50))
	writeManifest(t, m, nil, e)
	vs := reopen(t, m, Options{})
	require.Equal(t, uint64(51), vs.NewFileNum())
	require.Equal(t, kv.Seq(409), vs.LastSeq(), "a last sequence below a file's would hide data")
}

func TestUnfinishedTailIsIgnored(t *testing.T) {
	m := newDir(t)
	edits := []*Edit{base(), flushed(0, 4, "a", "b"), flushed(0, 5, "a", "b")}
	writeFile(t, m, "db/000004.sst", "")
	writeManifest(t, m, nil, edits[:2]...)
	two := readFile(t, m, "db/MANIFEST-000001")
	want := describe(reopen(t, m, Options{}))
	writeManifest(t, m, nil, edits...)
	three := readFile(t, m, "db/MANIFEST-000001")
	for n := len(two); n < len(three); n++ {
		writeFile(t, m, "db/MANIFEST-000001", three[:n])
		require.Equal(t, want, describe(reopen(t, m, Options{})), "cut at %d", n)
		writeFile(t, m, "db/MANIFEST-000001", three[:n]+strings.Repeat("\x00", 5000))
		require.Equal(t, want, describe(reopen(t, m, Options{})), "zeros from %d", n)
	}
	for _, n := range []int{1, 6, 7, 4096, 40000} {
		writeFile(t, m, "db/MANIFEST-000001", two+strings.Repeat("\x00", n))
		require.Equal(t, want, describe(reopen(t, m, Options{})), "%d zeros", n)
	}
}

// A manifest cut inside an edit may be an old one come back. Then tables that it names have been deleted since.
func TestUnfinishedTailWithMissingTablesIsCorruption(t *testing.T) {
	m := newDir(t)
	writeManifest(t, m, nil, base(), flushed(0, 4, "a", "b"))
	whole := readFile(t, m, "db/MANIFEST-000001")
	reopen(t, m, Options{})
	writeFile(t, m, "db/MANIFEST-000001", whole+"\x01\x02\x03")
	_, err := Recover(m, "db", Options{})
	require.ErrorIs(t, err, corrupt.Err)
	require.ErrorContains(t, err, "it ends inside an edit, and 000004.sst, named before, is gone")
	require.NotContains(t, err.Error(), "at 0:")
	writeFile(t, m, "db/000004.ldb", "")
	reopen(t, m, Options{})
}

func TestDamageInTheMiddleIsCorruption(t *testing.T) {
	m := newDir(t)
	writeManifest(t, m, nil, base(), flushed(0, 4, "a", "b"))
	head := len(readFile(t, m, "db/MANIFEST-000001"))
	writeManifest(t, m, nil, base(), flushed(0, 4, "a", "b"), flushed(0, 5, "a", "b"), flushed(0, 6, "a", "b"))
	whole := []byte(readFile(t, m, "db/MANIFEST-000001"))
	bad := func(b []byte) {
		writeFile(t, m, "db/MANIFEST-000001", string(b))
		_, err := Recover(m, "db", Options{})
		require.ErrorIs(t, err, corrupt.Err)
		require.ErrorContains(t, err, "MANIFEST-000001")
		var c *corrupt.Error
		require.ErrorAs(t, err, &c)
		require.Contains(t, c.File, "MANIFEST-000001")
		require.GreaterOrEqual(t, c.Offset, int64(0))
	}
	flipped := append([]byte{}, whole...)
	flipped[head+20] ^= 1
	bad(flipped)
	hole := append(append(append([]byte{}, whole[:head]...), make([]byte, 100)...), whole[head:]...)
	bad(hole)
	zeroed := append([]byte{}, whole...)
	clear(zeroed[:head])
	bad(zeroed)
}

func TestEditsWithoutSenseAreCorruptionAndNameTheirPlace(t *testing.T) {
	bad := func(text string, edits ...*Edit) {
		m := newDir(t)
		writeManifest(t, m, nil, append([]*Edit{base()}, edits...)...)
		_, err := Recover(m, "db", Options{})
		require.ErrorIs(t, err, corrupt.Err)
		require.ErrorContains(t, err, text)
	}
	at := "db/MANIFEST-000001: at 13: "
	bad(at+`edit: family "default": file 000009 is deleted from level 0 but is not there (corruption)`, &Edit{Delete: []DeletedFile{{0, 9}}})
	bad(`file 000009 is added to level 1 but is on level 0`, flushed(0, 9, "a", "b"), &Edit{Add: []AddedFile{{1, file(9, "a", "b")}}})
	bad(at+"edit: there is no family 5", flushed(5, 9, "a", "b"))
	bad(at+"edit: next file number 4611686018427387904 is out of range", &Edit{NextFile: new(uint64(1 << 62))})
	bad(`file 000009 is in two families`, &Edit{Family: 1, AddFamily: "x"}, flushed(1, 9, "a", "b"), flushed(0, 9, "a", "b"))
	bad(`family "default": level 1: files 000008[`, &Edit{Add: []AddedFile{{1, file(8, "a", "m")}, {1, file(9, "b", "n")}}})
	bad("there is no family 1", &Edit{Family: 1, AddFamily: "x"}, &Edit{Family: 1, DropFamily: true}, flushed(1, 9, "a", "b"))

	m := newDir(t)
	writeManifest(t, m, nil, base(), &Edit{Add: []AddedFile{{9, file(9, "a", "b")}}})
	_, err := Recover(m, "db", Options{})
	require.ErrorIs(t, err, ErrMismatch)
	require.NotErrorIs(t, err, corrupt.Err)
	require.ErrorContains(t, err, "file 000009 is on level 9, and there are 7 levels")
	require.Equal(t, "L9: 000009[a#99,SET..b#90,SET]\n", reopen(t, m, Options{NumLevels: 10}).Families()[0].Version.DebugString())
}

func TestOnlyWhatIsLeftOfTheDatabaseHasToFitTheOptions(t *testing.T) {
	m := newDir(t)
	writeManifest(t, m, nil, base(),
		&Edit{Family: 1, AddFamily: "x", Comparer: kv.Bytewise.Name}, &Edit{Family: 1, DropFamily: true},
		&Edit{Family: 2, AddFamily: "x", Comparer: kv.ReverseBytewise.Name},
		&Edit{Family: 3, AddFamily: "y", Comparer: "of old"}, &Edit{Family: 3, DropFamily: true},
		&Edit{Add: []AddedFile{{9, file(9, "a", "b")}}},
		&Edit{Add: []AddedFile{{1, file(10, "a", "b")}}, Delete: []DeletedFile{{9, 9}}})
	vs := reopen(t, m, Options{Comparer: func(name, _ string) *kv.Comparer {
		if name == "x" {
			return kv.ReverseBytewise
		}
		return kv.Bytewise
	}})
	require.Equal(t, kv.ReverseBytewise.Name, vs.Families()[1].Comparer)
	require.Equal(t, "L1: 000010[a#109,SET..b#100,SET]\n", vs.Families()[0].Version.DebugString())
}

func TestMismatchOfComparersNamesBoth(t *testing.T) {
	m := newDir(t)
	wanted := kv.ReverseBytewise
	o := Options{Comparer: func(string, string) *kv.Comparer { return wanted }}
	vs := create(t, m, o)
	require.NoError(t, vs.Apply([]*Edit{{Family: vs.NewFamilyID(), AddFamily: "users"}}, nil))
	require.Equal(t, wanted.Name, vs.Families()[1].Comparer)
	reopen(t, m, o)
	require.Equal(t, wanted.Name, reopen(t, m, Options{}).Families()[1].Comparer, "the built-in orders need no options")

	wanted = kv.Bytewise
	_, err := Recover(m, "db", o)
	require.ErrorIs(t, err, ErrMismatch)
	require.NotErrorIs(t, err, corrupt.Err)
	require.EqualError(t, err, `db/MANIFEST-000001: family "default": the options do not fit the database: its keys are in the order of `+
		`comparer "rocksdb.ReverseBytewiseComparator", not "leveldb.BytewiseComparator"`)

	e := base()
	e.Comparer = "foo"
	writeManifest(t, m, nil, e)
	_, err = Recover(m, "db", Options{})
	require.ErrorIs(t, err, ErrMismatch)
	require.ErrorContains(t, err, `comparer "foo", which is not known`)
}

func TestAtomicGroupIsAllOrNothing(t *testing.T) {
	part := func(num uint64, remaining uint32) *Edit {
		e := flushed(0, num, "a", "b")
		e.InGroup, e.Remaining = true, remaining
		return e
	}
	open := func(edits ...*Edit) (string, error) {
		m := newDir(t)
		writeFile(t, m, "db/000003.sst", "")
		writeManifest(t, m, nil, append([]*Edit{base(), flushed(0, 3, "a", "b")}, edits...)...)
		vs, err := Recover(m, "db", Options{})
		if err != nil {
			return "", err
		}
		return strings.Join(strings.Fields(vs.Families()[0].Version.DebugString()), " "), nil
	}
	none := "L0: 000003[a#39,SET..b#30,SET]"
	for n := range 3 {
		got, err := open([]*Edit{part(4, 2), part(5, 1), part(6, 0)}[:n]...)
		require.NoError(t, err)
		require.Equal(t, none, got)
	}
	got, err := open(part(4, 2), part(5, 1), part(6, 0), part(7, 0))
	require.NoError(t, err)
	require.Equal(t, "L0: 000007[a#79,SET..b#70,SET] 000006[a#69,SET..b#60,SET] 000005[a#59,SET..b#50,SET] 000004[a#49,SET..b#40,SET] 000003[a#39,SET..b#30,SET]", got)
	for _, broken := range [][]*Edit{
		{part(4, 2), part(5, 0)}, {part(4, 2), part(5, 2)}, {part(4, 1), flushed(0, 5, "a", "b")}, {part(4, 1), {}}, {part(4, 1<<32-1), part(5, 1)},
	} {
		_, err := open(broken...)
		require.ErrorIs(t, err, corrupt.Err)
		require.ErrorContains(t, err, "an atomic group of edits is broken")
	}
}

func FuzzManifestRecover(f *testing.F) {
	for _, edits := range [][]*Edit{
		{base()},
		{base(), flushed(0, 4, "a", "b"), {Family: 1, AddFamily: "x"}, flushed(1, 5, "a", "b"), {Delete: []DeletedFile{{0, 4}}}},
	} {
		m := newDir(f)
		writeManifest(f, m, nil, edits...)
		f.Add([]byte(readFile(f, m, "db/MANIFEST-000001")), false)
		var b []byte
		for _, e := range edits {
			b = append(append(b, byte(len(e.Append(nil)))), e.Append(nil)...)
		}
		f.Add(b, true)
	}
	f.Fuzz(func(t *testing.T, b []byte, edits bool) {
		m := vfs.NewMem()
		require.NoError(t, m.MkdirAll("db"))
		if edits {
			// Records with right checksums: a byte for the length, then the edit.
			writeRecords(t, m, b)
		} else {
			writeFile(t, m, "db/MANIFEST-000001", string(b))
		}
		writeFile(t, m, "db/CURRENT", "MANIFEST-000001\n")
		vs, err := Recover(m, "db", Options{})
		if err != nil {
			return
		}
		for _, info := range vs.Families() {
			require.NoError(t, info.Version.Check(kv.Bytewise))
		}
		want := describe(vs)
		require.NoError(t, vs.Apply(nil, nil))
		require.NoError(t, vs.Close())
		require.Equal(t, want, describe(reopen(t, m, Options{})))
	})
}
