// Package corrupt is the one way in which the project says that bytes on disk are not what they should be.
//
// A decoder gets the path of what it reads at creation, so the deepest of them can name the file and the place:
//
//	return corrupt.At(path, off, "block checksum %08x, want %08x", got, want)
//
// The root package offers *Error as ashlar.CorruptionError and matches it with ashlar.ErrCorruption.
package corrupt

import (
	"errors"
	"fmt"
)

// Err is what every Error matches with errors.Is.
var Err = errors.New("corruption")

// Error is damage at a place in a file.
type Error struct {
	File         string // path, or as much of it as the decoder knows
	Offset       int64  // in File; -1 when the place is not known
	ColumnFamily string // name, when known
	Err          error  // what is wrong
}

// At returns an *Error for damage in file at off.
func At(file string, off int64, format string, args ...any) error {
	return &Error{File: file, Offset: off, Err: fmt.Errorf(format, args...)}
}

func (e *Error) Error() string {
	s := e.File
	if e.ColumnFamily != "" {
		s += " (column family " + e.ColumnFamily + ")"
	}
	if e.Offset >= 0 {
		s += fmt.Sprintf(": at %d", e.Offset)
	}
	return s + ": " + e.Err.Error() + " (corruption)"
}

// Unwrap returns what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// Is makes every Error match Err.
func (e *Error) Is(target error) bool { return target == Err }

// ErrNotSupported is what a decoder returns, wrapped with what it met, for a feature that is legal in the format but
// not built here.
var ErrNotSupported = errors.New("not supported")

// Unsupported returns an error that matches ErrNotSupported and names the file and place.
func Unsupported(file string, off int64, format string, args ...any) error {
	return fmt.Errorf("%s: at %d: %w: %w", file, off, fmt.Errorf(format, args...), ErrNotSupported)
}
