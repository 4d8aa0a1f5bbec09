package main

import (
	"fmt"
	"slices"
	"strings"
)

// median of what get takes from each.
func median(all []reading, get func(reading) float64) float64 {
	var v []float64
	for _, r := range all {
		v = append(v, get(r))
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

func mib(n uint64) string { return fmt.Sprintf("%.2f MiB", float64(n)/(1<<20)) }

// tables are the results in Markdown: what the tables hold, and what reading them gave.
func tables(cache int64, loaded [2]sizes, rounds [2][]reading) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| optimize_filters_for_hits | data |")
	for _, f := range families {
		fmt.Fprintf(&b, " index + filter, %s |", f)
	}
	b.WriteString(" filters, default |\n|---|---|---|---|---|---|\n")
	for way, z := range loaded {
		var data uint64
		for _, n := range z.Data {
			data += n
		}
		fmt.Fprintf(&b, "| %s | %s |", onOff(ways[way]), mib(data))
		for _, f := range families {
			fmt.Fprintf(&b, " %s |", mib(z.Index[f]+z.Filter[f]))
		}
		fmt.Fprintf(&b, " %s |\n", mib(z.Filter["default"]))
	}
	fmt.Fprintf(&b, "\nBlock cache: %s. Medians of %d readings each.\n\n", mib(uint64(cache)), len(rounds[0]))
	b.WriteString("| optimize_filters_for_hits | data-block hits | present, reads/s | absent, reads/s | raw absent, reads/s | blocks a raw read | resident |\n")
	b.WriteString("|---|---|---|---|---|---|---|\n")
	for way, all := range rounds {
		m := func(get func(reading) float64) float64 { return median(all, get) }
		fmt.Fprintf(&b, "| %s | %.1f %% | %.0f | %.0f | %.0f | %.3f | %s |\n", onOff(ways[way]),
			100*m(func(r reading) float64 { return r.DataHits }), m(func(r reading) float64 { return r.Present }),
			m(func(r reading) float64 { return r.Absent }), m(func(r reading) float64 { return r.Raw }),
			m(func(r reading) float64 { return r.RawBlocks }), mib(uint64(m(func(r reading) float64 { return float64(r.Resident) }))))
	}
	return b.String()
}
