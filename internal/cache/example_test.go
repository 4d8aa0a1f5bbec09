package cache_test

import (
	"fmt"

	"github.com/ashlardb/ashlar/internal/cache"
)

func Example() {
	c := cache.New(1 << 20)
	k := cache.Key{ID: c.NewID(), Offset: 0}

	v := c.Get(k)
	if v == nil {
		v = c.Alloc(5)
		copy(v.Bytes(), "block") // from the file
		c.Set(k, v)
	}
	fmt.Printf("%s\n", v.Bytes())
	v.Release()

	v = c.Get(k)
	fmt.Printf("%s, of %d bytes kept\n", v.Bytes(), c.Usage())
	v.Release()
	// Output:
	// block
	// block, of 640 bytes kept
}
