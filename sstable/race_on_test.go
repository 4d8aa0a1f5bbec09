//go:build race

package sstable

// raceEnabled says that pools drop what is put into them, and that everything is slow.
const raceEnabled = true
