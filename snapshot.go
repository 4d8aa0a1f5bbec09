package ashlar

import (
	"slices"
	"sync"

	"github.com/ashlardb/ashlar/internal/kv"
)

// Snapshot is a moment of the database: reads with it see what had been written then, in every family, until Release.
// While it is held, compactions keep what it sees.
type Snapshot struct {
	db  *DB
	seq kv.Seq

	once sync.Once
}

// snapshotList holds the sequence numbers of the snapshots, ascending; equal ones are counted by being there twice. mu is
// a leaf. Taking a snapshot reads visible under mu, so that a job that has fixed its inputs and then reads the list
// under mu cannot miss a snapshot older than any of its inputs.
type snapshotList struct {
	mu    sync.Mutex
	seqs  []kv.Seq
	times []uint64 // when they were taken, seconds since 1970
}

// NewSnapshot returns a snapshot of now. On a closed database it returns one whose reads give ErrClosed.
func (d *DB) NewSnapshot() *Snapshot {
	l := &d.snapshots
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &Snapshot{db: d, seq: d.visibleSeq()}
	l.seqs, l.times = append(l.seqs, s.seq), append(l.times, d.now())
	return s
}

// SequenceNumber is the number of the last write that the snapshot sees.
func (s *Snapshot) SequenceNumber() uint64 { return uint64(s.seq) }

// Release lets go of the snapshot. Reads with it must have ended. Releasing again does nothing.
func (s *Snapshot) Release() {
	s.once.Do(func() {
		l := &s.db.snapshots
		l.mu.Lock()
		i, _ := slices.BinarySearch(l.seqs, s.seq)
		oldest := i == 0
		l.seqs, l.times = slices.Delete(l.seqs, i, i+1), slices.Delete(l.times, i, i+1)
		l.mu.Unlock()
		if oldest {
			s.db.snapshotReleased()
		}
	})
}

// list returns the distinct sequence numbers, ascending.
func (l *snapshotList) list() []kv.Seq {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Compact(slices.Clone(l.seqs))
}

// oldest returns the oldest snapshot's number, or visible if there is none.
func (l *snapshotList) oldest(visible kv.Seq) kv.Seq {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seqs) > 0 {
		return l.seqs[0]
	}
	return visible
}

// snapshotReleased lets files at the bottom whose old versions and tombstones nobody sees any more be rewritten.
func (d *DB) snapshotReleased() {
	d.mu.Lock()
	for _, cf := range d.ColumnFamilies() {
		cf.bottommost = true
	}
	d.scheduleLocked()
	d.mu.Unlock()
}
