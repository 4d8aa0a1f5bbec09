package vfs_test

import (
	"fmt"

	"github.com/ashlardb/ashlar/vfs"
)

// A new file survives a crash of the machine when it was synced and its directory was, and not before.
func ExampleMem() {
	m := vfs.NewMem()
	m.OnSync = func(op vfs.Op) { fmt.Println("before", op) }
	f, _ := m.Create("a")
	f.Write([]byte("kept"))
	f.Sync()
	m.SyncDir("/")
	f.Write([]byte(", lost"))

	left, _ := m.Crash(nil).Open("a")
	size, _ := left.Size()
	fmt.Println(size, "bytes left")
	// Output:
	// before sync a
	// before syncdir /
	// 4 bytes left
}
