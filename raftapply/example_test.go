package raftapply_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
	"github.com/ashlardb/ashlar/vfs"
)

// counter is a state machine: an entry is a name, which it counts.
type counter struct {
	cf     *ashlar.ColumnFamily
	counts map[string]uint64 // since not all is readable yet
}

func (counter) Hint(raftapply.Entry) raftapply.Hint { return 0 }

func (c counter) Apply(w raftapply.Writer, e raftapply.Entry) (raftapply.Result, error) {
	if len(e.Data) == 0 {
		return raftapply.Result{Err: fmt.Errorf("no name")}, nil
	}
	n := c.counts[string(e.Data)] + 1
	if err := w.Put(c.cf, e.Data, binary.BigEndian.AppendUint64(nil, n)); err != nil {
		return raftapply.Result{}, err
	}
	c.counts[string(e.Data)] = n
	return raftapply.Result{Value: n}, nil
}

// open returns a database in memory. A real one is on a disk: leave FS out.
func open() *ashlar.DB {
	db, err := ashlar.Open("db", &ashlar.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := db.CreateColumnFamily(raftapply.DefaultStateFamily, nil); err != nil {
		log.Fatal(err)
	}
	return db
}

func ExampleSystem() {
	db := open()
	defer db.Close()
	sys, err := raftapply.Open(db, &raftapply.Options{
		OnApplied: func(all []raftapply.Applied) {
			for _, a := range all { // here a raft node acknowledges what is applied
				fmt.Printf("region %d is at %d\n", a.Region, a.State.Applied)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	state, err := sys.Register(1, counter{db.DefaultColumnFamily(), map[string]uint64{}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("due next:", state.Applied+1)

	// The raft library says that three entries are committed.
	task := raftapply.Task{Region: 1}
	for i, name := range []string{"ann", "bob", "ann"} {
		task.Entries = append(task.Entries, raftapply.Entry{Index: uint64(i) + 1, Term: 1, Data: []byte(name)})
		task.Proposals = append(task.Proposals, raftapply.Proposal{
			Index: uint64(i) + 1, Term: 1,
			Done: func(r raftapply.Result) { fmt.Println(name, r.Value, r.Err) },
		})
	}
	if err := sys.Send(task); err != nil {
		log.Fatal(err)
	}
	if err := sys.WaitApplied(context.Background(), 1, 3); err != nil {
		log.Fatal(err)
	}
	if err := sys.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// due next: 1
	// ann 1 <nil>
	// bob 1 <nil>
	// ann 2 <nil>
	// region 1 is at 3
}

func ExampleSystem_Set() {
	db := open()
	defer db.Close()
	sys, err := raftapply.Open(db, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer sys.Close(context.Background())
	if err := sys.Set("apply-yield-write-size", "128 KiB"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(sys.Config().ApplyYieldWriteSize)
	fmt.Println(sys.Set("apply-pool-size", "0"))
	// Output:
	// 128KiB
	// raftapply: invalid argument: apply-pool-size is 0: want 1 to 256
}

func ExampleConfig() {
	c := raftapply.DefaultConfig()
	c.ApplyYieldWriteSize = raftapply.NoYield
	for name, value := range c.All() {
		if strings.HasPrefix(name, "apply-yield") {
			fmt.Println(name, "=", value)
		}
	}
	// Output:
	// apply-yield-write-size = off
	// apply-yield-duration = 500ms
}

func ExampleSize() {
	var s raftapply.Size // also a flag.Value
	for _, text := range []string{"32KiB", "1.5 MB", "off"} {
		if err := s.Set(text); err != nil {
			log.Fatal(err)
		}
		fmt.Println(uint64(s), s)
	}
	// Output:
	// 32768 32KiB
	// 1572864 1536KiB
	// 18446744073709551615 off
}

// A region's data comes from another replica: the state goes into the same batch as the last of it.
func ExampleApplyState() {
	db := open()
	defer db.Close()
	states, _ := db.ColumnFamily(raftapply.DefaultStateFamily)
	var b ashlar.Batch
	if err := b.Put(nil, []byte("ann"), []byte("2")); err != nil {
		log.Fatal(err)
	}
	s := raftapply.ApplyState{Applied: 41, AppliedTerm: 3, Commit: 41, CommitTerm: 3}
	if err := raftapply.PutApplyState(&b, states, 1, s); err != nil {
		log.Fatal(err)
	}
	if err := db.Write(&b, ashlar.Sync); err != nil {
		log.Fatal(err)
	}
	fmt.Println(raftapply.ReadApplyState(states, 1, nil))
	// Output: {41 3 41 3} true <nil>
}

func ExampleStats() {
	db := open()
	defer db.Close()
	sys, err := raftapply.Open(db, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer sys.Close(context.Background())
	st := sys.Stats()
	fmt.Println(st.Yields[raftapply.YieldBytes], st.Flushes[raftapply.FlushKeys], st.Flush.Average())
	var text strings.Builder
	if err := st.WritePrometheus(&text); err != nil { // for a handler of /metrics
		log.Fatal(err)
	}
	fmt.Fprintln(os.Stdout, strings.Contains(text.String(), `raftapply_yield_total{reason="bytes"} 0`))
	// Output:
	// 0 0 0
	// true
}
