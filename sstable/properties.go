package sstable

// This file owns the names and the encodings of a table's properties.

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/enc"
	"github.com/ashlardb/ashlar/sstable/block"
)

// Index types, as in the property rocksdb.block.based.table.index.type.
const (
	indexBinary    = 0 // entries in order
	indexHash      = 1 // the same, and a hash beside it that is not read
	indexTwoLevel  = 2 // entries name partitions of the index
	indexFirstKeys = 3 // entries have their block's first key after the handle
)

// Properties are what a table says about itself. Counters are exact in tables that are written here. Sizes are in
// bytes, times in seconds since 1970; 0 is "not known".
type Properties struct {
	// How the index and the filter are to be read.
	IndexType                            uint32
	IndexKeyIsUserKey, IndexValueIsDelta bool
	WholeKeyFiltering, PrefixFiltering   bool
	IndexPartitions, TopLevelIndexSize   uint64

	// What is in the table. Entries and Deletions count range deletions too; Deletions counts tombstones of all kinds.
	Entries, Deletions, MergeOperands, RangeDeletions uint64
	// Sizes of what was added (internal keys, values), before it was compressed.
	RawKeySize, RawValueSize uint64
	// Sizes of the parts: DataSize as stored, with trailers; IndexSize before compression, with its trailer.
	DataSize, IndexSize, FilterSize uint64
	DataBlocks, FilterEntries       uint64
	TailStart                       uint64 // where the data blocks end
	FixedKeyLength                  uint64
	SmallestSeq, LargestSeq         uint64

	// Who wrote it and how.
	FormatVersion                                  uint64 // RocksDB 7.8 writes 0 whatever the footer says
	Compression, CompressionOptions                string
	Comparer, MergeOperator, PrefixExtractor       string
	Collectors, FilterPolicy                       string
	FamilyID                                       uint64
	FamilyName                                     string
	DBID, SessionID, HostID                        string
	FileNumber                                     uint64
	CreationTime, OldestKeyTime, NewestKeyTime     uint64
	FileCreationTime                               uint64
	DataBlockRestartInterval, IndexRestartInterval uint64

	// Of tables that were made to be ingested: version 2 means that every entry's sequence number is GlobalSeq, or, if
	// that is 0, the file's in the manifest.
	ExternalVersion uint32
	GlobalSeq       uint64

	// Others, by name.
	Others map[string][]byte

	globalSeqAt int // offset of GlobalSeq's value in the block, 0 when it is not there
}

const propGlobalSeq = "rocksdb.external_sst_file.global_seqno"

// field says where a property goes. Its form follows from the pointer: *uint64 is a varint, *bool a varint of 0 or 1,
// *string itself, *uint32 four bytes; digits are "0" or "1", and GlobalSeq is eight bytes.
type field struct {
	name  string
	to    any
	spare bool // not written when it is 0 or empty
}

type (
	digit bool
	wide  uint64
)

// fields returns all known properties in the order of their names.
func (p *Properties) fields() []field {
	return []field{
		{"rocksdb.block.based.table.index.type", &p.IndexType, false},
		{"rocksdb.block.based.table.prefix.filtering", (*digit)(&p.PrefixFiltering), false},
		{"rocksdb.block.based.table.whole.key.filtering", (*digit)(&p.WholeKeyFiltering), false},
		{"rocksdb.column.family.id", &p.FamilyID, false},
		{"rocksdb.column.family.name", &p.FamilyName, true},
		{"rocksdb.comparator", &p.Comparer, true},
		{"rocksdb.compression", &p.Compression, true},
		{"rocksdb.compression_options", &p.CompressionOptions, true},
		{"rocksdb.creating.db.identity", &p.DBID, true},
		{"rocksdb.creating.host.identity", &p.HostID, true},
		{"rocksdb.creating.session.identity", &p.SessionID, true},
		{"rocksdb.creation.time", &p.CreationTime, false},
		{"rocksdb.data.block.restart.interval", &p.DataBlockRestartInterval, true},
		{"rocksdb.data.size", &p.DataSize, false},
		{"rocksdb.deleted.keys", &p.Deletions, false},
		{propGlobalSeq, (*wide)(&p.GlobalSeq), true},
		{"rocksdb.external_sst_file.version", &p.ExternalVersion, true},
		{"rocksdb.file.creation.time", &p.FileCreationTime, false},
		{"rocksdb.filter.policy", &p.FilterPolicy, true},
		{"rocksdb.filter.size", &p.FilterSize, false},
		{"rocksdb.fixed.key.length", &p.FixedKeyLength, false},
		{"rocksdb.format.version", &p.FormatVersion, false},
		{"rocksdb.index.block.restart.interval", &p.IndexRestartInterval, true},
		{"rocksdb.index.key.is.user.key", &p.IndexKeyIsUserKey, false},
		{"rocksdb.index.partitions", &p.IndexPartitions, true},
		{"rocksdb.index.size", &p.IndexSize, false},
		{"rocksdb.index.value.is.delta.encoded", &p.IndexValueIsDelta, false},
		{"rocksdb.key.largest.seqno", &p.LargestSeq, true},
		{"rocksdb.key.smallest.seqno", &p.SmallestSeq, true},
		{"rocksdb.merge.operands", &p.MergeOperands, false},
		{"rocksdb.merge.operator", &p.MergeOperator, true},
		{"rocksdb.newest.key.time", &p.NewestKeyTime, true},
		{"rocksdb.num.data.blocks", &p.DataBlocks, false},
		{"rocksdb.num.entries", &p.Entries, false},
		{"rocksdb.num.filter_entries", &p.FilterEntries, false},
		{"rocksdb.num.range-deletions", &p.RangeDeletions, false},
		{"rocksdb.oldest.key.time", &p.OldestKeyTime, false},
		{"rocksdb.original.file.number", &p.FileNumber, true},
		{"rocksdb.prefix.extractor.name", &p.PrefixExtractor, true},
		{"rocksdb.property.collectors", &p.Collectors, true},
		{"rocksdb.raw.key.size", &p.RawKeySize, false},
		{"rocksdb.raw.value.size", &p.RawValueSize, false},
		{"rocksdb.tail.start.offset", &p.TailStart, true},
		{"rocksdb.top-level.index.size", &p.TopLevelIndexSize, true},
	}
}

// encode returns the properties as a block, which lives in b.
func (p *Properties) encode(b *block.Builder) []byte {
	b.Init(0)
	type pair struct {
		name  string
		value []byte
	}
	var all []pair
	for _, f := range p.fields() {
		var v []byte
		zero := false
		switch to := f.to.(type) {
		case *uint64:
			v, zero = binary.AppendUvarint(nil, *to), *to == 0
		case *bool:
			v = []byte{0}
			if *to {
				v[0] = 1
			}
		case *string:
			v, zero = []byte(*to), *to == ""
		case *uint32:
			v, zero = binary.LittleEndian.AppendUint32(nil, *to), *to == 0
		case *wide:
			v, zero = binary.LittleEndian.AppendUint64(nil, uint64(*to)), *to == 0
		case *digit:
			v = []byte{'0'}
			if *to {
				v[0] = '1'
			}
		}
		if !f.spare || !zero {
			all = append(all, pair{f.name, v})
		}
	}
	for name, v := range p.Others {
		all = append(all, pair{name, v})
	}
	slices.SortFunc(all, func(x, y pair) int { return strings.Compare(x.name, y.name) })
	for _, x := range all {
		b.AddString(x.name, x.value)
	}
	return b.Finish()
}

// decode reads a properties block that stands at off of the file at path.
func (p *Properties) decode(path string, off int64, b []byte) error {
	*p = Properties{WholeKeyFiltering: true, PrefixFiltering: true}
	known := map[string]any{}
	for _, f := range p.fields() {
		known[f.name] = f.to
	}
	s := block.NewScanner(b)
	for s.Next() {
		name := string(s.Key)
		to, ok := known[name]
		if !ok {
			if p.Others == nil {
				p.Others = map[string][]byte{}
			}
			p.Others[name] = slices.Clone(s.Value)
			continue
		}
		if name == propGlobalSeq {
			p.globalSeqAt = s.ValueOffset()
		}
		if !set(to, s.Value) {
			return corrupt.At(path, off, "property %s has the value %q", name, s.Value)
		}
	}
	if err := s.Err(); err != nil {
		return corrupt.At(path, off, "properties: %w", err)
	}
	return nil
}

// set decodes v to the field behind the pointer.
func set(to any, v []byte) (ok bool) {
	switch to := to.(type) {
	case *uint64:
		*to, _, ok = enc.Uvarint(v)
	case *bool:
		var n uint64
		n, _, ok = enc.Uvarint(v)
		*to = n != 0
	case *string:
		*to, ok = string(v), true
	case *uint32:
		*to, _, ok = enc.Fixed32(v)
	case *wide:
		var n uint64
		n, _, ok = enc.Fixed64(v)
		*to = wide(n)
	case *digit:
		*to, ok = string(v) != "0", true
	}
	return ok
}
