package compaction

import (
	"math"

	"github.com/ashlardb/ashlar/manifest"
)

// How large levels should be, and how far each is from that. Pure arithmetic on a version's sizes.

// scale lifts the scores of levels that are over their target above those that are near it, with dynamic levels, where
// a level's score is divided by what is about to come down to it.
const scale = 10

// targets is the shape that a tree should have.
type targets struct {
	base int // the level that level 0 is compacted into
	// bytes are the levels' target sizes. A level above the base wants to be empty but is never scheduled for its size:
	// math.MaxUint64. bytes[0] is 0: level 0 has another rule.
	bytes []uint64
	// unneeded is the deepest level that the tree could do without; it and those above it are drained. -1: none.
	unneeded int
}

// Targets returns the level that level 0 is compacted into and each level's target size in bytes. With dynamic levels
// the deepest ones are filled first and the targets follow from the largest level; levels above the base are empty or
// on the way to be, and have no target (math.MaxUint64).
func (l *Leveled) Targets(v *manifest.Version) (base int, bytes []uint64) {
	t := l.targets(v)
	return t.base, t.bytes
}

func (l *Leveled) targets(v *manifest.Version) targets {
	n := l.o.NumLevels
	t := targets{base: 1, bytes: make([]uint64, n), unneeded: -1}
	if !l.o.DynamicLevelBytes {
		size := l.o.MaxBytesForLevelBase
		for i := 1; i < n; i++ {
			t.bytes[i] = size
			size = times(size, l.o.Multiplier)
		}
		return t
	}

	var largest uint64
	first := n
	for i := n - 1; i >= 1; i-- {
		t.bytes[i] = math.MaxUint64
		if s := v.Size(i); s > 0 {
			first, largest = i, max(largest, s)
		}
	}
	if largest == 0 {
		t.base = n - 1
		return t
	}
	// If the largest level were the last one and exactly at its target, how large would the first non-empty one be?
	size := largest
	least := uint64(float64(l.o.MaxBytesForLevelBase) / l.o.Multiplier)
	for i := n - 2; i >= first; i-- {
		size = uint64(float64(size) / l.o.Multiplier)
		if t.unneeded < 0 && size <= least {
			t.unneeded = i
		}
	}
	t.base = first
	if size <= least {
		size = least + 1
	} else {
		for t.base > 1 && size > l.o.MaxBytesForLevelBase {
			t.base--
			size = uint64(float64(size) / l.o.Multiplier)
		}
		size = min(max(size, 1), l.o.MaxBytesForLevelBase)
	}
	for i := t.base; i < n; i++ {
		// No level is meant to be smaller than level 0, or the tree gets a waist.
		t.bytes[i] = max(size, l.o.MaxBytesForLevelBase)
		size = times(size, l.o.Multiplier)
	}
	return t
}

// Scores returns for each level how urgent it is to compact from it; from 1 on Pick would. The last level's is 0. Files
// of running jobs count as if they were there.
func (l *Leveled) Scores(v *manifest.Version) []float64 {
	return l.scores(v, l.targets(v), nil)
}

func (l *Leveled) scores(v *manifest.Version, t targets, busy *Busy) []float64 {
	scores := make([]float64, l.o.NumLevels)
	var coming float64 // bytes that will come down to the level in hand
	for level := 0; level < l.o.NumLevels-1; level++ {
		idle, files := idleBytes(v.Level(level), busy)
		total, target := float64(v.Size(level)), float64(t.bytes[level])
		if level == 0 {
			scores[0] = l.level0Score(v, t, idle, files)
			coming = total
			continue
		}
		switch score := idle / target; {
		case l.o.DynamicLevelBytes && score >= 1:
			scores[level] = idle / (target + coming) * scale
		default:
			scores[level] = score
		}
		switch {
		case level <= t.unneeded:
			if idle > 0 {
				scores[level] = max(scores[level], scale*(1.001+0.001*float64(t.unneeded-level)))
			}
			coming += total
		case total > target:
			coming += total - target
		}
	}
	return scores
}

func (l *Leveled) level0Score(v *manifest.Version, t targets, idle float64, files int) float64 {
	score := float64(files) / float64(l.o.L0Trigger)
	limit := float64(l.o.MaxBytesForLevelBase)
	if !l.o.DynamicLevelBytes {
		return max(score, idle/limit)
	}
	if idle >= limit {
		score = max(score, 1.01)
	}
	if target := float64(t.bytes[t.base]); idle > target {
		score = max(score, idle/max(float64(v.Size(t.base)), target))
	}
	if score > 1 {
		score *= scale
	}
	return score
}

// PendingBytes estimates how many bytes compactions will have to rewrite before every level is within its target. Write
// stalls go by it.
func (l *Leveled) PendingBytes(v *manifest.Version) uint64 {
	t := l.targets(v)
	var pending, down float64
	if len(v.Level(0)) >= l.o.L0Trigger || v.Size(0) >= l.o.MaxBytesForLevelBase {
		down = float64(v.Size(0))
		pending = down + float64(v.Size(t.base))
	}
	for level := t.base; level < l.o.NumLevels-1; level++ {
		size, target := float64(v.Size(level))+down, float64(t.bytes[level])
		down = 0
		if size <= target {
			continue
		}
		// What leaves the level is merged into its share of the next.
		down = size - target
		if next := float64(v.Size(level + 1)); next > 0 {
			pending += down * (next/size + 1)
		}
	}
	return uint64(min(pending, math.MaxInt64))
}

func idleBytes(files []*manifest.File, busy *Busy) (bytes float64, n int) {
	for _, f := range files {
		if !busy.Has(f.Num) {
			bytes += weight(f)
			n++
		}
	}
	return bytes, n
}

// weight is a file's size, raised by what its range tombstones hide below it.
func weight(f *manifest.File) float64 { return float64(f.Size + f.CompensatedRangeDeletionSize) }

// times multiplies, and stays at the top instead of wrapping.
func times(n uint64, m float64) uint64 {
	if x := float64(n) * m; x < math.MaxInt64 {
		return uint64(x)
	}
	return math.MaxInt64
}
