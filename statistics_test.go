package ashlar

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/vfs"
)

// counted opens a database with 1000 keys at the bottom, 1000 in level 0 and 1000 in the memtable.
func counted(t *testing.T, change func(*Options)) *DB {
	t.Helper()
	o := &Options{FS: vfs.NewMem()}
	o.DisableAutoCompactions = true
	o.Table.FilterPolicy = filter.Bloom(20)
	if change != nil {
		change(o)
	}
	db, err := Open("db", o)
	require.NoError(t, err)
	ctx := context.Background()
	for i := range 3000 {
		mustPut(t, db.DefaultColumnFamily(), fmt.Sprintf("k%04d", i), "value", nil)
		switch i {
		case 999:
			require.NoError(t, db.CompactRange(ctx, nil, nil, nil))
		case 1999:
			require.NoError(t, db.Flush(ctx, nil))
		}
	}
	return db
}

func tickersOf(db *DB) map[string]uint64 {
	all := map[string]uint64{}
	for _, x := range db.Metrics().Tickers {
		all[strings.TrimPrefix(x.Name, "rocksdb.")] = x.Count
	}
	return all
}

// rose returns the tickers that rose, and by how much.
func rose(before, after map[string]uint64) map[string]uint64 {
	d := map[string]uint64{}
	for name, n := range after {
		if n != before[name] {
			d[name] = n - before[name]
		}
	}
	return d
}

func TestReadsAreCountedForWhatTheyMet(t *testing.T) {
	db := counted(t, nil)
	step := func(f func()) map[string]uint64 {
		before := tickersOf(db)
		f()
		return rose(before, tickersOf(db))
	}
	get := func(key string) func() {
		return func() { _, _ = db.Get([]byte(key), nil) }
	}
	type counts = map[string]uint64
	require.Equal(t, counts{"memtable.hit": 1, "number.keys.read": 1, "bytes.read": 5}, step(get("k2500")))
	get("k1500")()
	found := counts{"memtable.miss": 1, "number.keys.read": 1, "bytes.read": 5, "block.cache.hit": 1, "block.cache.data.hit": 1,
		"bloom.filter.full.positive": 1, "bloom.filter.full.true.positive": 1, "l0.hit": 1}
	require.Equal(t, found, step(get("k1500")))
	get("k0500")()
	delete(found, "l0.hit")
	found["l2andup.hit"] = 1
	require.Equal(t, found, step(get("k0500")))
	absent := counts{"memtable.miss": 1, "number.keys.read": 1, "bloom.filter.useful": 1}
	require.Equal(t, absent, step(get("k0500x")))
	missed := step(func() {
		_, err := db.Get([]byte("k0001"), &ReadOptions{DontFillCache: true})
		require.NoError(t, err)
	})
	require.Equal(t, uint64(1), missed["block.cache.data.miss"])
	require.Zero(t, missed["block.cache.data.add"])
	require.Equal(t, uint64(1), missed["block.checksum.compute.count"])
	many := step(func() { db.MultiGet([][]byte{[]byte("k2500"), []byte("k0500"), []byte("k0500x")}, nil) })
	require.Equal(t, uint64(1), many["number.multiget.get"])
	require.Equal(t, uint64(3), many["number.multiget.keys.read"])
	require.Equal(t, uint64(2), many["number.multiget.keys.found"])
	require.Equal(t, uint64(10), many["number.multiget.bytes.read"])
	require.NotContains(t, many, "number.keys.read")
	walked := step(func() {
		it := db.NewIterator(nil)
		require.True(t, it.Seek([]byte("k0998")))
		for range 3 {
			require.True(t, it.Next())
		}
		require.True(t, it.Prev())
		require.False(t, it.Seek([]byte("z")))
		require.NoError(t, it.Close())
	})
	for name, n := range (counts{"number.db.seek": 2, "number.db.seek.found": 1, "number.db.next": 3, "number.db.next.found": 3,
		"number.db.prev": 1, "number.db.prev.found": 1, "db.iter.bytes.read": 50, "num.iterator.created": 1,
		"num.iterator.deleted": 1}) {
		require.Equal(t, n, walked[name], name)
	}
	var b Batch
	require.NoError(t, b.Put(nil, []byte("a"), []byte("b")))
	size := uint64(b.Len())
	require.Equal(t, counts{"number.keys.written": 1, "bytes.written": size, "wal.bytes": size, "write.self": 1, "write.wal": 1},
		step(func() { require.NoError(t, db.Write(&b, nil)) }))
	require.Equal(t, counts{"number.keys.written": 1, "bytes.written": size, "write.self": 1},
		step(func() { require.NoError(t, db.Write(&b, &WriteOptions{DisableWAL: true})) }))

	m := db.Metrics()
	f := m.Families[0]
	require.NotZero(t, f.Levels[0].Hits)
	require.NotZero(t, f.Levels[6].Hits)
	require.NotZero(t, f.Levels[6].FilterUseful)
	require.Equal(t, f.Reads, m.Reads, "there is one family")
	require.Contains(t, m.String(), fmt.Sprintf("rocksdb.number.keys.written COUNT : %d\n", 3002))
	require.NoError(t, db.Close())
}

// A family that is gone, and a database that is closed, leave what they have counted.
func TestCountsOutliveFamiliesAndDatabases(t *testing.T) {
	s := NewStatistics()
	fs := vfs.NewMem()
	for round := range 2 {
		db, err := Open(fmt.Sprint("db", round), &Options{FS: fs, Statistics: s})
		require.NoError(t, err)
		cf, err := db.CreateColumnFamily("x", nil)
		require.NoError(t, err)
		mustPut(t, cf, "k", "v", nil)
		require.Equal(t, "v", valueOf(t, cf, "k"))
		require.NoError(t, db.DropColumnFamily(cf))
		n, ok := db.Metrics().Ticker("rocksdb.memtable.hit")
		require.True(t, ok)
		require.EqualValues(t, 1, n)
		n, _ = s.Ticker("rocksdb.memtable.hit")
		require.EqualValues(t, round+1, n)
		require.NoError(t, db.Close())
	}
	n, ok := s.Ticker("rocksdb.number.keys.read")
	require.True(t, ok)
	require.EqualValues(t, 2, n)
	_, ok = s.Ticker("rocksdb.no.such")
	require.False(t, ok)
	s.Reset()
	n, _ = s.Ticker("rocksdb.number.keys.read")
	require.Zero(t, n)
	for _, h := range s.Histograms() {
		require.Zero(t, h.Count, h.Name)
	}
}

func TestHistogramsAreTakenAsTheLevelSays(t *testing.T) {
	for level, want := range map[StatsLevel][2]bool{
		DefaultStatsLevel: {true, true}, StatsExceptDetailedTimers: {true, true}, StatsExceptTimers: {true, false},
		StatsExceptHistogramOrTimers: {false, false},
	} {
		s := NewStatisticsWithLevel(level)
		db := counted(t, func(o *Options) { o.Statistics = s })
		for range 10 {
			require.Equal(t, "value", valueOf(t, db.DefaultColumnFamily(), "k0500"))
		}
		it := db.NewIterator(nil)
		it.Seek([]byte("k"))
		require.NoError(t, it.Close())
		db.MultiGet([][]byte{[]byte("k0001")}, nil)
		require.NoError(t, db.Close())
		counts := map[string]uint64{}
		for _, h := range s.Histograms() {
			counts[strings.TrimPrefix(h.Name, "rocksdb.")] = h.Count
		}
		for _, name := range []string{"bytes.per.read", "bytes.per.write", "bytes.per.multiget"} {
			require.Equal(t, want[0], counts[name] > 0, "level %d, %s", level, name)
		}
		for _, name := range []string{"db.get.micros", "db.write.micros", "db.seek.micros", "db.multiget.micros", "sst.read.micros",
			"read.block.get.micros", "table.open.io.micros"} {
			require.Equal(t, want[1], counts[name] > 0, "level %d, %s", level, name)
		}
		if want[1] {
			require.EqualValues(t, 10, counts["db.get.micros"])
			require.EqualValues(t, 3000, counts["db.write.micros"])
		}
	}
}

// Every line is one that db_bench --statistics prints too, but for the numbers.
func TestStatisticsHaveRocksDBsForm(t *testing.T) {
	if !needTools(t) {
		return
	}
	out := tool(t, "db_bench", "--benchmarks=fillrandom,readrandom", "--num=200", "--statistics", "--db="+filepath.Join(t.TempDir(), "db"))
	number := regexp.MustCompile(` : [0-9.]+`)
	theirs := map[string]bool{}
	for line := range strings.Lines(out) {
		theirs[number.ReplaceAllString(line, " : N")] = true
	}
	s := NewStatistics()
	db := counted(t, func(o *Options) { o.Statistics = s })
	_, _ = db.Get([]byte("k0500"), nil)
	text := s.String()
	require.NoError(t, db.Close())
	lines := 0
	for line := range strings.Lines(text) {
		require.Contains(t, theirs, number.ReplaceAllString(line, " : N"))
		lines++
	}
	require.EqualValues(t, int(stats.Named)+int(stats.Measures), lines)
}

func TestCachedIndexAndFilterAreTheCachesAndNotTheReaders(t *testing.T) {
	property := func(db *DB, name string) int {
		s, ok := db.Property(name)
		require.True(t, ok, name)
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		return n
	}
	held := counted(t, nil)
	cached := counted(t, func(o *Options) { o.Table.CacheIndexAndFilterBlocks = true })
	pinned := counted(t, func(o *Options) {
		o.Table.CacheIndexAndFilterBlocks, o.Table.PinL0FilterAndIndexBlocksInCache = true, true
	})
	for _, db := range []*DB{held, cached, pinned} {
		for i := range 3000 {
			require.Equal(t, "value", valueOf(t, db.DefaultColumnFamily(), fmt.Sprintf("k%04d", i)))
		}
	}
	require.Greater(t, property(held, "rocksdb.estimate-table-readers-mem"), 5000)
	require.Less(t, property(cached, "rocksdb.estimate-table-readers-mem"), 500)
	require.Zero(t, held.Metrics().BlockCacheEntries.Index)
	m := cached.Metrics()
	require.Equal(t, 3, m.BlockCacheEntries.Index.Count, "that of the table which the compaction read among them")
	require.Equal(t, 2, m.BlockCacheEntries.Filter.Count)
	require.Greater(t, m.BlockCacheEntries.Filter.Bytes, int64(2*1000*20/8))
	require.EqualValues(t, 3, m.Reads.BlockCache.Index.Misses)
	require.Zero(t, property(cached, "rocksdb.block-cache-pinned-usage"))
	require.NotZero(t, property(pinned, "rocksdb.block-cache-pinned-usage"), "level 0's")
	for _, db := range []*DB{held, cached, pinned} {
		require.NoError(t, db.Close())
	}
}

func TestStrictCacheIsIncompleteAndSaysWhy(t *testing.T) {
	c := NewCacheWithOptions(CacheOptions{Capacity: 1, StrictCapacityLimit: true})
	db := counted(t, func(o *Options) { o.BlockCache = c })
	_, err := db.Get([]byte("k0500"), nil)
	require.ErrorIs(t, err, ErrIncomplete)
	require.ErrorContains(t, err, "block cache is full")
	v, err := db.Get([]byte("k0500"), &ReadOptions{DontFillCache: true})
	require.NoError(t, err)
	require.Equal(t, "value", string(v))
	require.NoError(t, db.Close())
}

func TestEveryPropertyAnswers(t *testing.T) {
	db := counted(t, func(o *Options) { o.Statistics = NewStatistics() })
	for _, name := range PropertyNames() {
		v, ok := db.Property(strings.ReplaceAll(name, "<N>", "6"))
		require.True(t, ok, name)
		require.NotEmpty(t, v, name)
	}
	for name, want := range map[string]string{
		"rocksdb.num-files-at-level0": "1", "rocksdb.num-files-at-level6": "1", "rocksdb.num-entries-active-mem-table": "1000",
		"rocksdb.num-entries-imm-mem-tables": "0", "rocksdb.estimate-num-keys": "3000", "rocksdb.num-snapshots": "0",
		"rocksdb.oldest-snapshot-time": "0", "rocksdb.base-level": "6", "rocksdb.background-errors": "0",
		"rocksdb.num-running-flushes": "0", "rocksdb.compaction-pending": "0", "rocksdb.mem-table-flush-pending": "0",
		"rocksdb.compression-ratio-at-level3": "-1.000000", "rocksdb.block-cache-capacity": strconv.Itoa(32 << 20),
	} {
		v, ok := db.Property(name)
		require.True(t, ok, name)
		require.Equal(t, want, v, name)
	}
	for _, name := range []string{"", "rocksdb.", "rocksdb.no-such", "rocksdb.num-files-at-level7", "rocksdb.num-files-at-level-1",
		"rocksdb.num-files-at-level", "rocksdb.num-files-at-levelx", "Rocksdb.stats"} {
		_, ok := db.Property(name)
		require.False(t, ok, name)
	}
	s := db.NewSnapshot()
	at, _ := db.Property("rocksdb.oldest-snapshot-time")
	require.NotEqual(t, "0", at)
	seq, _ := db.Property("rocksdb.oldest-snapshot-sequence")
	require.Equal(t, "3000", seq)
	s.Release()
	all, _ := db.Property("rocksdb.aggregated-table-properties")
	require.Contains(t, all, "# entries=2000; ")
	live, _ := db.Property("rocksdb.estimate-live-data-size")
	size, _ := db.Property("rocksdb.live-sst-files-size")
	require.Equal(t, size, live, "the files do not overlap")
	require.NoError(t, db.Close())
}

// What is counted is not what the reset is about, but what the texts show of it.
func TestResetStatsHasTheTextsCountFromZeroAndNothingElse(t *testing.T) {
	s := NewStatistics()
	db := counted(t, func(o *Options) { o.Statistics = s })
	read := func() {
		for i := range 3000 {
			require.Equal(t, "value", valueOf(t, db.DefaultColumnFamily(), fmt.Sprintf("k%04d", i)))
		}
	}
	texts := func() string {
		var b strings.Builder
		for _, name := range []string{"rocksdb.stats", "rocksdb.cfstats", "rocksdb.dbstats", "rocksdb.cf-write-stall-stats"} {
			v, ok := db.Property(name)
			require.True(t, ok)
			b.WriteString(v)
		}
		return b.String()
	}
	read()
	before, written := texts(), db.Metrics().KeysWritten
	require.NoError(t, db.ResetStats())
	reset := texts()
	require.NotContains(t, reset, "keys: 3000")
	require.Contains(t, reset, "Writes: 0, keys: 0, groups: 0; WAL: 0 bytes, 0 syncs,")
	require.Contains(t, reset, "Flushes: 0, 0 bytes; compactions: 0, 0 bytes read, 0 bytes written")
	require.Equal(t, written, db.Metrics().KeysWritten)
	read()
	level6 := regexp.MustCompile(`(?m)^  L6 .*$`)
	require.Equal(t, level6.FindString(before), level6.FindString(texts()), "the same reads are counted again")
	require.NotEqual(t, level6.FindString(before), level6.FindString(reset))
	n, _ := s.Ticker("rocksdb.number.keys.written")
	require.Equal(t, written, n)
	require.NoError(t, db.ResetStats())
	require.NoError(t, db.Close())
	require.ErrorIs(t, db.ResetStats(), ErrClosed)
}

// parsePrometheus is a strict reader of the text format: every metric has its HELP and TYPE in front of it, comes once,
// and its samples are well formed and differ in their labels.
func parsePrometheus(text string) (samples map[string]float64, kinds map[string]string, err error) {
	samples, kinds = map[string]float64{}, map[string]string{}
	name := regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	sample := regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)+\})? (\S+)$`)
	if !strings.HasSuffix(text, "\n") {
		return nil, nil, errors.New("the last line does not end")
	}
	help, current := "", ""
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		bad := func(why string) error { return fmt.Errorf("line %d, %q: %s", n+1, line, why) }
		words := strings.SplitN(line, " ", 4)
		switch {
		case strings.HasPrefix(line, "# HELP "):
			if help = words[2]; !name.MatchString(help) || len(words) < 4 || words[3] == "" {
				return nil, nil, bad("no help")
			}
		case strings.HasPrefix(line, "# TYPE "):
			current = words[2]
			if _, twice := kinds[current]; twice || current != help || words[3] != "counter" && words[3] != "gauge" {
				return nil, nil, bad("no type")
			}
			kinds[current] = words[3]
		default:
			m := sample.FindStringSubmatch(line)
			if m == nil || m[1] != current || strings.Contains(m[2], ",}") {
				return nil, nil, bad("no sample of " + current)
			}
			v, err := strconv.ParseFloat(m[3], 64)
			if _, twice := samples[m[1]+m[2]]; err != nil || twice || math.IsNaN(v) {
				return nil, nil, bad("no value, or a second one")
			}
			if kinds[current] == "counter" && (v < 0 || !strings.HasSuffix(current, "_total")) {
				return nil, nil, bad("no counter")
			}
			samples[m[1]+m[2]] = v
		}
	}
	return samples, kinds, nil
}

func TestPrometheusTextIsWellFormedAndHasTheNumbers(t *testing.T) {
	db := counted(t, nil)
	odd := "a \"quoted\\ name\"\nwith \xff"
	cf, err := db.CreateColumnFamily(odd, nil)
	require.NoError(t, err)
	mustPut(t, cf, "k", "v", nil)
	_, _ = db.Get([]byte("k0500"), nil)
	m := db.Metrics()
	var b strings.Builder
	require.NoError(t, m.WritePrometheus(&b))
	samples, kinds, err := parsePrometheus(b.String())
	require.NoError(t, err)
	require.Equal(t, "counter", kinds["rocksdb_block_cache_data_hit_total"])
	require.Equal(t, "gauge", kinds["ashlar_level_files"])
	for name, want := range map[string]float64{
		`ashlar_level_files{family="default",level="0"}`:                         1,
		`ashlar_level_hits_total{family="default",level="6"}`:                    1,
		`ashlar_block_cache_capacity_bytes`:                                      32 << 20,
		`ashlar_block_cache_misses_total{family="default",class="data"}`:         float64(m.Families[0].Reads.BlockCache.Data.Misses),
		`ashlar_keys_read_total{family="default"}`:                               1,
		`rocksdb_number_keys_written_total`:                                      3001,
		`ashlar_memtable_bytes{family="a \"quoted\\ name\"\nwith ` + "\ufffd\"}": float64(m.Families[1].MemtableBytes),
	} {
		got, ok := samples[name]
		require.True(t, ok, name)
		require.Equal(t, want, got, name)
	}
	for _, x := range m.Tickers {
		require.Contains(t, samples, strings.NewReplacer(".", "_").Replace(x.Name)+"_total")
	}
	require.ErrorIs(t, m.WritePrometheus(brokenWriter{}), errBroken)
	require.NoError(t, db.Close())
	for _, wrong := range []string{"x 1", "x 1\n", "# HELP x y\n# TYPE x gauge\ny 1\n", "# HELP x y\n# TYPE x gauge\nx{a=\"1\"\n",
		"# HELP x y\n# TYPE x gauge\nx 1\nx 1\n", "# HELP x y\n# TYPE x counter\nx 1\n", "# TYPE x gauge\nx 1\n"} {
		_, _, err := parsePrometheus(wrong)
		require.Error(t, err, wrong)
	}
}

var errBroken = errors.New("broken")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }
