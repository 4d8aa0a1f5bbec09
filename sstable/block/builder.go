package block

import (
	"encoding/binary"

	"github.com/ashlardb/ashlar/internal/enc"
	"github.com/ashlardb/ashlar/internal/kv"
)

// TrailerSize is the number of bytes that a table keeps behind each block: the compression type and a checksum. It is
// not part of the block, but delta-encoded handles count it.
const TrailerSize = 5

// Handle says where a block is in its file; Size is without the trailer.
type Handle struct{ Offset, Size uint64 }

// Append appends the handle's encoding to dst.
func (h Handle) Append(dst []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, h.Offset), h.Size)
}

// ParseHandle reads a handle from the front of b.
func ParseHandle(b []byte) (h Handle, rest []byte, ok bool) {
	if h.Offset, b, ok = enc.Uvarint(b); !ok {
		return Handle{}, b, false
	}
	if h.Size, b, ok = enc.Uvarint(b); !ok {
		return Handle{}, b, false
	}
	return h, b, true
}

// A Builder writes one block after another. Keys must be added in the block's order; the caller sees to it. Its buffers
// are kept from block to block.
type Builder struct {
	buf      []byte
	restarts []uint32
	interval int // a restart point every so many entries
	since    int // entries since the last restart point
	entries  int
	last     []byte // the last key
	cur      []byte // the next one, while it is being added
	handle   Handle // the last handle, for delta encoding
	hash     hashBuilder
}

// Init makes the builder ready for a first block with a restart point every interval entries. An interval below 1 means
// one restart point in all.
func (b *Builder) Init(interval int) {
	if interval < 1 {
		interval = 1 << 30
	}
	b.interval = interval
	b.hash.perKey = 0
	b.Reset()
}

// InitHashed is Init for data blocks with a hash index of 1/util buckets for each key.
func (b *Builder) InitHashed(interval int, util float64) {
	b.Init(interval)
	b.hash.perKey = 1 / util
}

// Reset begins another block.
func (b *Builder) Reset() {
	b.buf = b.buf[:0]
	b.restarts = append(b.restarts[:0], 0)
	b.since, b.entries = 0, 0
	b.hash.reset()
	b.last = b.last[:0]
}

// Empty tells whether nothing was added.
func (b *Builder) Empty() bool { return b.entries == 0 }

// Last is the last key that was added, encoded. It lives until the next call.
func (b *Builder) Last() []byte { return b.last }

// Size is the length that Finish would give the block now.
func (b *Builder) Size() int { return len(b.buf) + 4*len(b.restarts) + 4 + b.hash.size() }

// SizeWith is an upper estimate of Size after an entry of the given lengths.
func (b *Builder) SizeWith(key, value int) int { return b.Size() + 12 + key + value }

// Add appends an internal key with its value.
func (b *Builder) Add(k kv.Key, value []byte) {
	cur := append(b.cur[:0], k.User...)
	b.cur = binary.LittleEndian.AppendUint64(cur, uint64(k.Trailer))
	shared := b.begin()
	buf := b.buf
	if unshared := len(b.cur) - shared; shared|unshared|len(value) < 0x80 {
		buf = append(buf, byte(shared), byte(unshared), byte(len(value)))
	} else {
		buf = binary.AppendUvarint(buf, uint64(shared))
		buf = binary.AppendUvarint(buf, uint64(unshared))
		buf = binary.AppendUvarint(buf, uint64(len(value)))
	}
	buf = append(buf, b.cur[shared:]...)
	b.buf = append(buf, value...)
	if b.hash.perKey > 0 {
		b.hash.add(k.User, len(b.restarts)-1)
	}
	b.end()
}

// AddString appends a key that is no internal key.
func (b *Builder) AddString(key string, value []byte) {
	b.cur = append(b.cur[:0], key...)
	shared := b.begin()
	b.buf = binary.AppendUvarint(b.buf, uint64(shared))
	b.buf = binary.AppendUvarint(b.buf, uint64(len(key)-shared))
	b.buf = binary.AppendUvarint(b.buf, uint64(len(value)))
	b.buf = append(b.buf, b.cur[shared:]...)
	b.buf = append(b.buf, value...)
	b.end()
}

// AddHandle appends an entry of an index block, in the form with a value length or, with delta, without.
func (b *Builder) AddHandle(key []byte, h Handle, delta bool) {
	b.cur = append(b.cur[:0], key...)
	shared := b.begin()
	if delta && shared > 0 && h.Offset != b.handle.Offset+b.handle.Size+TrailerSize {
		shared = 0 // not contiguous: only the full form can say so
	}
	b.buf = binary.AppendUvarint(b.buf, uint64(shared))
	b.buf = binary.AppendUvarint(b.buf, uint64(len(key)-shared))
	var value [2 * binary.MaxVarintLen64]byte
	v := h.Append(value[:0])
	if !delta {
		b.buf = binary.AppendUvarint(b.buf, uint64(len(v)))
	} else if shared > 0 {
		v = binary.AppendUvarint(value[:0], enc.Zigzag(int64(h.Size)-int64(b.handle.Size)))
	}
	b.buf = append(b.buf, b.cur[shared:]...)
	b.buf = append(b.buf, v...)
	b.handle = h
	b.end()
}

// begin decides how many bytes of cur are shared with last, and marks a restart point where one is due.
func (b *Builder) begin() (shared int) {
	if b.since >= b.interval {
		b.restarts = append(b.restarts, uint32(len(b.buf)))
		b.since = 0
		return 0
	}
	if b.entries == 0 {
		return 0
	}
	return sharedPrefix(b.last, b.cur)
}

func (b *Builder) end() {
	b.last, b.cur = b.cur, b.last
	b.since++
	b.entries++
}

// Finish appends restart points, the hash index and the footer, and returns the block, which lives until Reset.
func (b *Builder) Finish() []byte {
	footer := uint32(len(b.restarts))
	hashed := b.hash.size() > 0 && b.Size() <= maxHashed
	for _, r := range b.restarts {
		b.buf = binary.LittleEndian.AppendUint32(b.buf, r)
	}
	if hashed {
		b.buf = b.hash.append(b.buf)
		footer |= hashBit
	}
	b.buf = binary.LittleEndian.AppendUint32(b.buf, footer)
	return b.buf
}

// sharedPrefix is the length of the longest common prefix of a and b.
func sharedPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+8 <= n; i += 8 {
		if x := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); x != 0 {
			return i + trailingZeroBytes(x)
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}
