// A Writer may put its records into a mapping instead of writing them: a copy, and no system call.
//
//  1. The file is mapped a window at a time; its length is the end of the window, zeros behind the records. Where it cannot
//     be mapped, or no room is left on the disk, the Writer goes on with write(2). At the end the file is cut to its records.
//  2. A Flush stores everything but the first 8 bytes, then these: the header of the first fragment and a byte of its
//     payload. So a killed process leaves the records of a Flush, or something that begins with a zero header. Later
//     fragments may be whole behind it: RocksDB's ldb dump_wal then ends with "missing start of fragmented record".
//  3. Somebody in the background lets the system make the pages ahead of the records, at most aheadMost of them, in
//     aheadStep at a time. The Writer does not wait for it.

package wal

import (
	"sync"

	"github.com/ashlardb/ashlar/vfs"
)

const (
	mapUnit   = 64 << 10 // windows are multiples of it
	aheadMost = 1 << 20
	aheadStep = 256 << 10
)

// window is a mapped part of a log.
type window struct {
	mapping  vfs.Mapping
	off, end int64
	want     chan int64 // how far the pages are to be made; one slot, the latest counts
	asked    int64      // what was sent on want last
	done     chan struct{}
}

// mapWindow maps size bytes from off on, which it may change to multiples of mapUnit outside of these.
func mapWindow(f vfs.Mapper, off, size int64) (*window, error) {
	end := (off + size + mapUnit - 1) / mapUnit * mapUnit
	start := off / mapUnit * mapUnit
	mapping, err := f.Map(start, end-start)
	if err != nil {
		return nil, err
	}
	w := &window{mapping: mapping, off: start, end: end, want: make(chan int64, 1), done: make(chan struct{})}
	go w.populate(off)
	w.ahead(off)
	return w, nil
}

// ahead has the pages made of what comes behind off.
func (w *window) ahead(off int64) {
	if want := min(w.end, off+aheadMost); want == w.end && w.asked < w.end || want >= w.asked+aheadStep {
		select {
		case <-w.want: // has not been looked at yet
		default:
		}
		w.want <- want
		w.asked = want
	}
}

// populate makes pages until want is closed.
func (w *window) populate(from int64) {
	defer close(w.done)
	from = from / aheadStep * aheadStep
	for want := range w.want {
		for from = max(from, w.off); from < want; from += aheadStep {
			if w.mapping.Populate(from, min(aheadStep, w.end-from)) != nil {
				from = w.end // no use to go on
			}
		}
	}
}

// close ends the mapping, in the background since it takes a while; closing is done then.
func (w *window) close(closing *sync.WaitGroup) {
	close(w.want)
	closing.Go(func() {
		<-w.done
		w.mapping.Close() // what was stored is in the file
	})
}

// mapAhead makes w store into windows of size bytes from now on, if its file can be mapped. closing is for what is left to
// be done when a window is at its end.
func (w *Writer) mapAhead(size int64, closing *sync.WaitGroup) {
	m, ok := w.file.(vfs.Mapper)
	if !ok {
		return
	}
	w.mapper, w.windowSize, w.closing = m, size, closing
	if w.window, _ = mapWindow(m, w.flushed, size); w.window == nil {
		w.err = w.unmap()
	}
}

// store puts the buffer into the mapping. Without an error and not stored, it is to be written.
func (w *Writer) store() (stored bool, err error) {
	// Padding in front is there already, as zeros, and the header behind it is what has to come last.
	p, off := w.buf[w.pad:], w.flushed+int64(w.pad)
	if off+int64(len(p)) > w.window.end {
		w.window.close(w.closing)
		if w.window, _ = mapWindow(w.mapper, off, max(w.windowSize, int64(len(p)))); w.window == nil {
			return false, w.unmap()
		}
	}
	if err := w.window.mapping.Store(off, p); err != nil {
		return false, err
	}
	w.window.ahead(off + int64(len(p)))
	return true, nil
}

// unmap makes w write from now on, at the end of what was flushed.
func (w *Writer) unmap() error {
	if w.windowSize == 0 {
		return nil
	}
	w.windowSize = 0
	if w.window != nil {
		w.window.close(w.closing)
		w.window = nil
	}
	return w.file.Truncate(w.flushed)
}
