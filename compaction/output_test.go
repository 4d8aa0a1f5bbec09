package compaction

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/manifest"
)

func TestShouldCut(t *testing.T) {
	// A table of 300 of 1000 wanted and 2000 at most, not at a bound.
	base := place{size: 300, target: 1000, limit: 2000, maxCompaction: 25000}
	for _, tc := range []struct {
		name string
		at   func(*place)
		want bool
	}{
		{"a small table goes on", func(*place) {}, false},
		{"it ends at the limit wherever it is", func(p *place) { p.size = 2000 }, true},
		{"over its target it waits for a bound", func(p *place) { p.size = 1999 }, false},
		{"without a target it never ends", func(p *place) { p.size, p.target, p.passed = 1<<40, 0, 9 }, false},
		{"half its target is enough at the first bound", func(p *place) { p.size, p.passed = 500, 1 }, true},
		{"and a little more at later ones", func(p *place) { p.size, p.passed, p.boundaries = 550, 1, 1 }, true},
		{"with each bound it can wait for a better one", func(p *place) { p.size, p.passed, p.boundaries = 599, 1, 2 }, false},
		{"but not for ever", func(p *place) { p.size, p.passed, p.boundaries = 900, 1, 500 }, true},
		{"it ends before it overlaps too much", func(p *place) { p.passed, p.overlapping = 1, 24701 }, true},
		{"which is looked at where bounds are", func(p *place) { p.overlapping = 24701 }, false},
		{"a whole grandparent between two keys is left out", func(p *place) { p.passed, p.gap, p.overlapped, p.overlapping = 2, true, 500, 626 }, true},
		{"unless it is tiny", func(p *place) { p.passed, p.gap, p.overlapped, p.overlapping = 2, true, 500, 625 }, false},
		{"out of one file and into the next is no jump", func(p *place) { p.passed, p.overlapped, p.overlapping = 2, 500, 900 }, false},
		{"over one between them is", func(p *place) { p.passed, p.overlapped, p.overlapping = 3, 500, 900 }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := base
			tc.at(&p)
			require.Equal(t, tc.want, p.shouldCut())
		})
	}
}

func TestGrandparentsAreCountedAsKeysGoBy(t *testing.T) {
	g := &grandparents{files: []*manifest.File{file(1, "b", "d", 10), file(2, "f", "h", 100), file(3, "h", "k", 1000), file(4, "p", "p", 10000)}}
	for _, step := range []struct {
		user       string
		passed     int
		boundaries int
		overlapped uint64
		inside     bool
	}{
		{"c", 0, 0, 10, true}, // the first key of an output, in the middle of a file
		{"d", 0, 0, 10, true},
		{"e", 1, 1, 10, false},
		{"h", 1, 2, 110, true},  // two files have it: still in the first
		{"i", 2, 4, 1110, true}, // out of one, into the next
		{"z", 3, 7, 11110, false},
	} {
		require.Equal(t, step.passed, g.advance(kv.Bytewise, []byte(step.user)), step.user)
		require.Equal(t, step.boundaries, g.boundaries, step.user)
		require.Equal(t, step.overlapped, g.overlapped, step.user)
		require.Equal(t, step.inside, g.inside, step.user)
	}
	g = &grandparents{files: g.files}
	g.advance(kv.Bytewise, []byte("a"))
	g.advance(kv.Bytewise, []byte("g"))
	require.Equal(t, uint64(110), g.overlapped)
	g.begin()
	require.Equal(t, uint64(100), g.overlapped, "a new output overlaps what its first key is in")
	require.Zero(t, g.boundaries)
}
