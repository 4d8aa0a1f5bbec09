package kv

// MergeOperator says what the operands that were merged into a key make of it. Writing an operand reads nothing: it is
// stored beside what the key had, and operands come together with it when the key is read or compacted.
//
// A result must depend on the arguments only, for it may be computed many times, in any goroutine, and at any grouping that
// PartialMerge allows. What is given in is not to be changed or kept. A panic is an error of the read or the compaction that
// it happens in.
type MergeOperator interface {
	// Name is stored in tables. A database that was written with one operator should be opened with it again.
	Name() string

	// FullMerge appends to dst the value of key and returns the result: existing with operands, at least one and oldest
	// first, applied. existing is nil, and not just empty, where key had no value. An error fails the read; a compaction
	// leaves the operands as they are.
	FullMerge(dst, key, existing []byte, operands [][]byte) ([]byte, error)

	// PartialMerge appends to dst one operand that does the same as operands, at least two and oldest first, whatever
	// they are applied to. It is false where there is no such operand; dst is as it was then.
	PartialMerge(dst, key []byte, operands [][]byte) (operand []byte, ok bool)
}
