// Package faultfs wraps a vfs.FS and makes chosen calls fail. It is for tests.
//
// # Rules
//
// Trouble has a language, one rule a line:
//
//	fail write *.sst after 3             the fourth write to a table and all later ones
//	fail sync *.log once                 the first sync of a log
//	fail create MANIFEST-* with ENOSPC
//	fail write *.log once partial        half of the bytes get into the file; the call says n = 0
//	fail sync MANIFEST-* once late       the sync is done, and yet fails
//	fail any db/* after 10 times 2
//
// The operations are create open remove rename link mkdir list stat syncdir lock read write sync truncate map store close,
// and any. A store is one into a mapping of a file.
// The pattern is one of path.Match for the last element of the name, or for the whole name if it has a slash; a rename
// or link matches by either of its names. The words after it, in any order: after N (N matching calls pass), once,
// times N (then the rule is spent), with ENOSPC or EIO (the default) or another errno, partial, late.
//
// # Other kinds of trouble
//
// FailNth fails one call by its number, whatever it is, for loops over all places where a run can fail. FailFrom fails
// that call and all after it. LimitSpace is a disk that fills up.
//
// # Errors
//
// An injected error is a *fs.PathError with the operation, the name and the syscall.Errno. The call has not been passed
// on, with three exceptions: rules with partial or late, the write that fills the disk, and Close, which always closes.
//
// # Journal
//
// Record and Journal give the order of the calls that change something, as text: a missing fsync becomes a diff.
//
// All methods may be called from many goroutines.
package faultfs
