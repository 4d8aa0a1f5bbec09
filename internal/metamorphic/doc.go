// Package metamorphic runs one list of operations on the model and on databases with many different options, over a file
// system in memory. Memtable sizes, levels, filters, caches, formats: none of it may be seen from outside, so every
// database has to give the model's answers, word for word.
//
//	            ┌─> Twin    (package model)        history ─┐
//	Generate ───┼─> Engine  (options A)            history ─┼─ equal?
//	 (a seed)   └─> Engine  (options B, reopened            │   no: Shrink, and print a play
//	                         with options C, …)    history ─┘
//
// Operations are values. Each is a line of text, the same that plays (package script) are written in, so that a failure
// is printed as a file that can be kept:
//
//	open target=4096 levels=3
//	put k1 v17~200
//	flush
//	get k1
//
// A value "v17~200" stands for 200 bytes that begin with its name and go on at random; histories and plays show the short
// form, and a value that was damaged shows in full.
//
// Beside the answers, each run demands that DB.Check is clean at its end, and that Close leaves no goroutine and no
// memory outside of the Go heap.
//
// It is for tests. "go test ./internal/metamorphic -runs 1000" does a long run, "-seed N" repeats one.
package metamorphic
