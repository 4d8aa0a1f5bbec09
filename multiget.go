// MultiGet: Get for many keys.
//
//  1. What is seen, and each key's error, is what as many Gets at the same moment would give.
//  2. The walk down the tree (lsm, sstable) has the Gets in order of their keys, and tells of each as soon as it is decided:
//     then its value is copied and its blocks are let go of.
//  3. All is counted at the end, under one lock.

package ashlar

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
	"github.com/ashlardb/ashlar/internal/stats"
)

// MultiGet gets many keys as of one moment. values[i] is a copy of keys[i]'s value and errs[i] its error, ErrNotFound
// if there is none. It sorts the keys, visits each table once and reads each block once, so that it is faster than as many
// Gets, the more so the nearer to each other the keys are.
func (c *ColumnFamily) MultiGet(keys [][]byte, o *ReadOptions) (values [][]byte, errs []error) {
	values, errs = make([][]byte, len(keys)), make([]error, len(keys))
	c.MultiGetTo(values, keys, errs, o)
	return values, errs
}

// MultiGetTo is MultiGet into the caller's slices: values[i] is emptied and appended to, so that its array is used
// again. All three have the same length. The keys are not changed, and may be in any order and come more than once.
func (c *ColumnFamily) MultiGetTo(values, keys [][]byte, errs []error, o *ReadOptions) {
	sv, seq, err := c.view(o)
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return
	}
	defer sv.Release()
	start := c.db.hist.Start()
	m := multiGets.Get().(*multiGet)
	m.family, m.values, m.errs = c, values, errs
	m.begin(keys, seq, o)
	sv.MultiGet(&m.batch)
	m.count()
	m.end()
	c.db.hist.Since(stats.DBMultiGet, start)
}

// multiGet is the state of one MultiGet. It comes from a pool.
type multiGet struct {
	family *ColumnFamily
	values [][]byte
	errs   []error
	found  uint64
	bytes  uint64

	order []ordered
	gets  []lookup.Get // as they are in order
	batch lookup.Batch
}

// ordered is a key's place in the input, with the first 8 bytes behind those that all keys share, for the bytewise order.
type ordered struct {
	word uint64
	n    int
}

var multiGets = sync.Pool{New: func() any {
	m := new(multiGet)
	m.batch.Done = m.done
	return m
}}

// maxMultiGet is the most keys for which the memory goes back to the pool.
const maxMultiGet = 4096

// begin makes the Gets, in order of their keys.
func (m *multiGet) begin(keys [][]byte, seq kv.Seq, o *ReadOptions) {
	m.order = m.order[:0]
	for i := range keys {
		m.order = append(m.order, ordered{n: i})
	}
	sortKeys(m.family.opts.Comparator, m.order, keys)
	m.gets = slices.Grow(m.gets[:0], len(keys))[:len(keys)]
	m.batch.Open = slices.Grow(m.batch.Open[:0], len(keys))
	for i := range m.gets {
		g := &m.gets[i]
		*g = lookup.Get{User: keys[m.order[i].n], Seq: seq, N: m.order[i].n}
		setTier(g, o)
		m.batch.Open = append(m.batch.Open, g)
	}
}

// sortKeys puts order into the order of keys. Keys that are so already, as those of many callers are, cost one pass.
func sortKeys(c *kv.Comparer, order []ordered, keys [][]byte) {
	sorted := true
	for i := 1; i < len(keys) && sorted; i++ {
		sorted = c.CompareUser(keys[i-1], keys[i]) <= 0
	}
	if sorted {
		return
	}
	if !c.IsBytewise() {
		slices.SortFunc(order, func(a, b ordered) int { return c.Compare(keys[a.n], keys[b.n]) })
		return
	}
	common := len(keys[0])
	for _, k := range keys[1:] {
		common = min(common, len(k))
		for string(k[:common]) != string(keys[0][:common]) {
			common--
		}
	}
	for i := range order {
		var w [8]byte
		copy(w[:], keys[order[i].n][common:])
		order[i].word = binary.BigEndian.Uint64(w[:])
	}
	slices.SortFunc(order, func(a, b ordered) int {
		if a.word != b.word {
			return cmp.Compare(a.word, b.word)
		}
		return bytes.Compare(keys[a.n][common:], keys[b.n][common:])
	})
}

// done copies the answer of a Get, and lets go of what it pins.
func (m *multiGet) done(g *lookup.Get, err error) {
	c := m.family
	if err == nil {
		err = c.merge(g)
	}
	value := m.values[g.N][:0]
	if err == nil && g.State == lookup.Found {
		m.found, m.bytes = m.found+1, m.bytes+uint64(len(g.Value))
		m.values[g.N], m.errs[g.N] = append(value, g.Value...), nil
	} else {
		m.values[g.N], m.errs[g.N] = value, c.failedGet(g, err)
	}
	g.Release()
}

// count counts all that the Gets have met.
func (m *multiGet) count() {
	p := m.family.counts.Lock()
	for i := range m.gets {
		m.gets[i].Tally.FlushTo(p)
	}
	p.N[stats.NumberMultiGetCalls]++
	p.N[stats.NumberMultiGetKeysRead] += uint64(len(m.gets))
	p.N[stats.NumberMultiGetKeysFound] += m.found
	p.N[stats.NumberMultiGetBytesRead] += m.bytes
	p.Unlock()
	m.family.db.hist.Add(stats.BytesPerMultiGet, m.bytes)
}

// end gives the memory back, with nothing of the caller's in it.
func (m *multiGet) end() {
	if len(m.gets) > maxMultiGet {
		return
	}
	clear(m.gets)
	m.family, m.values, m.errs, m.found, m.bytes = nil, nil, nil, 0, 0
	multiGets.Put(m)
}
