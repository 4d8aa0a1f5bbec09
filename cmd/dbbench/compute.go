package main

import (
	"bytes"
	"fmt"
	"sync/atomic"

	"github.com/ashlardb/ashlar"
	"github.com/ashlardb/ashlar/internal/checksum"
	"github.com/ashlardb/ashlar/internal/compress"
)

// checksumOf returns a benchmark that takes a checksum of block_size bytes again and again.
func checksumOf(kind ashlar.ChecksumType, op opKind) func(*thread) error {
	return func(t *thread) error {
		data := bytes.Repeat([]byte{'x'}, int(t.cfg.blockSize))
		sum := uint32(0)
		for ; t.stats.bytes < t.checksummed; t.stats.bytes += int64(len(data)) {
			sum += checksum.Block(kind, data, 0)
			t.stats.Finished(1, op)
		}
		if t.terminal {
			fmt.Fprintf(t.stderr, "... val=0x%x\r", sum)
		}
		t.stats.message = fmt.Sprintf("(%d per op)", len(data))
		return nil
	}
}

// diskForm is the format version whose blocks compress and uncompress make.
const diskForm = 5

// compressBlocks compresses values of block_size bytes.
func compressBlocks(t *thread) error {
	m := t.maker()
	kind := t.cfg.compressionType()
	var out []byte
	produced := int64(0)
	for t.stats.bytes < t.compressed {
		in := m.Sized(min(int(t.cfg.blockSize), len(m.text)))
		out = kind.Compress(out[:0], in, nil)
		produced += int64(len(out))
		t.stats.bytes += int64(len(in))
		t.stats.Finished(1, opCompress)
	}
	t.stats.message = fmt.Sprintf("(output: %.1f%%)", float64(produced)*100/float64(t.stats.bytes))
	return nil
}

// uncompressBlocks reverses the compression of a value of block_size bytes.
func uncompressBlocks(t *thread) error {
	m := t.maker()
	kind := t.cfg.compressionType()
	want := m.Sized(min(int(t.cfg.blockSize), len(m.text)))
	in := kind.Compress(nil, want, nil)
	n, err := compress.DecompressedLen(kind.Disk(), diskForm, in)
	if err != nil {
		return err
	}
	out := make([]byte, n)
	for t.stats.bytes < t.compressed {
		if err := compress.DecompressInto(out, kind.Disk(), diskForm, in, nil); err != nil {
			return err
		}
		t.stats.bytes += int64(len(out))
		t.stats.Finished(1, opUncompress)
	}
	if !bytes.Equal(out, want) {
		return fmt.Errorf("a block is not the same after compression by %v", kind)
	}
	return nil
}

// acquireLoad loads a pointer with the order that a reader of shared data needs, a thousand times an operation.
func acquireLoad(t *thread) error {
	var word int
	var p atomic.Pointer[int]
	p.Store(&word)
	for range t.loads {
		for range 1000 {
			if p.Load() == nil {
				return fmt.Errorf("a pointer is lost")
			}
		}
		t.stats.Finished(1, opOther)
	}
	t.stats.message = "(each op is 1000 loads)"
	return nil
}
