package offheap_test

import (
	"fmt"

	"github.com/ashlardb/ashlar/internal/offheap"
)

func Example() {
	p := offheap.NewPool()
	b := p.Alloc(5000)
	copy(b.Bytes, "not on the Go heap")
	fmt.Printf("%s, %d of %d bytes\n", b.Bytes[:18], len(b.Bytes), p.Used())
	p.Free(b)
	p.Close()
	// Output: not on the Go heap, 5000 of 5120 bytes
}
