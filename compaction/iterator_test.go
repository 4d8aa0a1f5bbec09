package compaction

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/iterator/itertest"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/merge"
	"github.com/ashlardb/ashlar/manifest"
)

// versions makes entries of a text: "a:9 a:7- a:5~ a:3+" are a value, a delete, a single delete and an operand of a.
func versions(text string) (all []kv.Entry) {
	for _, word := range strings.Fields(text) {
		user, rest, _ := strings.Cut(word, ":")
		kind := kv.KindValue
		switch {
		case strings.HasSuffix(rest, "-"):
			kind = kv.KindDelete
		case strings.HasSuffix(rest, "~"):
			kind = kv.KindSingleDel
		case strings.HasSuffix(rest, "+"):
			kind = kv.KindMerge
		}
		seq, _ := strconv.Atoi(strings.TrimRight(rest, "-~+"))
		e := kv.Entry{Key: kv.MakeKey([]byte(user), kv.Seq(seq), kind)}
		switch kind {
		case kv.KindValue:
			e.Value = []byte(word)
		case kv.KindMerge:
			e.Value = []byte(strconv.Itoa(seq))
		}
		all = append(all, e)
	}
	return all
}

func text(all []kv.Entry) string {
	var words []string
	for _, e := range all {
		mark := map[kv.Kind]string{kv.KindDelete: "-", kv.KindSingleDel: "~", kv.KindMerge: "+"}[e.Key.Kind()]
		words = append(words, fmt.Sprintf("%s:%d%s", e.Key.User, e.Key.Seq(), mark))
	}
	return strings.Join(words, " ")
}

// survive runs all through the rules and returns what is left.
func survive(all []kv.Entry, snapshots []kv.Seq, bottom bool, b *below) ([]kv.Entry, error) {
	return surviveWith(appending, all, snapshots, bottom, b)
}

var appending kv.MergeOperator = merge.StringAppend{Delimiter: ","}

func surviveWith(op kv.MergeOperator, all []kv.Entry, snapshots []kv.Seq, bottom bool, b *below) ([]kv.Entry, error) {
	s := &survivors{cmp: kv.Bytewise, op: op, it: itertest.New(kv.Bytewise, all), snapshots: snapshots, bottom: bottom, below: b}
	var out []kv.Entry
	for e := s.next(); e != nil; e = s.next() {
		out = append(out, kv.Entry{Key: e.Key.Clone(), Value: bytes.Clone(e.Value)})
	}
	return out, s.err
}

// holding is a below in which the given user keys may be.
func holding(users ...string) *below {
	var files []*manifest.File
	for i, u := range users {
		files = append(files, file(uint64(i+1), u, u, 1))
	}
	return newBelow([][]*manifest.File{files})
}

func TestSurvivors(t *testing.T) {
	for _, tc := range []struct {
		name, in, want string
		snapshots      []kv.Seq
		bottom         bool
		below          []string // with bottom unset: keys that may be below; nil is a flush or level 0: any key may be
	}{
		{name: "the newest version of a key hides the others", in: "a:9 a:7 a:5 b:3", want: "a:9 b:3"},
		{name: "a snapshot keeps what it sees", in: "a:9 a:7 a:5 a:3", snapshots: []kv.Seq{5, 7}, want: "a:9 a:7 a:5"},
		{name: "a snapshot between versions keeps one", in: "a:9 a:7 a:5", snapshots: []kv.Seq{8, 6, 2}[:1], want: "a:9 a:7"},
		{name: "a flush keeps deletes", in: "a:9- a:7 b:3-", want: "a:9- b:3-"},
		{name: "so does a key that is below", in: "a:9- a:7 b:3-", below: []string{"a", "c"}, want: "a:9-"},
		{name: "at the bottom a delete goes with what it hides", in: "a:9- a:7 b:3-", bottom: true, want: ""},
		{name: "a delete that a snapshot does not see hides what it sees", in: "a:9- a:7 a:5", snapshots: []kv.Seq{7}, bottom: true,
			want: "a:9- a:0"},
		{name: "and goes when there is nothing to hide", in: "a:9- b:8- b:7-", snapshots: []kv.Seq{5}, bottom: true, want: ""},
		{name: "a delete that the oldest snapshot sees goes", in: "a:9 a:4- a:2", snapshots: []kv.Seq{5}, bottom: true, want: "a:9"},
		{name: "values that everybody sees lose their number at the bottom", in: "a:9 b:4 c:5", snapshots: []kv.Seq{5}, bottom: true,
			want: "a:9 b:0 c:0"},
		{name: "and only there", in: "a:9 b:4", below: []string{}, want: "a:9 b:4"},
		{name: "a single delete and its value go together", in: "a:9~ a:7 b:1", want: "b:1"},
		{name: "but not over a snapshot", in: "a:9~ a:7", snapshots: []kv.Seq{8}, want: "a:9~ a:7"},
		{name: "a single delete without its value waits for it", in: "a:9~", want: "a:9~"},
		{name: "unless it can be nowhere", in: "a:9~ b:8~", below: []string{"b"}, want: "b:8~"},
		{name: "a newer value does not hide a single delete", in: "a:9 a:7~", want: "a:9 a:7~"},
		{name: "nor its work", in: "a:9 a:7~ a:5 a:4~ a:2", want: "a:9"},
		{name: "of two single deletes one does", in: "a:9~ a:7~", want: "a:7~"},
		{name: "a delete below a single delete goes", in: "a:9~ a:7-", want: "a:9~"},
		{name: "with all that it hid", in: "a:9~ a:7- a:5", want: ""},
		{name: "lest it be hidden by a value that goes itself", in: "a:9 a:8~ a:7-", want: "a:9 a:8~"},
		{name: "and that one's single delete bring back what is below", in: "a:9~ a:8 a:7~ a:6-", want: "a:7~"},
		{name: "a snapshot released before the job protects nothing", in: "a:9~ a:7", snapshots: []kv.Seq{3}, bottom: true, want: ""},
		{name: "operands go into the value that they stand on", in: "a:9+ a:7+ a:5 a:3", want: "a:9"},
		{name: "a delete under operands is no value, and hidden then", in: "a:9+ a:7+ a:5- a:3", want: "a:9"},
		{name: "a single delete under operands still waits for its value", in: "a:9+ a:7~", want: "a:9 a:7~"},
		{name: "and has met it, if it is there", in: "a:9+ a:7~ a:5", want: "a:9"},
		{name: "operands whose value may be below become one", in: "a:9+ a:7+ a:5+ b:1+", want: "a:9+ b:1+"},
		{name: "operands of a key that ends here are a value", in: "a:9+ a:7+ b:8+ c:1+", below: []string{"b"}, want: "a:9 b:8+ c:1"},
		{name: "at the bottom one without a number", in: "a:9+ a:7+ b:1+", bottom: true, want: "a:0 b:0"},
		{name: "over a value too", in: "a:9+ a:7+ a:1", bottom: true, want: "a:0"},
		{name: "operands are not put together over a snapshot", in: "a:9+ a:8+ a:7+ a:6+ a:5", snapshots: []kv.Seq{7}, want: "a:9+ a:7"},
		{name: "nor with a value over one", in: "a:9+ a:8+ a:5", snapshots: []kv.Seq{7}, bottom: true, want: "a:9+ a:0"},
		{name: "a chain that is complete in the oldest stripe", in: "a:9+ a:8+ a:5+ a:4+", snapshots: []kv.Seq{7}, bottom: true, want: "a:9+ a:0"},
		{name: "a newer value hides operands", in: "a:9 a:7+ a:5+ a:3", want: "a:9"},
		{name: "so does a delete", in: "a:9- a:7+ a:5", want: "a:9-"},
		{name: "a single delete over operands hides them as a delete does", in: "a:9~ a:7+ a:5 a:3", want: "a:9-"},
		{name: "and goes if that was all", in: "a:9~ a:7+ a:5 b:1", below: []string{}, want: "b:1"},
		{name: "and stays for those who come after a snapshot", in: "a:9~ a:7+ a:5 a:3", snapshots: []kv.Seq{4}, bottom: true, want: "a:9- a:0"},
		{name: "a hidden one goes with them", in: "a:9 a:8~ a:7+ a:5", want: "a:9"},
		{name: "sequence 0 at snapshot 0 is a version like any other", in: "a:0 b:3 b:0", snapshots: []kv.Seq{0}, bottom: true,
			want: "a:0 b:3 b:0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b *below
			switch {
			case tc.bottom:
				b = newBelow(nil)
			case tc.below != nil:
				b = holding(tc.below...)
			}
			out, err := survive(versions(tc.in), tc.snapshots, tc.bottom, b)
			require.NoError(t, err)
			require.Equal(t, tc.want, text(out))
			for _, e := range out {
				if e.Key.Kind() == kv.KindValue && !strings.Contains(tc.in, "+") {
					require.Contains(t, tc.in, string(e.Value))
				}
			}
		})
	}
}

// moody is an operator that fails when it is told to.
type moody struct {
	merge.StringAppend
	fail, panics bool
}

func (m *moody) FullMerge(dst, key, existing []byte, operands [][]byte) ([]byte, error) {
	switch {
	case m.panics:
		panic("moody")
	case m.fail:
		return nil, errors.New("not today")
	}
	return m.StringAppend.FullMerge(dst, key, existing, operands)
}

func (m *moody) PartialMerge(dst, key []byte, operands [][]byte) ([]byte, bool) {
	if m.panics {
		panic("moody")
	}
	return m.StringAppend.PartialMerge(dst, key, operands)
}

func TestOperandsOutliveAnOperatorThatFails(t *testing.T) {
	for _, op := range []kv.MergeOperator{&moody{fail: true}, nil} {
		for _, tc := range []struct{ in, want string }{
			{"a:9+ a:7+ a:5 a:3 b:2", "a:9+ a:7+ a:0 b:0"},
			{"a:9+ a:7+ a:5- a:3", "a:9+ a:7+"},
			{"a:9+ a:7+ b:1", "a:9+ a:7+ b:0"},
			{"a:9+ a:7~ a:5", "a:9+"},
		} {
			in := versions(tc.in)
			out, err := surviveWith(op, in, nil, true, newBelow(nil))
			require.NoError(t, err)
			require.Equal(t, tc.want, text(out))
			require.Equal(t, see(in, "a", kv.MaxSeq), see(out, "a", kv.MaxSeq))
		}
	}
	out, err := surviveWith(nil, versions("a:9+ a:7+ a:5+"), nil, false, nil)
	require.NoError(t, err)
	require.Equal(t, "a:9+ a:7+ a:5+", text(out))
}

func TestAValueThatNoTableCanHoldIsNotMade(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"a:9+ a:7+ a:5", "a:9+ a:7+ a:5"},
		{"a:9+ a:7+ a:6+ a:5+", "a:9+ a:7+ a:6+ a:5+"},
		{"a:9+ a:7+", "a:9+"},
	} {
		s := &survivors{cmp: kv.Bytewise, op: appending, it: itertest.New(kv.Bytewise, versions(tc.in)), limit: 5}
		var out []kv.Entry
		for e := s.next(); e != nil; e = s.next() {
			out = append(out, kv.Entry{Key: e.Key.Clone()})
		}
		require.Equal(t, tc.want, text(out))
	}
}

func TestAPanicOfTheMergeOperatorFailsTheJob(t *testing.T) {
	for _, in := range []string{"a:9+ a:7", "a:9+ a:7+"} {
		_, err := surviveWith(&moody{panics: true}, versions(in), nil, false, nil)
		require.ErrorIs(t, err, merge.ErrPanic)
		require.ErrorContains(t, err, "moody")
	}
}

func TestUnknownKindsFailTheJob(t *testing.T) {
	for _, kind := range []kv.Kind{kv.KindRangeDelete, kv.KindBlobIndex, kv.KindWideColumn, kv.KindTimedPut, 0x55} {
		in := append(versions("a:9-"), kv.Entry{Key: kv.MakeKey([]byte("a"), 5, kind)}, versions("b:1")[0])
		out, err := survive(in, nil, false, nil)
		require.ErrorIs(t, err, corrupt.ErrNotSupported)
		require.ErrorContains(t, err, `"a"#5`)
		require.LessOrEqual(t, len(out), 1)
	}
}

func TestAnErrorOfTheInputIsNotAnEnd(t *testing.T) {
	broken := errors.New("broken block")
	for after := 1; after < 4; after++ {
		it := itertest.New(kv.Bytewise, versions("a:9- a:7 b:5~ b:3"))
		it.FailAfter, it.Error = after, broken
		s := &survivors{cmp: kv.Bytewise, it: it, below: newBelow(nil)}
		for s.next() != nil {
		}
		require.ErrorIs(t, s.err, broken)
	}
}

func TestALongWalkAsksWhetherToStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var all []kv.Entry
	for i := range 5000 {
		all = append(all, kv.Entry{Key: kv.MakeKey([]byte("k"), kv.Seq(9000-i), kv.KindValue)})
	}
	s := &survivors{cmp: kv.Bytewise, it: itertest.New(kv.Bytewise, all), stop: ctx.Err}
	require.NotNil(t, s.next())
	require.Nil(t, s.next())
	require.ErrorIs(t, s.err, context.Canceled)
	require.Less(t, s.read, uint64(2000))
}

// see is the dumb reader: of all versions the newest that it may see, and where that is an operand, all of them down to
// one that is none.
func see(all []kv.Entry, user string, at kv.Seq) string {
	var seen []kv.Entry
	for _, e := range all {
		if string(e.Key.User) == user && e.Key.Seq() <= at {
			seen = append(seen, e)
		}
	}
	slices.SortFunc(seen, func(a, b kv.Entry) int { return cmp.Compare(b.Key.Trailer, a.Key.Trailer) })
	var words []string
	for _, e := range seen {
		if e.Key.Kind() == kv.KindValue || e.Key.Kind() == kv.KindMerge {
			words = append(words, string(e.Value))
		}
		if e.Key.Kind() != kv.KindMerge {
			break
		}
	}
	if words == nil {
		return "nothing"
	}
	slices.Reverse(words)
	return strings.Join(words, ",")
}

// history makes versions of a few keys. Those that begin with s or t are deleted with SingleDel only, each value once, and
// only the others are merged into.
func history(rng *rand.Rand, n int) (inputs, below []kv.Entry) {
	last := map[string]kv.Kind{}
	for seq := kv.Seq(rng.IntN(2)); int(seq) < n; seq++ {
		user := string("abcst"[rng.IntN(5)]) + strconv.Itoa(rng.IntN(2))
		kind := kv.KindValue
		switch single := user[0] == 's' || user[0] == 't'; {
		case single && last[user] == kv.KindValue && last[user+"!"] == kv.KindValue:
			kind = kv.KindSingleDel
		case single && rng.IntN(9) == 0:
			kind = kv.KindSingleDel
		case !single && rng.IntN(3) == 0:
			kind = kv.KindDelete
		case !single && rng.IntN(2) == 0:
			kind = kv.KindMerge
		}
		last[user], last[user+"!"] = kind, kind
		e := kv.Entry{Key: kv.MakeKey([]byte(user), seq, kind)}
		if kind == kv.KindValue {
			e.Value = fmt.Appendf(nil, "%s@%d", user, seq)
		} else {
			delete(last, user+"!")
		}
		if kind == kv.KindMerge {
			e.Value = strconv.AppendInt(nil, int64(seq), 10)
		}
		inputs = append(inputs, e)
	}
	// The oldest of them, of some keys, are on a lower level.
	split := map[byte]kv.Seq{}
	for _, c := range []byte("abcst") {
		if rng.IntN(2) == 0 {
			split[c] = kv.Seq(rng.IntN(n + 1))
		}
	}
	inputs = slices.DeleteFunc(inputs, func(e kv.Entry) bool {
		down := e.Key.Seq() < split[e.Key.User[0]]
		if down {
			below = append(below, e)
		}
		return down
	})
	itertest.Sort(kv.Bytewise, inputs)
	itertest.Sort(kv.Bytewise, below)
	return inputs, below
}

func checkSurvivors(seed uint64, n int) error {
	rng := rand.New(rand.NewPCG(seed, 5))
	inputs, lower := history(rng, n)
	var snapshots []kv.Seq
	for range rng.IntN(5) {
		snapshots = append(snapshots, kv.Seq(rng.IntN(n+1)))
	}
	slices.Sort(snapshots)
	var b *below
	bottom := false
	switch users := map[string]bool{}; {
	case rng.IntN(4) == 0: // as a flush
	default:
		for _, e := range lower {
			users[string(e.Key.User)] = true
		}
		bottom = len(users) == 0
		if !bottom && rng.IntN(2) == 0 {
			users["c0"] = true // a file over a key that is not in it
		}
		var list []string
		for u := range users {
			list = append(list, u)
		}
		slices.Sort(list)
		b = holding(list...)
	}
	out, err := survive(inputs, snapshots, bottom, b)
	if err != nil {
		return err
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s\nin %s\nbelow %s\nsnapshots %v\nout %s", fmt.Sprintf(format, args...), text(inputs), text(lower), snapshots, text(out))
	}
	before, after := append(slices.Clone(inputs), lower...), append(slices.Clone(out), lower...)
	for _, user := range []string{"a0", "a1", "b0", "b1", "c0", "c1", "s0", "s1", "t0", "t1"} {
		for _, at := range append(snapshots, kv.MaxSeq) {
			if x, y := see(before, user, at), see(after, user, at); x != y {
				return fail("%s at %d was %s, is %s", user, at, x, y)
			}
		}
	}
	s := &survivors{snapshots: snapshots}
	for i, e := range out {
		stripe := s.stripe(e.Key.Seq())
		if i > 0 {
			if kv.Bytewise.CompareKeys(out[i-1].Key, e.Key) >= 0 {
				return fail("%v comes after %v", e.Key, out[i-1].Key)
			}
			if prev := out[i-1].Key; bytes.Equal(prev.User, e.Key.User) && s.stripe(prev.Seq()) == stripe && e.Key.Kind() != kv.KindSingleDel {
				return fail("%v is hidden by %v", e.Key, prev)
			}
		}
		if e.Key.Kind() == kv.KindMerge && i > 0 && bytes.Equal(out[i-1].Key.User, e.Key.User) && s.stripe(out[i-1].Key.Seq()) == stripe {
			return fail("%v could be one with the operand before it", e.Key)
		}
		if bottom && stripe == 0 && (e.Key.Kind() != kv.KindValue || e.Key.Seq() != 0) {
			return fail("%v is at the bottom and in sight of all", e.Key)
		}
		if bottom && e.Key.Kind() == kv.KindDelete && (i+1 == len(out) || !bytes.Equal(out[i+1].Key.User, e.Key.User)) {
			return fail("%v hides nothing", e.Key)
		}
	}
	// What has survived survives: a second job finds nothing to do.
	// (But for SingleDels, which wait for a Value of another stripe until they have seen that it is gone, and operands, which
	// do so for a Delete.)
	waiting := map[string]bool{}
	for _, e := range out {
		waiting[string(e.Key.User)] = waiting[string(e.Key.User)] || e.Key.User[0] >= 's' || b != nil && e.Key.Kind() == kv.KindMerge
	}
	out = slices.DeleteFunc(out, func(e kv.Entry) bool { return waiting[string(e.Key.User)] })
	if again, err := survive(out, snapshots, bottom, b.rewind()); err != nil || text(again) != text(out) {
		return fail("a second time it is %s, %v", text(again), err)
	}
	return nil
}

// rewind returns the same below, ready for the first key.
func (b *below) rewind() *below {
	if b == nil {
		return nil
	}
	return newBelow(b.levels)
}

func TestNoReaderCanTellWhatWasDropped(t *testing.T) {
	for seed := range uint64(1500) {
		if err := checkSurvivors(seed, 5+int(seed%40)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func FuzzSurvivors(f *testing.F) {
	f.Add(uint64(1), uint8(10))
	f.Add(uint64(9), uint8(60))
	f.Fuzz(func(t *testing.T, seed uint64, n uint8) {
		if err := checkSurvivors(seed, 1+int(n)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestBelowKnowsEachKeyInOrder(t *testing.T) {
	b := newBelow([][]*manifest.File{
		{file(1, "b", "d", 1), file(2, "k", "m", 1)},
		{file(3, "f", "f", 1)},
	})
	var got string
	for _, c := range "abcdefghklmz" {
		if b.has(kv.Bytewise, []byte(string(c))) {
			got += string(c)
		}
	}
	require.Equal(t, "bcdfklm", got)
	require.True(t, (*below)(nil).has(kv.Bytewise, []byte("x")))
}
