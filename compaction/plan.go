package compaction

import (
	"fmt"
	"strings"

	"github.com/ashlardb/ashlar/internal/invariants"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/manifest"
)

// Kind says what carrying out a plan means.
type Kind uint8

const (
	// Rewrite reads the inputs and writes new tables.
	Rewrite Kind = iota
	// Move gives the inputs another level in the manifest. Nothing is read or written.
	Move
)

func (k Kind) String() string {
	if k == Move {
		return "move"
	}
	return "rewrite"
}

// Reason says why a plan was made, for events and for the reader of a test.
type Reason uint8

const (
	// Level0Files: level 0 has too many files, or too many bytes, and goes to the base level.
	Level0Files Reason = iota
	// IntraLevel0: level 0 has too many files, but the way down is taken by a running job.
	IntraLevel0
	// IntraLevel0Size: level 0 has too many files, but is small against the base level, which a job would rewrite.
	IntraLevel0Size
	// LevelSize: a level is larger than its target.
	LevelSize
	// BottommostFiles: a snapshot was released that kept old versions and sequence numbers at the bottom.
	BottommostFiles
	// ManualCompaction: the user asked.
	ManualCompaction
)

func (r Reason) String() string {
	return [...]string{"level 0 files", "intra level 0", "intra level 0 by size", "level size", "bottommost files", "manual"}[r]
}

// Input is what a plan takes from one level, in the level's order: level 0 newest first, the others by key.
type Input struct {
	Level int
	Files []*manifest.File
}

// Plan says what to compact and into what. It is a value: making one changes nothing, and it stays right as long as its
// files are on their levels, which marking it in Busy ensures.
type Plan struct {
	Kind   Kind
	Reason Reason
	// Inputs are in order of their levels. There is never half of a user key in them: all versions of it on a level are
	// in the inputs or none is.
	Inputs      []Input
	OutputLevel int
	// Range is the hull of the inputs' user keys.
	Range kv.Range

	// TargetOutputSize is the size in bytes that a table should have, MaxOutputSize the size at which it ends even where
	// ending costs a later job more. 0: one table, however large.
	TargetOutputSize, MaxOutputSize uint64
	// MaxCompactionBytes is how much a later job from the output level should at most read: a table ends before it
	// overlaps more of Grandparents than that.
	MaxCompactionBytes uint64
	// Grandparents are the files that overlap Range on the first level below the output that has any.
	Grandparents []*manifest.File

	// Bottommost is set when no level below the output overlaps Range. Tombstones then have nothing left to hide.
	// Never set when the output is level 0, where older files may lie beside it.
	Bottommost bool
	// Below are the files that overlap Range, for each level below the output that has any: where a tombstone's key may
	// still be hidden. Meaningless when the output is level 0.
	Below [][]*manifest.File
}

// NumFiles is the number of input files.
func (p *Plan) NumFiles() (n int) {
	for _, in := range p.Inputs {
		n += len(in.Files)
	}
	return n
}

// InputBytes is the sum of the inputs' sizes.
func (p *Plan) InputBytes() (n uint64) {
	for _, in := range p.Inputs {
		n += totalSize(in.Files)
	}
	return n
}

// Epoch is the epoch of the outputs: the least of the inputs'.
func (p *Plan) Epoch() uint64 {
	return p.least(func(f *manifest.File) uint64 { return f.Epoch })
}

// OldestAncestorTime is the outputs': the least of the inputs', in seconds since 1970, 0 when one is not known.
func (p *Plan) OldestAncestorTime() uint64 {
	return p.least(func(f *manifest.File) uint64 { return f.OldestAncestorTime })
}

func (p *Plan) least(of func(*manifest.File) uint64) (least uint64) {
	first := true
	for _, in := range p.Inputs {
		for _, f := range in.Files {
			if n := of(f); first || n < least {
				least, first = n, false
			}
		}
	}
	return least
}

// String is one line: "level size: rewrite L1[7 9] L2[12] -> L2, bottommost".
func (p *Plan) String() string {
	if p == nil {
		return "nothing"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %v", p.Reason, p.Kind)
	for _, in := range p.Inputs {
		fmt.Fprintf(&b, " L%d[", in.Level)
		for i, f := range in.Files {
			if i > 0 {
				b.WriteByte(' ')
			}
			fmt.Fprint(&b, f.Num)
		}
		b.WriteByte(']')
	}
	fmt.Fprintf(&b, " -> L%d", p.OutputLevel)
	if p.Bottommost {
		b.WriteString(", bottommost")
	}
	return b.String()
}

// Busy is what running jobs hold. The zero value, and a nil pointer, hold nothing. It has no lock: who starts and ends
// jobs guards it, and holds that guard while a picker reads it.
type Busy struct {
	plans []*Plan
	files map[uint64]bool
}

// Start marks p's files and output as taken, until Done.
func (b *Busy) Start(p *Plan) {
	if b.files == nil {
		b.files = make(map[uint64]bool)
	}
	for _, in := range p.Inputs {
		for _, f := range in.Files {
			if invariants.Enabled && b.files[f.Num] {
				panic(fmt.Sprintf("compaction: file %06d is an input of two jobs", f.Num))
			}
			b.files[f.Num] = true
		}
	}
	b.plans = append(b.plans, p)
}

// Done gives back what Start took, whether the job succeeded or failed.
func (b *Busy) Done(p *Plan) {
	for i, q := range b.plans {
		if q != p {
			continue
		}
		b.plans = append(b.plans[:i:i], b.plans[i+1:]...)
		for _, in := range p.Inputs {
			for _, f := range in.Files {
				delete(b.files, f.Num)
			}
		}
		return
	}
}

// Len is the number of plans that are marked.
func (b *Busy) Len() int {
	if b == nil {
		return 0
	}
	return len(b.plans)
}

// Has tells whether the file is an input of a running job.
func (b *Busy) Has(num uint64) bool { return b != nil && b.files[num] }

// any tells whether one of files is an input of a running job.
func (b *Busy) any(files []*manifest.File) bool {
	if b.Len() == 0 {
		return false
	}
	for _, f := range files {
		if b.files[f.Num] {
			return true
		}
	}
	return false
}

// Level0 tells whether a running job takes files from level 0.
func (b *Busy) Level0() bool {
	if b == nil {
		return false
	}
	for _, p := range b.plans {
		if p.Inputs[0].Level == 0 {
			return true
		}
	}
	return false
}

// writes tells whether a running job may write a key of r to the level. Two outputs must not overlap, except on level 0.
func (b *Busy) writes(cmp *kv.Comparer, level int, r kv.Range) bool {
	if b == nil || level == 0 {
		return false
	}
	for _, p := range b.plans {
		if p.OutputLevel == level && cmp.CompareUser(p.Range.Start, r.End) <= 0 && cmp.CompareUser(r.Start, p.Range.End) <= 0 {
			return true
		}
	}
	return false
}

func totalSize(files []*manifest.File) (n uint64) {
	for _, f := range files {
		n += f.Size
	}
	return n
}
