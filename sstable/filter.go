package sstable

// A table's filter: of whole keys, of prefixes, or both; in one block, which Open reads and keeps, or in partitions, which
// come through the cache. One block that is left to the cache is a single partition.
//
//  1. The table says what is in its filter: whole keys by one property, prefixes by another, which counts only if the
//     table's extractor has the name of the reader's.
//  2. A filter that is stored under an unknown name is as good as none.
//  3. A partition that cannot be read is an error, never an answer. One that may not be read (ErrNotCached) answers yes.

import (
	"strings"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/cache"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/stats"
	"github.com/ashlardb/ashlar/sstable/block"
)

// tableFilter is a table's filter and what may be asked of it.
type tableFilter struct {
	whole  bool              // it has whole keys
	prefix kv.SliceTransform // nil: it has no prefixes that are the reader's

	full filter.Reader // nil: it is in partitions, or there is none
	size int64

	// Partitions, each for the keys up to its entry in the index; the last one's entry may be below the last keys.
	parts  index
	policy filter.Policy // opens a partition,
	prober filter.Prober // or asks it as it is; nil if the policy cannot
}

func (f *tableFilter) there() bool { return f.full != nil || f.parts.len() > 0 }

// readFilter opens the table's filter, if there is one that can be asked anything.
func (r *Reader) readFilter(names map[string]block.Handle, tail []byte, o *ReaderOptions) error {
	f := &r.filter
	f.whole = r.props.WholeKeyFiltering
	if e := o.PrefixExtractor; e != nil && r.props.PrefixFiltering && r.props.PrefixExtractor == e.Name() {
		f.prefix = e
	}
	for name, h := range names {
		stored, whole := strings.CutPrefix(name, metaFullFilter)
		if !whole {
			var parts bool
			if stored, parts = strings.CutPrefix(name, metaPartitionedFilter); !parts {
				continue
			}
		}
		policy := o.Filter
		if policy == nil || policy.Name() != stored {
			var known bool
			if policy, known = filter.Known(stored); !known {
				continue
			}
		}
		f.policy = policy
		f.prober, _ = policy.(filter.Prober)
		if whole && o.CacheMeta {
			f.parts, f.size = loneIndex(h), int64(h.Size)
			return nil
		}
		b, err := r.metaBlock(h, tail)
		if err != nil {
			return err
		}
		if whole {
			if f.full, err = policy.Open(b); err != nil {
				return r.corrupt(h, "filter: %w", err)
			}
			f.size = int64(len(b))
			return nil
		}
		f.parts.reset(r.cmp, r.props.IndexKeyIsUserKey)
		if err := r.readHandles(&f.parts, b, h, false); err != nil {
			return err
		}
		f.parts.finish()
		for _, part := range f.parts.handles {
			f.size += int64(part.Size)
		}
		return nil
	}
	return nil
}

// filterPart is a partition of a filter in somebody's hands: who asks for many keys in order gets each one once. Its zero
// value is none.
type filterPart struct {
	n int
	v *cache.Value
}

func (p *filterPart) release() {
	if p.v != nil {
		p.v.Release()
		p.v = nil
	}
}

// mayContain asks the filter for what, a whole key or a prefix, where the key at would be. There must be a filter. The
// partition that was asked is left in part, for its owner to release.
func (r *Reader) mayContain(at, what []byte, how fetch, part *filterPart) (bool, error) {
	f := &r.filter
	if f.full != nil {
		return f.full.MayContain(what), nil
	}
	n := min(f.parts.seek(kv.SeekKey(at, kv.MaxSeq)), f.parts.len()-1)
	h := f.parts.handles[n]
	if part.v == nil || part.n != n {
		part.release()
		v, err := r.block(h, cache.Filter, how)
		if err == ErrNotCached {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		part.n, part.v = n, v
	}
	yes, err := false, error(nil)
	if f.prober != nil {
		yes, err = f.prober.MayContain(part.v.Bytes(), what)
	} else {
		var open filter.Reader
		if open, err = f.policy.Open(part.v.Bytes()); err == nil {
			yes = open.MayContain(what)
		}
	}
	if err != nil {
		return false, r.corrupt(h, "filter: %w", err)
	}
	return yes, nil
}

// mayHaveKey is false if the filter says that the key is not in the table. asked says that there was a filter to ask.
func (r *Reader) mayHaveKey(user []byte, how fetch, part *filterPart) (yes, asked bool, err error) {
	f := &r.filter
	switch {
	case !f.there():
		return true, false, nil
	case f.whole:
		yes, err = r.mayContain(user, user, how, part)
	case f.prefix != nil && f.prefix.InDomain(user):
		yes, err = r.mayContain(user, f.prefix.Transform(user), how, part)
	default:
		return true, false, nil
	}
	return yes, true, err
}

// mayHavePrefix is false if the filter says that no key at or after user has its prefix.
func (r *Reader) mayHavePrefix(user, prefix []byte, how fetch) (yes bool, err error) {
	f := &r.filter
	if f.prefix == nil || !f.there() {
		return true, nil
	}
	var part filterPart
	yes, err = r.mayContain(user, prefix, how, &part)
	part.release()
	if err == nil {
		s := r.stats.Lock()
		s.N[stats.BloomFilterPrefixChecked]++
		if !yes {
			s.N[stats.BloomFilterPrefixUseful]++
		}
		s.Unlock()
	}
	return yes, err
}
