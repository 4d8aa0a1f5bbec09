package metamorphic

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/ashlardb/ashlar/vfs"
)

// Run is a database with its options, for one list of operations.
type Run struct {
	Options  []string
	Reopened func(n int) []string
}

// RandomRun draws a run.
func RandomRun(seed, n uint64) Run {
	first := RandomOptions(rand.New(rand.NewPCG(seed, 2+n)), nil)
	return Run{first, func(reopen int) []string {
		return RandomOptions(rand.New(rand.NewPCG(seed^n<<32, uint64(reopen))), first)
	}}
}

// Failure is an operation with an answer that is not the model's.
type Failure struct {
	At        int // index of the operation; the number of operations: at Close
	Got, Want string
}

// Play runs operations on a database of their own and returns nil if every answer is the model's.
func (r Run) Play(ops []Op) *Failure {
	return r.compare(ops, History(ops))
}

// History returns the model's answers.
func History(ops []Op) []string {
	t := NewTwin()
	var want []string
	for _, o := range ops {
		want = append(want, t.Do(o))
	}
	return want
}

func (r Run) compare(ops []Op, want []string) (f *Failure) {
	at := 0
	defer func() {
		if p := recover(); p != nil {
			f = &Failure{at, fmt.Sprintf("panic: %v", p), want[at]}
		}
	}()
	e, err := Open(vfs.NewMem(), "db", r.Options)
	if err != nil {
		return &Failure{0, "open: " + err.Error(), ok}
	}
	e.Reopened = r.Reopened
	for ; at < len(ops); at++ {
		if got := e.Do(ops[at]); got != want[at] {
			f = &Failure{at, got, want[at]}
			break
		}
	}
	if f == nil {
		if got := e.Do(Make(string(Check), nil, nil)); got != clean {
			f = &Failure{len(ops), got, clean}
		}
	}
	if err := e.Close(); err != nil && f == nil {
		f = &Failure{len(ops), "close: " + err.Error(), ok}
	}
	return f
}

// Shrink returns a shorter list of operations that fails too, having tried at most tries of them. What runs beside in
// the database may make a failure come and go: each list is tried twice.
func (r Run) Shrink(ops []Op, tries int) ([]Op, *Failure) {
	return shrink(ops, tries, func(ops []Op) *Failure {
		t := NewTwin()
		var want []string
		for _, o := range ops {
			want = append(want, t.Do(o))
		}
		for range 2 {
			if t.Broken {
				break
			}
			if f := r.compare(ops, want); f != nil {
				return f
			}
		}
		return nil
	})
}

func shrink(ops []Op, tries int, try func([]Op) *Failure) ([]Op, *Failure) {
	fails := func(ops []Op) *Failure {
		tries--
		return try(ops)
	}
	worst := fails(ops)
	if worst == nil {
		return ops, nil
	}
	ops = ops[:min(worst.At+1, len(ops))]
	// Leave out halves, quarters, … and single operations.
	for chunk := len(ops) / 2; chunk > 0 && tries > 0; chunk /= 2 {
		for from := 0; from+chunk <= len(ops) && tries > 0; {
			less := slices.Concat(ops[:from], ops[from+chunk:])
			f := fails(less)
			if f == nil {
				from += chunk
				continue
			}
			ops, worst = less[:min(f.At+1, len(less))], f
		}
	}
	// Then what is in batches.
	for n := range ops {
		for i := len(ops[n].Batch) - 1; i >= 0 && tries > 0; i-- {
			less := slices.Clone(ops)
			less[n].Batch = slices.Concat(ops[n].Batch[:i], ops[n].Batch[i+1:])
			if f := fails(less); f != nil && f.At+1 >= len(less) {
				ops, worst = less, f
			}
		}
	}
	return ops, worst
}

// Script returns a play of operations with the model's answers, ready to be kept as a file.
func (r Run) Script(ops []Op) string {
	var b strings.Builder
	fmt.Fprintf(&b, "open %s\n", strings.Join(r.Options, " "))
	reopens := 0
	for n, want := range History(ops) {
		o := ops[n]
		if o.Verb == Reopen && len(o.Args) == 0 && r.Reopened != nil {
			o.Args = r.Reopened(reopens)
			reopens++
		}
		fmt.Fprintf(&b, "%v\n", o)
		switch want = strings.TrimSuffix(want, "\n"); {
		case want != ok && want != "":
			fmt.Fprintf(&b, "----\n%s\n\n", want)
		case want == "" || n == len(ops)-1:
			fmt.Fprintf(&b, "----\n\n")
		}
	}
	return b.String()
}
