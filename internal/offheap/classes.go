package offheap

import "math/bits"

// Sizes of slots, by class: 512, 768, … 2048, then eight to a doubling: 2304, 2560, … 4096, 4608, … up to more than any
// block of a table can have. Each is a multiple of 256, so that 16 of them are whole pages.

const (
	slabSlots  = 16
	pageSize   = 4096
	linear     = 7        // classes 0 … 6 are 512, 768, … 2048
	largeFrom  = 64 << 10 // sizes above have one slot in a slab
	classCount = linear + 8*29
)

// classOf returns the class of a block of n bytes.
func classOf(n int) int {
	if n <= 2048 {
		return max((n+255)/256-2, 0)
	}
	double := bits.Len(uint(n-1)) - 12 // 2048 < n ≤ 4096 is 0
	step := 256 << double
	return linear + 8*double + (n-1)/step - 8
}

// classSize returns the size of a slot.
func classSize(class int) int {
	if class < linear {
		return (class + 2) * 256
	}
	double, i := (class-linear)/8, (class-linear)%8
	return (9 + i) * (256 << double)
}

// Size returns what a block of n bytes takes: the size of its slot.
func Size(n int) int { return classSize(classOf(n)) }
