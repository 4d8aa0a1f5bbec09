package sstable

import (
	"bytes"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/kv"
)

// filterWriter makes a table's filter, of whole keys, prefixes or both, in one block or in partitions. What goes in is what
// RocksDB puts in, for it asks our filters by its own rules.
type filterWriter struct {
	builder filter.Builder // nil: no filter
	prefix  kv.SliceTransform
	whole   bool

	last    []byte // the prefix that was added last, if hasLast
	hasLast bool
	keys    int // what is in the partition
	most    int // how many go into a partition; 0: there is only one
	total   uint64

	blocks [][]byte // finished ones
}

func (f *filterWriter) init(o *WriterOptions) {
	p := o.policy()
	if p == nil {
		return
	}
	f.builder = p.NewBuilder(0)
	f.prefix, f.whole = o.PrefixExtractor, !o.NoWholeKeyFiltering
	if o.PartitionFilters {
		f.most = 1 << 30
		if s, ok := p.(filter.Sizer); ok {
			f.most = max(1, s.KeysIn(o.MetadataBlockSize))
		}
	}
}

// add puts a user key in. The same one is not added twice in a row.
func (f *filterWriter) add(user []byte) {
	if f.whole {
		f.put(user)
	}
	if f.prefix == nil || !f.prefix.InDomain(user) {
		return
	}
	p := f.prefix.Transform(user)
	if f.hasLast && bytes.Equal(f.last, p) {
		return
	}
	f.last, f.hasLast = append(f.last[:0], p...), true
	if !f.whole || len(p) < len(user) {
		f.put(p)
	}
}

func (f *filterWriter) put(b []byte) {
	f.builder.Add(b)
	f.keys++
	f.total++
}

// full says that the partition has as many keys as it should.
func (f *filterWriter) full() bool { return f.most > 0 && f.keys >= f.most }

// cut ends a partition. next is the first key of the next one, if there is one: its prefix goes in as well, since a seek
// to a key behind the last one of the partition is told to ask here.
func (f *filterWriter) cut(next []byte, more bool) {
	if f.builder == nil || f.most == 0 && more {
		return
	}
	if more && f.prefix != nil && f.prefix.InDomain(next) {
		f.put(f.prefix.Transform(next))
	}
	f.blocks = append(f.blocks, f.builder.Finish(nil))
	f.keys, f.hasLast = 0, false
}
