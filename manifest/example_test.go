package manifest_test

import (
	"fmt"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/manifest"
	"github.com/ashlardb/ashlar/vfs"
)

// A table becomes part of the database, is moved down, and is still there after a restart.
func Example() {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("db"); err != nil {
		panic(err)
	}
	vs, err := manifest.Create(fs, "db", manifest.Options{})
	if err != nil {
		panic(err)
	}
	table := &manifest.File{
		Num: vs.NewFileNum(), Size: 1000, SmallestSeq: 1, LargestSeq: 2,
		Smallest: kv.MakeKey([]byte("a"), 1, kv.KindValue), Largest: kv.MakeKey([]byte("b"), 2, kv.KindValue),
	}
	flush := &manifest.Edit{Add: []manifest.AddedFile{{Level: 0, File: table}}}
	move := &manifest.Edit{
		Delete: []manifest.DeletedFile{{Level: 0, Num: table.Num}},
		Add:    []manifest.AddedFile{{Level: 6, File: table}},
	}
	for _, edit := range []*manifest.Edit{flush, move} {
		err := vs.Apply([]*manifest.Edit{edit}, func(versions []*manifest.Version) { fmt.Print(versions[0].DebugString()) })
		if err != nil {
			panic(err)
		}
	}
	if err := vs.Close(); err != nil {
		panic(err)
	}

	vs, err = manifest.Recover(fs, "db", manifest.Options{})
	if err != nil {
		panic(err)
	}
	v := vs.Current(0)
	defer v.Unref()
	fmt.Print(v.DebugString())
	// Output:
	// L0: 000002[a#1,SET..b#2,SET]
	// L6: 000002[a#1,SET..b#2,SET]
	// L6: 000002[a#1,SET..b#2,SET]
}
