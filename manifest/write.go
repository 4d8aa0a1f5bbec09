package manifest

// Writing the manifest: appending to the one in use, or beginning a new one.

import (
	"errors"
	"fmt"

	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/wal"
)

// snapshotRatio is how many times as long as its snapshot a manifest gets before it is replaced.
const snapshotRatio = 5

// write brings edits, which change s, to the disk.
func (vs *VersionSet) write(s *state, edits []*Edit) error {
	if vs.writer != nil {
		size := vs.writer.Size()
		if size < vs.o.MaxManifestSize || size/snapshotRatio < vs.snapshot {
			return vs.appendEdits(edits)
		}
	}
	return vs.rollOver(s, edits)
}

// appendEdits appends edits to the manifest in use. After an error that manifest is not written to again.
func (vs *VersionSet) appendEdits(edits []*Edit) error {
	if len(edits) == 0 {
		return nil
	}
	vs.stamp(edits)
	err := vs.appendTo(vs.writer, edits)
	if err == nil {
		err = vs.writer.Sync()
	}
	if err != nil {
		num := vs.number.Load()
		vs.abandonWriter()
		return fmt.Errorf("%s: %w", vs.path(num), err)
	}
	return nil
}

// stamp writes the next file number into edits. Every number that they use has been taken by now.
func (vs *VersionSet) stamp(edits []*Edit) {
	next := vs.next.Load()
	for _, e := range edits {
		e.NextFile = &next
	}
}

// appendTo appends edits to w, one record each.
func (vs *VersionSet) appendTo(w *wal.Writer, edits []*Edit) error {
	var buf []byte
	for _, e := range edits {
		buf = e.Append(buf[:0])
		if err := w.Append(buf); err != nil {
			return err
		}
	}
	return nil
}

// abandonWriter closes the manifest in use; what its end looks like is not known. It stays the one that CURRENT names.
func (vs *VersionSet) abandonWriter() {
	if vs.writer == nil {
		return
	}
	if err := vs.writer.Close(); err != nil {
		vs.o.Logf("closing manifest %06d after it failed: %v", vs.number.Load(), err)
	}
	vs.writer = nil
}

// rollOver begins a new manifest: s, then edits. When CURRENT names it on disk the older ones are obsolete.
func (vs *VersionSet) rollOver(s *state, edits []*Edit) error {
	num := vs.NewFileNum()
	path := vs.path(num)
	vs.stamp(edits)
	w, snapshot, err := vs.writeNew(path, s, edits)
	if err != nil {
		// CURRENT cannot name it.
		if rm := removeIfThere(vs.fs, path); rm != nil {
			vs.o.Logf("%s cannot be removed after it failed: %v", path, rm)
			vs.failed = append(vs.failed, num)
		}
		return fmt.Errorf("new manifest %s: %w", path, err)
	}
	if err := setCurrent(vs.fs, vs.dir, num); err != nil {
		// It may name it: both stay until a later one takes over from both. The old one gets no more edits, since they
		// would be lost if CURRENT does name the new one.
		vs.failed = append(vs.failed, num)
		vs.abandonWriter()
		return errors.Join(fmt.Errorf("CURRENT of %s: %w", vs.dir, err), w.Close())
	}
	vs.abandonWriter()
	vs.giveUp(append(vs.failed, vs.number.Load()))
	vs.failed = nil
	vs.writer, vs.snapshot = w, snapshot
	vs.number.Store(num)
	return nil
}

// writeNew writes a whole manifest and syncs it and its name. snapshot is the length of the part before edits.
func (vs *VersionSet) writeNew(path string, s *state, edits []*Edit) (w *wal.Writer, snapshot int64, err error) {
	f, err := vs.fs.Create(path)
	if err != nil {
		return nil, 0, err
	}
	w = wal.NewWriter(f)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
			w = nil
		}
	}()
	if err := vs.appendTo(w, s.records(vs.next.Load())); err != nil {
		return w, 0, err
	}
	snapshot = w.Size()
	if err := vs.appendTo(w, edits); err != nil {
		return w, 0, err
	}
	if err := w.Sync(); err != nil {
		return w, 0, err
	}
	return w, snapshot, vs.fs.SyncDir(vs.dir)
}

// giveUp hands manifests to ObsoleteManifests. Number 0 is none.
func (vs *VersionSet) giveUp(nums []uint64) {
	vs.live.Lock()
	defer vs.live.Unlock()
	for _, num := range nums {
		if num != 0 {
			vs.obsolete = append(vs.obsolete, num)
		}
	}
}

// path is where manifest num is.
func (vs *VersionSet) path(num uint64) string {
	return vs.fs.Join(vs.dir, fname.Make(fname.Manifest, num))
}
