//go:build !linux

package vfs

import (
	"os"
	"runtime"
)

// syncFile is package os's: F_FULLFSYNC on Darwin, FlushFileBuffers on Windows, fsync elsewhere.
func syncFile(f *os.File) error { return f.Sync() }

func mapsSafely(string) bool { return false }

// syncDir does nothing on Windows, where a directory cannot be synced and the file system's journal holds the names.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		_, err := os.Stat(dir)
		return err
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
