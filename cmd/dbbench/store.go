package main

// What the benchmarks write through: the database itself, or, with --transaction_db, a database with transactions, whose
// verbs take locks as a transaction would. Reads go to the database below either way.

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/txn"
)

// store has the verbs of *txn.DB. The family is nil for the default one.
type store interface {
	Put(cf *ashlar.ColumnFamily, key, value []byte, o *ashlar.WriteOptions) error
	Delete(cf *ashlar.ColumnFamily, key []byte, o *ashlar.WriteOptions) error
	SingleDelete(cf *ashlar.ColumnFamily, key []byte, o *ashlar.WriteOptions) error
	Merge(cf *ashlar.ColumnFamily, key, operand []byte, o *ashlar.WriteOptions) error
	Write(b *ashlar.Batch, o *ashlar.WriteOptions) error
}

// plain is a database without transactions as a store.
type plain struct{ *ashlar.DB }

func (p plain) family(cf *ashlar.ColumnFamily) *ashlar.ColumnFamily {
	if cf == nil {
		return p.DefaultColumnFamily()
	}
	return cf
}

func (p plain) Put(cf *ashlar.ColumnFamily, key, value []byte, o *ashlar.WriteOptions) error {
	return p.family(cf).Put(key, value, o)
}

func (p plain) Delete(cf *ashlar.ColumnFamily, key []byte, o *ashlar.WriteOptions) error {
	return p.family(cf).Delete(key, o)
}

func (p plain) SingleDelete(cf *ashlar.ColumnFamily, key []byte, o *ashlar.WriteOptions) error {
	return p.family(cf).SingleDelete(key, o)
}

func (p plain) Merge(cf *ashlar.ColumnFamily, key, operand []byte, o *ashlar.WriteOptions) error {
	return p.family(cf).Merge(key, operand, o)
}

// open opens the database, or makes it, and its families.
func (b *bench) open() error {
	o := b.cfg.options()
	o.FS, o.BlockCache, o.Statistics = b.fs, b.cache, b.statistics
	var err error
	switch {
	case b.cfg.transactionDB:
		b.txns, err = txn.OpenPessimistic(b.cfg.db, o, nil)
	case b.cfg.optimisticDB:
		b.txns, err = txn.OpenOptimistic(b.cfg.db, o)
	default:
		b.db, err = ashlar.Open(b.cfg.db, o)
	}
	if err != nil {
		return err
	}
	if b.txns != nil {
		b.db = b.txns.BaseDB()
	}
	b.store = plain{b.db}
	if b.cfg.transactionDB {
		b.store = b.txns
	}
	b.families.start(b.db, int(b.cfg.families), int(b.cfg.hotFamilies))
	if err := b.families.stage(0); err != nil {
		return errors.Join(err, b.close())
	}
	return nil
}

func (b *bench) close() error {
	if b.db == nil {
		return nil
	}
	closer := interface{ Close() error }(b.db)
	if b.txns != nil {
		closer = b.txns
	}
	b.db, b.txns, b.store = nil, nil, nil
	return closer.Close()
}

// families are the column families of a database. Number 0 is the default one. The hot ones are those made last: a fill
// goes through stages, and each makes as many as are hot, so that data moves from family to family as it grows. Without
// --num_hot_column_families all are hot from the start.
type families struct {
	db    *ashlar.DB
	hot   int
	mu    sync.Mutex // one stage at a time
	all   []*ashlar.ColumnFamily
	ready atomic.Int64 // how many of all there are; those do not change any more
}

func (f *families) start(db *ashlar.DB, all, hot int) {
	if hot == 0 || hot > all {
		hot = all
	}
	f.db, f.hot, f.all = db, hot, make([]*ashlar.ColumnFamily, all)
	f.ready.Store(0)
}

// stages is in how many parts a fill makes them.
func (f *families) stages() int64 { return int64(max(len(f.all)/f.hot, 1)) }

// stage makes the families of a stage, if no one else has.
func (f *families) stage(n int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for next := int(f.ready.Load()); next < len(f.all) && next < int(n+1)*f.hot; next += f.hot {
		end := min(next+f.hot, len(f.all))
		for i := next; i < end; i++ {
			cf, err := f.open(i)
			if err != nil {
				return err
			}
			f.all[i] = cf
		}
		f.ready.Store(int64(end))
	}
	return nil
}

// open returns family number i, which it makes if it is not there.
func (f *families) open(i int) (*ashlar.ColumnFamily, error) {
	if i == 0 {
		return f.db.DefaultColumnFamily(), nil
	}
	name := fmt.Sprintf("column_family_name_%06d", i)
	if cf, ok := f.db.ColumnFamily(name); ok {
		return cf, nil
	}
	return f.db.CreateColumnFamily(name, nil)
}

// of returns the family that key v is in.
func (f *families) of(v uint64) *ashlar.ColumnFamily {
	return f.all[int(f.ready.Load())-f.hot+int(v%uint64(f.hot))]
}

// made are those that there are.
func (f *families) made() []*ashlar.ColumnFamily { return f.all[:f.ready.Load()] }
