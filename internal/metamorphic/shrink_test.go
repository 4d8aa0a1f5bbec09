package metamorphic

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/internal/script"
)

// parse reads operations as a play has them.
func parse(t *testing.T, text string) (ops []Op) {
	t.Helper()
	for line := range strings.Lines(text) {
		words, err := script.Split(strings.TrimSuffix(line, "\n"))
		require.NoError(t, err)
		o := Make(words[0], words[1:], nil)
		if strings.HasPrefix(line, "  ") {
			last := &ops[len(ops)-1]
			last.Batch = append(last.Batch, o)
			continue
		}
		ops = append(ops, o)
	}
	return ops
}

func TestAnOperationIsItsText(t *testing.T) {
	for seed := range uint64(20) {
		for _, o := range Generate(seed, 200) {
			back := parse(t, o.String())
			require.Len(t, back, 1)
			require.Equal(t, o.String(), back[0].String())
		}
	}
}

func TestValuesHaveShortForms(t *testing.T) {
	for _, short := range []string{"", "v1", "v1~5", "v1~200", "a:b", "v~x", "\x00"} {
		long := Expand(short)
		require.Equal(t, quote(short, ""), Shorten(long))
		if len(long) > 5 {
			long[len(long)-1]++
			require.NotEqual(t, quote(short, ""), Shorten(long), "damage shows")
		}
	}
	require.Len(t, Expand("v1~200"), 200)
}

func TestShrinkingLeavesTheOperationsThatMatter(t *testing.T) {
	ops := Generate(7, 500)
	var batch, flush int
	for i, o := range ops {
		if o.Verb == Batch && len(o.Batch) > 4 {
			batch = i
		}
		if o.Verb == Flush {
			flush = i
		}
	}
	if flush > batch {
		batch, flush = flush, batch
	}
	needed := []string{ops[flush].String(), ops[batch].String()}
	less, f := shrink(ops, 500, func(ops []Op) *Failure {
		found := 0
		for i, o := range ops {
			if found < len(needed) && o.String() == needed[found] {
				if found++; found == len(needed) {
					return &Failure{At: i}
				}
			}
		}
		return nil
	})
	require.NotNil(t, f)
	require.Len(t, less, 2)
	require.Equal(t, needed[0], less[0].String())

	// What is in a batch is shrunk as well.
	less, _ = shrink(parse(t, "batch\n  put a 1\n  put b 2\n  delete c\n"), 50, func(ops []Op) *Failure {
		if len(ops) == 1 && strings.Contains(ops[0].String(), "put b 2") {
			return &Failure{}
		}
		return nil
	})
	require.Equal(t, "batch\n  put b 2", less[0].String())
}

func TestAFailureIsShownAsAPlay(t *testing.T) {
	r := Run{Options: []string{"levels=3"}, Reopened: func(int) []string { return []string{"levels=3", "block=1"} }}
	ops := parse(t, "put a v1~50 nowal\nget a\nscan cf=default lower=b\nreopen\nbatch\n  put \"b=\" \"\"\nflush\n")
	require.Equal(t, `open levels=3
put a v1~50 nowal
get a
----
v1~50

scan cf=default lower=b
----

reopen levels=3 block=1
batch
  put "b=" ""
flush
----

`, r.Script(ops))
	require.Nil(t, r.Play(ops))
}

func TestAWrongAnswerIsAFailure(t *testing.T) {
	ops := parse(t, "put a 1\nget a\n")
	f := Run{}.compare(ops, []string{ok, "2"})
	require.Equal(t, &Failure{At: 1, Got: "1", Want: "2"}, f)
	require.Contains(t, Run{Options: []string{"levels=99"}}.Play(ops).Got, "NumLevels is 99")
	require.Contains(t, Run{Options: []string{"what=1"}}.Play(ops).Got, "no option")
}
