package main

import "github.com/ashlardb/ashlar/internal/invariants"

// warnings are what makes figures of this binary worthless.
func warnings() (lines []string) {
	if invariants.Enabled {
		lines = append(lines, "Assertions are enabled; benchmarks unnecessarily slow")
	}
	return lines
}
