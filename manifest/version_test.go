package manifest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/kv"
)

// file makes a file with the user keys from..to, written at sequences num*10 to num*10+9.
func file(num uint64, from, to string) *File {
	lo, hi := kv.Seq(num*10), kv.Seq(num*10+9)
	return &File{
		Num: num, Size: num * 100, Smallest: kv.MakeKey([]byte(from), hi, kv.KindValue), Largest: kv.MakeKey([]byte(to), lo, kv.KindValue),
		SmallestSeq: lo, LargestSeq: hi,
	}
}

func withEpoch(f *File, epoch uint64) *File {
	f.Epoch = epoch
	return f
}

func nums(files []*File) []uint64 {
	got := []uint64{}
	for _, f := range files {
		got = append(got, f.Num)
	}
	return got
}

func TestLevelZeroIsNewestFirst(t *testing.T) {
	byEpoch := NewVersion(kv.Bytewise, []*File{withEpoch(file(1, "a", "b"), 3), withEpoch(file(2, "a", "b"), 9), withEpoch(file(3, "a", "b"), 5)})
	require.Equal(t, []uint64{2, 3, 1}, nums(byEpoch.Level(0)))
	// One without an epoch, and the others' say nothing.
	bySeq := NewVersion(kv.Bytewise, []*File{withEpoch(file(1, "a", "b"), 3), withEpoch(file(2, "a", "b"), 9), file(3, "a", "b")})
	require.Equal(t, []uint64{3, 2, 1}, nums(bySeq.Level(0)))
}

func TestDeeperLevelsAreOrderedByKey(t *testing.T) {
	v := NewVersion(kv.Bytewise, nil, []*File{file(1, "m", "p"), file(2, "a", "c"), file(3, "q", "z")})
	require.Equal(t, []uint64{2, 1, 3}, nums(v.Level(1)))
	require.NoError(t, v.Check(kv.Bytewise))
	require.Equal(t, 2, v.NumLevels())
	require.Equal(t, 3, v.NumFiles())
	require.Equal(t, uint64(600), v.Size(1))
	require.Zero(t, v.Size(7))
	require.Nil(t, v.Level(7))
	require.Error(t, v.Check(kv.ReverseBytewise))
}

func TestCheckFindsBrokenLevels(t *testing.T) {
	for text, v := range map[string]*Version{
		`level 1: files 000001[a#19,SET..m#10,SET] and 000002[k#29,SET..p#20,SET] overlap`: NewVersion(kv.Bytewise, nil, []*File{file(1, "a", "m"), file(2, "k", "p")}),
		`level 0: file 000001[b#19,SET..a#10,SET] ends before it begins`:                   NewVersion(kv.Bytewise, []*File{file(1, "b", "a")}),
		`file 000001 is on level 0 and on level 1`:                                         NewVersion(kv.Bytewise, []*File{file(1, "a", "b")}, []*File{file(1, "a", "b")}),
		`level 0: files 000002[a#29,SET..b#20,SET] and 000001[a#19,SET..b#10,SET] overlap and have the same epoch 4`: NewVersion(kv.Bytewise,
			[]*File{withEpoch(file(1, "a", "b"), 4), withEpoch(file(2, "a", "b"), 4)}),
	} {
		require.EqualError(t, v.Check(kv.Bytewise), text)
	}
	require.NoError(t, NewVersion(kv.Bytewise, []*File{withEpoch(file(1, "a", "b"), 4), withEpoch(file(2, "c", "d"), 4)}).Check(kv.Bytewise))
}

// The versions of one user key may lie in two files of a level, and a file may end with the end of a tombstone at which
// the next one begins.
func TestNeighboursMayShareAUserKey(t *testing.T) {
	a, b, c := file(1, "a", "k"), file(2, "k", "m"), file(3, "m", "z")
	a.Largest.Trailer = kv.MakeTrailer(90, kv.KindValue)
	b.Smallest.Trailer = kv.MakeTrailer(80, kv.KindValue)
	b.Largest.Trailer = rangeEnd
	v := NewVersion(kv.Bytewise, nil, []*File{a, b, c})
	require.NoError(t, v.Check(kv.Bytewise))
	k := kv.Range{Start: []byte("k"), End: []byte("k"), EndInclusive: true}
	require.Equal(t, []uint64{1, 2}, nums(v.Overlapping(1, k)))
	m := kv.Range{Start: []byte("m"), End: []byte("m"), EndInclusive: true}
	require.Equal(t, []uint64{3}, nums(v.Overlapping(1, m)), "m is not in a range that ends before m")
	require.Equal(t, 1, v.Find(1, kv.SeekKey([]byte("k"), 85)))
	require.Equal(t, 0, v.Find(1, kv.SeekKey([]byte("k"), 95)))
	require.Equal(t, 3, v.Find(1, kv.SeekKey([]byte("zz"), 95)))
}

// The binary search finds what looking at each file finds.
func TestOverlappingIsWhatEachFileSays(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 150 {
		var keys []string
		for range 2 * rng.IntN(12) {
			keys = append(keys, fmt.Sprintf("%02d", rng.IntN(40)))
		}
		slices.Sort(keys)
		keys = slices.Compact(keys)
		var files []*File
		for i := 0; i+1 < len(keys); i += 2 {
			files = append(files, file(uint64(i+1), keys[i], keys[i+1]))
		}
		v := NewVersion(kv.Bytewise, files, files)
		bound := func() []byte {
			if rng.IntN(6) == 0 {
				return nil
			}
			return fmt.Appendf(nil, "%02d", rng.IntN(42))
		}
		for range 40 {
			r := kv.Range{Start: bound(), End: bound(), EndInclusive: rng.IntN(2) == 0}
			if r.Start != nil && r.End != nil && string(r.Start) > string(r.End) {
				r.Start, r.End = r.End, r.Start
			}
			if r.Start != nil && string(r.Start) == string(r.End) {
				r.EndInclusive = true
			}
			want := []uint64{}
			for _, f := range v.Level(1) {
				first, last := string(f.Smallest.User), string(f.Largest.User)
				late := r.End != nil && (first > string(r.End) || first == string(r.End) && !r.EndInclusive)
				if !late && (r.Start == nil || last >= string(r.Start)) {
					want = append(want, f.Num)
				}
			}
			require.Equal(t, want, nums(v.Overlapping(1, r)), "%q", r)
			zero := nums(v.Overlapping(0, r))
			slices.Sort(zero)
			require.Equal(t, want, zero, "%q", r)
			k := kv.SeekKey(bound(), kv.Seq(rng.IntN(300)))
			i := 0
			for i < len(files) && kv.Bytewise.CompareKeys(v.Level(1)[i].Largest, k) < 0 {
				i++
			}
			require.Equal(t, i, v.Find(1, k))
		}
	}
}

func TestDebugStringHasALineForEachLevel(t *testing.T) {
	v := NewVersion(kv.Bytewise, []*File{file(9, "a", "a b")}, nil, []*File{file(1, "a", "b"), file(2, "c", "user/7")})
	require.Equal(t, "L0: 000009[a#99,SET..\"a b\"#90,SET]\nL2: 000001[a#19,SET..b#10,SET] 000002[c#29,SET..user/7#20,SET]\n", v.DebugString())
	require.Empty(t, NewVersion(kv.Bytewise).DebugString())
}

func TestMissingEpochsAreInferredFromLevelsAndSequences(t *testing.T) {
	a, b, c, d, e := withEpoch(file(1, "a", "z"), 70), file(2, "a", "z"), withEpoch(file(3, "a", "c"), 5), file(4, "d", "f"), file(5, "a", "z")
	require.Equal(t, uint64(4), inferEpochs(kv.Bytewise, [][]*File{{b, a}, {c, d}, nil, {e}}))
	var got []uint64
	for _, f := range []*File{e, c, d, a, b} {
		got = append(got, f.Epoch)
	}
	require.Equal(t, []uint64{1, 2, 2, 3, 4}, got)

	x, y := withEpoch(file(1, "a", "z"), 7), withEpoch(file(2, "a", "z"), 3)
	require.Equal(t, uint64(7), inferEpochs(kv.Bytewise, [][]*File{{x}, {y}}))
	require.Equal(t, []uint64{7, 3}, []uint64{x.Epoch, y.Epoch})
}
