package compaction

import (
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/manifest"
)

// Where an output table ends. A table that lies across many files of the next level (the grandparents of its inputs) costs
// a large job when it goes down in its turn, so it pays to end where one of those begins or ends, and best where the keys
// jump over a whole one.
//
// A cut is asked for only between two user keys: all versions of a key are in one table, whatever its size.

// place is what is known before a key is added to an output that is not empty.
type place struct {
	size                    uint64 // of the output so far
	target, limit           uint64 // sizes that an output should have, and at most has
	maxCompaction           uint64
	passed                  int    // bounds of grandparents between the output's last key and this one
	boundaries              int    // bounds of grandparents inside the output, with those passed now
	overlapped, overlapping uint64 // bytes of grandparents that the output overlaps without and with the key
	gap                     bool   // the key is in no grandparent
}

// shouldCut tells whether the output ends before the key.
func (p place) shouldCut() bool {
	switch {
	case p.target == 0:
		return false
	case p.size >= p.limit:
		return true
	case p.passed == 0:
		return false
	case p.overlapping+p.size > p.maxCompaction:
		return true
	case p.passed >= p.jump() && p.overlapping-p.overlapped > p.target/8:
		return true
	}
	// The more bounds there were, the more there will be: such an output can wait for one nearer to its target.
	return p.size >= p.target/100*uint64(50+min(5*p.boundaries, 40))
}

// jump is the number of bounds that are passed when a whole grandparent lies between two keys.
func (p place) jump() int {
	if p.gap {
		return 2
	}
	return 3
}

// grandparents walks along the files of the next level as keys come in ascending order.
type grandparents struct {
	files      []*manifest.File
	at         int // the file that holds the last key, or the one behind it
	inside     bool
	begun      bool   // the output has a key
	overlapped uint64 // bytes of files that the output overlaps
	boundaries int    // bounds of files inside the output
}

// advance goes on to user and returns the number of bounds passed since the last key of the same output.
func (g *grandparents) advance(cmp *kv.Comparer, user []byte) (passed int) {
	for g.at < len(g.files) {
		f := g.files[g.at]
		if g.inside {
			if cmp.CompareUser(user, f.Largest.User) <= 0 {
				break
			}
			g.inside = false
			g.at++
		} else {
			if cmp.CompareUser(user, f.Smallest.User) < 0 {
				break
			}
			g.inside = true
			if g.begun {
				g.overlapped += f.Size
			}
		}
		if g.begun {
			passed++
		}
	}
	if !g.begun {
		g.begin()
	}
	g.boundaries += passed
	return passed
}

// begin says that the last key is the first of an output.
func (g *grandparents) begin() {
	g.begun, g.boundaries, g.overlapped = true, 0, 0
	if g.inside {
		g.overlapped = g.files[g.at].Size
	}
}
