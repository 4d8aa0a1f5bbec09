// Package model is the dumb twin of a database: families of maps from keys to all their versions, and iterators that are
// sorted copies. It does in a hundred lines, with nothing clever in them, what the engine does in ten thousand, so that a
// test may ask both and compare.
//
//	family "users"                        a read at sequence number 7
//	  "ada" ─ [put v1 @2, delete @5, put v2 @9]      not found
//	  "bob" ─ [put v3 @3]                            v3
//
// Nothing is ever forgotten: a snapshot is a number, and a dropped family lives as long as somebody refers to it. There
// are no errors; who calls says only what makes sense (writing to a family that is gone does not).
//
// It is for tests. One goroutine at a time.
package model
