package model

import (
	"slices"
	"strings"
)

// Kind is what a write does.
type Kind uint8

const (
	Put Kind = iota
	Delete
	SingleDelete
	DeleteRange // from Key (included) to Value (excluded)
	Merge       // RocksDB's StringAppendOperator with a comma
)

// Write is one write of a batch.
type Write struct {
	Family *Family
	Kind   Kind
	Key    string
	Value  string
}

// rangeDelete is what one DeleteRange left.
type rangeDelete struct {
	seq        uint64
	begin, end string
}

// version is what one write left.
type version struct {
	seq   uint64
	kind  Kind
	value string
}

// Family is a column family.
type Family struct {
	Name string
	// Reverse turns the order of keys round.
	Reverse bool
	keys    map[string][]version // oldest first
	ranges  []rangeDelete        // oldest first
}

// DB is a database. Make one with New.
type DB struct {
	seq      uint64
	families map[string]*Family
}

// New returns a database with the default family.
func New() *DB {
	d := &DB{families: map[string]*Family{}}
	d.Create("default", false)
	return d
}

// Create makes a family. There is none of that name.
func (d *DB) Create(name string, reverse bool) *Family {
	f := &Family{Name: name, Reverse: reverse, keys: map[string][]version{}}
	d.families[name] = f
	return f
}

// Drop removes a family from the database. Reads that have it go on.
func (d *DB) Drop(name string) { delete(d.families, name) }

// Family returns a family by name, nil if there is none.
func (d *DB) Family(name string) *Family { return d.families[name] }

// Live says whether the family is in the database.
func (d *DB) Live(f *Family) bool { return d.families[f.Name] == f }

// Seq is the number of the last write.
func (d *DB) Seq() uint64 { return d.seq }

// Apply does the writes of a batch, each with the next sequence number.
func (d *DB) Apply(writes []Write) {
	for _, w := range writes {
		d.seq++
		if w.Kind == DeleteRange {
			w.Family.ranges = append(w.Family.ranges, rangeDelete{d.seq, w.Key, w.Value})
			continue
		}
		w.Family.keys[w.Key] = append(w.Family.keys[w.Key], version{d.seq, w.Kind, w.Value})
	}
}

// MaySingleDelete says whether a SingleDelete of key, after writes that are not applied yet, keeps its contract: at most
// one put and no merge since the key was last single-deleted, whatever deletes there were.
func (f *Family) MaySingleDelete(key string, pending []Write) bool {
	puts := 0
	for _, v := range f.keys[key] {
		puts = count(puts, v.kind)
	}
	for _, w := range pending {
		if w.Family == f && w.Key == key {
			puts = count(puts, w.Kind)
		}
	}
	return puts <= 1
}

// count counts a merge as more puts than there may be.
func count(puts int, k Kind) int {
	switch k {
	case Put:
		return puts + 1
	case Merge:
		return puts + 2
	case SingleDelete:
		return 0
	}
	return puts
}

// Get returns what a reader at seq sees of key.
func (f *Family) Get(key string, seq uint64) (value string, ok bool) {
	var last uint64 // the number of the version before
	for _, v := range f.keys[key] {
		if v.seq > seq {
			break
		}
		if f.covered(key, last, v.seq) {
			value, ok = "", false
		}
		last = v.seq
		switch {
		case v.kind == Merge && ok:
			value += "," + v.value
		case v.kind == Merge || v.kind == Put:
			value, ok = v.value, true
		default:
			value, ok = "", false
		}
	}
	if f.covered(key, last, seq) {
		return "", false
	}
	return value, ok
}

// covered says whether a range delete between two numbers hides key.
func (f *Family) covered(key string, after, seq uint64) bool {
	return slices.ContainsFunc(f.ranges, func(r rangeDelete) bool {
		return r.seq > after && r.seq <= seq && f.Compare(r.begin, key) <= 0 && f.Compare(key, r.end) < 0
	})
}

// Compare compares two keys in the family's order.
func (f *Family) Compare(a, b string) int {
	if f.Reverse {
		return strings.Compare(b, a)
	}
	return strings.Compare(a, b)
}

// Entry is what an iterator stands on.
type Entry struct{ Key, Value string }

// Entries returns what a reader at seq sees between two bounds, nil being open, in order.
func (f *Family) Entries(seq uint64, lower, upper *string) []Entry {
	var all []Entry
	for key := range f.keys {
		value, ok := f.Get(key, seq)
		if ok && (lower == nil || f.Compare(key, *lower) >= 0) && (upper == nil || f.Compare(key, *upper) < 0) {
			all = append(all, Entry{key, value})
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return f.Compare(a.Key, b.Key) })
	return all
}
