package faultfs

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Op is a kind of call.
type Op string

const (
	Any      Op = "any"
	Create   Op = "create"
	Open     Op = "open"
	Remove   Op = "remove"
	Rename   Op = "rename"
	Link     Op = "link"
	Mkdir    Op = "mkdir"
	List     Op = "list"
	Stat     Op = "stat"
	SyncDir  Op = "syncdir"
	Lock     Op = "lock"
	Read     Op = "read"
	Write    Op = "write"
	Sync     Op = "sync"
	Truncate Op = "truncate"
	Map      Op = "map"
	Store    Op = "store" // into a mapping
	Close    Op = "close"
)

var ops = []Op{Any, Create, Open, Remove, Rename, Link, Mkdir, List, Stat, SyncDir, Lock, Read, Write, Sync, Truncate, Map, Store, Close}

var errnos = map[string]syscall.Errno{
	"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC, "EACCES": syscall.EACCES, "EMFILE": syscall.EMFILE, "EROFS": syscall.EROFS,
}

// Call is one call of a file system or file.
type Call struct {
	Op      Op
	Name    string
	NewName string // of a rename or link
	Size    int64  // bytes of a write, read, map or store; the new length for truncate
}

// Rule says which calls fail.
type Rule struct {
	Op      Op
	Pattern string
	After   int           // this many matching calls pass first
	Times   int           // then this many fail; 0: all
	Err     syscall.Errno // 0: EIO
	Partial bool          // of a write or store: half of the bytes get into the file
	Late    bool          // the call is done, and then fails

	seen int
}

// Parse reads one rule of the language in the package's comment.
func Parse(line string) (Rule, error) {
	bad := func(format string, args ...any) (Rule, error) {
		return Rule{}, fmt.Errorf("fault rule %q: %s", line, fmt.Sprintf(format, args...))
	}
	words := strings.Fields(line)
	if len(words) < 3 || words[0] != "fail" {
		return bad("want fail OPERATION PATTERN")
	}
	r := Rule{Op: Op(words[1]), Pattern: words[2]}
	if !slices.Contains(ops, r.Op) {
		return bad("no operation %q", words[1])
	}
	if _, err := path.Match(r.Pattern, ""); err != nil {
		return bad("pattern: %v", err)
	}
	for words = words[3:]; len(words) > 0; words = words[1:] {
		switch words[0] {
		case "once":
			r.Times = 1
			continue
		case "partial":
			if r.Op != Write && r.Op != Store {
				return bad("only a write or store can be partial")
			}
			r.Partial = true
			continue
		case "late":
			r.Late = true
			continue
		}
		word := words[0]
		if words = words[1:]; len(words) == 0 {
			return bad("%q is not known or wants a word after it", word)
		}
		n, err := strconv.Atoi(words[0])
		errno, known := errnos[words[0]]
		switch {
		case word == "after" && err == nil && n >= 0:
			r.After = n
		case word == "times" && err == nil && n > 0:
			r.Times = n
		case word == "with" && known:
			r.Err = errno
		default:
			return bad("cannot take %q", word+" "+words[0])
		}
	}
	return r, nil
}

// fires counts a call, and tells whether the rule makes it fail.
func (r *Rule) fires(c Call) bool {
	if r.Op != Any && r.Op != c.Op || !r.names(c.Name) && !(c.NewName != "" && r.names(c.NewName)) {
		return false
	}
	r.seen++
	return r.seen > r.After && (r.Times == 0 || r.seen <= r.After+r.Times)
}

func (r *Rule) names(name string) bool {
	if !strings.Contains(r.Pattern, "/") {
		name = path.Base(name)
	}
	ok, _ := path.Match(r.Pattern, name)
	return ok || r.Pattern == "*" // the root too, whose last element is a slash
}
