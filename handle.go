package ashlar

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// handleKind is a thing of the user's that keeps a closed database alive.
type handleKind uint8

const (
	handleIterator handleKind = iota
	handlePinned
	numHandleKinds
)

func (k handleKind) String() string { return [...]string{"iterator", "pinned value"}[k] }

// handle remembers where one was made, with Options.TrackHandles.
type handle struct {
	family string
	stack  []byte
}

// handleSet counts open handles.
type handleSet struct {
	track bool
	open  [numHandleKinds]atomic.Int64
	alone atomic.Bool // Close has done its part, and counts those that are open
	mu    sync.Mutex  // a leaf
	made  map[*handle]handleKind
}

func (s *handleSet) add(k handleKind, family string) *handle {
	s.open[k].Add(1)
	if !s.track {
		return nil
	}
	h := &handle{family, debug.Stack()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made == nil {
		s.made = map[*handle]handleKind{}
	}
	s.made[h] = k
	return h
}

func (s *handleSet) remove(k handleKind, h *handle) {
	if h != nil {
		s.mu.Lock()
		delete(s.made, h)
		s.mu.Unlock()
	}
	s.open[k].Add(-1)
}

func (s *handleSet) count() (n int64) {
	for k := range s.open {
		n += s.open[k].Load()
	}
	return n
}

// busy is the error of a Close that finds handles open, nil if there are none. From now on the last one waits for the
// end.
func (s *handleSet) busy() error {
	s.alone.Store(true)
	if s.count() == 0 {
		return nil
	}
	text := ""
	for k := range s.open {
		if n := s.open[k].Load(); n > 0 {
			text += fmt.Sprintf(" %d open %v(s)", n, handleKind(k))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for h, k := range s.made {
		text += fmt.Sprintf("\n%v of column family %q made at:\n%s", k, h.family, h.stack)
	}
	return fmt.Errorf("%w: Close waits for%s", ErrBusy, text)
}

// closeHandle lets go of a handle. After a Close that returned ErrBusy the last one returns only when the database is
// closed for good. Not before: a Close under way may be waiting for the very goroutine that is here, a listener's.
func (d *DB) closeHandle(k handleKind, h *handle) {
	d.handles.remove(k, h)
	if d.handles.alone.Load() && d.handles.count() == 0 {
		<-d.finished
	}
}
