package script

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func echo(cmd string, args []string, input string) string {
	switch cmd {
	case "say":
		s := ""
		for _, a := range args {
			if q := strconv.Quote(a); q != `"`+a+`"` || strings.Trim(a, " ") != a || a == "" || strings.Contains(a, " ") {
				a = q
			}
			s += "[" + a + "]"
		}
		return s
	case "show":
		return input
	case "blank":
		return "above\n\n.\nbelow\n"
	case "quiet":
		return ""
	}
	return "no command " + cmd
}

func TestPlaysAnswer(t *testing.T) {
	RunAll(t, "testdata/*.txt", func(*testing.T) Command { return echo })
}

func TestAPlayComesBackWithItsAnswersAsTheyAre(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		problems       []problem
	}{
		{"right", "say a\n----\n[a]\n", "say a\n----\n[a]\n", nil},
		{"no newline at the end", "say a\n----\n[a]", "say a\n----\n[a]\n", nil},
		{"wrong", "# c\n\nsay a\n----\n[b]\n[c]\n\nsay d\n----\n[d]\n", "# c\n\nsay a\n----\n[a]\n\nsay d\n----\n[d]\n",
			[]problem{{3, "got\n[a]\nwant\n[b]\n[c]\n", true}}},
		{"not answered yet", "say a\n----\n\nsay b\n----\n", "say a\n----\n[a]\n\nsay b\n----\n[b]\n",
			[]problem{{1, "got\n[a]\nwant\n", true}, {4, "got\n[b]\nwant\n", true}}},
		{"no ----", "say a\n\nsay b\n", "say a\n\nsay b\n", []problem{{1, "no ---- after these commands", false}}},
		{"stray input", "  x\nsay a\n----\n[a]\n", "  x\nsay a\n----\n[a]\n", []problem{{1, "input without a command", false}}},
		{"bad string", "say \"a\n----\n", "say \"a\n----\n", []problem{{1, `not a Go string: "a`, false}}},
		{"nothing asked", "----\n", "----\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, problems := play(c.in, echo)
			require.Equal(t, c.want, got)
			require.Equal(t, c.problems, problems)
			again, problems := play(got, echo)
			require.Equal(t, got, again)
			for _, p := range problems {
				require.False(t, p.differs, "a rewritten play passes")
			}
		})
	}
}

// recorder is a testing.TB that keeps what was reported.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(f string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(f, args...))
}

func TestRewriteMendsTheFileInsteadOfFailing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.txt")
	require.NoError(t, os.WriteFile(path, []byte("say a\n----\n[b]\n"), 0o644))
	r := &recorder{TB: t}
	Run(r, path, echo)
	require.Equal(t, []string{path + ":1: got\n[a]\nwant\n[b]\n"}, r.errors)

	defer func(old bool) { *rewrite = old }(*rewrite)
	*rewrite = true
	r = &recorder{TB: t}
	Run(r, path, echo)
	require.Empty(t, r.errors)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "say a\n----\n[a]\n", string(text))
}

func FuzzPlay(f *testing.F) {
	f.Add("say a\n----\n[b]\n\nblank\n----\n")
	f.Add("show\n  x\n \"\n----\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, _ := play(text, echo)
		again, problems := play(got, echo)
		require.Equal(t, got, again)
		for _, p := range problems {
			require.False(t, p.differs, p.text)
		}
	})
}
