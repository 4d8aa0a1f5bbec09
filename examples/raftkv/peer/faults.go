package peer

import (
	"slices"
	"sync/atomic"
)

// Faults cut the network, for tests: what would go to a node of DropTo or comes from one of DropFrom is lost. The zero value
// cuts nothing.
type Faults struct{ now atomic.Pointer[Cut] }

// Cut names the nodes that are cut off.
type Cut struct {
	DropTo   []uint64 `json:"drop_to"`
	DropFrom []uint64 `json:"drop_from"`
}

// Set replaces what is cut.
func (f *Faults) Set(c Cut) { f.now.Store(&c) }

func (f *Faults) to(id uint64) bool {
	c := f.now.Load()
	return c != nil && slices.Contains(c.DropTo, id)
}

func (f *Faults) from(id uint64) bool {
	c := f.now.Load()
	return c != nil && slices.Contains(c.DropFrom, id)
}
