package ashlar

import (
	"errors"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/merge"
)

// MergeOperator says what the operands that were merged into a key make of it; see ColumnFamily.Merge. One operator may
// serve many families, and is called by many goroutines at once.
//
//   - FullMerge(dst, key, existing, operands) appends to dst the value that existing (nil: there is none) and the operands,
//     oldest first, make. Its error is the error of the read, which matches ErrCorruption too.
//   - PartialMerge(dst, key, operands) appends to dst one operand that stands for two or more, or says false.
type MergeOperator = kv.MergeOperator

// NewAssociativeMergeOperator makes an operator of a function that appends to dst what a value and one operand make. It
// must be associative, and operands must be of the same form as values: a key that has no value takes the first operand as
// it is. An error of f fails the read.
func NewAssociativeMergeOperator(name string, f func(dst, key, value, operand []byte) ([]byte, error)) MergeOperator {
	return merge.NewAssociative(name, f)
}

// The operators that RocksDB has built in, under its names, which an OPTIONS file gives back to RocksDB's tools.
var (
	// UInt64AddOperator adds numbers of 8 bytes, little-endian. Bytes of another length count as 0.
	UInt64AddOperator MergeOperator = merge.UInt64Add{}
	// MaxOperator keeps the largest, bytewise.
	MaxOperator MergeOperator = merge.Max{}
	// PutOperator keeps the newest: a merge is a put.
	PutOperator MergeOperator = merge.Put{}
)

// StringAppendOperator strings operands together with a delimiter between them. RocksDB's own is ",".
func StringAppendOperator(delimiter string) MergeOperator {
	return merge.StringAppend{Delimiter: delimiter}
}

// mergeError gives an error of package merge its sentinel, and says whose key it was.
func (c *ColumnFamily) mergeError(err error) error {
	if errors.Is(err, merge.ErrNoOperator) {
		return during(err, "column family %q", c.name)
	}
	return &CorruptionError{File: c.db.dir, Offset: -1, ColumnFamily: c.name, Err: err}
}

func (c *ColumnFamily) noMergeOperator() error {
	return invalid("merge into column family %q, which has no merge operator", c.name)
}
