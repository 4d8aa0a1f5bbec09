//go:build race

package ashlar

// underRace says that this build finds races, and runs some ten times as long.
const underRace = true
