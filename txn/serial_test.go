package txn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/vfs"
)

// FuzzTxnSerial runs some transactions step by step between each other, as the input says, and then those that committed
// one after the other, in the order of their commits, on a map: each must read the same, and the same must be left. All
// reads are for update.
func FuzzTxnSerial(f *testing.F) {
	f.Add([]byte("\x00\x10\x20\x30\x01\x11\x21\x31\x02\x12\x40\x41\x42\x43"), true)
	f.Add([]byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"), false)
	f.Add([]byte("\x00\x01\x06\x07\x05\x08\x0b\x0a\x0c\x10\x11\x12\x05\x0b\x0a\x1c\x1b\x1a\x25\x2b\x2a"), true)
	f.Fuzz(func(t *testing.T, program []byte, pessimistic bool) {
		if len(program) > 300 {
			return
		}
		r := &serialRun{t: t, fs: vfs.NewMem(), pessimistic: pessimistic, model: map[string]string{}}
		r.open()
		for n := 0; n+1 < len(program); n += 2 {
			r.step(n, program[n], program[n+1])
		}
		for i := range r.txns {
			r.drop(i)
		}
		require.Equal(t, r.model, contents(t, r.db.DefaultColumnFamily()))
		mustClose(t, r.db)
	})
}

type serialRun struct {
	t           *testing.T
	fs          *vfs.Mem
	pessimistic bool
	db          *DB
	txns        [4]*serialTxn
	model       map[string]string // what the transactions that committed have left
}

// serialTxn is a transaction and what it did.
type serialTxn struct {
	*Txn
	steps []serialStep
	saved []int
}

type serialStep struct {
	read, remove bool
	key, value   string // what was read or put; "" is no value
}

func (r *serialRun) open() {
	var err error
	r.db, err = openKind(r.pessimistic, memOptions(r.fs))
	require.NoError(r.t, err)
}

func (r *serialRun) drop(i int) {
	if r.txns[i] != nil {
		require.NoError(r.t, r.txns[i].Rollback())
		r.txns[i] = nil
	}
}

// ended drops a transaction that met a conflict.
func (r *serialRun) ended(i int, err error) bool {
	if err == nil {
		return false
	}
	require.True(r.t, isConflict(err), "%v", err)
	r.drop(i)
	return true
}

func (r *serialRun) step(n int, what, arg byte) {
	t, i := r.t, int(what>>4)%len(r.txns)
	x := r.txns[i]
	if x == nil {
		x = &serialTxn{Txn: r.db.Begin(&TxnOptions{SetSnapshot: arg&1 == 1, LockTimeout: NoWait})}
		r.txns[i] = x
	}
	key := fmt.Sprint("k", arg%5)
	if x.state == prepared && what%16 < 10 {
		return
	}
	switch what % 16 {
	case 0, 1, 2, 3:
		read := x.GetForUpdate
		if what%2 == 1 {
			read = x.GetForShare
		}
		v, err := read(nil, []byte(key), nil)
		if errors.Is(err, ashlar.ErrNotFound) {
			v, err = nil, nil
		}
		if !r.ended(i, err) {
			x.steps = append(x.steps, serialStep{read: true, key: key, value: string(v)})
		}
	case 4, 5, 6:
		v := fmt.Sprint("v", n)
		if !r.ended(i, x.Put(nil, []byte(key), []byte(v))) {
			x.steps = append(x.steps, serialStep{key: key, value: v})
		}
	case 7:
		if !r.ended(i, x.Delete(nil, []byte(key))) {
			x.steps = append(x.steps, serialStep{key: key, remove: true})
		}
	case 8:
		x.SetSavePoint()
		x.saved = append(x.saved, len(x.steps))
	case 9:
		if n := len(x.saved) - 1; n >= 0 {
			require.NoError(t, x.RollbackToSavePoint())
			x.steps, x.saved = x.steps[:x.saved[n]], x.saved[:n]
		}
	case 10, 11:
		if !r.ended(i, x.Commit()) {
			r.replay(x)
			r.txns[i] = nil
		}
	case 12:
		r.drop(i)
	case 13:
		if r.pessimistic && x.state == started {
			require.NoError(t, x.SetName(fmt.Sprint("txn", n)))
			require.NoError(t, x.Prepare())
		}
	case 14:
		require.NoError(t, r.db.base.Flush(context.Background(), nil))
	case 15:
		r.reopen()
	}
}

// reopen ends the database and opens it again: what is prepared goes on.
func (r *serialRun) reopen() {
	left := map[string]int{}
	for i, x := range r.txns {
		switch {
		case x == nil:
		case x.state == prepared:
			left[x.name] = i
		default:
			r.drop(i)
		}
	}
	mustClose(r.t, r.db)
	r.open()
	all := r.db.Prepared()
	require.Len(r.t, all, len(left))
	for _, p := range all {
		r.txns[left[p.Name()]].Txn = p
	}
}

// replay does on the map what a transaction did.
func (r *serialRun) replay(x *serialTxn) {
	now := maps.Clone(r.model)
	for _, s := range x.steps {
		switch {
		case s.read:
			require.Equal(r.t, now[s.key], s.value, "transaction %d, key %s", x.ID(), s.key)
		case s.remove:
			delete(now, s.key)
		default:
			now[s.key] = s.value
		}
	}
	r.model = now
}
