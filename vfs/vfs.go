package vfs

import (
	"errors"
	"io"
	"io/fs"
)

// ErrLocked is what FS.Lock returns, wrapped with the name, when someone holds the lock, be it this process.
var ErrLocked = errors.New("lock is held")

// FS is a file system. Names are slash-separated paths as the operating system takes them; Join puts them together.
// All methods may be called from many goroutines.
type FS interface {
	// Create makes an empty file, cutting down one that exists, open for writing and reading.
	Create(name string) (File, error)
	// Open opens a file for reading.
	Open(name string) (File, error)
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// Rename gives a file a new name, replacing a file that has it already.
	Rename(oldname, newname string) error
	// Link gives a file a second name, which must be free.
	Link(oldname, newname string) error
	// MkdirAll makes a directory and those above it; it is no error if they exist.
	MkdirAll(dir string) error
	// List returns the names in a directory, without the directory, in no order.
	List(dir string) ([]string, error)
	// Stat describes a file or directory.
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the names in a directory survive a crash of the machine.
	SyncDir(dir string) error
	// Lock takes a lock that no other holder, in this process or another, can take until it is closed or the process
	// ends. It makes the file if need be. It never waits: ErrLocked.
	Lock(name string) (io.Closer, error)
	// Join puts path elements together, and Dir returns all but the last.
	Join(elem ...string) string
	Dir(name string) string
}

// File is an open file. ReadAt, Size and Sync may be called from many goroutines, also beside one of the others; Write,
// Truncate and Close from one at a time.
type File interface {
	io.ReaderAt
	// Write appends at the file's end (Create) and is one write(2) where the system allows.
	io.Writer
	io.Closer
	// Sync makes the bytes whose Write has returned survive a crash of the machine. After an error nobody knows which of
	// them will, and another Sync without one proves nothing.
	Sync() error
	// Size is the file's length now.
	Size() (int64, error)
	// Truncate cuts the file, or extends it with zeros. Write goes on at the new end.
	Truncate(size int64) error
}
