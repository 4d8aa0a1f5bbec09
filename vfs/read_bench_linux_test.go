package vfs

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkReadBlock copies blocks of 4 KiB from anywhere in a file that the system has in memory: with pread; out of a
// mapping whose pages are there; and out of one that has to be given each page anew (and gives it back, which is in the
// figure), as where more is read than is kept mapped. Both ways out of a mapping have faults made panics, so that they
// could be errors. What came of it stands at readAt in package sstable.
func BenchmarkReadBlock(b *testing.B) {
	const size, block = 256 << 20, 4096
	name := filepath.Join(b.TempDir(), "f")
	f, err := OS.Create(name)
	require.NoError(b, err)
	chunk := make([]byte, 1<<20)
	for range size / len(chunk) {
		_, err := f.Write(chunk)
		require.NoError(b, err)
	}
	require.NoError(b, f.Close())
	f, err = OS.Open(name)
	require.NoError(b, err)
	defer f.Close()
	file, err := os.Open(name)
	require.NoError(b, err)
	defer file.Close()
	mapped := func(b *testing.B) []byte {
		mem, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, unix.Munmap(mem)) })
		return mem
	}
	guarded := func(dst, src []byte) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		copy(dst, src)
	}
	var seed atomic.Uint64
	run := func(b *testing.B, read func(p []byte, off int64)) {
		b.RunParallel(func(pb *testing.PB) {
			p := make([]byte, block+5)
			rng := rand.New(rand.NewPCG(seed.Add(1), 1))
			for pb.Next() {
				read(p, rng.Int64N(size-block-5))
			}
		})
	}
	b.Run("pread", func(b *testing.B) {
		run(b, func(p []byte, off int64) {
			if _, err := f.ReadAt(p, off); err != nil {
				panic(err)
			}
		})
	})
	b.Run("mapped", func(b *testing.B) {
		mem := mapped(b)
		for i := 0; i < size; i += 4096 {
			seed.Add(uint64(mem[i]))
		}
		b.ResetTimer()
		run(b, func(p []byte, off int64) { guarded(p, mem[off:]) })
	})
	b.Run("mapped, page by page for the first time", func(b *testing.B) {
		mem := mapped(b)
		require.NoError(b, unix.Madvise(mem, unix.MADV_RANDOM))
		run(b, func(p []byte, off int64) {
			guarded(p, mem[off:])
			_ = unix.Madvise(mem[off&^4095:][:8192], unix.MADV_DONTNEED)
		})
	})
}
