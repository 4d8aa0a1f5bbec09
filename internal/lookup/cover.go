package lookup

import "github.com/ashlardb/ashlar/internal/kv"

// Range deletes. A part of the tree that has some calls Cover before it offers its versions, and Covered behind them:
// older versions may be in the same part and in every later one, newer versions only in those before and in the same.

// Cover notes that a range delete covers g's key, the newest of those in a part that g's reader may see: versions older
// than seq are hidden from here on. 0 is none.
func (g *Get) Cover(seq kv.Seq) { g.cover = max(g.cover, seq) }

// Covered tells whether a range delete hides all that is left to look at, and if so ends the read: what was not found is
// deleted.
func (g *Get) Covered() bool {
	if g.cover == 0 {
		return false
	}
	if g.State == Pending {
		g.State, g.Kind = Deleted, kv.KindRangeDelete
	}
	return true
}
