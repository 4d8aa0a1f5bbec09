package filter

import (
	"encoding/binary"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// standardRate is the false-positive rate of a textbook Bloom filter.
func standardRate(bitsPerKey float64) float64 {
	k := math.Max(1, math.Round(bitsPerKey*math.Ln2))
	return math.Pow(1-math.Exp(-k/bitsPerKey), k)
}

// Each layout has a formula of its own. Ribbon is sized for the rate of a Bloom filter in lines, whatever it takes itself.
func TestFalsePositivesAreAsManyAsTheFormulaOfTheLayoutSays(t *testing.T) {
	const n = 100_000
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = binary.BigEndian.AppendUint64(nil, uint64(i)*0x9E3779B97F4A7C15)
	}
	for _, bits := range []float64{5, 10, 15} {
		for _, c := range []struct {
			name   string
			policy Policy
			rate   float64
		}{
			{"Bloom", Bloom(bits), CacheLineRate(bits)},
			{"StandardBloom", StandardBloom(bits), standardRate(bits)},
			{"Ribbon", Ribbon(bits), CacheLineRate(bits)},
		} {
			r, err := c.policy.Open(build(c.policy, keys))
			require.NoError(t, err)
			// Asked often enough that chance alone moves the figure by 3 % or so.
			asks, yes := int(1000/c.rate), 0
			var key [9]byte
			for i := range asks {
				binary.BigEndian.PutUint64(key[:], uint64(i))
				if r.MayContain(key[:]) {
					yes++
				}
			}
			got := float64(yes) / float64(asks)
			t.Logf("%s, %v bits: %.3f %%, by the formula %.3f %%", c.name, bits, 100*got, 100*c.rate)
			require.InEpsilon(t, c.rate, got, 0.1, "%s, %v bits", c.name, bits)
		}
	}
}

// 10 million keys with ASHLAR_LONG, 200,000 without.
func TestNoKeyThatWasAddedIsDenied(t *testing.T) {
	n, all := 200_000, []float64{10}
	if os.Getenv("ASHLAR_LONG") != "" {
		n, all = 10_000_000, []float64{1, 5, 10, 15, 40}
	}
	var key [20]byte
	keyAt := func(i int) []byte { // of 8 to 20 bytes
		binary.BigEndian.PutUint64(key[:], uint64(i)*0x9E3779B97F4A7C15)
		return key[:8+i%13]
	}
	for _, bits := range all {
		for _, p := range []Policy{Bloom(bits), StandardBloom(bits), Ribbon(bits)} {
			b := p.NewBuilder(n)
			for i := range n {
				b.Add(keyAt(i))
			}
			r, err := p.Open(b.Finish(nil))
			require.NoError(t, err)
			for i := range n {
				if !r.MayContain(keyAt(i)) {
					t.Fatalf("%T with %v bits says no for key %d of %d", p, bits, i, n)
				}
			}
		}
	}
}
