package ashlar

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
	"github.com/ashlardb/ashlar/internal/tombstone"
	"github.com/ashlardb/ashlar/lsm"
	"github.com/ashlardb/ashlar/manifest"
	"github.com/ashlardb/ashlar/sstable"
)

// Check walks everything and reports every broken invariant: files that are missing or of the wrong size, damaged
// blocks, keys out of order or outside of what the manifest says of their file, levels that overlap, an older version of
// a key above a newer one, a filter that denies a key of its table. It reads each table twice and may be used on a
// database in use; what it sees is one moment of each family, and families that are dropped meanwhile are passed over.
// Stopping the loop, or ctx, ends it.
func (d *DB) Check(ctx context.Context) iter.Seq[error] {
	return func(yield func(error) bool) {
		for _, cf := range d.ColumnFamilies() {
			sv := cf.tree.Acquire()
			if sv == nil {
				if err := cf.unusable(); !errors.Is(err, ErrColumnFamilyDropped) {
					yield(err)
					return
				}
				continue
			}
			c := checker{d: d, cf: cf, sv: sv, ctx: ctx, yield: yield}
			ok := c.check()
			sv.Release()
			if !ok {
				return
			}
		}
	}
}

// checker checks one family.
type checker struct {
	d     *DB
	cf    *ColumnFamily
	sv    *lsm.Superversion
	ctx   context.Context
	yield func(error) bool
}

// report passes an error on, and says whether to go on.
func (c *checker) report(format string, args ...any) bool {
	return c.yield(fmt.Errorf("column family %q: "+format, append([]any{c.cf.name}, args...)...))
}

func (c *checker) check() bool {
	v := c.sv.Version()
	if err := v.Check(c.cf.opts.Comparator); err != nil && !c.report("%w", err) {
		return false
	}
	for level, f := range v.All() {
		if err := c.ctx.Err(); err != nil {
			c.yield(err)
			return false
		}
		if err := c.table(f); err != nil && !c.report("level %d, table %06d: %w", level, f.Num, err) {
			return false
		}
	}
	return c.versions()
}

// table compares a table with what the manifest says of it, and its filter with its keys.
func (c *checker) table(f *manifest.File) error {
	info, err := c.d.fs.Stat(c.d.path(fname.Table, f.Num))
	if err != nil {
		return err
	}
	if uint64(info.Size()) != f.Size {
		return fmt.Errorf("it has %d bytes, and the manifest says %d", info.Size(), f.Size)
	}
	h, err := c.d.tables.Get(f.Num, f.Size, f.LargestSeq, c.cf.tablesAt(1))
	if err != nil {
		return err
	}
	defer h.Release()
	r := h.Reader()
	it := r.NewIter(sstable.IterOptions{Readahead: readahead})
	defer it.Close()
	cmp := c.cf.opts.Comparator
	var last kv.Key
	var n uint64
	for e := it.First(); e != nil; e = it.Next() {
		if n > 0 && cmp.CompareKeys(last, e.Key) >= 0 {
			return fmt.Errorf("%v stands behind %v", e.Key, last)
		}
		if cmp.CompareKeys(e.Key, f.Smallest) < 0 || cmp.CompareKeys(e.Key, f.Largest) > 0 {
			return fmt.Errorf("%v is outside of the file's range, %v to %v", e.Key, f.Smallest, f.Largest)
		}
		if s := e.Key.Seq(); s < f.SmallestSeq || s > f.LargestSeq {
			return fmt.Errorf("%v is outside of the file's sequence numbers, %d to %d", e.Key, f.SmallestSeq, f.LargestSeq)
		}
		g := lookup.Get{User: e.Key.User, Seq: kv.MaxSeq}
		err := r.Get(&g, false)
		found := g.State != lookup.Pending || g.Merging()
		g.Release()
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("%v is not found by its key", e.Key)
		}
		last.User, last.Trailer = append(last.User[:0], e.Key.User...), e.Key.Trailer
		n++
	}
	if err := it.Err(); err != nil {
		return err
	}
	for _, t := range r.Tombstones().All() {
		if t.Seq < f.SmallestSeq || t.Seq > f.LargestSeq {
			return fmt.Errorf("the range delete %d from %q to %q is outside of the file's sequence numbers, %d to %d",
				t.Seq, t.Start, t.End, f.SmallestSeq, f.LargestSeq)
		}
	}
	return nil
}

// source is a part of the tree in which a version of a key may be: newer parts come first.
type source struct {
	name   string
	it     kv.Iterator
	e      *kv.Entry
	ranges []*tombstone.List
}

// cover is the newest range delete over user.
func (s *source) cover(user []byte) (newest kv.Seq) {
	for _, l := range s.ranges {
		newest = max(newest, l.Cover(user, kv.MaxSeq))
	}
	return newest
}

// versions walks all parts side by side and checks, for each user key, that no part holds a version newer than one, or
// than a range delete, in a part before it. Versions under a range delete are in order: it hides them.
func (c *checker) versions() bool {
	cmp := c.cf.opts.Comparator
	var sources []*source
	defer func() {
		for _, s := range sources {
			s.it.Close()
		}
	}()
	add := func(name string, it kv.Iterator, ranges ...*tombstone.List) {
		sources = append(sources, &source{name, it, it.First(), ranges})
	}
	for n, m := range c.sv.Mems() {
		add(fmt.Sprintf("memtable %d", n), m.NewIter(), m.AppendTombstones(nil)...)
	}
	for level, f := range c.sv.Version().All() {
		h, err := c.d.tables.Get(f.Num, f.Size, f.LargestSeq, c.cf.tablesAt(1))
		if err != nil {
			return c.report("%w", err)
		}
		// What a table stores may reach beyond its bounds, and is not meant there.
		ranges := tombstone.New(cmp, tombstone.Truncate(nil, cmp, h.Reader().Tombstones().All(), f.Smallest, f.Largest))
		add(fmt.Sprintf("table %06d of level %d", f.Num, level), &jobIter{h.Reader().NewIter(sstable.IterOptions{Readahead: 64 << 10}), h}, ranges)
	}
	var user []byte
	for {
		found := false
		for _, s := range sources {
			if s.e != nil && (!found || cmp.CompareUser(s.e.Key.User, user) < 0) {
				user, found = append(user[:0], s.e.Key.User...), true
			}
		}
		if !found {
			break
		}
		var before *source
		low := kv.MaxSeq
		for _, s := range sources {
			oldest := low
			for first := true; s.e != nil && bytes.Equal(s.e.Key.User, user); s.e = s.it.Next() {
				seq := s.e.Key.Seq()
				if first && before != nil && seq >= low && !c.report("key %q: version %d in %s is newer than version %d in %s",
					user, seq, s.name, low, before.name) {
					return false
				}
				first, oldest = false, seq
			}
			if t := s.cover(user); t > 0 {
				oldest = min(oldest, t)
			}
			if oldest != low {
				before, low = s, oldest
			}
		}
	}
	for _, s := range sources {
		if err := s.it.Err(); err != nil && !c.report("%s: %w", s.name, err) {
			return false
		}
	}
	return true
}

// VerifyChecksum reads every block of every table and returns the first that is damaged. It passes over families that are
// dropped meanwhile.
func (d *DB) VerifyChecksum(ctx context.Context) error {
	for _, cf := range d.ColumnFamilies() {
		sv := cf.tree.Acquire()
		if sv == nil {
			if err := cf.unusable(); !errors.Is(err, ErrColumnFamilyDropped) {
				return err
			}
			continue
		}
		err := d.verifyTables(ctx, cf, sv)
		sv.Release()
		if err != nil {
			return cf.readError(err)
		}
	}
	return nil
}

func (d *DB) verifyTables(ctx context.Context, cf *ColumnFamily, sv *lsm.Superversion) error {
	for _, f := range sv.Version().All() {
		h, err := d.tables.Get(f.Num, f.Size, f.LargestSeq, cf.tablesAt(1))
		if err != nil {
			return err
		}
		err = h.Reader().VerifyChecksums(ctx)
		h.Release()
		if err != nil {
			return err
		}
	}
	return nil
}
