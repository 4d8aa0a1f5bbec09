// Package vfs is the file system that an Ashlar database lives on, as an interface and in two forms: OS, the operating
// system's, and Mem, which lives in memory and can crash. Package faultfs wraps either and makes calls fail by rule.
//
// # What survives
//
// A crash of the process keeps everything that Write has returned for. A crash of the machine keeps
//
//   - of a file's bytes, what was there when Sync last returned without error, and perhaps some of what came later;
//   - of a directory's names, what was there when SyncDir last returned without error, and perhaps some of what came
//     later.
//
// Of a file that is written through memory (Mapper) a crash of the machine may keep any page and lose an earlier one.
// So a new file is safe when it was synced and then its directory was. A new directory is a name in the one above it.
//
// # Errors
//
// Errors are those of the os package: *fs.PathError with the name in it (*os.LinkError from Rename and Link), matching
// fs.ErrNotExist, syscall.ENOSPC and so on. A Write that returns an error may have put any part of its bytes into the
// file, whatever n it returns.
package vfs
