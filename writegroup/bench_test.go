package writegroup

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// idle are stages that do nothing but burn time in Log and in each Insert, to measure the queue itself.
type idle struct {
	log, insert time.Duration
	spread      bool
}

func burn(d time.Duration) {
	if d > 0 {
		for begin := time.Now(); time.Since(begin) < d; {
		}
	}
}

func (idle) Prepare(int) error              { return nil }
func (idle) Admit(_, _, _, _ int) Admission { return Join }
func (idle) Size(int) int                   { return 100 }
func (s idle) Log(*Group[int]) (bool, error) {
	burn(s.log)
	return s.spread, nil
}
func (s idle) Insert(*Group[int], int) error {
	burn(s.insert)
	return nil
}
func (idle) Sync() error                { return nil }
func (idle) Publish(*Group[int], error) {}

// BenchmarkCommit measures one commit with a log of 4 µs a group and an insert of 1 µs a work, by how many write at once
// and how they insert. BenchmarkAlone is one commit beyond its stages.
func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{8, 64, 256} {
		for _, spread := range []bool{false, true} {
			for _, yields := range []int{0, 30, 300} {
				b.Run(fmt.Sprintf("writers=%d/spread=%v/yields=%d", writers, spread, yields), func(b *testing.B) {
					q := New[int](idle{log: 4 * time.Microsecond, insert: time.Microsecond, spread: spread})
					q.Yields = yields
					b.ReportAllocs()
					commitAll(q, writers, b.N)
					s := q.Stats()
					b.ReportMetric(float64(s.Works)/float64(s.Groups), "works/group")
				})
			}
		}
	}
}

func BenchmarkAlone(b *testing.B) {
	q := New[int](idle{})
	b.ReportAllocs()
	for i := range b.N {
		_ = q.Commit(i)
	}
}

// commitAll commits n works from that many writers.
func commitAll(q *Queue[int], writers, n int) {
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for j := i; j < n; j += writers {
				_ = q.Commit(j)
			}
		})
	}
	all.Wait()
}
