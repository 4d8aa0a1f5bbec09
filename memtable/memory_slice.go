//go:build race || !linux

package memtable

import "unsafe"

// Under the race detector, which sees the Go heap only, and on systems whose mappings nobody has tried yet, an arena
// is a slice that the collector takes back.

func takeMemory(size int) ([]byte, error) {
	words := make([]uint64, (size+unit-1)/unit)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size), nil
}

func giveMemory([]byte) {}

// Trim gives the pages that released arenas keep for the next ones back to the system.
func Trim() {}
