// A Writer turns records into fragments.
//
//  1. Append only fills a buffer; Flush makes one Write call of it, or stores it (mapped.go). The buffer is kept and used
//     again.
//  2. After a Write or Sync that failed, nobody knows what the file holds: the Writer is broken for good.

package wal

import (
	"io"
	"slices"
	"sync"

	"github.com/ashlardb/ashlar/vfs"
)

// keepBuffer is the size up to which a Writer keeps its buffer after Flush.
const keepBuffer = 4 << 20

// Writer appends records to a new log or manifest file. It belongs to one goroutine at a time.
type Writer struct {
	file  vfs.File
	buf   []byte // appended and not yet flushed
	pad   int    // how much of buf is the end of a block, before the first header
	block int    // bytes used in the current block
	size  int64
	err   error // the first failure; returned by every call after it

	// Of a mapped file.
	flushed    int64 // bytes of the file that are records
	mapper     vfs.Mapper
	window     *window
	windowSize int64 // 0: not mapped
	closing    *sync.WaitGroup
}

// NewWriter returns a Writer for f, which is empty. The Writer closes it.
func NewWriter(f vfs.File) *Writer { return &Writer{file: f} }

var padding [headerSize]byte

// Append buffers one record, the concatenation of parts. It keeps none of them. A record may be empty.
func (w *Writer) Append(parts ...[]byte) error {
	if w.err != nil {
		return w.err
	}
	left := 0
	for _, p := range parts {
		left += len(p)
	}
	before := len(w.buf)
	w.buf = slices.Grow(w.buf, left+(left/(BlockSize-headerSize)+3)*headerSize)
	var part []byte // what is left of the part before parts
	for first := true; ; first = false {
		room := BlockSize - w.block
		if room < headerSize {
			if len(w.buf) == 0 {
				w.pad = room
			}
			w.buf = append(w.buf, padding[:room]...)
			w.block, room = 0, BlockSize
		}
		n := min(left, room-headerSize)
		left -= n
		start := len(w.buf)
		w.buf = append(w.buf, padding[:]...)
		for n > 0 {
			if len(part) == 0 {
				part, parts = parts[0], parts[1:]
				continue
			}
			m := min(n, len(part))
			w.buf = append(w.buf, part[:m]...)
			part, n = part[m:], n-m
		}
		w.block += len(w.buf) - start
		seal(w.buf[start:], fragmentType(first, left == 0))
		if left == 0 {
			break
		}
	}
	w.size += int64(len(w.buf) - before)
	return nil
}

func fragmentType(first, last bool) recordType {
	switch {
	case first && last:
		return typeFull
	case first:
		return typeFirst
	case last:
		return typeLast
	}
	return typeMiddle
}

// Flush hands what is buffered to the file in one Write call, or one Store.
func (w *Writer) Flush() error {
	if w.err != nil || len(w.buf) == 0 {
		return w.err
	}
	stored, err := false, error(nil)
	if w.window != nil {
		stored, err = w.store()
	}
	if err == nil && !stored {
		var n int
		if n, err = w.file.Write(w.buf); err == nil && n < len(w.buf) {
			err = io.ErrShortWrite
		}
	}
	if err != nil {
		w.err = err
		return err
	}
	w.flushed += int64(len(w.buf))
	w.buf, w.pad = w.buf[:0], 0
	if cap(w.buf) > keepBuffer {
		w.buf = nil
	}
	return nil
}

// Sync flushes, then makes all that was appended survive a crash of the machine.
func (w *Writer) Sync() error {
	if err := w.Flush(); err != nil {
		return err
	}
	w.err = w.file.Sync()
	return w.err
}

// Size is the length of the file with everything that was appended, flushed or not.
func (w *Writer) Size() int64 { return w.size }

// Close flushes and closes the file. It does not sync.
func (w *Writer) Close() error {
	err := w.Flush()
	if cerr := w.file.Close(); err == nil {
		err = cerr
	}
	return err
}
