package wal_test

import (
	"fmt"

	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/wal"
)

func Example() {
	fs := vfs.NewMem()
	fs.MkdirAll("db")

	logs := wal.NewSet(fs, "db", wal.Predecessor{})
	logs.Create(4)
	b := batch.AppendPut(batch.Init(nil), 0, []byte("fruit"), []byte("apple"))
	batch.SetHeader(b, 1, 1)
	fmt.Println(logs.Append(b[:batch.HeaderSize], batch.Body(b)), logs.Sync())
	logs.Close()

	found := []wal.Log{{Number: 4, Path: fs.Join("db", "000004.log")}}
	got, err := wal.Recover(fs, found, wal.PointInTimeRecovery, 4, 0, func(log uint64, rec []byte) error {
		r := batch.NewReader(rec)
		rec1, _, err := r.Next()
		fmt.Printf("log %d: #%d %s=%s\n", log, batch.Seq(rec), rec1.Key, rec1.Value)
		return err
	})
	fmt.Println(got.LastSeq, err)

	// The next log says what came before it.
	logs = wal.NewSet(fs, "db", got.Last)
	fmt.Println(logs.Create(5))
	// Output:
	// <nil> <nil>
	// log 4: #1 fruit=apple
	// 1 <nil>
	// <nil>
}
