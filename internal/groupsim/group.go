package groupsim

import (
	"fmt"
	"time"

	"github.com/ashlardb/ashlar/writegroup"
)

// Machine is what waking costs.
type Machine struct {
	Name  string
	Cores int
	// Wake is what it costs the waker to wake one that sleeps.
	Wake time.Duration
	// Hop is how long it takes an idle core to come, and Switch how long a core needs to let the woken run.
	Hop, Switch time.Duration
	// Chain: writers are goroutines. One core comes at a time, and wakes the next when it has found work.
	Chain bool
	// Look is how long a waiting writer looks before it sleeps; Touch is what waking it costs until then. Where there
	// are fewer cores than writers, nobody looks.
	Look, Touch time.Duration
}

// Threads is a machine whose writers are threads, as RocksDB's are: its source says that a futex wakes its thread after 2.7 µs
// at best and 10 µs mostly, and that a writer yields for 100 µs before it sleeps. What the waker pays was measured with
// bare futexes (Calibrate).
func Threads(cores int) Machine {
	return Machine{Name: "threads", Cores: cores, Wake: 2 * time.Microsecond, Hop: 8 * time.Microsecond, Switch: 2 * time.Microsecond}
}

// Yielding is Threads with RocksDB's yielding before it sleeps.
func Yielding(cores int) Machine {
	m := Threads(cores)
	m.Name, m.Look, m.Touch = "yielding threads", 100*time.Microsecond, 100*time.Nanosecond
	return m
}

// Goroutines is a machine whose writers are goroutines, with costs as Calibrate has measured them on 2 cores.
func Goroutines(cores int) Machine {
	return Machine{Name: "goroutines", Cores: cores, Wake: 100 * time.Nanosecond, Hop: 5 * time.Microsecond, Switch: 200 * time.Nanosecond, Chain: true}
}

// Work is what writers do.
type Work struct {
	Think   time.Duration // between two commits: making the key, reading before an update
	Prepare time.Duration // by the leader
	Log     time.Duration // by the leader, for the group: the system call, and the sync if there is one
	LogEach time.Duration // by the leader, for each member: gathering it and copying its batch
	Insert  time.Duration // by each, or by the leader for all
	Publish time.Duration // by the last
}

// Typical is a write of 100 bytes into a memtable: a log of one system call, and one random insert.
var Typical = Work{
	Think: time.Microsecond, Log: 4 * time.Microsecond, LogEach: 150 * time.Nanosecond, Insert: 2 * time.Microsecond,
	Publish: 200 * time.Nanosecond,
}

// Way is how a group goes about its work.
type Way struct {
	Launch, Done writegroup.Wake // who wakes the members to insert, and tells them that they are done
	Alone        bool            // the leader inserts for all; there is no launch
}

// The ways that are compared.
var (
	OneByOne = Way{Launch: writegroup.WakeOneByOne, Done: writegroup.WakeOneByOne}     // RocksDB before 9.3
	Launched = Way{Launch: writegroup.WakeSquareRoot, Done: writegroup.WakeOneByOne}   // RocksDB since
	Cascade  = Way{Launch: writegroup.WakeSquareRoot, Done: writegroup.WakeSquareRoot} // writegroup
	Alone    = Way{Done: writegroup.WakeSquareRoot, Alone: true}
)

// String returns the way's name.
func (w Way) String() string {
	switch w {
	case OneByOne:
		return "one by one"
	case Launched:
		return "launch"
	case Cascade:
		return "cascade"
	case Alone:
		return "alone"
	}
	return fmt.Sprintf("launch %v, done %v, alone %v", w.Launch, w.Done, w.Alone)
}

// Result is what a run came to.
type Result struct {
	Commits, Groups int
	Time            time.Duration
	// Path is the sum of the groups' critical paths, from the leader's election to the hand-over. Launch is the part in
	// which the leader wakes members to insert, and Wakes how many.
	Path, Launch time.Duration
	Wakes        int
	// Last is the longest time from the beginning of a launch until a member began to insert.
	Last time.Duration
	// Told is the sum of the times from a hand-over until the last member knew that it was done.
	Told time.Duration
}

// PerSecond returns commits a second.
func (r Result) PerSecond() float64 { return float64(r.Commits) / r.Time.Seconds() }

// Members returns the mean size of a group.
func (r Result) Members() float64 { return float64(r.Commits) / float64(r.Groups) }

// run is a simulation of writers.
type run struct {
	sim
	work  Work
	way   Way
	left  int // commits not begun
	queue []*writer
	r     Result
}

// writer is a simulated writer.
type writer struct {
	*process
	run     *run
	goal    goal
	group   *group
	index   int
	arrived time.Duration
}

// goal is what a writer was woken for.
type goal uint8

const (
	toLead goal = iota
	toInsert
	toHelp // and to wake its share first
	toEnd
	toShare // and to wake its share first
)

type group struct {
	members  []*writer
	running  int
	elected  time.Duration
	launched time.Duration // when the launch began
	handed   time.Duration
}

// Run simulates that many commits by so many writers.
func Run(m Machine, w Work, writers int, way Way, commits int) Result {
	r := &run{work: w, way: way, left: commits}
	r.start(m, writers)
	for range writers {
		wr := &writer{run: r}
		wr.process = r.sim.start(func(*process) {
			for r.left > 0 {
				r.left--
				wr.spend(r.work.Think)
				wr.commit()
			}
		})
		defer wr.stop()
	}
	r.sim.run()
	r.r.Time = r.now
	return r.r
}

// RunGroup simulates one group of n, all of whom sleep when the leader is elected.
func RunGroup(m Machine, w Work, n int, way Way) Result {
	r := &run{work: w, way: way}
	r.start(m, n)
	for range n {
		wr := &writer{run: r}
		wr.process = r.sim.start(func(*process) {
			r.queue = append(r.queue, wr)
			wr.wait()
		})
		defer wr.stop()
	}
	r.sim.run()
	r.now += r.machine.Look + 1 // nobody looks any more
	begin := r.now
	r.elect(r.queue[0])
	r.sim.run()
	r.r.Time = r.now - begin
	return r.r
}

// elect makes w leader from outside.
func (r *run) elect(w *writer) {
	w.goal, w.woken = toLead, true
	if r.machine.Look == 0 {
		r.idle--
	}
	r.at(r.now, w.process)
}

func (r *run) start(m Machine, writers int) {
	if m.Cores < writers {
		m.Look = 0
	}
	r.machine, r.idle = m, m.Cores
}

func (w *writer) commit() {
	r := w.run
	r.queue = append(r.queue, w)
	if len(r.queue) == 1 {
		w.lead()
		return
	}
	w.wait()
}

func (w *writer) wait() {
	w.sleep()
	r, g := w.run, w.group
	switch w.goal {
	case toLead:
		w.lead()
	case toHelp:
		w.pass(g, r.way.Launch, w.index, toInsert)
		w.join()
	case toInsert:
		w.join()
	case toShare:
		w.pass(g, r.way.Done, w.index, toEnd)
		fallthrough
	case toEnd:
		r.r.Told += w.told(g)
	}
}

// told counts the last member that knows.
func (w *writer) told(g *group) time.Duration {
	if g.running++; g.running == len(g.members)-1 {
		return w.run.now - g.handed
	}
	return 0
}

func (w *writer) lead() {
	r := w.run
	g := &group{elected: r.now}
	w.spend(r.work.Prepare)
	g.members = append(g.members, r.queue...)
	n := len(g.members)
	for i, m := range g.members {
		m.group, m.index = g, i
	}
	w.spend(r.work.Log + time.Duration(n)*r.work.LogEach)
	if r.way.Alone || n == 1 {
		w.spend(time.Duration(n) * r.work.Insert)
		w.finish()
		return
	}
	g.launched = r.now
	g.running = n
	r.r.Wakes += w.cascade(r.way.Launch, toHelp, toInsert)
	r.r.Launch += r.now - g.launched
	w.join()
}

// cascade wakes what the leader's part is, and returns how many.
func (w *writer) cascade(by writegroup.Wake, helper, member goal) (wakes int) {
	g := w.group
	for _, m := range g.members[1:by.Stride(len(g.members))] {
		w.rouse(m, helper)
		wakes++
	}
	return wakes + w.pass(g, by, 0, member)
}

// pass wakes the share of member i.
func (w *writer) pass(g *group, by writegroup.Wake, i int, to goal) (wakes int) {
	n := len(g.members)
	for j, s := i+by.Stride(n), by.Stride(n); j < n; j += s {
		w.rouse(g.members[j], to)
		wakes++
	}
	return wakes
}

func (w *writer) rouse(m *writer, to goal) {
	m.goal = to
	w.wake(m.process)
}

func (w *writer) join() {
	r, g := w.run, w.group
	r.r.Last = max(r.r.Last, r.now-g.launched)
	w.spend(r.work.Insert)
	if g.running--; g.running > 0 {
		w.wait()
		return
	}
	w.finish()
}

// finish ends the group, by its last one.
func (w *writer) finish() {
	r, g := w.run, w.group
	w.spend(r.work.Publish)
	r.queue = r.queue[len(g.members):]
	if len(r.queue) > 0 {
		w.rouse(r.queue[0], toLead)
	}
	r.r.Groups++
	r.r.Commits += len(g.members)
	r.r.Path += r.now - g.elected
	g.handed, g.running = r.now, 0
	leader := g.members[0]
	g.members[0], g.members[w.index] = w, leader
	leader.index, w.index = w.index, 0
	w.cascade(r.way.Done, toShare, toEnd)
}
