package merge

// The operators that RocksDB has built in, with RocksDB's names and results, so that either engine goes on with the
// other's operands.

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/ashlardb/ashlar/internal/kv"
)

// Associative makes an operator of a function for which values and operands are one thing, and grouping does not matter:
// f(f(a, b), c) = f(a, f(b, c)). It appends to dst what a value with one operand gives. A key without a value takes its
// first operand as it is.
type Associative struct {
	name string
	f    func(dst, key, value, operand []byte) ([]byte, error)
}

// NewAssociative returns an operator.
func NewAssociative(name string, f func(dst, key, value, operand []byte) ([]byte, error)) *Associative {
	return &Associative{name, f}
}

// Name returns the name given.
func (a *Associative) Name() string { return a.name }

// FullMerge applies one operand after the other.
func (a *Associative) FullMerge(dst, key, existing []byte, operands [][]byte) ([]byte, error) {
	if existing == nil {
		existing, operands = operands[0], operands[1:]
		if len(operands) == 0 {
			return append(dst, existing...), nil
		}
	}
	// f may read its value while it appends, so the results go to two buffers in turn, and the last one to dst.
	var buffers [2][]byte
	for n, operand := range operands[:len(operands)-1] {
		b := &buffers[n%2]
		next, err := a.f((*b)[:0], key, existing, operand)
		if err != nil {
			return dst, err
		}
		*b, existing = next, next
	}
	return a.f(dst, key, existing, operands[len(operands)-1])
}

// PartialMerge does the same without a value.
func (a *Associative) PartialMerge(dst, key []byte, operands [][]byte) ([]byte, bool) {
	out, err := a.FullMerge(dst, key, nil, operands)
	return out, err == nil
}

// UInt64Add is RocksDB's UInt64AddOperator: values are 8 bytes, little-endian, and add up, wrapping. Bytes of another
// length count as 0, as they do there.
type UInt64Add struct{}

// Name is RocksDB's.
func (UInt64Add) Name() string { return "UInt64AddOperator" }

// FullMerge returns the sum.
func (UInt64Add) FullMerge(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
	sum := fixed64(existing)
	for _, o := range operands {
		sum += fixed64(o)
	}
	return binary.LittleEndian.AppendUint64(dst, sum), nil
}

// PartialMerge returns the sum.
func (u UInt64Add) PartialMerge(dst, key []byte, operands [][]byte) ([]byte, bool) {
	dst, _ = u.FullMerge(dst, key, nil, operands)
	return dst, true
}

func fixed64(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// StringAppend is RocksDB's StringAppendOperator: operands are strung together with a delimiter between them, and behind
// a value if there is one, be it empty.
type StringAppend struct{ Delimiter string }

// Name is RocksDB's.
func (StringAppend) Name() string { return "StringAppendOperator" }

// FullMerge returns all of them.
func (s StringAppend) FullMerge(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
	dst = append(dst, existing...)
	for n, o := range operands {
		if n > 0 || existing != nil {
			dst = append(dst, s.Delimiter...)
		}
		dst = append(dst, o...)
	}
	return dst, nil
}

// PartialMerge returns all of them.
func (s StringAppend) PartialMerge(dst, key []byte, operands [][]byte) ([]byte, bool) {
	dst, _ = s.FullMerge(dst, key, nil, operands)
	return dst, true
}

// StringAppendTest is RocksDB's StringAppendTESTOperator: StringAppend that has no partial merges.
type StringAppendTest struct{ StringAppend }

// Name is RocksDB's.
func (StringAppendTest) Name() string { return "StringAppendTESTOperator" }

// PartialMerge is not done.
func (StringAppendTest) PartialMerge(dst, _ []byte, _ [][]byte) ([]byte, bool) { return dst, false }

// Max is RocksDB's MaxOperator: the largest in bytewise order, whatever the family's.
type Max struct{}

// Name is RocksDB's.
func (Max) Name() string { return "MaxOperator" }

// FullMerge returns the largest.
func (Max) FullMerge(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
	largest := existing
	for _, o := range operands {
		if bytes.Compare(o, largest) > 0 {
			largest = o
		}
	}
	return append(dst, largest...), nil
}

// PartialMerge returns the largest.
func (m Max) PartialMerge(dst, key []byte, operands [][]byte) ([]byte, bool) {
	dst, _ = m.FullMerge(dst, key, nil, operands)
	return dst, true
}

// Put is RocksDB's PutOperator: a merge is a put.
type Put struct{}

// Name is RocksDB's.
func (Put) Name() string { return "PutOperator" }

// FullMerge returns the last operand.
func (Put) FullMerge(dst, _, _ []byte, operands [][]byte) ([]byte, error) {
	return append(dst, operands[len(operands)-1]...), nil
}

// PartialMerge returns the last operand.
func (p Put) PartialMerge(dst, key []byte, operands [][]byte) ([]byte, bool) {
	dst, _ = p.FullMerge(dst, key, nil, operands)
	return dst, true
}

// Format returns a built-in operator as an OPTIONS file of RocksDB's names it, and "" for another, or for one that cannot
// be written so that it is read back.
func Format(op kv.MergeOperator) string {
	switch o := op.(type) {
	case UInt64Add, Max, Put:
		return o.Name()
	case StringAppend:
		return formatAppend(o.Name(), o.Delimiter)
	case StringAppendTest:
		return formatAppend(o.Name(), o.Delimiter)
	}
	return ""
}

func formatAppend(name, delimiter string) string {
	if strings.ContainsAny(delimiter, ";={} \t\v\f\x00") {
		return ""
	}
	return "{id=" + name + ";delimiter=" + escape.Replace(delimiter) + ";}"
}

var (
	escape   = strings.NewReplacer(`\`, `\\`, "#", `\#`, ":", `\:`, "\r", `\r`, "\n", `\n`)
	unescape = strings.NewReplacer(`\\`, `\`, `\#`, "#", `\:`, ":", `\r`, "\r", `\n`, "\n")
)

// Parse returns the built-in operator that an OPTIONS file names, by its name or its short one, with its options or
// without:
//
//	uint64add    UInt64AddOperator    {id=StringAppendOperator;delimiter=\:;}
//
// It is nil for nullptr and for one that is not built in.
func Parse(s string) kv.MergeOperator {
	id, delimiter := s, ","
	if inner, ok := strings.CutPrefix(s, "{"); ok {
		for part := range strings.SplitSeq(strings.TrimSuffix(inner, "}"), ";") {
			switch name, value, _ := strings.Cut(part, "="); strings.TrimSpace(name) {
			case "id":
				id = strings.TrimSpace(value)
			case "delimiter", "delim":
				delimiter = unescape.Replace(value)
			}
		}
	}
	switch id {
	case "UInt64AddOperator", "uint64add":
		return UInt64Add{}
	case "StringAppendOperator", "stringappend":
		return StringAppend{delimiter}
	case "StringAppendTESTOperator", "stringappendtest":
		return StringAppendTest{StringAppend{delimiter}}
	case "MaxOperator", "max":
		return Max{}
	case "PutOperator", "put", "put_v1":
		return Put{}
	}
	return nil
}
