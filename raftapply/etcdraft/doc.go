// Package etcdraft runs raft groups of go.etcd.io/raft on an Ashlar database, and applies what they agree on with
// raftapply. It is a module of its own, so that the engine's depends on neither raft nor protobuf.
//
//	         Propose, ReadIndex            messages
//	                |                   in |      ^ out, by Transport
//	+---------------v----------------------v------+----+
//	| Group: one goroutine, one raft.RawNode           |  ... and others
//	+--+-------------^------------------+-----------^--+
//	   | MsgStorage- | responses        | Msg-      | Applied: a part of
//	   v Append      |                  v Storage-  | what was handed over
//	+----------------+-------+      +-----Apply-----+------------+
//	| appender: one batch,   |      | raftapply.System: workers, |
//	| one sync for all groups|      | a shared batch, turns      |
//	+----------------+-------+      +---------------+------------+
//	                 |                              |
//	                 v      one write-ahead log     v
//	+---------------------------------------------------------------+
//	| ashlar.DB   family "raft": logs, HardStates, members,         |
//	|             ApplyStates;  families of yours: the data         |
//	+---------------------------------------------------------------+
//
// A Node is a machine: a database, a raftapply.System, and the groups that have a replica here. A Group is such a replica.
// A Transport is yours: it carries messages between Nodes. So is the state machine of each group, a
// raftapply.StateMachine, and the Spans of the database that it writes.
//
// # Beginning
//
// The replicas of a new group are all started with the same GroupConfig.Members. One that is added later is started without,
// and then made a member by Group.ProposeConfChange at the leader; it gets its data as a snapshot. A replica that is removed
// ends as Group.Removed says, is closed, and its data deleted with Node.Wipe. Names of replicas are used once.
//
// # What is durable when
//
//   - Votes and entries are synced before any other replica hears of them. Groups share syncs.
//   - Propose returns when the entry is applied here: written and visible, not synced, since the logs of a majority are. A
//     change of members is synced.
//   - The data and how far it is (the ApplyState) are one write, and so are the members. After any crash each entry has
//     taken effect once or not yet, and the rest is applied again from the log.
//   - The log is cut only up to what is applied. Both are in one write-ahead log, the cut behind: no crash leaves the cut
//     alone. Do not put a group's data into writes without the log (WriteOptions.DisableWAL). How much is kept for
//     replicas that are behind, in entries and in bytes, Config says; the end of the log is kept in memory too.
//
// # Reading
//
// A Get on the database shows what is applied here, which may be behind. To see everything that was acknowledged before,
// at any replica:
//
//	index, err := group.ReadIndex(ctx)
//	...
//	err = group.Read(ctx, index, func() error { value, err = db.Get(key, nil); return err })
//
// # Exactly once
//
// Propose tells an effect from none wherever that can be known. Where it cannot (ctx ended, ErrUnknown, ErrStopped), who
// proposes again may do a thing twice, unless the state machine knows the command by a number of its own: a table of the
// last number and result of each client, written with the data and in a Span, makes retries harmless.
//
// # When something fails
//
// A state machine that returns an error, a log that contradicts what a leader says, a panic in raft: that group stops
// (Group.Done, Group.Err), others go on, and the other replicas find a leader. A write that the database refuses stops all
// groups. Opening anew finds out what was written.
package etcdraft
