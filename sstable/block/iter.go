// The walk over a data block.
//
//  1. data is the entries alone; every offset that is used lies in it, and every length was checked against it.
//  2. off is where the entry stands that the iterator is on, next where the one after it starts. before (off = -1) and
//     behind the end (off = len(data)) are places too.
//  3. key is the whole encoded key of the entry at off. It lies in the block (where the entry shares nothing), in buf,
//     or in the back list; only buf is ever written to.
//  4. Back lists are made of the entries of one restart interval, so that each Prev costs one step, not an interval.

package block

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sort"

	"github.com/ashlardb/ashlar/internal/kv"
)

// Iter walks a data block. It has the methods of kv.Iterator, without Close and without prefixes. The zero value must be
// given a block by Init. Entries lie partly in the block and partly in the iterator's buffers.
type Iter struct {
	cmp      *kv.Comparer
	bytewise bool
	data     []byte
	restarts []byte // 4 bytes each
	count    int
	hash     []byte     // buckets of the hash index, if there are any and they are of use
	overlay  kv.Trailer // of an ingested table: its sequence number, shifted

	off, next int
	key       []byte
	buf       []byte
	entry     kv.Entry
	err       *Error

	back    []place // entries before and up to the one at off, while Prev walks
	backBuf []byte  // their keys
}

// place is an entry in the back list.
type place struct {
	off, next   int // in data
	key, keyEnd int // in backBuf
	value       int // in data
}

// Init gives the iterator a block to walk, standing nowhere yet. A seq other than 0 is the sequence number that every
// entry has instead of its own, which must be 0 (ingested tables). Buffers are kept from the block before.
func (i *Iter) Init(cmp *kv.Comparer, b []byte, seq kv.Seq) error {
	i.cmp, i.bytewise = cmp, cmp.IsBytewise()
	i.overlay = kv.Trailer(seq) << 8
	i.back = i.back[:0]
	i.key = nil
	i.err = nil
	l, bad := parse(b)
	if bad == nil && l.apart >= 0 {
		bad = &Error{0, "keys and values apart: not joined", false}
	}
	if bad != nil {
		i.data, i.restarts, i.count, i.hash = nil, nil, 0, nil
		i.off, i.next = 0, 0
		i.err = bad
		return bad
	}
	i.data = b[:l.entries:l.entries]
	i.restarts = b[l.entries : l.entries+4*l.restarts]
	i.count = l.restarts
	i.hash = nil
	if l.buckets > 0 && i.bytewise && l.entries > 0 {
		i.hash = b[l.hash : l.hash+l.buckets]
	}
	i.off, i.next = -1, 0
	return nil
}

// Touch loads what a search of a block begins with: its end, which tells of its form, and an entry amid. The loads of many
// Touches in a row run at the same time, while each search waits for its own. The result only keeps the loads alive.
func Touch(b []byte) (loaded byte) {
	if n := len(b); n > 0 {
		loaded = b[n-1] + b[n/2] + b[0]
	}
	return loaded
}

// Drop lets go of the block, and keeps the buffers. The iterator must be given another by Init before it is used.
func (i *Iter) Drop() {
	i.data, i.restarts, i.key, i.count, i.hash = nil, nil, nil, 0, nil
	i.entry = kv.Entry{}
	i.off, i.next = 0, 0
}

// Err is what is wrong with the block, as an *Error, or nil.
func (i *Iter) Err() error {
	if i.err == nil {
		return nil
	}
	return i.err
}

// Entry is the entry that the last positioning call returned.
func (i *Iter) Entry() *kv.Entry { return &i.entry }

func (i *Iter) fail(off int, reason string) *kv.Entry {
	i.err = &Error{off, reason, false}
	i.off, i.next = len(i.data), len(i.data)
	i.back = i.back[:0]
	return nil
}

func (i *Iter) atEnd() *kv.Entry {
	i.off, i.next = len(i.data), len(i.data)
	i.back = i.back[:0]
	return nil
}

// restart is the offset of a restart point, or -1 when it is no place in the block.
func (i *Iter) restart(n int) int {
	p := int(binary.LittleEndian.Uint32(i.restarts[4*n:]))
	if p >= len(i.data) {
		return -1
	}
	return p
}

// First goes to the first entry.
func (i *Iter) First() *kv.Entry {
	i.err = nil
	i.key = nil
	i.back = i.back[:0]
	return i.read(0)
}

// Next goes to the entry after this one.
func (i *Iter) Next() *kv.Entry {
	if i.err != nil {
		return nil
	}
	i.back = i.back[:0]
	return i.read(i.next)
}

// read decodes the entry at p, behind the one whose key is in i.key (nil at a restart point), and stands on it.
func (i *Iter) read(p int) *kv.Entry {
	d := i.data
	if uint(p) >= uint(len(d)) {
		return i.atEnd()
	}
	var shared, unshared, n int
	q := p + 3
	if q <= len(d) && d[p]|d[p+1]|d[p+2] < 0x80 {
		shared, unshared, n = int(d[p]), int(d[p+1]), int(d[p+2])
	} else {
		shared, unshared, n, q = header(d, p)
	}
	if q < 0 || unshared > len(d)-q || n > len(d)-q-unshared || shared > len(i.key) || shared+unshared < kv.TrailerSize {
		return i.fail(p, "bad entry")
	}
	v := q + unshared
	suffix := d[q:v:v]
	if shared == 0 {
		i.key = suffix
	} else {
		// Where the key before lies in buf already, this copies nothing.
		buf := append(i.buf[:0], i.key[:shared]...)
		buf = append(buf, suffix...)
		i.buf, i.key = buf, buf
	}
	i.off, i.next = p, v+n
	return i.set(v)
}

// set fills the entry from key and the value at v, and checks the trailer.
func (i *Iter) set(v int) *kv.Entry {
	u := len(i.key) - kv.TrailerSize
	t := kv.Trailer(binary.LittleEndian.Uint64(i.key[u:]))
	if i.overlay != 0 {
		if t.Seq() != 0 {
			return i.fail(i.off, "entry of an ingested table has a sequence number")
		}
		t |= i.overlay
	}
	if k := t.Kind(); k > kv.KindMerge && k != kv.KindSingleDel {
		return i.wrongKind(k)
	}
	i.entry.Key.User = i.key[:u:u]
	i.entry.Key.Trailer = t
	i.entry.Value = i.data[v:i.next:i.next]
	return &i.entry
}

func (i *Iter) wrongKind(k kv.Kind) *kv.Entry {
	i.fail(i.off, fmt.Sprintf("entry of kind %v in a data block", k))
	switch k {
	case kv.KindBlobIndex, kv.KindWideColumn, kv.KindTimedPut:
		i.err.Unsupported = true
	}
	return nil
}

// restartKey returns the key at a restart point.
func (i *Iter) restartKey(n int) (k kv.Key, off int, ok bool) {
	p := i.restart(n)
	if p < 0 {
		i.fail(len(i.data)+4*n, "restart point outside the block")
		return kv.Key{}, 0, false
	}
	var shared, unshared int
	q := p + 3
	if d := i.data; q <= len(d) && d[p]|d[p+1]|d[p+2] < 0x80 {
		shared, unshared = int(d[p]), int(d[p+1])
	} else {
		shared, unshared, _, q = header(d, p)
	}
	if q < 0 || shared != 0 || unshared > len(i.data)-q || unshared < kv.TrailerSize {
		i.fail(p, "bad entry at a restart point")
		return kv.Key{}, 0, false
	}
	u := q + unshared - kv.TrailerSize
	return kv.Key{
		User:    i.data[q:u:u],
		Trailer: kv.Trailer(binary.LittleEndian.Uint64(i.data[u:])) | i.overlay,
	}, p, true
}

// interval returns the number and the offset of the last restart point whose key is below k, or of the first one if
// there is none.
func (i *Iter) interval(k kv.Key) (n, off int, ok bool) {
	if len(i.data) == 0 {
		return 0, 0, true // its one restart point points at nothing
	}
	lo, hi := 0, i.count // keys of restarts before lo are below k, those from hi on are not
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		at, p, ok := i.restartKey(mid)
		if !ok {
			return 0, 0, false
		}
		c := 0
		if i.bytewise {
			c = bytes.Compare(at.User, k.User)
		} else {
			c = i.cmp.Compare(at.User, k.User)
		}
		if c < 0 || (c == 0 && at.Trailer > k.Trailer) {
			lo, off = mid+1, p
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return 0, 0, true
	}
	return lo - 1, off, true
}

// SeekGE goes to the first entry at or after k. k must not share memory with the iterator's entry.
func (i *Iter) SeekGE(k kv.Key) *kv.Entry {
	v, t, h := i.find(k)
	switch h {
	case nowhere:
		return nil
	case built:
		return &i.entry
	case equal:
		buf := append(i.buf[:0], k.User...)
		i.buf = binary.LittleEndian.AppendUint64(buf, uint64(t))
		i.key = i.buf
		return i.set(v)
	}
	// The entry shares with the one before it no more than k does, so its key is made of k.
	d := i.data
	shared, unshared, _, q := header(d, i.off)
	suffix := d[q : q+unshared : q+unshared]
	if shared == 0 {
		i.key = suffix
	} else {
		buf := append(i.buf[:0], k.User[:shared]...)
		buf = append(buf, suffix...)
		i.buf, i.key = buf, buf
	}
	return i.set(v)
}

// Find looks for the newest version of k.User at or below k.Trailer. It does not build the entry's key, and the iterator
// can only be asked for Err afterwards.
//
//   - found: t and value are that version.
//   - !found and !more: the block has no such version and a larger key, so no later block has it either.
//   - !found and more: the block ends before; the next one may have it.
func (i *Iter) Find(k kv.Key) (t kv.Trailer, value []byte, found, more bool) {
	var v int
	var h how
	if i.hash != nil {
		v, t, h = i.findHashed(k)
	} else {
		v, t, h = i.find(k)
	}
	switch h {
	case nowhere:
		return 0, nil, false, i.err == nil
	case built:
		e := &i.entry
		return e.Key.Trailer, e.Value, i.cmp.CompareUser(e.Key.User, k.User) == 0, false
	case greater:
		return 0, nil, false, false
	}
	i.key = nil
	return t | i.overlay, i.data[v:i.next:i.next], true, false
}

// What find found.
type how uint8

const (
	nowhere how = iota // every entry is below the key, or an error
	built              // the entry, complete: it may be the same user key or a larger one
	equal              // off and next are set; the user key is the one sought, and t the trailer as stored
	greater            // off and next are set; the user key is larger; it shares no more than the sought key does
)

// find sets off and next to the first entry at or after k and returns where its value starts. t counts with equal only.
func (i *Iter) find(k kv.Key) (v int, t kv.Trailer, h how) {
	i.err = nil
	i.back = i.back[:0]
	_, p, ok := i.interval(k)
	if !ok {
		return 0, 0, nowhere
	}
	if !i.bytewise {
		return 0, 0, i.findByKeys(k, p)
	}
	return i.findFrom(k, p, len(i.data))
}

// findFrom is find for the bytewise order, from the restart point at p to limit.
//
// For the bytewise order it builds no keys. With m = how many bytes k.User shares with the entry before (which is
// below k), an entry that shares more than m bytes with that entry is below k as well; one that shares m or fewer is
// decided by its suffix alone.
func (i *Iter) findFrom(k kv.Key, p, limit int) (v int, t kv.Trailer, h how) {
	i.err = nil
	i.back = i.back[:0]
	start, d, user := p, i.data, k.User
	m, before := 0, 0 // before: length of the user key of the entry before
	for p < limit {
		var shared, unshared, n int
		q := p + 3
		if q <= len(d) && d[p]|d[p+1]|d[p+2] < 0x80 {
			shared, unshared, n = int(d[p]), int(d[p+1]), int(d[p+2])
		} else {
			shared, unshared, n, q = header(d, p)
		}
		if q < 0 || unshared > len(d)-q || n > len(d)-q-unshared || shared > before+kv.TrailerSize ||
			shared+unshared < kv.TrailerSize || (p == start && shared != 0) {
			i.fail(p, "bad entry")
			return 0, 0, nowhere
		}
		v = q + unshared
		length := shared + unshared - kv.TrailerSize
		switch {
		case shared > before || unshared < kv.TrailerSize:
			// What is shared reaches into a trailer.
			if length != before || shared < before {
				// Keys that end in bytes like those of trailers.
				return 0, 0, i.findByKeys(k, start)
			}
			// Another version of the key before, which is below k, unless it is the key that is sought.
			if m == len(user) {
				same := 8 * (shared - before) // bits of the trailer before, from the lowest
				t &= 1<<same - 1
				for j, c := range d[q:v] {
					t |= kv.Trailer(c) << (same + 8*j)
				}
				if t|i.overlay <= k.Trailer {
					i.off, i.next = p, v+n
					return v, t, equal
				}
			}
		case shared <= m:
			c, same := compareSuffix(d[q:v-kv.TrailerSize], user[shared:])
			m = shared + same
			if c == 0 {
				t = kv.Trailer(binary.LittleEndian.Uint64(d[v-kv.TrailerSize:]))
				if t|i.overlay <= k.Trailer {
					i.off, i.next = p, v+n
					return v, t, equal
				}
			}
			if c > 0 {
				i.off, i.next = p, v+n
				return v, 0, greater
			}
		}
		before = length
		p = v + n
	}
	i.atEnd()
	return 0, 0, nowhere
}

// compareSuffix compares a and b bytewise and returns how many bytes they have in common.
func compareSuffix(a, b []byte) (c, same int) {
	n := min(len(a), len(b))
	j := 0
	for j < n && a[j] == b[j] {
		j++
	}
	if j < n {
		return int(a[j]) - int(b[j]), j
	}
	return len(a) - len(b), j
}

// findByKeys is find for any order, from a restart point on.
func (i *Iter) findByKeys(k kv.Key, p int) how {
	i.key = nil
	e := i.read(p)
	for e != nil && i.cmp.CompareKeys(e.Key, k) < 0 {
		e = i.read(i.next)
	}
	if e == nil {
		return nowhere
	}
	return built
}

// SeekLT goes to the last entry before k. k must not share memory with the iterator's entry.
func (i *Iter) SeekLT(k kv.Key) *kv.Entry {
	i.err = nil
	_, p, ok := i.interval(k)
	if !ok {
		return nil
	}
	return i.gather(p, len(i.data), &k)
}

// Last goes to the last entry.
func (i *Iter) Last() *kv.Entry {
	i.err = nil
	if len(i.data) == 0 {
		return i.beforeFirst()
	}
	p := i.restart(i.count - 1)
	if p < 0 {
		return i.fail(len(i.data)+4*(i.count-1), "restart point outside the block")
	}
	return i.gather(p, len(i.data), nil)
}

// Prev goes to the entry before this one.
func (i *Iter) Prev() *kv.Entry {
	if i.err != nil || i.off < 0 {
		return nil
	}
	if n := len(i.back); n >= 2 {
		i.back = i.back[:n-1]
		return i.onBack()
	}
	if i.off == 0 {
		return i.beforeFirst()
	}
	limit := i.off
	r := sort.Search(i.count, func(n int) bool {
		return int(binary.LittleEndian.Uint32(i.restarts[4*n:])) >= limit
	})
	if r == 0 {
		return i.fail(limit, "no restart point before an entry")
	}
	return i.gather(i.restart(r-1), limit, nil)
}

func (i *Iter) beforeFirst() *kv.Entry {
	i.off, i.next = -1, 0
	i.key = nil
	i.back = i.back[:0]
	return nil
}

// gather makes the back list of the entries from a restart point at p to limit, or to the first one that is not below k,
// and stands on the last of them.
func (i *Iter) gather(p, limit int, k *kv.Key) *kv.Entry {
	d := i.data
	i.back = i.back[:0]
	buf := i.backBuf[:0]
	key := 0 // start and
	end := 0 // end in buf of the key before
	for p < limit {
		shared, unshared, n, q := header(d, p)
		if q < 0 || unshared > len(d)-q || n > len(d)-q-unshared || shared > end-key || shared+unshared < kv.TrailerSize {
			return i.fail(p, "bad entry")
		}
		v := q + unshared
		start := len(buf)
		buf = append(buf, buf[key:key+shared]...)
		buf = append(buf, d[q:v]...)
		key, end = start, len(buf)
		if k != nil {
			u := end - kv.TrailerSize
			c := i.cmp.CompareUser(buf[key:u], k.User)
			if c > 0 || (c == 0 && kv.Trailer(binary.LittleEndian.Uint64(buf[u:]))|i.overlay <= k.Trailer) {
				break
			}
		}
		i.back = append(i.back, place{p, v + n, key, end, v})
		p = v + n
	}
	i.backBuf = buf
	if k == nil && p != limit {
		return i.fail(p, "entries overlap")
	}
	if len(i.back) == 0 {
		return i.beforeFirst()
	}
	return i.onBack()
}

// onBack stands on the last place of the back list.
func (i *Iter) onBack() *kv.Entry {
	at := i.back[len(i.back)-1]
	i.off, i.next = at.off, at.next
	i.key = i.backBuf[at.key:at.keyEnd:at.keyEnd]
	return i.set(at.value)
}
