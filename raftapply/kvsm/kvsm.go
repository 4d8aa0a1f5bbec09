// Package kvsm is a state machine for raftapply: puts, deletes, range deletes and comparisons over column families.
package kvsm
