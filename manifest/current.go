package manifest

// CURRENT is one line, the name of the manifest in use. It is replaced as a whole: the new text goes into a temporary
// file, is synced there, and takes the name over.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/vfs"
)

// maxCurrent bounds what is read of a CURRENT; a right one has 16 bytes or a few more.
const maxCurrent = 256

// CurrentManifest returns the number of the manifest that CURRENT names. If there is no CURRENT the error matches
// fs.ErrNotExist: the directory holds no database.
func CurrentManifest(fsys vfs.FS, dir string) (uint64, error) {
	path := fsys.Join(dir, fname.Make(fname.Current, 0))
	text, err := readSmall(fsys, path)
	if err != nil {
		return 0, err
	}
	line, ok := strings.CutSuffix(text, "\n")
	if !ok {
		return 0, corrupt.At(path, int64(len(text)), "it does not end with a newline")
	}
	kind, num, ok := fname.Parse(line)
	if !ok || kind != fname.Manifest {
		return 0, corrupt.At(path, 0, "it names %q, which is no manifest", line)
	}
	return num, nil
}

// readSmall returns a file's text, cut at maxCurrent.
func readSmall(fsys vfs.FS, path string) (text string, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, maxCurrent)
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return string(buf[:n]), nil
}

// setCurrent makes CURRENT name a manifest, which is on disk. After an error it names the old one or the new one.
func setCurrent(fsys vfs.FS, dir string, num uint64) error {
	temp := fsys.Join(dir, fname.Make(fname.Temp, num))
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, fname.Make(fname.Manifest, num)+"\n")
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, removeIfThere(fsys, temp))
	}
	if err := fsys.Rename(temp, fsys.Join(dir, fname.Make(fname.Current, 0))); err != nil {
		return errors.Join(err, removeIfThere(fsys, temp))
	}
	return fsys.SyncDir(dir)
}

func removeIfThere(fsys vfs.FS, path string) error {
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// checkNoCurrent refuses to make a database where there is one.
func checkNoCurrent(fsys vfs.FS, dir string) error {
	path := fsys.Join(dir, fname.Make(fname.Current, 0))
	switch _, err := fsys.Stat(path); {
	case err == nil:
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return err
	}
}
