// Groupsim prints what a model of group commit predicts: how much faster writers are whose group is woken by a √n cascade
// than those whose leader wakes them one by one, on machines of 2 to 256 cores. Package internal/groupsim is the model, and
// says what is not in it.
//
//	groupsim                  the prediction, one writer a core, for three kinds of machine
//	groupsim -pr              the eight benchmarks of RocksDB's pull request 12545 on 160 cores, beside its figures
//	groupsim -calibrate       what waking costs here
//	groupsim -check           groups of the real queue, beside the model with the costs of here
//
// -wake, -hop, -switch, -look and -touch replace the machine's costs; -think, -log, -each and -insert those of the work.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/ashlardb/ashlar/internal/groupsim"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// costs are the flags that replace a machine's; negative: they do not.
type costs struct{ wake, hop, change, look, touch time.Duration }

func (c costs) apply(m groupsim.Machine) groupsim.Machine {
	for _, x := range []struct {
		from time.Duration
		to   *time.Duration
	}{{c.wake, &m.Wake}, {c.hop, &m.Hop}, {c.change, &m.Switch}, {c.look, &m.Look}, {c.touch, &m.Touch}} {
		if x.from >= 0 {
			*x.to = x.from
		}
	}
	return m
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("groupsim", flag.ContinueOnError)
	pr := flags.Bool("pr", false, "the benchmarks of pull request 12545 on 160 cores")
	calibrate := flags.Bool("calibrate", false, "measure what waking costs here")
	check := flags.Bool("check", false, "measure groups of the real queue")
	rounds := flags.Int("rounds", 200, "of measuring")
	commits := flags.Int("commits", 500, "of each simulated writer")
	var c costs
	flags.DurationVar(&c.wake, "wake", -1, "what a wake costs the waker")
	flags.DurationVar(&c.hop, "hop", -1, "until an idle core has come")
	flags.DurationVar(&c.change, "switch", -1, "until a core lets the woken run")
	flags.DurationVar(&c.look, "look", -1, "how long a writer looks before it sleeps")
	flags.DurationVar(&c.touch, "touch", -1, "what a wake costs until then")
	w := groupsim.Typical
	flags.DurationVar(&w.Think, "think", w.Think, "between two commits")
	flags.DurationVar(&w.Log, "log", w.Log, "of a group")
	flags.DurationVar(&w.LogEach, "each", w.LogEach, "of the log for each member")
	flags.DurationVar(&w.Insert, "insert", w.Insert, "of a member")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *rounds < 1 || *commits < 1 {
		return fmt.Errorf("groupsim: want flags only, and rounds and commits above 0")
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer t.Flush()
	switch {
	case *calibrate:
		return printCosts(t, *rounds)
	case *check:
		return printCheck(t, w, *rounds)
	case *pr:
		printPR(t, c, *commits)
	default:
		printPrediction(t, c, w, *commits)
	}
	return nil
}

// printPrediction prints the speed-up by cores. One line is one machine.
func printPrediction(t io.Writer, c costs, w groupsim.Work, commits int) {
	fmt.Fprintf(t, "MODEL: %+v\n", w)
	for _, machine := range []func(int) groupsim.Machine{groupsim.Threads, groupsim.Yielding, groupsim.Goroutines} {
		fmt.Fprintf(t, "\n%+v\n", c.apply(machine(0)))
		fmt.Fprintln(t, "cores\tmembers\tpath\tone by one\tlaunch\tcascade\talone\t")
		for _, cores := range []int{2, 4, 8, 16, 32, 64, 96, 128, 160, 192, 256} {
			m := c.apply(machine(cores))
			old := groupsim.Run(m, w, cores, groupsim.OneByOne, commits*cores)
			fmt.Fprintf(t, "%d\t%.0f\t%v\t100%%\t", cores, old.Members(), (old.Path / time.Duration(old.Groups)).Round(100*time.Nanosecond))
			for _, way := range []groupsim.Way{groupsim.Launched, groupsim.Cascade, groupsim.Alone} {
				fmt.Fprintf(t, "%.0f%%\t", 100*groupsim.Run(m, w, cores, way, commits*cores).PerSecond()/old.PerSecond())
			}
			fmt.Fprintln(t)
		}
	}
}

// printPR prints the eight benchmarks.
func printPR(t io.Writer, c costs, commits int) {
	const cores = 160
	threads, yielding := c.apply(groupsim.Threads(cores)), c.apply(groupsim.Yielding(cores))
	fmt.Fprintf(t, "MODEL of %d cores, launch over one by one\n%+v\n%+v\n\n", cores, threads, yielding)
	fmt.Fprintln(t, "benchmark\tthe PR\tthreads\tyielding\twork\t")
	for _, b := range groupsim.PR12545 {
		fmt.Fprintf(t, "%s\t%d%%\t", b.Name, b.Percent)
		for _, m := range []groupsim.Machine{threads, yielding} {
			old := groupsim.Run(m, b.Work, cores, groupsim.OneByOne, commits*cores)
			now := groupsim.Run(m, b.Work, cores, groupsim.Launched, commits*cores)
			fmt.Fprintf(t, "%.0f%%\t", 100*now.PerSecond()/old.PerSecond())
		}
		fmt.Fprintf(t, "%+v\t\n", b.Work)
	}
}

// printCosts prints what a wake costs, by kind of writer.
func printCosts(t io.Writer, rounds int) error {
	fmt.Fprintf(t, "MEASURED, %d cores\n\nkind\twake\thop\tswitch\t\n", runtime.GOMAXPROCS(0))
	for _, kind := range []groupsim.Kind{groupsim.GoroutineKind, groupsim.LockedKind, groupsim.FutexKind} {
		m, err := groupsim.Calibrate(kind, rounds)
		if err != nil {
			return err
		}
		fmt.Fprintf(t, "%v\t%v\t%v\t%v\t\n", kind, m.Wake, m.Hop, m.Switch)
	}
	return nil
}

// printCheck prints measured groups of sleepers beside the model's.
func printCheck(t io.Writer, w groupsim.Work, rounds int) error {
	for _, locked := range []bool{false, true} {
		kind := groupsim.GoroutineKind
		if locked {
			kind, rounds = groupsim.LockedKind, max(rounds/10, 1)
		}
		m, err := groupsim.Calibrate(kind, rounds)
		if err != nil {
			return err
		}
		fmt.Fprintf(t, "\n%v, %d cores. measured / MODEL with %+v\n%+v\n", kind, m.Cores, m, w)
		fmt.Fprintln(t, "n\tway\twakes\tlaunch\tcritical path\tlast insert\ttold\t")
		for _, n := range []int{16, 20, 64, 256, 1024} {
			for _, way := range []groupsim.Way{groupsim.OneByOne, groupsim.Cascade, groupsim.Alone} {
				real, model := groupsim.Measure(n, rounds, way, locked, w), groupsim.RunGroup(m, w, n, way)
				pair := func(a, b time.Duration) string {
					return fmt.Sprintf("%.1f / %.1f µs", float64(a)/1000, float64(b)/1000)
				}
				fmt.Fprintf(t, "%d\t%v\t%d / %d\t%s\t%s\t%s\t%s\t\n", n, way, real.Wakes, model.Wakes, pair(real.Launch, model.Launch),
					pair(real.Path, model.Path), pair(real.Last, model.Last), pair(real.Told, model.Told))
			}
		}
	}
	return nil
}
