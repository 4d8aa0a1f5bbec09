package ashlar

import "time"

// EventListener is told what happens in the background. Each function may be nil. They are called one at a time, in the
// order of the events, by a goroutine of their own that holds no lock: they may call the database, except Close. A panic
// in one is dropped.
type EventListener struct {
	OnFlushCompleted         func(FlushInfo)
	OnCompactionCompleted    func(CompactionInfo)
	OnTableFileDeleted       func(TableFileInfo)
	OnBackgroundError        func(BackgroundErrorInfo)
	OnStallConditionsChanged func(StallInfo)
}

// FlushInfo describes a finished flush.
type FlushInfo struct {
	ColumnFamily string
	// FileNumber of the table of level 0 that was written; 0 if there was nothing to write.
	FileNumber uint64
	Bytes      uint64
	Duration   time.Duration
	Err        error
}

// CompactionInfo describes a finished compaction.
type CompactionInfo struct {
	ColumnFamily string
	Reason       string
	// Inputs are the file numbers read, Outputs those written; a move has neither read nor written.
	Inputs, Outputs         []uint64
	OutputLevel             int
	BytesRead, BytesWritten uint64
	Duration                time.Duration
	Err                     error
}

// TableFileInfo describes a table file that was deleted.
type TableFileInfo struct {
	Path string
	Err  error
}

// BackgroundErrorInfo describes an error that stopped background work or writes. Severity is "soft", "hard" or "fatal".
type BackgroundErrorInfo struct {
	Reason, Severity string
	Err              error
}

// StallInfo describes a change in how a family's state holds writes back.
type StallInfo struct {
	ColumnFamily string
	// Condition is "normal", "pressure", "delayed" or "stopped", and Cause the rule behind a delay or a stop, in RocksDB's
	// words: "memtable-limit", "l0-file-count-limit" or "pending-compaction-bytes".
	Condition, Cause string
	// OldCondition and OldCause are what held before, for Duration; for the first change that is 0.
	OldCondition, OldCause string
	Duration               time.Duration
}
