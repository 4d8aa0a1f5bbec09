package filter

// Ribbon, the query side; ribbon_build.go is the other. The filter is the solution of a system of linear equations over bits: each key that was added
// gave one equation per column, "the parity of these 128 neighbouring bits of the column is that", with coefficients and
// right-hand sides from the key's hash. A key that was not added fits by chance, with half the probability for each column.
//
// The columns are stored in blocks of 128 rows, one word of 16 bytes per column and block:
//
//	block 0            block 1            …  block n-1
//	[c0][c1]…[c-2]     [c0][c1]…[c-2]        [c0][c1]…[c-1]
//
// The first lowBlocks of them have one column less than the others, which is how sizes between whole columns are reached.
// An equation begins at some row of a block and ends in the next block, unless it begins at row 0.

import (
	"encoding/binary"
	"math/bits"
)

const (
	ribbonRows    = 128 // rows of a block, and width of an equation
	ribbonWord    = 16
	ribbonColumns = 32 // at most: a right-hand side has 32 bits
)

type ribbonReader struct {
	words  []byte
	seed   uint64 // mixed from the seed byte
	starts uint64 // how many rows an equation can begin at
	ribbonGeometry
}

// ribbonGeometry says where the words of a block of rows are.
type ribbonGeometry struct {
	lowBlocks uint64
	columns   uint64 // of the later blocks
}

func geometryOf(words, blocks int) ribbonGeometry {
	columns := (words + blocks - 1) / blocks
	return ribbonGeometry{lowBlocks: uint64(columns*blocks - words), columns: uint64(columns)}
}

// block returns the first word of block b, and how many it has.
func (g ribbonGeometry) block(b uint64) (first, columns uint64) {
	first, columns = b*g.columns-min(b, g.lowBlocks), g.columns
	if b < g.lowBlocks {
		columns--
	}
	return first, columns
}

// mixSeed spreads the seed byte over the 32 bits that go into a key's hash.
func mixSeed(seed byte) uint64 {
	s := uint64(seed) * 0xC78219A23EEADD03
	s ^= s & 0xF0F0F0F0F0F0F0F0 >> 4
	return uint64(uint32(s))
}

// equation is a key's: its 128 coefficients begin at row start, and bit i of result is the parity that column i is to have.
type equation struct {
	start  uint64
	hi, lo uint64
	result uint32
}

func equationOf(h, seed, starts uint64) equation {
	h = (h ^ seed) * 0x6193D459236A3A0D
	start, _ := bits.Mul64(h, starts)
	hi := h * 0xC28F82822B650BED
	return equation{start: start, hi: hi, lo: (hi ^ 0xC367844A6E52731D) | 1, result: uint32(bits.ReverseBytes64(hi))}
}

// parseRibbon returns the reader, or false when the numbers do not fit each other: then the answer is yes.
func parseRibbon(words []byte, meta [metaBytes]byte) (ribbonReader, bool) {
	blocks := int(meta[2]) | int(meta[3])<<8 | int(meta[4])<<16
	if blocks < 2 || len(words)%ribbonWord != 0 {
		return ribbonReader{}, false
	}
	g := geometryOf(len(words)/ribbonWord, blocks)
	if g.columns > ribbonColumns {
		return ribbonReader{}, false
	}
	return ribbonReader{words: words, seed: mixSeed(meta[1]), starts: uint64(ribbonRows*blocks - (ribbonRows - 1)), ribbonGeometry: g}, true
}

func (r *ribbonReader) MayContain(key []byte) bool { return r.MayContainHash(Hash(key)) }

func (r *ribbonReader) MayContainHash(h uint64) bool {
	e := equationOf(h, r.seed, r.starts)
	row, hi, lo := e.start%ribbonRows, e.hi, e.lo
	first, columns := r.block(e.start / ribbonRows)

	// The equation's part in this block, and what is left of it for the next one: 128-bit shifts, in which a count below
	// zero, or of 64 and more, shifts everything out.
	hereHi, hereLo := hi<<row|lo>>(64-row)|lo<<(row-64), lo<<row
	rest := ribbonRows - row
	nextHi, nextLo := hi>>rest, lo>>rest|hi<<(64-rest)|hi>>(rest-64)
	here := r.words[first*ribbonWord:]
	next := here[columns*ribbonWord:]
	for i := range columns {
		word := here[i*ribbonWord:]
		sum := binary.LittleEndian.Uint64(word)&hereLo ^ binary.LittleEndian.Uint64(word[8:])&hereHi
		if row > 0 {
			word = next[i*ribbonWord:]
			sum ^= binary.LittleEndian.Uint64(word)&nextLo ^ binary.LittleEndian.Uint64(word[8:])&nextHi
		}
		if uint32(bits.OnesCount64(sum)&1) != e.result>>i&1 {
			return false
		}
	}
	return true
}
