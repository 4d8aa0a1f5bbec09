// Package raftapply applies the committed logs of many raft groups to one database, so that no group stands in the way of
// the others.
package raftapply
