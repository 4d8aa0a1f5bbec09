package wal

import (
	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/internal/kv"
)

// numbering counts the sequence numbers that records of a log take. It is the count in the header, but for the marks of
// two-phase commits: what is prepared takes none, and its commit, which counts for nothing, takes them later. So it keeps
// how many writes are prepared under each name.
type numbering map[string]kv.Seq

// take returns how many numbers a valid record takes, and remembers what it prepares. It may be more, not exact, if what
// was prepared is in a log that is needed no more: then all that was committed is in tables.
func (n numbering) take(rec []byte) (used kv.Seq, exact bool) {
	exact = true
	var outside kv.Seq
	for r := batch.NewLogReader(rec); ; {
		op, ok, err := r.Next()
		if err != nil || !ok {
			return used, exact
		}
		switch op.Mark {
		case batch.BeginPrepare:
			outside, used = used, 0
		case batch.EndPrepare:
			n[string(op.Key)], used = used, outside
		case batch.Commit:
			more, known := n[string(op.Key)]
			used += more
			exact = exact && known
			delete(n, string(op.Key))
		case batch.Rollback:
			delete(n, string(op.Key))
		case batch.NoMark:
			if !op.LogData {
				used++
			}
		}
	}
}
