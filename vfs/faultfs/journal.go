package faultfs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// Detail is how much the journal says.
type Detail int

const (
	Off   Detail = iota // no journal
	Names               // "write NAME" once for writes to one file that follow each other
	Sizes               // "write NAME SIZE" for each write
)

// Record starts an empty journal.
func (f *FS) Record(d Detail) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.detail, f.lines, f.lastWrite = d, nil, ""
}

// Journal returns what was recorded since Record or the last Journal: one line for each call that changes something, in
// the order in which they ended.
//
//	create db/000002.temp
//	write db/000002.temp
//	sync db/000002.temp
//	rename db/000002.temp db/CURRENT
//	syncdir db: input/output error
func (f *FS) Journal() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := strings.Join(f.lines, "")
	f.lines, f.lastWrite = nil, ""
	return text
}

func (f *FS) record(c Call, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.detail == Off {
		return
	}
	line := string(c.Op) + " " + c.Name
	switch c.Op {
	case Open, List, Stat, Read, Close:
		return
	case Rename, Link:
		line += " " + c.NewName
	case Truncate:
		line += fmt.Sprint(" ", c.Size)
	case Write, Map, Store:
		if f.detail == Sizes {
			line += fmt.Sprint(" ", c.Size)
		}
	}
	if err != nil {
		var errno syscall.Errno
		if errors.As(err, &errno) {
			err = errno
		}
		line += ": " + err.Error()
	}
	line += "\n"
	repeats := c.Op == Write || c.Op == Store
	if f.detail == Names && repeats && f.lastWrite == line {
		return
	}
	f.lines = append(f.lines, line)
	if f.lastWrite = ""; repeats {
		f.lastWrite = line
	}
}
