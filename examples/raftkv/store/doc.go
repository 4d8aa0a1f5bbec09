// Package store is what raftkv replicates: a region's keys and values in three column families, the commands that change
// them, and the sessions that let a client send a command twice and have it done once.
//
// # What is where
//
// The layout is TiKV's, less its many versions. S is the index of the log entry that brought a value:
//
//	default   z region key S -> the value
//	write     z region key   -> S: the value that readers see
//	lock      z region key   -> S: a value that is there and is not to be seen yet
//	raft      1 4 region client -> the client's last command and how it ended
//
// Region and client are 8 bytes big endian, and so is S. A put writes default and write, and removes the value that was
// seen before. A bulk insert comes in two steps: Prewrite writes default and lock, as many entries as it takes, and Commit
// writes write and removes the lock, so that it moves few bytes. Between the two the key is locked: other writes are refused.
//
// # Twice sent, once done
//
// A client has a number and gives each command the next number of a sequence; one command at a time. The outcome of its last
// command is stored in the same batch as the command's writes, so a command that comes again is answered from there. A
// region remembers MaxSessions clients, those that wrote last by the order of the log, which is the same on all replicas. A
// command that is sent again only after so many others came in between may be done twice.
package store
