package manifest

// Reading a manifest back. Nothing is written here.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/vfs"
	"github.com/ashlardb/ashlar/wal"
)

// Recover reads the manifest that CURRENT names. It writes nothing. If there is no CURRENT the error matches
// fs.ErrNotExist; if the options do not fit, ErrMismatch; damage is a *corrupt.Error with the manifest's path.
func Recover(fsys vfs.FS, dir string, o Options) (*VersionSet, error) {
	num, err := CurrentManifest(fsys, dir)
	if err != nil {
		return nil, err
	}
	vs := newSet(fsys, dir, o)
	r := replay{path: vs.path(num), o: vs.o, b: newBuilder(vs.o, nil)}
	if err := r.read(fsys); err != nil {
		return nil, err
	}
	s, err := r.finish()
	if err != nil {
		return nil, err
	}
	if r.torn {
		if err := vs.checkPresent(s, &r); err != nil {
			return nil, err
		}
	}
	if s.dbid == "" {
		s.dbid = vs.o.DBID
	}
	vs.firstLog = s.minLog
	if r.b.sawMinLog {
		vs.firstLog = r.b.next.minLog
	}
	vs.number.Store(num)
	vs.MarkFileNumUsed(max(num, r.b.maxNum))
	if r.b.nextFile > 0 {
		vs.MarkFileNumUsed(r.b.nextFile - 1)
	}
	vs.begin(s)
	return vs, nil
}

// replay is a manifest being read.
type replay struct {
	path string
	o    *Options
	b    *builder

	group   []groupEdit // an atomic group whose end has not come yet
	records int
	torn    bool
	tornAt  int64
}

// groupEdit is an edit that waits for the rest of its group.
type groupEdit struct {
	edit *Edit
	off  int64
}

func (r *replay) read(fsys vfs.FS) (err error) {
	f, err := fsys.Open(r.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return err
	}
	log := wal.NewReader(f, size, r.path, 0)
	for {
		rec, off, err := log.Next()
		switch damage := (*wal.Damage)(nil); {
		case errors.Is(err, io.EOF):
			r.atEnd(size)
			return nil
		case errors.As(err, &damage) && damage.Kind == wal.TornTail:
			r.torn, r.tornAt = true, damage.Offset
			r.o.Logf("%s: the unfinished record at %d is ignored", r.path, damage.Offset)
			r.atEnd(damage.Offset)
			return nil
		case err != nil:
			return err
		}
		if err := r.record(rec, off); err != nil {
			return err
		}
	}
}

// atEnd drops a group that was cut short.
func (r *replay) atEnd(off int64) {
	if len(r.group) > 0 {
		r.o.Logf("%s: the unfinished atomic group at %d is ignored", r.path, r.group[0].off)
		if !r.torn {
			r.torn, r.tornAt = true, off
		}
		r.group = nil
	}
}

// record takes the next record.
func (r *replay) record(rec []byte, off int64) error {
	r.records++
	e := new(Edit)
	if err := e.Decode(r.path, off, rec); err != nil {
		return err
	}
	if n := len(r.group); n > 0 {
		before := r.group[n-1].edit.Remaining
		if !e.InGroup || e.Remaining != before-1 {
			return corrupt.At(r.path, off, "an atomic group of edits is broken: %d were still to come", before)
		}
	}
	if e.InGroup {
		r.group = append(r.group, groupEdit{e, off})
		if e.Remaining > 0 {
			return nil
		}
		for _, g := range r.group {
			if err := r.apply(g.edit, g.off); err != nil {
				return err
			}
		}
		r.group = nil
		return nil
	}
	return r.apply(e, off)
}

func (r *replay) apply(e *Edit, off int64) error {
	return r.blame(r.b.apply(e), off)
}

// blame makes an error about an edit one about the file, unless it is about the options.
func (r *replay) blame(err error, off int64) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrMismatch):
		return fmt.Errorf("%s: %w", r.path, err)
	}
	return corrupt.At(r.path, off, "edit: %w", err)
}

func (r *replay) finish() (*state, error) {
	for _, need := range []struct {
		saw  bool
		what string
	}{
		{r.b.sawLog, "a log number"}, {r.b.sawNextFile, "a next file number"}, {r.b.sawLastSeq, "a last sequence"},
	} {
		if !need.saw {
			return nil, corrupt.At(r.path, -1, "none of its %d edits has %s", r.records, need.what)
		}
	}
	s, err := r.b.finish()
	if err != nil {
		return nil, r.blame(err, -1)
	}
	if _, err := s.byNumber(); err != nil {
		return nil, r.blame(err, -1)
	}
	return s, nil
}

// checkPresent looks for the tables of a manifest whose end is missing. It may have lost more than what was never
// acknowledged, and then tables that it names have been deleted since.
func (vs *VersionSet) checkPresent(s *state, r *replay) error {
	all, err := s.byNumber()
	if err != nil {
		return r.blame(err, -1)
	}
	for num := range all {
		if err := vs.stat(fname.Make(fname.Table, num)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := vs.stat(fmt.Sprintf("%06d.ldb", num)); errors.Is(err, fs.ErrNotExist) {
			return corrupt.At(r.path, r.tornAt, "it ends inside an edit, and %s, named before, is gone", fname.Make(fname.Table, num))
		}
	}
	return nil
}

func (vs *VersionSet) stat(name string) error {
	_, err := vs.fs.Stat(vs.fs.Join(vs.dir, name))
	return err
}
