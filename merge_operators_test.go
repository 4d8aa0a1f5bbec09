package ashlar

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/vfs"
)

// The built-in operators, and merges between RocksDB and us.

func TestBuiltInOperators(t *testing.T) {
	for _, tc := range []struct {
		op         MergeOperator
		play, want string
	}{
		{MaxOperator, "a=m a+b a+x a+c | b+1 b+3 b+2", "a=x b=3"},
		{PutOperator, "a=m a+b a+x a+c | b+1 b+3 b+2", "a=c b=2"},
		{StringAppendOperator(":"), "a=m a+b a+x | a+c b+1 b+3", "a=m:b:x:c b=1:3"},
		{NewAssociativeMergeOperator("first byte wins", func(dst, _, value, operand []byte) ([]byte, error) {
			return append(append(dst, operand[:1]...), value...), nil
		}), "a=m a+b a+x | a+c b+1 b+3", "a=cxbm b=31"},
	} {
		t.Run(tc.op.Name(), func(t *testing.T) {
			o := &Options{}
			o.MergeOperator = tc.op
			db := mergingDB(t, o)
			doMerges(t, db.DefaultColumnFamily(), tc.play)
			require.Equal(t, tc.want, mergesShown(t, db.DefaultColumnFamily(), nil))
			doMerges(t, db.DefaultColumnFamily(), ">")
			require.Equal(t, tc.want, mergesShown(t, db.DefaultColumnFamily(), nil))
		})
	}
}

func ExampleUInt64AddOperator() {
	o := &Options{FS: vfs.NewMem()}
	o.MergeOperator = UInt64AddOperator
	db, err := Open("db", o)
	if err != nil {
		panic(err)
	}
	defer db.Close()
	for n := range 5 {
		if err := db.Merge([]byte("hits"), binary.LittleEndian.AppendUint64(nil, uint64(n)), nil); err != nil {
			panic(err)
		}
	}
	v, err := db.Get([]byte("hits"), nil)
	fmt.Println(binary.LittleEndian.Uint64(v), err)
	// Output: 10 <nil>
}

func TestAppendGetAllocatesNothingAlsoBesideMerges(t *testing.T) {
	o := &Options{}
	o.MergeOperator = UInt64AddOperator
	db := mergingDB(t, o)
	cf := db.DefaultColumnFamily()
	one := binary.LittleEndian.AppendUint64(nil, 1)
	for range 3 {
		doMerges(t, cf, "a=1 |")
		require.NoError(t, cf.Merge([]byte("n"), one, nil))
	}
	buf := make([]byte, 0, 64)
	for _, key := range []string{"a", "n"} {
		k := []byte(key)
		read := func() {
			if _, err := cf.AppendGet(buf, k, nil); err != nil {
				panic(err)
			}
		}
		read()
		if allocs := testing.AllocsPerRun(100, read); !underRace {
			require.Less(t, allocs, 1.0, "key %s", key)
		}
	}
}

func TestOptionsFilesNameTheOperator(t *testing.T) {
	for op, text := range map[MergeOperator]string{
		StringAppendOperator(","):  "{id=StringAppendOperator;delimiter=,;}",
		StringAppendOperator(":"):  `{id=StringAppendOperator;delimiter=\:;}`,
		StringAppendOperator("#"):  `{id=StringAppendOperator;delimiter=\#;}`,
		StringAppendOperator(""):   "{id=StringAppendOperator;delimiter=;}",
		StringAppendOperator("\n"): `{id=StringAppendOperator;delimiter=\n;}`,
		UInt64AddOperator:          "UInt64AddOperator",
		MaxOperator:                "MaxOperator",
		PutOperator:                "PutOperator",
	} {
		fs := vfs.NewMem()
		o := &Options{FS: fs}
		o.MergeOperator = op
		db := mergingDB(t, o)
		require.Contains(t, string(db.encodeOptions()), "\n  merge_operator="+text+"\n")
		mustClose(t, db)
		back, err := loadOptions(fs, "db")
		require.NoError(t, err)
		require.Equal(t, op, back.MergeOperator)
	}
	for text, op := range map[string]MergeOperator{
		"stringappend": StringAppendOperator(","), "StringAppendOperator": StringAppendOperator(","),
		"{id=stringappend;delimiter=/;}": StringAppendOperator("/"), "{delimiter=ab;id=StringAppendOperator}": StringAppendOperator("ab"),
		"uint64add": UInt64AddOperator, "{id=UInt64AddOperator;}": UInt64AddOperator, "max": MaxOperator, "put": PutOperator,
		"put_v1": PutOperator, "nullptr": nil, "": nil, "sortlist": nil, "{": nil,
	} {
		o, err := parseOptions("OPTIONS", []byte("[CFOptions \"default\"]\n  merge_operator="+text+" # a comment\n"))
		require.NoError(t, err, text)
		require.Equal(t, op, o.MergeOperator, text)
	}
	o := &Options{}
	o.MergeOperator = StringAppendOperator(";}") // no form of RocksDB's can say it
	db := mergingDB(t, o)
	require.NotContains(t, string(db.encodeOptions()), "merge_operator")
	require.Error(t, (&Options{ColumnFamilyOptions: ColumnFamilyOptions{MergeOperator: namelessOperator{}}}).Validate())
}

// namelessOperator has no name.
type namelessOperator struct{ MergeOperator }

func (namelessOperator) Name() string { return "" }

func TestRocksDBsToolsReadOurMerges(t *testing.T) {
	if !needTools(t) {
		return
	}
	for _, delimiter := range []string{",", ":", "", "#"} {
		dir := filepath.Join(t.TempDir(), "db")
		o := &Options{}
		o.MergeOperator = StringAppendOperator(delimiter)
		db := mustOpen(t, dir, o)
		users, err := db.CreateColumnFamily("users", nil)
		require.NoError(t, err)
		want := map[string]pairs{}
		for _, cf := range []*ColumnFamily{db.DefaultColumnFamily(), users} {
			doMerges(t, cf, "a=1 a+2 b+1 c=1 > a+3 b+2 c- c+3 | d+1 d+2 a+4 | a+5 e+1 b-")
			for _, w := range []string{"a=1 2 3 4 5", "c=3", "d=1 2", "e=1"} {
				k, v, _ := strings.Cut(strings.ReplaceAll(w, " ", delimiter), "=")
				want[cf.Name()] = append(want[cf.Name()], [2]string{hex.EncodeToString([]byte(k)), hex.EncodeToString([]byte(v))})
			}
			requireContents(t, cf, want[cf.Name()])
		}
		mustClose(t, db)
		requireToolsAgree(t, dir, want)

		tool(t, "ldb", "--db="+dir, "compact")
		db = mustOpen(t, dir, o)
		users, _ = db.ColumnFamily("users")
		requireContents(t, db.DefaultColumnFamily(), want["default"])
		requireContents(t, users, want["users"])
		mustClose(t, db)
	}
}

// RocksDB writes operands, we read and merge them and write more, RocksDB reads the lot.
func TestRocksDBsBenchmarkMergesAndWeReadIt(t *testing.T) {
	if !needTools(t) {
		return
	}
	for _, name := range []string{"uint64add", "max", "put", "stringappend"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			tool(t, "db_bench", "--db="+dir, "--benchmarks=mergerandom", "--num=2000", "--merge_keys=100", "--value_size=8",
				"--merge_operator="+name, "--write_buffer_size=65536", "--seed=4")
			want := ldbScan(t, dir, "default")
			require.Len(t, want, 100)
			o, err := LoadOptions(dir)
			require.NoError(t, err)
			require.NotNil(t, o.MergeOperator)
			db := mustOpen(t, dir, o)
			requireContents(t, db.DefaultColumnFamily(), want)
			require.NoError(t, db.CompactRange(context.Background(), nil, nil, &CompactRangeOptions{ForceBottommost: true}))
			requireContents(t, db.DefaultColumnFamily(), want)
			for _, p := range want[:50] {
				require.NoError(t, db.Merge(mustGet(hex.DecodeString(p[0])), []byte("\x07\x00\x00\x00\x00\x00\x00\x7f"), nil))
			}
			want = readForward(t, db.DefaultColumnFamily())
			mustClose(t, db)
			require.Equal(t, want, ldbScan(t, dir, "default"))
		})
	}
}

func TestARocksDBDatabaseWithMergesOpensWithoutItsOperator(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	copyDir(t, "testdata/rocksdb/78-60-merge/db", dir)
	db := mustOpen(t, dir, nil)
	key := mustGet(hex.DecodeString("00000000000000033030303030303030"))
	for range 2 {
		_, err := db.Get(key, nil)
		require.ErrorIs(t, err, ErrNotSupported)
		require.ErrorContains(t, err, fmt.Sprintf("%q", key))
		require.NoError(t, db.CompactRange(context.Background(), nil, nil, &CompactRangeOptions{ForceBottommost: true}))
	}
	mustClose(t, db)
	o := &Options{}
	o.MergeOperator = StringAppendOperator(",")
	db = mustOpen(t, dir, o)
	requireContents(t, db.DefaultColumnFamily(), readExpected(t, "testdata/rocksdb/78-60-merge/expected.txt")["default"])
}
