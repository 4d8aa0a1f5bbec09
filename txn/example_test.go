package txn_test

import (
	"context"
	"fmt"
	"strconv"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/txn"
	"github.com/ashlardb/ashlar/vfs"
)

func Example() {
	db, err := txn.OpenPessimistic("bank", &ashlar.Options{FS: vfs.NewMem()}, nil)
	if err != nil {
		panic(err)
	}
	defer db.Close()
	for _, name := range []string{"ada", "bob"} {
		if err := db.Put(nil, []byte(name), []byte("100"), nil); err != nil {
			panic(err)
		}
	}

	// Move 30 from ada to bob. Update runs it again if somebody else is in the way.
	err = db.Update(context.Background(), func(t *txn.Txn) error {
		for name, amount := range map[string]int{"ada": -30, "bob": 30} {
			v, err := t.GetForUpdate(nil, []byte(name), nil)
			if err != nil {
				return err
			}
			balance, err := strconv.Atoi(string(v))
			if err != nil {
				return err
			}
			if err := t.Put(nil, []byte(name), []byte(strconv.Itoa(balance+amount))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		panic(err)
	}

	it := db.NewIterator(nil, nil)
	defer it.Close()
	for k, v := range it.All() {
		fmt.Printf("%s has %s\n", k, v)
	}
	// Output:
	// ada has 70
	// bob has 130
}
