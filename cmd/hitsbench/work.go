package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/filter"
)

const (
	keySize, timeSize, valueSize = 16, 8, 64
	batchKeys                    = 100
)

// families of TiKV that a transaction's read looks at, in the order in which sizes are printed.
var families = []string{"default", "write", "lock"}

// options are TiKV's for those families, in memtables and levels as small as the data asks for.
func options(s *settings) *ashlar.Options {
	family := func() *ashlar.ColumnFamilyOptions {
		o := &ashlar.ColumnFamilyOptions{
			WriteBufferSize: 16 << 20, MaxWriteBufferNumber: 5, TargetFileSizeBase: 8 << 20, MaxBytesForLevelBase: 32 << 20,
			Compression: ashlar.LZ4Compression,
		}
		o.Table = ashlar.TableOptions{
			FilterPolicy: filter.Bloom(10), BlockSize: 32 << 10,
			CacheIndexAndFilterBlocks: true, PinL0FilterAndIndexBlocksInCache: true,
		}
		return o
	}
	o := &ashlar.Options{ColumnFamilyOptions: *family()}
	o.OptimizeFiltersForHits = s.hits
	write, lock := family(), family()
	write.PrefixExtractor, write.Table.NoWholeKeyFiltering = ashlar.FixedPrefixTransform(keySize), true
	lock.Compression, lock.Table.BlockSize = ashlar.NoCompression, 16<<10
	o.ColumnFamilies = map[string]*ashlar.ColumnFamilyOptions{"write": write, "lock": lock}
	if s.cache > 0 {
		o.BlockCache = ashlar.NewCache(s.cache)
	}
	return o
}

// store is an open database with its families.
type store struct {
	db                    *ashlar.DB
	defaults, write, lock *ashlar.ColumnFamily
}

func open(s *settings) (*store, error) {
	o := options(s)
	if s.part == "load" { // families are named once they are there
		named := o.ColumnFamilies
		o.ColumnFamilies = nil
		o.ErrorIfExists = true
		db, err := ashlar.Open(s.dir, o)
		if err != nil {
			return nil, err
		}
		st := &store{db: db, defaults: db.DefaultColumnFamily()}
		if st.write, err = db.CreateColumnFamily("write", named["write"]); err == nil {
			st.lock, err = db.CreateColumnFamily("lock", named["lock"])
		}
		return st, errors.Join(err, closeIf(db, err))
	}
	o.ErrorIfMissing = true
	db, err := ashlar.Open(s.dir, o)
	if err != nil {
		return nil, err
	}
	st := &store{db: db, defaults: db.DefaultColumnFamily()}
	st.write, _ = db.ColumnFamily("write")
	st.lock, _ = db.ColumnFamily("lock")
	return st, nil
}

func closeIf(db *ashlar.DB, err error) error {
	if err == nil {
		return nil
	}
	return db.Close()
}

// userKey is the n-th key, 16 bytes that scatter; odd ones are never written.
func userKey(dst []byte, n uint64) []byte {
	dst = binary.BigEndian.AppendUint64(dst[:0], n*0x9e3779b97f4a7c15)
	return binary.BigEndian.AppendUint64(dst, n)
}

// at appends a version's time to key, the newest first as TiKV's.
func at(key []byte, time uint64) []byte { return binary.BigEndian.AppendUint64(key, ^time) }

// sizes are what load leaves behind.
type sizes struct {
	Data, Index, Filter map[string]uint64 // by family, as stored
	Raw                 uint64            // bytes of keys and values
}

// load writes all keys once, has everything compacted to the bottom, and writes every tenth once more.
func load(s *settings) (z sizes, err error) {
	st, err := open(s)
	if err != nil {
		return z, err
	}
	defer func() { err = errors.Join(err, st.db.Close()) }()
	if err := st.commit(s.keys, 1, 1); err != nil {
		return z, err
	}
	for _, cf := range []*ashlar.ColumnFamily{st.defaults, st.write, st.lock} {
		if err := cf.CompactRange(context.Background(), nil, nil, nil); err != nil {
			return z, err
		}
	}
	if err := st.commit(s.keys, 10, 2); err != nil {
		return z, err
	}
	if err := st.db.Flush(context.Background(), nil); err != nil {
		return z, err
	}
	if err := st.db.WaitForCompact(context.Background()); err != nil {
		return z, err
	}
	return st.sizes()
}

// commit writes every step-th of the keys as version, two batches for each hundred: what prewrites, and what commits.
func (st *store) commit(keys, step int, version uint64) error {
	random := rand.New(rand.NewPCG(version, 0))
	var key []byte
	value := make([]byte, valueSize)
	prewrite, commit := st.db.NewBatch(), st.db.NewBatch()
	order := random.Perm(keys / step)
	for i, n := range order {
		key = userKey(key, uint64(n*step)*2)
		for j := range value { // half of it can be compressed
			value[j] = byte(random.Uint32()) & 0x0f
		}
		lock := binary.BigEndian.AppendUint64([]byte("L"), version)
		if err := errors.Join(
			prewrite.Put(st.lock, key, lock),
			prewrite.Put(st.defaults, at(key, 2*version), value),
			commit.Put(st.write, at(key[:keySize:keySize], 2*version+1), binary.BigEndian.AppendUint64([]byte("P"), 2*version)),
			commit.Delete(st.lock, key),
		); err != nil {
			return err
		}
		if (i+1)%batchKeys != 0 && i+1 < len(order) {
			continue
		}
		for _, b := range []*ashlar.Batch{prewrite, commit} {
			if err := st.db.Write(b, nil); err != nil {
				return err
			}
			b.Clear()
		}
	}
	return nil
}

func (st *store) sizes() (sizes, error) {
	z := sizes{Data: map[string]uint64{}, Index: map[string]uint64{}, Filter: map[string]uint64{}}
	for i, cf := range []*ashlar.ColumnFamily{st.defaults, st.write, st.lock} {
		all, _ := cf.Property("rocksdb.aggregated-table-properties")
		var n [5]uint64
		for j, what := range []string{"data block size", "index block size", "filter block size", "raw key size", "raw value size"} {
			var err error
			if n[j], err = number(all, what); err != nil {
				return z, fmt.Errorf("%s: %w", families[i], err)
			}
		}
		z.Data[families[i]], z.Index[families[i]], z.Filter[families[i]] = n[0], n[1], n[2]
		z.Raw += n[3] + n[4]
	}
	return z, nil
}

// number finds what=N in RocksDB's form of table properties, NAME=VALUE; where a name may go on in brackets.
func number(all, what string) (uint64, error) {
	for part := range strings.SplitSeq(all, ";") {
		name, value, ok := strings.Cut(part, "=")
		if ok && strings.HasPrefix(strings.TrimSpace(name), what) {
			return strconv.ParseUint(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("'%s' is not in the table properties", what)
}

// reading is what a read process measures. Rates are reads a second.
type reading struct {
	Present, Absent, Raw float64
	DataHits             float64 // of data blocks asked for while reading present keys, the part that was in the cache
	RawBlocks            float64 // data blocks asked for by each raw read of an absent key
	Resident             uint64  // bytes
}

func read(s *settings) (r reading, err error) {
	st, err := open(s)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, st.db.Close()) }()
	it := st.write.NewIterator(&ashlar.ReadOptions{PrefixSameAsStart: true})
	defer func() { err = errors.Join(err, it.Close()) }()
	random := rand.New(rand.NewPCG(s.seed, 1))
	timed := func(present bool, get func(n uint64, present bool) error) (float64, error) {
		begin := time.Now()
		for range s.reads {
			n := 2 * random.Uint64N(uint64(s.keys))
			if !present {
				n++
			}
			if err := get(n, present); err != nil {
				return 0, err
			}
		}
		return float64(s.reads) / time.Since(begin).Seconds(), nil
	}
	var key, value []byte
	transaction := func(n uint64, present bool) (err error) {
		key = userKey(key, n)
		if value, err = st.lock.AppendGet(value[:0], key, nil); !errors.Is(err, ashlar.ErrNotFound) {
			return fmt.Errorf("lock of key %d: %w", n, err)
		}
		switch found := it.Seek(key); {
		case it.Error() != nil:
			return fmt.Errorf("write record of key %d: %w", n, it.Error())
		case found != present:
			return fmt.Errorf("write record of key %d: found is %v", n, found)
		case !found:
			return nil
		}
		if !bytes.HasPrefix(it.Key(), key) || len(it.Value()) != 1+timeSize {
			return fmt.Errorf("key %d: a seek came to %x", n, it.Key())
		}
		value, err = st.defaults.AppendGet(value[:0], at(key, binary.BigEndian.Uint64(it.Value()[1:])), nil)
		if err != nil {
			return fmt.Errorf("value of key %d: %w", n, err)
		}
		return nil
	}
	if _, err = timed(true, transaction); err != nil { // to fill the cache
		return r, err
	}
	hits, misses := st.tickers()
	if r.Present, err = timed(true, transaction); err != nil {
		return r, err
	}
	h, m := st.tickers()
	r.DataHits = float64(h-hits) / float64(h-hits+m-misses)
	if r.Resident, err = resident(); err != nil {
		return r, err
	}
	if r.Absent, err = timed(false, transaction); err != nil {
		return r, err
	}
	hits, misses = st.tickers()
	if r.Raw, err = timed(false, func(n uint64, _ bool) error {
		key = userKey(key, n)
		if value, err = st.defaults.AppendGet(value[:0], at(key, 2), nil); !errors.Is(err, ashlar.ErrNotFound) {
			return fmt.Errorf("raw key %d, which was not written: %w", n, err)
		}
		return nil
	}); err != nil {
		return r, err
	}
	h, m = st.tickers()
	r.RawBlocks = float64(h-hits+m-misses) / float64(s.reads)
	return r, nil
}

// tickers are the data blocks found in the cache so far, and not found.
func (st *store) tickers() (hits, misses uint64) {
	m := st.db.Metrics()
	hits, _ = m.Ticker("rocksdb.block.cache.data.hit")
	misses, _ = m.Ticker("rocksdb.block.cache.data.miss")
	return hits, misses
}

// resident is the memory of this process, by Linux.
func resident() (uint64, error) {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	var total, pages uint64
	if _, err := fmt.Sscan(string(b), &total, &pages); err != nil {
		return 0, fmt.Errorf("/proc/self/statm: %w", err)
	}
	return pages * uint64(os.Getpagesize()), nil
}
