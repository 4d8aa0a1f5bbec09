//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package vfs

import (
	"io"
	"os"
	"syscall"
)

// lockFile takes a flock(2) lock, which belongs to the open file and so keeps a second taker of this process out too.
func lockFile(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		if err == syscall.EWOULDBLOCK {
			err = ErrLocked
		}
		return nil, err
	}
	return f, nil
}
