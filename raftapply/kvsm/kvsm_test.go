package kvsm_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/raftapply"
	"github.com/ashlardb/ashlar/raftapply/kvsm"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/stretchr/testify/require"
)

// open returns a database in memory with the families that the tests write to.
func open(t testing.TB) (*ashlar.DB, []*ashlar.ColumnFamily) {
	db, err := ashlar.Open("db", &ashlar.Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	_, err = db.CreateColumnFamily(raftapply.DefaultStateFamily, nil)
	require.NoError(t, err)
	lock, err := db.CreateColumnFamily("lock", nil)
	require.NoError(t, err)
	return db, []*ashlar.ColumnFamily{db.DefaultColumnFamily(), lock}
}

// TestRandomCommandsDoWhatAMapDoes, through a System, with a command taken whole or not at all.
func TestRandomCommandsDoWhatAMapDoes(t *testing.T) {
	db, families := open(t)
	c := raftapply.DefaultConfig()
	c.MaxBatchKeys = 7
	s, err := raftapply.Open(db, &raftapply.Options{Config: &c})
	require.NoError(t, err)
	_, err = s.Register(1, kvsm.New(families...), nil)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 1))
	want := []map[string]string{{}, {}}
	mismatches := 0
	for i := uint64(1); i <= 1500; i++ {
		var c kvsm.Command
		next := []map[string]string{maps.Clone(want[0]), maps.Clone(want[1])}
		ok := true
		for range 1 + rng.IntN(4) {
			f, k, v := rng.IntN(2), string(rune('a'+rng.IntN(6))), fmt.Sprint(rng.IntN(3))
			switch rng.IntN(8) {
			case 0:
				c.Delete(f, []byte(k))
				delete(next[f], k)
			case 1:
				end := string(rune(k[0] + byte(rng.IntN(3))))
				c.DeleteRange(f, []byte(k), []byte(end))
				maps.DeleteFunc(next[f], func(x, _ string) bool { return k <= x && x < end })
			case 2, 3, 4:
				var old, value []byte
				if rng.IntN(3) > 0 {
					old = []byte(fmt.Sprint(rng.IntN(3)))
				}
				if rng.IntN(4) > 0 {
					value = []byte(v)
				}
				c.CompareAndSwap(f, []byte(k), old, value)
				is, there := next[f][k]
				if there != (old != nil) || is != string(old) {
					ok = false
				}
				if next[f][k] = v; value == nil {
					delete(next[f], k)
				}
			default:
				c.Put(f, []byte(k), []byte(v))
				next[f][k] = v
			}
		}
		done := make(chan raftapply.Result, 1)
		require.NoError(t, s.Send(raftapply.Task{
			Region:    1,
			Entries:   []raftapply.Entry{{Index: i, Term: 1, Data: c.Bytes()}},
			Proposals: []raftapply.Proposal{{Index: i, Term: 1, Done: func(r raftapply.Result) { done <- r }}},
		}))
		if i%3 > 0 && ok { // let some pile up
			go func() { <-done }()
		} else if res := <-done; ok {
			require.NoError(t, res.Err)
		} else {
			require.ErrorIs(t, res.Err, kvsm.ErrMismatch)
			mismatches++
		}
		if ok {
			want = next
		}
	}
	require.NoError(t, s.WaitApplied(context.Background(), 1, 1500))
	require.NoError(t, s.Close(context.Background()))
	require.Greater(t, mismatches, 100)
	for i, cf := range families {
		got := map[string]string{}
		it := cf.NewIterator(nil)
		for k, v := range it.All() {
			got[string(k)] = string(v)
		}
		require.NoError(t, it.Close())
		require.Equal(t, want[i], got)
	}
}

// TestTheFormOfACommand pins the bytes, which are in logs.
func TestTheFormOfACommand(t *testing.T) {
	var c kvsm.Command
	require.Equal(t, "00", hex.EncodeToString(c.Bytes()))
	c.Reset()
	c.Put(0, []byte("k"), []byte("v")).Delete(1, []byte("d")).DeleteRange(300, []byte("a"), []byte("b")).
		CompareAndSwap(1, []byte("c"), nil, []byte{})
	require.Equal(t, "03"+"0100016b0176"+"02010164"+"03ac02"+"01610162"+"040101630001", hex.EncodeToString(c.Bytes()))
}

// apply runs the machine on one entry, without a System.
func apply(m *kvsm.Machine, data []byte) (*ashlar.Batch, raftapply.Result, error) {
	b := new(ashlar.Batch)
	m.Hint(raftapply.Entry{Index: 1, Data: data})
	res, err := m.Apply(b, raftapply.Entry{Index: 1, Data: data})
	return b, res, err
}

func TestWhatIsNoCommandIsRefusedOnEveryReplicaAlike(t *testing.T) {
	_, families := open(t)
	m := kvsm.New(families...)
	for _, bad := range []string{"", "04", "0001", "0009", "00010201", "0001006b", "02010001610162", "0003000161016200", "02030001620161", "0102000164"} {
		p, err := hex.DecodeString(bad)
		require.NoError(t, err)
		_, res, err := apply(m, p)
		require.NoError(t, err)
		require.ErrorIs(t, res.Err, kvsm.ErrBadCommand, bad)
	}
	_, res, err := apply(m, []byte{0})
	require.NoError(t, err)
	require.NoError(t, res.Err, "an empty command is one")
}

// FuzzCommand: no bytes make the machine panic or fail in a way that other replicas would not share.
func FuzzCommand(f *testing.F) {
	_, families := open(f)
	var c kvsm.Command
	c.Put(0, []byte("k"), []byte("v")).Delete(1, []byte("d")).DeleteRange(1, []byte("a"), []byte("b")).
		CompareAndSwap(1, []byte("c"), nil, []byte("x")).CompareAndSwap(1, []byte("c"), []byte("x"), nil)
	f.Add(bytes.Clone(c.Bytes()))
	f.Add([]byte{})
	f.Add([]byte{1, 4, 0, 1, 'k', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, p []byte) {
		m := kvsm.New(families...)
		b, res, err := apply(m, p)
		require.NoError(t, err)
		again, res2, err := apply(m, p)
		require.NoError(t, err)
		require.Equal(t, b.Data(), again.Data())
		require.Equal(t, res.Err == nil, res2.Err == nil)
		if res.Err != nil {
			require.True(t, errors.Is(res.Err, kvsm.ErrBadCommand) || errors.Is(res.Err, kvsm.ErrMismatch))
		}
	})
}

func Example() {
	db, err := ashlar.Open("db", &ashlar.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.CreateColumnFamily(raftapply.DefaultStateFamily, nil); err != nil {
		log.Fatal(err)
	}
	sys, err := raftapply.Open(db, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer sys.Close(context.Background())
	if _, err := sys.Register(7, kvsm.New(db.DefaultColumnFamily()), nil); err != nil {
		log.Fatal(err)
	}

	// Two entries that a raft node has committed, and what waits for the second.
	var set, swap kvsm.Command
	set.Put(0, []byte("colour"), []byte("red"))
	swap.CompareAndSwap(0, []byte("colour"), []byte("red"), []byte("blue"))
	done := make(chan raftapply.Result, 1)
	err = sys.Send(raftapply.Task{
		Region: 7,
		Entries: []raftapply.Entry{
			{Index: 1, Term: 1, Data: set.Bytes()},
			{Index: 2, Term: 1, Data: swap.Bytes()},
		},
		Proposals: []raftapply.Proposal{{Index: 2, Term: 1, Done: func(r raftapply.Result) { done <- r }}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("swapped:", (<-done).Err == nil)
	value, err := db.Get([]byte("colour"), nil)
	fmt.Println(string(value), err)
	// Output:
	// swapped: true
	// blue <nil>
}
