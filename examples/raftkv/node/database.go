package node

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/examples/raftkv/store"
	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/raftapply"
)

// The node's own keys in family raft: 1 5, and what they are.
var (
	splitsKey     = []byte{1, 5, 1}
	addressPrefix = []byte{1, 5, 2} // and the node's id, 8 bytes big endian
)

// familyOptions are TiKV's in what matters here. A read of default or raft knows from elsewhere that its key exists, so
// that filters of the last level would be memory for nothing; lock and write are asked for keys that are mostly absent.
func familyOptions(name string, writeBuffer raftapply.Size) *ashlar.ColumnFamilyOptions {
	o := &ashlar.ColumnFamilyOptions{WriteBufferSize: uint64(cmp.Or(writeBuffer, 16*raftapply.MiB))}
	o.Table.FilterPolicy = filter.Bloom(10)
	o.Table.BlockSize = 16 << 10
	switch name {
	case "default":
		o.Table.BlockSize = 32 << 10
		o.OptimizeFiltersForHits = true
	case "raft":
		o.OptimizeFiltersForHits = true
		o.Compression = ashlar.NoCompression
	case "lock":
		o.Compression = ashlar.NoCompression
	}
	return o
}

// openDatabase opens the database, or makes it with the families that it needs.
func openDatabase(o *Options) (*ashlar.DB, store.Families, error) {
	var f store.Families
	opts := &ashlar.Options{FS: o.FS, ColumnFamilies: map[string]*ashlar.ColumnFamilyOptions{}}
	opts.ColumnFamilyOptions = *familyOptions("default", o.WriteBufferSize)
	there, err := ashlar.ListColumnFamilies(o.Dir, opts)
	if err != nil { // perhaps there is none: Open finds out what else
		there = nil
	}
	for _, name := range there {
		opts.ColumnFamilies[name] = familyOptions(name, o.WriteBufferSize)
	}
	db, err := ashlar.Open(o.Dir, opts)
	if err != nil {
		return nil, f, fmt.Errorf("raftkv: %w", err)
	}
	f.Default = db.DefaultColumnFamily()
	for name, at := range map[string]**ashlar.ColumnFamily{"lock": &f.Lock, "write": &f.Write, "raft": &f.Raft} {
		if cf, ok := db.ColumnFamily(name); ok {
			*at = cf
			continue
		}
		if *at, err = db.CreateColumnFamily(name, familyOptions(name, o.WriteBufferSize)); err != nil {
			return nil, f, errors.Join(fmt.Errorf("raftkv: column family %q: %w", name, err), db.Close())
		}
	}
	if err := checkSplits(f, o.Splits); err != nil {
		return nil, f, errors.Join(err, db.Close())
	}
	return db, f, nil
}

// checkSplits refuses other regions than those that the database was made with.
func checkSplits(f store.Families, splits [][]byte) error {
	var now []byte
	for _, s := range splits {
		now = append(binary.AppendUvarint(now, uint64(len(s))), s...)
	}
	was, err := f.Raft.Get(splitsKey, nil)
	switch {
	case errors.Is(err, ashlar.ErrNotFound):
		return f.Raft.Put(splitsKey, now, ashlar.Sync)
	case err != nil:
		return fmt.Errorf("raftkv: regions: %w", err)
	case !bytes.Equal(was, now):
		return fmt.Errorf("%w: regions end at %q, which is not where they ended when the database was made", ErrOptions, splits)
	}
	return nil
}

func addressKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64(slices.Clone(addressPrefix), id)
}

// addresses returns what was learned about other nodes.
func addresses(f store.Families) (map[uint64]string, error) {
	found := map[uint64]string{}
	it := f.Raft.Prefix(addressPrefix, nil)
	defer it.Close()
	for key, value := range it.All() {
		if len(key) == len(addressPrefix)+8 {
			found[binary.BigEndian.Uint64(key[len(addressPrefix):])] = string(value)
		}
	}
	return found, it.Error()
}
