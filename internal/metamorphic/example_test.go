package metamorphic_test

import (
	"fmt"

	"github.com/ashlardb/ashlar/internal/metamorphic"
)

func Example() {
	ops := metamorphic.Generate(1, 100)
	for set := range uint64(3) {
		run := metamorphic.RandomRun(1, set)
		fmt.Println(run.Play(ops) == nil)
	}
	// Output:
	// true
	// true
	// true
}
