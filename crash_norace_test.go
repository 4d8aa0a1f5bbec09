//go:build !race

package ashlar

const underRace = false
