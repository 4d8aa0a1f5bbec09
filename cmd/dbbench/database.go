package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/vfs"
)

// destroy removes the files of a database. Its directories stay, and so do files with names that a database does not
// use. A database that is open is an error, and nothing is removed. None is fine.
func destroy(fsys vfs.FS, dir, walDir string) error {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		names = nil
	} else if err != nil {
		return err
	}
	if slices.ContainsFunc(names, isOurs) {
		lockName := fname.Make(fname.Lock, 0)
		lock, err := fsys.Lock(fsys.Join(dir, lockName))
		if err != nil {
			return fmt.Errorf("destroy %s: %w", dir, err)
		}
		// CURRENT goes first: without it the rest is no database, should we not get to the end.
		err = remove(fsys, dir, names, func(k fname.Kind) bool { return k == fname.Current })
		if err == nil {
			err = remove(fsys, dir, names, func(k fname.Kind) bool { return k != fname.Current && k != fname.Lock })
		}
		err = errors.Join(err, lock.Close())
		if err != nil {
			return fmt.Errorf("destroy %s: %w", dir, err)
		}
		if err := fsys.Remove(fsys.Join(dir, lockName)); err != nil {
			return err
		}
	}
	if walDir != "" && walDir != dir {
		names, err := fsys.List(walDir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := remove(fsys, walDir, names, func(k fname.Kind) bool { return k == fname.Log }); err != nil {
			return err
		}
	}
	return nil
}

func isOurs(name string) bool {
	_, _, ok := fname.Parse(name)
	return ok
}

// remove removes the files of the kinds that which picks.
func remove(fsys vfs.FS, dir string, names []string, which func(fname.Kind) bool) error {
	for _, name := range names {
		if k, _, ok := fname.Parse(name); ok && which(k) {
			if err := fsys.Remove(fsys.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// tickers say how write groups came about, summed over the databases of a process. RocksDB has no such numbers.
type tickers struct {
	counts [len(tickerTable)]uint64
	sizes  [len(ashlar.WriteQueueStats{}.Sizes)]uint64 // write groups by size
}

var tickerTable = [...]struct {
	name string
	of   func(*ashlar.Metrics) uint64
}{
	// Groups whose members inserted for themselves, wakes, and waits by how they ended.
	{"ashlar.write.groups.spread", func(m *ashlar.Metrics) uint64 { return m.WriteQueue.Spread }},
	{"ashlar.write.wakes.leader", func(m *ashlar.Metrics) uint64 { return m.WriteQueue.LeaderWakes }},
	{"ashlar.write.wakes.helper", func(m *ashlar.Metrics) uint64 { return m.WriteQueue.HelperWakes }},
	{"ashlar.write.waits.parked", func(m *ashlar.Metrics) uint64 { return m.WriteQueue.Parks }},
	{"ashlar.write.waits.yielding", func(m *ashlar.Metrics) uint64 { return m.WriteQueue.Yields }},
}

func (t *tickers) add(m *ashlar.Metrics) {
	for i, row := range tickerTable {
		t.counts[i] += row.of(m)
	}
	for i, n := range m.WriteQueue.Sizes {
		t.sizes[i] += n
	}
}

func (t *tickers) String() string {
	var s strings.Builder
	for i, row := range tickerTable {
		fmt.Fprintf(&s, "%s COUNT : %d\n", row.name, t.counts[i])
	}
	for i, n := range t.sizes {
		if n > 0 {
			fmt.Fprintf(&s, "ashlar.write.groups.of.%d.to.%d COUNT : %d\n", 1<<i, 2<<i-1, n)
		}
	}
	return s.String()
}
