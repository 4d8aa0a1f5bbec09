// Package itest holds raftkv to what it promises while everything goes wrong.
//
// Three nodes serve five clients, which write unique values, compare, delete and read. Meanwhile nodes are killed and started
// again (one, a leader, all), stopped and continued, cut off (a leader, one way, a bridge), added and removed, left behind
// until they need a snapshot, and told to yield at other sizes. What the clients saw is then checked to be linearizable by
// porcupine: a history that is not fails, with a picture of it in a file, and so does one that could not be decided. In the end
// the replicas must be equal.
//
// A killed process leaves what it wrote with the operating system, so that says nothing about syncs. For these the nodes
// run in the test's process on file systems in memory, whose power is cut: what was not synced is lost, in part or whole.
//
//	go test ./itest                                             some seconds
//	ASHLAR_LONG=1 go test -timeout 60m -v ./itest               a minute for each of five seeds
//	go test ./itest -run Nemesis -v -duration 30s -seeds 7,8     as you say
package itest
