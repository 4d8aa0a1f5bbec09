package writegroup_test

import (
	"fmt"

	"github.com/ashlardb/ashlar/writegroup"
)

// journal writes strings to a log, and keeps them in a list that readers may see up to visible.
type journal struct {
	log     []byte
	list    []string
	visible int
}

func (j *journal) Prepare(string) error                     { return nil }
func (j *journal) Size(s string) int                        { return len(s) }
func (j *journal) Sync() error                              { return nil } // nobody asks
func (j *journal) Publish(*writegroup.Group[string], error) { j.visible = len(j.list) }

func (j *journal) Admit(_, _ string, n, size int) writegroup.Admission {
	if n < 100 && size < 1<<20 {
		return writegroup.Join
	}
	return writegroup.CloseGroup
}

func (j *journal) Log(g *writegroup.Group[string]) (spread bool, err error) {
	for i, s := range g.Works() {
		if s == "" {
			g.Fail(i, fmt.Errorf("nothing to write"))
			continue
		}
		j.log = append(append(j.log, s...), '\n')
	}
	return false, nil // a list takes one at a time
}

func (j *journal) Insert(_ *writegroup.Group[string], s string) error {
	j.list = append(j.list, s)
	return nil
}

func Example() {
	j := &journal{}
	q := writegroup.New(j)
	fmt.Println(q.Commit("hello"), q.Commit(""), q.Commit("world"))
	fmt.Println(j.list[:j.visible])
	// Output:
	// <nil> nothing to write <nil>
	// [hello world]
}
