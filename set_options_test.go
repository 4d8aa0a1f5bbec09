package ashlar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/vfs"
)

// liveCases are values for each option that may change, and what the options then say.
var liveCases = []struct {
	name, value, field string
	want               any
}{
	{"write_buffer_size", "128k", "WriteBufferSize", uint64(128 << 10)},
	{"write_buffer_size", "1M", "WriteBufferSize", uint64(1 << 20)},
	{"write_buffer_size", " 70000 ", "WriteBufferSize", uint64(70000)},
	{"max_write_buffer_number", "5", "MaxWriteBufferNumber", 5},
	{"max_write_buffer_number", "1", "MaxWriteBufferNumber", 2}, // as Open puts it right
	{"max_write_buffer_size_to_maintain", "-1", "MaxWriteBufferSizeToMaintain", int64(-1)},
	{"max_write_buffer_size_to_maintain", "2G", "MaxWriteBufferSizeToMaintain", int64(2 << 30)},
	{"max_successive_merges", "7", "MaxSuccessiveMerges", 7},
	{"memtable_max_range_deletions", "9", "MemtableMaxRangeDeletions", 9},
	{"level0_file_num_compaction_trigger", "11", "Level0FileNumCompactionTrigger", 11},
	{"level0_slowdown_writes_trigger", "21", "Level0SlowdownWritesTrigger", 21},
	{"level0_slowdown_writes_trigger", "50", "Level0StopWritesTrigger", 50}, // a stop does not come before the slowdown
	{"level0_stop_writes_trigger", "60", "Level0StopWritesTrigger", 60},
	{"target_file_size_base", "3m", "TargetFileSizeBase", uint64(3 << 20)},
	{"target_file_size_multiplier", "2", "TargetFileSizeMultiplier", 2},
	{"max_bytes_for_level_base", "1T", "MaxBytesForLevelBase", uint64(1 << 40)},
	{"max_bytes_for_level_multiplier", "2.5", "MaxBytesForLevelMultiplier", 2.5},
	{"max_compaction_bytes", "123456", "MaxCompactionBytes", uint64(123456)},
	{"soft_pending_compaction_bytes_limit", "1g", "SoftPendingCompactionBytesLimit", uint64(1 << 30)},
	{"hard_pending_compaction_bytes_limit", "0", "HardPendingCompactionBytesLimit", uint64(NoLimit)},
	{"disable_auto_compactions", "1", "DisableAutoCompactions", true},
	{"disable_auto_compactions", "false", "DisableAutoCompactions", false},
	{"optimize_filters_for_hits", "true", "OptimizeFiltersForHits", true},
	{"compression", "kZSTD", "Compression", ZSTDCompression},
	{"compression_per_level", "kNoCompression:kZSTD", "CompressionPerLevel", []Compression{NoCompression, ZSTDCompression}},
	{"bottommost_compression", "kLZ4Compression", "BottommostCompression", LZ4Compression},
	{"block_based_table_factory", "{block_size=8k}", "BlockSize", 8192},
	{"block_based_table_factory", "block_restart_interval = 3 ;", "BlockRestartInterval", 3},
	{"block_based_table_factory", "{format_version=4;checksum=kCRC32c}", "Checksum", CRC32cChecksum},
	{"block_based_table_factory", "{filter_policy=bloomfilter:12:false}", "FilterPolicy", filter.Bloom(12)},
}

func optionNamed(o ColumnFamilyOptions, name string) (value any) {
	fields(reflect.ValueOf(o), func(n string, field reflect.Value) {
		if n == name {
			value = field.Interface()
		}
	})
	return value
}

func TestSetOptionsChangesWhatItNamesAndNothingElse(t *testing.T) {
	m := vfs.NewMem()
	db := mustOpen(t, "db", memOptions(m))
	other, err := db.CreateColumnFamily("other", nil)
	require.NoError(t, err)
	before := other.Options()
	tried := map[string]bool{}
	for _, c := range liveCases {
		old := db.Options()
		require.NoError(t, db.SetOptions(map[string]string{c.name: c.value}), "%s=%s", c.name, c.value)
		require.Equal(t, c.want, optionNamed(db.Options(), c.field), "%s=%s", c.name, c.value)
		loaded, err := loadOptions(m, "db")
		require.NoError(t, err)
		require.Equal(t, c.want, optionNamed(loaded.ColumnFamilyOptions, c.field), "%s=%s, in the file", c.name, c.value)
		tried[c.name] = true
		changed := 0
		now := db.Options()
		fields(reflect.ValueOf(old), func(n string, field reflect.Value) {
			if !reflect.DeepEqual(field.Interface(), optionNamed(now, n)) {
				changed++
			}
		})
		require.LessOrEqual(t, changed, 2, "%s=%s", c.name, c.value) // one may put another right
	}
	require.Equal(t, before, other.Options())
	for _, name := range liveFamilyOptions {
		require.True(t, tried[name], "no value of %s was tried", name)
	}
	list := db.Options()
	list.CompressionPerLevel[0] = ZlibCompression
	require.Equal(t, NoCompression, db.Options().CompressionPerLevel[0], "Options gives a copy")
}

// Of a call with one thing wrong nothing is done, and the error names what is wrong: all of it.
func TestSetOptionsDoesAllOrNothing(t *testing.T) {
	m := vfs.NewMem()
	db := mustOpen(t, "db", memOptions(m))
	before, files := db.Options(), namesOf(t, m, fname.Options)
	for _, bad := range []struct{ name, value, says string }{
		{"no_such_option", "1", "no_such_option"},
		{"", "", `""`},
		{"write_buffer_size", "many", "many"},
		{"write_buffer_size", "", "write_buffer_size"},
		{"write_buffer_size", "-1", "write_buffer_size"},
		{"write_buffer_size", "1KB", "1KB"},
		{"write_buffer_size", "17G", "16 GiB"},
		{"write_buffer_size", "99999999T", "99999999T"},
		{"max_write_buffer_size_to_maintain", "-2", "MaxWriteBufferSizeToMaintain"},
		{"max_successive_merges", "-1", "MaxSuccessiveMerges"},
		{"max_bytes_for_level_multiplier", "NaN", "MaxBytesForLevelMultiplier"},
		{"disable_auto_compactions", "perhaps", "perhaps"},
		{"compression", "kBZip2Compression", "not written"},
		{"compression_per_level", "kNoCompression:kSomething", "kSomething"},
		{"max_background_jobs", "4", "max_background_jobs"}, // the database's
		{"block_size", "4096", "block_size"},                // only within braces
		{"block_based_table_factory", "{block_size=many}", "many"},
		{"block_based_table_factory", "{block_size}", "block_size"},
		{"block_based_table_factory", "{block_size=1", "no end"},
		{"block_based_table_factory", "block_size=1}", "brace"},
		{"block_based_table_factory", "{filter_policy={a=1}", "braces"},
		{"block_based_table_factory", "{format_version=99}", "FormatVersion"},
		{"block_based_table_factory", "{num_levels=3}", "num_levels"},
	} {
		kv := map[string]string{"max_write_buffer_number": "9", bad.name: bad.value, "target_file_size_base": "none"}
		err := db.SetOptions(kv)
		require.ErrorIs(t, err, ErrInvalidArgument, "%v", bad)
		require.ErrorContains(t, err, bad.says)
		require.ErrorContains(t, err, "none", "everything that is wrong is told")
		require.Equal(t, before, db.Options(), "%v", bad)
	}
	require.ErrorIs(t, db.SetOptions(nil), ErrInvalidArgument)
	require.ErrorIs(t, db.SetDBOptions(map[string]string{"max_background_jobs": "3", "max_open_files": "-7"}), ErrInvalidArgument)
	require.Equal(t, 2, db.dbOpts.Load().MaxBackgroundJobs)
	require.Equal(t, files, namesOf(t, m, fname.Options), "and no file is written")
}

func TestOptionsThatMayNotChangeAreRefusedByName(t *testing.T) {
	db := mustOpen(t, "db", memOptions(vfs.NewMem()))
	refused := func(name string, err error) {
		require.ErrorIs(t, err, ErrInvalidArgument, name)
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, err, "cannot change", name)
	}
	def := db.Options()
	n := 0
	for _, s := range familySettings {
		if !slices.Contains(liveFamilyOptions, s.name) {
			refused(s.name, db.SetOptions(map[string]string{s.name: s.get(&def)}))
			n++
		}
	}
	for _, s := range tableSettings {
		if !slices.Contains(liveTableOptions, s.name) {
			refused(s.name, db.SetOptions(map[string]string{tableFactory: s.name + "=" + s.get(&def.Table)}))
		}
	}
	for _, s := range dbSettings {
		if !slices.Contains(liveDBOptions, s.name) {
			refused(s.name, db.SetDBOptions(map[string]string{s.name: s.get(db.dbOpts.Load())}))
			n++
		}
	}
	require.Greater(t, n, 5, "comparator, merge operator, depth and more")
	for _, names := range [][]string{liveDBOptions, liveFamilyOptions, liveTableOptions} {
		for _, name := range names {
			known := slices.ContainsFunc(dbSettings, func(s setting[Options]) bool { return s.name == name }) ||
				slices.ContainsFunc(familySettings, func(s setting[ColumnFamilyOptions]) bool { return s.name == name }) ||
				slices.ContainsFunc(tableSettings, func(s setting[TableOptions]) bool { return s.name == name })
			require.True(t, known, "%s is no option", name)
		}
	}
}

// facebook/rocksdb H:429, H:487: of two changes one after the other both hold, after a flush and in the OPTIONS file too.
func TestBugBank146ChangesOfOptionsAddUp(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, &Options{})
	require.NoError(t, db.SetOptions(map[string]string{"write_buffer_size": "1M", "block_based_table_factory": "{block_size=8k}"}))
	require.NoError(t, db.SetOptions(map[string]string{"level0_stop_writes_trigger": "77", "block_based_table_factory": "{block_restart_interval=3}"}))
	require.NoError(t, db.SetDBOptions(map[string]string{"max_background_jobs": "5"}))
	require.NoError(t, db.SetDBOptions(map[string]string{"delayed_write_rate": "1M"}))
	mustPut(t, db.DefaultColumnFamily(), "k", "v", nil)
	require.NoError(t, db.Flush(context.Background(), nil))
	// A name that the call has no part in.
	require.NoError(t, db.SetOptions(map[string]string{"max_successive_merges": "2", "max_write_buffer_size_to_maintain": "-1"}))
	mustClose(t, db)
	if needTools(t) {
		require.Contains(t, tool(t, "ldb", "--db="+dir, "get", "k"), "v", "RocksDB takes the file")
	}
	for range 2 {
		o, err := LoadOptions(dir)
		require.NoError(t, err)
		require.EqualValues(t, 1<<20, o.WriteBufferSize)
		require.Equal(t, 77, o.Level0StopWritesTrigger)
		require.Equal(t, 8192, o.Table.BlockSize)
		require.Equal(t, 3, o.Table.BlockRestartInterval)
		require.Equal(t, 5, o.MaxBackgroundJobs)
		require.EqualValues(t, 1<<20, o.DelayedWriteRate)
		require.EqualValues(t, -1, o.MaxWriteBufferSizeToMaintain)
		db = mustOpen(t, dir, o)
		require.EqualValues(t, 1<<20, db.Options().WriteBufferSize)
		mustClose(t, db)
	}
	db = mustOpen(t, dir, nil)
	require.EqualValues(t, 64<<20, db.Options().WriteBufferSize, "who opens without them has the defaults")
	mustClose(t, db)
}

func TestSetOptionsAfterCloseAndDrop(t *testing.T) {
	m := vfs.NewMem()
	db := openMem(t, m)
	cf, err := db.CreateColumnFamily("gone", nil)
	require.NoError(t, err)
	change := map[string]string{"max_write_buffer_number": "4"}
	require.NoError(t, cf.SetOptions(change))
	require.NoError(t, db.DropColumnFamily(cf))
	require.ErrorIs(t, cf.SetOptions(change), ErrColumnFamilyDropped)
	require.Equal(t, 4, cf.Options().MaxWriteBufferNumber)
	require.NoError(t, db.Close())
	require.ErrorIs(t, db.SetOptions(change), ErrClosed)
	require.ErrorIs(t, cf.SetOptions(change), ErrClosed)
	require.ErrorIs(t, db.SetDBOptions(map[string]string{"max_background_jobs": "4"}), ErrClosed)
	require.Equal(t, 2, db.Options().MaxWriteBufferNumber)
}

// What stops writers is looked at anew with the options, without waiting for a flush (facebook/rocksdb#8643).
func TestOptionsLetStoppedWritersGo(t *testing.T) {
	for name, change := range map[string]map[string]string{
		"by level 0's trigger":            {"level0_stop_writes_trigger": "100", "level0_slowdown_writes_trigger": "100"},
		"as nobody compacts for them":     {"disable_auto_compactions": "true"},
		"by the limit of debt, not level": {"level0_stop_writes_trigger": "100", "level0_slowdown_writes_trigger": "100", "soft_pending_compaction_bytes_limit": "0"},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := memOptions(vfs.NewMem())
			o.DisableAutoCompactions = true
			db, err := Open("db", o)
			require.NoError(t, err)
			for i := range 5 {
				mustPut(t, db.DefaultColumnFamily(), fmt.Sprint(i), "v", nil)
				require.NoError(t, db.Flush(context.Background(), nil))
			}
			db.mu.Lock()
			db.opened = false // nothing in the background
			db.mu.Unlock()
			require.NoError(t, db.SetOptions(map[string]string{
				"level0_stop_writes_trigger": "5", "level0_slowdown_writes_trigger": "2", "disable_auto_compactions": "false",
			}))
			require.Equal(t, "l0-file-count-limit", db.Metrics().Families[0].StallCause)
			done := make(chan error)
			go func() { done <- db.Put([]byte("k"), []byte("v"), nil) }()
			time.Sleep(time.Hour)
			start := time.Now()
			require.NoError(t, db.SetOptions(change), name)
			require.NoError(t, <-done, name)
			require.Zero(t, time.Since(start), name)
			require.NoError(t, db.Close())
		})
	}
}

// New options hold for the next table, the next memtable and the next pick.
func TestOptionsHoldAtOnce(t *testing.T) {
	ctx := context.Background()
	o := memOptions(vfs.NewMem())
	o.DisableAutoCompactions = true
	db := mustOpen(t, "db", o)
	cf := db.DefaultColumnFamily()
	flush := func() {
		t.Helper()
		mustPut(t, cf, "k", strings.Repeat("v", 3000), nil)
		require.NoError(t, db.Flush(ctx, nil))
	}
	newest := func() (compression, policy string) {
		sv := cf.tree.Acquire()
		defer sv.Release()
		f := sv.Version().Level(0)[0]
		h, err := db.tables.Get(f.Num, f.Size, f.LargestSeq, cf.tablesAt(1))
		require.NoError(t, err)
		defer h.Release()
		p := h.Reader().Properties()
		return p.Compression, p.FilterPolicy
	}
	flush()
	compression, policy := newest()
	require.Equal(t, []string{"Snappy", ""}, []string{compression, policy})
	require.NoError(t, db.SetOptions(map[string]string{
		"compression": "kZSTD", "block_based_table_factory": "{filter_policy=bloomfilter:10:false}",
	}))
	flush()
	compression, policy = newest()
	require.Equal(t, []string{"ZSTD", "bloomfilter"}, []string{compression, policy})

	require.Contains(t, cf.Levels(), "L0")
	require.NoError(t, db.SetOptions(map[string]string{"disable_auto_compactions": "false", "level0_file_num_compaction_trigger": "2"}))
	require.NoError(t, db.WaitForCompact(ctx))
	require.NotContains(t, cf.Levels(), "L0", "the lower trigger has been reached")

	flushes := db.Metrics().Flushes
	require.NoError(t, db.SetOptions(map[string]string{"write_buffer_size": "300k"}))
	for i := range 8 {
		mustPut(t, cf, fmt.Sprint(i), strings.Repeat("v", 20_000), nil)
	}
	mustPut(t, cf, "last", "", nil)
	require.NoError(t, db.WaitForCompact(ctx))
	require.Equal(t, flushes+1, db.Metrics().Flushes, "memtables may be larger now, from the next one on that has the room")
	require.NoError(t, db.SetOptions(map[string]string{"write_buffer_size": "64k"}))
	mustPut(t, cf, "a", "", nil) // by which it is found to be too full
	mustPut(t, cf, "b", "", nil)
	require.NoError(t, db.WaitForCompact(ctx))
	require.Equal(t, flushes+2, db.Metrics().Flushes)
}

// The filters of the bottom level go with the option as its tables are rewritten; those of other levels stay.
func TestFiltersForHitsFollowTheOption(t *testing.T) {
	ctx := context.Background()
	o := memOptions(vfs.NewMem())
	o.Table.FilterPolicy, o.Compression = filter.Bloom(10), NoCompression
	db := mustOpen(t, "db", o)
	cf := db.DefaultColumnFamily()
	fill := func() {
		for i := range 2000 {
			mustPut(t, cf, fmt.Sprintf("k%05d", i), fmt.Sprintf("%0100d", i), nil)
		}
	}
	withFilter := func() (with, without int) {
		sv := cf.tree.Acquire()
		defer sv.Release()
		for _, f := range sv.Version().All() {
			h, err := db.tables.Get(f.Num, f.Size, f.LargestSeq, cf.tablesAt(1))
			require.NoError(t, err)
			if h.Reader().Properties().FilterSize > 0 {
				with++
			} else {
				without++
			}
			h.Release()
		}
		return with, without
	}
	check := func() {
		t.Helper()
		for i := range 2000 {
			require.Equal(t, fmt.Sprintf("%0100d", i), valueOf(t, cf, fmt.Sprintf("k%05d", i)))
			require.Equal(t, "", valueOf(t, cf, fmt.Sprintf("k%05d-", i)))
		}
	}
	fill()
	require.NoError(t, cf.CompactRange(ctx, nil, nil, nil))
	with, without := withFilter()
	require.Greater(t, with, 1)
	require.Zero(t, without)
	for range 2 {
		require.NoError(t, db.SetOptions(map[string]string{"optimize_filters_for_hits": "true"}))
		check()
		with, _ = withFilter()
		require.Positive(t, with, "old tables have theirs")
		require.NoError(t, cf.CompactRange(ctx, nil, nil, &CompactRangeOptions{ForceBottommost: true}))
		with, without = withFilter()
		require.Zero(t, with)
		require.Greater(t, without, 1)
		check()

		require.NoError(t, db.SetOptions(map[string]string{"optimize_filters_for_hits": "false"}))
		require.NoError(t, cf.CompactRange(ctx, nil, nil, &CompactRangeOptions{ForceBottommost: true}))
		with, without = withFilter()
		require.Zero(t, without)
		require.Greater(t, with, 1)
		check()
	}
}

// A forced CompactRange leaves no file of the range that was there before, and rewrites none that it has written itself.
func TestForceBottommostRewritesEachFileOnce(t *testing.T) {
	ctx := context.Background()
	for _, begin := range []string{"", "k01000", "k01999", "k99999"} {
		o := memOptions(vfs.NewMem())
		o.DisableAutoCompactions, o.Compression, o.NumLevels = true, NoCompression, 2
		db := mustOpen(t, "db", o)
		put := func(from, to int) {
			for i := from; i < to; i++ {
				mustPut(t, db.DefaultColumnFamily(), fmt.Sprintf("k%05d", i), fmt.Sprintf("%0100d", i), nil)
			}
		}
		put(0, 2000)
		require.NoError(t, db.CompactRange(ctx, nil, nil, nil))
		put(900, 1100) // to be merged into a part of the bottom
		mustClose(t, db)

		var jobs []CompactionInfo
		o.Listener.OnCompactionCompleted = func(i CompactionInfo) { jobs = append(jobs, i) }
		db = mustOpen(t, "db", o)
		files := func() (all []uint64) {
			sv := db.tree.Acquire()
			defer sv.Release()
			for _, f := range sv.Version().All() {
				if string(f.Largest.User) >= begin {
					all = append(all, f.Num)
				}
			}
			return all
		}
		before := files()
		require.NoError(t, db.CompactRange(ctx, []byte(begin), nil, &CompactRangeOptions{ForceBottommost: true}))
		after := files()
		mustClose(t, db) // by now the listener has been told
		read := map[uint64]int{}
		for _, j := range jobs {
			for _, num := range j.Inputs {
				read[num]++
			}
			for _, num := range j.Outputs {
				require.NotContains(t, read, num)
				read[num] += 10
			}
		}
		for _, num := range before {
			require.Equal(t, 1, read[num], "begin %q: file %d, which was there, is read once", begin, num)
			require.NotContains(t, after, num)
		}
		for num, n := range read {
			require.LessOrEqual(t, n, 10, "begin %q: file %d, which the call wrote, is read", begin, num)
		}
		if begin == "" {
			require.Greater(t, len(before), 4)
			require.Greater(t, len(jobs), 2)
		}
	}
}

func TestSetDBOptionsHoldAtOnce(t *testing.T) {
	ctx := context.Background()
	o := memOptions(vfs.NewMem())
	o.DisableAutoCompactions = true
	db := mustOpen(t, "db", o)
	cf := db.DefaultColumnFamily()
	const n = 60
	get := func() {
		t.Helper()
		for i := range n {
			require.Equal(t, "v", valueOf(t, cf, fmt.Sprint(i)))
		}
	}
	for i := range n {
		mustPut(t, cf, fmt.Sprint(i), "v", nil)
		require.NoError(t, db.Flush(ctx, nil))
	}
	get()
	it := cf.NewIterator(nil)
	require.True(t, it.SeekToFirst())
	require.Equal(t, n, db.tables.Open(), "all are kept open")
	for range 3 {
		require.NoError(t, db.SetDBOptions(map[string]string{"max_open_files": "16"}))
		get()
		require.NoError(t, it.Close())
		db.waitClean()
		get()
		require.LessOrEqual(t, db.tables.Open(), 32, "one or two in each part")
		require.NoError(t, db.SetDBOptions(map[string]string{"max_open_files": "-1"}))
		get()
		require.Equal(t, n, db.tables.Open())
		it = cf.NewIterator(nil)
		require.True(t, it.SeekToFirst())
	}
	require.NoError(t, it.Close())

	require.NoError(t, db.SetDBOptions(map[string]string{"max_background_jobs": "16", "max_total_wal_size": "3M", "delayed_write_rate": "2m"}))
	require.Equal(t, 4, db.flushSlots())
	require.EqualValues(t, 3<<20, db.maxTotalWAL.Load())
	require.EqualValues(t, 2<<20, db.delays.rate)
	require.NoError(t, db.SetDBOptions(map[string]string{"max_total_wal_size": "0"}))
	require.EqualValues(t, 4*2*64<<10, db.maxTotalWAL.Load())
	require.NoError(t, db.SetOptions(map[string]string{"max_write_buffer_number": "5"}))
	require.EqualValues(t, 4*5*64<<10, db.maxTotalWAL.Load(), "it follows the memtables")
}

// Options change while everything else goes on; what is read stays right, and nothing races.
func TestOptionsChangeBesideWritersReadersAndJobs(t *testing.T) {
	writers, n := 32, 300
	if underRace {
		n = 60
	}
	o := memOptions(vfs.NewMem())
	o.MergeOperator = UInt64AddOperator
	db := mustOpen(t, "db", o)
	other, err := db.CreateColumnFamily("other", nil)
	require.NoError(t, err)
	families := []*ColumnFamily{db.DefaultColumnFamily(), other}
	ctx, cancel := context.WithCancel(context.Background())
	var work, beside sync.WaitGroup
	one := []byte{1, 0, 0, 0, 0, 0, 0, 0}
	for w := range writers {
		work.Go(func() {
			for i := range n {
				for _, cf := range families {
					var opts *WriteOptions
					if w%8 == 0 {
						opts = &WriteOptions{LowPri: true}
					}
					if err := cf.Put(fmt.Appendf(nil, "%02d-%04d", w, i), fmt.Appendf(nil, "%0200d", i), opts); err != nil {
						t.Error(err)
					}
					if err := cf.Merge([]byte("sum"), one, nil); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	background := func(seed uint64, do func(rng *rand.Rand) error) {
		beside.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 1))
			for ctx.Err() == nil {
				if err := do(rng); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrNotFound) {
					t.Error(err)
					return
				}
			}
		})
	}
	values := map[string][]string{
		"write_buffer_size": {"64k", "100k", "1M"}, "max_write_buffer_number": {"2", "6"}, "max_successive_merges": {"0", "1", "5"},
		"level0_file_num_compaction_trigger": {"1", "2", "8"}, "level0_slowdown_writes_trigger": {"8", "20"},
		"level0_stop_writes_trigger": {"10", "36"}, "target_file_size_base": {"8k", "32k", "1M"}, "max_bytes_for_level_base": {"10k", "64k"},
		"max_write_buffer_size_to_maintain": {"0", "-1", "1M"}, "optimize_filters_for_hits": {"true", "false"},
		"compression": {"kNoCompression", "kZSTD"}, "disable_auto_compactions": {"false", "false", "true"},
		tableFactory: {"{filter_policy=bloomfilter:10:false}", "{filter_policy=nullptr}", "{block_size=500}", "{block_size=4k}"},
	}
	names := slices.Sorted(maps.Keys(values))
	for seed := range uint64(2) {
		background(seed, func(rng *rand.Rand) error {
			change := map[string]string{}
			for range 1 + rng.IntN(3) {
				name := names[rng.IntN(len(names))]
				change[name] = values[name][rng.IntN(len(values[name]))]
			}
			return families[rng.IntN(2)].SetOptions(change)
		})
	}
	background(3, func(rng *rand.Rand) error {
		return db.SetDBOptions(map[string]string{
			"max_background_jobs": fmt.Sprint(1 + rng.IntN(8)), "max_open_files": []string{"-1", "4", "100"}[rng.IntN(3)],
			"max_total_wal_size": []string{"0", "100k"}[rng.IntN(2)], "delayed_write_rate": []string{"1G", "16M"}[rng.IntN(2)],
		})
	})
	background(4, func(rng *rand.Rand) error {
		cf := families[rng.IntN(2)]
		_, err := cf.Get(fmt.Appendf(nil, "%02d-%04d", rng.IntN(writers), rng.IntN(n)), nil)
		_ = cf.Options()
		_ = db.Metrics()
		return err
	})
	background(5, func(rng *rand.Rand) error {
		if rng.IntN(2) == 0 {
			return db.Flush(ctx, nil, families[rng.IntN(2)])
		}
		return families[rng.IntN(2)].CompactRange(ctx, nil, nil, &CompactRangeOptions{ForceBottommost: rng.IntN(2) == 0})
	})
	work.Wait()
	cancel()
	beside.Wait()
	for _, cf := range families {
		for w := range writers {
			for i := range n {
				require.Equal(t, fmt.Sprintf("%0200d", i), valueOf(t, cf, fmt.Sprintf("%02d-%04d", w, i)))
			}
		}
		sum, err := cf.Get([]byte("sum"), nil)
		require.NoError(t, err)
		require.EqualValues(t, writers*n, uint64(sum[0])|uint64(sum[1])<<8|uint64(sum[2])<<16)
	}
}

func FuzzSetOptions(f *testing.F) {
	for _, c := range liveCases {
		f.Add(c.name, c.value)
	}
	f.Add("max_background_jobs", "3k")
	f.Add(tableFactory, "{a={b;c}};=")
	start := (&ColumnFamilyOptions{}).withDefaults()
	live := newLiveOptions(&start, nil)
	db := (&Options{}).withDefaults()
	f.Fuzz(func(t *testing.T, name, value string) {
		if o, err := live.with("f", map[string]string{name: value}); err == nil {
			require.NoError(t, o.validate("f"))
			require.Equal(t, o.ColumnFamilyOptions, o.withDefaults(), "nothing is left to be put right")
		} else {
			require.ErrorIs(t, err, ErrInvalidArgument)
		}
		if o, err := db.with(map[string]string{name: value}); err == nil {
			require.NoError(t, o.Validate())
		} else {
			require.ErrorIs(t, err, ErrInvalidArgument)
		}
		require.Equal(t, start, live.ColumnFamilyOptions, "the options before are not touched")
	})
}
