package compaction

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/ashlardb/ashlar/internal/compress"
	"github.com/ashlardb/ashlar/internal/iterator/itertest"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/manifest"
	"github.com/ashlardb/ashlar/sstable"
	"github.com/ashlardb/ashlar/vfs"
)

// lab is a family with real tables in memory and with everything that was ever written beside them.
type lab struct {
	rng       *rand.Rand
	l         *Leveled
	fs        *vfs.Mem
	num       uint64
	epoch     uint64
	seq       kv.Seq
	levels    [7][]*manifest.File
	content   map[uint64][]kv.Entry // of each table
	mem       []kv.Entry            // newest last
	written   []kv.Entry            // the model: all versions ever
	snapshots []kv.Seq
	single    map[string]bool // keys with one value that no SingleDel has taken yet
	busy      Busy
	running   []labJob
	operator  kv.MergeOperator
	split     bool // tables are taken apart anywhere, as RocksDB may do it
}

// labJob is a plan that was started and the snapshots of that moment.
type labJob struct {
	plan      *Plan
	snapshots []kv.Seq
}

func newLab(seed uint64, o LeveledOptions) *lab {
	return &lab{rng: rand.New(rand.NewPCG(seed, 8)), l: NewLeveled(kv.Bytewise, o), fs: vfs.NewMem(),
		content: map[uint64][]kv.Entry{}, single: map[string]bool{}, operator: appending}
}

func tiny() LeveledOptions {
	return LeveledOptions{L0Trigger: 3, MaxBytesForLevelBase: 6000, Multiplier: 3, TargetFileSizeBase: 1500, MaxCompactionBytes: 9000}
}

func (d *lab) version() *manifest.Version { return manifest.NewVersion(kv.Bytewise, d.levels[:]...) }

func (d *lab) write(user string, kind kv.Kind, value string) {
	d.seq++
	e := kv.Entry{Key: kv.MakeKey([]byte(user), d.seq, kind)}
	if kind == kv.KindValue || kind == kv.KindMerge {
		e.Value = []byte(value)
	}
	d.mem = append(d.mem, e)
	d.written = append(d.written, e)
}

func (d *lab) put(user, value string) { d.write(user, kv.KindValue, value) }
func (d *lab) delete(user string)     { d.write(user, kv.KindDelete, "") }

type tableIter struct {
	kv.Iterator
	r *sstable.Reader
}

func (i tableIter) Close() error { return errors.Join(i.Iterator.Close(), i.r.Close()) }

func name(num uint64) string { return fmt.Sprintf("%06d.sst", num) }

func (d *lab) env(snapshots []kv.Seq) Env {
	return Env{
		Comparer: kv.Bytewise,
		Operator: d.operator,
		Open: func(f *manifest.File) (kv.Iterator, error) {
			file, err := d.fs.Open(name(f.Num))
			if err != nil {
				return nil, err
			}
			r, err := sstable.Open(file, name(f.Num), sstable.ReaderOptions{})
			if err != nil {
				return nil, err
			}
			return tableIter{r.NewIter(sstable.IterOptions{}), r}, nil
		},
		Create: func() (*sstable.Writer, uint64, error) {
			d.num++
			f, err := d.fs.Create(name(d.num))
			if err != nil {
				return nil, d.num, err
			}
			return sstable.NewWriter(f, name(d.num), sstable.WriterOptions{Compression: compress.None, BlockSize: 200}), d.num, nil
		},
		Snapshots: snapshots,
		Now:       func() uint64 { return 1700000000 },
	}
}

// install applies the edit of a job that has succeeded, and looks at what it made.
func (d *lab) install(p *Plan, r Result) error {
	total := uint64(0)
	for _, f := range r.Files {
		it, err := d.env(nil).Open(f)
		if err != nil {
			return err
		}
		var all []kv.Entry
		for e := it.First(); e != nil; e = it.Next() {
			all = append(all, kv.Entry{Key: e.Key.Clone(), Value: bytes.Clone(e.Value)})
		}
		if err := it.Close(); err != nil {
			return err
		}
		total += uint64(len(all))
		d.content[f.Num] = all
		if len(all) == 0 || f.Smallest.String() != all[0].Key.String() || f.Largest.String() != all[len(all)-1].Key.String() {
			return fmt.Errorf("file %v has %s", f, text(all))
		}
	}
	for i := 1; i < len(r.Files); i++ {
		if bytes.Equal(r.Files[i-1].Largest.User, r.Files[i].Smallest.User) {
			return fmt.Errorf("files %v and %v share a key", r.Files[i-1], r.Files[i])
		}
	}
	if total != r.EntriesWritten || len(r.Remove) > 0 {
		return fmt.Errorf("%d entries in files, result %+v", total, r)
	}
	if d.split && p.OutputLevel > 0 {
		if err := d.takeApart(&r); err != nil {
			return err
		}
	}
	e := r.Edit(p)
	for _, del := range e.Delete {
		d.levels[del.Level] = slices.DeleteFunc(d.levels[del.Level], func(f *manifest.File) bool { return f.Num == del.Num })
	}
	for _, add := range e.Add {
		d.levels[add.Level] = append(d.levels[add.Level], add.File)
	}
	return d.version().Check(kv.Bytewise)
}

// takeApart makes two tables of some, with no regard to user keys.
func (d *lab) takeApart(r *Result) error {
	var files []*manifest.File
	for _, f := range r.Files {
		all := d.content[f.Num]
		if len(all) < 2 || d.rng.IntN(3) > 0 {
			files = append(files, f)
			continue
		}
		at := 1 + d.rng.IntN(len(all)-1)
		for _, part := range [][]kv.Entry{all[:at], all[at:]} {
			w, num, err := d.env(nil).Create()
			if err != nil {
				return err
			}
			for _, e := range part {
				if err := w.Add(e.Key, e.Value); err != nil {
					return err
				}
			}
			m, err := w.Finish()
			if err != nil {
				return err
			}
			d.content[num] = part
			files = append(files, &manifest.File{Num: num, Size: m.Size, Smallest: m.Smallest, Largest: m.Largest,
				SmallestSeq: m.SmallestSeq, LargestSeq: m.LargestSeq, Epoch: f.Epoch})
		}
	}
	r.Files = files
	return nil
}

func (d *lab) flush() error {
	itertest.Sort(kv.Bytewise, d.mem)
	d.epoch++
	// Two memtables at once.
	var parts [2][]kv.Entry
	for i, e := range d.mem {
		parts[i%2] = append(parts[i%2], e)
	}
	r, err := RunFlush(context.Background(), Flush{Epoch: d.epoch, Inputs: []kv.Iterator{
		itertest.New(kv.Bytewise, parts[0]), itertest.New(kv.Bytewise, parts[1]),
	}}, d.env(d.snapshots))
	if err != nil {
		return err
	}
	if len(r.Files) > 1 || r.EntriesRead != uint64(len(d.mem)) {
		return fmt.Errorf("a flush of %d entries made %+v", len(d.mem), r)
	}
	d.mem = nil
	return d.install(&Plan{}, r)
}

func (d *lab) start(p *Plan) {
	if p != nil {
		d.busy.Start(p)
		d.running = append(d.running, labJob{p, slices.Clone(d.snapshots)})
	}
}

func (d *lab) end(i int) error {
	j := d.running[i]
	d.running = slices.Delete(d.running, i, i+1)
	r, err := Run(context.Background(), j.plan, d.env(j.snapshots))
	d.busy.Done(j.plan)
	if err != nil {
		return err
	}
	if err := d.install(j.plan, r); err != nil {
		return fmt.Errorf("%v: %w", j.plan, err)
	}
	return nil
}

// do runs one plan at once.
func (d *lab) do(p *Plan) error {
	d.start(p)
	return d.end(len(d.running) - 1)
}

// get reads as the engine does: level by level, until there is a version that may be seen and is no operand.
func (d *lab) get(user string, at kv.Seq) string {
	var seen []kv.Entry
	decided := func(all []kv.Entry) bool {
		done := false
		for _, e := range all {
			if string(e.Key.User) == user && e.Key.Seq() <= at {
				seen = append(seen, e)
				done = done || e.Key.Kind() != kv.KindMerge
			}
		}
		return done
	}
	done := decided(d.mem)
	v := d.version()
	for _, f := range v.Level(0) {
		done = done || decided(d.content[f.Num])
	}
	for level := 1; level < 7 && !done; level++ {
		var all []kv.Entry
		for _, f := range v.Overlapping(level, kv.Range{Start: []byte(user), End: []byte(user), EndInclusive: true}) {
			all = append(all, d.content[f.Num]...)
		}
		done = decided(all)
	}
	return see(seen, user, at)
}

func (d *lab) check() error {
	users := map[string]bool{}
	for _, e := range d.written {
		users[string(e.Key.User)] = true
	}
	for user := range users {
		for _, at := range append(slices.Clone(d.snapshots), kv.MaxSeq) {
			if want, got := see(d.written, user, at), d.get(user, at); want != got {
				return fmt.Errorf("%s at %d (snapshots %v) is %.40s, want %.40s\n%s", user, at, d.snapshots, got, want, d.version().DebugString())
			}
		}
	}
	return nil
}

// toTheBottom does what CompactRange over all does, and returns every entry that is left.
func (d *lab) toTheBottom() (left []kv.Entry, err error) {
	if err := d.flush(); err != nil {
		return nil, err
	}
	base, _ := d.l.Targets(d.version())
	last := 0
	for level := range d.version().All() {
		last = max(last, level)
	}
	last = max(last, base)
	for level := 0; level <= last; level++ {
		output := level + 1
		switch {
		case level == 0:
			output = base
		case level == last:
			output = last
		}
		for begin := []byte(nil); ; {
			p, next, wait := d.l.PickRange(d.version(), level, output, begin, nil, nil, &d.busy)
			if wait {
				return nil, errors.New("nothing runs, and there is something to wait for")
			}
			if p != nil {
				if err := d.do(p); err != nil {
					return nil, err
				}
			}
			if begin = next; next == nil {
				break
			}
		}
	}
	for _, f := range d.version().All() {
		left = append(left, d.content[f.Num]...)
	}
	return left, nil
}

func playLab(seed uint64, ops []byte) error {
	o := tiny()
	o.DynamicLevelBytes = seed%2 == 0
	d := newLab(seed, o)
	d.split = seed%3 == 0
	for i, op := range ops {
		user := fmt.Sprintf("key%02d", op>>3)
		var err error
		switch op & 7 {
		case 0, 1:
			d.put(user, fmt.Sprintf("%s@%d%s", user, d.seq+1, strings.Repeat(".", d.rng.IntN(400))))
		case 2:
			if d.rng.IntN(3) > 0 {
				d.write(user, kv.KindMerge, fmt.Sprint(d.seq+1))
				break
			}
			d.delete(user)
		case 3:
			if user = "single" + user[3:]; d.single[user] {
				d.write(user, kv.KindSingleDel, "")
			} else {
				d.put(user, fmt.Sprintf("%s@%d", user, d.seq+1))
			}
			d.single[user] = !d.single[user]
		case 4:
			if len(d.snapshots) < 5 {
				d.snapshots = append(d.snapshots, d.seq)
			} else {
				d.snapshots = slices.Delete(d.snapshots, int(op>>3)%5, int(op>>3)%5+1)
			}
		case 5:
			if len(d.mem) > 0 {
				err = d.flush()
			}
		case 6:
			d.start(d.l.Pick(d.version(), &d.busy))
			if len(d.running) > 0 && d.rng.IntN(2) == 0 {
				err = d.end(d.rng.IntN(len(d.running)))
			}
		case 7:
			oldest := d.seq
			if len(d.snapshots) > 0 {
				oldest = d.snapshots[0]
			}
			if op>>3&1 == 0 {
				d.start(d.l.PickBottommost(d.version(), oldest, &d.busy))
			} else {
				level := d.rng.IntN(6)
				output := level + 1
				if level == 0 {
					output, _ = d.l.Targets(d.version())
				}
				p, _, _ := d.l.PickRange(d.version(), level, output, []byte(user), nil, nil, &d.busy)
				d.start(p)
			}
		}
		if err != nil {
			return err
		}
		if i%16 == 15 {
			if err := d.check(); err != nil {
				return fmt.Errorf("after %d operations: %w", i+1, err)
			}
		}
	}
	for len(d.running) > 0 {
		if err := d.end(0); err != nil {
			return err
		}
	}
	if err := d.check(); err != nil {
		return err
	}
	d.snapshots = nil
	left, err := d.toTheBottom()
	if err != nil {
		return err
	}
	if err := d.check(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, e := range left {
		if e.Key.Kind() != kv.KindValue || seen[string(e.Key.User)] {
			return fmt.Errorf("%v is left at the bottom", e.Key)
		}
		seen[string(e.Key.User)] = true
	}
	return nil
}
