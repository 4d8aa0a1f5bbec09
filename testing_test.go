package ashlar

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What tests of the whole database share.

// mustOpen opens a database and closes it, checked, at the end of the test.
func mustOpen(t *testing.T, dir string, o *Options) *DB {
	t.Helper()
	db, err := Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		if !db.closed.Load() {
			mustClose(t, db)
		}
	})
	return db
}

// mustClose checks a database and closes it.
func mustClose(t *testing.T, db *DB) {
	t.Helper()
	mustCheck(t, db)
	require.NoError(t, db.Close())
}

func mustCheck(t *testing.T, db *DB) {
	t.Helper()
	for err := range db.Check(context.Background()) {
		t.Errorf("Check: %v", err)
	}
}

// pairs are keys and values in order, as hex.
type pairs [][2]string

// readForward, readBackward and readByGet read a family in three ways.
func readForward(t *testing.T, cf *ColumnFamily) (all pairs) {
	t.Helper()
	it := cf.NewIterator(nil)
	for k, v := range it.All() {
		all = append(all, [2]string{hex.EncodeToString(k), hex.EncodeToString(v)})
	}
	require.NoError(t, it.Close())
	return all
}

func readBackward(t *testing.T, cf *ColumnFamily) (all pairs) {
	t.Helper()
	it := cf.NewIterator(nil)
	for k, v := range it.Backward() {
		all = append(all, [2]string{hex.EncodeToString(k), hex.EncodeToString(v)})
	}
	require.NoError(t, it.Close())
	for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
		all[i], all[j] = all[j], all[i]
	}
	return all
}

// requireContents checks a family against what it should hold, by Get, forward and backward.
func requireContents(t *testing.T, cf *ColumnFamily, want pairs) {
	t.Helper()
	require.Equal(t, want, readForward(t, cf), "forward, family %q", cf.Name())
	require.Equal(t, want, readBackward(t, cf), "backward, family %q", cf.Name())
	for _, kv := range want {
		key, err := hex.DecodeString(kv[0])
		require.NoError(t, err)
		v, err := cf.Get(key, nil)
		require.NoError(t, err, "Get %s", kv[0])
		require.Equal(t, kv[1], hex.EncodeToString(v), "Get %s", kv[0])
		_, err = cf.Get(append(key, 0, 1, 2), nil)
		require.ErrorIs(t, err, ErrNotFound)
	}
}

// copyDir copies a database's files.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(to, 0o755))
	entries, err := os.ReadDir(from)
	require.NoError(t, err)
	for _, e := range entries {
		in, err := os.Open(filepath.Join(from, e.Name()))
		require.NoError(t, err)
		out, err := os.Create(filepath.Join(to, e.Name()))
		require.NoError(t, err)
		_, err = io.Copy(out, in)
		require.NoError(t, err)
		require.NoError(t, in.Close())
		require.NoError(t, out.Close())
	}
}

// tool runs one of RocksDB's tools, Debian's 7.8.3, and returns what it printed. Where the tools are not installed the
// test ends there, except in CI, where they must be.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := toolOutput(t, name, args...)
	require.NoError(t, err, "%s %s\n%s", name, strings.Join(args, " "), out)
	return out
}

func toolOutput(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// needTools says whether RocksDB's tools are here. In CI they must be.
func needTools(t *testing.T) bool {
	t.Helper()
	for _, name := range []string{"ldb", "sst_dump", "db_bench"} {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("%v; Debian has it in rocksdb-tools", err)
			}
			t.Logf("nothing is checked: %v; Debian has it in rocksdb-tools", err)
			return false
		}
	}
	return true
}
