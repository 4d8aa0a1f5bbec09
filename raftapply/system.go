package raftapply

import (
	"context"
	"log/slog"

	"github.com/ashlardb/ashlar"
)

// Engine is what a System needs of a database. *ashlar.DB is one.
type Engine interface {
	Write(b *ashlar.Batch, o *ashlar.WriteOptions) error
	NewSnapshot() *ashlar.Snapshot
	ColumnFamily(name string) (*ashlar.ColumnFamily, bool)
}

var _ Engine = (*ashlar.DB)(nil)

// DefaultStateFamily is the name of the column family that holds the ApplyStates.
const DefaultStateFamily = "raft"

// Options of a System. The zero value is ready.
type Options struct {
	// Config is nil for DefaultConfig.
	Config *Config
	// StateFamily is the name of the column family that holds the ApplyStates; "" for DefaultStateFamily. It must exist.
	StateFamily string
	// OnApplied, if not nil, is told how far regions are, once per write at most. It is called on workers, perhaps on
	// several at a time, but for a region in order. It must not block. The slice is the callee's.
	OnApplied func([]Applied)
	// OnFatal, if not nil, is told once, and then nothing is applied any more: the engine refused a write. The error matches
	// ErrFailed and the engine's. It runs on a worker and must not wait for Close.
	OnFatal func(error)
	// Logger gets a line for slow turns, poisoned regions and panics. nil for slog.Default().
	Logger *slog.Logger
}

// System applies the logs of many regions with few workers. All methods may be called from many goroutines.
type System struct{}

// RegionOptions of a region. The zero value is ready.
type RegionOptions struct {
	// Initial is the state of a region of which the database holds none.
	Initial ApplyState
}

// Open starts the workers.
func Open(e Engine, o *Options) (*System, error) { panic("next") }

// Register makes a region known and returns its state: what the database holds, or o.Initial. The entries that follow it
// are due. A nil o is the zero value. ErrRegionExists until a region of that name is gone for good.
func (s *System) Register(id RegionID, sm StateMachine, o *RegionOptions) (ApplyState, error) {
	panic("next")
}

// Send hands entries over. It never waits, and takes all of the task or, with an error, nothing: ErrBusy, ErrNoRegion,
// ErrRegionRemoved, ErrPoisoned, ErrFailed, ErrClosed; then no Done is called. Entries that are in already are skipped.
func (s *System) Send(t Task) error { panic("next") }

// Snapshot returns the database at a moment between two turns of the region.
func (s *System) Snapshot(ctx context.Context, id RegionID) (*Snapshot, error) { panic("next") }

// Remove ends a region: an entry being applied is finished and written, nothing more is applied, and every proposal gets
// ErrRegionRemoved. When it returns nil, the region is gone, and its name is free. Its data stays. If ctx ends first, the
// removal goes on.
func (s *System) Remove(ctx context.Context, id RegionID) error { panic("next") }

// WaitApplied waits until the entry at index is written and readable.
func (s *System) WaitApplied(ctx context.Context, id RegionID, index uint64) error { panic("next") }

// AppliedLag returns how much waits in a region, for who wants to refuse proposals before Send does.
func (s *System) AppliedLag(id RegionID) (Lag, error) { panic("next") }

// State returns how far a region is in the database.
func (s *System) State(id RegionID) (ApplyState, error) { panic("next") }

// Config returns the configuration.
func (s *System) Config() Config { panic("next") }

// Update changes the configuration. What change makes of it is validated, and taken by each worker when its next round
// begins. With an error everything stays as it was.
func (s *System) Update(change func(*Config)) error { panic("next") }

// Set changes one setting, by its name in configuration files.
func (s *System) Set(name, value string) error { panic("next") }

// Stats returns what was counted since Open.
func (s *System) Stats() Stats { panic("next") }

// Close ends the workers: what is being applied is finished and written, and what waits gets ErrClosed. The database stays
// open. If ctx ends first, its error is returned while a state machine that hangs is left alone; Close may be called again.
func (s *System) Close(ctx context.Context) error { panic("next") }
