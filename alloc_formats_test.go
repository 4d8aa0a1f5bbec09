//go:build !race

package ashlar

import (
	"context"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/vfs"
)

// requireNoAllocations reads keys that are there, some of them more than once, in every way that lends out no memory.
func requireNoAllocations(t *testing.T, db *DB, keys [][]byte, what string) {
	t.Helper()
	dst, none := make([]byte, 0, 1<<10), []byte("k1 is not there")
	it := db.NewIterator(nil)
	require.NotEmpty(t, shown(it, false))
	n := 0
	key := func() []byte {
		n++
		return keys[n%len(keys)]
	}
	all := len(keys)
	for name, read := range map[string]func() bool{
		"AppendGet": func() bool {
			_, err := db.AppendGet(dst, key(), nil)
			return err == nil
		},
		"AppendGet of no key": func() bool {
			_, err := db.AppendGet(dst, none, nil)
			return err == ErrNotFound
		},
		"GetPinned":   func() bool { return db.GetPinned(key(), nil, func([]byte) error { return nil }) == nil },
		"Seek":        func() bool { return it.Seek(key()) },
		"SeekForPrev": func() bool { return it.SeekForPrev(key()) },
		"Next":        func() bool { return it.Next() || it.SeekToFirst() },
		"Prev":        func() bool { return it.Prev() || it.SeekToLast() },
	} {
		for range all + 1 { // warm
			require.True(t, read(), "%s: %s", what, name)
		}
		require.Zero(t, testing.AllocsPerRun(2*all, func() {
			if !read() {
				panic(name)
			}
		}), "%s: %s", what, name)
	}
	require.NoError(t, it.Close())
}

func TestNoReadAllocatesInAnyTableFormat(t *testing.T) {
	ctx := context.Background()
	for name, set := range tableFormats() {
		db := formatted(t, vfs.NewMem(), set)
		var keys [][]byte
		for i := range 600 {
			key := fmt.Sprintf("k%03d/%03d", i*7%200, i)
			keys = append(keys, []byte(key))
			mustPut(t, db.DefaultColumnFamily(), key, "value of "+key, nil)
			switch i {
			case 300:
				require.NoError(t, db.CompactRange(ctx, nil, nil, nil))
			case 500:
				require.NoError(t, db.Flush(ctx, nil))
			}
		}
		requireNoAllocations(t, db, keys, name)
		require.NoError(t, db.Close())
	}
}

// The indexes that RocksDB alone writes: with first keys, for hash search, in partitions.
func TestNoReadAllocatesInRocksDBsTableFormats(t *testing.T) {
	for _, name := range []string{
		"78-20-format-v0", "78-52-ribbon10", "78-53-partitioned", "78-54-index-restart16", "78-55-index-first-key", "78-56-block-hash-index",
		"78-57-hash-search-index", "119-05-partitioned", "119-27-format-v7", "119-50-separated-kv", "119-51-uniform-index",
	} {
		db, want := copyOfRocksDBs(t, name)
		var keys [][]byte
		for _, kv := range want {
			keys = append(keys, must(hex.DecodeString(kv[0])))
		}
		requireNoAllocations(t, db, keys, name)
		mustClose(t, db)
	}
}
