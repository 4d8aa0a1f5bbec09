package memtable_test

import (
	"fmt"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
	"github.com/ashlardb/ashlar/memtable"
)

func Example() {
	arena, err := memtable.NewArena(10 * memtable.MaxEntrySize(10, 10))
	if err != nil {
		fmt.Println(err)
		return
	}
	t := memtable.New(kv.Bytewise, arena, 1)
	defer t.Release()

	var hint memtable.Hint
	for i, e := range []struct {
		key   string
		kind  kv.Kind
		value string
	}{{"apple", kv.KindValue, "green"}, {"plum", kv.KindValue, "blue"}, {"apple", kv.KindValue, "red"}, {"plum", kv.KindDelete, ""}} {
		if err := t.Insert(&hint, []byte(e.key), kv.MakeTrailer(kv.Seq(i+1), e.kind), []byte(e.value)); err != nil {
			fmt.Println(err)
		}
	}
	t.Seal()

	for _, seq := range []kv.Seq{1, 3} {
		g := lookup.Get{User: []byte("apple"), Seq: seq}
		fmt.Printf("apple at %d: %t %s\n", seq, t.Get(&g), g.Value)
	}
	it := t.NewIter()
	for e := it.First(); e != nil; e = it.Next() {
		fmt.Printf("%v=%s\n", e.Key, e.Value)
	}
	// Output:
	// apple at 1: true green
	// apple at 3: true red
	// "apple"#3,SET=red
	// "apple"#1,SET=green
	// "plum"#4,DEL=
	// "plum"#2,SET=blue
}

// A filter of whole keys ends lookups of absent keys before the list is searched.
func ExampleBloom() {
	arena, err := memtable.NewArena(1 << 20)
	if err != nil {
		panic(err)
	}
	t := memtable.New(kv.Bytewise, arena, 1)
	defer t.Release()
	t.UseBloom(memtable.NewBloom(4096, true, nil))
	var hint memtable.Hint
	fmt.Println(t.Insert(&hint, []byte("apple"), kv.MakeTrailer(1, kv.KindValue), []byte("red")))
	g := lookup.Get{User: []byte("apple"), Seq: kv.MaxSeq}
	fmt.Println(t.Get(&g), string(g.Value))
	// Output:
	// <nil>
	// true red
}
