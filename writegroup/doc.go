// Package writegroup lets many goroutines write as one. Whoever comes first leads: it takes those who queued up behind it
// into a group, writes one record to the log for all of them, and then everybody inserts its own work at the same time.
// The last one to finish makes the whole group visible, and leadership goes to the oldest who is still waiting. A group
// that has to be synced gives leadership away first: while it is, the next ones are logged and inserted.
//
// The package knows nothing of logs, memtables or databases. What it cannot do itself it asks of Stages:
//
//	Commit ──> queue ──> leader: Prepare ─ gather (Admit, Size) ─ Log
//	                                          │
//	              leader, helpers, members: Insert, Insert, Insert …
//	                                          │
//	                 last one to finish: Publish ─ detach ─ hand over ─ wake
//	                                  or: list ─ detach ─ hand over ─ Sync ─ Publish, Publish … ─ wake
//
//	pipelined:   … Log ─ line ─ detach ─ hand over ─ (its turn) ─ Insert … ─ Publish, or list ─ next one's turn ─ wake
//
// # Why √n
//
// To insert side by side, the members of a group must be woken, and a wake costs its waker 60 to 200 ns in Go (several µs
// where it is a futex). A leader of a thousand writers that wakes them one after the other spends longer on that than on
// the log. So from 20 members on, the leader wakes √n-1 helpers first, and then every √n-th member; each helper does the
// same for its own residue class before it inserts. The leader makes at most 2√n wakes, nobody is woken twice for it,
// and the longest chain is one hop deeper. It is the rule of RocksDB since pull request 12545 (9.3), where writers are
// threads; the group here is a slice, so a helper finds its share by index where RocksDB walks the list of all members.
// File cascade.go has the picture.
//
// The same cascade says "done": to a group that its leader inserted alone, and to one that was spread, where the last one
// to finish takes the leader's place in it.
//
// # The last four steps
//
// The order is: publish, detach, hand over, wake. Publish comes first because an empty queue lets the next writer lead at
// once: if the group left the queue before it was visible, a later group could become visible earlier, and readers would
// see the database go backwards. (It was tried, and the race test caught it.) Detach comes before any member is woken,
// because a member that returns gives its seat back to the pool, and nothing in the queue may point to it then. Hand over
// comes before the wakes because the next leader has work to do, and the members have none.
//
// # Sync
//
// A group whose Log asks for a sync, and every group that comes while one waits, goes into the list of unsettled groups.
// One Sync answers all that are in the list when it begins. It is done by the member that closed the oldest of them,
// which then publishes them in order, together with those that came meanwhile and need none, and lets the closer of the
// oldest that is left do the next. There is no goroutine beside the writers', and the closer of each group tells its own
// members. So nothing is acknowledged or visible before it is as safe as was asked, later groups are not visible before
// earlier ones, and those that asked for nothing wait only where they come behind one that did.
//
// What the stages have to know: Publish and Sync may run beside Prepare, Log and Insert of later groups, so they keep to
// what the group itself says. Prepare calls Drain before it changes what unpublished groups have inserted into. And a
// group that failed in Insert or Sync leaves its works inserted, as do those behind it, which fail too: Prepare lets
// nobody in until they are out of the way. File settle.go has the invariants.
//
// A group without a sync, with nobody unsettled before it, pays two loads for all this.
//
// # Pipelining
//
// A Queue that is Pipelined hands the lead over right behind Log, so that the next group is logged while this one is inserted.
// Logged groups stand in line, in the order of the log, and have their turn one after the other: to insert, then to be
// published or to join the unsettled ones. So inserts of two groups never overlap, and all that was said of failures and
// of the order of publishing holds. It costs one more handing over for each group. Log and Prepare call AwaitInserts
// before they look at what groups before have inserted; Drain waits for that too. File pipeline.go has the invariants.
// RocksDB's second queue, of EnablePipelinedWrite, joins groups of the log into larger ones for the memtables; the line
// here does not.
//
// # Queue and seats
//
// A writer takes a seat from the queue's pool and links it with one compare-and-swap. The links from newer to older are
// made by the writers; those from older to newer by whoever holds the queue's small lock, which a writer without company
// never takes. A seat leaves the queue as part of a group, or by withdrawing when its context ends or a stall refuses
// it; both happen under the lock, so that a work is written or refused and never both.
//
// A leader looks at everybody behind it, oldest first, and Admit says what becomes of each: it joins, it is passed over, or
// it closes the group. Those who join move ahead of those passed over, so that the group stays one piece at the old end
// of the chain; the oldest of those passed over is then the next leader. So writers of two kinds, synced ones and others,
// say, form two large groups and not many small ones, and nobody waits for more groups than there are writers before it.
// RocksDB does the same since pull request 12138. An Exclusive is not passed over.
//
// # Looking inside
//
// Stats counts what a queue does, always. Trace is told when each group got where, which costs looks at the clock. Wake
// sets the one-by-one wake-up that the cascade is compared with.
//
// # What was measured
//
// With 2 cores, other work beside it, one process and interleaved; ratios count, not absolutes.
//
//   - Saying done to n sleeping members, time of the one who says it, medians: one by one 10, 38, 163, 600 µs for n = 20,
//     64, 256, 1000; by the cascade 6, 11, 21, 56 µs; by closing one channel, which every member would have to select on
//     beside its own, 7, 17, 61, 279 µs. All are awake after about the same time. So: the cascade, and no channel made
//     per group.
//   - Looking at the state in a tight loop before sleeping, with a log of 4 µs a group and inserts of 1 µs, 256 writers,
//     spread: 2.3 µs a commit without; 2.3 to 4.0 with 30 looks; 2.7 to 3.0 with 300. So: none.
//   - Yielding to other goroutines before sleeping, which looks no more often than there is nothing else to do. With 8 writers
//     that sleep at once, a processor without work goes to sleep and is woken again 0.1 times a write; that costs a futex,
//     and, where the kernel puts the woken thread behind the one that runs, the rest of its slice: 2 to 4 ms. fillrandom by 8
//     writers, medians of 3 rounds, with 0, 24 and 32 yields: 202k, 201k and 223k writes/s, p99.9 4.0, 4.0 and 2.4 ms,
//     119, 24 and 9 sleeps of threads a thousand writes; fillseq: 355k, 459k and 372k, p99.9 2.8, 0.4 and 0.4 ms. By 2
//     writers no difference. By 64, of whom 16 may yield, 239k, 259k and 231k, 359k, 316k and 399k: within what rounds
//     differ. So: 32 times, by 8 writers a processor at most (Queue.Yields).
//   - A writer alone pays 80 ns beyond its stages and allocates nothing. Its group lies in its seat: from the pool, and
//     with a recover of their own for Log and Insert, it was 130 ns and more.
//
// # Thread safety
//
// All methods of Queue may be called from many goroutines; its fields are set before the first Commit. Stages.Prepare,
// Admit, Size and Log are called by one goroutine at a time, and so are Sync and Publish, where there is a Sync, or a
// pipelined queue, beside the others; Insert by many when Log said so. A stage must not call Commit or Exclusive on its own
// queue.
package writegroup
