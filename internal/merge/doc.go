// Package merge holds what is done with merge operands: calling the user's operator so that nothing he does can hurt,
// collecting operands on a walk, and the operators that RocksDB has built in.
//
//	Put k=a @2   Merge k,b @5   Merge k,c @7          newest first in a table: c@7  b@5  a@2
//
//	a read at 7   walks c, b, a and asks for Full(existing a, operands b c): "a,b,c" with StringAppend(",")
//	a compaction  that meets c and b but not a asks for Partial(b c): Merge k,"b,c" @7
//
// Walks to the older versions meet operands newest first, walks backwards oldest first; operators are always given them
// oldest first.
//
// Operators must be usable by many goroutines at once, as the built-in ones are. An Operands belongs to one goroutine.
package merge
