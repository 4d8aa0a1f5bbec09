package raftapply

import (
	"errors"
	"fmt"

	"github.com/ashlardb/ashlar"
)

// Every error matches one of these, or one of the engine's, with errors.Is.
var (
	// ErrBusy is Send's when a region has more than Config.MaxPendingBytes waiting. Nothing of the task was taken.
	ErrBusy = fmt.Errorf("raftapply: too much is waiting: %w", ashlar.ErrBusy)
	// ErrClosed is of a System that was closed. Whether a proposal that ends with it takes effect, the log decides.
	ErrClosed = fmt.Errorf("raftapply: closed: %w", ashlar.ErrClosed)
	// ErrFailed is of a System whose engine refused a write. What the last write did is unknown; opening anew finds out.
	ErrFailed = errors.New("raftapply: a write failed")
	// ErrNoRegion is of a region that is not registered.
	ErrNoRegion = errors.New("raftapply: no such region")
	// ErrRegionExists is Register's for a region that is.
	ErrRegionExists = errors.New("raftapply: the region exists")
	// ErrRegionRemoved is of a region that is being removed.
	ErrRegionRemoved = errors.New("raftapply: the region was removed")
	// ErrPoisoned is of a region whose state machine failed, or whose log has a gap. It stands still until it is removed.
	ErrPoisoned = errors.New("raftapply: the region is poisoned")
	// ErrGap is matched, beside ErrPoisoned, if entries were missing.
	ErrGap = errors.New("raftapply: entries are missing")
	// ErrStale is of a proposal whose place in the log was taken by another entry: it has no effect.
	ErrStale = errors.New("raftapply: the proposal lost its place in the log")
	// ErrInvalidArgument is the engine's.
	ErrInvalidArgument = ashlar.ErrInvalidArgument
)

// invalid returns an error that matches ErrInvalidArgument.
func invalid(format string, args ...any) error {
	return fmt.Errorf("raftapply: %w: "+format, append([]any{ErrInvalidArgument}, args...)...)
}

func isPoison(err error) bool { return errors.Is(err, ErrPoisoned) }
