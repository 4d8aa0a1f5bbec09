package filter_test

import (
	"fmt"

	"github.com/ashlardb/ashlar/filter"
)

func Example() {
	policy := filter.Bloom(10)
	builder := policy.NewBuilder(2)
	builder.Add([]byte("apple"))
	builder.Add([]byte("pear"))
	block := builder.Finish(nil) // goes into the table, beside policy.Name()

	reader, err := policy.Open(block)
	fmt.Println(err, len(block))
	fmt.Println(reader.MayContain([]byte("apple")), reader.MayContain([]byte("plum")))
	// Output:
	// <nil> 69
	// true false
}

// A read that asks several tables hashes its key once.
func ExampleHash() {
	var tables []filter.Reader
	for _, key := range []string{"apple", "pear"} {
		builder := filter.Bloom(10).NewBuilder(1)
		builder.Add([]byte(key))
		reader, _ := filter.Bloom(10).Open(builder.Finish(nil))
		tables = append(tables, reader)
	}
	h := filter.Hash([]byte("pear"))
	for _, table := range tables {
		fmt.Println(table.(filter.HashReader).MayContainHash(h))
	}
	// Output:
	// false
	// true
}

func ExampleStandardBloom() {
	builder := filter.StandardBloom(10).NewBuilder(1)
	builder.Add([]byte("apple"))
	policy, ok := filter.Known("ashlar.StandardBloom.1") // the name in the table
	reader, err := policy.Open(builder.Finish(nil))
	fmt.Println(ok, err, reader.MayContain([]byte("apple")), reader.MayContain([]byte("plum")))
	// Output: true <nil> true false
}
