package filter

// Ribbon, the building side: RocksDB's Standard128 form, whose query side and block are in ribbon.go.
//
//  1. Rows are kept in band form: row i has its first coefficient at column i, or is empty. A key's equation is added by
//     elimination from where it begins on; what is left of it goes to the first empty row that it comes to.
//  2. An equation that is eliminated to nothing but asks for something cannot be met. Then all begin again with another
//     seed, of 256; with the slots that slotsFor gives, one seed in twenty fails.
//  3. The solution is read from the last row up, one word of 128 rows for each column at a time.
//  4. Where the Bloom filter of the same rate is smaller (few keys), or no seed does, the block is a Bloom filter: readers
//     go by the block's own mark.

import (
	"encoding/binary"
	"math"
	"math/bits"
)

const (
	maxRibbonKeys = 950_000_000 // slots are numbered by 32 bits
	seeds         = 256
)

// Ribbon returns RocksDB's Ribbon filter. bitsPerKey is how many bits a Bloom filter of the same false-positive rate would
// have; Ribbon needs about 30 % fewer, and takes several times as long to build. Values are taken as Bloom takes them.
//
// It stores its filters under Bloom's name, as RocksDB does, and each of the two opens those of the other. RocksDB's own
// policy makes Bloom filters at flushes unless told otherwise; this one makes Ribbon everywhere.
func Ribbon(bitsPerKey float64) Policy {
	return ribbonPolicy{bloomPolicy{millibits: toMillibits(bitsPerKey)}}
}

type ribbonPolicy struct{ bloomPolicy }

// PropertyName is what RocksDB has in a table's property rocksdb.filter.policy.
func (ribbonPolicy) PropertyName() string { return "ribbonfilter" }

// KeysIn is how many keys a filter of so many bytes has.
func (p ribbonPolicy) KeysIn(bytes int) int {
	return int(float64(bytes) * 8 / (1.05 * math.Log2(1/CacheLineRate(p.BitsPerKey()))))
}

func (p ribbonPolicy) NewBuilder(expectedKeys int) Builder {
	return &ribbonBuilder{bloomBuilder{millibits: p.millibits, hashes: make([]uint64, 0, clampKeys(expectedKeys))}}
}

// ribbonBuilder collects hashes as Bloom's builder does.
type ribbonBuilder struct{ bloomBuilder }

func (b *ribbonBuilder) Finish(dst []byte) []byte {
	n := len(b.hashes)
	if n == 0 || n > maxRibbonKeys {
		return b.bloomBuilder.Finish(dst)
	}
	slots := slotsFor(n)
	words := ribbonWords(slots, CacheLineRate(float64(b.millibits)/1000), uint32(b.hashes[0]>>32))
	if slots < 1024 && bloomLines(n, b.millibits)*lineBytes < words*ribbonWord {
		return b.bloomBuilder.Finish(dst)
	}
	x := band{rows: make([]row, slots), results: make([]uint32, slots), starts: uint64(slots - (ribbonRows - 1))}
	for try := range seeds {
		seed := byte(int(b.hashes[0]) + try)
		if !x.fill(b.hashes, seed) {
			continue
		}
		start := len(dst)
		dst = appendZeros(dst, words*ribbonWord)
		x.solve(dst[start:])
		b.hashes = b.hashes[:0]
		blocks := slots / ribbonRows
		return append(dst, markRibbon, seed, byte(blocks), byte(blocks>>8), byte(blocks>>16))
	}
	return b.bloomBuilder.Finish(dst)
}

// fits are how many keys go into 2^i slots from i = 8 on such that one seed in twenty fails: RocksDB's measured numbers.
// Behind them the slots for each key grow by 0.0038 with every doubling.
var fits = [...]float64{248.851, 499.532, 1001.26, 2003.97, 4005.59, 8000.39, 15966.6, 31828.1, 63447.3, 126506}

const (
	fewestLog   = 8
	growPerLog  = 0.0038
	fewestSlots = 1 << fewestLog
)

// fit is how many keys go into 2^log slots.
func fit(log int) float64 {
	if i := log - fewestLog; i < len(fits) {
		return fits[i]
	}
	last := fewestLog + len(fits) - 1
	factor := float64(int(1)<<last)/fits[len(fits)-1] + growPerLog*float64(log-last)
	return float64(uint64(1)<<log) / factor
}

// slotsFor returns the number of slots for n keys, whole blocks.
func slotsFor(n int) int {
	log := fewestLog
	if fit(log) >= float64(n) {
		return fewestSlots
	}
	for fit(log+1) <= float64(n) {
		log++
	}
	low, high := fit(log), fit(log+1)
	slots := int(math.Ceil(float64(int(1)<<log) * (1 + (float64(n)-low)/(high-low))))
	return (slots + ribbonRows - 1) / ribbonRows * ribbonRows
}

// ribbonWords is how many words the solution takes for a false-positive rate. Between rates of whole columns, blocks at the front
// have one column less; entropy rounds the number of those one way or the other.
func ribbonWords(slots int, rate float64, entropy uint32) int {
	columns := bits.Len64(uint64(1/rate)) - 1 // of the early blocks
	if columns >= ribbonColumns {
		return slots / ribbonRows * ribbonColumns
	}
	more, less := math.Exp2(-float64(columns+1)), math.Exp2(-float64(columns))
	portion := (rate - more) / (less - more)
	bias := (float64(entropy) + 0.5) / (1 << 32)
	early := int((portion*float64(slots-ribbonRows+1) + bias) / ribbonRows)
	blocks := slots / ribbonRows
	return blocks*columns + blocks - early
}

// CacheLineRate is the false-positive rate of a Bloom filter that puts each key into one line of 64 bytes, by the formula
// that RocksDB has for it: the mean of a line that is a standard deviation fuller than the average and one that is emptier.
func CacheLineRate(bitsPerKey float64) float64 {
	const line = lineBytes * 8
	probes := float64(bloomProbes(toMillibits(bitsPerKey)))
	rate := func(keys float64) float64 { return math.Pow(1-math.Exp(-probes*keys/line), probes) }
	keys := line / bitsPerKey
	return (rate(keys+math.Sqrt(keys)) + rate(keys-math.Sqrt(keys))) / 2
}

// row is an equation's coefficients, from the column of its slot on. Zero: an empty slot.
type row struct{ hi, lo uint64 }

// band is the system of equations in band form.
type band struct {
	rows    []row
	results []uint32
	starts  uint64
}

// fill adds the equations of all hashes. It is false if one of them cannot be met under this seed.
func (x *band) fill(hashes []uint64, seed byte) bool {
	clear(x.rows)
	clear(x.results)
	mixed := mixSeed(seed)
	for _, h := range hashes {
		e := equationOf(h, mixed, x.starts)
		if !x.add(e) {
			return false
		}
	}
	return true
}

func (x *band) add(e equation) bool {
	r, result, at := row{e.hi, e.lo}, e.result, e.start
	for {
		there := x.rows[at]
		if there == (row{}) {
			x.rows[at], x.results[at] = r, result
			return true
		}
		r.hi, r.lo, result = r.hi^there.hi, r.lo^there.lo, result^x.results[at]
		var n int
		switch {
		case r.lo != 0:
			n = bits.TrailingZeros64(r.lo)
		case r.hi != 0:
			n = 64 + bits.TrailingZeros64(r.hi)
		default:
			return result == 0 // the same key again
		}
		at += uint64(n)
		if n < 64 {
			r.lo, r.hi = r.lo>>n|r.hi<<(64-n), r.hi>>n
		} else {
			r.lo, r.hi = r.hi>>(n-64), 0
		}
	}
}

// solve writes the solution into words, whose length says how many columns there are.
func (x *band) solve(words []byte) {
	blocks := len(x.rows) / ribbonRows
	g := geometryOf(len(words)/ribbonWord, blocks)
	var window [ribbonColumns]row // bit 0 is the row being solved, the others those behind it
	for b := blocks - 1; b >= 0; b-- {
		first, columns := g.block(uint64(b))
		for at := (b+1)*ribbonRows - 1; at >= b*ribbonRows; at-- {
			r, result := x.rows[at], x.results[at]
			for c := range columns {
				w := &window[c]
				hi, lo := w.hi<<1|w.lo>>63, w.lo<<1
				parity := uint64(bits.OnesCount64(hi&r.hi^lo&r.lo)) & 1
				*w = row{hi, lo | parity ^ uint64(result>>c&1)}
			}
		}
		for c := range columns {
			word := words[(first+c)*ribbonWord:]
			binary.LittleEndian.PutUint64(word, window[c].lo)
			binary.LittleEndian.PutUint64(word[8:], window[c].hi)
		}
	}
}
