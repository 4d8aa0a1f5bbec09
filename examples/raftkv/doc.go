// Raftkv is a replicated key-value store: three processes, each with an Ashlar database, that agree through raft. It shows
// how to outgrow one machine: with a consensus library that is there already (go.etcd.io/raft), its logs and data in one
// database (raftapply/etcdraft), and many regions applied by few workers (raftapply).
//
//	go run . up
//
// starts three nodes and prints how to talk to them. Package node has the HTTP interface, package store what is replicated,
// package peer what goes over the network, package client a client that finds the leader and does each command once.
// Package itest kills nodes, stops them, cuts them off and cuts the power, and checks what clients saw.
//
// Keys belong to regions, fixed ranges with a raft group each; a command is of one region. Every node has a replica of
// every region. It is an example: nothing is encrypted, nobody has to log in, and regions are never split.
package main
