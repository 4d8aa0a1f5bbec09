package compaction

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/iterator/itertest"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/tombstone"
	"github.com/ashlardb/ashlar/manifest"
	"github.com/ashlardb/ashlar/sstable"
)

// deletes makes range deletes of a text: "a-c:7 b-d:3".
func deletes(text string) (all []tombstone.Tombstone) {
	for _, word := range strings.Fields(text) {
		bounds, seq, _ := strings.Cut(word, ":")
		start, end, _ := strings.Cut(bounds, "-")
		var n kv.Seq
		fmt.Sscan(seq, &n)
		all = append(all, tombstone.Tombstone{Start: []byte(start), End: []byte(end), Seq: n})
	}
	return all
}

func pieceText(all []piece) string {
	var words []string
	for _, p := range all {
		words = append(words, fmt.Sprintf("%s-%s:%s", p.start, p.end, strings.Trim(strings.ReplaceAll(fmt.Sprint(p.seqs), " ", ","), "[]")))
	}
	return strings.Join(words, " ")
}

func TestWhatSurvivesRangeDeletes(t *testing.T) {
	for _, c := range []struct {
		name, ranges, in  string
		snapshots         []kv.Seq
		below             []string // nil: any key may be
		want, wantDeletes string
	}{
		{name: "what is older goes, what is newer stays", ranges: "a-c:5", in: "a:9 a:4 b:3 c:2", want: "a:9 c:2", wantDeletes: "a-c:5"},
		{name: "a snapshot between keeps what it sees", ranges: "a-c:5", in: "a:4 b:3", snapshots: []kv.Seq{4}, want: "a:4 b:3", wantDeletes: "a-c:5"},
		{name: "a snapshot behind changes nothing", ranges: "a-c:5", in: "a:4", snapshots: []kv.Seq{5}, want: "", wantDeletes: "a-c:5"},
		{name: "the newest of each stripe is enough", ranges: "a-d:9 b-d:8 a-c:5 a-b:3", in: "", snapshots: []kv.Seq{6},
			wantDeletes: "a-c:9,5 c-d:9"},
		{name: "at the bottom nothing is left to hide", ranges: "a-c:5", in: "a:9 a:4", below: []string{}, want: "a:9", wantDeletes: ""},
		{name: "but for snapshots", ranges: "a-c:5", in: "a:9 a:4", snapshots: []kv.Seq{4}, below: []string{}, want: "a:9 a:4", wantDeletes: "a-c:5"},
		{name: "where a file lies below it stays", ranges: "a-c:5 m-p:6", in: "a:4 n:4", below: []string{"b"}, want: "", wantDeletes: "a-c:5"},
		{name: "the end is not in the range", ranges: "a-c:5", in: "", below: []string{"c"}, wantDeletes: ""},
		{name: "a covered single delete leaves its value to the range delete", ranges: "a-c:5", in: "a:4~ a:2", snapshots: []kv.Seq{3}, want: "a:2",
			wantDeletes: "a-c:5"},
		{name: "a single delete over a covered value waits for none", ranges: "a-c:5", in: "a:8~ a:4", below: []string{}, want: "", wantDeletes: ""},
		{name: "neighbours with the same are one", ranges: "a-b:5 b-c:5", in: "", wantDeletes: "a-c:5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b *below
			if c.below != nil {
				b = holding(c.below...)
			}
			list := tombstone.New(kv.Bytewise, deletes(c.ranges))
			s := &survivors{cmp: kv.Bytewise, it: itertest.New(kv.Bytewise, versions(c.in)), snapshots: c.snapshots, below: b, ranges: list}
			var out []kv.Entry
			for e := s.next(); e != nil; e = s.next() {
				out = append(out, kv.Entry{Key: e.Key.Clone()})
			}
			require.NoError(t, s.err)
			require.Equal(t, c.want, text(out))
			require.Equal(t, c.wantDeletes, pieceText(newRanges(kv.Bytewise, list, c.snapshots, b, nil).pieces))
		})
	}
}

// Wherever tables end, their parts are disjoint, lie between the cuts, and are the whole together.
func TestTablesShareRangeDeletesAmongThem(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	key := func() []byte { return fmt.Appendf(nil, "%02d", rng.IntN(50)) }
	for range 300 {
		var all []tombstone.Tombstone
		for range rng.IntN(6) {
			all = append(all, tombstone.Tombstone{Start: key(), End: key(), Seq: kv.Seq(1 + rng.IntN(9))})
		}
		list := tombstone.New(kv.Bytewise, slices.Clone(all))
		var parents []*manifest.File
		for i := range rng.IntN(10) {
			k := fmt.Sprintf("%02d", i*5)
			parents = append(parents, file(uint64(i+1), k, k, 1))
		}
		r := newRanges(kv.Bytewise, list, nil, nil, parents)
		var keys [][]byte
		for range rng.IntN(8) {
			keys = append(keys, key())
		}
		slices.SortFunc(keys, bytes.Compare)
		keys = slices.CompactFunc(keys, bytes.Equal)
		var parts []tombstone.Tombstone
		low, last := []byte{}, []byte{}
		cut := func(user []byte) {
			pending := user != nil && r.pending(user)
			taken := r.take(user)
			require.True(t, user == nil || pending == (len(taken) > 0))
			for _, p := range taken {
				require.LessOrEqual(t, bytes.Compare(low, p.start), 0)
				require.True(t, user == nil || bytes.Compare(p.end, user) <= 0)
				for _, s := range p.seqs {
					parts = append(parts, tombstone.Tombstone{Start: p.start, End: p.end, Seq: s})
				}
			}
			low = user
		}
		for _, k := range append(keys, nil) {
			for _, stop := range r.stops(k) {
				require.LessOrEqual(t, bytes.Compare(last, stop), 0)
				require.True(t, k == nil || bytes.Compare(stop, k) < 0)
				last = stop
				if rng.IntN(2) == 0 {
					cut(stop)
				}
			}
			if k != nil && rng.IntN(2) == 0 {
				cut(k)
			}
			if k != nil {
				last = k
			}
		}
		cut(nil)
		got := tombstone.New(kv.Bytewise, parts)
		for i := range 50 {
			user := fmt.Appendf(nil, "%02d", i)
			require.Equal(t, list.Cover(user, kv.MaxSeq), got.Cover(user, kv.MaxSeq))
		}
	}
}

// facebook/rocksdb#3977: a wide range delete and a few keys come to a level above many files.
func TestAWideRangeDeleteIsCutWhereTheNextLevelsFilesBegin(t *testing.T) {
	d := newLab(1, tiny())
	for i := range 200 {
		d.put(fmt.Sprintf("k%03d", i), strings.Repeat("v", 300))
	}
	_, err := d.toTheBottom()
	require.NoError(t, err)
	bottom := d.levels[6]
	if len(bottom) == 0 {
		for _, files := range d.levels {
			if len(files) > 0 {
				bottom = files
			}
		}
	}
	require.Greater(t, len(bottom), 15)
	list := tombstone.New(kv.Bytewise, deletes("k000-k199:1000"))
	for _, withKeys := range []bool{true, false} {
		var in []kv.Entry
		if withKeys {
			in = versions("k001:1001 k100:1002")
		}
		env := d.env(nil)
		env.Tombstones = func(*manifest.File) (*tombstone.List, error) { return list, nil }
		w, num, err := env.Create()
		require.NoError(t, err)
		for _, e := range in {
			require.NoError(t, w.Add(e.Key, e.Value))
		}
		require.NoError(t, w.AddTombstone([]byte("k000"), []byte("k199"), 1000))
		m, err := w.Finish()
		require.NoError(t, err)
		f := &manifest.File{Num: num, Size: m.Size, Smallest: m.Smallest, Largest: m.Largest, SmallestSeq: m.SmallestSeq, LargestSeq: m.LargestSeq, Epoch: 99}
		v := manifest.NewVersion(kv.Bytewise, nil, nil, []*manifest.File{f}, nil, bottom, nil, nil)
		l := NewLeveled(kv.Bytewise, tiny())
		p, _, _ := l.PickRange(v, 2, 3, nil, nil, nil, nil)
		require.Equal(t, Rewrite, p.Kind, "moving it would move the trouble")
		r, err := Run(context.Background(), p, env)
		require.NoError(t, err)
		require.Greater(t, len(r.Files), 5)
		out := manifest.NewVersion(kv.Bytewise, nil, nil, nil, r.Files, bottom, nil, nil)
		require.NoError(t, out.Check(kv.Bytewise))
		require.Equal(t, "k000", string(r.Files[0].Smallest.User))
		require.Equal(t, f.Largest.String(), r.Files[len(r.Files)-1].Largest.String())
		for i, g := range r.Files {
			next, _, _ := l.PickRange(out, 3, 4, g.Smallest.User, g.Smallest.User, nil, nil)
			require.NotNil(t, next)
			require.LessOrEqual(t, next.InputBytes(), tiny().MaxCompactionBytes+2*tiny().TargetFileSizeBase)
			if i > 0 {
				require.Equal(t, string(r.Files[i-1].Largest.User), string(g.Smallest.User), "no gap")
			}
		}
	}
}

func TestTheExcludedEndOfARangeDeleteIsNoKeyOfItsFile(t *testing.T) {
	l := NewLeveled(kv.Bytewise, tiny())
	ends := func(num uint64, from, to string) *manifest.File {
		return &manifest.File{
			Num: num, Size: 1000, Smallest: kv.MakeKey([]byte(from), 5, kv.KindRangeDelete),
			Largest: kv.MakeKey([]byte(to), kv.MaxSeq, kv.KindRangeDelete), SmallestSeq: 5, LargestSeq: 5, Epoch: num,
		}
	}
	a, b, c := ends(1, "a", "c"), ends(2, "c", "e"), file(3, "e", "g", 1000)
	x, y := file(4, "a", "b", 1000), file(5, "c", "d", 1000)
	v := manifest.NewVersion(kv.Bytewise, nil, []*manifest.File{a, b, c}, []*manifest.File{x, y})
	require.NoError(t, v.Check(kv.Bytewise))
	p, _, _ := l.PickRange(v, 1, 2, []byte("a"), []byte("b"), nil, nil)
	require.Equal(t, "manual: rewrite L1[1] L2[4] -> L2, bottommost", p.String())
	require.False(t, p.Range.EndInclusive)
	require.True(t, l.hull([]*manifest.File{b, c}).EndInclusive)
	require.True(t, l.hull([]*manifest.File{c}, []*manifest.File{ends(9, "a", "g")}).EndInclusive)
	require.True(t, l.hull([]*manifest.File{ends(9, "a", "g")}, []*manifest.File{c}).EndInclusive)

	// On level 0 the closure of one is that one, until another has the key.
	d, e, f := ends(11, "a", "c"), file(12, "c", "d", 1000), file(13, "b", "c", 1000)
	v = manifest.NewVersion(kv.Bytewise, []*manifest.File{d, e})
	require.Len(t, l.level0Closure(v, l.hull([]*manifest.File{d})), 1)
	v = manifest.NewVersion(kv.Bytewise, []*manifest.File{d, e, f})
	require.Len(t, l.level0Closure(v, l.hull([]*manifest.File{d})), 3)
}

// An output whose file cannot be made, or a table whose range deletes cannot be read, fails the job.
func TestAJobFailsWithItsRangeDeletes(t *testing.T) {
	d := newLab(1, tiny())
	list := tombstone.New(kv.Bytewise, deletes("a-c:5"))
	boom := fmt.Errorf("boom")
	env := d.env(nil)
	env.Create = func() (*sstable.Writer, uint64, error) { return nil, 7, boom }
	r, err := RunFlush(context.Background(), Flush{Tombstones: []*tombstone.List{list}}, env)
	require.ErrorIs(t, err, boom)
	require.Equal(t, []uint64{7}, r.Remove)

	d.put("b", "v")
	require.NoError(t, d.flush())
	env = d.env(nil)
	env.Tombstones = func(*manifest.File) (*tombstone.List, error) { return nil, boom }
	p, _, _ := d.l.PickRange(d.version(), 0, 6, nil, nil, nil, nil)
	_, err = Run(context.Background(), p, env)
	if p.Kind == Rewrite {
		require.ErrorIs(t, err, boom)
	}

	// A flush of range deletes alone.
	r, err = RunFlush(context.Background(), Flush{Tombstones: []*tombstone.List{list}}, d.env(nil))
	require.NoError(t, err)
	require.Len(t, r.Files, 1)
	require.Equal(t, `"a"#5,RANGEDEL`, r.Files[0].Smallest.String())
	require.True(t, r.Files[0].EndsExcluded())
	require.EqualValues(t, 5, r.Files[0].LargestSeq)
}
