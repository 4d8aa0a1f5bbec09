package ashlar

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/vfs"
)

// Sentinels. Every error that the package returns matches one of them with errors.Is, or is an error of the operating
// system (*fs.PathError and the like).
var (
	ErrNotFound            = errors.New("not found")
	ErrClosed              = errors.New("database is closed")
	ErrReadOnly            = errors.New("database is open for reading only")
	ErrInvalidArgument     = errors.New("invalid argument")
	ErrNoSpace             = errors.New("no space left")
	ErrBusy                = errors.New("busy")
	ErrTryAgain            = errors.New("try again")
	ErrTimedOut            = errors.New("timed out")
	ErrIncomplete          = errors.New("incomplete: it would have to wait")
	ErrAborted             = errors.New("aborted")
	ErrColumnFamilyDropped = errors.New("column family was dropped")

	// ErrCorruption is matched by every *CorruptionError.
	ErrCorruption = corrupt.Err
	// ErrNotSupported is what is legal in RocksDB's formats or API but not built here.
	ErrNotSupported = corrupt.ErrNotSupported
	// ErrLocked is what Open returns, at once, when someone has the database open.
	ErrLocked = vfs.ErrLocked
)

// CorruptionError tells where damage is. Take it from an error with errors.As.
type CorruptionError = corrupt.Error

// invalid returns an error that matches ErrInvalidArgument.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalidArgument}, args...)...)
}

// classify gives an error of the operating system the sentinel that it stands for.
func classify(err error) error {
	if err != nil && errors.Is(err, syscall.ENOSPC) && !errors.Is(err, ErrNoSpace) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// during says what was being done when err happened.
func during(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, classify(err))...)
}
