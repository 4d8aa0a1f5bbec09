//go:build race || !linux

package memtable

import "time"

func withHugePages(_ bool, f func()) { f() }

func threadTime() int64 { return time.Since(start).Nanoseconds() }

var start = time.Now()
