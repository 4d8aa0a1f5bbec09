//go:build !race

package metamorphic

const defaultOps, defaultSets = 2000, 3
