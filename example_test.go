package ashlar_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/vfs"
)

// open is a database in memory, for the examples.
func open(o *ashlar.Options) *ashlar.DB {
	if o == nil {
		o = &ashlar.Options{}
	}
	o.FS = vfs.NewMem()
	db, err := ashlar.Open("db", o)
	if err != nil {
		log.Fatal(err)
	}
	return db
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "ashlar")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	db, err := ashlar.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("user/1"), []byte("Ada"), nil); err != nil {
		log.Fatal(err)
	}
	name, err := db.Get([]byte("user/1"), nil)
	fmt.Printf("%s %v\n", name, err)
	_, err = db.Get([]byte("user/2"), nil)
	fmt.Println(errors.Is(err, ashlar.ErrNotFound))
	// Output:
	// Ada <nil>
	// true
}

func ExampleOptions() {
	o := &ashlar.Options{MaxBackgroundJobs: 4, BlockCache: ashlar.NewCache(64 << 20)}
	o.WriteBufferSize = 16 << 20
	o.Compression = ashlar.ZSTDCompression
	o.Table.FilterPolicy = filter.Bloom(10)
	fmt.Println(o.Validate())
	o.NumLevels = 1
	fmt.Println(errors.Is(o.Validate(), ashlar.ErrInvalidArgument))
	// Output:
	// <nil>
	// true
}

func ExampleBatch() {
	db := open(nil)
	defer db.Close()
	accounts, err := db.CreateColumnFamily("accounts", nil)
	if err != nil {
		log.Fatal(err)
	}
	var b ashlar.Batch
	b.Put(accounts, []byte("ada"), []byte("70"))
	b.Put(accounts, []byte("bob"), []byte("30"))
	b.SetSavePoint()
	b.Delete(nil, []byte("log")) // nil is the default family
	b.RollbackToSavePoint()
	fmt.Println(b.Count())
	fmt.Println(db.Write(&b, ashlar.Sync)) // all of it or nothing, and on disk
	v, _ := accounts.Get([]byte("bob"), nil)
	fmt.Println(string(v))
	// Output:
	// 2
	// <nil>
	// 30
}

func ExampleIterator() {
	db := open(nil)
	defer db.Close()
	for _, k := range []string{"user/ada", "user/bob", "zone/1"} {
		db.Put([]byte(k), []byte("x"), nil)
	}
	it := db.Prefix([]byte("user/"), nil)
	defer it.Close()
	for k, v := range it.All() {
		fmt.Printf("%s=%s\n", k, v)
	}
	if err := it.Error(); err != nil {
		log.Fatal(err)
	}
	for ok := it.SeekForPrev([]byte("user/b")); ok; ok = it.Prev() {
		fmt.Printf("%s\n", it.Key())
	}
	// Output:
	// user/ada=x
	// user/bob=x
	// user/ada
}

func ExampleSnapshot() {
	db := open(nil)
	defer db.Close()
	db.Put([]byte("k"), []byte("before"), nil)
	s := db.NewSnapshot()
	defer s.Release()
	db.Put([]byte("k"), []byte("after"), nil)
	then, _ := db.Get([]byte("k"), &ashlar.ReadOptions{Snapshot: s})
	now, _ := db.Get([]byte("k"), nil)
	fmt.Printf("%s, %s\n", then, now)
	// Output: before, after
}

func ExampleColumnFamily() {
	db := open(nil)
	defer db.Close()
	events, err := db.CreateColumnFamily("events", &ashlar.ColumnFamilyOptions{Comparator: ashlar.ReverseBytewiseComparator})
	if err != nil {
		log.Fatal(err)
	}
	for _, day := range []string{"2026-01-02", "2026-01-04", "2026-01-03"} {
		events.Put([]byte(day), nil, nil)
	}
	it := events.NewIterator(nil)
	for k := range it.All() {
		fmt.Printf("%s\n", k) // newest first
	}
	it.Close()
	fmt.Println(db.DropColumnFamily(events))
	// Output:
	// 2026-01-04
	// 2026-01-03
	// 2026-01-02
	// <nil>
}

func ExampleColumnFamily_GetPinned() {
	db := open(nil)
	defer db.Close()
	db.Put([]byte("k"), make([]byte, 1<<20), nil)
	err := db.GetPinned([]byte("k"), nil, func(value []byte) error {
		fmt.Println(len(value)) // in place, not copied; not to be kept
		return nil
	})
	fmt.Println(err)
	// Output:
	// 1048576
	// <nil>
}

func ExampleColumnFamily_AppendGet() {
	db := open(nil)
	defer db.Close()
	db.Put([]byte("k"), []byte("value"), nil)
	buf := make([]byte, 0, 64)
	for range 3 {
		buf, _ = db.AppendGet(buf[:0], []byte("k"), nil) // no allocation
	}
	fmt.Printf("%s\n", buf)
	// Output: value
}

func ExampleWriteOptions() {
	db := open(nil)
	defer db.Close()
	db.Put([]byte("a"), []byte("1"), nil)                                           // survives a killed process
	db.Put([]byte("b"), []byte("2"), ashlar.Sync)                                   // survives a power cut, and so does a
	db.Put([]byte("c"), []byte("3"), &ashlar.WriteOptions{DisableWAL: true})        // only once flushed
	err := db.Put([]byte("d"), []byte("4"), &ashlar.WriteOptions{NoSlowdown: true}) // ErrIncomplete rather than wait
	fmt.Println(err)
	fmt.Println(db.Put([]byte("e"), nil, &ashlar.WriteOptions{Sync: true, DisableWAL: true}))
	// Output:
	// <nil>
	// invalid argument: Sync asks for the log that DisableWAL leaves out
}

func ExampleReadOptions() {
	db := open(nil)
	defer db.Close()
	for _, k := range []string{"a", "b", "c", "d"} {
		db.Put([]byte(k), nil, nil)
	}
	it := db.NewIterator(&ashlar.ReadOptions{IterateLowerBound: []byte("b"), IterateUpperBound: []byte("d"), DontFillCache: true})
	defer it.Close()
	for k := range it.Backward() {
		fmt.Printf("%s ", k)
	}
	// Output: c b
}

func ExampleEventListener() {
	flushed := make(chan ashlar.FlushInfo, 1)
	o := &ashlar.Options{Listener: ashlar.EventListener{
		OnFlushCompleted: func(info ashlar.FlushInfo) { flushed <- info },
	}}
	db := open(o)
	defer db.Close()
	db.Put([]byte("k"), []byte("v"), nil)
	db.Flush(context.Background(), nil)
	info := <-flushed
	fmt.Println(info.ColumnFamily, info.Err)
	// Output: default <nil>
}

func ExampleCache() {
	cache := ashlar.NewCache(8 << 20)
	one, two := open(&ashlar.Options{BlockCache: cache}), open(&ashlar.Options{BlockCache: cache})
	defer one.Close()
	defer two.Close()
	for _, db := range []*ashlar.DB{one, two} {
		db.Put([]byte("k"), make([]byte, 100_000), nil)
		db.Flush(context.Background(), nil)
		db.Get([]byte("k"), nil)
	}
	fmt.Println(cache.Usage() > 200_000, cache.Capacity())
	// Output: true 8388608
}

func ExampleComparator() {
	byLength := &ashlar.Comparator{
		Name: "example.ByLength", // the name is on disk: an order must not change under it
		Compare: func(a, b []byte) int {
			if len(a) != len(b) {
				return len(a) - len(b)
			}
			return ashlar.BytewiseComparator.Compare(a, b)
		},
		Separator: func(dst, a, b []byte) []byte { return append(dst, a...) },
		Successor: func(dst, a []byte) []byte { return append(dst, a...) },
	}
	o := &ashlar.Options{}
	o.Comparator = byLength
	db := open(o)
	defer db.Close()
	for _, k := range []string{"ccc", "bb", "a", "aa"} {
		db.Put([]byte(k), nil, nil)
	}
	it := db.NewIterator(nil)
	defer it.Close()
	for k := range it.All() {
		fmt.Printf("%s ", k)
	}
	// Output: a aa bb ccc
}

func ExampleCorruptionError() {
	fs := vfs.NewMem()
	fs.MkdirAll("db")
	f, _ := fs.Create("db/CURRENT")
	f.Write([]byte("MANIFEST-nonsense\n"))
	f.Close()

	_, err := ashlar.Open("db", &ashlar.Options{FS: fs})
	fmt.Println(errors.Is(err, ashlar.ErrCorruption))
	if e, ok := errors.AsType[*ashlar.CorruptionError](err); ok {
		fmt.Println(e.File)
	}
	// Output:
	// true
	// db/CURRENT
}

func ExampleMetrics() {
	db := open(nil)
	defer db.Close()
	db.Put([]byte("k"), []byte("v"), nil)
	db.Flush(context.Background(), nil)
	m := db.Metrics()
	fmt.Println(m.KeysWritten, m.Flushes, m.Families[0].Levels[0].Files)
	files, _ := db.Property("rocksdb.num-files-at-level0")
	fmt.Println(files)
	// Output:
	// 1 1 1
	// 1
}

func ExampleCompactRangeOptions() {
	db := open(nil)
	defer db.Close()
	db.Put([]byte("k"), []byte("v"), nil)
	db.Delete([]byte("k"), nil)
	err := db.CompactRange(context.Background(), nil, nil, &ashlar.CompactRangeOptions{ForceBottommost: true})
	size, _ := db.Property("rocksdb.total-sst-files-size")
	fmt.Println(err, size)
	// Output: <nil> 0
}

func ExampleFlushOptions() {
	db := open(nil)
	defer db.Close()
	db.Put([]byte("k"), []byte("v"), &ashlar.WriteOptions{DisableWAL: true})
	fmt.Println(db.Flush(context.Background(), &ashlar.FlushOptions{NoWait: true}))
	fmt.Println(db.Flush(context.Background(), nil)) // waits, also for the one before
	// Output:
	// <nil>
	// <nil>
}

func ExampleTableOptions() {
	o := &ashlar.Options{}
	o.Table = ashlar.TableOptions{FilterPolicy: filter.Bloom(10), BlockSize: 16 << 10, FormatVersion: 7, Checksum: ashlar.XXH3}
	db := open(o)
	defer db.Close()
	fmt.Println(db.Options().Table.FormatVersion)
	// Output: 7
}

func ExampleDB_Check() {
	db := open(nil)
	defer db.Close()
	db.Put([]byte("k"), []byte("v"), nil)
	broken := 0
	for err := range db.Check(context.Background()) {
		fmt.Println(err)
		broken++
	}
	fmt.Println(broken)
	// Output: 0
}

// Statistics has RocksDB's tickers and histograms; its String is what db_bench --statistics prints.
func ExampleStatistics() {
	s := ashlar.NewStatistics()
	db, err := ashlar.Open("db", &ashlar.Options{FS: vfs.NewMem(), Statistics: s})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	_ = db.Put([]byte("k"), []byte("v"), nil)
	_, _ = db.Get([]byte("k"), nil)
	hits, _ := s.Ticker("rocksdb.memtable.hit")
	fmt.Println(hits)
	for _, h := range s.Histograms() {
		if h.Name == "rocksdb.bytes.per.read" {
			fmt.Println(h.Count, h.Sum)
		}
	}
	// Output:
	// 1
	// 1 1
}

// An HTTP handler for Prometheus calls WritePrometheus with its ResponseWriter.
func ExampleMetrics_WritePrometheus() {
	db, err := ashlar.Open("db", &ashlar.Options{FS: vfs.NewMem()})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	_ = db.Put([]byte("k"), []byte("v"), nil)
	var text strings.Builder
	if err := db.Metrics().WritePrometheus(&text); err != nil {
		panic(err)
	}
	for line := range strings.Lines(text.String()) {
		if strings.Contains(line, "rocksdb_number_keys_written_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// # HELP rocksdb_number_keys_written_total RocksDB's ticker rocksdb.number.keys.written.
	// # TYPE rocksdb_number_keys_written_total counter
	// rocksdb_number_keys_written_total 1
}

// Two databases share a cache, in which their indexes and filters lie too. One number bounds it.
func ExampleNewCacheWithOptions() {
	c := ashlar.NewCacheWithOptions(ashlar.CacheOptions{Capacity: 64 << 20, HighPriorityPoolRatio: 0.3})
	o := &ashlar.Options{FS: vfs.NewMem(), BlockCache: c}
	o.Table.CacheIndexAndFilterBlocks = true
	for _, dir := range []string{"a", "b"} {
		db, err := ashlar.Open(dir, o)
		if err != nil {
			panic(err)
		}
		defer db.Close()
	}
	fmt.Println(c.Capacity(), c.Usage())
	// Output: 67108864 0
}

// Keys of a user begin with the user's number. Seeks for one that has none of them read no data block, for the filters of
// tables and memtable know prefixes.
func ExampleSliceTransform() {
	o := &ashlar.Options{}
	o.PrefixExtractor = ashlar.FixedPrefixTransform(4)
	o.Table.FilterPolicy = filter.Ribbon(10)
	o.MemtablePrefixBloomSizeRatio = 0.1
	db := open(o)
	defer db.Close()
	for _, k := range []string{"0001/age", "0001/name", "0002/name"} {
		db.Put([]byte(k), []byte("v"), nil)
	}
	it := db.NewIterator(&ashlar.ReadOptions{PrefixSameAsStart: true})
	defer it.Close()
	for ok := it.Seek([]byte("0001/")); ok; ok = it.Next() {
		fmt.Println(string(it.Key()))
	}
	fmt.Println(it.Seek([]byte("0003/")))
	// Output:
	// 0001/age
	// 0001/name
	// false
}

// Indexes and filters in partitions take block cache, not memory of their own.
func ExampleIndexType() {
	o := &ashlar.Options{}
	o.Table.IndexType, o.Table.PartitionFilters = ashlar.TwoLevelIndexSearch, true
	o.Table.FilterPolicy = filter.Bloom(10)
	o.Table.DataBlockIndexType = ashlar.DataBlockBinaryAndHash
	db := open(o)
	defer db.Close()
	db.Put([]byte("k"), []byte("v"), nil)
	fmt.Println(db.Flush(context.Background(), nil))
	v, err := db.Get([]byte("k"), nil)
	fmt.Println(string(v), err)
	// Output:
	// <nil>
	// v <nil>
}
