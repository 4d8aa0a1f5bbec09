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

// The block is under Bloom's name, and smaller for the same false-positive rate.
func ExampleRibbon() {
	sizes := map[string]int{}
	for name, policy := range map[string]filter.Policy{"Bloom": filter.Bloom(10), "Ribbon": filter.Ribbon(10)} {
		builder := policy.NewBuilder(10_000)
		for i := range 10_000 {
			builder.Add(fmt.Appendf(nil, "key%d", i))
		}
		sizes[name] = len(builder.Finish(nil))
	}
	fmt.Println(filter.Ribbon(10).Name() == filter.Bloom(10).Name())
	fmt.Println(sizes["Ribbon"]*10/sizes["Bloom"], "tenths")
	// Output:
	// true
	// 7 tenths
}

// A filter that lies in a cache is asked where it is.
func ExampleProber() {
	builder := filter.Bloom(10).NewBuilder(1)
	builder.Add([]byte("apple"))
	block := builder.Finish(nil)
	fmt.Println(filter.Bloom(10).(filter.Prober).MayContain(block, []byte("apple")))
	fmt.Println(filter.Bloom(10).(filter.Sizer).KeysIn(4096))
	// Output:
	// true <nil>
	// 3276
}
