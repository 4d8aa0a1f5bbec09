package memtable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/internal/lookup"
)

// dbBenchKey writes db_bench's key of 16 bytes: the number, big-endian, and zeros in ASCII.
func dbBenchKey(dst []byte, n uint64) {
	binary.BigEndian.PutUint64(dst, n)
	copy(dst[8:16], "00000000")
}

const (
	benchArena = 64 << 20
	benchKeys  = 10_000_000
)

// noRank is the default order without its privileges: every step of a search looks at a key.
var noRank = &kv.Comparer{Name: "norank", Compare: bytes.Compare}

func benchTable(b *testing.B, cmp *kv.Comparer) *Table {
	a, err := NewArena(benchArena)
	if err != nil {
		b.Fatal(err)
	}
	return New(cmp, a, 1)
}

// fillTable inserts entries of 16 + 100 bytes until the arena may be full, and returns how many.
func fillTable(b *testing.B, t *Table, h *Hint, n int, number func() uint64) int {
	var key [16]byte
	var value [100]byte
	room := int64(benchArena - MaxEntrySize(len(key), len(value)))
	for i := range n {
		if t.Bytes() > room {
			return i
		}
		dbBenchKey(key[:], number())
		if err := t.Insert(h, key[:], kv.MakeTrailer(kv.Seq(i+1), kv.KindValue), value[:]); err != nil {
			b.Fatal(err)
		}
	}
	return n
}

// benchInsert fills one arena after the other. Beside the wall clock it reports the thread's own time, which neighbours
// on a busy machine disturb less, and that of the fastest whole arena.
func benchInsert(b *testing.B, cmp *kv.Comparer, number func() uint64) {
	b.ReportAllocs()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	best := math.Inf(1)
	var sum float64
	for left := b.N; left > 0; {
		b.StopTimer()
		t := benchTable(b, cmp)
		var h Hint
		b.StartTimer()
		began := threadTime()
		n := fillTable(b, t, &h, left, number)
		took := float64(threadTime() - began)
		b.StopTimer()
		if left -= n; left > 0 {
			best = min(best, took/float64(n))
		}
		sum += took
		t.Release()
		b.StartTimer()
	}
	b.ReportMetric(sum/float64(b.N), "cpu-ns/op")
	if !math.IsInf(best, 1) {
		b.ReportMetric(best, "best-cpu-ns/op")
	}
}

func randomNumber() func() uint64 {
	rng := rand.New(rand.NewPCG(1, 2))
	return func() uint64 { return rng.Uint64N(benchKeys) }
}

func BenchmarkInsertRandom(b *testing.B) {
	for _, c := range []struct {
		name string
		cmp  *kv.Comparer
	}{{"rank", kv.Bytewise}, {"norank", noRank}} {
		for _, huge := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/huge=%v", c.name, huge), func(b *testing.B) {
				withHugePages(huge, func() { benchInsert(b, c.cmp, randomNumber()) })
			})
		}
	}
}

func BenchmarkInsertAscending(b *testing.B) {
	var n uint64
	benchInsert(b, kv.Bytewise, func() uint64 { n++; return n })
}

func filled(b *testing.B) (*Table, int) {
	t := benchTable(b, kv.Bytewise)
	var h Hint
	n := fillTable(b, t, &h, 1<<30, randomNumber())
	b.Cleanup(t.Release)
	b.ReportAllocs()
	b.ResetTimer()
	return t, n
}

func BenchmarkGet(b *testing.B) {
	t, n := filled(b)
	number := randomNumber()
	var key [16]byte
	for i := range b.N {
		if i%n == 0 {
			number = randomNumber() // the same keys again
		}
		dbBenchKey(key[:], number())
		g := lookup.Get{User: key[:], Seq: kv.MaxSeq}
		if !t.Get(&g) {
			b.Fatal("lost")
		}
	}
}

func BenchmarkNext(b *testing.B) {
	t, _ := filled(b)
	it := t.NewIter()
	for range b.N {
		if it.Next() == nil {
			it.First()
		}
	}
}

func BenchmarkPrev(b *testing.B) {
	t, _ := filled(b)
	it := t.NewIter()
	it.Last()
	for range b.N {
		if it.Prev() == nil {
			it.Last()
		}
	}
}

// BenchmarkPrevBySearch is what Prev would cost from the top each time.
func BenchmarkPrevBySearch(b *testing.B) {
	t, _ := filled(b)
	it := t.NewIter()
	e := it.Last()
	for range b.N {
		if e = it.SeekLT(e.Key); e == nil {
			e = it.Last()
		}
	}
}
