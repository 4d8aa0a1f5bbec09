package compress

// The coders. Rules:
//
//  1. A decoder writes into dst[:len(dst):len(dst)] and nowhere else, and fails unless it fills it exactly.
//  2. A coder in a pool keeps no reference to a caller's memory.

import (
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/s2"
	"github.com/pierrec/lz4/v4"
)

func compressSnappy(dst, src []byte) []byte {
	n := len(dst)
	dst = slices.Grow(dst, s2.MaxEncodedLen(len(src)))
	out := s2.EncodeSnappy(dst[n:cap(dst)], src)
	return dst[:n+len(out)]
}

func decompressSnappy(dst, payload []byte) error {
	_, err := s2.Decode(dst[:len(dst):len(dst)], payload)
	if err != nil {
		return fmt.Errorf("Snappy: %w", err)
	}
	return nil
}

var (
	lz4Compressors   = sync.Pool{New: func() any { return new(lz4.Compressor) }}
	lz4HCCompressors = sync.Pool{New: func() any { return &lz4.CompressorHC{Level: lz4.Level9} }}
)

func compressLZ4(dst, src []byte) ([]byte, bool) {
	n := len(dst)
	dst = slices.Grow(dst, lz4.CompressBlockBound(len(src)))
	c := lz4Compressors.Get().(*lz4.Compressor)
	m, err := c.CompressBlock(src, dst[n:cap(dst)])
	lz4Compressors.Put(c)
	return dst[:n+m], err == nil && m > 0
}

func compressLZ4HC(dst, src []byte) ([]byte, bool) {
	n := len(dst)
	dst = slices.Grow(dst, lz4.CompressBlockBound(len(src)))
	c := lz4HCCompressors.Get().(*lz4.CompressorHC)
	m, err := c.CompressBlock(src, dst[n:cap(dst)])
	lz4HCCompressors.Put(c)
	return dst[:n+m], err == nil && m > 0
}

// lz4Window is how far back an LZ4 block can refer: of a longer dictionary only the end counts.
const lz4Window = 64 << 10

func decompressLZ4(dst, payload, dict []byte) error {
	if len(dict) > lz4Window {
		dict = dict[len(dict)-lz4Window:]
	}
	if len(dst) == 0 {
		// The library's assembly writes through the address of an empty destination. No bytes are one empty sequence.
		if len(payload) == 1 && payload[0] == 0 {
			return nil
		}
		return errNotWhole
	}
	n, err := lz4.UncompressBlockWithDict(payload, dst, dict)
	if err != nil {
		return fmt.Errorf("LZ4: %w", err)
	}
	if n != len(dst) {
		return errNotWhole
	}
	return nil
}

// flateWriter is a deflate coder that appends to out.
type flateWriter struct {
	out []byte
	w   *flate.Writer
}

func (f *flateWriter) Write(p []byte) (int, error) {
	f.out = append(f.out, p...)
	return len(p), nil
}

func newFlateWriter(dict []byte) *flateWriter {
	f := new(flateWriter)
	f.w, _ = flate.NewWriterDict(f, flate.DefaultCompression, dict) // fails for levels that do not exist only
	return f
}

var flateWriters = sync.Pool{New: func() any { return newFlateWriter(nil) }}

// compressZlib cannot fail: flateWriter takes every byte. A coder with a dictionary is made for each block: no writer of ours gives one
// to Zlib often enough to keep them.
func compressZlib(dst, src, dict []byte) []byte {
	var f *flateWriter
	if len(dict) > 0 {
		f = newFlateWriter(dict)
	} else {
		f = flateWriters.Get().(*flateWriter)
		defer flateWriters.Put(f)
		f.w.Reset(f)
	}
	f.out = dst
	_, _ = f.w.Write(src)
	_ = f.w.Close()
	dst, f.out = f.out, nil
	return dst
}

// flateReader is a deflate decoder with its source.
type flateReader struct {
	src  bytes.Reader
	r    io.ReadCloser
	over [1]byte // for the look behind the end, off the stack once
}

var flateReaders = sync.Pool{New: func() any {
	f := new(flateReader)
	f.r = flate.NewReader(&f.src)
	return f
}}

func openZlib(payload, dict []byte) (*flateReader, error) {
	f := flateReaders.Get().(*flateReader)
	f.src.Reset(payload)
	return f, f.r.(flate.Resetter).Reset(&f.src, dict)
}

func (f *flateReader) release() {
	f.src.Reset(nil)
	flateReaders.Put(f)
}

func decompressZlib(dst, payload, dict []byte) error {
	f, err := openZlib(payload, dict)
	defer f.release()
	if err == nil {
		err = readExactly(f.r, dst, f.over[:])
	}
	return wrapRead("Zlib", err)
}

func decompressBZip2(dst, payload []byte) error {
	return wrapRead("BZip2", readExactly(bzip2.NewReader(bytes.NewReader(payload)), dst, make([]byte, 1)))
}

// decompressUnsized reads to the end of the stream, which must come before limit; memory grows with what really comes out.
func decompressUnsized(diskType byte, payload, dict []byte, limit int64) ([]byte, error) {
	name, r := "BZip2", io.Reader(nil)
	if diskType == diskZlib {
		f, err := openZlib(payload, dict)
		defer f.release()
		if err != nil {
			return nil, wrapRead("Zlib", err)
		}
		name, r = "Zlib", f.r
	} else {
		r = bzip2.NewReader(bytes.NewReader(payload))
	}
	var out bytes.Buffer
	n, err := out.ReadFrom(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, wrapRead(name, err)
	}
	if n > limit {
		return nil, fmt.Errorf("%s: block has more than %d bytes", name, limit)
	}
	return out.Bytes(), nil
}

// readExactly fills dst from r and wants the end then. over is one byte to look for it with.
func readExactly(r io.Reader, dst, over []byte) error {
	if _, err := io.ReadFull(r, dst); err != nil {
		return err
	}
	for {
		n, err := r.Read(over)
		if n > 0 {
			return errTrailing
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func wrapRead(name string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%s: %w", name, err)
}
