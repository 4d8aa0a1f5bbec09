package raftapply

// Stats is what a System has counted.
type Stats struct{}
