package vfs

import "io"

// ReadFile returns a file's content.
func ReadFile(fs FS, name string) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, 0, size))
}

// WriteFileAtomic puts content into the file name, or leaves what was there: it writes and syncs temp, renames it, and
// syncs the directory.
func WriteFileAtomic(fs FS, temp, name string, content []byte) error {
	f, err := fs.Create(temp)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fs.Rename(temp, name)
	}
	if err != nil {
		_ = fs.Remove(temp)
		return err
	}
	return fs.SyncDir(fs.Dir(name))
}
