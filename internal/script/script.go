package script

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the answers of plays into their files")

// Command does one command of a play and returns its answer. The input is "" or ends with a newline.
type Command func(cmd string, args []string, input string) string

// Run runs the play in a file, and fails the test at each answer that differs.
func Run(t testing.TB, path string, do Command) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, problems := play(string(text), do)
	differ := false
	for _, p := range problems {
		if p.differs && *rewrite {
			differ = true
			continue
		}
		t.Errorf("%s:%d: %s", path, p.line, p.text)
	}
	if differ {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// RunAll runs each play that a pattern of path/filepath matches as a subtest, with commands and state of its own.
func RunAll(t *testing.T, pattern string, start func(t *testing.T) Command) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("no play matches %s", pattern)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		t.Run(name, func(t *testing.T) { Run(t, path, start(t)) })
	}
}

// problem is something wrong with a play, at a line counted from 1. It differs if rewriting mends it.
type problem struct {
	line    int
	text    string
	differs bool
}

// step is a command that waits for its "----".
type step struct {
	words []string
	input strings.Builder
}

// play runs a play and returns it with the answers as they are. Text that is no play is kept as it is.
func play(text string, do Command) (got string, problems []problem) {
	var out strings.Builder
	var steps []*step
	asked := 0 // the line of the first of steps
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		out.WriteString(line + "\n")
		switch {
		case line == "----":
			start := i + 1
			for i+1 < len(lines) && lines[i+1] != "" {
				i++
			}
			want := strings.Join(lines[start:i+1], "\n")
			if want != "" {
				want += "\n"
			}
			var answer strings.Builder
			for _, s := range steps {
				answer.WriteString(show(do(s.words[0], s.words[1:], s.input.String())))
			}
			out.WriteString(answer.String())
			if answer.String() != want {
				problems = append(problems, problem{max(asked, 1), fmt.Sprintf("got\n%swant\n%s", answer.String(), want), true})
			}
			steps = nil
		case strings.TrimSpace(line) == "" || line[0] == '#':
		case line[0] == ' ' || line[0] == '\t':
			if len(steps) == 0 {
				problems = append(problems, problem{i + 1, "input without a command", false})
				continue
			}
			steps[len(steps)-1].input.WriteString(undent(line) + "\n")
		default:
			words, err := Split(line)
			if err != nil {
				problems = append(problems, problem{i + 1, err.Error(), false})
				continue
			}
			if len(steps) == 0 {
				asked = i + 1
			}
			steps = append(steps, &step{words: words})
		}
	}
	if len(steps) > 0 {
		problems = append(problems, problem{asked, "no ---- after these commands", false})
	}
	return out.String(), problems
}

// undent takes off a tab or two spaces, so that input may be indented itself.
func undent(line string) string {
	for _, indent := range []string{"\t", "  ", " "} {
		if rest, ok := strings.CutPrefix(line, indent); ok {
			return rest
		}
	}
	return line
}

// show writes an answer so that it has no blank line and ends with a newline.
func show(answer string) string {
	if answer == "" {
		return ""
	}
	lines := strings.Split(strings.TrimSuffix(answer, "\n"), "\n")
	for i, line := range lines {
		if strings.Trim(line, ".") == "" {
			lines[i] = line + "."
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// Split splits a command into its words, at least one.
func Split(line string) ([]string, error) {
	var words []string
	word, inWord := "", false
	for line != "" {
		switch line[0] {
		case ' ', '\t':
			if inWord {
				words, word, inWord = append(words, word), "", false
			}
			line = line[1:]
		case '"':
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, fmt.Errorf("not a Go string: %s", line)
			}
			part, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, fmt.Errorf("not a Go string: %s", quoted)
			}
			word, inWord, line = word+part, true, line[len(quoted):]
		default:
			n := strings.IndexAny(line, " \t\"")
			if n < 0 {
				n = len(line)
			}
			word, inWord, line = word+line[:n], true, line[n:]
		}
	}
	if inWord {
		words = append(words, word)
	}
	return words, nil
}
