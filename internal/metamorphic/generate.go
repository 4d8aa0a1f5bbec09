package metamorphic

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// generator draws operations that make sense, which it knows from a twin that does them too.
type generator struct {
	rng    *rand.Rand
	twin   *Twin
	values int
}

// Generate returns n operations drawn from a seed.
func Generate(seed uint64, n int) []Op {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 1)), twin: NewTwin()}
	ops := make([]Op, 0, n)
	for len(ops) < n {
		o := g.op()
		if o.Verb == "" {
			continue
		}
		g.twin.Do(o)
		ops = append(ops, o)
	}
	return ops
}

// weights say how often each kind of operation is drawn.
var weights = []struct {
	weight int
	draw   func(g *generator) Op
}{
	{300, func(g *generator) Op { return g.write(Put) }},
	{80, func(g *generator) Op { return g.write(Delete) }},
	{60, func(g *generator) Op { return g.write(SingleDelete) }},
	{40, (*generator).deleteRange},
	{150, func(g *generator) Op { return g.write(Merge) }},
	{70, (*generator).batch},
	{100, func(g *generator) Op { return g.get(Get, 1) }},
	{20, func(g *generator) Op { return g.get(GetPinned, 1) }},
	{20, func(g *generator) Op { return g.get(MultiGet, 1+g.rng.IntN(8)) }},
	{30, func(g *generator) Op { return g.op1(Snapshot, g.name("s", 6)) }},
	{25, func(g *generator) Op { return g.op1(Release, some(g.rng, g.twin.snapshots)) }},
	{25, (*generator).iter},
	{150, (*generator).move},
	{8, func(g *generator) Op { return g.op1(CloseIter, some(g.rng, g.twin.iters)) }},
	{15, func(g *generator) Op { return g.scan(Scan) }},
	{15, func(g *generator) Op { return g.scan(ScanBack) }},
	{40, (*generator).flush},
	{10, (*generator).compact},
	{5, func(g *generator) Op { return Make(string(Wait), nil, nil) }},
	{5, (*generator).create},
	{6, (*generator).setOptions},
	{3, (*generator).drop},
	{3, func(g *generator) Op { return Make(string(Reopen), nil, nil) }},
	{10, func(g *generator) Op { return Make(string(Seq), nil, nil) }},
	{2, func(g *generator) Op { return Make(string(Check), nil, nil) }},
}

func (g *generator) op() Op {
	sum := 0
	for _, w := range weights {
		sum += w.weight
	}
	at := g.rng.IntN(sum)
	for _, w := range weights {
		if at -= w.weight; at < 0 {
			return w.draw(g)
		}
	}
	return Op{}
}

// some returns one of the names, "" if there are none.
func some[V any](rng *rand.Rand, m map[string]V) string {
	names := sortedKeys(m)
	if len(names) == 0 {
		return ""
	}
	return names[rng.IntN(len(names))]
}

func (g *generator) chance(percent int) bool { return g.rng.IntN(100) < percent }

func (g *generator) op1(v Verb, arg string) Op {
	if arg == "" {
		return Op{}
	}
	return Make(string(v), []string{arg}, nil)
}

func (g *generator) name(kind string, n int) string { return kind + strconv.Itoa(g.rng.IntN(n)) }

// family returns the name of a family, now and then of one that was dropped.
func (g *generator) family() string {
	for range 3 {
		name := some(g.rng, g.twin.families)
		if g.twin.db.Live(g.twin.families[name]) || g.chance(3) {
			return name
		}
	}
	return "default"
}

func (g *generator) set(o *Op, family string) {
	if family != "default" {
		o.Named["cf"] = family
	}
}

// key returns one of some 80 keys, most of them in one dense run.
func (g *generator) key() string {
	switch g.rng.IntN(20) {
	case 0:
		return []string{"", "k", "k1", "k10", "k100", "\xff", "\xff\xff", "\x00", "a", "zz", "k=1", "k 2"}[g.rng.IntN(12)]
	case 1:
		return fmt.Sprintf("k%02dtail", g.rng.IntN(10))
	}
	return fmt.Sprintf("k%02d", g.rng.IntN(60))
}

func (g *generator) value() string {
	g.values++
	name := "v" + strconv.Itoa(g.values)
	switch g.rng.IntN(20) {
	case 0:
		return ""
	case 1, 2:
		return name
	case 3:
		return fmt.Sprintf("%s~%d", name, 2000+g.rng.IntN(8000))
	}
	return fmt.Sprintf("%s~%d", name, 20+g.rng.IntN(200))
}

// operand is short more often than a value: what is merged again and again grows.
func (g *generator) operand() string {
	if g.chance(80) {
		return strconv.Itoa(g.rng.IntN(1000))
	}
	return g.value()
}

func (g *generator) flags(o *Op) {
	switch g.rng.IntN(10) {
	case 0:
		o.Flags["nowal"] = true
	case 1:
		o.Flags["sync"] = true
	}
}

func (g *generator) write(v Verb) Op {
	family := g.family()
	k := g.key()
	o := g.point(v, family, k)
	if v == SingleDelete && !g.twin.families[family].MaySingleDelete(k, nil) {
		return Op{}
	}
	g.flags(&o)
	return o
}

func (g *generator) point(v Verb, family, key string) Op {
	words := []string{key}
	switch v {
	case Put:
		words = append(words, g.value())
	case Merge:
		words = append(words, g.operand())
	}
	o := Op{Verb: v, Args: words, Named: map[string]string{}, Flags: map[string]bool{}}
	g.set(&o, family)
	return o
}

func (g *generator) deleteRange() Op {
	o := g.ranged(g.family())
	g.flags(&o)
	return o
}

// ranged draws a range delete: most are short, some empty, some go over half of the keys.
func (g *generator) ranged(family string) Op {
	begin, end := g.key(), g.key()
	if g.chance(60) {
		n := g.rng.IntN(60)
		begin, end = fmt.Sprintf("k%02d", n), fmt.Sprintf("k%02d", n+g.rng.IntN(6))
	}
	if g.twin.families[family].Compare(begin, end) > 0 {
		begin, end = end, begin
	}
	o := Make(string(DeleteRange), []string{begin, end}, nil)
	g.set(&o, family)
	return o
}

func (g *generator) batch() Op {
	o := Make(string(Batch), nil, nil)
	for range g.rng.IntN(12) {
		switch g.rng.IntN(12) {
		case 0:
			o.Batch = append(o.Batch, Make(string(SavePoint), nil, nil))
		case 1:
			o.Batch = append(o.Batch, Make(string([]Verb{Rollback, Pop}[g.rng.IntN(2)]), nil, nil))
		case 2:
			o.Batch = append(o.Batch, Make(string(LogData), []string{"blob"}, nil))
		default:
			v := []Verb{Put, Put, Put, Delete, SingleDelete, Merge, Merge, DeleteRange}[g.rng.IntN(8)]
			if v == DeleteRange {
				o.Batch = append(o.Batch, g.ranged(g.family()))
				continue
			}
			o.Batch = append(o.Batch, g.point(v, g.family(), g.key()))
			if v != SingleDelete {
				continue
			}
			if !g.keepsContract(o.Batch) {
				o.Batch = o.Batch[:len(o.Batch)-1]
			}
		}
	}
	if !g.keepsContract(o.Batch) { // a rollback may have taken a delete back
		return Op{}
	}
	g.flags(&o)
	o.Flags["set-data"] = g.chance(20)
	return o
}

// keepsContract says whether every SingleDelete of a batch may be done.
func (g *generator) keepsContract(ops []Op) bool {
	_, broken, _ := g.twin.plan(ops)
	return !broken
}

func (g *generator) snap(o *Op) {
	if s := some(g.rng, g.twin.snapshots); s != "" && g.chance(40) {
		o.Named["snap"] = s
	}
}

func (g *generator) get(v Verb, n int) Op {
	o := Make(string(v), nil, nil)
	for range n {
		o.Args = append(o.Args, g.key())
	}
	g.set(&o, g.family())
	g.snap(&o)
	return o
}

func (g *generator) bounds(o *Op, lower, upper string) {
	if g.chance(30) {
		o.Named[lower] = g.key()
	}
	if g.chance(30) {
		o.Named[upper] = g.key()
	}
}

func (g *generator) scan(v Verb) Op {
	o := Make(string(v), nil, nil)
	g.set(&o, g.family())
	g.snap(&o)
	g.bounds(&o, "lower", "upper")
	return o
}

func (g *generator) iter() Op {
	o := g.scan(NewIter)
	o.Args = []string{g.name("i", 4)}
	return o
}

func (g *generator) move() Op {
	i := some(g.rng, g.twin.iters)
	if i == "" {
		return Op{}
	}
	o := Make([]string{"first", "last", "seek", "seek", "seek-for-prev", "seek-for-prev", "next", "next", "next", "prev", "prev", "prev", "refresh"}[g.rng.IntN(13)], nil, nil)
	o.Args = []string{i}
	switch o.Verb {
	case Seek, SeekForPrev:
		o.Args = append(o.Args, g.key())
	case Next, Prev:
		if n := 1 + g.rng.IntN(3); n > 1 {
			o.Named["n"] = strconv.Itoa(n)
		}
	case Refresh:
		if !g.chance(20) {
			return Op{}
		}
		g.snap(&o)
	}
	return o
}

func (g *generator) flush() Op {
	o := Make(string(Flush), nil, nil)
	if g.chance(70) {
		o.Args = []string{g.family()}
	}
	return o
}

func (g *generator) compact() Op {
	o := Make(string(Compact), nil, nil)
	g.set(&o, g.family())
	g.bounds(&o, "begin", "end")
	o.Flags["force"] = g.chance(50)
	return o
}

// live are options that change, which makes no difference to what is read.
var live = []string{
	"write_buffer_size=64k", "write_buffer_size=200000", "max_write_buffer_number=2", "max_write_buffer_number=5",
	"max_write_buffer_size_to_maintain=-1", "max_write_buffer_size_to_maintain=0", "max_successive_merges=2",
	"max_successive_merges=0", "memtable_max_range_deletions=3", "memtable_max_range_deletions=0",
	"level0_file_num_compaction_trigger=1", "level0_file_num_compaction_trigger=5", "target_file_size_base=1000",
	"target_file_size_base=1M", "max_bytes_for_level_base=4000", "max_bytes_for_level_multiplier=2.5",
	"disable_auto_compactions=true", "disable_auto_compactions=false", "optimize_filters_for_hits=true",
	"optimize_filters_for_hits=false", "compression=kNoCompression", "compression=kZSTD", "compression_per_level=kNoCompression:kZSTD",
	"bottommost_compression=kZSTD", "block_based_table_factory={block_size=100}",
	"block_based_table_factory={block_restart_interval=2;filter_policy=bloomfilter:10:false}",
	"block_based_table_factory={filter_policy=nullptr;checksum=kCRC32c}", "block_based_table_factory={format_version=4}",
}

func (g *generator) setOptions() Op {
	o := Make(string(Configure), nil, nil)
	g.set(&o, g.family())
	for range 1 + g.rng.IntN(3) {
		o.Args = append(o.Args, live[g.rng.IntN(len(live))])
	}
	return o
}

func (g *generator) create() Op {
	name := g.name("f", 4)
	o := g.op1(Create, name)
	o.Flags["reverse"] = g.chance(30)
	return o
}

func (g *generator) drop() Op {
	name := some(g.rng, g.twin.families)
	if name == "default" {
		return Op{}
	}
	return g.op1(Drop, name)
}
