package batch_test

import (
	"fmt"

	"github.com/ashlardb/ashlar/internal/batch"
)

func Example() {
	b := batch.Init(nil)
	b = batch.AppendPut(b, 0, []byte("fruit"), []byte("apple"))
	b = batch.AppendDelete(b, 3, []byte("stone"))
	batch.SetHeader(b, 100, 2)

	seq := batch.Seq(b)
	r := batch.NewReader(b)
	for {
		rec, ok, err := r.Next()
		if err != nil || !ok {
			break
		}
		fmt.Printf("#%d family %d %s %q %q\n", seq, rec.Family, rec.Kind, rec.Key, rec.Value)
		seq++
	}
	// Output:
	// #100 family 0 SET "fruit" "apple"
	// #101 family 3 DEL "stone" ""
}
