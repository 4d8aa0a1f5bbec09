package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
)

// errEarly is what a reader of chunks gets for a snapshot that its sender gave up.
var errEarly = errors.New("the snapshot ended early")

// writeSnapshot writes a snapshot's frame and chunks. After an error nothing more is written, so that the reader sees no end.
func writeSnapshot(w io.Writer, frame []byte, chunks iter.Seq2[[]byte, error]) error {
	if _, err := w.Write(frame); err != nil {
		return err
	}
	var size [4]byte
	for chunk, err := range chunks {
		if err == nil && len(chunk) > maxChunk {
			err = fmt.Errorf("%w: a chunk of %d bytes", ErrFrame, len(chunk))
		}
		if err != nil {
			return err
		}
		if len(chunk) == 0 {
			continue // its length would be the end
		}
		binary.BigEndian.PutUint32(size[:], uint32(len(chunk)))
		if _, err := w.Write(size[:]); err != nil {
			return err
		}
		if _, err := w.Write(chunk); err != nil {
			return err
		}
	}
	clear(size[:])
	_, err := w.Write(size[:])
	return err
}

// readChunks reads what writeSnapshot wrote behind the frame. A chunk lives until the next. lost is asked before each.
func readChunks(r io.Reader, lost func() bool) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var size [4]byte
		for {
			_, err := io.ReadFull(r, size[:])
			n := binary.BigEndian.Uint32(size[:])
			switch {
			case err != nil:
				err = fmt.Errorf("%w: %w", errEarly, unexpected(err))
			case lost():
				err = errEarly
			case n == 0:
				return
			case n > maxChunk:
				err = fmt.Errorf("%w: a chunk of %d bytes", ErrFrame, n)
			}
			var chunk []byte
			if err == nil {
				chunk, err = readExactly(r, int(n))
			}
			if !yield(chunk, err) || err != nil {
				return
			}
		}
	}
}
