//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package vfs

import (
	"errors"
	"io"
)

// lockFile refuses: without a lock that dies with its process, two processes could write one database.
func lockFile(string) (io.Closer, error) { return nil, errors.ErrUnsupported }
