package groupsim

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const hasFutex = true

// futex is a word that a thread sleeps on while it is 0.
type futex struct{ word atomic.Uint32 }

func newFutex() sleeper { return new(futex) }

// The operations of futex(2), private to the process.
const (
	futexWaitPrivate = 128
	futexWakePrivate = 129
)

func (f *futex) sleep() {
	for !f.word.CompareAndSwap(1, 0) {
		// It returns at once if the word is not 0, and may return for no reason at all.
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&f.word)), futexWaitPrivate, 0, 0, 0, 0)
	}
}

func (f *futex) wake() {
	f.word.Store(1)
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&f.word)), futexWakePrivate, 1, 0, 0, 0)
}

// pin binds the caller's thread to one core. Where that is not allowed it stays where it is.
func pin() {
	var now, one unix.CPUSet
	if unix.SchedGetaffinity(0, &now) != nil {
		return
	}
	for cpu := range 1024 {
		if now.IsSet(cpu) {
			one.Set(cpu)
			_ = unix.SchedSetaffinity(0, &one)
			return
		}
	}
}
