// Package peer carries raft's messages between nodes: one long POST for each peer, and one for each snapshot.
//
// It loses messages rather than wait: a full queue and a broken connection drop what they hold, which raft makes good.
// Not everything that comes in is believed: a message must be for this node, from a node, and of a type that travels.
package peer
