package ashlar

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goldenUnsupported are the databases of RocksDB's that hold what is not built, and what that is.
var goldenUnsupported = map[string]string{
	"78-13-wal-2pc": "prepared transactions in the log",
}

// readExpected reads expected.txt: "# cf NAME", then a line "KEYHEX VALUEHEX" for each key, in order.
func readExpected(t *testing.T, path string) map[string]pairs {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	all := map[string]pairs{}
	name := DefaultColumnFamilyName
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		line := s.Text()
		if cf, ok := strings.CutPrefix(line, "# cf "); ok {
			name = cf
			all[name] = nil
			continue
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		k, v, ok := strings.Cut(line, " ")
		require.True(t, ok, line)
		all[name] = append(all[name], [2]string{k, v})
	}
	require.NoError(t, s.Err())
	return all
}

// TestDatabasesOfRocksDBOpenWithTheirContents opens every golden database, written by RocksDB 7.8 and 11.9, reads it in
// every way, writes into it, compacts it, and reads it again.
func TestDatabasesOfRocksDBOpenWithTheirContents(t *testing.T) {
	dirs, err := filepath.Glob("testdata/rocksdb/*/db")
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for _, src := range dirs {
		name := filepath.Base(filepath.Dir(src))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "db")
			copyDir(t, src, dir)
			if what, ok := goldenUnsupported[name]; ok {
				_, err := Open(dir, nil)
				require.ErrorIs(t, err, ErrNotSupported, what)
				require.ErrorContains(t, err, dir, "the error says which file")
				return
			}
			want := readExpected(t, filepath.Join(filepath.Dir(src), "expected.txt"))
			o, err := LoadOptions(dir)
			if err != nil {
				o = nil
			}
			db := mustOpen(t, dir, o)
			for cf := range want {
				f, ok := db.ColumnFamily(cf)
				require.True(t, ok, "family %q", cf)
				requireContents(t, f, want[cf])
			}
			require.Len(t, db.ColumnFamilies(), len(want))
			require.NoError(t, db.Put([]byte("\xff\xff"), []byte("new"), nil))
			mustClose(t, db)

			db = mustOpen(t, dir, o)
			require.NoError(t, db.CompactRange(context.Background(), nil, nil, &CompactRangeOptions{ForceBottommost: true}))
			want["default"] = append(want["default"], [2]string{"ffff", "6e6577"})
			for cf := range want {
				f, _ := db.ColumnFamily(cf)
				requireContents(t, f, want[cf])
			}
			mustClose(t, db)
		})
	}
}
