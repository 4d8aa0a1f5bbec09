// Package etcdraft runs raft groups of go.etcd.io/raft on one Ashlar database, and applies them with raftapply.
package etcdraft
