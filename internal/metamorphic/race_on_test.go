//go:build race

package metamorphic

// The race detector makes a run some twenty times slower.
const defaultOps, defaultSets = 300, 1
