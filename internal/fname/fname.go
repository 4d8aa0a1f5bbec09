package fname

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is what a file is for.
type Kind uint8

const (
	// Unknown is no file of ours.
	Unknown Kind = iota
	// Table is NNNNNN.sst.
	Table
	// Log is NNNNNN.log, a write-ahead log.
	Log
	// Manifest is MANIFEST-NNNNNN.
	Manifest
	// Current is CURRENT.
	Current
	// Options is OPTIONS-NNNNNN.
	Options
	// Identity is IDENTITY.
	Identity
	// Lock is LOCK.
	Lock
	// InfoLog is LOG, for people to read.
	InfoLog
	// OldInfoLog is LOG.old.N; N is the time in microseconds at which it was set aside.
	OldInfoLog
	// Temp is NNNNNN.dbtmp.
	Temp
	// OptionsTemp is OPTIONS-NNNNNN.dbtmp.
	OptionsTemp
	// Blob is NNNNNN.blob.
	Blob
)

// MaxNum is the largest number that a file may have.
const MaxNum = 1<<62 - 1

const (
	manifestPrefix = "MANIFEST-"
	optionsPrefix  = "OPTIONS-"
	oldLogPrefix   = "LOG.old."
	tempSuffix     = ".dbtmp"
)

// form is how a kind's name is put together around its number.
type form struct {
	kind           Kind
	prefix, suffix string
}

// forms in the order in which Parse tries them; the first of a kind is the one that Make writes.
var forms = []form{
	{Table, "", ".sst"},
	{Table, "", ".ldb"},
	{Log, "", ".log"},
	{Manifest, manifestPrefix, ""},
	{OptionsTemp, optionsPrefix, tempSuffix},
	{Options, optionsPrefix, ""},
	{Temp, "", tempSuffix},
	{Blob, "", ".blob"},
	{OldInfoLog, oldLogPrefix, ""},
}

var fixed = map[string]Kind{"CURRENT": Current, "IDENTITY": Identity, "LOCK": Lock, "LOG": InfoLog}

// HasNum tells whether files of this kind have a number in their names.
func (k Kind) HasNum() bool {
	return k != Unknown && k != Current && k != Identity && k != Lock && k != InfoLog
}

// Make returns the name of the file of kind k with number num. Kinds without a number ignore it; Unknown has no name.
func Make(k Kind, num uint64) string {
	for _, f := range forms {
		if f.kind == k {
			return fmt.Sprintf("%s%06d%s", f.prefix, num, f.suffix)
		}
	}
	for name, kind := range fixed {
		if kind == k {
			return name
		}
	}
	return ""
}

// Parse reads a name as a directory lists it. ok is false for names that are not ours. Number 0 is used by temporary
// files only.
func Parse(name string) (k Kind, num uint64, ok bool) {
	if k, ok := fixed[name]; ok {
		return k, 0, true
	}
	for _, f := range forms {
		digits, ok := strings.CutPrefix(name, f.prefix)
		if !ok {
			continue
		}
		if digits, ok = strings.CutSuffix(digits, f.suffix); !ok {
			continue
		}
		num, ok := parseNum(digits)
		if !ok || num == 0 && f.kind != Temp {
			continue
		}
		return f.kind, num, true
	}
	return Unknown, 0, false
}

// parseNum is strict: ParseUint with base 10 takes digits only, no sign, no underscore.
func parseNum(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 62)
	return n, err == nil
}
