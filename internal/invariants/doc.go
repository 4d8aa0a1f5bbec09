// Package invariants switches expensive checks on with the build tag "invariants". Code writes
//
//	if invariants.Enabled {
//		…check, and panic with what is broken…
//	}
//
// and normal builds drop it. A check guards a rule that the code itself must keep; bytes from disk are never a reason
// to panic.
package invariants
