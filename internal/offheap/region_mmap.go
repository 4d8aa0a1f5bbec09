//go:build linux && !race

package offheap

import "golang.org/x/sys/unix"

// regionSlabs is how many slabs' address space is reserved at once.
const regionSlabs = 64

// reserve returns n bytes of zeros whose pages come when they are touched, or nil when the system has none.
func reserve(n int) []byte {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil
	}
	return b
}

// giveBack returns b's pages to the system. What is read from b after that is undefined, and harmless.
func giveBack(b []byte) bool { return unix.Madvise(b, unix.MADV_DONTNEED) == nil }

// unmap ends what reserve began.
func unmap(b []byte) { _ = unix.Munmap(b) }
