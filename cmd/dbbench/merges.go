package main

import (
	"errors"
	"fmt"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/internal/merge"
)

// mergeOperators are what --merge_operator may be, under the names that RocksDB creates them by. The operators' own names,
// which an OPTIONS file has, are RocksDB's too.
var mergeOperators = map[string]ashlar.MergeOperator{
	"put": ashlar.PutOperator, "PutOperator": ashlar.PutOperator, "put_v1": ashlar.PutOperator,
	"uint64add": ashlar.UInt64AddOperator, "UInt64AddOperator": ashlar.UInt64AddOperator,
	"stringappend": ashlar.StringAppendOperator(","), "StringAppendOperator": ashlar.StringAppendOperator(","),
	"stringappendtest":         merge.StringAppendTest{StringAppend: merge.StringAppend{Delimiter: ","}},
	"StringAppendTESTOperator": merge.StringAppendTest{StringAppend: merge.StringAppend{Delimiter: ","}},
	"max":                      ashlar.MaxOperator, "MaxOperator": ashlar.MaxOperator,
	"bytesxor": bytesXOR, "BytesXOR": bytesXOR,
}

// bytesXOR is RocksDB's BytesXOROperator: byte by byte, the shorter one filled up with zeros.
var bytesXOR = ashlar.NewAssociativeMergeOperator("BytesXOR", func(dst, _, value, operand []byte) ([]byte, error) {
	if len(value) < len(operand) {
		value, operand = operand, value
	}
	at := len(dst)
	dst = append(dst, value...)
	for i, b := range operand {
		dst[at+i] ^= b
	}
	return dst, nil
})

// needsOperator refuses what merges without --merge_operator.
func needsOperator(c *config) error {
	if c.mergeOperator == "" {
		return errors.New("needs --merge_operator")
	}
	return nil
}

// mergeMaker is maker for keys among merge_keys.
func (t *thread) mergeMaker() *maker {
	m := t.maker()
	m.keyMaker = t.cfg.keys(t.work.keySize, t.work.mergeKeys)
	return m
}

// mergeRandom merges values into random keys, each in its family.
func mergeRandom(t *thread) error {
	m := t.mergeMaker()
	for l := t.turns(t.work.updates); l.Next(1); {
		t.pickDatabase()
		v := t.rand.Next() % t.work.mergeKeys
		key, operand := m.Key(v), m.Next()
		if err := t.store.Merge(t.family(v), key, operand, &t.work.write); err != nil {
			return fmt.Errorf("merge: %w", err)
		}
		t.stats.bytes += int64(len(key) + len(operand))
		t.stats.Finished(1, opMerge)
	}
	t.stats.message = fmt.Sprintf("( updates:%d)", t.work.updates)
	return nil
}

// readRandomMergeRandom throws a die for each operation: mergereadpercent of them merge a value into a random key of the
// default family, the others get one.
func readRandomMergeRandom(t *thread) error {
	m := t.mergeMaker()
	var value []byte
	gets, merges, hits, longest := 0, 0, 0, 0
	for l := t.turns(t.work.updates); l.Next(1); {
		t.pickDatabase()
		key := m.Key(t.rand.Next() % t.work.mergeKeys)
		if int64(t.rand.Next()%100) < t.cfg.mergePercent {
			if err := t.store.Merge(nil, key, m.Next(), &t.work.write); err != nil {
				return fmt.Errorf("merge: %w", err)
			}
			merges++
			t.stats.Finished(1, opMerge)
			continue
		}
		got, err := t.db.AppendGet(value[:0], key, nil)
		if err == nil {
			value = got
			hits++
			longest = max(longest, len(value))
		} else if !errors.Is(err, ashlar.ErrNotFound) {
			return fmt.Errorf("get: %w", err)
		}
		gets++
		t.stats.Finished(1, opRead)
	}
	t.stats.message = fmt.Sprintf("(reads:%d merges:%d total:%d hits:%d maxlength:%d)", gets, merges, t.work.updates, hits, longest)
	return nil
}
