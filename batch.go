package ashlar

import (
	"bytes"
	"fmt"
	"math"

	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/memtable"
)

// maxBatch is the most bytes that a batch may take: what a record of RocksDB's log can say.
const maxBatch = math.MaxUint32

// maxKey and maxValue are what RocksDB's blocks can hold of a key and a value.
const (
	maxKey   = math.MaxUint32 - 16
	maxValue = math.MaxUint32 - 1
)

// Batch is a list of writes that are done together or not at all, also across column families. The zero value is ready.
// A batch is used by one goroutine at a time, and not while it is being written.
//
// Its encoded form is RocksDB's WriteBatch.
type Batch struct {
	data  []byte // header and records; empty when nothing was added
	count uint32
	uses  []use // the families written to, in the order of their first record
	db    *DB   // of the families given, nil while only the default one was written to
	saved []savePoint
	// ranges are the range deletes among the records, whose bounds are compared once the families' orders are known.
	ranges int
}

// use is what a batch needs in one family's memtable.
type use struct {
	family uint32
	bytes  int
	merges int // how many records are merges
}

// savePoint is how much of each there was in the batch.
type savePoint struct {
	size  int
	count uint32
	uses  int
	db    *DB
}

// needs is what a record takes of a memtable.
func needs(kind kv.Kind, key, value []byte) int {
	if kind == kv.KindRangeDelete {
		return memtable.MaxTombstoneSize(len(key), len(value))
	}
	return memtable.MaxEntrySize(len(key), len(value))
}

// room checks what is added, and makes the header of an empty batch.
func (b *Batch) room(kind kv.Kind, cf *ColumnFamily, key, value []byte) (uint32, error) {
	if len(key) > maxKey {
		return 0, invalid("a key of %d bytes; the most is %d", len(key), uint32(maxKey))
	}
	if len(value) > maxValue {
		return 0, invalid("a value of %d bytes; the most is %d", len(value), uint32(maxValue))
	}
	if uint64(len(b.data))+uint64(len(key))+uint64(len(value))+32 > maxBatch {
		return 0, invalid("a batch of more than %d bytes", uint32(maxBatch))
	}
	var id uint32
	if cf != nil {
		if b.db != nil && b.db != cf.db {
			return 0, invalid("column family %q is of another database than those before it in the batch", cf.name)
		}
		b.db, id = cf.db, cf.id
	}
	if len(b.data) == 0 {
		b.data = batch.Init(b.data)
	}
	b.count++
	b.use(id, needs(kind, key, value))
	return id, nil
}

func (b *Batch) use(family uint32, bytes int) *use {
	for i := range b.uses {
		if u := &b.uses[i]; u.family == family {
			u.bytes += bytes
			return u
		}
	}
	b.uses = append(b.uses, use{family: family, bytes: bytes})
	return &b.uses[len(b.uses)-1]
}

// Put sets key to value in cf; nil is the default family. Both are copied.
func (b *Batch) Put(cf *ColumnFamily, key, value []byte) error {
	id, err := b.room(kv.KindValue, cf, key, value)
	if err == nil {
		b.data = batch.AppendPut(b.data, id, key, value)
	}
	return err
}

// Delete removes key from cf. It is no error if there is no such key.
func (b *Batch) Delete(cf *ColumnFamily, key []byte) error {
	id, err := b.room(kv.KindDelete, cf, key, nil)
	if err == nil {
		b.data = batch.AppendDelete(b.data, id, key)
	}
	return err
}

// SingleDelete removes key from cf, and goes away together with the one Put that it meets. So from one SingleDelete of a
// key to the next there may be one Put of it, and no more, even if a Delete came between two; else an older value may come
// back. Nor is it for keys that are merged into. RocksDB asks for the same.
func (b *Batch) SingleDelete(cf *ColumnFamily, key []byte) error {
	id, err := b.room(kv.KindSingleDel, cf, key, nil)
	if err == nil {
		b.data = batch.AppendSingleDelete(b.data, id, key)
	}
	return err
}

// Merge adds an operand to key in cf, which that family's merge operator applies when the key is read. ErrInvalidArgument
// without one: from here if cf is given, and from Write for the default family given as nil, and for what SetData brought.
func (b *Batch) Merge(cf *ColumnFamily, key, operand []byte) error {
	if cf != nil && cf.opts.MergeOperator == nil {
		return cf.noMergeOperator()
	}
	id, err := b.room(kv.KindMerge, cf, key, operand)
	if err == nil {
		b.data = batch.AppendMerge(b.data, id, key, operand)
		b.use(id, 0).merges++
	}
	return err
}

// DeleteRange removes from cf the keys from begin (included) to end (excluded) in the family's order, as many as there
// are, at the price of one write. It does nothing if begin and end are equal, and is refused if begin comes behind end: here
// if cf is given, else by Write. The keys may still take room on disk until they are compacted.
func (b *Batch) DeleteRange(cf *ColumnFamily, begin, end []byte) error {
	if bytes.Equal(begin, end) {
		return nil
	}
	if len(end) > maxKey {
		return invalid("a key of %d bytes; the most is %d", len(end), uint32(maxKey))
	}
	if cf != nil && cf.opts.Comparator.CompareUser(begin, end) > 0 {
		return invertedRange(cf, begin, end)
	}
	id, err := b.room(kv.KindRangeDelete, cf, begin, end)
	if err == nil {
		b.data = batch.AppendDeleteRange(b.data, id, begin, end)
		b.ranges++
	}
	return err
}

func invertedRange(cf *ColumnFamily, begin, end []byte) error {
	return invalid("a range from %q to %q: it ends before it begins, in the order of column family %q", begin, end, cf.name)
}

// fits refuses a batch that cannot be written to a database.
func (b *Batch) fits(d *DB) error {
	if b.db != nil && b.db != d {
		return invalid("the batch holds column families of another database")
	}
	if b.ranges > 0 {
		return b.checkRanges(d)
	}
	return nil
}

// checkRanges refuses range deletes that end before they begin.
func (b *Batch) checkRanges(d *DB) error {
	for r := batch.NewReader(b.data); ; {
		rec, ok, err := r.Next()
		if err != nil || !ok {
			return err
		}
		if rec.LogData || rec.Kind != kv.KindRangeDelete {
			continue
		}
		if cf := d.familyByID(rec.Family); cf != nil && cf.opts.Comparator.CompareUser(rec.Key, rec.Value) > 0 {
			return invertedRange(cf, rec.Key, rec.Value)
		}
	}
}

// PutLogData puts a blob into the log that is not written to any family. It is not counted.
func (b *Batch) PutLogData(blob []byte) error {
	if uint64(len(b.data))+uint64(len(blob))+32 > maxBatch {
		return invalid("a batch of more than %d bytes", uint32(maxBatch))
	}
	if len(b.data) == 0 {
		b.data = batch.Init(b.data)
	}
	b.data = batch.AppendLogData(b.data, blob)
	return nil
}

// SetSavePoint remembers the state of the batch, on top of those remembered before.
func (b *Batch) SetSavePoint() {
	b.saved = append(b.saved, savePoint{len(b.data), b.count, len(b.uses), b.db})
}

// RollbackToSavePoint takes back what was added since the last save point and forgets that. ErrNotFound without one. It
// takes as long as what it takes back is.
func (b *Batch) RollbackToSavePoint() error {
	if len(b.saved) == 0 {
		return fmt.Errorf("save point: %w", ErrNotFound)
	}
	s := b.saved[len(b.saved)-1]
	b.saved = b.saved[:len(b.saved)-1]
	err := b.measure(s.size, -1)
	b.data, b.count, b.uses, b.db = b.data[:s.size], s.count, b.uses[:s.uses], s.db
	return err
}

// PopSavePoint forgets the last save point. ErrNotFound without one.
func (b *Batch) PopSavePoint() error {
	if len(b.saved) == 0 {
		return fmt.Errorf("save point: %w", ErrNotFound)
	}
	b.saved = b.saved[:len(b.saved)-1]
	return nil
}

// Count is the number of writes in the batch.
func (b *Batch) Count() int { return int(b.count) }

// Len is the size of the encoded batch in bytes.
func (b *Batch) Len() int { return max(len(b.data), batch.HeaderSize) }

// Data returns the batch in RocksDB's WriteBatch form, with sequence number 0. It lives until the next change.
func (b *Batch) Data() []byte {
	if len(b.data) == 0 {
		b.data = batch.Init(b.data)
	}
	batch.SetHeader(b.data, 0, b.count)
	return b.data
}

// SetData makes the batch a copy of p, in RocksDB's WriteBatch form. A p that is not of that form is refused, and one
// with writes of kinds that are not built with ErrNotSupported; the batch then stays as it was.
func (b *Batch) SetData(p []byte) error {
	if err := batch.Validate(p); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidArgument, err)
	}
	b.Clear()
	b.data = append(b.data, p...)
	b.count = batch.Count(p)
	return b.measure(0, 1)
}

// measure adds, sign times, what the records from an offset on need in each family.
func (b *Batch) measure(from, sign int) error {
	if len(b.data) == 0 {
		return nil
	}
	for r := batch.NewReader(b.data).At(int64(max(from, batch.HeaderSize))); ; {
		rec, ok, err := r.Next()
		if err != nil || !ok {
			return err
		}
		if rec.LogData {
			continue
		}
		u := b.use(rec.Family, sign*needs(rec.Kind, rec.Key, rec.Value))
		switch rec.Kind {
		case kv.KindMerge:
			u.merges += sign
		case kv.KindRangeDelete:
			b.ranges += sign
		}
	}
}

// Clear empties the batch and keeps its memory.
func (b *Batch) Clear() {
	b.data, b.count, b.uses, b.ranges, b.db, b.saved = b.data[:0], 0, b.uses[:0], 0, nil, b.saved[:0]
}
