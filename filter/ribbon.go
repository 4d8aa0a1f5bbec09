package filter

// Ribbon, the query side. The filter is the solution of a system of linear equations over bits: each key that was added
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
	words     []byte
	seed      uint64 // mixed from the seed byte
	starts    uint64 // how many rows an equation can begin at
	lowBlocks uint64
	columns   uint64 // of the later blocks
}

// openRibbon returns the reader, or the answer yes when the numbers do not fit each other.
func openRibbon(words []byte, meta [metaBytes]byte) Reader {
	blocks := uint64(meta[2]) | uint64(meta[3])<<8 | uint64(meta[4])<<16
	segments := uint64(len(words) / ribbonWord)
	if blocks < 2 || len(words)%ribbonWord != 0 {
		return always(true)
	}
	columns := (segments + blocks - 1) / blocks
	if columns > ribbonColumns {
		return always(true)
	}
	seed := uint64(meta[1]) * 0xC78219A23EEADD03
	seed ^= seed & 0xF0F0F0F0F0F0F0F0 >> 4
	return &ribbonReader{
		words:     words,
		seed:      uint64(uint32(seed)),
		starts:    ribbonRows*blocks - (ribbonRows - 1),
		lowBlocks: columns*blocks - segments,
		columns:   columns,
	}
}

func (r *ribbonReader) MayContain(key []byte) bool { return r.MayContainHash(Hash(key)) }

func (r *ribbonReader) MayContainHash(h uint64) bool {
	h = (h ^ r.seed) * 0x6193D459236A3A0D
	start, _ := bits.Mul64(h, r.starts)
	block, row := start/ribbonRows, start%ribbonRows
	first, columns := block*r.columns-min(block, r.lowBlocks), r.columns
	if block < r.lowBlocks {
		columns--
	}
	hi := h * 0xC28F82822B650BED
	lo := (hi ^ 0xC367844A6E52731D) | 1
	want := uint32(bits.ReverseBytes64(hi))

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
		if uint32(bits.OnesCount64(sum)&1) != want>>i&1 {
			return false
		}
	}
	return true
}
