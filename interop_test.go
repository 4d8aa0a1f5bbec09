package ashlar

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/fname"
)

// RocksDB's own tools, Debian's 7.8.3, are the witness for every file that we write. Each test works on copies where a
// tool would change the database.

// ldbScan reads a family with RocksDB.
func ldbScan(t *testing.T, dir, family string) (all pairs) {
	t.Helper()
	out := tool(t, "ldb", "--db="+dir, "--column_family="+family, "scan", "--hex")
	for line := range strings.Lines(out) {
		k, v, ok := strings.Cut(strings.TrimRight(line, "\n"), " :")
		if !ok {
			k, v, ok = strings.Cut(strings.TrimRight(line, "\n"), " ==>")
		}
		require.True(t, ok, "line %q of ldb scan", line)
		v = strings.TrimPrefix(strings.TrimSpace(v), "0x")
		all = append(all, [2]string{strings.ToLower(strings.TrimPrefix(k, "0x")), strings.ToLower(v)})
	}
	return all
}

// filesOf returns the paths of a kind of file in a database's directory, ascending.
func filesOf(t *testing.T, dir string, kind fname.Kind) (paths []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if k, _, ok := fname.Parse(e.Name()); ok && k == kind {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(paths)
	return paths
}

// requireToolsAgree has every tool look at a closed database.
func requireToolsAgree(t *testing.T, dir string, want map[string]pairs) {
	t.Helper()
	require.Contains(t, tool(t, "ldb", "--db="+dir, "checkconsistency"), "OK")
	families := tool(t, "ldb", "--db="+dir, "list_column_families")
	for cf := range want {
		require.Contains(t, families, cf)
		require.Equal(t, want[cf], ldbScan(t, dir, cf), "ldb scan of family %q", cf)
	}
	for _, path := range filesOf(t, dir, fname.Table) {
		out := tool(t, "sst_dump", "--file="+path, "--command=verify", "--verify_checksum")
		require.Contains(t, out, "The file is ok", path)
		require.Contains(t, tool(t, "sst_dump", "--file="+path, "--show_properties", "--command=check", "--verify_checksum"), "# data blocks")
	}
	for _, path := range filesOf(t, dir, fname.Manifest) {
		require.Contains(t, tool(t, "ldb", "manifest_dump", "--path="+path, "--verbose"), "Column family")
	}
	for _, path := range filesOf(t, dir, fname.Log) {
		out := tool(t, "ldb", "dump_wal", "--walfile="+path, "--header", "--print_value")
		require.NotContains(t, strings.ToLower(out), "corrupt", path)
	}
}

// fillForTools writes overwrites, deletes and several families, leaves some on level 0, some below and some in the log,
// and returns what is there.
func fillForTools(t *testing.T, db *DB, rng *rand.Rand) map[string]pairs {
	t.Helper()
	users, err := db.CreateColumnFamily("users", nil)
	require.NoError(t, err)
	gone, err := db.CreateColumnFamily("gone", nil)
	require.NoError(t, err)
	contents := map[string]map[string]string{"default": {}, "users": {}}
	write := func(n int) {
		for range n {
			var b Batch
			for _, cf := range []*ColumnFamily{db.DefaultColumnFamily(), users} {
				key, value := fmt.Sprintf("key%05d", rng.IntN(3000)), strings.Repeat(fmt.Sprint(rng.Uint64()), rng.IntN(8))
				if rng.IntN(5) == 0 {
					require.NoError(t, b.Delete(cf, []byte(key)))
					delete(contents[cf.Name()], key)
					continue
				}
				require.NoError(t, b.Put(cf, []byte(key), []byte(value)))
				contents[cf.Name()][key] = value
			}
			require.NoError(t, b.Put(gone, []byte("x"), []byte("y")))
			require.NoError(t, db.Write(&b, nil))
		}
	}
	ctx := context.Background()
	write(2000)
	require.NoError(t, db.CompactRange(ctx, nil, nil, nil))
	write(1000)
	require.NoError(t, db.Flush(ctx, nil))
	write(700)
	require.NoError(t, db.Put([]byte("big"), []byte(strings.Repeat("v", 100_000)), nil))
	contents["default"]["big"] = strings.Repeat("v", 100_000)
	require.NoError(t, db.DropColumnFamily(gone))
	require.NoError(t, users.Put([]byte("last"), nil, Sync))
	contents["users"]["last"] = ""
	want := map[string]pairs{}
	for cf, m := range contents {
		for k, v := range m {
			want[cf] = append(want[cf], [2]string{hex.EncodeToString([]byte(k)), hex.EncodeToString([]byte(v))})
		}
		slices.SortFunc(want[cf], func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	}
	return want
}

func TestRocksDBsToolsReadWhatWeWrote(t *testing.T) {
	if !needTools(t) {
		return
	}
	for _, c := range []struct {
		name string
		o    func(*Options)
	}{
		{"defaults", func(o *Options) {}},
		{"bloom zstd crc32c", func(o *Options) {
			o.Compression, o.Table.Checksum, o.Table.FilterPolicy = ZSTDCompression, CRC32cChecksum, filter.Bloom(10)
		}},
		{"standard bloom lz4 xxhash", func(o *Options) {
			o.Compression, o.Table.Checksum, o.Table.FilterPolicy = LZ4Compression, XXHashChecksum, filter.StandardBloom(10)
		}},
		{"zlib none version 2", func(o *Options) {
			o.Compression, o.Table.Checksum, o.Table.FormatVersion = ZlibCompression, NoChecksum, 2
		}},
		{"uncompressed xxh3 static levels", func(o *Options) {
			o.Compression, o.Table.Checksum, o.NoDynamicLevelBytes = NoCompression, XXH3, true
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			o := &Options{}
			c.o(o)
			db := mustOpen(t, dir, o)
			want := fillForTools(t, db, rand.New(rand.NewPCG(1, 2)))
			out, err := toolOutput(t, "ldb", "--db="+dir, "put", "a", "b")
			require.Error(t, err, "RocksDB got past our lock: %s", out)
			require.Contains(t, out, "lock")
			mustClose(t, db)
			requireToolsAgree(t, dir, want)

			// RocksDB writes into it and compacts it; we read the result and write again; RocksDB reads that.
			tool(t, "ldb", "--db="+dir, "put", "from ldb", "hello")
			tool(t, "ldb", "--db="+dir, "--column_family=users", "put", "from ldb", "users too")
			tool(t, "ldb", "--db="+dir, "compact")
			want["default"] = addPair(want["default"], "from ldb", "hello")
			want["users"] = addPair(want["users"], "from ldb", "users too")
			db = mustOpen(t, dir, o)
			users, ok := db.ColumnFamily("users")
			require.True(t, ok)
			requireContents(t, db.DefaultColumnFamily(), want["default"])
			requireContents(t, users, want["users"])
			require.NoError(t, users.Put([]byte("zz back again"), []byte("1"), nil))
			want["users"] = addPair(want["users"], "zz back again", "1")
			mustClose(t, db)
			requireToolsAgree(t, dir, want)
		})
	}
}

func addPair(p pairs, key, value string) pairs {
	kv := [2]string{hex.EncodeToString([]byte(key)), hex.EncodeToString([]byte(value))}
	i, _ := slices.BinarySearchFunc(p, kv, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return slices.Insert(slices.Clone(p), i, kv)
}

// found counts the keys that db_bench's readrandom found.
var found = regexp.MustCompile(`\((\d+) of (\d+) found\)`)

func TestRocksDBsBenchmarkReadsOursAndWeReadIts(t *testing.T) {
	if !needTools(t) {
		return
	}
	const n = 20000
	dir := filepath.Join(t.TempDir(), "db")
	bench := func(args ...string) string {
		return tool(t, "db_bench", append([]string{"--db=" + dir, fmt.Sprintf("--num=%d", n), "--seed=3", "--bloom_bits=10"}, args...)...)
	}
	bench("--benchmarks=fillrandom", "--write_buffer_size=300000", "--target_file_size_base=300000")
	want := ldbScan(t, dir, "default")
	require.Greater(t, len(want), n/2)

	o := &Options{}
	o.Table.FilterPolicy = filter.Bloom(10)
	db := mustOpen(t, dir, o)
	requireContents(t, db.DefaultColumnFamily(), want)
	key, value := []byte("\x00\x00\x00\x00\x00\x00\x00\x0100000000"), []byte(strings.Repeat("1234567890", 10))
	require.NoError(t, db.Put(key, value, nil))
	require.NoError(t, db.CompactRange(context.Background(), nil, nil, &CompactRangeOptions{ForceBottommost: true}))
	want = readForward(t, db.DefaultColumnFamily())
	mustClose(t, db)

	require.Equal(t, want, ldbScan(t, dir, "default"))
	out := bench("--use_existing_db=1", "--benchmarks=readrandom,readmissing", "--statistics")
	m := found.FindAllStringSubmatch(out, -1)
	require.Len(t, m, 2, out)
	require.NotEqual(t, "0", m[0][1])
	require.Equal(t, "0", m[1][1], "readmissing")
	// RocksDB asks the filters that we wrote: they deny nearly every missing key, and no key that is there.
	require.Greater(t, ticker(t, out, "rocksdb.bloom.filter.useful"), n*9/10)
	require.NotZero(t, ticker(t, out, "rocksdb.bloom.filter.full.true.positive"))
	require.Contains(t, tool(t, "ldb", "--db="+dir, "checkconsistency"), "OK")
}

func ticker(t *testing.T, out, name string) (n int) {
	t.Helper()
	m := regexp.MustCompile(regexp.QuoteMeta(name) + ` COUNT : (\d+)`).FindStringSubmatch(out)
	require.NotNil(t, m, "no %s in %s", name, out)
	_, err := fmt.Sscan(m[1], &n)
	require.NoError(t, err)
	return n
}
