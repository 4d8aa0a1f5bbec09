package main

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHotRangesAreHitByTheirHotness(t *testing.T) {
	// Two ranges, the second e⁻¹ as hot as the first: of the numbers that fall to them the shares are so too.
	m := &mixModel{rangeA: 1, rangeB: -1, ranges: 2}
	r := newHotRanges(m, 1000)
	require.Equal(t, int64(500), r.size)
	hits := map[int64]int{}
	for n := range r.total * 1000 {
		v := r.key(m, n)
		require.GreaterOrEqual(t, v, int64(0))
		require.Less(t, v, int64(1000))
		hits[v/r.size]++
	}
	hot := max(hits[0], hits[1])
	require.InDelta(t, math.Floor(8*math.Exp(-1))/(math.Floor(8*math.Exp(-1))+math.Floor(8*math.Exp(-2))), float64(hot)/float64(r.total*1000), 1e-9)
}

func TestHotKeysAreFew(t *testing.T) {
	m := &mixModel{hotA: 0.002312, hotB: 0.3467, rangeA: 1, ranges: 1}
	r := newHotRanges(m, 10_000)
	seen := map[int64]bool{}
	for n := range int64(10_000) {
		seen[r.key(m, n)] = true
	}
	require.Less(t, len(seen), 7000, "a cold choice of 10,000 of 10,000 leaves 6,321, and hot ones fewer")
	require.Greater(t, len(seen), 1000)
	m.hotA = 0
	for n := range int64(100) {
		require.Equal(t, n, r.key(m, n), "without hot keys numbers are keys")
	}
}

func TestParetoInvertsItsDistribution(t *testing.T) {
	require.Equal(t, int64(0), pareto{0, 0.5, 10}.at(1))
	require.Equal(t, int64(20), pareto{0, 0.5, 10}.at(0.25))
	require.Equal(t, int64(27), pareto{20, 0, 10}.at(0.5), "20 + 10·ln 2")
	require.Equal(t, int64(math.MinInt64), pareto{0, 0.5, 10}.at(0), "the infinite is the least number")
}

func TestModelsThatSayNothingAreRefused(t *testing.T) {
	for line, want := range map[string]string{
		"--mix_get_ratio=0":      "wants a share of gets, puts or seeks",
		"--keyrange_num=5":       "wants no more ranges than keys",
		"--keyrange_dist_a=-1":   "has ranges of keys of which none is hot",
		"--keyrange_dist_a=0.25": "",
	} {
		c := newConfig()
		require.NoError(t, c.flags.parse(append(strings.Fields(line), "--num=4")))
		if err := mixFits(c); want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, want)
		}
	}
}
