package merge_test

import (
	"fmt"

	"github.com/ashlardb/ashlar/internal/merge"
)

func Example() {
	op := merge.StringAppend{Delimiter: ","}
	var operands merge.Operands
	operands.Add([]byte("c")) // the newest comes first
	operands.Add([]byte("b"))
	value, err := merge.Full(op, nil, []byte("k"), []byte("a"), true, operands.Reversed())
	fmt.Printf("%s %v\n", value, err)
	one, ok, err := merge.Partial(op, nil, []byte("k"), operands.Reversed())
	fmt.Printf("%s %v %v\n", one, ok, err)
	// Output:
	// a,b,c <nil>
	// b,c true <nil>
}
