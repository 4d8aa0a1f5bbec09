// Package groupsim is a model of group commit: a discrete-event simulation of writers, the cores they run on, and what it
// costs to wake one. It says what the √n cascade of package writegroup would bring on machines that are not at hand.
// Whatever comes out of it is a prediction of a model, and has to be called that wherever it stands.
//
//	Machine   cores; wake: what the waker pays; hop: until an idle core has come; switch: until the woken runs
//	Work      think, prepare, log, insert, publish: what a writer does between and in its commits
//	Way       one by one; launch (RocksDB 9.3: cascade to insert, one by one to say done); cascade (both)
//	      │
//	      ▼
//	  Run ──> Result: commits a second, members of a group, the critical path
//
// Simulated writers go through the steps of writegroup's queue: push, lead or wait, prepare, gather, log, launch, insert,
// publish, hand over, say done. Time passes only where a writer spends it.
//
// # What is in it
//
//   - A core runs one writer until that sleeps. Who is woken and finds no idle core waits in one line, first come, first
//     served.
//   - Threads: the kernel sends a woken thread to an idle core, which takes a hop.
//   - Goroutines (Machine.Chain): the woken go into the line. The runtime wakes one idle core at a time, which takes a hop,
//     and the next one once that has found work; a core whose writer goes to sleep takes the next from the line at once.
//   - A waiting writer may look for a while before it sleeps (Machine.Look, as RocksDB's writers do). It holds its core
//     meanwhile, and waking it costs its waker a touch. Only where there is a core for each writer.
//
// # What is not in it
//
// Memory: caches, bandwidth, sockets, contention for the queue's head and for the memtable's links. Preemption, other
// work on the machine, flushes, compactions and stalls. Costs do not vary. RocksDB's pipelined writes. So it overstates
// whatever would be bounded by these: read its ratios as an upper bound, and its absolute numbers not at all.
//
// # Against what is at hand
//
// Calibrate measures Machine's costs with goroutines, with goroutines locked to threads, or with bare futexes. Measure
// runs the real queue with a group of any size, and says what its critical path took. Command groupsim prints both side
// by side.
//
// # Thread safety
//
// A run has everything to itself; runs may go on at the same time. Calibrate and Measure want the machine for themselves.
package groupsim
