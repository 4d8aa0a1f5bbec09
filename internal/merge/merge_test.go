package merge

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/corrupt"
	"github.com/ashlardb/ashlar/internal/kv"
)

var builtIn = []kv.MergeOperator{
	UInt64Add{}, Max{}, Put{}, StringAppend{","}, StringAppend{""}, StringAppendTest{StringAppend{"::"}},
	NewAssociative("join", func(dst, _, value, operand []byte) ([]byte, error) {
		return append(append(append(dst, value...), '+'), operand...), nil
	}),
}

func words(rng *rand.Rand, n int) (all [][]byte) {
	for range n {
		all = append(all, binary.LittleEndian.AppendUint64(nil, rng.Uint64()>>rng.IntN(64)))
		if rng.IntN(4) == 0 {
			all[len(all)-1] = []byte("odd")[:rng.IntN(4)]
		}
	}
	return all
}

// Whatever neighbours are put together first, the value is the same, and dst stays in front.
func TestGroupingDoesNotMatter(t *testing.T) {
	for _, op := range builtIn {
		rng := rand.New(rand.NewPCG(1, 1))
		for range 300 {
			operands := words(rng, 1+rng.IntN(6))
			var existing []byte
			exists := rng.IntN(2) == 0
			if exists {
				existing = words(rng, 1)[0]
			}
			want, err := Full(op, []byte("before "), []byte("k"), existing, exists, operands)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(want), "before "))
			for len(operands) > 1 {
				from := rng.IntN(len(operands) - 1)
				to := from + 2 + rng.IntN(len(operands)-from-1)
				one, ok, err := Partial(op, []byte("x"), []byte("k"), operands[from:to])
				require.NoError(t, err)
				if !ok {
					require.Equal(t, "StringAppendTESTOperator", op.Name())
					break
				}
				require.Equal(t, "x", string(one[:1]))
				operands = append(append(append([][]byte{}, operands[:from]...), one[1:]), operands[to:]...)
				got, err := Full(op, []byte("before "), []byte("k"), existing, exists, operands)
				require.NoError(t, err)
				require.Equal(t, want, got, op.Name())
			}
		}
	}
}

func TestAnEmptyValueIsNotNone(t *testing.T) {
	for _, c := range []struct {
		op             kv.MergeOperator
		onNone, onNull string
	}{
		{StringAppend{","}, "a,b", ",a,b"}, {Max{}, "b", "b"}, {Put{}, "b", "b"}, {builtIn[6], "a+b", "+a+b"},
	} {
		for _, null := range [][]byte{nil, {}} {
			v, err := Full(c.op, nil, nil, null, false, [][]byte{[]byte("a"), []byte("b")})
			require.NoError(t, err)
			require.Equal(t, c.onNone, string(v))
			v, err = Full(c.op, nil, nil, null, true, [][]byte{[]byte("a"), []byte("b")})
			require.NoError(t, err)
			require.Equal(t, c.onNull, string(v))
		}
	}
}

func TestNumbersOfAnotherLengthAreZeroAndSumsWrap(t *testing.T) {
	sum := func(existing []byte, operands ...[]byte) uint64 {
		v, err := Full(UInt64Add{}, nil, nil, existing, existing != nil, operands)
		require.NoError(t, err)
		return binary.LittleEndian.Uint64(v)
	}
	n := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	require.EqualValues(t, 6, sum(n(1), n(2), n(3)))
	require.EqualValues(t, 3, sum([]byte("text"), n(3), nil))
	require.EqualValues(t, 1, sum(n(1<<64-1), n(2)))
}

type bad struct {
	StringAppend
	err error
}

func (b bad) FullMerge(dst, _, _ []byte, _ [][]byte) ([]byte, error) {
	if b.err == nil {
		panic("bad")
	}
	return append(dst, "rubbish"...), b.err
}

func (b bad) PartialMerge(dst, _ []byte, _ [][]byte) ([]byte, bool) {
	if b.err == nil {
		panic("bad")
	}
	return append(dst, "rubbish"...), false
}

func TestErrorsAndPanicsLeaveDstAsItWas(t *testing.T) {
	dst, two := []byte("dst"), [][]byte{{}, {}}
	broken := errors.New("broken")
	v, err := Full(bad{err: broken}, dst, []byte("k"), nil, false, two)
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, `StringAppendOperator, key "k"`)
	require.Equal(t, "dst", string(v))
	v, ok, err := Partial(bad{err: broken}, dst, nil, two)
	require.NoError(t, err)
	require.False(t, ok)
	require.Equal(t, "dst", string(v))
	v, err = Full(bad{}, dst, []byte("k"), nil, false, two)
	require.ErrorIs(t, err, ErrPanic)
	require.ErrorContains(t, err, "FullMerge")
	require.Equal(t, "dst", string(v))
	v, ok, err = Partial(bad{}, dst, nil, two)
	require.ErrorIs(t, err, ErrPanic)
	require.False(t, ok)
	require.Equal(t, "dst", string(v))
	_, err = Full(nil, dst, []byte("k"), nil, false, two)
	require.ErrorIs(t, err, ErrNoOperator)
	require.ErrorIs(t, err, corrupt.ErrNotSupported)
	require.ErrorContains(t, err, `"k"`)
	_, ok, err = Partial(nil, dst, []byte("k"), two)
	require.NoError(t, err)
	require.False(t, ok)
	_, ok, _ = Partial(Put{}, dst, []byte("k"), two[:1])
	require.False(t, ok, "one operand is one already")
}

func TestAnAssociativeFunctionsErrorIsTheMerges(t *testing.T) {
	broken := errors.New("broken")
	for at := range 4 {
		n := 0
		op := NewAssociative("a", func(dst, _, value, operand []byte) ([]byte, error) {
			if n++; n > at {
				return dst, broken
			}
			return append(dst, operand...), nil
		})
		_, err := op.FullMerge(nil, nil, []byte("v"), [][]byte{{}, {}, {}, {}})
		require.ErrorIs(t, err, broken)
		n = 0
		_, ok := op.PartialMerge(nil, nil, [][]byte{{}, {}, {}, {}, {}})
		require.False(t, ok)
	}
}

func TestOperandsAreCopiesInBothOrders(t *testing.T) {
	var o Operands
	require.Empty(t, o.Added())
	require.Empty(t, o.Reversed())
	for range 2 {
		b := []byte("xx")
		for n := range 100 {
			b[0], b[1] = byte('0'+n/10), byte('0'+n%10)
			o.Add(b[:n%3])
		}
		require.Equal(t, 100, o.Len())
		for n, op := range o.Added() {
			require.Equal(t, n%3, len(op))
		}
		back := o.Reversed()
		require.Equal(t, "9", string(back[99-97]))
		require.Equal(t, "98", string(back[99-98]))
		o.Reset()
		require.Zero(t, o.Len())
	}
	o.Add(make([]byte, maxKept+1))
	o.Reset()
	require.Zero(t, cap(o.bytes), "what is much is not kept")
}

func TestDelimitersComeBackAsTheyWereWritten(t *testing.T) {
	for _, d := range []string{",", ":", "#", `\`, "\n", "\r", "", "ab", `\n`, `:\#`, "é"} {
		for _, op := range []kv.MergeOperator{StringAppend{d}, StringAppendTest{StringAppend{d}}} {
			require.Equal(t, op, Parse(Format(op)), "%q", Format(op))
		}
	}
	require.Equal(t, `{id=StringAppendOperator;delimiter=\:;}`, Format(StringAppend{":"}), "as ldb 7.8 writes its own")
	for _, d := range []string{";", "{", "}", "=", " "} {
		require.Empty(t, Format(StringAppend{d}))
	}
	require.Empty(t, Format(builtIn[6]))
	require.Empty(t, Format(nil))
	require.Nil(t, Parse("CassandraValueMergeOperator"))
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"{id=StringAppendOperator;delimiter=\\:;}", "uint64add", "{", "{id=", "{;;=}", "nullptr"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		op := Parse(s)
		if op == nil {
			return
		}
		if text := Format(op); text != "" && Parse(text) != op {
			t.Fatalf("%q is %#v, which is written as %q", s, op, text)
		}
	})
}
