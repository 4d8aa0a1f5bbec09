package compaction

// Leveled compaction: level 0 holds flushed tables that overlap, every other level is one sorted run, each about
// Multiplier times as large as the one above.
//
//  1. A picker reads its arguments and nothing else. The same version and the same Busy give the same plan.
//  2. A plan takes every version of a user key that a level has, or none (clean cuts), although only tables that others
//     wrote may split one.
//  3. From level 0 it takes with a file all that overlap it, and those that overlap these; at most one job goes down from
//     level 0 at a time.
//  4. No file of a plan is an input of a running job, and no running job writes into the plan's range of its output level.
//  5. Levels between a plan's first input and its output hold nothing of the plan's range.

import (
	"cmp"
	"math"
	"slices"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/manifest"
)

// LeveledOptions say what shape a tree should have. A zero field is RocksDB's default, but for DynamicLevelBytes.
type LeveledOptions struct {
	// NumLevels is the number of levels with level 0; 7, and at least 2.
	NumLevels int
	// L0Trigger is the number of files on level 0 from which they are compacted: 4.
	L0Trigger int
	// MaxBytesForLevelBase is the target size of the first level below level 0: 256 MiB.
	MaxBytesForLevelBase uint64
	// Multiplier is the ratio of the sizes of neighbouring levels: 10.
	Multiplier float64
	// TargetFileSizeBase is the size of a table on the base level (64 MiB); TargetFileSizeMultiplier (1) is the ratio of
	// table sizes of neighbouring levels.
	TargetFileSizeBase       uint64
	TargetFileSizeMultiplier int
	// MaxCompactionBytes bounds the parts of a job that are free to choose: 25 × TargetFileSizeBase.
	MaxCompactionBytes uint64
	// DynamicLevelBytes fills the last levels first and derives targets from the largest level, so that space
	// amplification stays near 1/Multiplier.
	DynamicLevelBytes bool
}

func (o LeveledOptions) withDefaults() LeveledOptions {
	o.NumLevels = max(cmp.Or(o.NumLevels, 7), 2)
	o.L0Trigger = max(cmp.Or(o.L0Trigger, 4), 1)
	o.MaxBytesForLevelBase = cmp.Or(o.MaxBytesForLevelBase, 256<<20)
	if !(o.Multiplier > 1) {
		o.Multiplier = 10
	}
	o.TargetFileSizeBase = cmp.Or(o.TargetFileSizeBase, 64<<20)
	o.TargetFileSizeMultiplier = max(o.TargetFileSizeMultiplier, 1)
	o.MaxCompactionBytes = cmp.Or(o.MaxCompactionBytes, times(o.TargetFileSizeBase, 25))
	return o
}

// Picker decides what to compact.
type Picker interface {
	// Pick returns what is most urgent to do beside the jobs in busy, nil when there is nothing.
	Pick(v *manifest.Version, busy *Busy) *Plan
	// Scores returns the urgency of each level; 1 and more makes it eligible.
	Scores(v *manifest.Version) []float64
}

// Leveled is the picker of leveled compaction. It holds nothing but its options and may be used by many at once.
type Leveled struct {
	cmp *kv.Comparer
	o   LeveledOptions
}

var _ Picker = (*Leveled)(nil)

// NewLeveled returns a picker for trees in cmp's order.
func NewLeveled(cmp *kv.Comparer, o LeveledOptions) *Leveled {
	return &Leveled{cmp: cmp, o: o.withDefaults()}
}

// Pick returns the plan of the level with the highest score that can be worked on now, nil when no level's score is 1 or
// everything that is due is busy.
func (l *Leveled) Pick(v *manifest.Version, busy *Busy) *Plan {
	t := l.targets(v)
	scores := l.scores(v, t, busy)
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })

	level0Waits := false
	for _, level := range order {
		switch {
		case scores[level] < 1:
			return nil
		case level == 0:
			if p := l.pickLevel0(v, t, busy); p != nil {
				return p
			}
			if p := l.pickIntraLevel0(v, busy); p != nil {
				return p
			}
			level0Waits = true
		case level0Waits && level == t.base:
			// Working on the base level now would keep level 0 waiting longer.
		default:
			if p := l.pickLevel(v, t, level, busy); p != nil {
				return p
			}
		}
	}
	return nil
}

func (l *Leveled) pickLevel0(v *manifest.Version, t targets, busy *Busy) *Plan {
	if busy.Level0() {
		return nil
	}
	if p := l.level0Move(v, t, busy); p != nil {
		return p
	}
	if p := l.intraLevel0BySize(v, t, busy); p != nil {
		return p
	}
	files := v.Level(0)
	for i := len(files) - 1; i >= 0; i-- {
		if p := l.setUp(v, t, 0, l.level0Closure(v, l.hull(files[i:i+1])), t.base, Level0Files, busy); p != nil {
			return p
		}
	}
	return nil
}

// level0Move plans to move the oldest files of level 0 that overlap neither each other nor the base level. While the
// base level is empty, the oldest file alone would always do; then merging it with the others is what helps.
func (l *Leveled) level0Move(v *manifest.Version, t targets, busy *Busy) *Plan {
	if len(v.Level(t.base)) == 0 {
		return nil
	}
	files := v.Level(0)
	i := len(files)
	for ; i > 0; i-- {
		r := l.hull(files[i-1 : i])
		if l.overlapsAny(files[i:], r) || len(v.Overlapping(t.base, r)) > 0 || !l.movable(v, files[i-1:i], t.base) ||
			busy.writes(l.cmp, t.base, l.hull(files[i-1:])) {
			break
		}
	}
	if i == len(files) {
		return nil
	}
	p := l.newPlan(v, t, Level0Files, t.base, Input{0, files[i:]})
	p.Kind = Move
	return p
}

// intraLevel0BySize merges inside level 0 while it is small against the base level, all of which may have to be
// rewritten otherwise.
func (l *Leveled) intraLevel0BySize(v *manifest.Version, t targets, busy *Busy) *Plan {
	if len(v.Level(0)) < max(2, l.o.L0Trigger) || v.Size(t.base) <= times(v.Size(0), 2*max(10, l.o.Multiplier)) {
		return nil
	}
	return l.mergeNewest(v, 2, IntraLevel0Size, busy)
}

// pickIntraLevel0 merges the newest files of level 0 while the way down is taken.
func (l *Leveled) pickIntraLevel0(v *manifest.Version, busy *Busy) *Plan {
	if len(v.Level(0)) < l.o.L0Trigger+2 {
		return nil
	}
	return l.mergeNewest(v, 4, IntraLevel0, busy)
}

// mergeNewest plans to merge files of level 0 into one, from the newest on, as long as each more makes the work per
// file that goes away less. Older files stay, so that nothing here may count as bottommost.
func (l *Leveled) mergeNewest(v *manifest.Version, least int, why Reason, busy *Busy) *Plan {
	files := v.Level(0)
	if len(files) == 0 || busy.Has(files[0].Num) {
		return nil
	}
	n, bytes, perFile := 1, files[0].Size, uint64(math.MaxUint64)
	for ; n < len(files) && !busy.Has(files[n].Num); n++ {
		bytes += files[n].Size
		now := bytes / uint64(n)
		if now > perFile || bytes > l.o.MaxCompactionBytes {
			break
		}
		perFile = now
	}
	if n < least {
		return nil
	}
	return &Plan{Reason: why, Inputs: []Input{{0, files[:n:n]}}, Range: l.hull(files[:n])}
}

// pickLevel plans for one file of a level, and what has to go with it: the one that drags the fewest bytes of the next
// level along, for its size.
func (l *Leveled) pickLevel(v *manifest.Version, t targets, level int, busy *Busy) *Plan {
	files := v.Level(level)
	for _, i := range l.byOverlap(files, v.Level(level+1)) {
		if busy.Has(files[i].Num) {
			continue
		}
		if p := l.setUp(v, t, level, l.clean(v, level, files[i:i+1]), level+1, LevelSize, busy); p != nil {
			return p
		}
	}
	return nil
}

// byOverlap returns the indexes of files in order of the bytes of next that each overlaps, for its own size.
func (l *Leveled) byOverlap(files, next []*manifest.File) []int {
	order, ratio := make([]int, len(files)), make([]float64, len(files))
	from := 0
	for i, f := range files {
		order[i] = i
		for from < len(next) && l.cmp.CompareUser(next[from].Largest.User, f.Smallest.User) < 0 {
			from++
		}
		var bytes uint64
		for j := from; j < len(next) && l.cmp.CompareUser(next[j].Smallest.User, f.Largest.User) <= 0; j++ {
			bytes += next[j].Size
		}
		ratio[i] = float64(bytes) / max(weight(f), 1)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ratio[a], ratio[b]) })
	return order
}

// PickRange plans one step of a manual compaction: of the files of a level that overlap user keys from begin to end (both
// included; nil is open) into output, which is the level below, or for level 0 the base level (see Targets), or the level
// itself, to rewrite it in place (not level 0). An output with data of the range above it is raised to that data.
//
// A rewrite in place passes over the files in done, of which there is no more to be gained.
//
// next is where to go on after this step, nil when this one covers the range. Without a plan there is nothing to do for
// the range, or, with wait, something is but a running job is in the way: ask again when one has ended.
func (l *Leveled) PickRange(v *manifest.Version, level, output int, begin, end []byte, done map[uint64]bool, busy *Busy) (p *Plan, next []byte, wait bool) {
	files := v.Overlapping(level, kv.Range{Start: begin, End: end, EndInclusive: true})
	if level == output {
		isDone := func(f *manifest.File) bool { return done[f.Num] }
		for len(files) > 0 && isDone(files[0]) {
			files = files[1:]
		}
		if n := slices.IndexFunc(files, isDone); n >= 0 {
			next, files = files[n].Smallest.User, files[:n]
		}
	}
	if len(files) == 0 || output < level || output == 0 || output >= l.o.NumLevels {
		return nil, nil, false
	}
	if level == 0 {
		if busy.Level0() {
			return nil, begin, true
		}
		files = l.level0Closure(v, l.hull(files))
	} else {
		last := files[len(files)-1]
		files = l.clean(v, level, l.upToLimit(v, files, level, output))
		if rest := v.Level(level)[l.end(v, level, files):]; len(rest) > 0 && l.cmp.CompareKeys(rest[0].Smallest, last.Largest) <= 0 {
			next = rest[0].Smallest.User
		}
	}
	for between := level + 1; between < output; between++ {
		if len(v.Overlapping(between, l.hull(files))) > 0 {
			output = between
		}
	}
	if p = l.setUp(v, l.targets(v), level, files, output, ManualCompaction, busy); p == nil {
		return nil, begin, true
	}
	return p, next, false
}

// upToLimit returns the first of files, as many as a job should have that may choose: at least one.
func (l *Leveled) upToLimit(v *manifest.Version, files []*manifest.File, level, output int) []*manifest.File {
	for i := range files {
		bytes := totalSize(files[:i+1])
		if output != level {
			bytes += totalSize(v.Overlapping(output, l.hull(files[:i+1])))
		}
		if bytes >= l.o.MaxCompactionBytes {
			return files[:i+1]
		}
	}
	return files
}

// PickBottommost plans to rewrite in place a file that has nothing below it and nothing in it newer than oldest, the
// oldest snapshot (or, without snapshots, the last sequence): what a snapshot kept there can go, and sequence numbers
// become 0. Since they all do, or the file is settled, the result is never picked again. It is worth asking when a snapshot was released.
func (l *Leveled) PickBottommost(v *manifest.Version, oldest kv.Seq, busy *Busy) *Plan {
	ripe := func(f *manifest.File) bool { return f.LargestSeq <= oldest }
	for level := l.o.NumLevels - 1; level > 0; level-- {
		files := v.Level(level)
		for i, f := range files {
			if f.LargestSeq == 0 || f.Settled || !ripe(f) || busy.Has(f.Num) {
				continue
			}
			in := l.clean(v, level, files[i:i+1])
			if slices.ContainsFunc(in, func(f *manifest.File) bool { return !ripe(f) }) {
				continue
			}
			if p := l.setUp(v, l.targets(v), level, in, level, BottommostFiles, busy); p != nil && p.Bottommost {
				return p
			}
		}
	}
	return nil
}

// setUp makes the plan for files of a level, which are a clean cut (on level 0 a closure): adds what they overlap on the
// output level, and more of their own level where that costs nothing there. It is nil when something is busy.
func (l *Leveled) setUp(v *manifest.Version, t targets, level int, files []*manifest.File, output int, why Reason, busy *Busy) *Plan {
	if busy.any(files) {
		return nil
	}
	inputs := []Input{{level, files}}
	if output != level {
		below := l.cleanOverlapping(v, output, l.hull(files))
		if busy.any(below) {
			return nil
		}
		if len(below) > 0 {
			inputs = []Input{{level, l.grow(v, level, files, output, below, busy)}, {output, below}}
		} else if level > 0 && why == LevelSize && l.movable(v, files, output) {
			inputs[0].Files = l.moreToMove(v, level, files, output, busy)
		}
	}
	p := l.newPlan(v, t, why, output, inputs...)
	if busy.writes(l.cmp, output, p.Range) {
		return nil
	}
	if l.mayMove(v, p) {
		p.Kind = Move
	}
	return p
}

// grow returns files, or more of their level if these overlap the same files of the output level.
func (l *Leveled) grow(v *manifest.Version, level int, files []*manifest.File, output int, below []*manifest.File, busy *Busy) []*manifest.File {
	r := l.hull(files, below)
	var wider []*manifest.File
	if level == 0 {
		wider = l.level0Closure(v, r)
	} else {
		wider = l.cleanOverlapping(v, level, r)
	}
	if len(wider) <= len(files) || busy.any(wider) || totalSize(wider)+totalSize(below) >= 2*l.o.MaxCompactionBytes {
		return files
	}
	if len(l.cleanOverlapping(v, output, l.hull(wider))) > len(below) {
		return files
	}
	return wider
}

// moreToMove returns files, which may be moved, and up to four more behind them that may be too.
func (l *Leveled) moreToMove(v *manifest.Version, level int, files []*manifest.File, output int, busy *Busy) []*manifest.File {
	all := v.Level(level)
	from := l.end(v, level, files) - len(files)
	to := from + len(files)
	for to < len(all) && to-from < len(files)+4 {
		n := to + len(l.clean(v, level, all[to:to+1]))
		r := l.hull(all[from:n])
		if busy.any(all[to:n]) || len(v.Overlapping(output, r)) > 0 || busy.writes(l.cmp, output, r) ||
			totalSize(all[from:n]) > l.o.MaxCompactionBytes || !l.movable(v, all[from:n], output) {
			break
		}
		to = n
	}
	return all[from:to:to]
}

// mayMove tells whether carrying out p is only a change of levels. A manual compaction into the bottom rewrites, since
// who asks for it wants tombstones gone.
func (l *Leveled) mayMove(v *manifest.Version, p *Plan) bool {
	in := p.Inputs[0]
	if len(p.Inputs) > 1 || in.Level == p.OutputLevel || in.Level == 0 && len(in.Files) > 1 ||
		p.Reason == ManualCompaction && p.Bottommost {
		return false
	}
	return l.movable(v, in.Files, p.OutputLevel)
}

// movable tells whether none of files, once on the output level, would need too large a job to leave it.
func (l *Leveled) movable(v *manifest.Version, files []*manifest.File, output int) bool {
	for i, f := range files {
		if f.Size+totalSize(v.Overlapping(output+1, l.hull(files[i:i+1]))) > l.o.MaxCompactionBytes {
			return false
		}
	}
	return true
}

// newPlan fills in what follows from the inputs.
func (l *Leveled) newPlan(v *manifest.Version, t targets, why Reason, output int, inputs ...Input) *Plan {
	p := &Plan{Reason: why, Inputs: inputs, OutputLevel: output, MaxCompactionBytes: l.o.MaxCompactionBytes}
	p.Range = l.hull(inputs[0].Files)
	if len(inputs) > 1 {
		p.Range = l.hull(inputs[0].Files, inputs[1].Files)
	}
	for level := output + 1; level < v.NumLevels(); level++ {
		if files := v.Overlapping(level, p.Range); len(files) > 0 {
			p.Below = append(p.Below, files)
		}
	}
	p.Bottommost = len(p.Below) == 0
	p.TargetOutputSize = l.targetFileSize(t, output)
	p.MaxOutputSize = p.TargetOutputSize
	if !p.Bottommost {
		p.Grandparents = p.Below[0]
		p.MaxOutputSize = times(p.TargetOutputSize, 2)
	}
	return p
}

func (l *Leveled) targetFileSize(t targets, level int) uint64 {
	size := l.o.TargetFileSizeBase
	first := 1
	if l.o.DynamicLevelBytes {
		first = t.base
	}
	for ; first < level; first++ {
		size = times(size, float64(l.o.TargetFileSizeMultiplier))
	}
	return size
}

// level0Closure returns the files of level 0 that overlap r, or overlap one of these, and so on, newest first.
func (l *Leveled) level0Closure(v *manifest.Version, r kv.Range) []*manifest.File {
	for {
		files := v.Overlapping(0, r)
		wider := l.hull(files)
		c := l.cmp.CompareUser(wider.End, r.End)
		if len(files) == 0 || l.cmp.CompareUser(wider.Start, r.Start) >= 0 && (c < 0 || c == 0 && (r.EndInclusive || !wider.EndInclusive)) {
			return files
		}
		r = kv.Range{
			Start: l.least(r.Start, wider.Start), End: l.most(r.End, wider.End), EndInclusive: r.EndInclusive || wider.EndInclusive,
		}
	}
}

// cleanOverlapping returns a clean cut of a level other than 0 that has every file that overlaps r.
func (l *Leveled) cleanOverlapping(v *manifest.Version, level int, r kv.Range) []*manifest.File {
	return l.clean(v, level, v.Overlapping(level, r))
}

// clean returns neighbouring files of a level other than 0 with those beside them that share a user key at the
// boundary.
func (l *Leveled) clean(v *manifest.Version, level int, files []*manifest.File) []*manifest.File {
	if len(files) == 0 {
		return nil
	}
	all := v.Level(level)
	to := l.end(v, level, files)
	from := to - len(files)
	for from > 0 && l.shareKey(all[from-1], all[from]) {
		from--
	}
	for to < len(all) && l.shareKey(all[to-1], all[to]) {
		to++
	}
	return all[from:to:to]
}

// end returns the index behind the last of neighbouring files in their level.
func (l *Leveled) end(v *manifest.Version, level int, files []*manifest.File) int {
	return v.Find(level, files[0].Smallest) + len(files)
}

// shareKey tells whether versions of one user key are in both a and its right neighbour b. The exclusive end of a range
// tombstone is a bound without being a key.
func (l *Leveled) shareKey(a, b *manifest.File) bool {
	return !a.EndsExcluded() && l.cmp.CompareUser(a.Largest.User, b.Smallest.User) == 0
}

func (l *Leveled) overlapsAny(files []*manifest.File, r kv.Range) bool {
	return slices.ContainsFunc(files, func(f *manifest.File) bool {
		return l.cmp.CompareUser(f.Smallest.User, r.End) <= 0 && l.cmp.CompareUser(r.Start, f.Largest.User) <= 0
	})
}

// hull is the range from the first to the last user key of all files. Its bounds are not nil. The end is excluded if it is
// only where range tombstones end.
func (l *Leveled) hull(lists ...[]*manifest.File) kv.Range {
	r := kv.Range{Start: []byte{}, End: []byte{}, EndInclusive: true}
	first := true
	for _, files := range lists {
		for _, f := range files {
			if first {
				r.Start, r.End = append(r.Start, f.Smallest.User...), append(r.End, f.Largest.User...)
				r.EndInclusive = !f.EndsExcluded()
				first = false
				continue
			}
			r.Start = l.least(r.Start, f.Smallest.User)
			switch c := l.cmp.CompareUser(f.Largest.User, r.End); {
			case c > 0:
				r.End, r.EndInclusive = f.Largest.User, !f.EndsExcluded()
			case c == 0:
				r.EndInclusive = r.EndInclusive || !f.EndsExcluded()
			}
		}
	}
	return r
}

func (l *Leveled) least(a, b []byte) []byte {
	if l.cmp.CompareUser(b, a) < 0 {
		return b
	}
	return a
}

func (l *Leveled) most(a, b []byte) []byte {
	if l.cmp.CompareUser(b, a) > 0 {
		return b
	}
	return a
}
