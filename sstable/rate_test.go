package sstable

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ashlardb/ashlar/filter"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/vfs"
)

// Package filter asks filters alone for what is not in them; here they are asked as parts of a table: in partitions, and
// for prefixes, of which each has three keys. The formula of a layout counts what was added.
func TestFalsePositivesOfTablesAreAsManyAsTheFormulaOfTheLayoutSays(t *testing.T) {
	const prefixes, keys = 20_000, 3
	prefix := func(i uint64) []byte { return binary.BigEndian.AppendUint64(nil, i*0x9E3779B97F4A7C15) }
	tw := twin{cmp: kv.Bytewise}
	for i := range uint64(prefixes) {
		for k := range keys {
			tw.entries = append(tw.entries, kv.Entry{Key: kv.MakeKey(append(prefix(i), byte(k)), 1, kv.KindValue)})
		}
	}
	slices.SortFunc(tw.entries, func(a, b kv.Entry) int { return kv.Bytewise.CompareKeys(a.Key, b.Key) })
	standard := func(bits float64) float64 {
		k := math.Round(bits * math.Ln2)
		return math.Pow(1-math.Exp(-k/bits), k)
	}
	for _, bits := range []float64{5, 10, 15} {
		for _, c := range []struct {
			name   string
			policy filter.Policy
			rate   float64
		}{
			{"Bloom", filter.Bloom(bits), filter.CacheLineRate(bits)},
			{"StandardBloom", filter.StandardBloom(bits), standard(bits)},
			{"Ribbon", filter.Ribbon(bits), filter.CacheLineRate(bits)},
		} {
			t.Run(fmt.Sprintf("%s of %v bits", c.name, bits), func(t *testing.T) {
				t.Parallel()
				for _, o := range []WriterOptions{
					{TwoLevelIndex: true, PartitionFilters: true},
					{PrefixExtractor: kv.FixedPrefix(8), NoWholeKeyFiltering: true},
					{PrefixExtractor: kv.FixedPrefix(8), TwoLevelIndex: true, PartitionFilters: true},
				} {
					o.Filter = c.policy
					fs := vfs.NewMem()
					tw.write(t, fs, "t", o)
					r := open(t, fs, "t", ReaderOptions{PrefixExtractor: o.PrefixExtractor, Cache: testCache()})
					require.Equal(t, o.PartitionFilters, r.filter.full == nil && r.filter.parts.len() > 1)
					asks, yes := int(1500/c.rate), 0 // often enough that chance moves the figure by 3 % or so
					for i := range uint64(asks) {
						may := false
						var err error
						if at := prefix(prefixes + i); o.PrefixExtractor == nil {
							var part filterPart
							may, _, err = r.mayHaveKey(append(at, 1), fetch{}, &part)
							part.release()
						} else {
							may, err = r.mayHavePrefix(at, at, fetch{})
						}
						if err != nil {
							t.Fatal(err)
						}
						if may {
							yes++
						}
					}
					got := float64(yes) / float64(asks)
					what := fmt.Sprintf("prefixes: %v, partitions: %v", o.PrefixExtractor != nil, o.PartitionFilters)
					t.Logf("%s: %.3f %%, by the formula %.3f %%", what, 100*got, 100*c.rate)
					require.InEpsilon(t, c.rate, got, 0.1, what)
					require.NoError(t, r.Close())
				}
			})
		}
	}
}
