package lsm

import (
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/manifest"
	"github.com/ashlardb/ashlar/memtable"
	"github.com/ashlardb/ashlar/sstable"
)

// Latest returns the sequence number of the newest version of a key in the memtables, history included, 0 if they have none, and since:
// a key without a later version there was not written after since.
func (s *Superversion) Latest(key []byte) (seq, since kv.Seq) {
	if seq = latestIn(s.mem, key); seq > 0 {
		return seq, s.mem.Since
	}
	since = s.mem.Since
	for _, mems := range [][]*Mem{s.imm, s.history} {
		for _, m := range mems {
			if seq = latestIn(m, key); seq > 0 {
				return seq, m.Since
			}
			since = m.Since
		}
	}
	return 0, since
}

// latestIn asks one memtable. A range delete is a version of every key that it covers.
func latestIn(m *Mem, key []byte) (seq kv.Seq) {
	var it memtable.Iterator
	it.Init(m.Table)
	if e := it.SeekGE(kv.SeekKey(key, kv.MaxSeq), nil); e != nil && string(e.Key.User) == string(key) {
		seq = e.Key.Seq()
	}
	if m.HasTombstones() {
		for _, l := range m.AppendTombstones(nil) {
			seq = max(seq, l.Cover(key, kv.MaxSeq))
		}
	}
	return seq
}

// LatestAnywhere is Latest for the whole tree. It looks into tables too if the memtables do not know, and into those only
// that hold something later than after; so the answer is right if it is later than that, and else may be too low.
func (s *Superversion) LatestAnywhere(key []byte, after kv.Seq) (kv.Seq, error) {
	seq, since := s.Latest(key)
	if seq > 0 || since <= after {
		return seq, nil
	}
	for n := 0; n <= s.lastNon; n++ {
		for _, f := range s.levels[n].files {
			if f.LargestSeq <= after || !reaches(s.tree.cmp, f, key) {
				continue
			}
			found, err := s.latestInFile(f, n, key)
			if err != nil {
				return 0, err
			}
			if seq = max(seq, found); seq > after {
				return seq, nil
			}
		}
	}
	return seq, nil
}

func (s *Superversion) latestInFile(f *manifest.File, level int, key []byte) (seq kv.Seq, err error) {
	h, err := s.open(f, level)
	if err != nil {
		return 0, err
	}
	defer h.Release()
	if l := h.Reader().Tombstones(); l != nil {
		seq = l.Cover(key, kv.MaxSeq)
	}
	it := h.Reader().NewIter(sstable.IterOptions{})
	if e := it.SeekGE(kv.SeekKey(key, kv.MaxSeq), nil); e != nil && string(e.Key.User) == string(key) {
		seq = max(seq, e.Key.Seq())
	}
	return seq, it.Close()
}
