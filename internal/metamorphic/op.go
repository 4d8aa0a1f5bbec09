package metamorphic

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Verb is what an operation does. Its text is the first word of the operation's line.
type Verb string

const (
	Put          Verb = "put"           // [cf=F] key value [nowal] [sync]
	Delete       Verb = "delete"        // [cf=F] key [nowal] [sync]
	SingleDelete Verb = "single-delete" // [cf=F] key [nowal] [sync]
	DeleteRange  Verb = "delete-range"  // [cf=F] begin end [nowal] [sync]
	Merge        Verb = "merge"         // [cf=F] key operand [nowal] [sync]
	Batch        Verb = "batch"         // [nowal] [sync] [set-data], and one write a line below it
	Get          Verb = "get"           // [cf=F] [snap=S] key
	GetPinned    Verb = "get-pinned"    // [cf=F] [snap=S] key
	MultiGet     Verb = "multi-get"     // [cf=F] [snap=S] key…
	Snapshot     Verb = "snapshot"      // S
	Release      Verb = "release"       // S
	NewIter      Verb = "iter"          // I [cf=F] [snap=S] [lower=K] [upper=K]
	First        Verb = "first"         // I
	Last         Verb = "last"          // I
	Seek         Verb = "seek"          // I key
	SeekForPrev  Verb = "seek-for-prev" // I key
	Next         Verb = "next"          // I [n=N]
	Prev         Verb = "prev"          // I [n=N]
	Refresh      Verb = "refresh"       // I [snap=S]
	CloseIter    Verb = "close"         // I
	Scan         Verb = "scan"          // [cf=F] [snap=S] [lower=K] [upper=K]
	ScanBack     Verb = "scan-back"     // [cf=F] [snap=S] [lower=K] [upper=K]
	Flush        Verb = "flush"         // [F…]
	Compact      Verb = "compact"       // [cf=F] [begin=K] [end=K] [force]
	Wait         Verb = "wait"          // for compactions
	Create       Verb = "create"        // F [reverse]
	Drop         Verb = "drop"          // F
	Reopen       Verb = "reopen"        // [option=value…]
	Configure    Verb = "set-options"   // [cf=F] option=value…, by RocksDB's names
	Seq          Verb = "seq"           //
	Check        Verb = "check"         //

	// In batches only.
	LogData   Verb = "log-data"  // blob
	SavePoint Verb = "savepoint" //
	Rollback  Verb = "rollback"  //
	Pop       Verb = "pop"       //
)

// Op is one operation: a verb, its words, and for a batch what is in it.
type Op struct {
	Verb  Verb
	Args  []string
	Named map[string]string // cf, snap, lower, upper, begin, end, n
	Flags map[string]bool   // nowal, sync, force, reverse, set-data
	Batch []Op
}

var (
	namedWords = []string{"cf", "snap", "lower", "upper", "begin", "end", "n"}
	flagWords  = []string{"nowal", "sync", "force", "reverse", "set-data"}
)

// Family is the name of the family that the operation is about.
func (o Op) Family() string {
	if f := o.Named["cf"]; f != "" {
		return f
	}
	return "default"
}

// bound returns an optional key.
func (o Op) bound(name string) *string {
	if k, ok := o.Named[name]; ok {
		return &k
	}
	return nil
}

// times is how often a move is to be done.
func (o Op) times() int {
	if n, err := strconv.Atoi(o.Named["n"]); err == nil {
		return n
	}
	return 1
}

// String returns the operation's lines.
func (o Op) String() string {
	var b strings.Builder
	b.WriteString(string(o.Verb))
	for i, a := range o.Args {
		if o.Verb == Reopen || o.Verb == Configure || (o.Verb == Put || o.Verb == Merge) && i == 1 {
			fmt.Fprintf(&b, " %s", quote(a, ""))
			continue
		}
		fmt.Fprintf(&b, " %s", quote(a, "="))
	}
	for _, n := range namedWords {
		if v, ok := o.Named[n]; ok {
			fmt.Fprintf(&b, " %s=%s", n, quote(v, ""))
		}
	}
	for _, f := range flagWords {
		if o.Flags[f] {
			fmt.Fprintf(&b, " %s", f)
		}
	}
	for _, in := range o.Batch {
		fmt.Fprintf(&b, "\n  %v", in)
	}
	return b.String()
}

// quote returns a word, in quotes if it is not plain.
func quote(w, special string) string {
	for _, c := range []byte(w) {
		if c <= ' ' || c > '~' || c == '"' || strings.IndexByte(special, c) >= 0 {
			return strconv.Quote(w)
		}
	}
	if w == "" {
		return `""`
	}
	return w
}

// Make makes an operation of the words of a line, taken apart, and of the lines below it. A word "name=value" with one
// of the known names is a named one.
func Make(verb string, words []string, below []Op) Op {
	o := Op{Verb: Verb(verb), Named: map[string]string{}, Flags: map[string]bool{}, Batch: below}
words:
	for _, w := range words {
		for _, f := range flagWords {
			if w == f {
				o.Flags[f] = true
				continue words
			}
		}
		if o.Verb != Reopen {
			for _, n := range namedWords {
				if v, ok := strings.CutPrefix(w, n+"="); ok {
					o.Named[n] = v
					continue words
				}
			}
		}
		o.Args = append(o.Args, w)
	}
	return o
}

// Arg returns a word, "" if there are not so many.
func (o Op) Arg(n int) string {
	if n < len(o.Args) {
		return o.Args[n]
	}
	return ""
}

// Expand returns the value that a short form stands for: "v17~200" is v17~200: and random letters, 200 bytes in all.
// Other values stand for themselves.
func Expand(short string) []byte {
	_, size, ok := strings.Cut(short, "~")
	n, err := strconv.Atoi(size)
	if !ok || err != nil || n <= len(short) {
		return []byte(short)
	}
	h := fnv.New64a()
	h.Write([]byte(short))
	rng := rand.New(rand.NewPCG(h.Sum64(), 0))
	b := append(make([]byte, 0, n), short...)
	for b = append(b, ':'); len(b) < n; {
		b = append(b, 'a'+byte(rng.IntN(26)))
	}
	return b
}

// Shorten returns the short form of a value, or all of it.
func Shorten(value []byte) string {
	if short, _, ok := strings.Cut(string(value), ":"); ok && string(Expand(short)) == string(value) {
		return short
	}
	return quote(string(value), "")
}

// show is how an entry, or its absence, stands in a history.
func show(key, value string, ok bool) string {
	if !ok {
		return "end"
	}
	return fmt.Sprintf("%s=%s", quote(key, "="), Shorten([]byte(value)))
}
