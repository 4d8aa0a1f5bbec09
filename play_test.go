package ashlar_test

import (
	"strings"
	"testing"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/internal/metamorphic"
	"github.com/ashlardb/ashlar/internal/script"
	"github.com/ashlardb/ashlar/vfs"
)

// TestPlays runs the plays of testdata/plays. Their commands are the operations of package metamorphic, which prints its
// failures as plays, and
//
//	open [option=value…]   begins with an empty database
//	levels [F]             shows the files of each level
//
// A command that has nothing to say says nothing.
func TestPlays(t *testing.T) {
	script.RunAll(t, "testdata/plays/*.txt", func(t *testing.T) script.Command {
		p := &player{}
		t.Cleanup(p.close(t))
		return p.do
	})
}

type player struct{ e *metamorphic.Engine }

func (p *player) do(cmd string, args []string, input string) string {
	switch {
	case cmd == "open":
		e, err := metamorphic.Open(vfs.NewMem(), "db", args)
		if err != nil {
			return err.Error()
		}
		p.e = e
		return ""
	case p.e == nil:
		return "no database is open"
	case cmd == "levels":
		return levels(p.e, args)
	}
	var below []metamorphic.Op
	for line := range strings.Lines(input) {
		words, err := script.Split(strings.TrimSpace(line))
		if err != nil {
			return err.Error()
		}
		below = append(below, metamorphic.Make(words[0], words[1:], nil))
	}
	answer := p.e.Do(metamorphic.Make(cmd, args, below))
	if answer == "ok" {
		return ""
	}
	return answer
}

func levels(e *metamorphic.Engine, args []string) string {
	var cf *ashlar.ColumnFamily
	if len(args) == 0 {
		args = []string{"default"}
	}
	if cf = e.Family(args[0]); cf == nil {
		return "no such family"
	}
	if s := cf.Levels(); s != "" {
		return s
	}
	return "no files"
}

func (p *player) close(t *testing.T) func() {
	return func() {
		if p.e == nil {
			return
		}
		if got := p.e.Do(metamorphic.Make("check", nil, nil)); got != "clean" {
			t.Errorf("at the end: %s", got)
		}
		if err := p.e.Close(); err != nil {
			t.Error(err)
		}
	}
}
