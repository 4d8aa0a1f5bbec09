// Package raftapply applies the committed logs of many raft groups to one database, so that no group stands in the way of
// the others. It knows no raft library: entries come in with Send, results come out in callbacks.
//
//	  Send         Send        Send             one mailbox per region
//	   |            |           |
//	region 1     region 2    region 3
//	    \           |          /
//	     `--->  run queue  <--'                 regions with work, each once, first come first served
//	            |       ^ |
//	  one at a  |       | |   yields: goes      low-priority lane, for range deletes:
//	  time      v       | v   behind the rest   a queue and workers of its own
//	         worker   worker
//	            |        |                      Apply, entry by entry, into the worker's one batch,
//	         batch     batch                    shared by regions and column families
//	            |        |
//	            v        v                      data and ApplyState in the same write
//	        the engine's write queue
//	            |
//	            v
//	    Done of each proposal, then OnApplied
//
// # The rule
//
// A worker takes a region and applies its entries until there are none, in one turn. Before each entry it looks at the
// batch, and writes it first if it holds more than MaxBatchKeys keys or MaxBatchBytes bytes, whoever they are of. Right
// after such a write, and only then, it asks whether the region has written ApplyYieldWriteSize bytes in this turn, or
// has had it for ApplyYieldDuration. If so the region yields: it goes to the end of the run queue with the rest of its
// work, which it will do in its own order, and the others come first.
//
// So a yield costs no write, leaves nothing half done, and a region that has a million entries waiting delays another one
// by a batch, not by a million entries. The words and the defaults are TiKV's, and so is the rule, with these differences:
// a batch is also full by its bytes; the bytes count for the turn, not for the task; a region that yields goes to the run
// queue that all workers share, rather than staying with its worker; an entry without keys counts as one key; settings
// change while it runs; errors are returned.
//
// # What is promised
//
//   - Each entry takes effect once, whatever crashes: its writes and the ApplyState that counts it are in one batch. An
//     entry is never split. Who opens a database again sends what follows ApplyState.Applied; entries that are in are skipped,
//     and a gap is an error.
//   - Within a region, entries, callbacks and Applied come in the order of the log, and a region is with one worker at a
//     time. Between regions there is no order.
//   - No callback before the write that it is about. Each Proposal is answered once, whatever happens.
//   - An entry for a region that is idle waits for one turn of each region before it and one batch more, at most: see the
//     bound in docs/raft-apply.md. Result.Foreign measures it.
//   - A region that is poisoned or removed stops nobody else.
//
// The callback says that the entry is readable, and that it will be there again after a crash because the log has it. It
// does not say that the engine's own log is synced. So a raft log may be cut only up to an ApplyState that is durable:
// sync the engine's log first if raft's is elsewhere.
//
// What is not bounded is what the engine does: a stalled write stalls every region.
//
// # Trouble
//
// What every replica finds alike is a Result.Err: the entry's writes are taken back and the index moves on. An error of
// Apply, a panic or a gap poison the region, which stands still. A write that the engine refuses fails the System: whether
// it took effect is not known, so nothing goes on; close, open, and send again what follows each ApplyState.
//
// Callbacks run on workers and must not block; one that does delays every region. A panic in one is logged and counted.
//
// # Where things are
//
//	types.go, state.go, config.go, size.go, errors.go   what comes in and goes out
//	system.go   the regions, and what can be done with them      queue.go   the run queue and its lanes
//	region.go   a region's mailbox, its turn, its batch          worker.go  rounds, turns, the yield rule
//	write.go    the write, callbacks, removal, failure           stats.go   what is counted
//
// kvsm is a state machine that is ready to use.
package raftapply
