package ashlar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/checksum"
	"github.com/ashlardb/ashlar/internal/compress"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/writelab"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/wal"
)

// NoLimit turns off a limit whose zero value means the default.
const NoLimit = math.MaxUint64

// Compression is how blocks of a table are compressed.
type Compression = compress.Type

// The compressions. BZip2 and LZ4HC are read, and LZ4HC is written as LZ4.
const (
	DefaultCompression = compress.Default // Snappy
	NoCompression      = compress.None
	SnappyCompression  = compress.Snappy
	ZlibCompression    = compress.Zlib
	LZ4Compression     = compress.LZ4
	ZSTDCompression    = compress.ZSTD
)

// ChecksumType is the checksum behind every block of a table.
type ChecksumType = checksum.Type

// The checksums. RocksDB reads each of them.
const (
	DefaultChecksum = checksum.Default // xxHash64
	NoChecksum      = checksum.None
	CRC32cChecksum  = checksum.CRC32C
	XXHashChecksum  = checksum.XXHash
	XXHash64        = checksum.XXHash64
	XXH3            = checksum.XXH3
)

// WALRecoveryMode says what Open does with a log that is damaged.
type WALRecoveryMode = wal.Recovery

// The recovery modes. Package wal has the table of what each does with each kind of damage.
const (
	DefaultRecovery              = wal.DefaultRecovery // PointInTimeRecovery
	TolerateCorruptedTailRecords = wal.TolerateCorruptedTailRecords
	AbsoluteConsistency          = wal.AbsoluteConsistency
	PointInTimeRecovery          = wal.PointInTimeRecovery
	SkipAnyCorruptedRecords      = wal.SkipAnyCorruptedRecords
)

// Comparator orders the keys of a column family. A family opens only with the comparator that made it.
type Comparator = kv.Comparer

// The built-in orders, under RocksDB's names.
var (
	BytewiseComparator        = kv.Bytewise
	ReverseBytewiseComparator = kv.ReverseBytewise
)

// Cache holds blocks of tables; several databases may share one. It is bounded by its capacity, and what iterators and
// reads have in use counts in.
type Cache = cache.Cache

// NewCache returns a cache of capacity bytes.
func NewCache(capacity int64) *Cache { return cache.New(capacity) }

// ReadTier says where a read may look.
type ReadTier uint8

const (
	// DefaultReadTier reads files where it must.
	DefaultReadTier ReadTier = iota
	// BlockCacheTier reads memtables and the block cache only, and returns ErrIncomplete rather than do I/O.
	BlockCacheTier
)

// MappedWAL says how logs are written.
type MappedWAL uint8

const (
	// DefaultMappedWAL is MappedWALOn on the operating system's file system where that is known to be safe: ext4 and XFS on
	// Linux. Elsewhere it is MappedWALOff.
	DefaultMappedWAL MappedWAL = iota
	// MappedWALOff writes each group's record with one write(2).
	MappedWALOff
	// MappedWALOn takes room for a log in advance, and copies records into its memory. What has returned survives a killed
	// process as with write(2). The file is longer than its records until the log is ended. Where a file system cannot do
	// that, or has no room left, and after an error of the mapping, logs are written with write(2).
	MappedWALOn
)

// WriteOptions say how a write is done. Nil means all false.
type WriteOptions struct {
	// Sync returns only after the write would survive a power cut. Without it the write survives a killed process, unless
	// Options.ManualWALFlush is set.
	Sync bool
	// DisableWAL keeps the write out of the log: until its memtable is flushed, a crash loses it. Not with Sync.
	DisableWAL bool
	// NoSlowdown returns ErrIncomplete where the write would have to wait for flushes or compactions.
	NoSlowdown bool
	// LowPri makes way: the write is slowed down as soon as compactions fall behind.
	LowPri bool
}

// Sync is the options of a write that survives a power cut.
var Sync = &WriteOptions{Sync: true}

// ReadOptions say how a read is done. Nil means the zero value.
type ReadOptions struct {
	// Snapshot to read at; nil reads the latest.
	Snapshot *Snapshot
	// IterateLowerBound is the smallest key that an iterator shows, IterateUpperBound the first that it does not. Nil is
	// open. The iterator keeps copies.
	IterateLowerBound, IterateUpperBound []byte
	// DontFillCache keeps blocks that the read brings in out of the block cache.
	DontFillCache bool
	// ReadTier limits where the read may look.
	ReadTier ReadTier
	// Context, if set, is looked at between block reads of long scans and ends them with its error.
	Context context.Context
}

// FlushOptions say how Flush is done. Nil means the zero value.
type FlushOptions struct {
	// NoWait returns as soon as the flush is scheduled.
	NoWait bool
}

// CompactRangeOptions say how CompactRange is done. Nil means the zero value.
type CompactRangeOptions struct {
	// ForceBottommost rewrites the bottom level too, even where nothing is to be merged into it.
	ForceBottommost bool
}

// Options are those of a database. Nil, and each zero field, means the default, which is RocksDB's unless the field says
// otherwise.
type Options struct {
	// ColumnFamilyOptions of the default family, and of each family that ColumnFamilies does not name.
	ColumnFamilyOptions
	// ColumnFamilies has options by family name. Families on disk that are not named are opened all the same; a name that
	// is not on disk is an error.
	ColumnFamilies map[string]*ColumnFamilyOptions

	// ErrorIfMissing makes Open fail where there is no database, instead of making one.
	ErrorIfMissing bool
	// ErrorIfExists makes Open fail where there is one.
	ErrorIfExists bool
	// MaxBackgroundJobs bounds flushes and compactions that run at a time: a quarter, at least one, for flushes. 2.
	MaxBackgroundJobs int
	// MaxOpenFiles bounds the tables kept open; -1, the default, keeps all open.
	MaxOpenFiles int
	// MaxTotalWALSize bounds the bytes of log that wait for flushes, where there is more than one family: the families
	// that pin the oldest log are flushed. Default: four times what the memtables may hold.
	MaxTotalWALSize uint64
	// WALDir is where logs live; the database's directory by default.
	WALDir string
	// WALRecoveryMode says what a damaged log does to Open. PointInTimeRecovery.
	WALRecoveryMode WALRecoveryMode
	// ManualWALFlush leaves what goes to the log in memory until FlushWAL, a write with Sync, the start of a new log, or a
	// mebibyte of it. A killed process loses it; what is left is a prefix of the writes.
	ManualWALFlush bool
	// WALMapped has logs written through memory, without a system call for each write.
	WALMapped MappedWAL
	// EnablePipelinedWrite writes the log of one group while the group before is inserted into the memtables. It needs idle
	// processors: with two it gains nothing, and 64 writers take twice as long, since their groups are smaller.
	EnablePipelinedWrite bool
	// NoConcurrentMemtableWrite makes a group's leader insert for all its members.
	NoConcurrentMemtableWrite bool
	// MaxWriteBatchGroupSize bounds the bytes of a write group. 1 MiB.
	MaxWriteBatchGroupSize uint64
	// DelayedWriteRate is where slowed-down writes start, in bytes a second. 16 MiB.
	DelayedWriteRate uint64
	// BlockCache holds blocks of tables. Default: one of 32 MiB for this database.
	BlockCache *Cache
	// FS is the file system. Default: the operating system's.
	FS vfs.FS
	// Logger gets a line for what happens in the background. Default: the file LOG in the database's directory.
	Logger *slog.Logger
	// Listener is told of events.
	Listener EventListener
	// TrackHandles remembers where each iterator was made, for the error of a Close that finds it open. Costs a stack
	// trace each.
	TrackHandles bool

	lab writelab.Dials // for dbbench and benchmarks
}

func init() {
	writelab.Set = func(options any, d writelab.Dials) { options.(*Options).lab = d }
}

// ColumnFamilyOptions are those of one family's tree.
type ColumnFamilyOptions struct {
	// Comparator orders the keys. BytewiseComparator.
	Comparator *Comparator
	// MergeOperator makes values of what Merge writes. Default: none, and Merge is refused; operands that are there already
	// are kept, and reads of their keys give ErrNotSupported.
	MergeOperator MergeOperator
	// WriteBufferSize is how many bytes a memtable takes before it is flushed. 64 MiB.
	WriteBufferSize uint64
	// MaxWriteBufferNumber is how many memtables there may be, full ones that wait for their flush included, before
	// writes stop. 2.
	MaxWriteBufferNumber int
	// NumLevels is the depth of the tree. 7.
	NumLevels int
	// Level0FileNumCompactionTrigger is how many files of level 0 start a compaction: 4. At
	// Level0SlowdownWritesTrigger, 20, writes are slowed down, and at Level0StopWritesTrigger, 36, stopped.
	Level0FileNumCompactionTrigger, Level0SlowdownWritesTrigger, Level0StopWritesTrigger int
	// TargetFileSizeBase is the size of the tables that compactions write. 64 MiB. Each level down multiplies it by
	// TargetFileSizeMultiplier. 1.
	TargetFileSizeBase       uint64
	TargetFileSizeMultiplier int
	// MaxBytesForLevelBase is the size of the first level below 0, 256 MiB, and MaxBytesForLevelMultiplier the factor to
	// the next. 10.
	MaxBytesForLevelBase       uint64
	MaxBytesForLevelMultiplier float64
	// MaxCompactionBytes bounds one compaction. 25 times TargetFileSizeBase.
	MaxCompactionBytes uint64
	// SoftPendingCompactionBytesLimit of bytes to be compacted slows writes down, 64 GiB, and
	// HardPendingCompactionBytesLimit stops them. 256 GiB.
	SoftPendingCompactionBytesLimit, HardPendingCompactionBytesLimit uint64
	// DisableAutoCompactions leaves compactions to CompactRange.
	DisableAutoCompactions bool
	// NoDynamicLevelBytes gives levels fixed sizes from the top, instead of sizes from the bottom up.
	NoDynamicLevelBytes bool
	// Compression of tables. Snappy. CompressionPerLevel, if set, has one for each level, the last for those below;
	// BottommostCompression, if set, is for the deepest level that holds data.
	Compression           Compression
	CompressionPerLevel   []Compression
	BottommostCompression Compression
	// OptimizeFiltersForHits leaves the filter out of tables that nothing lies below, and does not ask the filters of the
	// last level: right where most keys that are looked up exist.
	OptimizeFiltersForHits bool
	// Table has the options of the table format.
	Table TableOptions
}

// TableOptions are those of the table format.
type TableOptions struct {
	// FilterPolicy makes a filter for each table. Default: none.
	FilterPolicy filter.Policy
	// BlockSize is the size of a data block before compression. 4096.
	BlockSize int
	// BlockRestartInterval is how many keys share a full key in a data block. 16.
	BlockRestartInterval int
	// FormatVersion is RocksDB's, 2 to 7. 5, which every RocksDB since 6.6 reads; RocksDB's own default is 7.
	FormatVersion int
	// Checksum behind each block. xxHash64; RocksDB's own default is XXH3. It reads either.
	Checksum ChecksumType
}

func or[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// withDefaults returns a copy with every zero field set, and the relations between fields put right as RocksDB does.
func (o *ColumnFamilyOptions) withDefaults() ColumnFamilyOptions {
	c := *o
	or(&c.Comparator, BytewiseComparator)
	or(&c.WriteBufferSize, 64<<20)
	c.WriteBufferSize = max(c.WriteBufferSize, 64<<10)
	or(&c.MaxWriteBufferNumber, 2)
	c.MaxWriteBufferNumber = max(c.MaxWriteBufferNumber, 2)
	or(&c.NumLevels, 7)
	or(&c.Level0FileNumCompactionTrigger, 4)
	or(&c.Level0SlowdownWritesTrigger, 20)
	or(&c.Level0StopWritesTrigger, 36)
	c.Level0SlowdownWritesTrigger = max(c.Level0SlowdownWritesTrigger, c.Level0FileNumCompactionTrigger)
	c.Level0StopWritesTrigger = max(c.Level0StopWritesTrigger, c.Level0SlowdownWritesTrigger)
	or(&c.TargetFileSizeBase, 64<<20)
	or(&c.TargetFileSizeMultiplier, 1)
	or(&c.MaxBytesForLevelBase, 256<<20)
	or(&c.MaxBytesForLevelMultiplier, 10)
	or(&c.MaxCompactionBytes, 25*c.TargetFileSizeBase)
	or(&c.SoftPendingCompactionBytesLimit, 64<<30)
	or(&c.HardPendingCompactionBytesLimit, 256<<30)
	c.SoftPendingCompactionBytesLimit = min(c.SoftPendingCompactionBytesLimit, c.HardPendingCompactionBytesLimit)
	or(&c.Compression, SnappyCompression)
	c.CompressionPerLevel = slices.Clone(c.CompressionPerLevel)
	or(&c.Table.BlockSize, 4096)
	or(&c.Table.BlockRestartInterval, 16)
	or(&c.Table.FormatVersion, 5)
	or(&c.Table.Checksum, XXHash64)
	return c
}

func (o *Options) withDefaults() Options {
	if o == nil {
		o = &Options{}
	}
	d := *o
	d.ColumnFamilyOptions = o.ColumnFamilyOptions.withDefaults()
	d.ColumnFamilies = make(map[string]*ColumnFamilyOptions, len(o.ColumnFamilies))
	for name, c := range o.ColumnFamilies {
		if c == nil {
			c = &o.ColumnFamilyOptions
		}
		full := c.withDefaults()
		d.ColumnFamilies[name] = &full
	}
	or(&d.MaxBackgroundJobs, 2)
	or(&d.MaxOpenFiles, -1)
	or(&d.WALRecoveryMode, PointInTimeRecovery)
	or(&d.MaxWriteBatchGroupSize, 1<<20)
	or(&d.DelayedWriteRate, 16<<20)
	if d.FS == nil {
		d.FS = vfs.OS
	}
	return d
}

// family returns the options for a family by name.
func (o *Options) family(name string) *ColumnFamilyOptions {
	if c, ok := o.ColumnFamilies[name]; ok {
		return c
	}
	c := o.ColumnFamilyOptions
	return &c
}

// Validate returns every problem, joined. Open calls it.
func (o *Options) Validate() error {
	if o == nil {
		return nil
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, invalid(format, args...)) }
	if o.ErrorIfExists && o.ErrorIfMissing {
		bad("ErrorIfExists and ErrorIfMissing leave nothing to open")
	}
	if o.MaxBackgroundJobs < 0 {
		bad("MaxBackgroundJobs is %d", o.MaxBackgroundJobs)
	}
	if o.MaxOpenFiles < -1 {
		bad("MaxOpenFiles is %d; -1 keeps all open", o.MaxOpenFiles)
	}
	if o.WALRecoveryMode > SkipAnyCorruptedRecords {
		bad("WALRecoveryMode is %d", o.WALRecoveryMode)
	}
	if o.WALMapped > MappedWALOn {
		bad("WALMapped is %d", o.WALMapped)
	}
	errs = append(errs, o.ColumnFamilyOptions.validate("default"))
	for name, c := range o.ColumnFamilies {
		if c != nil {
			errs = append(errs, c.validate(name))
		}
	}
	return errors.Join(errs...)
}

func (o *ColumnFamilyOptions) validate(name string) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, invalid("column family %q: %s", name, fmt.Sprintf(format, args...)))
	}
	if c := o.Comparator; c != nil && (c.Name == "" || c.Compare == nil || c.Separator == nil || c.Successor == nil) {
		bad("Comparator lacks its Name or a function")
	}
	if o.MergeOperator != nil && o.MergeOperator.Name() == "" {
		bad("MergeOperator has no Name")
	}
	if o.WriteBufferSize > 16<<30 {
		bad("WriteBufferSize is %d, the most is 16 GiB", o.WriteBufferSize)
	}
	if o.NumLevels < 0 || o.NumLevels == 1 || o.NumLevels > 7 {
		bad("NumLevels is %d, want 2 to 7", o.NumLevels)
	}
	for _, n := range []struct {
		name string
		v    int
	}{
		{"MaxWriteBufferNumber", o.MaxWriteBufferNumber},
		{"Level0FileNumCompactionTrigger", o.Level0FileNumCompactionTrigger},
		{"Level0SlowdownWritesTrigger", o.Level0SlowdownWritesTrigger},
		{"Level0StopWritesTrigger", o.Level0StopWritesTrigger},
		{"TargetFileSizeMultiplier", o.TargetFileSizeMultiplier},
		{"Table.BlockSize", o.Table.BlockSize},
		{"Table.BlockRestartInterval", o.Table.BlockRestartInterval},
	} {
		if n.v < 0 {
			bad("%s is %d", n.name, n.v)
		}
	}
	if m := o.MaxBytesForLevelMultiplier; m != 0 && !(m > 1) {
		bad("MaxBytesForLevelMultiplier is %v, want more than 1", m)
	}
	if v := o.Table.FormatVersion; v != 0 && (v < 2 || v > 7) {
		bad("Table.FormatVersion is %d, want 2 to 7", v)
	}
	if o.Table.Checksum > XXH3 {
		bad("Table.Checksum is %d", o.Table.Checksum)
	}
	for _, c := range append([]Compression{o.Compression, o.BottommostCompression}, o.CompressionPerLevel...) {
		if c > compress.BZip2 || c == compress.BZip2 {
			bad("compression %v is not written", c)
		}
	}
	return errors.Join(errs...)
}
