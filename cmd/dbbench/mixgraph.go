package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/ashlardb/ashlar"
)

// mixModel is a model of a workload that was observed at a social graph: how often it gets, puts and seeks, which keys it
// prefers, and how long its values and scans are. A thread draws one number for each operation, and all of that follows
// from it.
type mixModel struct {
	get, put, seek    float64 // shares of the operations, in any unit
	maxScan, maxValue int64
	hotA, hotB        float64 // hotness of a key: a·xᵇ; either 0: all are alike
	rangeA, rangeB    float64 // hotness of range x of the key space: a·eᵇˣ + c·eᵈˣ; all 0: there are no ranges
	rangeC, rangeD    float64
	ranges            int64
	value, scan       pareto
}

// leastMixed is the size of mixgraph's smallest values.
const leastMixed = 10

// pareto is a generalized Pareto distribution.
type pareto struct{ theta, k, sigma float64 }

// at returns the number with the share u of the distribution above it.
func (p pareto) at(u float64) int64 {
	if p.k == 0 {
		return ceiling(p.theta - p.sigma*math.Log(u))
	}
	return ceiling(p.theta + p.sigma*(math.Pow(u, -p.k)-1)/p.k)
}

// ceiling rounds up. What no int64 can be is the least one, as the processor has it that db_bench usually runs on.
func ceiling(x float64) int64 {
	if x = math.Ceil(x); !(x >= math.MinInt64 && x < math.MaxInt64) {
		return math.MinInt64
	}
	return int64(x)
}

// defineMix defines the flags of mixgraph.
func (c *config) defineMix() {
	f, m := &c.flags, &c.mix
	const of = "of mixgraph: "
	f.Float(&m.get, "mix_get_ratio", 1, of+"share of gets").want(atLeast(0.0))
	f.Float(&m.put, "mix_put_ratio", 0, of+"share of puts").want(atLeast(0.0))
	f.Float(&m.seek, "mix_seek_ratio", 0, of+"share of seeks").want(atLeast(0.0))
	f.Int(&m.maxScan, "mix_max_scan_len", 10000, of+"scans are shorter than this").want(atLeast[int64](1))
	f.Int(&m.maxValue, "mix_max_value_size", 1024, of+"bytes of the longest value").want(between(1, textSize))
	f.Float(&m.hotA, "key_dist_a", 0, of+"a of a·xᵇ, the hotness of keys")
	f.Float(&m.hotB, "key_dist_b", 0, of+"b of it")
	f.Float(&m.rangeA, "keyrange_dist_a", 0, of+"a of a·eᵇˣ + c·eᵈˣ, the hotness of ranges of keys")
	f.Float(&m.rangeB, "keyrange_dist_b", 0, of+"b of it")
	f.Float(&m.rangeC, "keyrange_dist_c", 0, of+"c of it")
	f.Float(&m.rangeD, "keyrange_dist_d", 0, of+"d of it")
	f.Int(&m.ranges, "keyrange_num", 1, of+"ranges").want(atLeast[int64](1))
	f.Float(&m.value.theta, "value_theta", 0, of+"location of the Pareto distribution of sizes of values")
	f.Float(&m.value.k, "value_k", 0.2615, of+"its shape")
	f.Float(&m.value.sigma, "value_sigma", 25.45, of+"its scale")
	f.Float(&m.scan.theta, "iter_theta", 0, of+"location of the Pareto distribution of lengths of scans")
	f.Float(&m.scan.k, "iter_k", 2.517, of+"its shape")
	f.Float(&m.scan.sigma, "iter_sigma", 14.236, of+"its scale")
}

// mixFits refuses models that say nothing.
func mixFits(c *config) error {
	m := &c.mix
	if m.get+m.put+m.seek == 0 {
		return errors.New("wants a share of gets, puts or seeks")
	}
	if m.ranges > c.num {
		return errors.New("wants no more ranges than keys")
	}
	if m.hasRanges() && newHotRanges(m, c.num).total <= 0 {
		return errors.New("has ranges of keys of which none is hot")
	}
	return nil
}

func (m *mixModel) hasRanges() bool {
	return m.rangeA != 0 || m.rangeB != 0 || m.rangeC != 0 || m.rangeD != 0
}

// hotRanges are equal parts of the key space. A number below total falls to one of them: each has as many as it is hot.
type hotRanges struct {
	size   int64   // keys of a range
	starts []int64 // the first number of each
	total  int64
}

func newHotRanges(m *mixModel, num int64) *hotRanges {
	r := &hotRanges{size: num / m.ranges}
	var shares []int64 // from the last range to the first
	scale := int64(0)  // the coldest that is not cold altogether gets about 1
	for x := m.ranges; x >= 1; x-- {
		hot := m.rangeA*math.Exp(m.rangeB*float64(x)) + m.rangeC*math.Exp(m.rangeD*float64(x))
		if hot < 1e-16 {
			hot = 0
		}
		if scale == 0 && hot > 0 {
			scale = int64(math.Floor(1/hot)) + 1
		}
		share := int64(math.Floor(float64(scale) * hot))
		shares = append(shares, share)
		r.total += share
	}
	// Hot ranges are spread over the key space, in the same way whenever the shares are the same.
	dice := newMersenne(uint64(r.total))
	for i := range shares {
		j := dice.Next() % uint64(len(shares))
		shares[i], shares[j] = shares[j], shares[i]
	}
	start := int64(0)
	for _, share := range shares {
		r.starts = append(r.starts, start)
		start += share
	}
	return r
}

// key returns the key that a number falls to.
func (r *hotRanges) key(m *mixModel, n int64) int64 {
	in := n % r.total
	low, high := 0, len(r.starts)
	for low+1 < high {
		if mid := low + (high-low)/2; in < r.starts[mid] {
			high = mid
		} else {
			low = mid
		}
	}
	offset := n % r.size
	if m.hotA != 0 && m.hotB != 0 {
		u := float64(offset) / float64(r.size)
		offset = int64(newMersenne(uint64(m.hotKey(u))).Next() % uint64(r.size))
	}
	return r.size*int64(low) + offset
}

// hotKey inverts the hotness of keys.
func (m *mixModel) hotKey(u float64) int64 { return ceiling(math.Pow(u/m.hotA, 1/m.hotB)) }

// mixGraph gets, puts and seeks as the model says.
func mixGraph(t *thread) error {
	model, num := &t.cfg.mix, t.cfg.num
	var ranges *hotRanges
	if model.hasRanges() {
		ranges = newHotRanges(model, num)
	}
	var sides [3]int64 // of a die for gets, puts and seeks: each one's last side
	for i, share := range []float64{model.get, model.put, model.seek} {
		sides[i] = int64(math.Ceil(1000 * share / (model.get + model.put + model.seek)))
		if i > 0 {
			sides[i] += sides[i-1]
		}
	}
	m := t.maker()
	var buffer [256]byte
	var value []byte
	gets, puts, seeks, found, written, scanned := 0, 0, 0, 0, int64(0), 0
	for l := t.turns(t.work.reads); l.Next(1); {
		t.pickDatabase()
		n := int64(randomKey(t.rand, uint64(num), t.cfg.skew))
		u := float64(n) / float64(num)
		v := n
		if model.hotA != 0 && model.hotB != 0 {
			if ranges != nil {
				v = ranges.key(model, n)
			} else {
				v = int64(newMersenne(uint64(model.hotKey(u))).Next()) % num // which may be below 0
			}
		}
		key := m.Key(uint64(v))
		switch side := n % sides[2]; {
		case side < sides[0]:
			gets++
			got, err := t.family(uint64(v)).AppendGet(value[:0], key, nil)
			if err == nil {
				found++
				value = got
				t.stats.bytes += int64(len(key) + len(got))
			} else if !errors.Is(err, ashlar.ErrNotFound) {
				return fmt.Errorf("get: %w", err)
			}
			if gets%rateStep == 0 {
				t.crew.readRate.wait(rateStep)
			}
			t.stats.Finished(1, opRead)
		case side < sides[1]:
			puts++
			size := model.value.at(u)
			if size < leastMixed {
				size = leastMixed
			} else if size > model.maxValue {
				size %= model.maxValue
			}
			written += size
			t.crew.writeRate.wait(int64(len(key)) + size)
			if err := t.store.Put(nil, key, m.Sized(int(size)), &t.work.write); err != nil {
				return fmt.Errorf("put: %w", err)
			}
			t.stats.Finished(1, opWrite)
		default:
			seeks++
			it := t.db.NewIterator(t.cfg.tables.readOptions())
			ok := it.Seek(key)
			if ok && string(it.Key()) == string(key) {
				found++
			}
			for left := model.scan.at(u) % model.maxScan; ok && left > 0; left-- {
				copy(buffer[:], it.Value())
				t.stats.bytes += int64(len(it.Key()) + len(it.Value()))
				scanned++
				ok = it.Next()
			}
			if err := it.Close(); err != nil {
				return fmt.Errorf("seek: %w", err)
			}
			t.stats.Finished(1, opSeek)
		}
	}
	t.stats.message = fmt.Sprintf("( Gets:%d Puts:%d Seek:%d, reads %d in %d found, avg size: %.1f value, %.1f scan)\n",
		gets, puts, seeks, found, gets+seeks, float64(written)/float64(max(puts, 1)), float64(scanned)/float64(max(seeks, 1)))
	return nil
}
