package compaction

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/manifest"
)

var filePattern = regexp.MustCompile(`^(\d+)\[(\w+)\.\.(\w+)\](\d+)(?:@(\d+))?$`)

// version makes a version of a text: a level per line, "L1: 7[a..c]10 9[d..f]10@55", with the file's number, first and
// last user key, size, and largest sequence number (100 when not given). Level 0 is listed newest first.
func version(t testing.TB, text string) *manifest.Version {
	levels := make([][]*manifest.File, 7)
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		level, err := strconv.Atoi(strings.Trim(words[0], "L:"))
		require.NoError(t, err)
		for i, word := range words[1:] {
			m := filePattern.FindStringSubmatch(word)
			require.NotNil(t, m, "file %q", word)
			f := file(number(m[1]), m[2], m[3], number(m[4]))
			if m[5] != "" {
				f.LargestSeq = kv.Seq(number(m[5]))
			}
			if level == 0 {
				f.Epoch = uint64(1000 - i)
			}
			levels[level] = append(levels[level], f)
		}
	}
	v := manifest.NewVersion(kv.Bytewise, levels...)
	require.NoError(t, v.Check(kv.Bytewise))
	return v
}

func number(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

// file makes a file whose first key is a newer version than its last one, so that two files may share a user key as the
// versions of one key do.
func file(num uint64, lo, hi string, size uint64) *manifest.File {
	f := &manifest.File{Num: num, Size: size, LargestSeq: 100, Epoch: 1,
		Smallest: kv.MakeKey([]byte(lo), 50, kv.KindValue), Largest: kv.MakeKey([]byte(hi), 90, kv.KindValue)}
	if lo == hi {
		f.Smallest, f.Largest = f.Largest, f.Smallest
	}
	return f
}

// small is a tree in which sizes are easy to add up in one's head.
func small(change func(*LeveledOptions)) *Leveled {
	o := LeveledOptions{L0Trigger: 4, MaxBytesForLevelBase: 100, Multiplier: 10, TargetFileSizeBase: 10, MaxCompactionBytes: 250}
	if change != nil {
		change(&o)
	}
	return NewLeveled(kv.Bytewise, o)
}

func TestPick(t *testing.T) {
	dynamic := func(o *LeveledOptions) { o.DynamicLevelBytes = true }
	for _, tc := range []struct {
		name, version, want string
		options             func(*LeveledOptions)
		busy                []string // versions' files that are inputs of running jobs: "L0[3 4] -> L1"
	}{
		{name: "an empty tree has nothing to do", want: "nothing"},
		{name: "three files on level 0 are not yet too many", version: `L0: 4[a..z]1 3[a..z]1 2[a..z]1`, want: "nothing"},
		{name: "four are, and go to the base with what they overlap there",
			version: `L0: 4[a..f]1 3[a..f]1 2[a..f]1 1[a..f]1
				L1: 10[a..c]10 11[d..g]10 12[h..k]10`,
			want: "level 0 files: rewrite L0[4 3 2 1] L1[10 11] -> L1, bottommost"},
		{name: "files of level 0 overlap transitively",
			version: `L0: 4[a..c]1 3[x..z]1 2[c..e]1 1[e..g]1
				L1: 10[a..a]10 11[f..h]10 12[x..x]10`,
			want: "level 0 files: rewrite L0[4 2 1] L1[10 11] -> L1, bottommost"},
		{name: "the oldest file does not go without a newer one's older neighbour",
			version: `L0: 4[a..c]1 3[b..d]1 2[p..q]1 1[d..e]1
				L1: 10[a..e]10 11[p..p]10`,
			want: "level 0 files: rewrite L0[4 3 1] L1[10] -> L1, bottommost"},
		{name: "size counts on level 0 as well", version: `L0: 2[a..z]60 1[a..z]60`,
			want: "level 0 files: rewrite L0[2 1] -> L1, bottommost"},
		{name: "with nothing below, dynamic levels start at the last one", options: dynamic,
			version: `L0: 4[a..z]1 3[a..z]1 2[a..z]1 1[a..z]1`,
			want:    "level 0 files: rewrite L0[4 3 2 1] -> L6, bottommost"},
		{name: "files of level 0 that overlap nothing move, oldest first", options: dynamic,
			version: `L0: 4[g..h]1 3[e..f]1 2[c..d]1 1[a..b]1
				L6: 10[d..d]10`,
			want: "level 0 files: move L0[1] -> L6, bottommost"},
		{name: "all of them if they can",
			version: `L0: 4[g..h]1 3[e..f]1 2[c..d]1 1[a..b]1
				L1: 10[x..y]10`,
			want: "level 0 files: move L0[4 3 2 1] -> L1, bottommost"},
		{name: "a file whose move would cost a large job later is rewritten",
			version: `L1: 10[a..c]110
				L3: 30[a..b]100 31[c..d]100`,
			want: "level size: rewrite L1[10] -> L2"},
		{name: "while level 0 is on its way down, new files there are merged among themselves",
			version: `L0: 8[a..z]1 7[a..z]1 6[a..z]1 5[a..z]1 4[a..z]5 3[a..z]5 2[a..z]5 1[a..z]5
				L1: 10[a..z]50`,
			busy: []string{"L0[4 3 2 1] L1[10] -> L1"},
			want: "intra level 0: rewrite L0[8 7 6 5] -> L0"},
		{name: "and not those whose newest is taken",
			version: `L0: 8[a..z]1 7[a..z]1 6[a..z]1 5[a..z]1 4[a..z]5 3[a..z]5 2[a..z]5 1[a..z]5
				L1: 10[a..z]50`,
			busy: []string{"L0[4 3 2 1] L1[10] -> L1", "L0[8 7 6 5] -> L0"},
			want: "nothing"},
		{name: "a small level 0 is merged before a large base level is rewritten",
			version: `L0: 4[a..z]1 3[a..z]1 2[a..z]1 1[a..z]1
				L1: 10[a..z]90`,
			want: "intra level 0 by size: rewrite L0[4 3 2 1] -> L0"},
		{name: "a level over its target gives the file that overlaps least for its size",
			version: `L1: 10[a..c]60 11[d..f]60
				L2: 20[a..b]30 21[c..d]30 22[f..f]10`,
			want: "level size: rewrite L1[11] L2[21 22] -> L2, bottommost"},
		{name: "or the next best if that one is busy",
			version: `L1: 10[a..c]60 11[d..f]60 12[g..h]60
				L2: 20[a..b]30 21[c..c]30 22[f..f]10 23[g..g]70`,
			busy: []string{"L1[11] L2[22] -> L2"},
			want: "level size: rewrite L1[10] L2[20 21] -> L2, bottommost"},
		{name: "or none if what they overlap is busy",
			version: `L1: 10[a..c]160 11[d..f]60
				L2: 20[a..b]30 21[c..d]30 22[f..f]10`,
			busy: []string{"L1[11] L2[21 22] -> L2"},
			want: "nothing"},
		{name: "no job writes where another one writes",
			version: `L1: 10[a..c]60 11[m..n]60 12[d..d]60
				L2: 20[a..b]30 21[k..z]30`,
			busy: []string{"L1[10 11] L2[20 21] -> L2"},
			want: "nothing"},
		{name: "inputs grow when that costs nothing below",
			version: `L1: 10[a..b]60 11[c..d]60 12[e..f]60
				L2: 20[a..f]30 21[h..i]30`,
			want: "level size: rewrite L1[10 11 12] L2[20] -> L2, bottommost"},
		{name: "a file over nothing moves, with its neighbours",
			version: `L1: 10[a..b]60 11[c..d]60 12[e..f]60
				L2: 20[f..g]30`,
			want: "level size: move L1[10 11] -> L2, bottommost"},
		{name: "versions of one key are not taken apart above",
			version: `L1: 10[a..c]20 11[c..e]60 12[e..g]60 13[h..i]60
				L2: 20[h..i]900 21[c..c]10`,
			want: "level size: rewrite L1[10 11 12] L2[21] -> L2, bottommost"},
		{name: "nor below",
			version: `L1: 10[b..c]110
				L2: 19[0..a]10 20[a..b]30 21[d..d]10`,
			want: "level size: rewrite L1[10] L2[19 20] -> L2, bottommost"},
		{name: "what is below the output's range keeps tombstones alive",
			version: `L1: 10[b..c]110
				L2: 20[b..b]30
				L4: 40[a..f]30`,
			want: "level size: rewrite L1[10] L2[20] -> L2"},
		{name: "levels that the tree can do without are drained", options: dynamic,
			version: `L4: 10[a..b]9
				L5: 12[a..c]9
				L6: 20[a..b]90 21[c..d]90`,
			want: "level size: rewrite L4[10] L5[12] -> L5"},
		{name: "the base level is never below one that holds data", options: dynamic,
			version: `L0: 5[a..z]1 4[a..z]1 3[a..z]1 2[a..z]1 1[a..z]1
				L3: 10[b..c]100
				L6: 20[a..b]1000`,
			want: "level 0 files: rewrite L0[5 4 3 2 1] L3[10] -> L3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := version(t, tc.version)
			l := small(tc.options)
			busy := &Busy{}
			for _, text := range tc.busy {
				busy.Start(runningPlan(t, l, v, text))
			}
			require.Equal(t, tc.want, l.Pick(v, busy).String())
		})
	}
}

// runningPlan makes a plan of what Plan.String says after its reason.
func runningPlan(t testing.TB, l *Leveled, v *manifest.Version, text string) *Plan {
	text, to, _ := strings.Cut(text, " -> L")
	p := &Plan{OutputLevel: int(number(to))}
	for _, m := range regexp.MustCompile(`L(\d)\[([\d ]+)\]`).FindAllStringSubmatch(text, -1) {
		in := Input{Level: int(number(m[1]))}
		for _, f := range v.Level(in.Level) {
			for _, n := range strings.Fields(m[2]) {
				if number(n) == f.Num {
					in.Files = append(in.Files, f)
				}
			}
		}
		require.Len(t, in.Files, len(strings.Fields(m[2])))
		p.Inputs = append(p.Inputs, in)
	}
	lists := make([][]*manifest.File, len(p.Inputs))
	for i, in := range p.Inputs {
		lists[i] = in.Files
	}
	p.Range = l.hull(lists...)
	return p
}

func TestPlanCarriesWhatItsJobNeeds(t *testing.T) {
	v := version(t, `L1: 10[b..c]110
		L2: 20[b..d]30
		L3: 30[a..a]5 31[d..e]7
		L5: 50[c..c]9`)
	l := small(func(o *LeveledOptions) { o.TargetFileSizeMultiplier = 2 })
	p := l.Pick(v, nil)
	require.Equal(t, "level size: rewrite L1[10] L2[20] -> L2", p.String())
	require.Equal(t, kv.Range{Start: []byte("b"), End: []byte("d"), EndInclusive: true}, p.Range)
	require.Equal(t, uint64(20), p.TargetOutputSize)
	require.Equal(t, uint64(40), p.MaxOutputSize, "with grandparents a table may wait for a good place to end")
	require.Equal(t, uint64(250), p.MaxCompactionBytes)
	require.Equal(t, []uint64{31}, nums(p.Grandparents))
	require.Len(t, p.Below, 2)
	require.Equal(t, []uint64{50}, nums(p.Below[1]))
	require.Equal(t, uint64(140), p.InputBytes())
	require.Equal(t, 2, p.NumFiles())
	require.Equal(t, uint64(1), p.Epoch())

	v = version(t, `L1: 10[b..c]110
		L2: 20[b..d]30`)
	p = l.Pick(v, nil)
	require.Equal(t, p.TargetOutputSize, p.MaxOutputSize)
	require.True(t, p.Bottommost)
}

func nums(files []*manifest.File) (n []uint64) {
	for _, f := range files {
		n = append(n, f.Num)
	}
	return n
}

func TestTargets(t *testing.T) {
	for _, tc := range []struct {
		name, version string
		dynamic       bool
		base          int
		want          string
	}{
		{"static levels are fixed", ``, false, 1, "0 100 1000 10000 100000 1000000 10000000"},
		{"an empty tree begins at the bottom", ``, true, 6, "0 - - - - - -"},
		{"a small tree stays there", `L6: 1[a..b]90`, true, 6, "0 - - - - - 100"},
		{"and grows upward when the last level is over the base's size", `L6: 1[a..b]500`, true, 5, "0 - - - - 100 500"},
		{"by the ratio from the largest level", `L6: 1[a..b]50000`, true, 3, "0 - - 100 500 5000 50000"},
		{"the first level with data is the base even if it is not needed", `L3: 1[a..b]5
			L6: 2[a..b]500`, true, 3, "0 - - 100 110 1100 11000"},
		{"level 1 is the highest base there is", `L6: 1[a..b]900000000`, true, 1, "0 100 1000 10000 100000 1000000 10000000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := small(func(o *LeveledOptions) { o.DynamicLevelBytes = tc.dynamic })
			base, bytes := l.Targets(version(t, tc.version))
			words := make([]string, len(bytes))
			for i, n := range bytes {
				if words[i] = fmt.Sprint(n); n == 1<<64-1 {
					words[i] = "-"
				}
			}
			require.Equal(t, tc.base, base)
			require.Equal(t, tc.want, strings.Join(words, " "))
		})
	}
}

func TestScores(t *testing.T) {
	dynamic := small(func(o *LeveledOptions) { o.DynamicLevelBytes = true })
	static := small(nil)
	v := version(t, `L0: 2[a..b]10 1[a..b]10
		L1: 10[a..b]150
		L2: 20[a..b]500`)
	require.InDeltaSlice(t, []float64{0.5, 1.5, 0.5, 0, 0, 0, 0}, static.Scores(v), 1e-9)
	busy := &Busy{}
	busy.Start(runningPlan(t, static, v, "L1[10] L2[20] -> L2"))
	require.InDeltaSlice(t, []float64{0.5, 0, 0, 0, 0, 0, 0}, static.scores(v, static.targets(v), busy), 1e-9,
		"files of running jobs do not make a level urgent")

	v = version(t, `L0: 5[a..b]50 4[a..b]50 3[a..b]50 2[a..b]50 1[a..b]50
		L5: 50[a..b]200
		L6: 60[a..b]1000`)
	scores := dynamic.Scores(v)
	require.InDelta(t, 12.5, scores[0], 1e-9, "over 1, it counts ten times")
	require.InDelta(t, 200.0/(100+250)*10, scores[5], 1e-9, "what comes down from level 0 makes it less urgent to go on")
}

func TestPendingBytes(t *testing.T) {
	l := small(nil)
	require.Zero(t, l.PendingBytes(version(t, `L0: 1[a..b]10
		L1: 10[a..b]100`)))
	require.Equal(t, uint64(40+50), l.PendingBytes(version(t, `L0: 4[a..b]10 3[a..b]10 2[a..b]10 1[a..b]10
		L1: 10[a..b]50`)))
	// Level 1 ends 60 over its target; moving them rewrites 60 and their part of level 2: 60 × 320/160.
	require.Equal(t, uint64(40+120+60*(2+1)), l.PendingBytes(version(t, `L0: 4[a..b]10 3[a..b]10 2[a..b]10 1[a..b]10
		L1: 10[a..b]120
		L2: 20[a..b]320`)))
}

func TestPickRange(t *testing.T) {
	const tree = `L0: 3[a..e]10 2[f..z]10 1[d..g]10
		L1: 10[a..b]100 11[b..c]100 12[d..e]100 13[f..g]100 14[h..i]100
		L3: 30[c..c]10 31[e..k]120`
	v := version(t, tree)
	l := small(nil)
	for _, tc := range []struct {
		name          string
		level, output int
		begin, end    string
		busy          string
		want, next    string
		wait          bool
	}{
		{name: "level 0 takes all that overlaps", level: 0, output: 1, begin: "a", end: "b",
			want: "manual: rewrite L0[3 2 1] L1[10 11 12 13 14] -> L1"},
		{name: "one job at a time from level 0", level: 0, output: 1, busy: "L0[2] L1[12] -> L1", wait: true, want: "nothing"},
		{name: "a range without files", level: 1, output: 2, begin: "x", end: "y", want: "nothing"},
		{name: "large levels go in steps that cut no key's versions", level: 1, output: 2,
			want: "manual: move L1[10 11 12] -> L2", next: "f"},
		{name: "and go on where the last step ended", level: 1, output: 2, begin: "f",
			want: "manual: move L1[13 14] -> L2"},
		{name: "an end inside a file takes all of it", level: 1, output: 2, begin: "f", end: "f",
			want: "manual: move L1[13] -> L2"},
		{name: "an output with data above it is raised to that data, and neighbours come along for free", level: 1, output: 5, begin: "f", end: "f",
			want: "manual: rewrite L1[12 13 14] L3[31] -> L3, bottommost"},
		{name: "a level is rewritten in place", level: 3, output: 3,
			want: "manual: rewrite L3[30 31] -> L3, bottommost"},
		{name: "into the bottom it is rewritten, for tombstones to go", level: 3, output: 4, begin: "a", end: "c",
			want: "manual: rewrite L3[30] -> L4, bottommost"},
		{name: "busy files are waited for", level: 1, output: 2, begin: "f", busy: "L1[13] -> L2", wait: true, want: "nothing"},
		{name: "and so are busy outputs", level: 3, output: 4, begin: "e", end: "e", busy: "L1[14] -> L4", wait: true, want: "nothing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bound := func(s string) []byte {
				if s == "" {
					return nil
				}
				return []byte(s)
			}
			busy := &Busy{}
			if tc.busy != "" {
				busy.Start(runningPlan(t, l, v, tc.busy))
			}
			p, next, wait := l.PickRange(v, tc.level, tc.output, bound(tc.begin), bound(tc.end), nil, busy)
			require.Equal(t, tc.want, p.String())
			require.Equal(t, tc.wait, wait)
			if !wait {
				require.Equal(t, tc.next, string(next))
			}
		})
	}
}

func TestPickBottommost(t *testing.T) {
	l := small(nil)
	v := version(t, `L2: 20[a..c]10@40 21[d..e]10@40 22[f..g]10@60
		L4: 40[b..b]10@0 41[g..h]10@70 42[h..i]10@20`)
	require.Equal(t, "bottommost files: rewrite L2[21] -> L2, bottommost", l.PickBottommost(v, 50, nil).String(),
		"20 has something below it; 42 shares a key with a file that is too new")
	require.Equal(t, "bottommost files: rewrite L4[41 42] -> L4, bottommost", l.PickBottommost(v, 80, nil).String())
	require.Nil(t, l.PickBottommost(v, 30, nil))
	busy := &Busy{}
	busy.Start(runningPlan(t, l, v, "L2[21] -> L3"))
	require.Nil(t, l.PickBottommost(v, 50, busy))
}

// A failed job gives its files back.
func TestDoneFreesWhatStartTook(t *testing.T) {
	v := version(t, `L0: 4[a..f]1 3[a..f]1 2[a..f]1 1[a..f]1`)
	l := small(nil)
	busy := &Busy{}
	p := l.Pick(v, busy)
	busy.Start(p)
	require.True(t, busy.Has(3))
	require.Equal(t, 1, busy.Len())
	require.Nil(t, l.Pick(v, busy))
	busy.Done(p)
	require.False(t, busy.Has(3))
	require.Equal(t, p, l.Pick(v, busy))
}
