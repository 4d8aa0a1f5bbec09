package ashlar

import (
	"maps"
	"slices"
	"strings"
)

// Levels shows the files of each level of a family.
func (c *ColumnFamily) Levels() string {
	sv := c.tree.Acquire()
	if sv == nil {
		return c.unusable().Error()
	}
	defer sv.Release()
	return strings.TrimSuffix(sv.Version().DebugString(), "\n")
}

// ParseOptions reads an OPTIONS file, and EncodeOptions writes one with the families that o names.
func ParseOptions(text []byte) (*Options, error) { return parseOptions("OPTIONS", text) }

func EncodeOptions(o *Options) []byte {
	d := &DB{opts: o.withDefaults()}
	d.dbOpts.Store(&d.opts)
	d.families.Store(&[]*ColumnFamily{})
	id := uint32(0)
	for _, name := range sortedNames(d.opts.ColumnFamilies) {
		cf := &ColumnFamily{id: id, name: name}
		cf.live.Store(newLiveOptions(d.opts.ColumnFamilies[name], &cf.counts))
		d.addFamilyLocked(cf)
		id++
	}
	return d.encodeOptions()
}

func sortedNames(m map[string]*ColumnFamilyOptions) []string { return slices.Sorted(maps.Keys(m)) }
