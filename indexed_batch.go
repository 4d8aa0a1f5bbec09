package ashlar

import (
	"bytes"

	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
)

// IndexedBatch is a Batch that can be read before it is written, together with the database that it will be written to.
// Make one with DB.NewIndexedBatch. It is used by one goroutine at a time, its iterators included.
//
// The newest write of a key counts; its earlier ones stay in the batch and are written too.
type IndexedBatch struct {
	db    *DB
	batch Batch
	index *batchIndex
}

// NewIndexedBatch returns an empty batch that shows its writes on top of the database's.
func (d *DB) NewIndexedBatch() *IndexedBatch {
	return &IndexedBatch{db: d, index: newBatchIndex()}
}

// Batch returns the batch, to be written. It must not be changed, and lives until the next change through b.
func (b *IndexedBatch) Batch() *Batch { return &b.batch }

// change runs a verb of the batch's and indexes what it added.
func (b *IndexedBatch) change(cf *ColumnFamily, verb func() error) error {
	if _, err := b.family(cf); err != nil {
		return err
	}
	n := b.batch.Len() // behind the header, if there was nothing yet
	err := verb()
	if err == nil && len(b.batch.data) > n {
		b.index.add(b.batch.data, n, b.comparer)
	}
	return err
}

func (b *IndexedBatch) comparer(family uint32) *kv.Comparer {
	if cf := b.db.familyByID(family); cf != nil {
		return cf.opts.Comparator
	}
	return kv.Bytewise // dropped: nothing reads it
}

// Put sets key to value in cf; nil is the default family.
func (b *IndexedBatch) Put(cf *ColumnFamily, key, value []byte) error {
	return b.change(cf, func() error { return b.batch.Put(cf, key, value) })
}

// Delete removes key from cf.
func (b *IndexedBatch) Delete(cf *ColumnFamily, key []byte) error {
	return b.change(cf, func() error { return b.batch.Delete(cf, key) })
}

// SingleDelete removes key from cf; see Batch.SingleDelete.
func (b *IndexedBatch) SingleDelete(cf *ColumnFamily, key []byte) error {
	return b.change(cf, func() error { return b.batch.SingleDelete(cf, key) })
}

// Merge adds an operand to key in cf; see Batch.Merge.
func (b *IndexedBatch) Merge(cf *ColumnFamily, key, operand []byte) error {
	return b.change(cf, func() error { return b.batch.Merge(cf, key, operand) })
}

// DeleteRange removes the keys from begin (included) to end (excluded); see Batch.DeleteRange.
func (b *IndexedBatch) DeleteRange(cf *ColumnFamily, begin, end []byte) error {
	if cf == nil {
		cf = b.db.family // whose order tells whether begin comes before end
	}
	return b.change(cf, func() error { return b.batch.DeleteRange(cf, begin, end) })
}

// PutLogData puts a blob into the log; see Batch.PutLogData.
func (b *IndexedBatch) PutLogData(blob []byte) error { return b.batch.PutLogData(blob) }

// SetSavePoint remembers the state of the batch, on top of those remembered before.
func (b *IndexedBatch) SetSavePoint() { b.batch.SetSavePoint() }

// RollbackToSavePoint takes back what was added since the last save point and forgets that. ErrNotFound without one.
// Iterators go on showing what they were made over.
func (b *IndexedBatch) RollbackToSavePoint() error {
	if err := b.batch.RollbackToSavePoint(); err != nil {
		return err
	}
	b.rebuild(bytes.Clone(b.batch.data))
	return nil
}

// PopSavePoint forgets the last save point. ErrNotFound without one.
func (b *IndexedBatch) PopSavePoint() error { return b.batch.PopSavePoint() }

// Count is the number of writes in the batch.
func (b *IndexedBatch) Count() int { return b.batch.Count() }

// Len is the size of the encoded batch in bytes.
func (b *IndexedBatch) Len() int { return b.batch.Len() }

// Data returns the batch in RocksDB's WriteBatch form; see Batch.Data.
func (b *IndexedBatch) Data() []byte { return b.batch.Data() }

// SetData makes the batch a copy of p; see Batch.SetData. Iterators go on showing what they were made over.
func (b *IndexedBatch) SetData(p []byte) error {
	var fresh Batch
	if err := fresh.SetData(p); err != nil {
		return err
	}
	b.batch = fresh
	b.rebuild(fresh.data)
	return nil
}

// Clear empties the batch. Iterators go on showing what they were made over.
func (b *IndexedBatch) Clear() {
	b.batch.Clear()
	b.rebuild(nil)
}

// rebuild makes a new index over data, which becomes the batch's. The old index keeps the old bytes.
func (b *IndexedBatch) rebuild(data []byte) {
	b.batch.data = data
	b.index = newBatchIndex()
	if len(data) > 0 {
		b.index.add(data, batch.HeaderSize, b.comparer)
	}
}

// family returns the family that nil stands for, and checks that one given is of the batch's database.
func (b *IndexedBatch) family(cf *ColumnFamily) (*ColumnFamily, error) {
	if cf == nil {
		return b.db.family, nil
	}
	if cf.db != b.db {
		return cf, invalid("column family %q is of another database than the batch", cf.name)
	}
	return cf, nil
}

// GetFromBatchAndDB returns a copy of what key's value would be if the batch had been written: the batch's write of it
// if there is one, else the database's, as o says. ErrNotFound if there is none.
func (b *IndexedBatch) GetFromBatchAndDB(cf *ColumnFamily, key []byte, o *ReadOptions) ([]byte, error) {
	cf, err := b.family(cf)
	if err != nil {
		return nil, err
	}
	return cf.appendGet(nil, key, o, b)
}

// get shows g the batch's writes of its key, before the database's. It returns whether g is decided.
func (b *IndexedBatch) get(cf *ColumnFamily, g *lookup.Get) (done bool) {
	seq := g.Seq
	g.Seq = kv.MaxSeq
	done = b.index.get(cf.id, g)
	g.Seq = seq
	return done
}

// NewIterator returns an iterator over the family as it would be if the batch had been written: the batch's writes over
// the database's, which it reads as o says. It shows the batch as of now: what is added later comes in with Refresh only.
// Close it before the batch is given up; it holds on to the database as any iterator does.
func (b *IndexedBatch) NewIterator(cf *ColumnFamily, o *ReadOptions) *Iterator {
	cf, err := b.family(cf)
	if err != nil {
		return &Iterator{cf: cf, err: err}
	}
	return cf.newIterator(o, b)
}
