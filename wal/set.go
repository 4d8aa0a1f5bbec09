// A Set is the live logs of one database: the current one, to which the write leader appends, and older ones whose data
// is not in tables yet. Recovery brings what it finds into tables, so a Set starts empty.
//
//  1. Append and Create belong to the write leader. Everything else may be called from anywhere at any time.
//  2. mu is a leaf: it guards the list and the numbers in it, and is never held over I/O. syncing is held over fsyncs, by
//     one at a time, and taken before mu.
//  3. Logs are synced oldest first, and the directory after them: a synced write implies all before it.
//  4. A failed write or sync is never tried again on the same file. A log that failed takes no more records; one whose
//     sync failed fails every Sync until it is dropped.
//  5. What Append or Refuse refused does not count: the next log names as its predecessor's length what was accepted.

package wal

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ashlardb/ashlar/internal/batch"
	"github.com/ashlardb/ashlar/internal/fname"
	"github.com/ashlardb/ashlar/internal/kv"
	"github.com/ashlardb/ashlar/vfs"
)

var errNoLog = errors.New("no log has been created")

// Set is the live logs of a database.
type Set struct {
	// Window, when it is set before the first Create, has logs written through mappings of that many bytes at a time, where
	// the file system can. After an error of a mapping it is 0, and logs are written with write(2).
	Window int64

	// Constant after NewSet.
	fs   vfs.FS
	dir  string
	last Predecessor // what came before the first Create

	// Owned by the write leader.
	writer  *Writer
	mark    Mark
	closing sync.WaitGroup // of windows
	current *liveLog       // nil before the first Create

	// syncing is held by the one who syncs.
	syncing sync.Mutex
	tasks   []syncTask // kept for its memory

	// mu guards what follows, and the fields of liveLog that say so.
	mu   sync.Mutex
	logs []*liveLog // ascending
}

// liveLog is one log of a Set.
type liveLog struct {
	// Constant.
	number uint64
	file   vfs.File
	start  int64 // bytes before the first batch: the record that names the log before

	// Guarded by Set.mu.
	size      int64 // accepted
	written   int64 // handed to the system
	synced    int64 // safe
	lastSeq   kv.Seq
	named     bool  // the directory was synced since the file was made
	appendErr error // it takes no more records
	syncErr   error // it will never be safe
	busy      bool  // being synced: not to be closed now
	dropped   bool  // to be closed when no longer busy
}

// errLocked says why the log takes no more records.
func (l *liveLog) errLocked() error {
	if l.appendErr != nil {
		return l.appendErr
	}
	return l.syncErr
}

// maxBuffered is how much Buffer may leave in memory.
const maxBuffered = 1 << 20

// syncTask is a log and how much of it is to be made safe.
type syncTask struct {
	log  *liveLog
	size int64
	data bool // the file needs it
	name bool // the directory needs it
}

// Mark is a place in the current log, between two records.
type Mark struct {
	Size    int64  // where it is
	LastSeq kv.Seq // the last sequence number before it, in this log or an older one
}

// NewSet returns the set of logs in dir, empty until Create. last is what came before, Recovered.Last; zero for
// a new database. If it were wrong, the next recovery would take logs for given up.
func NewSet(fs vfs.FS, dir string, last Predecessor) *Set { return &Set{fs: fs, dir: dir, last: last} }

func (s *Set) path(number uint64) string { return s.fs.Join(s.dir, fname.Make(fname.Log, number)) }

// add puts l at the end of the list.
func (s *Set) add(l *liveLog) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.logs); n > 0 && s.logs[n-1].number >= l.number {
		return fmt.Errorf("log %d would come after log %d", l.number, s.logs[n-1].number)
	}
	s.logs = append(s.logs, l)
	return nil
}

// Create flushes the current log, makes a new one and makes that current: Append goes there. It writes the record that
// names the log before, and syncs nothing; the first Sync does. What is to be carried over from older logs comes right
// behind that record, and then the log is synced before it becomes current. number is above those of all logs so far. On
// error the current log stays what it was and the new file is gone, as far as the file system allows. Only the write
// leader calls it.
func (s *Set) Create(number uint64, carried ...[]byte) error {
	before := s.last
	if c := s.current; c != nil {
		if s.writer.err == nil {
			if err := s.Flush(); err != nil {
				return err
			}
		}
		s.mu.Lock()
		before = Predecessor{Number: c.number, Size: c.size, LastSeq: c.lastSeq}
		s.mu.Unlock()
	}
	if number <= before.Number {
		return fmt.Errorf("log %d would come after log %d", number, before.Number)
	}
	f, err := s.fs.Create(s.path(number))
	if err != nil {
		return err
	}
	w := NewWriter(f)
	if s.Window > 0 {
		w.mapAhead(s.Window, &s.closing)
	}
	err = w.Append(appendPredecessor(nil, before))
	for _, rec := range carried {
		if err == nil {
			err = w.Append(rec)
		}
	}
	if err == nil {
		err = w.Flush()
	}
	l := &liveLog{number: number, file: f, start: w.Size(), size: w.Size(), written: w.Size(), lastSeq: before.LastSeq}
	if err == nil && len(carried) > 0 {
		if err = f.Sync(); err == nil {
			err = s.fs.SyncDir(s.dir)
		}
		l.synced, l.named = l.size, true
	}
	if err == nil {
		if s.writer != nil {
			s.writer.err = errors.Join(s.writer.err, s.writer.unmap()) // zeros at its end do no harm
		}
		err = s.add(l)
	}
	if err != nil {
		return errors.Join(err, w.unmap(), f.Close(), s.fs.Remove(s.path(number)))
	}
	if s.writer != nil {
		w.buf, s.writer.buf = s.writer.buf[:0], nil
	}
	s.writer, s.current = w, l
	s.mark = Mark{l.size, l.lastSeq}
	return nil
}

// Append writes one record, the concatenation of parts, to the current log in one Write call. The record is a batch, the
// header within the first part. Only the write leader calls it.
//
// After an error it is open whether a crash and a recovery bring the record back, but once a new log was created they
// will not. The log takes no more records: Append fails until Create.
func (s *Set) Append(parts ...[]byte) error { return s.append(parts, true) }

// SetLastSeq tells the last sequence number of what was just appended or carried over, where the header's count does not:
// records with marks of two-phase commits. Each of these leaves out a number before its first. Without, one that only prepares
// or rolls back would take none, and recovery, which knows by the numbers whether something is missing between two logs,
// would not notice that it was lost. Only the write leader calls it.
func (s *Set) SetLastSeq(seq kv.Seq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mark.LastSeq = seq
	if s.current.errLocked() == nil { // else Refuse may have been there
		s.current.lastSeq = seq
	}
}

// Buffer is Append for those who flush their logs themselves: the record may stay in memory until Flush, Create, Close,
// Append or the next Buffer.
func (s *Set) Buffer(parts ...[]byte) error { return s.append(parts, false) }

func (s *Set) append(parts [][]byte, flush bool) error {
	l := s.current
	if l == nil {
		return errNoLog
	}
	s.mu.Lock()
	err := l.errLocked()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err = s.writer.Append(parts...); err == nil && (flush || len(s.writer.buf) >= maxBuffered) {
		flush = true
		err = s.writer.Flush()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		err = l.errLocked() // a Sync may have failed meanwhile
	}
	if err != nil {
		l.appendErr = err
		if s.writer.err != nil && s.writer.window != nil {
			s.Window = 0
		}
		return err
	}
	mark := Mark{s.writer.Size(), s.mark.LastSeq}
	if count := batch.Count(parts[0]); count > 0 {
		mark.LastSeq = batch.Seq(parts[0]) + kv.Seq(count) - 1
	}
	s.mark, l.size, l.lastSeq = mark, mark.Size, mark.LastSeq
	if flush {
		l.written = l.size
	}
	return nil
}

// Mark is where the next record will begin. Only the write leader calls it.
func (s *Set) Mark() Mark { return s.mark }

// Refuse takes back what was appended to the current log behind m, because of err, the error of a Sync: as after a failed
// Append, a recovery may bring it back only until a new log is created. Append fails until then. It may be called beside
// the leader's Append, which fails then, but not beside Create.
func (s *Set) Refuse(m Mark, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs[len(s.logs)-1]
	l.size, l.lastSeq = min(l.size, m.Size), min(l.lastSeq, m.LastSeq)
	if l.appendErr == nil {
		l.appendErr = err
	}
}

// Flush writes what Buffer left in memory. Only the write leader calls it. What is lost in an error was accepted all the
// same: the next log says so, and unless its data reached tables, recovery will find a Gap.
func (s *Set) Flush() error {
	l := s.current
	if l == nil {
		return errNoLog
	}
	err := s.writer.Flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		l.appendErr = err
		return err
	}
	l.written = l.size
	return nil
}

// Sync makes everything that was written before the call survive a crash of the machine. Appends go on meanwhile, and
// what is buffered stays so. An error is returned again by every later Sync until the log that failed is dropped.
func (s *Set) Sync() error { return s.sync(true) }

// SyncClosed is Sync without the current log.
func (s *Set) SyncClosed() error { return s.sync(false) }

func (s *Set) sync(current bool) error {
	s.syncing.Lock()
	defer s.syncing.Unlock()

	s.mu.Lock()
	s.tasks = s.tasks[:0]
	var err error
	names := false
	for i, l := range s.logs {
		if !current && i == len(s.logs)-1 {
			break
		}
		if err = l.syncErr; err != nil {
			break
		}
		t := syncTask{l, l.written, l.synced < l.written, !l.named}
		if t.data || t.name {
			l.busy = true
			s.tasks = append(s.tasks, t)
			names = names || t.name
		}
	}
	s.mu.Unlock()

	// Logs older than a failed one are synced all the same: it does no harm, and what they hold is then safe.
	done := 0
	for _, t := range s.tasks {
		if t.data {
			if serr := t.log.file.Sync(); serr != nil {
				err = s.failed(t.log, serr)
				break
			}
		}
		done++
	}
	named := false
	if names && err == nil {
		if err = s.fs.SyncDir(s.dir); err != nil {
			for _, t := range s.tasks {
				if t.name {
					s.failed(t.log, err)
				}
			}
		}
		named = err == nil
	}

	s.mu.Lock()
	var closing []*liveLog
	for i, t := range s.tasks {
		if i < done {
			t.log.synced = max(t.log.synced, t.size)
		}
		t.log.named = t.log.named || named
		t.log.busy = false
		if t.log.dropped {
			closing = append(closing, t.log)
		}
	}
	s.mu.Unlock()
	for _, l := range closing {
		l.file.Close() // nobody needs it any more
	}
	clear(s.tasks)
	return err
}

// failed notes that l will never be safe.
func (s *Set) failed(l *liveLog, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.syncErr = err
	return err
}

// DropBelow forgets and closes the logs with numbers below number, except the current one, and returns their numbers.
// The caller deletes the files.
func (s *Set) DropBelow(number uint64) (obsolete []uint64) {
	s.mu.Lock()
	var closing, rest []*liveLog
	for i, l := range s.logs {
		isCurrent := i == len(s.logs)-1
		switch {
		case l.number >= number || isCurrent:
			rest = append(rest, l)
			continue
		case l.busy:
			l.dropped = true
		default:
			closing = append(closing, l)
		}
		obsolete = append(obsolete, l.number)
	}
	s.logs = rest
	s.mu.Unlock()
	for _, l := range closing {
		l.file.Close() // nobody needs it any more
	}
	return obsolete
}

// Current is the number of the current log, 0 before the first Create.
func (s *Set) Current() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.logs); n > 0 {
		return s.logs[n-1].number
	}
	return 0
}

// CurrentEmpty says whether nothing was appended to the current log, nor failed to be. Only the write leader calls it,
// after Create.
func (s *Set) CurrentEmpty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.size == s.current.start && s.current.errLocked() == nil
}

// Numbers returns the numbers of all logs, ascending.
func (s *Set) Numbers() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	numbers := make([]uint64, len(s.logs))
	for i, l := range s.logs {
		numbers[i] = l.number
	}
	return numbers
}

// TotalSize is the sum of the logs' lengths in bytes.
func (s *Set) TotalSize() (size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.logs {
		size += l.size
	}
	return size
}

// Close flushes and closes all logs and syncs none. Neither Append nor Create may be called at the same time or after it. A
// Sync is waited for, and one that comes after finds no log.
func (s *Set) Close() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	if s.current != nil {
		if s.writer.err == nil {
			errs = append(errs, s.writer.Flush())
		}
		errs = append(errs, s.writer.unmap())
		s.closing.Wait()
	}
	for _, l := range s.logs {
		errs = append(errs, l.file.Close())
	}
	s.logs, s.current, s.writer = nil, nil, nil
	return errors.Join(errs...)
}
