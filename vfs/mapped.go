package vfs

// Mapper is what a File may be besides: one that takes writes through memory, without a system call for each.
type Mapper interface {
	// Map makes the file at least off+size bytes long, zeros behind what is there, takes room on the disk for all of it,
	// and gives access to these bytes. off and size are multiples of 4096. An error leaves the file's content as it was,
	// but perhaps longer; it matches errors.ErrUnsupported where files cannot be mapped. Write is not to be used until
	// Truncate has said where it goes on.
	Map(off, size int64) (Mapping, error)
}

// Mapping is a part of a file as memory. Store belongs to one goroutine; Populate may be called beside it, and File.Sync
// beside both. None of them may be called after Close.
type Mapping interface {
	// Store puts p, of at least 8 bytes, into the file at off, which lies in the mapped part with all of p. When it has
	// returned, the bytes survive a crash of the process as after Write. If the process dies meanwhile, any of the bytes
	// may be there, but the first 8 only with all of the others: they are stored last, and at once. A crash of the
	// machine keeps of what was not synced any page, and loses any other. An error, as when a disk fails, says nothing
	// about what is there.
	Store(off int64, p []byte) error
	// Populate readies a part for Store, so that it does not wait for the system's memory. It changes nothing else, and
	// an error can be passed over.
	Populate(off, size int64) error
	// Close ends the access. The file stays as long as it is.
	Close() error
}

// MapsSafely tells whether fs is the operating system's, and dir on a file system of which it is known that a mapped file
// with room taken in advance keeps what was stored: ext4 (and its elders) and XFS on Linux.
func MapsSafely(fs FS, dir string) bool {
	_, ours := fs.(osFS)
	return ours && mapsSafely(dir)
}
