//go:build !linux

package groupsim

const hasFutex = false

func newFutex() sleeper { panic(ErrNoFutex) }

func pin() {}
