package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// result is what one run says.
type result struct {
	ops     float64 // a second
	members float64 // of a group, on average
	wakes   float64 // by a group's leader, on average
}

// command runs a binary and returns its stdout. An error has its stderr.
func command(binary string, args []string) (string, error) {
	var out, errOut bytes.Buffer
	c := exec.Command(binary, args...)
	c.Stdout, c.Stderr = &out, &errOut
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", binary, strings.Join(args, " "), err, &errOut)
	}
	return out.String(), nil
}

// parseResult reads what dbbench --statistics prints.
func parseResult(row, out string) (r result, err error) {
	number := func(pattern string) (n float64) {
		m := regexp.MustCompile(pattern).FindStringSubmatch(out)
		if m == nil {
			err = fmt.Errorf("dbbench printed no %s", pattern)
			return 0
		}
		n, _ = strconv.ParseFloat(m[1], 64) // the pattern has digits
		return n
	}
	r.ops = number(`(?m)^` + row + ` *:.* micros/op (\d+) ops/sec`)
	led := number(`(?m)^rocksdb\.write\.self COUNT : (\d+)`)
	joined := number(`(?m)^rocksdb\.write\.other COUNT : (\d+)`)
	wakes := number(`(?m)^ashlar\.write\.wakes\.leader COUNT : (\d+)`)
	if groups := max(led, 1); err == nil {
		r.members, r.wakes = (led+joined)/groups, wakes/groups
	}
	return r, err
}

// table prints the medians of each cell.
func table(s *settings, results map[cell][]result) string {
	var b strings.Builder
	b.WriteString("| benchmark | threads | one_by_one ops/s | sqrt ops/s | sqrt in % | members, one_by_one | members, sqrt |" +
		" leader's wakes, one_by_one | leader's wakes, sqrt |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, row := range s.rows {
		for _, threads := range s.threads {
			var m [len(ways)]result
			for way := range ways {
				m[way] = medians(results[cell{row, threads, way}])
			}
			share := "–"
			if m[0].ops > 0 {
				share = fmt.Sprintf("%.1f", 100*m[1].ops/m[0].ops)
			}
			fmt.Fprintf(&b, "| %s | %d | %.0f | %.0f | %s | %.2f | %.2f | %.2f | %.2f |\n",
				row, threads, m[0].ops, m[1].ops, share, m[0].members, m[1].members, m[0].wakes, m[1].wakes)
		}
	}
	return b.String()
}

// medians returns the median of each figure.
func medians(all []result) result {
	of := func(figure func(result) float64) float64 {
		var x []float64
		for _, r := range all {
			x = append(x, figure(r))
		}
		slices.Sort(x)
		return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
	}
	return result{
		ops:     of(func(r result) float64 { return r.ops }),
		members: of(func(r result) float64 { return r.members }),
		wakes:   of(func(r result) float64 { return r.wakes }),
	}
}
