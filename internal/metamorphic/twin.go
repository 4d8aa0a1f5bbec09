package metamorphic

import (
	"fmt"
	"strings"

	"github.com/ashlardb/ashlar/internal/model"
)

// Target does operations. The answer is text, and the same from every target.
type Target interface {
	Do(Op) string
}

// Answers that are not values.
const (
	notFound = "not found"
	noSuch   = "no such thing" // a family, snapshot or iterator that the operation names is not there
	dropped  = "family was dropped"
	exists   = "family exists"
	clean    = "clean"
	ok       = "ok"
)

// Twin is the target that is obviously right.
type Twin struct {
	db        *model.DB
	families  map[string]*model.Family // the last one that had the name
	snapshots map[string]uint64
	iters     map[string]*twinIter
	// Broken is set when an operation breaks a contract, so that no answer is right.
	Broken bool
}

type twinIter struct {
	*model.Iter
	family       *model.Family
	lower, upper *string
}

// NewTwin returns a twin of an empty database.
func NewTwin() *Twin {
	t := &Twin{db: model.New()}
	t.reopen()
	return t
}

// reopen forgets what does not outlive a Close.
func (t *Twin) reopen() {
	old := t.families
	t.snapshots, t.iters, t.families = map[string]uint64{}, map[string]*twinIter{}, map[string]*model.Family{"default": t.db.Family("default")}
	for name, f := range old {
		if t.db.Live(f) {
			t.families[name] = f
		}
	}
}

// Do does an operation.
func (t *Twin) Do(o Op) string {
	switch o.Verb {
	case Put, Delete, SingleDelete, DeleteRange, Merge:
		return t.write([]Op{o})
	case Batch:
		return t.write(o.Batch)
	case Snapshot:
		t.snapshots[o.Arg(0)] = t.db.Seq()
		return ok
	case Release:
		if _, there := t.snapshots[o.Arg(0)]; !there {
			return noSuch
		}
		delete(t.snapshots, o.Arg(0))
		return ok
	case Get, GetPinned, MultiGet, Scan, ScanBack, NewIter:
		return t.read(o)
	case First, Last, Seek, SeekForPrev, Next, Prev, Refresh, CloseIter:
		return t.move(o)
	case Flush, Compact, Configure:
		names := o.Args
		if o.Verb != Flush {
			names = []string{o.Family()}
		}
		for _, name := range names {
			if f := t.families[name]; f == nil {
				return noSuch
			} else if !t.db.Live(f) {
				return dropped
			}
		}
		return ok
	case Create:
		if f := t.families[o.Arg(0)]; f != nil && t.db.Live(f) {
			return exists
		}
		t.families[o.Arg(0)] = t.db.Create(o.Arg(0), o.Flags["reverse"])
		return ok
	case Drop:
		f := t.families[o.Arg(0)]
		switch {
		case f == nil:
			return noSuch
		case !t.db.Live(f):
			return dropped
		}
		t.db.Drop(o.Arg(0))
		return ok
	case Reopen:
		t.reopen()
		return ok
	case Seq:
		return fmt.Sprint(t.db.Seq())
	case Check:
		return clean
	case Wait:
		return ok
	}
	return "unknown operation"
}

// write does a batch.
func (t *Twin) write(ops []Op) string {
	writes, broken, there := t.plan(ops)
	if !there {
		return noSuch
	}
	t.Broken = t.Broken || broken
	for _, w := range writes {
		if !t.db.Live(w.Family) {
			return dropped
		}
	}
	t.db.Apply(writes)
	return ok
}

// plan returns the writes of a batch: broken, if a SingleDelete among them breaks its contract or a range ends before it
// begins, and there, if all of their families are or were.
func (t *Twin) plan(ops []Op) (writes []model.Write, broken, there bool) {
	var saved []int
	kinds := map[Verb]model.Kind{
		Put: model.Put, Delete: model.Delete, SingleDelete: model.SingleDelete, DeleteRange: model.DeleteRange,
		Merge: model.Merge,
	}
	for _, o := range ops {
		switch o.Verb {
		case SavePoint:
			saved = append(saved, len(writes))
		case Rollback, Pop:
			if len(saved) == 0 {
				continue
			}
			if o.Verb == Rollback {
				writes = writes[:saved[len(saved)-1]]
			}
			saved = saved[:len(saved)-1]
		case Put, Delete, SingleDelete, DeleteRange, Merge:
			f := t.families[o.Family()]
			if f == nil {
				return nil, false, false
			}
			if o.Verb == DeleteRange && o.Arg(0) == o.Arg(1) {
				continue // nothing is written
			}
			writes = append(writes, model.Write{Family: f, Kind: kinds[o.Verb], Key: o.Arg(0), Value: string(Expand(o.Arg(1)))})
		}
	}
	for n, w := range writes {
		broken = broken || w.Kind == model.SingleDelete && !w.Family.MaySingleDelete(w.Key, writes[:n]) ||
			w.Kind == model.DeleteRange && w.Family.Compare(w.Key, w.Value) > 0
	}
	return writes, broken, true
}

// view resolves the family and the sequence number of a read.
func (t *Twin) view(o Op) (f *model.Family, seq uint64, answer string) {
	f, seq = t.families[o.Family()], t.db.Seq()
	if f == nil {
		return nil, 0, noSuch
	}
	if s := o.Named["snap"]; s != "" {
		var there bool
		if seq, there = t.snapshots[s]; !there {
			return nil, 0, noSuch
		}
	}
	if !t.db.Live(f) {
		return nil, 0, dropped
	}
	return f, seq, ""
}

func (t *Twin) read(o Op) string {
	f, seq, answer := t.view(o)
	if answer != "" {
		return answer
	}
	lower, upper := o.bound("lower"), o.bound("upper")
	switch o.Verb {
	case Get, GetPinned, MultiGet:
		var b []string
		for _, k := range o.Args {
			v, found := f.Get(k, seq)
			if !found {
				b = append(b, notFound)
				continue
			}
			b = append(b, Shorten([]byte(v)))
		}
		return strings.Join(b, " ")
	case NewIter:
		t.iters[o.Arg(0)] = &twinIter{f.NewIter(seq, lower, upper), f, lower, upper}
		return ok
	}
	var b strings.Builder
	i := f.NewIter(seq, lower, upper)
	move := i.Next
	if o.Verb == ScanBack {
		move = i.Prev
	}
	for {
		move()
		e, there := i.Entry()
		if !there {
			return b.String()
		}
		fmt.Fprintln(&b, show(e.Key, e.Value, true))
	}
}

func (t *Twin) move(o Op) string {
	i := t.iters[o.Arg(0)]
	if i == nil {
		return noSuch
	}
	switch o.Verb {
	case First:
		i.First()
	case Last:
		i.Last()
	case Seek:
		i.Seek(o.Arg(1))
	case SeekForPrev:
		i.SeekForPrev(o.Arg(1))
	case Next:
		for range o.times() {
			i.Next()
		}
	case Prev:
		for range o.times() {
			i.Prev()
		}
	case Refresh:
		seq := t.db.Seq()
		if s := o.Named["snap"]; s != "" {
			var there bool
			if seq, there = t.snapshots[s]; !there {
				return noSuch
			}
		}
		if !t.db.Live(i.family) {
			delete(t.iters, o.Arg(0))
			return dropped
		}
		i.Iter = i.family.NewIter(seq, i.lower, i.upper)
		return ok
	case CloseIter:
		delete(t.iters, o.Arg(0))
		return ok
	}
	e, there := i.Entry()
	return show(e.Key, e.Value, there)
}
